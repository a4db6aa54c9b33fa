"""Rates of recordings under a model trained on them, on data made so that the rates are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.studies.gaps.rates import RATES, activity_rates, printed_figures
from harness.errors import DataSetError

ROWS = 60


def recording(lying: int, rows: int, *, lost: int = 0) -> str:
    """Return a recording whose first rows lie; the vertical axis tells, but in the first `lost` of them."""
    lines = []
    for row in range(rows):
        vertical = 5.0 if row < lost or row >= lying else -5.0
        lines.append(f"0,0,{vertical},0,1,0,0,1,{3 if row < lying else 1}")
    return "\n".join(lines) + "\n"


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def test_rates_are_those_that_were_planted(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "d1p01M": recording(30, ROWS),
            "d1p02M": recording(40, ROWS),
            "d1p03F": recording(30, ROWS),
            "d2p01F": recording(30, ROWS, lost=30),  # lies, and never looks like it
            "d2p02F": recording(24, 49),  # too short
            "d2p03M": recording(5, ROWS),  # lies too seldom
        },
    )
    seen: list[int] = []
    rates = activity_rates(path, 2, seen.append)
    true, false = (rates.values[name] for name in RATES)
    assert [of_sex.tolist() for of_sex in true] == [[1.0, 1.0], [1.0, 0.0]]
    assert [of_sex.tolist() for of_sex in false] == [[0.0, 0.0], [0.0, 0.0]]
    figures = rates.figures
    assert set(figures) == set(printed_figures())
    assert (figures["recordings_M"].value, figures["recordings_F"].value) == (3, 3)
    assert figures["readings_per_recording"].value == pytest.approx((5 * ROWS + 49) / 6)
    assert figures["mean_true_positive_rate_M"].value == 100
    assert figures["mean_true_positive_rate_F"].value == 50
    assert figures["true_positive_rate_gap"].value == 50
    assert figures["false_positive_rate"].value == 0
    assert 70 < figures["accuracy"].value < 100 and np.isfinite(figures["accuracy"].deviation or np.nan)
    assert rates.about["source"] == "activity" and not rates.about["same_as_described_in_data_README"]
    assert seen == [1, 2]


def test_both_sexes_are_needed(tmp_path: Path) -> None:
    with pytest.raises(DataSetError, match="no recording of each sex"):
        activity_rates(write(tmp_path, {"d1p01M": recording(30, ROWS), "d1p03F": recording(3, ROWS)}), 1)
