"""Group fairness metrics: visible fractions, and Fairlearn and scikit-learn as oracles."""

import math
from types import SimpleNamespace
from typing import Any

import fairlearn.metrics as oracle
import numpy as np
import numpy.typing as npt
import pytest
import sklearn.metrics

from fairshares.harness.evaluation.metrics import (
    assess,
    corrected_metrics,
    group_rates,
    published_metrics,
)

Integers = npt.NDArray[np.int64]


def table(*cells: tuple[str, int, int, int]) -> tuple[Integers, Integers, npt.NDArray[np.str_]]:
    """Spell out (group, y_true, y_pred, how many) as y_true, y_pred, sensitive_feature."""
    groups, truth, predicted = zip(*[cell[:3] for cell in cells for _ in range(cell[3])], strict=True)
    return np.array(truth), np.array(predicted), np.array(groups)


# a: TPR 3/4, FPR 1/2, selected 4/6. b: TPR 1/2, FPR 0, selected 1/5.
RIGGED = table(
    ("a", 1, 1, 3), ("a", 1, 0, 1), ("a", 0, 1, 1), ("a", 0, 0, 1),
    ("b", 1, 1, 1), ("b", 1, 0, 1), ("b", 0, 0, 3),
)  # fmt: skip


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


FOUR = ("one_minus_di", "delta_eop", "delta_eodd", "delta_sp")


def test_paper_metrics_in_visible_fractions() -> None:
    """Hits of all: a 3/6, b 1/5."""
    published = published_metrics(*RIGGED, ["a", "b"])
    assert published == pytest.approx(
        {"one_minus_di": 1 / 2, "delta_eop": 1 / 4, "delta_eodd": 1 / 4, "delta_sp": 3 / 6 - 1 / 5}
    )
    corrected = corrected_metrics(*RIGGED, ["a", "b"])
    assert corrected == pytest.approx(
        {"one_minus_di": 1 - 3 / 10, "delta_eop": 1 / 4, "delta_eodd": 3 / 8, "delta_sp": 4 / 6 - 1 / 5}
    )


def test_published_metrics_call_fair_what_is_not() -> None:
    """Equal true positive rates; but of the negatives, all of a and none of b are predicted positive."""
    cells = table(("a", 1, 1, 1), ("a", 0, 1, 1), ("b", 1, 1, 1), ("b", 0, 0, 1))
    assert published_metrics(*cells, ["a", "b"]) == dict.fromkeys(FOUR, 0)
    assert corrected_metrics(*cells, ["a", "b"]) == dict(zip(FOUR, (1 / 2, 0, 1 / 2, 1 / 2), strict=True))


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_corrected_metrics_are_fairlearns(groups: int) -> None:
    rng = np.random.default_rng(groups)
    names = [f"group {i}" for i in range(groups)]
    feature, y_true = rng.choice(names, 500), rng.integers(2, size=500)
    y_pred = (rng.random(500) < 0.3 + 0.2 * y_true + 0.2 * (feature == names[0])).astype(np.int64)
    metrics = corrected_metrics(y_true, y_pred, feature, names)
    of_groups = {"y_true": y_true, "y_pred": y_pred, "sensitive_features": feature}
    assert metrics["one_minus_di"] == pytest.approx(1 - oracle.demographic_parity_ratio(**of_groups))
    assert metrics["delta_eop"] == pytest.approx(oracle.equal_opportunity_difference(**of_groups))
    assert metrics["delta_eodd"] == pytest.approx(oracle.equalized_odds_difference(**of_groups, agg="mean"))
    assert metrics["delta_sp"] == pytest.approx(oracle.demographic_parity_difference(**of_groups))
    rates = oracle.MetricFrame(metrics=oracle.true_positive_rate, **of_groups)
    published = published_metrics(y_true, y_pred, feature, names)
    assert published["one_minus_di"] == pytest.approx(1 / rates.ratio() - 1)
    assert published["delta_eop"] == published["delta_eodd"] == pytest.approx(rates.difference())
