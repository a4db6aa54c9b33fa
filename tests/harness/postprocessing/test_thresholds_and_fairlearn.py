"""Thresholds on exact curves, random and real, against Fairlearn's ThresholdOptimizer."""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.base import BaseEstimator

from fairshares.data.loanapp import load_loanapp
from fairshares.harness.evaluation.before_after import fit
from fairshares.harness.postprocessing.curves import GroupCurves, exact_curves
from fairshares.harness.postprocessing.thresholds.choose import (
    OBJECTIVES,
    GroupThresholds,
    choose_thresholds,
)
from fairshares.harness.postprocessing.thresholds.search import PAIR_SLACK

Floats = npt.NDArray[np.float64]

GRID = np.arange(1001) / 1000
OF_FAIRLEARN = {
    "equalized_odds": "equalized_odds",
    "equal_opportunity": "true_positive_rate_parity",
    "false_positive_rate_parity": "false_positive_rate_parity",
    "demographic_parity": "demographic_parity",
}
EVERY_CONSTRAINT = pytest.mark.parametrize("constraint", OF_FAIRLEARN)
EVERY_OBJECTIVE = pytest.mark.parametrize("objective", OBJECTIVES)
OF_ONE_RATE = pytest.mark.parametrize("constraint", sorted({*OF_FAIRLEARN} - {"equalized_odds"}))


@dataclass(frozen=True, eq=False)
class Data:
    """Scores on the grid, so that its thresholds and the scores' own do the same."""

    y_true: npt.NDArray[np.int64]
    y_score: Floats
    feature: npt.NDArray[np.str_]
    groups: tuple[str, ...]

    def curves(self, grid: Floats = GRID) -> GroupCurves:
        return exact_curves(self.y_true, self.y_score, self.feature, self.groups, grid)


@cache
def random_data(groups: int) -> Data:
    rng = np.random.default_rng(groups)
    names = tuple(f"group {i}" for i in range(groups))
    group = np.r_[np.repeat(np.arange(groups), 2), rng.integers(groups, size=1500)]
    y = np.r_[np.tile([0, 1], groups), rng.random(1500) < 0.3 + 0.3 * group[2 * groups :] / groups]
    score = np.clip(rng.normal(0.4 + 0.2 * y * (1 + group / groups), 0.2), 0, 1)
    return Data(y.astype(np.int64), np.floor(score * 1000) / 1000, np.array(names)[group], names)


@cache
def real_data(groups: int) -> Data:
    """Held-out scores of the mortgage data; more than two groups are made from the size of the loan."""
    data = load_loanapp()
    train, test = data.split()
    score = fit(data, train).predict_proba(data.features.iloc[test])[:, 1]
    feature: npt.NDArray[Any] = data.sensitive_feature[test]
    if groups > 2:
        feature = pd.qcut(data.features["loanamt"].iloc[test], groups, labels=False).astype(str).to_numpy()
    return Data(data.y_true[test], np.floor(score * 1000) / 1000, feature, tuple(sorted(set(feature))))


class Scores(BaseEstimator):  # type: ignore[misc]
    """What Fairlearn takes for a model: hands its only column on."""

    def fit(self, *data: Any) -> "Scores":
        return self

    def predict(self, X: Any) -> Floats:  # noqa: N803
        return np.asarray(X)[:, 0]


def fairlearn_positive(data: Data, constraint: str, objective: str, **options: Any) -> Floats:
    """Return the probability with which Fairlearn predicts each sample positive."""
    optimizer = ThresholdOptimizer(
        estimator=Scores(),
        constraints=OF_FAIRLEARN[constraint],
        objective=objective,
        prefit=True,
        predict_method="predict",
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the stand-in has nothing fitted
        optimizer.fit(data.y_score[:, np.newaxis], data.y_true, sensitive_features=data.feature)
    probabilities = optimizer._pmf_predict(data.y_score[:, np.newaxis], sensitive_features=data.feature)
    return np.asarray(probabilities[:, 1])


def our_positive(data: Data, chosen: GroupThresholds) -> Floats:
    """Return the probability with which the rules predict each sample positive."""
    positive = np.zeros(len(data.y_score))
    for group, rule in chosen.rules.items():
        for threshold, probability in zip(rule.thresholds, rule.probabilities, strict=True):
            positive += probability * ((data.feature == group) & (data.y_score >= threshold))
    return positive


def achieved(data: Data, positive: Floats, constraint: str, objective: str) -> tuple[float, float]:
    """Return the objective, as Fairlearn defines it under the constraint, and the gap, from predictions."""

    def rates(label: tuple[int, ...]) -> Floats:
        return np.array(
            [positive[(data.feature == g) & np.isin(data.y_true, label)].mean() for g in data.groups]
        )

    tpr, fpr, selection = rates((1,)), rates((0,)), rates((0, 1))
    gap = {
        "equalized_odds": max(np.ptp(tpr), np.ptp(fpr)),
        "equal_opportunity": np.ptp(tpr),
        "false_positive_rate_parity": np.ptp(fpr),
        "demographic_parity": np.ptp(selection),
    }[constraint]
    right = np.where(data.y_true == 1, positive, 1 - positive)
    if objective == "accuracy_score":
        value = right.mean()
    elif constraint == "equalized_odds":
        value = (right[data.y_true == 1].mean() + right[data.y_true == 0].mean()) / 2
    else:
        value = (np.array([(data.feature == g).mean() for g in data.groups]) * (tpr + 1 - fpr) / 2).sum()
    return float(value), float(gap)


def compare(data: Data, constraint: str, objective: str) -> None:
    curves = data.curves()
    chosen = choose_thresholds(curves, constraint, objective)
    ours, gap = achieved(data, our_positive(data, chosen), constraint, objective)
    assert ours == pytest.approx(chosen.objective_value, abs=1e-9)
    assert gap == pytest.approx(chosen.gap, abs=1e-9)
    positive = fairlearn_positive(data, constraint, objective, grid_size=1000)
    theirs, their_gap = achieved(data, positive, constraint, objective)
    assert their_gap < 1e-9
    slack = 1e-9
    if constraint == "equalized_odds":  # two thresholds a group, where Fairlearn draws among four
        slack = 2 * max(PAIR_SLACK, 0.5 / min(curves.positives.min(), curves.negatives.min()))
    assert gap <= slack
    # Better by what Fairlearn loses on its grid of 1000 rates.
    assert theirs - slack <= ours <= theirs + slack + 5e-4


@pytest.mark.parametrize("groups", [2, 3, 4, 5])
@EVERY_CONSTRAINT
@EVERY_OBJECTIVE
def test_equals_fairlearn_on_random_data(groups: int, constraint: str, objective: str) -> None:
    compare(random_data(groups), constraint, objective)


@pytest.mark.parametrize("groups", [2, 3, 4, 5])
@EVERY_CONSTRAINT
@EVERY_OBJECTIVE
def test_equals_fairlearn_on_real_data(groups: int, constraint: str, objective: str) -> None:
    compare(real_data(groups), constraint, objective)


@pytest.mark.parametrize("groups", [2, 3, 4, 5])
@pytest.mark.parametrize("make", [random_data, real_data])
def test_leaves_less_than_half_as_much_to_chance_as_fairlearn(make: Any, groups: int) -> None:
    """Whoever is predicted positive with a probability between 0 and 1."""
    data = make(groups)
    chosen = choose_thresholds(data.curves(), "equalized_odds", "balanced_accuracy_score")
    theirs = fairlearn_positive(data, "equalized_odds", "balanced_accuracy_score", grid_size=1000)
    ours, fairlearn = (
        float(((positive > 1e-9) & (positive < 1 - 1e-9)).mean())
        for positive in (our_positive(data, chosen), theirs)
    )
    assert ours < fairlearn / 2


@OF_ONE_RATE
@pytest.mark.parametrize("tolerance", [0.01, 0.1])
def test_tolerance_is_at_least_as_good_as_fairlearns(constraint: str, tolerance: float) -> None:
    data = random_data(3)
    chosen = choose_thresholds(data.curves(), constraint, tolerance=tolerance)
    positive = fairlearn_positive(data, constraint, "accuracy_score", grid_size=1000, tol=tolerance)
    theirs, their_gap = achieved(data, positive, constraint, "accuracy_score")
    assert their_gap <= tolerance + 1e-9 and chosen.gap <= tolerance + 1e-9
    assert theirs - 1e-9 <= chosen.objective_value <= theirs + 1e-3


@EVERY_CONSTRAINT
@EVERY_OBJECTIVE
@pytest.mark.parametrize("deterministic", [False, True])
def test_more_tolerance_is_never_worse_and_is_kept(
    constraint: str, objective: str, deterministic: bool
) -> None:
    curves = random_data(3).curves()
    values = []
    for tolerance in (0.03, 0.1, 0.3, 1):
        chosen = choose_thresholds(curves, constraint, objective, tolerance, deterministic)
        assert chosen.gap <= tolerance + 1e-9
        assert not deterministic or all(rule.is_deterministic for rule in chosen.rules.values())
        values.append(chosen.objective_value)
    assert values == pytest.approx(sorted(values), abs=1e-9)
    # With everything allowed, a single threshold is as good as any draw.
    free = choose_thresholds(curves, constraint, objective, 1, not deterministic)
    assert values[-1] == pytest.approx(free.objective_value, abs=1e-9)
