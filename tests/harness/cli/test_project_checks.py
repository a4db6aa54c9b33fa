"""`./inv test`: every check runs, pytest last, and none that failed is forgotten."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from harness.cli.project_checks import DEFAULT_ONLY, STATIC_CHECKS, run_checks

IN_ORDER = [*STATIC_CHECKS, "pytest"]


def played(failing: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Have the checks that are named fail, without running any; return a list of what will be started."""
    started: list[list[str]] = []

    def play(command: list[str], **_: object) -> SimpleNamespace:
        started.append(command)
        name = IN_ORDER[len(started) - 1]
        return SimpleNamespace(returncode=failing.get(name, 0))

    monkeypatch.setattr(subprocess, "run", play)
    return started


@pytest.mark.parametrize("everything", [False, True])
def test_exhaustive_tests_run_on_demand_only(everything: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started = played({}, monkeypatch)
    run_checks(everything=everything)
    assert (" ".join(DEFAULT_ONLY) in " ".join(started[-1])) is not everything


@pytest.mark.parametrize(
    ("failing", "code"),
    [
        ({}, 0),
        ({"ruff check": 1}, 1),
        ({"mypy": 2}, 1),
        ({"import-linter": 1}, 1),
        ({"pytest": 5}, 5),
        ({"ruff format": 1, "pytest": 2}, 2),
    ],
)
def test_all_run_and_the_worst_counts(
    failing: dict[str, int],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    started = played(failing, monkeypatch)
    assert run_checks(["-k", "some"]) == code
    assert len(started) == len(IN_ORDER) and started[-1][-2:] == ["-k", "some"]
    said = capfd.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("--- ")] == [f"--- {name}" for name in IN_ORDER]
    early = [name for name in IN_ORDER[:-1] if name in failing]
    assert any(line.startswith(f"Failed so far: {', '.join(early)}.") for line in said) == bool(early)
    assert said[-1] == "--- pytest"
