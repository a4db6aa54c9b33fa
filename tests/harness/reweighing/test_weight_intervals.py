"""Intervals of ratios of noisy sums and of weights: their coverage, exactly, by enumeration of the noises."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.reweighing.count_errors import noise_of
from fairshares.harness.reweighing.formulas import REWEIGHINGS, count_intervals, weights_of_counts
from fairshares.harness.reweighing.intervals import ratio_intervals, share_intervals
from fairshares.protocols.circuits.coins import Coins, design_noise
from fairshares.protocols.noise.added import Several, noise_sum, simulated_noise

ONE, FOUR = (design_noise(Fraction(epsilon), 40) for epsilon in (1, 4))
LARGE = [(1000, 1000), (100, 40), (40, 3000)]
SMALL = [(0, 0), (0, 5), (7, 0), (3, 3), (1, 25), (12, 9)]
OWN = np.array([[[True, False]]])


def coverage(a: int, b: int, claimed: Coins) -> float:
    """Return the probability that the interval of B/A holds it, for one count each, with noise at 1.

    Pairs of errors with a probability below 10^-5 count as missed.

    Args: claimed: of the noise that the interval is made for.
    """
    error = noise_sum(ONE, 1)
    truth = max(b, 1) / max(a, 1)
    covered = 0.0
    for errors, masses in zip(product(error.values, repeat=2), product(error.masses, repeat=2), strict=True):
        mass = float(np.prod(masses))
        if mass < 1e-5:
            continue
        counts = np.maximum(np.array([[a, b]]) + errors, 1.0)
        (interval,) = ratio_intervals(counts, OWN, ~OWN, noise_of(claimed, counts))
        ratio = counts[0, 1] / counts[0, 0]
        assert interval[0] <= ratio <= interval[1]
        covered += mass * bool(interval[0] <= truth <= interval[1])
    return covered


@pytest.mark.parametrize(("a", "b"), [*LARGE, *SMALL])
def test_exact_coverage_of_ratios(a: int, b: int) -> None:
    covered = coverage(a, b, ONE)
    assert covered >= CONFIDENCE
    if (a, b) in LARGE:
        assert covered < 0.97


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
    """Of two ratios with the same sums, the first without the cell, the second with it, small or large."""
    own = np.array([[[0, 0], [1, 0]], [[0, 0], [0, 1]]], dtype=bool)
    others = np.array([[[0, 0], [0, 1]], [[1, 1], [0, 0]]], dtype=bool)
    with_small = np.array([[2.5, 299.0], [500.5, 400.5]])
    without = np.array([[150.75, 150.75], [500.5, 400.5]])
    beside = ratio_intervals(with_small, own, others, noise_of(ONE, with_small))
    usual = ratio_intervals(without, own, others, noise_of(ONE, without))
    assert beside[0].tolist() == usual[0].tolist()
    assert np.ptp(beside[1]) > 1.01 * np.ptp(usual[1])


EMPTY_CELLS = [
    [[0, 75], [127, 98]],
    [[1, 75], [127, 98]],
    [[2, 75], [127, 98]],
    [[3, 75], [20, 98]],
    [[0, 4], [6, 5]],
    [[4, 4], [4, 4]],
    [[0, 75], [127, 0]],
    [[2, 75], [127, 1]],
    [[30, 2], [8, 1]],
    [[0, 0], [0, 0]],
]


def exact_coverage(truth: Sequence[Sequence[int]], reweighing: str, noise: Coins) -> float:
    """Return the least probability of all weights that the interval holds the weight.

    Errors with a probability below 10^-5 count as missed.
    """
    table = np.array(truth, dtype=np.float64)
    weights = weights_of_counts(np.maximum(table, 1), reweighing)
    error = noise_sum(noise, 1)
    covered = np.zeros(table.shape)
    for errors, masses in zip(
        product(error.values, repeat=table.size), product(error.masses, repeat=table.size), strict=True
    ):
        mass = float(np.prod(masses))
        if mass < 1e-5:
            continue
        counts = np.maximum(table + np.reshape(errors, table.shape), 1)
        intervals = count_intervals(counts, reweighing, noise)
        holds = (intervals[..., 0] <= weights * (1 + 1e-12)) & (weights <= intervals[..., 1] * (1 + 1e-12))
        covered += mass * holds
    return float(covered.min())


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
@pytest.mark.parametrize("place", range(len(EMPTY_CELLS)))
def test_exact_coverage_beside_small_counts(place: int, reweighing: str) -> None:
    """Counts from 0 on in the margin of large ones, at an epsilon at which few errors are likely."""
    assert exact_coverage(EMPTY_CELLS[place], reweighing, FOUR) >= CONFIDENCE


@pytest.mark.parametrize("reweighing", ["kamiran-calders", "balanced"])
def test_an_empty_count_may_stand_for_2_and_not_for_3(reweighing: str) -> None:
    """At ε = 2 a count of 2 is raised with a probability of 12.6 %, and a count of 3 with 1.9 %."""
    counts = np.array([[1.0, 150.0], [255.0, 195.0]])
    low, high = count_intervals(counts, reweighing, design_noise(Fraction(2), 40))[0, 0]
    weight = weights_of_counts(counts, reweighing)[0, 0]
    assert 0.45 * weight < low < 0.505 * weight and high < 1.02 * weight


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
def test_weights_of_nobody_and_of_few_have_ends_above_0(reweighing: str) -> None:
    """Whatever the noise hides, a weight is above 0, and not infinite."""
    for counts in ([[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.5], [1.5, 9.5]], [[40.5, 1.0], [1.0, 1.0]]):
        intervals = count_intervals(np.array(counts), reweighing, ONE)
        assert (intervals > 0).all() and np.isfinite(intervals).all()


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
@pytest.mark.parametrize("epsilon", [4, 8, 20])
@pytest.mark.parametrize("runs", [1, 2, 3])
def test_counts_of_several_runs_have_intervals_where_noise_hardly_moves_them(
    runs: int, epsilon: int, reweighing: str
) -> None:
    """Errors that are all alike have no width."""
    noise = design_noise(Fraction(epsilon), 40)
    of_count = Several((noise,) * runs) if runs > 1 else noise
    for table in ([[70.0, 0.0], [0.0, 1.0]], [[30.0, 40.0], [20.0, 10.0]], [[0.0, 0.0], [0.0, 9.0]]):
        counts = np.maximum(np.array(table), 1.0)
        weights = weights_of_counts(counts, reweighing)
        ends = count_intervals(counts, reweighing, of_count)
        assert (ends[..., 0] <= weights).all() and (weights <= ends[..., 1]).all()
        assert np.isfinite(ends).all() and (ends > 0).all()


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


@pytest.mark.parametrize(
    ("truth", "epsilon", "most"),
    [
        ([[0, 300], [500, 400]], 1, 1.2),
        ([[0, 75], [127, 98]], 4, 1.15),
        ([[300, 300], [300, 300]], 1, 1.15),
        ([[30, 30], [30, 30]], 1, 1.25),
        ([[15, 15], [15, 15]], 1, 1.6),
        ([[4, 4], [4, 4]], 4, 1.6),
    ],
)
def test_half_widths_are_near_the_true_errors(truth: list[list[int]], epsilon: int, most: float) -> None:
    """Against the 95 % quantile of 20,000 simulated errors; in 1.0 they were 2.2 and 5.5."""
    name = "kamiran-calders"
    table = np.array(truth, dtype=np.float64)
    noise = ONE if epsilon == 1 else FOUR
    runs = np.maximum(table + simulated_noise(noise, np.random.default_rng(3), (20_000, 2, 2)), 1)
    weights = weights_of_counts(np.maximum(table, 1), name)
    errors = np.quantile(abs(weights_of_counts(runs, name) - weights), 0.95, axis=0)
    intervals = np.array([count_intervals(counts, name, noise) for counts in runs[:7]])
    ratios = np.median(np.diff(intervals)[..., 0], axis=0) / 2 / errors
    assert ratios.max() < most and ratios.flat[1:].min() > 0.8
