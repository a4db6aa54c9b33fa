"""What commands print, and where: the answer, privacy in three lines, JSON alone, or next to nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from harness.cli.terminal import INTERRUPTED
from harness.privacy.ledger.charge import NOTHING_SPENT
from tests.support.command import call

WEIGHTS = ("weights", "--records", "records.csv", "--model", "mpyc", "--out", "results")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "records.csv").write_text("client_id,group,label\nc0,a,0\nc1,b,1\n")
    return tmp_path


def test_the_answer_is_first_and_privacy_three_lines(here: Path) -> None:
    done = call(*WEIGHTS, "--epsilon", "0.20", cwd=here)
    table, _, told = done.stdout.partition("\n\n")
    assert done.returncode == 0 and table.startswith("┏") and "noisy count" in table
    privacy = told.splitlines()[:3]
    assert [line.partition(":")[0] for line in privacy] == ["Revealed", "Guarantee", "Trust"]
    assert "ε = 0.1999 (0.20 asked), δ = 9.031e-13, one record added or removed." in privacy[1]
    full = call(*WEIGHTS[:-1], "again", "--epsilon", "0.20", "--verbose", cwd=here).stdout
    assert (
        "(ε = 0.20 was requested; exact values" in full and "Cost: " in full and "learns nothing more" in full
    )


def test_quiet_leaves_the_answer(here: Path) -> None:
    done = call(*WEIGHTS[:3], "--epsilon", "1", "--quiet", "--out", "results", cwd=here)  # no model either
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("┏") and not any(
        word in done.stdout for word in ("Revealed", "Guarantee", "Trust", "ledger", "Results", "Cost")
    )
    refused = call(*WEIGHTS, "--epsilon", "1", "--quiet", cwd=here)  # the directory is there already
    assert refused.returncode == 1 and refused.stdout == "" and refused.stderr.startswith("Error: ")


def test_json_is_alone(here: Path) -> None:
    done = call(*WEIGHTS[:3], "--epsilon", "1", "--json", "--out", "[b]results", cwd=here)
    assert json.loads(done.stdout) == json.loads((here / "[b]results" / "weights.json").read_text())
    model, results = map(json.loads, done.stderr.splitlines())
    assert model["announcement"].startswith("Model: ") and results == {"announcement": "Results: [b]results"}
    for wrong in (
        ("--out", "[b]results"),
        ("--out", "other", "--labels", "0"),
        ("--out", "x", "--epsilom=2"),
    ):
        refused = call(*WEIGHTS[:5], "--epsilon", "1", "--json", *wrong, cwd=here)
        (line,) = refused.stderr.splitlines()
        assert (refused.returncode, refused.stdout) == (1, "") and list(json.loads(line)) == ["error"]
    assert call(*WEIGHTS, "--epsilon", "1", "--json", "--quiet", cwd=here).stderr == ""


@pytest.mark.parametrize("started", [False, True])
def test_an_interrupt_says_what_was_spent(started: bool, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While clients share nothing is spent; once parties were let start all is, also when they ended."""
    where = "harness.pipeline.run.privacy_fields" if started else "harness.pipeline.party_inputs.share"

    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(where, interrupted)
    done = call(*WEIGHTS, "--epsilon", "1", "--population", "p", "--ledger", "l.sqlite", cwd=here)
    assert done.returncode == 130 and not (here / "results").exists()
    *_, said, spent = done.stderr.splitlines()
    assert said == INTERRUPTED
    assert spent == (
        "Spent: ε = 0.9971 and δ = 7.051e-14 by weights, as its parties had started; charged to population "
        f"'p' in {here / 'l.sqlite'}."
        if started
        else NOTHING_SPENT
    )
