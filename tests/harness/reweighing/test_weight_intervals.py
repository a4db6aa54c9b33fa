"""Intervals of ratios of noisy sums: their coverage, exactly, by enumeration of all noises."""

from fractions import Fraction

import numpy as np
import pytest

from fairshares.harness.reweighing.formulas import REWEIGHINGS, count_intervals, weights_of_counts
from fairshares.harness.reweighing.intervals import (
    CONFIDENCE,
    CountsNoise,
    WeightedSums,
    noise_of,
    quantiles_beside_raised,
    ratio_intervals,
    share_intervals,
)
from fairshares.protocols.circuits.coins import Coin, design_coins, design_noise
from fairshares.protocols.noise.added import noise_sum, simulated_noise
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
        doubtful = np.array(
            [noise_of(claimed, np.array(pair)).doubtful for pair in zip(one, other, strict=True)]
        )
        for kind in np.unique(doubtful, axis=0):
            (chosen,) = np.nonzero((doubtful == kind).all(axis=1))
            counts = np.stack([one[chosen], other[chosen]])  # a column for each run
            own = np.zeros((chosen.size, *counts.shape), dtype=bool)
            others = own.copy()
            runs = np.arange(chosen.size)
            own[runs, 0, runs] = True
            others[runs, 1, runs] = True
            noise = CountsNoise(claimed, np.repeat(kind[:, np.newaxis], chosen.size, axis=1))
            ratio = other[chosen] / one[chosen]
            intervals = ratio_intervals(counts, own, others, noise)
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


def test_an_empty_cell_is_in_the_intervals_of_its_own_sums_alone() -> None:
    """Of two ratios with the same sums, the first without the cell, the second with it, raised or large."""
    own = np.array([[[0, 0], [1, 0]], [[0, 0], [0, 1]]], dtype=bool)
    others = np.array([[[0, 0], [0, 1]], [[1, 1], [0, 0]]], dtype=bool)
    with_raised = np.array([[1.0, 300.5], [500.5, 400.5]])
    without = np.array([[150.75, 150.75], [500.5, 400.5]])
    noise = noise_of(ONE, with_raised)
    assert noise.doubtful.tolist() == [[True, False], [False, False]]
    beside = ratio_intervals(with_raised, own, others, noise)
    usual = ratio_intervals(without, own, others, noise_of(ONE, without))
    assert beside[0].tolist() == usual[0].tolist()
    assert np.ptp(beside[1]) > 1.01 * np.ptp(usual[1])


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [1, 2])
def test_the_reach_beside_a_raised_count_is_paid_for(epsilon: int, factor: float) -> None:
    """Misses of both ends by enumeration, for each true count; S is the error of two counts."""
    failure = 0.04
    noise = design_noise(Fraction(epsilon), 40)
    mass = probability_mass(noise)
    offset = 0.5 if epsilon == 1 else 0.0  # the noise is symmetric above 1.15
    errors = np.array(list(mass), dtype=np.float64) + offset
    masses = np.array([float(p) for p in mass.values()])
    pair = (errors[:, np.newaxis] + errors).ravel()
    of_pair = np.outer(masses, masses).ravel()

    def misses(true_count: int, z: float, q: float) -> float:
        raised = max(true_count, 1)
        moved = factor * (np.maximum(true_count + errors, 1) - raised)
        total = 0.0
        for noisy, of_count, by in zip(true_count + errors, masses, moved, strict=True):
            reach = z if noisy <= 1 else q
            total += of_count * (of_pair[pair + by > reach].sum() + of_pair[pair + by < -q].sum())
        return total

    of_count = noise_sum(noise, 1)
    one = np.ones((1, 1))
    q = WeightedSums([noise_sum(noise, 2), of_count], np.array([[1.0, factor]]), 1 << 14).quantiles(
        0.95 * failure / 2
    )
    sums = WeightedSums([noise_sum(noise, 2)], one, 1 << 14)
    (z,) = quantiles_beside_raised(sums, of_count, np.array([factor]), q, failure)
    found = [misses(true_count, float(z), float(q[0])) for true_count in range(40)]
    assert max(found) <= failure
    if factor == 3:
        assert z < 0.6 * q[0]
        assert max(misses(n, 0.5 * float(z), float(q[0])) for n in range(40)) > failure


def test_a_raised_count_makes_one_end_closer() -> None:
    """Of the weight in the empty cell's row and column the lower end; of all others the upper end."""
    name = "kamiran-calders"
    beside = np.array([[1.5, 300.5], [500.5, 400.5]])
    raised = np.array([[1.0, 300.5], [500.5, 400.5]])
    near, far = (
        count_intervals(counts, name, ONE) / weights_of_counts(counts, name)[..., np.newaxis]
        for counts in (raised, beside)
    )
    closer = (1 - near) / (1 - far)  # of the lower and the upper end
    assert (closer[[0, 1], [1, 0], 0] < 0.8).all() and (closer[[0, 1], [1, 0], 1] > 0.95).all()
    assert closer[1, 1, 1] < 0.9 < 0.95 < closer[1, 1, 0]


@pytest.mark.parametrize("epsilon", [8, 14, 20])
def test_an_empty_count_has_intervals_where_noise_hardly_moves_a_count(epsilon: int) -> None:
    """The weights are in them, and the larger the noise's ε is, the closer their ends are."""
    counts = np.array([[300.0, 20.0], [1.0, 500.0]])
    noise = design_noise(Fraction(epsilon), 40)
    intervals = count_intervals(counts, "kamiran-calders", noise)
    weights = weights_of_counts(counts, "kamiran-calders")
    assert (intervals[..., 0] <= weights).all() and (weights <= intervals[..., 1]).all()
    less_noise = count_intervals(counts, "kamiran-calders", design_noise(Fraction(20), 40))
    assert (np.diff(less_noise, axis=-1) <= np.diff(intervals, axis=-1)).all()


def test_half_widths_beside_an_empty_count_are_near_the_true_errors() -> None:
    """Against the 95 % quantile of 20,000 simulated errors; as wide as of a doubtful count they were 2.2."""
    truth = np.array([[0.0, 300.0], [500.0, 400.0]])
    runs = np.maximum(truth + simulated_noise(ONE, np.random.default_rng(3), (20_000, 2, 2)), 1)
    weights = weights_of_counts(np.maximum(truth, 1), "kamiran-calders")
    errors = np.quantile(abs(weights_of_counts(runs, "kamiran-calders") - weights), 0.95, axis=0)
    intervals = np.array([count_intervals(counts, "kamiran-calders", ONE) for counts in runs[:41]])
    ratios = np.median(np.diff(intervals)[..., 0], axis=0) / 2 / errors
    assert ratios[0, 1] < 1.7 and ratios[1, 0] < 1.45 and ratios[1, 1] < 1.35 and ratios.flat[1:].min() > 1.1
