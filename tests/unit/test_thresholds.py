"""Thresholds from curves: visible fractions, and Fairlearn's ThresholdOptimizer as oracle on exact curves."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.base import BaseEstimator

from data.loanapp import load_loanapp
from harness.curves import CurveNoise, GroupCurves, exact_curves
from harness.errors import InfeasibleError, OptionError, TooNoisyError, UndefinedRateError
from harness.evaluation import fit
from harness.threshold_search import PAIR_SLACK
from harness.thresholds import CONSTRAINTS, OBJECTIVES, GroupThresholds, choose_thresholds
from protocols.circuits.coins import design_coins

Floats = npt.NDArray[np.float64]

GRID = np.arange(1001) / 1000
EVERY_CONSTRAINT = pytest.mark.parametrize("constraint", CONSTRAINTS)
EVERY_OBJECTIVE = pytest.mark.parametrize("objective", OBJECTIVES)
OF_FAIRLEARN = {
    "equalized_odds": "equalized_odds",
    "equal_opportunity": "true_positive_rate_parity",
    "demographic_parity": "demographic_parity",
}


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

    def fit(self, *data: Any) -> Scores:  # noqa: ARG002
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
    found = optimizer._pmf_predict(data.y_score[:, np.newaxis], sensitive_features=data.feature)
    return np.asarray(found[:, 1])


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
        "demographic_parity": np.ptp(selection),
    }[constraint]
    right = np.where(data.y_true == 1, positive, 1 - positive)
    if objective == "accuracy_score":
        value = right.mean()
    elif constraint == "equalized_odds":
        value = (right[data.y_true == 1].mean() + right[data.y_true == 0].mean()) / 2
    else:
        sizes = np.array([(data.feature == g).mean() for g in data.groups])
        value = (sizes * (tpr + 1 - fpr) / 2).sum()
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
        smallest = min(curves.positives.min(), curves.negatives.min())
        slack = 2 * max(PAIR_SLACK, 0.5 / smallest)
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


@pytest.mark.parametrize("constraint", ["equal_opportunity", "demographic_parity"])
@EVERY_OBJECTIVE
def test_what_fairlearn_loses_is_its_grid(constraint: str, objective: str) -> None:
    data = random_data(3)
    chosen = choose_thresholds(data.curves(), constraint, objective)
    losses = [
        chosen.objective_value
        - achieved(
            data,
            fairlearn_positive(data, constraint, objective, grid_size=size),
            constraint,
            objective,
        )[0]
        for size in (10, 1000, 50_000)
    ]
    assert losses[0] > losses[1] > losses[2] > -1e-9 and losses[2] < 1e-6


@pytest.mark.parametrize("constraint", ["equal_opportunity", "demographic_parity"])
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


def rigged(**changes: Any) -> GroupCurves:
    """Four positives and four negatives in each group. At 1/2: a has TPR 1 and FPR 1/2; b TPR 1/2, FPR 0."""
    counts = {"tp": [[4.0, 4, 0], [4, 2, 0]], "fp": [[4.0, 2, 0], [4, 0, 0]]} | changes
    four = np.full(2, 4.0)
    return GroupCurves(
        ("a", "b"), np.array([0, 0.5, 1]), np.array(counts["tp"]), np.array(counts["fp"]), four, four
    )


def thresholds(chosen: GroupThresholds) -> dict[str, list[float]]:
    return {group: list(rule.thresholds) for group, rule in chosen.rules.items()}


def test_equal_opportunity_in_visible_fractions() -> None:
    """Per unit of TPR, a gains 1/4 in accuracy throughout; b gains 1/2 up to TPR 1/2, then loses 1/2."""
    chosen = choose_thresholds(rigged(), "equal_opportunity")
    assert chosen.rates["true_positive_rate"].tolist() == [1 / 2, 1 / 2] and chosen.gap == 0
    assert chosen.rates["false_positive_rate"].tolist() == [1 / 4, 0]
    assert chosen.objective_value == (5 / 8 + 3 / 4) / 2
    assert {group: rule.to_json() for group, rule in chosen.rules.items()} == {
        "a": {"threshold": 0.5, "threshold_alt": 2, "probability_alt": 0.5},
        "b": {"threshold": 0.5},
    }


def test_equalized_odds_in_visible_fractions() -> None:
    """Hulls: a through (1/2, 1), b through (0, 1/2): they cross at (1/3, 2/3)."""
    chosen = choose_thresholds(rigged(), "equalized_odds")
    assert chosen.rates["true_positive_rate"] == pytest.approx([2 / 3, 2 / 3])
    assert chosen.rates["false_positive_rate"] == pytest.approx([1 / 3, 1 / 3])
    assert chosen.objective_value == pytest.approx(2 / 3)
    assert thresholds(chosen) == {"a": [0.5, 2], "b": [0, 0.5]}
    assert chosen.rules["a"].probabilities == pytest.approx((2 / 3, 1 / 3))
    assert chosen.rules["b"].probabilities == pytest.approx((1 / 3, 2 / 3))


def test_demographic_parity_in_visible_fractions() -> None:
    """At 1/2, a selects 3/4 and b 1/4; in between a gains as much as b loses."""
    chosen = choose_thresholds(rigged(), "demographic_parity")
    assert chosen.gap == pytest.approx(0) and 1 / 4 <= chosen.rates["selection_rate"][0] <= 3 / 4
    assert chosen.objective_value == pytest.approx((3 / 4 + 7 / 12) / 2)


def test_deterministic_thresholds_in_visible_fractions() -> None:
    chosen = choose_thresholds(rigged(), "equal_opportunity", tolerance=0.5, deterministic=True)
    assert thresholds(chosen) == {"a": [0.5], "b": [0.5]}
    assert chosen.gap == 1 / 2 and chosen.objective_value == 3 / 4
    assert chosen.to_json()["thresholds"] == {"a": {"threshold": 0.5}, "b": {"threshold": 0.5}}


def test_coarse_grid_takes_three_thresholds() -> None:
    """b's curve is strictly above a's corner, and no two of its few thresholds lead there."""
    many = 10**6
    curves = GroupCurves(
        ("a", "b"), np.array([0.5]),
        tp=np.array([[0.6], [0.9]]) * many, fp=np.array([[0.2], [0.1]]) * many,
        positives=np.full(2, 1.0 * many), negatives=np.full(2, 1.0 * many),
    )  # fmt: skip
    chosen = choose_thresholds(curves, "equalized_odds")
    assert thresholds(chosen) == {"a": [0.5], "b": [0, 0.5, 2]}
    assert chosen.gap < 1e-9 and chosen.objective_value == pytest.approx(0.7)
    assert set(chosen.to_json()["thresholds"]["b"]) == {"thresholds", "probabilities"}


def test_of_thresholds_that_do_the_same_the_middle_one_is_taken() -> None:
    grid = np.array([0, 0.2, 0.4, 0.6, 0.8])
    step = np.array([[4.0, 3, 3, 3, 0]] * 2)
    curves = GroupCurves(("a", "b"), grid, step, np.minimum(step, 1), step[:, 0], np.ones(2))
    chosen = choose_thresholds(replace(curves, fp=np.array([[1.0, 0, 0, 0, 0]] * 2)))
    assert thresholds(chosen) == {"a": [0.4], "b": [0.4]}


@EVERY_CONSTRAINT
def test_json_is_what_scripts_read(constraint: str) -> None:
    found = json.loads(json.dumps(choose_thresholds(rigged(), constraint).to_json(), allow_nan=False))
    assert found["constraint"] == constraint and found["objective"] == "accuracy_score"
    assert found["deterministic"] is False and found["tolerance"] == 0 and found["confidence"] == 0.95
    assert set(found["thresholds"]) == set(found["rates"]) == {"a", "b"}
    low, high = found["rates"]["a"]["true_positive_rate"]["interval"]
    assert low <= found["rates"]["a"]["true_positive_rate"]["estimate"] <= high
    assert found["gap_interval"][0] <= found["gap"] <= found["gap_interval"][1]


def test_rate_that_is_not_needed_may_be_undefined() -> None:
    curves = replace(rigged(), fp=np.array([[0.0, 0, 0], [4, 0, 0]]), negatives=np.array([0.0, 4]))
    chosen = choose_thresholds(curves, "equal_opportunity")
    assert chosen.to_json()["rates"]["a"]["false_positive_rate"] == {"estimate": None, "interval": [0, 1]}
    # a accepts everybody: all its four records are positive. b then has to, with TPR 1: 4 of 8 right.
    assert chosen.gap == 0 and chosen.objective_value == pytest.approx((4 + 4) / 12)


@pytest.mark.parametrize(
    ("constraint", "objective", "what"),
    [
        ("equalized_odds", "accuracy_score", "negatives"),
        ("equal_opportunity", "balanced_accuracy_score", "negatives"),
        ("demographic_parity", "balanced_accuracy_score", "negatives"),
    ],
)
def test_refuses_rates_that_are_undefined(constraint: str, objective: str, what: str) -> None:
    curves = replace(rigged(), fp=np.array([[0.0, 0, 0], [4, 0, 0]]), negatives=np.array([0.0, 4]))
    with pytest.raises(UndefinedRateError, match=f"group 'a' has no {what}, so a rate .* is 0/0"):
        choose_thresholds(curves, constraint, objective)


def test_refuses_an_empty_group() -> None:
    curves = replace(
        rigged(tp=[[0.0] * 3, [4, 2, 0]], fp=[[0.0] * 3, [4, 0, 0]]), positives=np.array([0.0, 4])
    )
    curves = replace(curves, negatives=np.array([0.0, 4]))
    with pytest.raises(UndefinedRateError, match="group 'a' has no records"):
        choose_thresholds(curves, "demographic_parity")


def noisy(curves: GroupCurves) -> GroupCurves:
    """Say that each bin of the curves had noise of its own; which the counts happen not to show."""
    bins = len(curves.thresholds)
    linear = np.vstack([np.triu(np.ones((bins, bins))), np.ones(bins)])
    return replace(curves, noise=CurveNoise(linear, design_coins(Fraction(1), 40)))


def test_refuses_what_the_noise_hides_and_says_what_would_help() -> None:
    """Standard error of a total of three bins: sqrt(3 * 2.13) = 2.5; four records are within two of it."""
    with pytest.raises(TooNoisyError) as caught:
        choose_thresholds(noisy(rigged()))
    assert "positives are estimated to be 4.0, with a standard error of 2.5" in str(caught.value)
    assert "With 7 times the epsilon, or 7 times as many such records" in str(caught.value)
    assert "is spent" in str(caught.value)


def test_noisy_total_below_zero_is_undefined() -> None:
    curves = noisy(replace(rigged(tp=[[-4.0, -4, -4], [4, 2, 0]]), positives=np.array([-3.0, 4])))
    with pytest.raises(
        UndefinedRateError, match="or spend more epsilon; the budget of this release is spent"
    ):
        choose_thresholds(curves)


def test_refuses_what_only_trivial_thresholds_meet() -> None:
    curves = replace(rigged(), fp=np.array([[4.0, 2, 0], [4, 1, 0]]))
    with pytest.raises(InfeasibleError, match="all groups accept everybody, or all nobody") as caught:
        choose_thresholds(curves, "equalized_odds", tolerance=0.1, deterministic=True)
    assert "Allow a tolerance of 0.5" in str(caught.value) and "noise" not in str(caught.value)
    chosen = choose_thresholds(curves, "equalized_odds", tolerance=0.51, deterministic=True)
    assert thresholds(chosen) == {"a": [0.5], "b": [0.5]}


def test_says_how_much_of_an_infeasible_gap_may_be_noise() -> None:
    hundredfold = replace(
        rigged(tp=[[400.0, 400, 0], [400, 200, 0]], fp=[[400.0, 200, 0], [400, 100, 0]]),
        positives=np.full(2, 400.0), negatives=np.full(2, 400.0),
    )  # fmt: skip
    with pytest.raises(InfeasibleError, match=r"moves a rate by 0.0063 .* 7 times either brings") as caught:
        choose_thresholds(noisy(hundredfold), tolerance=0.001, deterministic=True)
    assert "1/(epsilon * records)" in str(caught.value)


def test_trivial_thresholds_are_fine_if_nothing_is_better() -> None:
    rare = replace(rigged(), tp=np.array([[4.0, 1, 0]] * 2), fp=np.array([[400.0, 200, 0]] * 2))
    rare = replace(rare, negatives=np.full(2, 400.0))
    chosen = choose_thresholds(rare, deterministic=True)
    assert thresholds(chosen) == {"a": [2], "b": [2]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"constraint": "fairness"}, "constraint must be one of equalized_odds, equal_opportunity, demo"),
        ({"objective": "f1"}, "objective must be one of accuracy_score, balanced_accuracy_score"),
        ({"tolerance": -0.1}, "between 0 and 1, not -0.1"),
        ({"tolerance": float("nan")}, "between 0 and 1, not nan"),
    ],
)
def test_refuses_options(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        choose_thresholds(rigged(), **arguments)
