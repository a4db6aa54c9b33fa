"""Charts draw what they are given."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from harness import before_after, charts
from harness.curves import exact_curves
from harness.evaluation import METRICS, UNMITIGATED, Evaluation
from harness.thresholds import choose_thresholds

CURVES = exact_curves(
    [0, 1, 1, 0, 1, 0], [0.1, 0.4, 0.9, 0.6, 0.8, 0.2], list("aaabbb"), ["a", "b"], [0.0, 0.5, 1.0]
)


def test_a_roc_chart_has_a_curve_a_band_and_a_rule_for_each_group() -> None:
    chosen = choose_thresholds(CURVES, "equal_opportunity", "balanced_accuracy_score")
    (axes,) = charts.roc(CURVES, chosen, 0.95).axes
    labelled = {line.get_label(): line for line in axes.lines}
    points = CURVES.points()
    for i, group in enumerate(CURVES.groups):
        assert np.array_equal(labelled[group].get_xdata(), points.false_positive_rate[i])
        assert np.array_equal(labelled[group].get_ydata(), points.true_positive_rate[i])
    diamonds = [line for line in axes.lines if line.get_marker() == "D"]
    at = np.concatenate([np.asarray(line.get_ydata()) for line in diamonds])
    assert at.tolist() == chosen.rates["true_positive_rate"].tolist()
    assert len(axes.patches) == 2


def test_without_rules_there_are_curves_alone() -> None:
    (axes,) = charts.roc(CURVES, None, 0.95).axes
    assert not [line for line in axes.lines if line.get_marker() == "D"]


@pytest.fixture
def evaluation() -> Evaluation:
    rows = [
        [
            split,
            model,
            *(float(Fraction(i + split + 5 * (model != UNMITIGATED), 20)) for i in range(len(METRICS))),
        ]
        for split in (0, 1)
        for model in (UNMITIGATED, "m")
    ]
    runs = pd.DataFrame(rows, columns=["split", "model", *METRICS])
    return Evaluation(runs.astype(dict.fromkeys(METRICS, float)))


def test_before_and_after_shows_each_model_in_each_panel(evaluation: Evaluation) -> None:
    panels = charts.before_after(evaluation).axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        before_after.METRICS[metric] for metric in before_after.TOLD
    ]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == [UNMITIGATED, "m"]
    summary = evaluation.summary()
    for axes, metric in zip(panels, before_after.TOLD, strict=True):
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        drawn = np.concatenate([np.asarray(line.get_xdata()) for line in dots])
        assert drawn.tolist() == summary[summary["metric"] == metric]["mean"].tolist()


def test_changes_are_told_for_each_mitigation(evaluation: Evaluation) -> None:
    (told,) = before_after.changes(evaluation)
    assert told.startswith("m: balanced accuracy rose in 2 of 2 splits (+0.250 on average)")
    header = before_after.models(evaluation)
    assert header == [UNMITIGATED, "m"]
    row = {row[0]: row[1:] for row in before_after.table(evaluation)}["balanced accuracy"]
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in row] == ["0.075 ± 0.035", "0.325 ± 0.035"]
