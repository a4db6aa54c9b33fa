"""A session's calls are those of the package, with what the session states."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest

import fairshares as fs
from fairshares import _calls
from tests.support.running import QUICKEST

TASKS = ("weights", "thresholds", "confusion", "gap", "count", "cap", "train")
NEEDED: dict[str, dict[str, Any]] = {
    "gap": {"range": (0, 1)},
    "cap": {"release_epsilon": 1},
    "train": {"features": {"x": {"low": 0, "high": 1}}},
}
QUICK: dict[str, Any] = {"security": QUICKEST}
STATED: dict[str, Any] = {
    "population": "loans",
    "budget": (3, "1e-6"),
    "ledger": "ledger.sqlite",
    "cap": 10,
    "security": "ring",
    "client_id": "who",
    "group": "sex",
    "label": "granted",
    "groups": ["a", "b"],
    "labels": [0, 1],
    "domain": "domain.json",
    "max_count": 20,
    "stock": "noise",
    "timeout": 60,
}
NOT_IN = {
    "gap": {"cap", "label", "labels", "domain", "max_count"},
    "count": {"cap"},
    "cap": {"cap", "stock", "privacy_unit"},
}


@pytest.mark.parametrize("task", TASKS)
def test_a_call_is_made_with_all_that_it_has_of_the_session(task: str) -> None:
    session = fs.Session("my.csv", unit="client", **STATED)
    own = {"epsilon": 1, "out": "results", **NEEDED.get(task, {})}
    with patch.object(_calls, task, autospec=True) as made:
        result = getattr(session, task)(**own)
    assert result is made.return_value
    expected = {"records": "my.csv", "privacy_unit": "client", **STATED}
    expected = {name: value for name, value in expected.items() if name not in NOT_IN.get(task, set())}
    given = made.call_args.kwargs
    assert not made.call_args.args
    assert {name: given[name] for name in expected} == expected
    assert {name: given[name] for name in own} == own
    assert not given.keys() & NOT_IN.get(task, set())


def test_what_several_calls_spend_is_charged_to_one_population(tmp_path: Path) -> None:
    clients = {"client_id": [*range(40)] * 2, "group": ["a", "b"] * 40, "label": [0, 0, 1, 1] * 20}
    session = fs.Session(
        pd.DataFrame(clients),
        population="loans",
        budget=12,
        ledger=tmp_path / "ledger.sqlite",
        unit="client",
        cap=2,
        **QUICK,
    )
    weights = session.weights(epsilon=10)
    assert (weights.privacy.unit, weights.manifest["request"]["cap"]) == ("client", "2")
    assert weights.manifest["request"]["population"] == "loans"
    with pytest.raises(fs.BudgetError):
        session.weights(epsilon=3)
    session.weights(epsilon=2)
    assert len(session.ledger().charges) == 2


def test_a_session_refuses_what_it_does_not_know() -> None:
    with pytest.raises(fs.OptionError, match=r"^unit= must be record or client; got 'person'\.$"):
        fs.Session(unit="person")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="detla"):
        fs.Session(detla="1e-6")  # type: ignore[call-arg]
    session = fs.Session({"group": ["a"], "label": [1]}, unit="client", **QUICK)
    with pytest.raises(TypeError, match="detla"):
        session.weights(epsilon=1, detla="1e-6")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="population"):
        session.weights(epsilon=1, population="others")  # type: ignore[call-arg]
    with pytest.raises(fs.OptionError, match="privacy_unit= must be record; got 'client'"):
        session.count(epsilon=1)
