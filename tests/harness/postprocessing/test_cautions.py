"""What chosen thresholds are to be wary of: hardly any decision, scores of the other label."""

import numpy as np
import pytest

from fairshares.harness.postprocessing.curves import GroupCurves, exact_curves
from fairshares.harness.postprocessing.thresholds.choose import (
    cautions,
    choose_thresholds,
    constant_prediction,
)

pytestmark = pytest.mark.usefixtures("in_shell")

GRID = np.linspace(0, 1, 101)


def curves(share: float, better: tuple[float, float], records: int = 1000) -> GroupCurves:
    """Return exact curves of two groups. Args: share: of positives; better: their scores' lead."""
    rng = np.random.default_rng(3)
    truth = (np.arange(2 * records) % records < share * records).astype(int)
    group = np.repeat(["a", "b"], records)
    above = np.where(group == "a", *better) * np.where(truth, 1, -1)
    return exact_curves(truth, np.clip(rng.normal(0.5 + above, 0.2), 0, 1), group, ["a", "b"], GRID)


def said(group_curves: GroupCurves) -> list[str]:
    return cautions(choose_thresholds(group_curves), group_curves, "yes")


def test_thresholds_that_tell_labels_apart_have_nothing_to_be_wary_of() -> None:
    assert said(curves(0.5, (0.2, 0.1))) == []


def test_a_rule_that_is_almost_constant_is_told_with_the_way_out() -> None:
    rare = curves(0.05, (0.01, 0.01))
    (sentence,) = said(rare)
    assert "groups 'a' and 'b'" in sentence and "--objective balanced_accuracy_score" in sentence
    assert constant_prediction(rare, "accuracy_score") == pytest.approx(0.95)
    assert constant_prediction(rare, "balanced_accuracy_score") == 0.5


def test_scores_of_the_other_label_are_told() -> None:
    reversed_in_b = curves(0.5, (0.2, -0.1))
    sentence = said(reversed_in_b)[0]
    assert "group 'b'" in sentence and "--positive-label" in sentence
    areas = reversed_in_b.points().area_under_curve
    assert areas[0] > 0.85 and areas[1] < 0.35


def test_the_area_is_the_share_of_pairs_that_are_ranked_right() -> None:
    rng = np.random.default_rng(4)
    truth, score = rng.integers(0, 2, 60), rng.integers(0, 101, 60) / 100
    exact = exact_curves(truth, score, np.array(["a", "b"] * 30), ["a", "b"], GRID)
    truth, score = truth[::2], score[::2]
    higher = score[truth == 1][:, np.newaxis] - score[truth == 0]
    assert exact.points().area_under_curve[0] == pytest.approx(((higher > 0) + (higher == 0) / 2).mean())
