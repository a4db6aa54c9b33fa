"""`./inv test`: every check runs, pytest last, and none that failed is forgotten."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from harness.cli.checks import IN_PARALLEL, run_checks

IN_ORDER = ["ruff check", "ruff format", "mypy", "pytest"]


@pytest.mark.parametrize(
    ("failing", "code"),
    [
        ({}, 0),
        ({"ruff check": 1}, 1),
        ({"mypy": 2}, 1),
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
    started: list[list[str]] = []

    def play(command: list[str], **_: object) -> SimpleNamespace:
        started.append(command[2:])  # after `python -m`
        name = " ".join(command[2:])
        return SimpleNamespace(
            returncode=next((code for key, code in failing.items() if name.startswith(key)), 0)
        )

    monkeypatch.setattr(subprocess, "run", play)
    assert run_checks(["-k", "some"]) == code
    assert started[-1] == ["pytest", *IN_PARALLEL, "-k", "some"]
    said = capfd.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("--- ")] == [f"--- {name}" for name in IN_ORDER]
    early = [name for name in IN_ORDER[:-1] if name in failing]
    assert any(line.startswith(f"Failed so far: {', '.join(early)}.") for line in said) == bool(early)
    assert said[-1] == "--- pytest"
