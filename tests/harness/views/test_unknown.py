"""Intervals that exclude nothing say so, wherever differences and rates are shown."""

import numpy as np
import pandas as pd
import pytest

import fairshares as fs
from fairshares.harness.views.parts import difference_unknown, rates_unknown
from fairshares.protocols.accounting.rounding import interval_shown

pytestmark = pytest.mark.usefixtures("in_shell")

OF_A_DIFFERENCE = "says nothing of the difference"
OF_A_RATE = "A rate whose interval goes from 0 to 1 is unknown."


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0, 1, True), (0, 0.812, True), (0.0004, 1, True), (0, 0.1, False), (0.2, 1, False)],
)
def test_a_difference_of_which_nothing_is_known_says_so(low: float, high: float, said: bool) -> None:
    assert bool(difference_unknown(low, high)) == said
    shown = interval_shown(low, high, 3)
    assert all(f"The interval {shown} {OF_A_DIFFERENCE}" in text for text in difference_unknown(low, high))


def test_a_rate_of_which_nothing_is_known_says_so() -> None:
    assert rates_unknown(np.array([0.2, 0.0]), np.array([0.3, 0.9999])) == [OF_A_RATE]
    assert rates_unknown(np.array([0.2, 0.0]), np.array([1.0, 0.9])) == []
    assert rates_unknown(np.array([np.nan]), np.array([np.nan])) == []


def records(rows: int) -> pd.DataFrame:
    """Return records of two groups, with scores that tell both labels apart."""
    label = np.arange(rows) // 2 % 2
    columns = {"group": np.array(["a", "b"])[np.arange(rows) % 2], "label": label, "prediction": label}
    return pd.DataFrame({**columns, "score": 0.25 + 0.5 * label})


@pytest.mark.parametrize(("rows", "said"), [(40, True), (40_000, False)])
def test_thresholds_on_few_records_say_what_is_unknown(rows: int, said: bool) -> None:
    result = fs.thresholds(records(rows), epsilon=10, thresholds=[0.5], security="mpyc", population="none")
    assert (OF_A_DIFFERENCE in str(result)) == said


@pytest.mark.parametrize(("rows", "said"), [(4, True), (40_000, False)])
def test_confusion_of_few_records_says_what_is_unknown(rows: int, said: bool) -> None:
    result = fs.confusion(records(rows), epsilon=1, security="mpyc", population="none")
    assert (OF_A_RATE in " ".join(str(result).split())) == said
