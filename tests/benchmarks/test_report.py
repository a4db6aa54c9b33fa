"""Figures of measured runs, and their numbers in words."""

import pytest

from benchmarks.report.export import drawings
from benchmarks.validation import texts
from benchmarks.validation.cells import Measured
from benchmarks.validation.side_by_side import table2_rows
from tests.support import synthetic as made_up


def test_what_was_measured_is_drawn() -> None:
    measured = Measured.from_samples(made_up.samples())
    drawn = dict(drawings(measured, table2_rows(measured)))
    assert drawn.keys() == {"table2", "figure1"}
    names = [axes.get_title("left") for axes in drawn["table2"].axes]
    assert names == [texts.TITLES[protocol] for protocol in ("pi_rw", "pi_roc")]
    nothing = Measured.from_samples([])
    assert not dict(drawings(nothing, table2_rows(nothing)))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.00403, "0.00403"),
        (0.0406, "0.0406"),
        (9.912, "9.91"),
        (30.2, "30.2"),
        (1202.4, "1,200"),
        (0, "0.00"),
    ],
)
def test_seconds_have_three_digits(value: float, shown: str) -> None:
    assert texts.seconds(value) == shown
