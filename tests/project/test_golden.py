"""Files of version 1.0, which every later version reads: tests/golden/1.0 is never written anew.

A result of each command, a task, its uploads with a party's keys, lists and aggregate, a policy, a ledger.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import fairshares as fs
from harness.hosts.policy import read_policy
from harness.privacy.ledger.entries import Ledger
from protocols.guarantee import Budget
from tests.support.command import succeed

OF_1_0 = Path(__file__).parents[1] / "golden" / "1.0"
FINGERPRINT = "5f5e13b67ebff5ed"
RESULTS: dict[str, tuple[Callable[[Any], float], float]] = {
    "weights": (lambda result: result.weights["women", "ill"], 1.2858394672274798),
    "confusion": (lambda result: result.rates.true_positive_rate["women", "ill"], 0.897163),
    "thresholds": (lambda result: result.rates.selection_rate["women"], 0.482574),
    "gap": (lambda result: result.gaps.gap["men", "women"], -0.051738),
    "count": (lambda result: result.counts["men", "healthy"], 172.547394),
    "cap": (lambda result: result.cap, 2),
}


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """Return a copy, whose keys and policy are their owner's alone."""
    copy = shutil.copytree(OF_1_0, tmp_path / "1.0")
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    with closing(sqlite3.connect(copy / "ledger.sqlite")) as ledger:
        ledger.executescript((copy / "ledger.sql").read_text())
    return copy


@pytest.mark.parametrize("task", RESULTS)
def test_results_and_their_manifests_are_read(task: str) -> None:
    result, (value, expected) = fs.load(OF_1_0 / task), RESULTS[task]
    assert value(result) == pytest.approx(expected, abs=1e-6)
    assert result.manifest["task"] == task
    assert 0.99 < result.privacy.epsilon <= 1 or task == "count"


def test_uploads_are_opened_and_added_up_to_the_same_aggregate(golden: Path) -> None:
    """Which takes the task, the party's keys, and the signed lists of all parties."""
    given = ("--task", "task.json", "--party", "0", "--keys", "keys-0", "--shares", "party-0")
    said = succeed("aggregate", *given, "--uploads", "lists", "--out", "again.aggregate", cwd=golden)
    assert "Party 0: 3 uploads" in said and FINGERPRINT in said
    assert (golden / "again.aggregate").read_bytes() == (golden / "party-0.aggregate").read_bytes()


def test_a_policy_allows_what_it_did(golden: Path) -> None:
    policy = read_policy(golden)
    (rule,) = policy.host_rules.rules
    assert (policy.port, policy.client_port, policy.coordinators, policy.attempts) == (
        12100,
        12200,
        ["alice"],
        3,
    )
    assert rule.total.epsilon == 4 and rule.per_run.delta == Fraction(1, 2**40)
    assert rule.upload_tasks and rule.chains


def test_a_ledger_goes_on(golden: Path) -> None:
    spent = fs.ledger("clinics", ledger=golden / "ledger.sqlite").charges
    assert list(spent.task) == ["weights", "confusion", "thresholds", "count"]
    ledger = Ledger(golden / "ledger.sqlite")
    (clinics,) = ledger.populations("clinics")
    assert clinics.budget and clinics.budget.epsilon == 20
    ledger.set_budget("clinics", Budget(Fraction(30)))
    (clinics,) = ledger.populations("clinics")
    assert clinics.budget == Budget(Fraction(30))
