"""What the intervals of rates and gaps cover: noise alone, noise and sample, and thresholds chosen after.

Each coverage test simulates R releases and counts those that are not covered: at most as many as a
binomial variable exceeds with probability 10^-9, the false-alarm rate of each. That the tests can fail
is tested with a wrong noise scale, and with the sampling error left out.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from fairshares.harness.postprocessing.curves import (
    ACCEPT_NOBODY,
    CurveNoise,
    GroupCurves,
    _order_statistic,
    exact_curves,
    noise_bands,
    population_bands,
)
from fairshares.harness.postprocessing.thresholds.choose import choose_thresholds
from fairshares.harness.reweighing.intervals import share_intervals
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.noise.added import simulated_noise
from tests.support.distribution import FALSE_ALARM

Floats = npt.NDArray[np.float64]

GRID = np.arange(51) / 50
POINTS = np.append(GRID, ACCEPT_NOBODY)
GROUPS = ("a", "b")
TREE = CountTree(len(GRID), (1, 4, 16))
RELEASES = 1500
SAMPLES = 300  # releases, where each is of a new sample
FAILURE = 0.2


@cache
def tree_noise(epsilon: Fraction) -> CurveNoise:
    estimator = TREE.estimator()
    return CurveNoise(np.vstack([estimator, estimator[:1]]), design_coins(epsilon, 40))


def sample(rng: np.random.Generator, size: int) -> GroupCurves:
    """Draw records of the population: scores are beta distributed, by group and label."""
    group, label = rng.integers(2, size=size), rng.random(size) < 0.5
    score = rng.beta(2 + label + group, 3)
    return exact_curves(label.astype(int), score, np.array(GROUPS)[group], GROUPS, GRID)


@cache
def population() -> tuple[Floats, Floats]:
    """Return the population's true and false positive rates at each point, shape (2, P)."""
    curves = sample(np.random.default_rng(0), 4_000_000).points()
    return curves.true_positive_rate, curves.false_positive_rate


def released(exact: GroupCurves, rng: np.random.Generator, epsilon: Fraction = Fraction(1, 3)) -> GroupCurves:
    """Add the tree's noise to exact curves, as a release would, by least squares."""
    noise = tree_noise(epsilon)
    errors = simulated_noise(noise.node, rng, (4, TREE.nodes)) @ noise.linear.T
    return replace(
        exact,
        tp=exact.tp + errors[:2, :-1], fp=exact.fp + errors[2:, :-1],
        positives=exact.positives + errors[:2, -1], negatives=exact.negatives + errors[2:, -1],
        noise=noise,
    )  # fmt: skip


def most_misses(releases: int, failure: float) -> int:
    return int(binom.isf(FALSE_ALARM, releases, failure))


def outside(bands: Floats, rates: Floats) -> bool:
    return bool(((rates < bands[..., 0] - 1e-12) | (rates > bands[..., 1] + 1e-12)).any())


@pytest.mark.parametrize(("claimed", "covers"), [(Fraction(1, 3), True), (Fraction(1, 2), False)])
def test_noise_bands_cover_all_rates_at_once(claimed: Fraction, covers: bool) -> None:
    """R = 1500, failure 0.2 allowed; bands made for two thirds of the noise are noticed."""
    rng = np.random.default_rng(1)
    exact = sample(rng, 2000)
    truth = exact.points()
    misses = 0
    for _ in range(RELEASES):
        bands = noise_bands(replace(released(exact, rng), noise=tree_noise(claimed)), FAILURE)
        misses += (
            outside(bands["true_positive_rate"], truth.true_positive_rate)
            or outside(bands["false_positive_rate"], truth.false_positive_rate)
            or outside(bands["selection_rate"], truth.selection_rate)
        )
    assert (misses <= most_misses(RELEASES, FAILURE)) == covers


def test_population_bands_cover_noise_and_sample() -> None:
    rng = np.random.default_rng(3)
    tpr, fpr = population()
    misses = 0
    for _ in range(SAMPLES):
        bands = population_bands(released(sample(rng, 1000), rng), FAILURE)
        misses += outside(bands["true_positive_rate"], tpr) or outside(bands["false_positive_rate"], fpr)
    assert misses <= most_misses(SAMPLES, FAILURE)


def test_sampling_part_is_the_inequalitys_and_half_of_it_would_not_do() -> None:
    """Exact curves: at failure 0.2 each of 2 x 3 shares is allowed 0.1 / 6 of it."""
    rng = np.random.default_rng(11)
    tpr, fpr = population()
    misses = misses_of_half = 0
    for _ in range(SAMPLES):
        exact = sample(rng, 2000)
        bands, points = population_bands(exact, FAILURE), exact.points()
        halves = []
        for band, rates, n in (
            (bands["true_positive_rate"], points.true_positive_rate, exact.positives),
            (bands["false_positive_rate"], points.false_positive_rate, exact.negatives),
        ):
            margin = np.sqrt(np.log(2 * 6 / 0.1) / (2 * n))[:, np.newaxis]
            expected = np.clip(np.stack([rates - margin, rates + margin], axis=-1), 0, 1)
            assert band == pytest.approx(expected)
            halves.append(np.stack([rates - margin / 2, rates + margin / 2], axis=-1))
        misses += outside(bands["true_positive_rate"], tpr) or outside(bands["false_positive_rate"], fpr)
        misses_of_half += outside(halves[0], tpr) or outside(halves[1], fpr)
    assert misses <= most_misses(SAMPLES, FAILURE) < misses_of_half


def test_bounds_of_rates_of_both_labels_by_hand() -> None:
    """Exact curves of 400 records: two more statements of the inequality for each group, five in all."""
    exact = sample(np.random.default_rng(7), 400)
    bands = population_bands(exact, FAILURE, ("accuracy", "positive_predictive_value"))
    points = exact.points()
    records = (exact.positives + exact.negatives)[:, np.newaxis]
    tp = points.true_positive_rate * exact.positives[:, np.newaxis] / records
    fp = points.false_positive_rate * exact.negatives[:, np.newaxis] / records
    tn = (1 - points.false_positive_rate) * exact.negatives[:, np.newaxis] / records
    statements = 5 * len(exact.groups)
    margin = np.sqrt(np.log(2 * statements / (FAILURE / 2)) / (2 * records))
    right = np.stack([tp + tn - 2 * margin, tp + tn + 2 * margin], axis=-1)
    assert bands["accuracy"] == pytest.approx(np.clip(right, 0, 1))
    fewer_tp, more_tp = np.maximum(tp - margin, 0), np.minimum(tp + margin, 1)
    fewer_fp, more_fp = np.maximum(fp - margin, 0), np.minimum(fp + margin, 1)
    of_accepted = np.stack([fewer_tp / (fewer_tp + more_fp), more_tp / (more_tp + fewer_fp)], axis=-1)
    assert bands["positive_predictive_value"] == pytest.approx(of_accepted)
    assert list(population_bands(exact, FAILURE)) == [
        "true_positive_rate",
        "false_positive_rate",
        "selection_rate",
    ]


@pytest.mark.parametrize(
    "constraint",
    ["equalized_odds", "demographic_parity", "four_fifths", "accuracy_parity", "predictive_parity"],
)
@pytest.mark.parametrize("deterministic", [False, True])
def test_intervals_cover_although_thresholds_are_chosen_from_the_same_curves(
    constraint: str, deterministic: bool
) -> None:
    """R = 100 at confidence 95 %: rates of the population at the thresholds chosen, and their gap."""
    rng = np.random.default_rng(5)
    tpr, fpr = population()
    releases, misses = 100, 0
    for _ in range(releases):
        curves = released(sample(rng, 2000), rng)
        chosen = choose_thresholds(curves, constraint, tolerance=0.1, deterministic=deterministic)
        shares = np.zeros(tpr.shape)
        for row, rule in zip(shares, chosen.rules.values(), strict=True):
            row[np.searchsorted(POINTS, rule.thresholds)] = rule.probabilities
        rates = {"true_positive_rate": (shares * tpr).sum(1), "false_positive_rate": (shares * fpr).sum(1)}
        rates["selection_rate"] = (rates["true_positive_rate"] + rates["false_positive_rate"]) / 2
        gaps = {name: np.ptp(of_groups) for name, of_groups in rates.items()}
        if constraint == "accuracy_parity":
            rates["accuracy"] = (rates["true_positive_rate"] + 1 - rates["false_positive_rate"]) / 2
        if constraint == "predictive_parity":
            rates["positive_predictive_value"] = rates["true_positive_rate"] / 2 / rates["selection_rate"]
        gap = {
            "equalized_odds": max(gaps["true_positive_rate"], gaps["false_positive_rate"]),
            "demographic_parity": gaps["selection_rate"],
            "four_fifths": gaps["selection_rate"] / rates["selection_rate"].max(),
            "accuracy_parity": np.ptp(rates.get("accuracy", np.zeros(1))),
            "predictive_parity": np.ptp(rates.get("positive_predictive_value", np.zeros(1))),
        }[constraint]
        misses += any(outside(chosen.intervals[name], rates[name]) for name in rates) or not (
            chosen.gap_interval[0] - 1e-12 <= gap <= chosen.gap_interval[1] + 1e-12
        )
    assert misses <= most_misses(releases, 0.05)


@pytest.mark.parametrize("failure", [0.2, 0.05, 0.00625, 0.0025])
def test_order_statistic_is_too_small_once_in_a_million_at_most(failure: float) -> None:
    simulations, beyond = _order_statistic(failure)
    assert beyond >= 0
    assert binom.cdf(beyond, simulations, failure) <= 1e-6 < binom.cdf(beyond + 1, simulations, failure)


@pytest.mark.parametrize("claimed", [Fraction(1, 2), Fraction(3)])
def test_shares_are_covered_as_often_as_it_says(claimed: Fraction) -> None:
    """R = 400 at confidence 95 %: of 1, 3 and 1 noisy counts in 2, 9 and 3, also where one is empty."""
    coins, rng, runs = design_coins(Fraction(1, 2), 40), np.random.default_rng(8), 400
    for truth, terms in (((30, 200), (1, 1)), ((400, 90), (3, 6)), ((0, 50), (1, 2)), ((2, 1), (1, 1))):
        noisy = [
            n + simulated_noise(coins, rng, (runs, k)).sum(axis=1) for n, k in zip(truth, terms, strict=True)
        ]
        intervals = share_intervals(noisy[0], noisy[1], terms, design_coins(claimed, 40))
        share = truth[0] / sum(truth)
        misses = int(((intervals[:, 0] > share) | (share > intervals[:, 1])).sum())
        if truth[0] >= 30:
            assert (misses <= most_misses(runs, 0.05)) == (claimed == Fraction(1, 2))
            errors = np.quantile(abs(noisy[0] / (noisy[0] + noisy[1]) - share), 0.95)
            width = float(np.median(np.diff(intervals, axis=1))) / 2
            assert claimed > 1 or 0.9 * errors < width < 1.1 * errors
        assert claimed > 1 or misses <= most_misses(runs, 0.05)
