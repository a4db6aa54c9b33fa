"""Constraints that Fairlearn's ThresholdOptimizer lacks: by naive search, and judged by its metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_ratio, selection_rate
from scipy.optimize import linprog
from sklearn.metrics import accuracy_score, precision_score

from fairshares.harness.errors import InfeasibleError
from fairshares.harness.postprocessing.curves import GroupCurves, exact_curves
from fairshares.harness.postprocessing.thresholds.choose import (
    OBJECTIVES,
    GroupThresholds,
    choose_thresholds,
)
from fairshares.harness.postprocessing.thresholds.constraints import CONSTRAINTS, RATES
from fairshares.harness.releases.thresholds.statistic import _thresholds_in, state_thresholds

Floats = npt.NDArray[np.float64]
Records = npt.NDArray[np.int64]


def selected(_label: Records, positive: Records) -> float:
    return float(positive.mean())


def right(label: Records, positive: Records) -> float:
    return float((label == positive).mean())


def precision(label: Records, positive: Records) -> float:
    return float(label[positive == 1].mean()) if positive.any() else np.nan


@dataclass(frozen=True)
class Compared:
    """What a constraint compares: the rate's name, the rate of records, and the metric of other libraries."""

    name: str
    of_records: Callable[[Records, Records], float]
    metric: Any


COMPARED = {
    "four_fifths": Compared("selection_rate", selected, selection_rate),
    "accuracy_parity": Compared("accuracy", right, accuracy_score),
    "predictive_parity": Compared("positive_predictive_value", precision, precision_score),
}
DRAWN = [constraint for constraint in COMPARED if CONSTRAINTS[constraint].is_averaged_by_draws]
TOLERANCES = (0.02, 0.1, 0.3)
ROUNDING = 1e-9


@cache
def records(seed: int, groups: int, size: int) -> tuple[Any, Any, Any]:
    """Return labels, scores in steps of a tenth, and groups, all with both labels."""
    rng = np.random.default_rng(seed)
    group = np.r_[np.repeat(np.arange(groups), 2), rng.integers(groups, size=size)]
    label = np.r_[
        np.tile([0, 1], groups), rng.random(size) < rng.uniform(0.2, 0.8, groups)[group[2 * groups :]]
    ]
    skill = rng.uniform(0, 0.5, groups)
    score = np.clip(rng.normal(0.4 + skill[group] * label, 0.25), 0, 1)
    return label.astype(int), np.floor(score * 10) / 10, group


def curves_of(seed: int, groups: int, size: int) -> GroupCurves:
    label, score, group = records(seed, groups, size)
    return exact_curves(label, score, group.astype(str), tuple(map(str, range(groups))), np.arange(11) / 10)


def decided(chosen: GroupThresholds, seed: int, groups: int, size: int) -> npt.NDArray[np.int64]:
    """Return the predictions of rules with a single threshold for each group."""
    _, score, group = records(seed, groups, size)
    positive = np.zeros(len(score), dtype=np.int64)
    for name, rule in chosen.rules.items():
        (threshold,) = rule.thresholds
        positive[(group.astype(str) == name) & (score >= threshold)] = 1
    return positive


def gap_by_fairlearn(constraint: str, label: Any, positive: Any, group: Any) -> float:
    if constraint == "four_fifths":
        if not positive.any():
            return 0.0
        return 1 - float(demographic_parity_ratio(label, positive, sensitive_features=group))
    metric = COMPARED[constraint].metric
    return float(
        MetricFrame(metrics=metric, y_true=label, y_pred=positive, sensitive_features=group).difference()
    )


def objective_of(objective: str, label: Any, positive: Any, group: Any) -> float:
    """Return the objective: balanced accuracy is averaged over groups by their sizes, as Fairlearn's is."""
    is_right = label == positive
    if objective == "accuracy_score":
        return float(is_right.mean())
    value = 0.0
    for one in np.unique(group):
        of_both = [is_right[(group == one) & (label == y)].mean() for y in (0, 1)]
        value += float((group == one).mean()) * float(np.mean(of_both))
    return value


def best_of_all(constraint: str, objective: str, tolerance: float, data: tuple[int, int, int]) -> float:
    """Return the best objective of all choices of a threshold for each group, within the tolerance."""
    label, score, group = records(*data)
    rate_of = COMPARED[constraint].of_records
    best = -np.inf
    for thresholds in product([*(np.arange(11) / 10), 2.0], repeat=data[1]):
        positive = (score >= np.array(thresholds)[group]).astype(int)
        rates = np.array([rate_of(label[group == one], positive[group == one]) for one in range(data[1])])
        if np.isnan(rates).any():
            continue
        if constraint == "four_fifths":
            is_within = rates.min() >= (1 - tolerance) * rates.max() - ROUNDING
        else:
            is_within = np.ptp(rates) <= tolerance + ROUNDING
        if is_within:
            best = max(best, objective_of(objective, label, positive, group))
    return best


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("constraint", COMPARED)
def test_single_thresholds_are_the_best_of_all(constraint: str, objective: str, tolerance: float) -> None:
    """Of every choice for two groups, 60 records together. Fairlearn's metrics judge what is taken."""
    for seed in range(3):
        data = (seed, 2, 60)
        label, _, group = records(*data)
        best = best_of_all(constraint, objective, tolerance, data)
        try:
            chosen = choose_thresholds(curves_of(*data), constraint, objective, tolerance, deterministic=True)
        except InfeasibleError:
            continue  # but for accepting everybody, or nobody
        positive = decided(chosen, *data)
        assert gap_by_fairlearn(constraint, label, positive, group) == pytest.approx(chosen.gap, abs=1e-9)
        assert chosen.gap <= tolerance + ROUNDING
        assert objective_of(objective, label, positive, group) == pytest.approx(chosen.objective_value)
        assert chosen.objective_value == pytest.approx(best, abs=1e-9)


def best_of_draws(curves: GroupCurves, constraint: str, objective: str, tolerance: float) -> float:
    """Return the best objective of all draws among all thresholds, by a linear program."""
    points = curves.points()
    groups, thresholds = points.true_positive_rate.shape
    sizes = points.positives + points.negatives
    rate: Floats = getattr(points, COMPARED[constraint].name)
    gain, loss, constant = (
        points.positives / sizes.sum(),
        points.negatives / sizes.sum(),
        points.negatives.sum(),
    )
    constant /= sizes.sum()
    if objective == "balanced_accuracy_score":
        gain = loss = sizes / sizes.sum() / 2
        constant = 0.5
    value = gain[:, np.newaxis] * points.true_positive_rate - loss[:, np.newaxis] * points.false_positive_rate
    rows = []
    limits = []
    for low, high in permutations(range(groups), 2):
        row = np.zeros((groups, thresholds))
        if constraint == "four_fifths":
            row[high] = (1 - tolerance) * rate[high]
            limits.append(0.0)
        else:
            row[high] = rate[high]
            limits.append(tolerance)
        row[low] = -rate[low]
        rows.append(row.ravel())
    one_each = np.kron(np.eye(groups), np.ones(thresholds))
    found = linprog(-value.ravel(), np.array(rows), limits, one_each, np.ones(groups), bounds=(0, 1))
    assert found.status == 0
    return float(constant - found.fun)


@pytest.mark.parametrize("tolerance", [0.0, *TOLERANCES, 1.0])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("constraint", DRAWN)
def test_draws_are_the_best_of_all(constraint: str, objective: str, tolerance: float) -> None:
    for seed, groups in product(range(8), (2, 3, 4)):
        curves = curves_of(seed, groups, 40 * groups)
        chosen = choose_thresholds(curves, constraint, objective, tolerance)
        assert chosen.gap <= tolerance + ROUNDING
        best = best_of_draws(curves, constraint, objective, tolerance)
        assert chosen.objective_value == pytest.approx(best, abs=1e-7), (seed, groups)
        assert all(len(rule.thresholds) <= 2 for rule in chosen.rules.values())


def rigged() -> GroupCurves:
    """Ten records in each group. At 1/2: a accepts 4 of 5 positives and 2 negatives; b 2 and no negative."""
    counts = np.array([[5.0, 4, 0], [5, 2, 0]]), np.array([[5.0, 2, 0], [5, 0, 0]])
    return GroupCurves(("a", "b"), np.array([0, 0.5, 1]), *counts, np.full(2, 5.0), np.full(2, 5.0))


def test_four_fifths_in_visible_fractions() -> None:
    """Without a limit a accepts 6 of 10, and b 2 of 10."""
    usual = choose_thresholds(rigged(), "four_fifths")
    low, high = sorted(usual.rates["selection_rate"].tolist())
    assert usual.tolerance == 0.2 and low == pytest.approx(0.8 * high)
    assert usual.gap == pytest.approx(0.2) and not usual.least_tolerance
    strict = choose_thresholds(rigged(), "four_fifths", tolerance=0)
    assert strict.gap == pytest.approx(0)
    assert strict.objective_value == pytest.approx(
        choose_thresholds(rigged(), "demographic_parity").objective_value
    )
    free = choose_thresholds(rigged(), "four_fifths", tolerance=1)
    assert free.rates["selection_rate"].tolist() == [0.6, 0.2]
    assert free.gap == pytest.approx(2 / 3)  # 2/10 falls short of 6/10 by two thirds of it


def test_accuracy_parity_in_visible_fractions() -> None:
    """At 1/2 both have 7 of 10 right."""
    chosen = choose_thresholds(rigged(), "accuracy_parity")
    assert chosen.rates["accuracy"].tolist() == [0.7, 0.7] and chosen.gap == 0
    assert {group: rule.thresholds for group, rule in chosen.rules.items()} == {"a": (0.5,), "b": (0.5,)}


def test_predictive_parity_in_visible_fractions() -> None:
    """At 1/2, 4 of 6 whom a accepts are positive, and 2 of 2 of b: a third apart. Everybody: half."""
    chosen = choose_thresholds(rigged(), "predictive_parity", tolerance=0.34)
    assert chosen.rates["positive_predictive_value"] == pytest.approx([2 / 3, 1])
    assert chosen.gap == pytest.approx(1 / 3) and chosen.deterministic
    low, high = chosen.gap_interval
    assert low <= chosen.gap <= high
    usual = choose_thresholds(rigged(), "predictive_parity")
    assert usual.least_tolerance and 1 / 6 <= usual.tolerance <= 0.34
    with pytest.raises(InfeasibleError, match=r"predictive_parity within a tolerance of 0\.01"):
        choose_thresholds(rigged(), "predictive_parity", tolerance=0.01)


def test_predictive_parity_accepts_somebody_where_accepting_nobody_would_be_most_accurate() -> None:
    """One of ten is positive, and has the highest score but one."""
    counts = np.array([[1.0, 1, 0]] * 2), np.array([[9.0, 2, 1]] * 2)
    curves = GroupCurves(("a", "b"), np.array([0, 0.5, 1]), *counts, np.full(2, 1.0), np.full(2, 9.0))
    chosen = choose_thresholds(curves, "predictive_parity", tolerance=0.1)
    assert (chosen.rates["selection_rate"] > 0).all() and chosen.gap <= 0.1
    assert choose_thresholds(curves, "demographic_parity").rates["selection_rate"].tolist() == [0, 0]


@pytest.mark.parametrize("constraint", COMPARED)
def test_files_hold_the_rate_that_is_compared(constraint: str) -> None:
    chosen = choose_thresholds(rigged(), constraint, tolerance=0.4)
    again = _thresholds_in(state_thresholds(chosen))
    assert list(again.rates) == list(chosen.rates)
    for name, rates in chosen.rates.items():
        assert again.rates[name].tolist() == rates.tolist()
        assert again.intervals[name].tolist() == chosen.intervals[name].tolist()
    compared = COMPARED[constraint].name
    assert list(chosen.rates) == [*RATES, *([compared] if compared not in RATES else [])]


@pytest.mark.parametrize("constraint", COMPARED)
def test_more_tolerance_is_never_worse(constraint: str) -> None:
    values = []
    for tolerance in (0.1, 0.3, 0.6, 1):
        chosen = choose_thresholds(curves_of(1, 3, 200), constraint, tolerance=tolerance)
        assert chosen.gap <= tolerance + ROUNDING
        values.append(chosen.objective_value)
    assert all(before <= after + ROUNDING for before, after in pairwise(values))
