"""Group fairness metrics: visible fractions, and Fairlearn and scikit-learn as oracles."""

import math
from types import SimpleNamespace
from typing import Any

import fairlearn.metrics as oracle
import numpy as np
import numpy.typing as npt
import pytest
import sklearn.metrics

from fairshares.harness.evaluation.metrics import assess, group_rates
from fairshares.protocols.arrays import Integers
from tests.support.predictions import RIGGED, table


def assessed(*columns: Any) -> SimpleNamespace:
    return SimpleNamespace(**assess(*columns))


def test_rigged_data_has_visible_fractions() -> None:
    rates = group_rates(*RIGGED, ["a", "b"])
    assert rates.selection_rate.tolist() == [4 / 6, 1 / 5]
    assert rates.true_positive_rate.tolist() == [3 / 4, 1 / 2]
    assert rates.false_positive_rate.tolist() == [1 / 2, 0]
    metrics = assess(*RIGGED, ["a", "b"])
    assert metrics == pytest.approx(
        {
            "accuracy": 8 / 11,
            "balanced_accuracy": (4 / 6 + 4 / 5) / 2,
            "selection_rate": 5 / 11,
            "demographic_parity_difference": 4 / 6 - 1 / 5,
            "equalized_odds_difference": 1 / 2,
            "equal_opportunity_difference": 1 / 4,
            "disparate_impact_ratio": (1 / 5) / (4 / 6),
        }
    )


def test_group_without_records_is_undefined_not_fair() -> None:
    metrics = assessed(*RIGGED, ["a", "b", "c"])
    assert np.isnan(group_rates(*RIGGED, ["a", "b", "c"]).selection_rate).tolist() == [False, False, True]
    assert math.isnan(metrics.demographic_parity_difference) and math.isnan(metrics.disparate_impact_ratio)
    assert math.isnan(metrics.equalized_odds_difference) and math.isnan(metrics.equal_opportunity_difference)
    assert metrics.accuracy == 8 / 11


def test_group_without_negatives_leaves_only_what_needs_them_undefined() -> None:
    metrics = assessed(*table(("a", 1, 1, 1), ("a", 0, 1, 1), ("b", 1, 0, 1)), ["a", "b"])
    assert metrics.equal_opportunity_difference == 1 and metrics.demographic_parity_difference == 1
    assert math.isnan(metrics.equalized_odds_difference)


def test_nobody_selected_has_no_ratio() -> None:
    metrics = assessed([1, 0, 1, 0], [0, 0, 0, 0], ["a", "a", "b", "b"], ["a", "b"])
    assert math.isnan(metrics.disparate_impact_ratio) and metrics.demographic_parity_difference == 0


def test_refuses_a_group_that_is_not_declared() -> None:
    with pytest.raises(ValueError, match=r"the groups \['d'\], which are not among"):
        assess([1, 0], [1, 0], ["a", "d"], ["a", "b"])


def compare_with_fairlearn(
    y_true: Integers, y_pred: Integers, feature: npt.NDArray[np.str_], groups: list[str]
) -> None:
    metrics = assessed(y_true, y_pred, feature, groups)
    of_groups = {"y_true": y_true, "y_pred": y_pred, "sensitive_features": feature}
    assert metrics.accuracy == pytest.approx(sklearn.metrics.accuracy_score(y_true, y_pred))
    assert metrics.balanced_accuracy == pytest.approx(sklearn.metrics.balanced_accuracy_score(y_true, y_pred))
    assert metrics.selection_rate == pytest.approx(oracle.selection_rate(y_true, y_pred))
    assert metrics.demographic_parity_difference == pytest.approx(
        oracle.demographic_parity_difference(**of_groups)
    )
    assert metrics.equalized_odds_difference == pytest.approx(oracle.equalized_odds_difference(**of_groups))
    assert metrics.equal_opportunity_difference == pytest.approx(
        oracle.equal_opportunity_difference(**of_groups)
    )
    if y_pred.any():
        assert metrics.disparate_impact_ratio == pytest.approx(oracle.demographic_parity_ratio(**of_groups))
    frame = oracle.MetricFrame(
        metrics={"tpr": oracle.true_positive_rate, "fpr": oracle.false_positive_rate}, **of_groups
    )
    rates = group_rates(y_true, y_pred, feature, groups)
    assert rates.true_positive_rate.tolist() == pytest.approx(frame.by_group["tpr"].loc[groups].tolist())
    assert rates.false_positive_rate.tolist() == pytest.approx(frame.by_group["fpr"].loc[groups].tolist())


@pytest.mark.parametrize("groups", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_fairlearn(groups: int, seed: int) -> None:
    rng = np.random.default_rng([groups, seed])
    names = [f"group {i}" for i in range(groups)]
    feature = np.array(names)[np.r_[np.repeat(np.arange(groups), 2), rng.integers(groups, size=400)]]
    y_true = np.r_[np.tile([0, 1], groups), rng.integers(2, size=400)]
    y_pred = (rng.random(len(y_true)) < 0.3 + 0.1 * y_true + 0.1 * (feature == names[0])).astype(np.int64)
    compare_with_fairlearn(y_true, y_pred, feature, names)
