"""Weights inside the computation, run on plain integers: equal to the oracle, and below 2^62 throughout."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from protocols.circuits.weights import LEAST_FRACTION_BITS, MOST_FRACTION_BITS, layout, weights
from tests.support import exact_weights

REWEIGHINGS = sorted(exact_weights.WEIGHTS)
NOISE_BITS = 5


class Vector:
    """Plain integers in place of a secret vector; refuses what the ring would not hold with room to spare."""

    def __init__(self, lanes: object) -> None:
        array = np.array([int(lane) for lane in np.ravel(np.array(lanes, dtype=object))], dtype=object)
        assert all(abs(lane) < 1 << 62 for lane in array)
        self.lanes = array

    @staticmethod
    def concat(parts: "Sequence[Vector]") -> "Vector":
        return Vector(np.concatenate([part.lanes for part in parts]))

    def get_vector(self, base: int, size: int) -> "Vector":
        assert 0 <= base < base + size <= len(self.lanes)
        return Vector(self.lanes[base : base + size])

    def _with(self, other: object, operation: Callable[[object, object], object]) -> "Vector":
        return Vector(operation(self.lanes, other.lanes if isinstance(other, Vector) else other))

    def __add__(self, other: object) -> "Vector":
        return self._with(other, lambda a, b: a + b)  # type: ignore[operator]

    def __rsub__(self, other: int) -> "Vector":
        return Vector(other - self.lanes)

    def __mul__(self, other: object) -> "Vector":
        return self._with(other, lambda a, b: a * b)  # type: ignore[operator]

    def __lt__(self, other: int) -> "Vector":
        return Vector(self.lanes < other)

    __radd__ = __add__


class Bits:
    """What sbitvec makes of integers: their lowest bits, a numpy array of bool each."""

    def __init__(self, values: Vector, width: int, same_width: int) -> None:
        assert width == same_width and all(0 <= lane < 1 << width for lane in values.lanes)
        self.v = [np.array([lane >> i & 1 for lane in values.lanes], dtype=bool) for i in range(width)]


def computed(opened: Sequence[Sequence[int]], reweighing: str, most_records: int) -> list[list[int]]:
    """Return what the circuit makes of noisy counts, a row per group."""
    groups, labels = len(opened), len(opened[0])
    chosen = layout(groups, labels, reweighing, most_records, NOISE_BITS)
    found = weights(Vector, Bits, Vector(opened), chosen).lanes.tolist()
    rows = 1 if reweighing == "label" else groups
    return [found[s * labels : (s + 1) * labels] for s in range(rows)] * (groups // rows)


def check(opened: Sequence[Sequence[int]], reweighing: str, most_records: int) -> None:
    fraction_bits = layout(len(opened), len(opened[0]), reweighing, most_records, NOISE_BITS).fraction_bits
    assert computed(opened, reweighing, most_records) == exact_weights.opened_weights(
        opened, reweighing, fraction_bits
    )


def test_visible_arithmetic() -> None:
    """Counts 3/2, 5/2, 1 (raised from -5/2 and from 1/2): their sum is 6."""
    opened = [[1, 2], [-3, 0]]
    one = 1 << MOST_FRACTION_BITS
    assert computed(opened, "balanced", 100) == [[one, one * 6 // 10], [one * 6 // 4] * 2]
    assert computed(opened, "label", 100) == [[one * 6 // 5, one * 6 // 7]] * 2
    assert computed(opened, "kamiran-calders", 100)[0] == [one * 10 // 9, one * 14 // 15]


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
def test_extremes(reweighing: str) -> None:
    """All records in one cell with the largest noise, the smallest noise everywhere, and one over."""
    most, largest = 1000, (1 << NOISE_BITS) - 1
    for here in (0, 3):
        table = [largest] * 4
        table[here] += most
        check([table[:2], table[2:]], reweighing, most)
        table = [-1 - largest] * 4
        table[here] += most
        check([table[:2], table[2:]], reweighing, most)
    for value in (*range(-2, 3), *(2**i + by for i in range(2, 9) for by in (-1, 0, 1))):
        check([[value, 1], [500, -4]], reweighing, most)
        check([[value, value], [value, value]], reweighing, 4 * most)


@given(st.data())
@settings(max_examples=60)
@pytest.mark.parametrize("reweighing", REWEIGHINGS)
def test_equals_the_oracle(reweighing: str, data: st.DataObject) -> None:
    """Up to 5 groups and 4 labels, counts of any size that a declared maximum allows."""
    groups, labels = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 4))
    cells = groups * labels
    largest = 2**29 // cells if reweighing == "kamiran-calders" else 2**50 // cells
    counts = data.draw(
        st.lists(st.integers(0, data.draw(st.integers(1, largest))), min_size=cells, max_size=cells)
    )
    noise = data.draw(st.lists(st.integers(-32, 31), min_size=cells, max_size=cells))
    opened = [count + x for count, x in zip(counts, noise, strict=True)]
    rows = [opened[s * labels : (s + 1) * labels] for s in range(groups)]
    check(rows, reweighing, sum(counts))


@pytest.mark.parametrize(
    ("reweighing", "most", "fraction_bits"),
    [
        ("balanced", 109 * 2**31, 20),
        ("balanced", 10**6 * 2**31, 10),
        ("label", 10**6 * 2**31, 10),
        ("balanced", 2**53 - 128 - 1, 8),
        ("balanced", 2**53 - 128, None),
        ("kamiran-calders", 10**6 * 1000, 20),
        ("kamiran-calders", 2**30 - 128 - 1, 20),
        ("kamiran-calders", 2**30 - 128, None),
        ("kamiran-calders", 109 * 2**31, None),
    ],
)  # fmt: skip
def test_precision_follows_from_the_declared_maximum(
    reweighing: str, most: int, fraction_bits: int | None
) -> None:
    """2^f T < 2^62 for T = 2 (most + 4 * 2^5), and T^2 < 2^62 where two counts are multiplied."""
    if fraction_bits is None:
        with pytest.raises(ValueError, match=f"{most} records at most are too many"):
            layout(2, 2, reweighing, most, NOISE_BITS)
        return
    chosen = layout(2, 2, reweighing, most, NOISE_BITS)
    assert chosen.fraction_bits == fraction_bits >= LEAST_FRACTION_BITS
    total = 2 * (most + 128)
    assert total << chosen.fraction_bits < 1 << 62
    assert fraction_bits == MOST_FRACTION_BITS or total << chosen.fraction_bits + 1 >= 1 << 62
    assert max(chosen.numerator, chosen.divisor) < 1 << 62


def test_no_other_reweighing() -> None:
    with pytest.raises(ValueError, match="there is no reweighing fair"):
        layout(2, 2, "fair", 100, NOISE_BITS)
