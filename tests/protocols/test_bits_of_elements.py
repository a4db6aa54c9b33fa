"""Whatever a party enters for a bit, in malicious-shamir others' bits stay secret, and noise is noise.

There a bit is an element of GF(2^40), of which 0 and 1 are bits. GF(4) is the smallest such field: its
elements are the integers 0 to 3, two bits each.
"""

from collections import Counter
from itertools import product
from typing import ClassVar

import pytest

from fairshares.protocols.circuits import noise
from fairshares.protocols.circuits.noise import bit_of_element, xor_of_inputs

ELEMENTS = range(4)
BITS = (0, 1)
# The product of elements a and b: of polynomials modulo x^2 + x + 1.
PRODUCTS = [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]


class Element:
    """A secret element; `seen` has what was opened, as parties who deviate see it."""

    seen: ClassVar[list[int]] = []

    def __init__(self, value: int) -> None:
        self.value = value

    def __xor__(self, other: "Element") -> "Element":
        return Element(self.value ^ other.value)

    def __and__(self, other: "Element") -> "Element":
        return Element(PRODUCTS[self.value][other.value])

    def reveal(self) -> "Element":
        """Open it; those who follow the program take its lowest bit."""
        self.seen.append(self.value)
        return Element(self.value & 1)


class Machine:
    """Stands for sint: the bits that the machine makes and checks are given."""

    def __init__(self, own: list[int]) -> None:
        self._own = iter(own)

    def get_dabit(self, size: int) -> tuple[None, Element]:
        """Return an integer, which nobody uses, and its bit."""
        assert size == 1
        return None, Element(next(self._own))


@pytest.fixture(autouse=True)
def seen() -> list[int]:
    Element.seen = []
    return Element.seen


@pytest.mark.parametrize("entered", ELEMENTS)
def test_an_element_becomes_a_bit_and_says_nothing(entered: int, seen: list[int]) -> None:
    """`entered` is what a party that deviates adds to the bit of those who do not."""
    opened = []
    for honest in BITS:
        for own in BITS:
            made = bit_of_element(Machine([own]), Element(honest) ^ Element(entered), 1)
            assert made.value == honest ^ (entered & 1), "a bit, by the honest one's as likely 0 as 1"
        opened.append(Counter(seen))
        seen.clear()
    assert opened[0] == opened[1], "the same whatever the honest bit is"


def views(*, converts: bool) -> dict[tuple[int, ...], set[tuple[tuple[tuple[int, ...], int], ...]]]:
    """Return what a party sees that enters the elements of the key, by each pair of the honest party's bits.

    Two bits are drawn, multiplied, and the product is turned into an integer: it is opened under a bit of the
    machine's.
    """
    found: dict[tuple[int, ...], set[tuple[tuple[tuple[int, ...], int], ...]]] = {}
    for entered in product(ELEMENTS, repeat=2):
        of_honest = set()
        for honest in product(BITS, repeat=2):
            view = Counter[tuple[int, ...]]()
            for owns in product(BITS, repeat=3):
                Element.seen = []
                machine = Machine(list(owns[:2]))
                bits = [Element(a) ^ Element(b) for a, b in zip(honest, entered, strict=True)]
                if converts:
                    bits = [bit_of_element(machine, bit, 1) for bit in bits]
                first, second = bits
                ((first & second) ^ Element(owns[2])).reveal()
                view[tuple(Element.seen)] += 1
            of_honest.add(tuple(sorted(view.items())))
        found[entered] = of_honest
    return found


def test_products_of_what_parties_enter_would_tell_of_others_bits() -> None:
    """Why elements become bits first: with x in the second's place the first bit is in the product's x."""
    told = {entered for entered, of_honest in views(converts=False).items() if len(of_honest) > 1}
    assert told == {entered for entered in product(ELEMENTS, repeat=2) if max(entered) > 1}


def test_products_of_bits_tell_nothing() -> None:
    assert all(len(of_honest) == 1 for of_honest in views(converts=True).values())


class Columns:
    """Stands for sbitvec, of a bit and a lane: what each party enters is given."""

    def __init__(self, entered: list[int]) -> None:
        self._entered = entered

    def get_type(self, _width: int) -> "Columns":
        return self

    def get_input_from(self, party: int, size: int) -> "Columns":
        assert size == 1
        return Columns([self._entered[party]])

    @property
    def v(self) -> list[Element]:
        """The bits."""
        return [Element(self._entered[0])]


@pytest.mark.parametrize("may_enter", [True, False])
def test_all_that_parties_enter_becomes_bits_where_it_may_be_none(
    may_enter: bool, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    monkeypatch.setattr(noise, "may_enter_no_bits", lambda: may_enter)
    for entered, own in product(product(BITS, ELEMENTS, BITS), BITS):
        seen.clear()
        (bit,) = xor_of_inputs(Machine([own]), Columns([*entered]), 3, 1, 1)
        total = entered[0] ^ entered[1] ^ entered[2]
        assert bit.value == (total & 1 if may_enter else total)
        assert seen == ([total ^ own] if may_enter else [])
