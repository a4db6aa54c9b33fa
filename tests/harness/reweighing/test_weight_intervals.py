"""Intervals of ratios of noisy sums: their coverage, exactly, by enumeration of all noises."""

from fractions import Fraction

import numpy as np
import pytest

from fairshares.harness.reweighing.formulas import REWEIGHINGS, count_intervals
from fairshares.harness.reweighing.intervals import CONFIDENCE, noise_of, ratio_interval, share_intervals
from fairshares.protocols.circuits.coins import Coin, design_coins, design_noise
from fairshares.protocols.noise.truncated import probability_mass

ONE, FOUR = (design_coins(Fraction(epsilon), 40) for epsilon in (1, 4))
LARGE = [(1000, 1000), (100, 40), (40, 3000)]
SMALL = [(0, 0), (0, 5), (7, 0), (3, 3), (1, 25), (12, 9)]


def coverage(a: int, b: int, claimed: tuple[Coin, ...]) -> float:
    """Return the probability that the interval of B/A holds it, for one count each, with noise at 1.

    Args: claimed: of the noise that the interval is made for.
    """
    mass = probability_mass(ONE)
    errors = np.array(list(mass), dtype=np.float64) + 0.5
    masses = np.array([float(p) for p in mass.values()])
    truth = max(b, 1) / max(a, 1)
    noisy_a, noisy_b = (np.maximum(x, 1.0) for x in np.meshgrid(a + errors, b + errors, indexing="ij"))
    held = np.zeros(noisy_a.shape, dtype=bool)
    for row, (one, other) in enumerate(zip(noisy_a, noisy_b, strict=True)):
        raised = np.array([noise_of(claimed, 2, min(x, y)).raised for x, y in zip(one, other, strict=True)])
        for is_raised in (False, True):
            chosen = raised == is_raised
            if chosen.any():
                noise = noise_of(claimed, 2, -np.inf if is_raised else np.inf)
                cap = other[chosen] + noise.sum(1).quantile(0.0005)
                ratio = other[chosen] / one[chosen]
                intervals = ratio_interval(ratio, one[chosen], 1, cap, noise)
                assert (intervals[:, 0] <= ratio).all() and (ratio <= intervals[:, 1]).all()
                held[row, chosen] = (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])
    return float(masses @ held @ masses)


@pytest.mark.parametrize(("a", "b"), [*LARGE, *SMALL])
def test_exact_coverage_of_ratios(a: int, b: int) -> None:
    covered = coverage(a, b, ONE)
    assert covered >= CONFIDENCE
    if (a, b) in LARGE:
        assert covered < 0.98


@pytest.mark.parametrize(("a", "b"), LARGE)
def test_intervals_for_less_noise_do_not_cover(a: int, b: int) -> None:
    assert coverage(a, b, FOUR) < 0.7


TABLES: list[list[list[float]]] = [[[90.5, 218.5], [154.5, 1527.5]], [[1, 3.5], [1, 40.5]]]


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
def test_more_noise_is_wider_and_more_records_narrower(reweighing: str) -> None:
    counts = np.array(TABLES[0])
    widths = [
        np.diff(count_intervals(scale * counts, reweighing, coins), axis=-1)
        for coins, scale in ((FOUR, 1), (ONE, 1), (ONE, 10))
    ]
    assert (widths[0] < widths[1]).all() and (widths[2] < widths[1]).all()


def test_noise_that_is_surely_0_leaves_no_doubt() -> None:
    """At the largest epsilon noise is not 0 once in 10^8 samples, and 0 of 10 is 0 of 10."""
    surely_0 = design_noise(Fraction(20), 40)
    (interval,) = share_intervals(np.array([10.0]), np.array([0.0]), (1, 1), surely_0)
    assert interval.tolist() == [1, 1]
    (interval,) = share_intervals(np.array([0.0]), np.array([10.0]), (1, 1), surely_0)
    assert interval.tolist() == [0, 0]
