"""What a mitigation changed, in words, numbers and a figure."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from harness.evaluation import before_after
from harness.evaluation.splits import METRICS, UNMITIGATED, Evaluation
from harness.views.plots import before_after_figure


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
    panels = before_after_figure(evaluation).axes
    assert [axes.get_title(loc="left").replace("\n", " ") for axes in panels] == [
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
