"""Thresholds from curves in visible fractions, and what is refused."""

import json
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import InfeasibleError, OptionError, TooNoisyError, UndefinedRateError
from fairshares.harness.postprocessing.curves import CurveNoise, GroupCurves
from fairshares.harness.postprocessing.thresholds.choose import (
    GroupThresholds,
    _gap,
    choose_thresholds,
)
from fairshares.harness.postprocessing.thresholds.constraints import CONSTRAINTS
from fairshares.harness.releases.thresholds.statistic import state_thresholds
from fairshares.harness.system.documents import as_json
from fairshares.protocols.circuits.coins import design_coins

EVERY_CONSTRAINT = pytest.mark.parametrize("constraint", CONSTRAINTS)


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


def test_false_positive_rate_parity_in_visible_fractions() -> None:
    """At FPR 1/2, a has TPR 1; b, halfway from its TPR 1/2 at FPR 0 to accepting everybody, has 3/4."""
    chosen = choose_thresholds(rigged(), "false_positive_rate_parity", "balanced_accuracy_score")
    assert chosen.rates["false_positive_rate"].tolist() == [1 / 2, 1 / 2] and chosen.gap == 0
    assert chosen.rates["true_positive_rate"].tolist() == [1, 3 / 4]
    assert chosen.objective_value == (3 / 4 + 5 / 8) / 2


def test_demographic_parity_in_visible_fractions() -> None:
    """At 1/2, a selects 3/4 and b 1/4; in between a gains as much as b loses."""
    chosen = choose_thresholds(rigged(), "demographic_parity")
    assert chosen.gap == pytest.approx(0) and 1 / 4 <= chosen.rates["selection_rate"][0] <= 3 / 4
    assert chosen.objective_value == pytest.approx((3 / 4 + 7 / 12) / 2)


def content(chosen: GroupThresholds) -> dict[str, Any]:
    """Return the content of `thresholds.json`."""
    fields: dict[str, Any] = json.loads(json.dumps(as_json(state_thresholds(chosen)), allow_nan=False))
    return fields


def test_deterministic_thresholds_in_visible_fractions() -> None:
    chosen = choose_thresholds(rigged(), "equal_opportunity", tolerance=0.5, deterministic=True)
    assert thresholds(chosen) == {"a": [0.5], "b": [0.5]}
    assert chosen.gap == 1 / 2 and chosen.objective_value == 3 / 4
    assert content(chosen)["thresholds"] == {
        "a": {"threshold": 0.5},
        "b": {"threshold": 0.5},
    }


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
    assert set(content(chosen)["thresholds"]["b"]) == {"thresholds", "probabilities"}


def test_of_thresholds_that_do_the_same_the_middle_one_is_taken() -> None:
    grid = np.array([0, 0.2, 0.4, 0.6, 0.8])
    step = np.array([[4.0, 3, 3, 3, 0]] * 2)
    curves = GroupCurves(("a", "b"), grid, step, np.minimum(step, 1), step[:, 0], np.ones(2))
    chosen = choose_thresholds(replace(curves, fp=np.array([[1.0, 0, 0, 0, 0]] * 2)))
    assert thresholds(chosen) == {"a": [0.4], "b": [0.4]}


@EVERY_CONSTRAINT
def test_json_is_what_scripts_read(constraint: str) -> None:
    written = content(choose_thresholds(rigged(), constraint))
    assert written["constraint"] == constraint and written["objective"] == "accuracy_score"
    assert written["confidence"] == 0.95
    if not CONSTRAINTS[constraint].is_averaged_by_draws:
        assert written["deterministic"] is True and written["tolerance_is_the_least"] is True
    else:
        assert written["deterministic"] is False and written["tolerance_is_the_least"] is False
        assert written["tolerance"] == {"four_fifths": 0.2}.get(constraint, 0)
    assert set(written["thresholds"]) == set(written["rates"]) == {"a", "b"}
    low, high = written["rates"]["a"]["true_positive_rate"]["interval"]
    assert low <= written["rates"]["a"]["true_positive_rate"]["estimate"] <= high
    assert written["gap_interval"][0] <= written["gap"] <= written["gap_interval"][1]


def test_rate_that_is_not_needed_may_be_undefined() -> None:
    curves = replace(rigged(), fp=np.array([[0.0, 0, 0], [4, 0, 0]]), negatives=np.array([0.0, 4]))
    chosen = choose_thresholds(curves, "equal_opportunity")
    assert content(chosen)["rates"]["a"]["false_positive_rate"] == {
        "estimate": None,
        "interval": [0, 1],
    }
    # a accepts everybody: all its four records are positive. b then has to, with TPR 1: 4 of 8 right.
    assert chosen.gap == 0 and chosen.objective_value == pytest.approx((4 + 4) / 12)


@pytest.mark.parametrize(
    ("constraint", "objective", "what"),
    [
        ("equalized_odds", "accuracy_score", "negatives"),
        ("equal_opportunity", "balanced_accuracy_score", "negatives"),
        ("demographic_parity", "balanced_accuracy_score", "negatives"),
        ("false_positive_rate_parity", "accuracy_score", "negatives"),
        ("equalized_odds", "accuracy_score", "positives"),
        ("equal_opportunity", "accuracy_score", "positives"),
    ],
)
def test_refuses_rates_that_are_undefined(constraint: str, objective: str, what: str) -> None:
    none, four = [0.0, 0, 0], [4.0, 0, 0]
    if what == "negatives":
        curves = replace(rigged(), fp=np.array([none, four]), negatives=np.array([0.0, 4]))
    else:
        curves = replace(rigged(), tp=np.array([none, four]), positives=np.array([0.0, 4]))
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
    assert "gather 26 such records, or spend 7 times the epsilon: then that error is 10% of them" in str(
        caught.value
    )
    assert "is spent" in str(caught.value)


def test_noisy_total_below_zero_is_undefined() -> None:
    curves = noisy(replace(rigged(tp=[[-4.0, -4, -4], [4, 2, 0]]), positives=np.array([-3.0, 4])))
    with pytest.raises(
        UndefinedRateError, match="or spend more epsilon; the budget of this release is spent"
    ):
        choose_thresholds(curves)


def test_refuses_what_only_trivial_thresholds_meet() -> None:
    curves = replace(rigged(), fp=np.array([[4.0, 2, 0], [4, 1, 0]]))
    with pytest.raises(InfeasibleError, match="accepting everybody, or nobody, in all groups") as caught:
        choose_thresholds(curves, "equalized_odds", tolerance=0.1, deterministic=True)
    assert "noise" not in str(caught.value)
    advised = re.search(r"Allow a tolerance of ([\d.]+),", str(caught.value))
    assert advised is not None and 0.5 <= float(advised[1]) <= 0.51
    chosen = choose_thresholds(curves, "equalized_odds", tolerance=float(advised[1]), deterministic=True)
    assert thresholds(chosen) == {"a": [0.5], "b": [0.5]} and not chosen.least_tolerance


def test_without_a_tolerance_single_thresholds_have_the_least_gap_there_is() -> None:
    curves = replace(rigged(), fp=np.array([[4.0, 2, 0], [4, 1, 0]]))
    chosen = choose_thresholds(curves, "equalized_odds", deterministic=True)
    assert thresholds(chosen) == {"a": [0.5], "b": [0.5]}
    assert chosen.gap <= chosen.tolerance <= 1.02 * chosen.gap and chosen.least_tolerance
    assert content(chosen)["tolerance_is_the_least"] is True
    alike = replace(rigged(), tp=np.array([[4.0, 3, 0]] * 2), fp=np.array([[4.0, 1, 0]] * 2))
    exact = choose_thresholds(alike, "equalized_odds", deterministic=True)
    assert exact.tolerance == 0 and not exact.least_tolerance


def test_trivial_thresholds_are_fine_if_what_else_is_allowed_is_worse() -> None:
    """Both could take 3/4, at TPR 1/10 and FPR 1/2. Their other thresholds are good, and far apart."""
    curves = GroupCurves(
        ("a", "b"), np.array([0.5, 0.75]),
        tp=np.array([[10.0, 1], [10, 1]]), fp=np.array([[6.0, 5], [9, 5]]),
        positives=np.full(2, 10.0), negatives=np.full(2, 10.0),
    )  # fmt: skip
    chosen = choose_thresholds(curves, tolerance=0.05, deterministic=True)
    assert thresholds(chosen) == {"a": [2], "b": [2]}
    assert thresholds(choose_thresholds(curves, tolerance=0.3, deterministic=True)) == {
        "a": [0.5],
        "b": [0.5],
    }


def test_of_pairs_that_fit_the_one_that_leaves_least_to_chance_is_taken() -> None:
    """a's best point is (1/4, 1/2), below b's curve, between its points 0 and 4 and between 1 and 3."""
    many = 10**6
    b_fpr, b_tpr = np.array([0, 0.2, 0.22, 0.3, 0.5]), np.array([0.25, 0.45, 0.53, 0.55, 0.75])
    tp, fp = np.vstack([np.full(5, 0.5), b_tpr[::-1]]), np.vstack([np.full(5, 0.25), b_fpr[::-1]])
    totals = np.full(2, 1.0 * many)
    curves = GroupCurves(("a", "b"), np.arange(1, 6) / 10, tp * many, fp * many, totals, totals)
    chosen = choose_thresholds(curves)
    assert thresholds(chosen) == {"a": [0.3], "b": [0.2, 0.4]} and chosen.gap < 1e-9


def test_gap_is_between_groups_never_within_one() -> None:
    assert _gap(np.array([[0.0, 1.0], [0.5, 0.625]])) == (0, 0.625)
    assert _gap(np.array([[0.25, 0.5], [0.625, 0.75], [0.5, 0.75]])) == (0.125, 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"constraint": "fairness"}, "constraint must be one of equalized_odds, equal_opportunity, false_"),
        ({"objective": "f1"}, "objective must be one of accuracy_score, balanced_accuracy_score"),
        ({"tolerance": -0.1}, "between 0 and 1, not -0.1"),
        ({"tolerance": float("nan")}, "between 0 and 1, not nan"),
    ],
)
def test_refuses_options(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        choose_thresholds(rigged(), **arguments)
