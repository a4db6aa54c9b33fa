"""Errors of raised counts: how often weighted sums are beyond their reach, exactly, by enumeration."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from fairshares.harness.reweighing.count_errors import (
    BOUNDS_FAILURE,
    MIXED_FAILURE,
    CountsNoise,
    Factors,
    PartOfCounts,
    Square,
    noise_of,
    reaches,
)
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import Coins, design_noise
from fairshares.protocols.noise.added import noise_sum

FAILURE = 0.0235  # of one end
LARGE = 1e6


def misses(noise: Coins, truth: Sequence[int], factors: Sequence[float]) -> tuple[float, float]:
    """Return the probability that the weighted sum of the true counts' errors is beyond its reach.

    Each run has the reach that its own noisy counts give. Errors of a mass below 10^-9 are left out.

    Returns:
        Above, and below.
    """
    error = noise_sum(noise, 1)
    kept = error.masses > 1e-9
    values = np.meshgrid(*[error.values[kept]] * len(truth), indexing="ij")
    masses = np.meshgrid(*[error.masses[kept]] * len(truth), indexing="ij")
    noisy = np.maximum(np.array(truth) + np.stack([value.ravel() for value in values], axis=-1), 1)
    mass = np.prod([one.ravel() for one in masses], axis=0)
    sums = (noisy - np.maximum(truth, 1)) @ np.array(factors)
    kinds = [_kind(noise, value, len(truth)) for value in np.unique(noisy)]
    names = list(dict.fromkeys(kinds))
    of_value = np.array([names.index(kind) for kind in kinds])
    of_run = of_value[np.searchsorted(np.unique(noisy), noisy)]
    alike, place = np.unique(of_run, axis=0, return_inverse=True)
    tables = list(np.eye(len(truth), dtype=bool)[:, np.newaxis])
    row = np.array([factors])
    reached = np.empty((len(alike), 2))
    for i, places in enumerate(alike):
        least, raised, small = zip(*[names[k] for k in places], strict=True)
        counts = CountsNoise(noise, np.array([least]), np.array([raised]), np.array([small]))
        for k, one in enumerate((Factors(row, row), Factors(-row, -row))):
            reached[i, k] = reaches(counts, tables, one, FAILURE)[0]
    of_runs = reached[place.ravel()]
    above = mass[sums > of_runs[:, 0] + 1e-9].sum()
    below = mass[-sums > of_runs[:, 1] + 1e-9].sum()
    return float(above), float(below)


def _kind(noise: Coins, value: float, counts: int) -> tuple[float, bool, bool]:
    """Return what is known of a noisy count: its least error, and whether it is raised or small."""
    table = np.full((1, counts), LARGE)
    table[0, 0] = value
    known = noise_of(noise, table)
    return float(known.least[0, 0]), bool(known.raised[0, 0]), bool(known.small[0, 0])


TRUTHS = [(0, 300), (1, 300), (2, 30), (3, 0), (5, 12), (0, 0), (1, 2)]
FACTORS = [(1.0, 0.4), (1.0, -0.4), (0.4, -1.0)]


@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize("truth", TRUTHS)
def test_sums_of_small_counts_are_within_their_reach(truth: tuple[int, int], epsilon: int) -> None:
    """Whether counts are raised differs from run to run, and so does the reach."""
    noise = design_noise(Fraction(epsilon), 40)
    for factors in FACTORS[::2]:
        assert sum(misses(noise, truth, factors)) <= 2 * FAILURE + BOUNDS_FAILURE + MIXED_FAILURE


@pytest.mark.parametrize("epsilon", ["1/2", "1", "2", "4"])
@pytest.mark.parametrize("factors", FACTORS)
def test_every_small_count_is_within_its_reach(factors: tuple[float, float], epsilon: str) -> None:
    noise = design_noise(Fraction(epsilon), 40)
    for first in (0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 26):
        for second in (0, 1, 3, 6, 13, 300):
            found = sum(misses(noise, (first, second), factors))
            assert found <= 2 * FAILURE + BOUNDS_FAILURE + MIXED_FAILURE, (first, second)


def test_two_raised_counts_beside_a_large_one_are_within_their_reach() -> None:
    noise = design_noise(Fraction(4), 40)
    for truth in ((0, 0, 50), (2, 1, 50), (2, 2, 50), (3, 1, 50)):
        for factors in ((1.0, 0.5, 0.5), (0.7, -1.0, 0.3)):
            assert sum(misses(noise, truth, factors)) <= 2 * FAILURE + BOUNDS_FAILURE + MIXED_FAILURE


def test_the_reach_is_hardly_longer_than_it_has_to_be() -> None:
    """Large counts use nearly all of the failure; and an empty one beside them about half."""
    noise = design_noise(Fraction(1), 40)
    assert min(misses(noise, (300, 300), (1.0, 0.618))) > 0.85 * FAILURE
    assert misses(noise, (0, 300), (1.0, 0.4))[0] > 0.4 * FAILURE


def test_counts_are_known_from_their_noisy_values() -> None:
    """At ε = 2 no error is above 4 but with a probability of 0.05 % / 4."""
    known = noise_of(design_noise(Fraction(2), 40), np.array([[1.0, 3.0], [9.0, 40.0]]))
    assert known.raised.tolist() == [[True, False], [False, False]]
    assert known.small.tolist() == [[True, True], [False, False]]
    assert known.least[0].tolist() == [0, 0] and known.least[1, 1] == np.inf
    assert 2.8 < known.least[1, 0] <= 4  # the true count is at least 5, so that its error is at least -4
    own, others = np.array([[1, 0], [0, 0]], dtype=bool), np.array([[0, 0], [1, 1]], dtype=bool)
    least = (float(known.least[1, 0]),)
    assert known.parts((own, others)) == (PartOfCounts(0, raised=1), PartOfCounts(1, least))
    assert not known.is_mixed((own, others))
    assert known.parts((own, ~own)) == (PartOfCounts(0, (0.0,)), PartOfCounts(1, (0.0, *least)))
    assert known.is_mixed((own, ~own))
    assert noise_of(known.of_count, np.full((2, 2), LARGE)).parts((own, ~own)) == (
        PartOfCounts(1),
        PartOfCounts(3),
    )


def test_squares_are_bounded() -> None:
    """(a + 2 b + c)^2 for single counts a and c, and the sum b of four counts."""
    low = np.array([[1.0, -2.0]])
    square = Square(Factors(low, np.array([[1.0, 2.0]])), 3.0)
    parts = (PartOfCounts(0, (0.0,), raised=1), PartOfCounts(4))
    factors: Floats = square.of_parts(parts)[0]
    errors = np.random.default_rng(5).normal(size=(1000, 3)) * [1, 2, 1]
    exact = (errors @ [1, 2, 1]) ** 2 / 3
    bound = errors**2 @ [factors[0], factors[1] / 2, factors[0]]
    assert (exact <= bound).all()
    assert (exact / bound).max() > 0.95
