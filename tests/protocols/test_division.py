"""Long division in secret bits, run on numpy's: exact everywhere, and as deep and as large as it is said."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from protocols.circuits.division import add, quotient, subtract

Bit = npt.NDArray[np.bool_]


class Counted:
    """A secret bit in one lane that counts ANDs, and how many of them depend on each other."""

    ands = 0

    def __init__(self, value: bool, depth: int = 0) -> None:
        self.value, self.depth = value, depth

    def __and__(self, other: "Counted") -> "Counted":
        Counted.ands += 1
        return Counted(self.value and other.value, max(self.depth, other.depth) + 1)

    def __xor__(self, other: "Counted") -> "Counted":
        return Counted(self.value != other.value, max(self.depth, other.depth))

    def __invert__(self) -> "Counted":
        return Counted(not self.value, self.depth)


def to_bits(values: Sequence[int], width: int) -> list[Bit]:
    """Return `width` bits, lowest first, a lane per value."""
    assert all(0 <= value < 1 << width for value in values)
    return [np.array([value >> i & 1 for value in values], dtype=bool) for i in range(width)]


def to_integers(bits: Sequence[Bit | None], lanes: int) -> list[int]:
    return [sum(int(bit[k]) << i for i, bit in enumerate(bits) if bit is not None) for k in range(lanes)]


def check(
    numerators: Sequence[int],
    divisors: Sequence[int],
    widths: tuple[int, int],
    smallest: int,
    fraction: int,
    radixes: Iterable[int] = range(1, 6),
) -> None:
    """Compare with Python's integers."""
    expected = [(n << fraction) // d for n, d in zip(numerators, divisors, strict=True)]
    for radix_bits in radixes:
        bits = (to_bits(numerators, widths[0]), to_bits(divisors, widths[1]))
        found = quotient(*bits, fraction, smallest, radix_bits)
        assert to_integers(found, len(expected)) == expected
        assert len(found) == max(0, fraction + widths[0] - (smallest.bit_length() - 1))


@pytest.mark.parametrize("smallest", [1, 2, 3, 5])
@pytest.mark.parametrize("widths", [(4, 4), (6, 3), (3, 6), (1, 4)])
def test_all_small_quotients(widths: tuple[int, int], smallest: int) -> None:
    pairs = list(itertools.product(range(1 << widths[0]), range(smallest, 1 << widths[1])))
    numerators, divisors = zip(*pairs, strict=True)
    for fraction in (1, 2, 5):
        check(numerators, divisors, widths, smallest, fraction)


def edges(width: int) -> list[int]:
    """Return 0, powers of two, what is next to them, and the maximum."""
    near = {(1 << i) + by for i in range(width) for by in (-1, 0, 1)}
    return sorted(value for value in {*near, (1 << width) - 1} if value < 1 << width)


@pytest.mark.parametrize("widths", [(14, 16), (16, 10)])
def test_edges(widths: tuple[int, int]) -> None:
    """Every pair of a numerator and a divisor that are powers of two, next to one, or a maximum."""
    pairs = [(n, d) for n in edges(widths[0]) for d in edges(widths[1]) if d]
    numerators, divisors = zip(*pairs, strict=True)
    check(numerators, divisors, widths, 1, 20)


@given(st.data())
@settings(max_examples=60)
def test_any_width(data: st.DataObject) -> None:
    """Up to the 62 bits of the computation; the quotient is near a whole number in half of the lanes."""
    widths = data.draw(st.tuples(st.integers(1, 62), st.integers(1, 62)))
    divisors = data.draw(st.lists(st.integers(1, (1 << widths[1]) - 1), min_size=1, max_size=8))
    most = (1 << widths[0]) - 1
    numerators = [data.draw(st.integers(0, most)) for _ in divisors]
    whole = [
        min(most, max(0, n // d * d + data.draw(st.sampled_from([-1, 0, 1]))))
        for n, d in zip(numerators, divisors, strict=True)
    ]
    smallest = data.draw(st.integers(1, min(divisors)))
    if widths[0] + 20 > smallest.bit_length():
        radix = data.draw(st.integers(1, 5))
        check([*numerators, *whole], divisors * 2, widths, smallest, 20, [radix])


@given(st.integers(1, 12), st.data())
def test_sums_and_differences(width: int, data: st.DataObject) -> None:
    values = st.lists(st.integers(0, (1 << width) - 1), min_size=5, max_size=5)
    a, b = data.draw(values), data.draw(values)
    assert to_integers(add(to_bits(a, width), to_bits(b, width)), 5) == [
        x + y for x, y in zip(a, b, strict=True)
    ]
    difference, less = subtract(to_bits(a, width), to_bits(b, width))
    assert to_integers(difference, 5) == [(x - y) % (1 << width) for x, y in zip(a, b, strict=True)]
    assert less.tolist() == [x < y for x, y in zip(a, b, strict=True)]


def test_a_divisor_below_the_smallest_is_wrong() -> None:
    """So the bound matters: 15/2 with a divisor said to be at least 4."""
    found = quotient(to_bits([15], 4), to_bits([2], 4), 0, 4, 1)
    assert to_integers(found, 1) != [7]


def size(numerator: int, divisor: int, fraction: int, smallest: int, radix_bits: int) -> tuple[int, int]:
    """Return the ANDs of a division of these widths, and their depth."""
    Counted.ands = 0
    dividend, divided_by = ([Counted(True) for _ in range(width)] for width in (numerator, divisor))
    found = quotient(dividend, divided_by, fraction, smallest, radix_bits)
    return Counted.ands, max(bit.depth for bit in found)


def test_what_a_radix_costs() -> None:
    """A sum of counts below 2^16 by one of 4 counts, 20 bits after the point: ANDs, and their depth."""
    cost = {radix_bits: size(16, 18, 20, 8, radix_bits) for radix_bits in range(1, 7)}
    assert cost == {
        1: (3230, 198), 2: (4550, 102), 3: (7253, 70), 4: (11917, 56), 5: (20083, 49), 6: (35847, 47),
    }  # fmt: skip
