"""What a mitigation changed, in words, numbers and a figure."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from harness.evaluation.before_after import METRICS, UNMITIGATED, Evaluation
from harness.views.before_after import METRICS as NAMES
from harness.views.before_after import TOLD, before_after, models
from harness.views.parts import Sentences, Table
from harness.views.rendering.plots import before_after_figure


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
    panels = before_after_figure(evaluation, models(evaluation), {each: NAMES[each] for each in TOLD}).axes
    assert [axes.get_title(loc="left").replace("\n", " ") for axes in panels] == [
        NAMES[metric] for metric in TOLD
    ]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == [UNMITIGATED, "m"]
    summary = evaluation.summary()
    for axes, metric in zip(panels, TOLD, strict=True):
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        drawn = np.concatenate([np.asarray(line.get_xdata()) for line in dots])
        assert drawn.tolist() == summary[summary["metric"] == metric]["mean"].tolist()


def test_changes_are_told_for_each_mitigation(evaluation: Evaluation) -> None:
    _, table, changes = before_after(evaluation, 2)
    assert isinstance(table, Table) and isinstance(changes, Sentences)
    (told,) = changes.texts
    assert told.startswith("m: balanced accuracy rose in 2 of 2 splits (+0.250 on average)")
    assert list(table.columns) == ["", *models(evaluation)] == ["", UNMITIGATED, "m"]
    row = {row[0]: row[1:] for row in table.rows}["balanced accuracy"]
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in row] == ["0.075 ± 0.035", "0.325 ± 0.035"]
