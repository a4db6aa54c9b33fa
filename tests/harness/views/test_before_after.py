"""What a mitigation changed, in words, numbers and a figure."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from harness.evaluation.before_after import UNMITIGATED, summary
from harness.evaluation.metrics import METRICS
from harness.views.parts import Picture, Sentences, Table
from harness.views.quickstart import METRICS as NAMES, TOLD, before_after
from tests.harness.views.test_plots import drawn


@pytest.fixture
def evaluation() -> pd.DataFrame:
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
    return runs.astype(dict.fromkeys(METRICS, float))


def test_before_and_after_shows_each_model_in_each_picture(evaluation: pd.DataFrame) -> None:
    pictures = [part for part in before_after(evaluation, 2) if isinstance(part, Picture)]
    figures = summary(evaluation).set_index("metric")
    assert [picture.name for picture in pictures] == list(TOLD)
    for picture, metric in zip(pictures, TOLD, strict=True):
        axes = drawn(picture)
        assert axes.get_xlabel().startswith(NAMES[metric])
        assert [label.get_text() for label in axes.get_yticklabels()] == [UNMITIGATED, "m"]
        _, *spreads, means = axes.get_lines()  # the first is the line to compare them with
        expected = figures.loc[[metric]]
        assert np.asarray(means.get_xdata()).tolist() == expected["mean"].tolist()
        ends = np.array([line.get_xdata() for line in spreads])
        assert np.allclose(np.diff(ends)[:, 0] / 2, expected["std"])


def test_changes_are_told_for_each_mitigation(evaluation: pd.DataFrame) -> None:
    *_, table, changes = before_after(evaluation, 2)
    assert isinstance(table, Table) and isinstance(changes, Sentences)
    (told,) = changes.texts
    assert told.endswith("balanced accuracy rose in 2 of 2 splits (+0.250 on average).")
    assert list(table.columns) == ["", UNMITIGATED, "m"]
    row = {row[0]: row[1:] for row in table.rows}["balanced accuracy"]
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in row] == ["0.075 ± 0.035", "0.325 ± 0.035"]
