"""Bits become integers under a mask: the right ones, and what is opened says nothing of them."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pytest

from fairshares.protocols.accounting.exact_privacy import Gates, Wire
from fairshares.protocols.circuits import integers
from fairshares.protocols.circuits.integers import add_to_columns, sum_of_bits, sum_of_columns

NUMBER = 2**64


@dataclass(frozen=True)
class Bit:
    """A bit in the clear, with the names of MP-SPDZ's secret bits."""

    value: int
    n: int = 1

    def __xor__(self, other: "Bit") -> "Bit":
        return Bit(self.value ^ other.value)

    def __and__(self, other: "Bit") -> "Bit":
        return Bit(self.value & other.value)

    def __invert__(self) -> "Bit":
        return Bit(1 - self.value)

    def reveal(self) -> "Bit":
        return self

    def to_regint_by_bit(self) -> int:
        return self.value


class Integer:
    """MP-SPDZ's sint in the clear, whose mask is the sum of `numbers`; keeps what is opened."""

    parties_that_mask = 0
    numbers: Sequence[int] = ()
    opened: list[int] = []  # noqa: RUF012 - each test sets its own

    def __init__(self, value: int) -> None:
        self.value = value
        if isinstance(value, int):
            self.opened.append(value)

    @classmethod
    def get_random(cls, *, size: int) -> Self:
        assert size == 1
        made = cls.__new__(cls)
        made.value = sum(cls.numbers)
        return made

    def split_to_n_summands(self, bits: int, parties: int) -> list[list[Bit]]:
        assert parties == len(self.numbers)
        return [[Bit(number >> place & 1) for number in self.numbers] for place in range(bits)]

    def __sub__(self, other: "Integer") -> int:
        return self.value - other.value


def masked(terms: list[tuple[Bit, int]], numbers: Sequence[int]) -> tuple[int, int]:
    """Return the sum of weighted bits under a mask of these numbers, and what was opened."""

    class Masked(Integer):
        parties_that_mask = len(numbers)
        opened: list[int] = []  # noqa: RUF012

    Masked.numbers = numbers
    total = sum_of_bits(terms, Masked)
    (opened,) = Masked.opened
    assert isinstance(total, int)
    return total, opened


@pytest.mark.parametrize("parties", [2, 3, 4, 5, 8, 10, 16])
def test_a_sum_under_a_mask_is_the_sum(parties: int) -> None:
    draw = random.Random(parties)
    for _ in range(60):
        terms = []
        for _ in range(draw.randrange(1, 12)):
            terms.append((Bit(draw.getrandbits(1)), draw.choice([1, -1]) * draw.randrange(1, 300)))
        total, opened = masked(terms, [draw.getrandbits(64) for _ in range(parties)])
        assert (total - sum(bit.value * weight for bit, weight in terms)) % NUMBER == 0
        assert 0 <= opened < NUMBER


@pytest.mark.parametrize("parties", [3, 4])
def test_what_is_opened_is_uniform_for_all_who_lack_a_number(
    parties: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By enumeration, in a ring of 3 bits, whichever party is honest and whatever the others' numbers are."""
    bits = 3
    monkeypatch.setattr(integers, "MASK_BITS", bits)
    others = [(5, 3, 6)[: parties - 1], (0, 0, 0)[: parties - 1]]
    for shown in itertools.product((0, 1), repeat=3):
        terms = [(Bit(bit), weight) for bit, weight in zip(shown, (1, 2, -4), strict=True)]
        for numbers, honest in itertools.product(others, range(parties)):
            seen = Counter(
                masked(terms, [*numbers[:honest], own, *numbers[honest:]])[1] for own in range(1 << bits)
            )
            assert seen == Counter(range(1 << bits))


@pytest.mark.parametrize("width", [1, 2, 3, 7, 64])
def test_columns_add_up_whatever_their_heights(width: int) -> None:
    draw = random.Random(width)
    for _ in range(200):
        columns = [[Bit(draw.getrandbits(1)) for _ in range(draw.randrange(1, 9))] for _ in range(width)]
        expected = sum(bit.value << place for place, column in enumerate(columns) for bit in column)
        total = sum_of_columns(columns)
        assert len(total) == width
        assert sum(bit.value << place for place, bit in enumerate(total)) == expected % (1 << width)


def test_a_weight_below_0_is_a_complement_and_a_constant() -> None:
    columns: list[list[Bit]] = [[], [], []]
    constant = add_to_columns(columns, [(Bit(1), -5), (Bit(1), 2)])
    assert constant == -5 and columns == [[Bit(0)], [Bit(1)], [Bit(0)]]


@pytest.mark.parametrize(
    ("parties", "ands", "depth"), [(3, 364, 13), (5, 489, 14), (8, 677, 15), (10, 795, 15), (16, 1169, 16)]
)
def test_adders_take_few_ands_and_rounds(parties: int, ands: int, depth: int) -> None:
    """Of noise: eight bits and one to add. A carry that ripples through the columns would take 60 rounds."""
    counted = Gates()
    columns = [[Wire(counted) for _ in range(parties)] for _ in range(64)]
    add_to_columns(columns, [(Wire(counted), 1 << min(place, 7)) for place in (*range(8), 0)])
    sum_of_columns(columns)
    assert (counted.ands, counted.depth) == (ands, depth)
