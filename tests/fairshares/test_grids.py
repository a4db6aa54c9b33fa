"""Thresholds among which rules choose, in Python: how many, or which; a domain that is a dict."""

import io
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairshares as fs
from fairshares import _progress
from tests.support.running import until

DECLARED = {"groups": ["a", "b"], "labels": [0, 1]}


def scored(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"group": ["a", "b"] * (n // 2), "label": [0, 0, 1, 1] * (n // 4)})
    return table.assign(score=np.clip(0.2 + 0.6 * table.label + rng.normal(0, 0.1, n), 0, 1))


@pytest.mark.parametrize(
    ("given", "grid"),
    [
        ({"thresholds": 5}, [0, 0.25, 0.5, 0.75, 1]),
        ({"thresholds": [0.29, 0.57]}, [0, 0.29, 0.57]),
        ({"thresholds": np.array([0.3, 0.5])}, [0, 0.3, 0.5]),
        ({"domain": {**DECLARED, "max_count": 2, "thresholds": [0.5]}}, [0, 0.5]),
        ({**DECLARED, "groups": scored().group.unique(), "thresholds": 3}, [0, 0.5, 1]),
    ],
)
def test_any_grid(given: dict[str, Any], grid: list[float]) -> None:
    """The counts are those of records whose scores reach the threshold, to the noise."""
    table = scored()
    result = fs.thresholds(table, epsilon=20, security="mpyc", **given)
    assert result.curves.loc["a"].index.tolist() == grid
    exact = [(table.score[(table.group == "a") & (table.label == 1)] >= t).sum() for t in grid]
    assert np.abs(result.curves.loc["a"].true_positives.to_numpy() - exact).max() < 30


def test_of_a_thousand_records_there_are_101_thresholds() -> None:
    result = fs.thresholds(scored(), epsilon=20, security="mpyc")
    assert result.curves.loc["a"].index.tolist() == [j / 100 for j in range(101)]


@pytest.mark.parametrize("call", [fs.weights, fs.count])
def test_a_domain_with_thresholds_is_also_of_calls_without_scores(call: Callable[..., Any]) -> None:
    """As the same domain in a file is."""
    result = call(scored(), domain={**DECLARED, "thresholds": 5}, epsilon=10, security="mpyc")
    assert result.privacy.epsilon <= 10


def test_a_domain_of_values_has_groups_alone() -> None:
    table = scored().rename(columns={"score": "value"})
    for more in ({"labels": [0, 1]}, {"max_count": 1}, {"thresholds": 5}):
        with pytest.raises(fs.OptionError, match=r"domain= has .*; it may have groups, which"):
            fs.gap(table, domain={"groups": ["a", "b"], **more}, range=(0, 1), epsilon=10, security="mpyc")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"thresholds": 1}, "thresholds= must be a whole number from 2"),
        ({"thresholds": [0.5, 0.4]}, "0.5 is followed by 0.4"),
        ({"thresholds": [0.5, 1.4]}, "thresholds= must be a score from 0 to 1, for example 0.5; got '1.4'"),
        ({"domain": {**DECLARED, "threshold": 3}}, "domain= has 'threshold'; it may have groups, labels"),
        ({"domain": DECLARED, "groups": ["a", "b"]}, "domain= has 'groups'"),
    ],
)
def test_what_is_no_grid_or_domain_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(fs.FairSharesError) as refusal:
        fs.thresholds(scored(), epsilon=1, security="mpyc", **given)
    assert said in str(refusal.value)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_shown_the_step_of_a_call_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    with _progress.steps({"run": "parties: run"}) as begin:
        begin("run")
    assert "parties" not in shown.getvalue()  # it took no time
    monkeypatch.setattr(_progress, "_SHOWN_AFTER_S", 0.0)
    with _progress.steps({"run": "parties: [run]"}) as begin:
        begin("run")
        until(lambda: "parties: [run]" in shown.getvalue())
    assert shown.getvalue().endswith("\x1b[2K")  # the line is erased


def test_a_notebook_has_one_output_that_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterLab erases nothing that was printed, and shows standard error as an error."""
    shown: list[str] = []

    def update(data: dict[str, str], raw: bool) -> None:
        shown.append(data["text/plain"])

    module = SimpleNamespace(display=lambda *_, **__: SimpleNamespace(update=update))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=module))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("sys.stdout", printed := io.StringIO())
    monkeypatch.setattr("sys.stderr", printed)
    with _progress.steps({"run": "parties: run"}) as begin:
        begin("run")
    assert shown == []  # it took no time
    monkeypatch.setattr(_progress, "_SHOWN_AFTER_S", 0.0)
    with _progress.steps({"run": "parties: run"}) as begin:
        begin("run")
        until(lambda: any("parties: run" in text for text in shown))
    assert shown[-1] == "" and printed.getvalue() == ""


def test_a_plan_from_records_shows_that_it_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", shown := Terminal())
    monkeypatch.setattr(_progress, "_SHOWN_AFTER_S", 0.0)
    fs.plan(from_records=scored(), epsilon=1, security="mpyc")
    assert "read records" in shown.getvalue()


def test_a_pipe_is_shown_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", piped := io.StringIO())
    monkeypatch.setattr(_progress, "_SHOWN_AFTER_S", 0.0)
    with _progress.steps({}) as begin:
        begin("run")
        time.sleep(0.1)
    assert piped.getvalue() == ""
