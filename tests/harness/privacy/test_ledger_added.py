"""Uploads that are added to a charge: which may be, that it stays as it is, and that nobody forgets them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from harness.errors import BudgetError, FairSharesError, LedgerError, PopulationError, UsedUploadsError
from harness.inputs.client_policy import ClientPolicy
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import PrivacyEvent
from protocols.accounting.calibration import Budget, NeighboringRelation, PrivacyUnit
from protocols.noise.truncated import Guarantee

SPENT = Guarantee(Fraction(1), Fraction(1, 1 << 40))
WHOLE = PrivacyEvent(
    "weights",
    "ring",
    SPENT,
    PrivacyUnit.RECORD,
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    Path("/series"),
    uploads=("a", "b"),
)


def more(*uploads: str, **changes: object) -> PrivacyEvent:
    return replace(WHOLE, uploads=uploads, **changes)  # type: ignore[arg-type]


def other(*uploads: str) -> PrivacyEvent:
    return more(*uploads, out=Path("/other"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite", timeout_s=0.2)


@pytest.mark.parametrize("name", ["people", None])
def test_uploads_are_added_and_nothing_is_charged(ledger: Ledger, name: str | None) -> None:
    budget = Budget(Fraction(1)) if name else None
    number, _ = ledger.charge(name, budget, WHOLE)
    assert ledger.add(name, more("c"), "ab")[0] == ledger.add(None, more("d", "e"), "abc")[0] == number
    assert ledger.spent_on("abcde") == dict.fromkeys("abcde", SPENT)
    assert [len(each.charges) for each in ledger.populations()] == ([1] if name else [])
    refused: type[FairSharesError] = BudgetError if name else UsedUploadsError
    with pytest.raises(refused):  # a run of their own is charged, or counted
        ledger.charge(name, None, other("c"))


def test_whoever_does_not_know_all_that_was_added_is_refused(ledger: Ledger) -> None:
    """The folder is a copy from before, whatever it brings: its release would be made again."""
    ledger.charge("people", None, WHOLE)
    ledger.add("people", more("c"), "ab")
    ledger.charge("people", None, other("c", "d"))  # after which it is not the last use
    for known, new in (("ab", "c"), ("ab", "x"), ("", "x"), ("ac", "x")):
        with pytest.raises(LedgerError, match="uploads went into an epoch that /series does not know"):
            ledger.add("people", more(new), known)
    assert "x" not in ledger.spent_on("x")
    ledger.add("people", more("d"), "abc")  # charged to the same people
    assert ledger.spent_on("d")["d"].epsilon == 2


def test_what_a_crash_kept_from_the_ledger_is_added_later(ledger: Ledger) -> None:
    """An epoch was killed after the folder was written: its uploads are counted again by a later one."""
    ledger.charge("people", None, WHOLE)
    ledger.add("people", more("d"), "abc")
    assert ledger.spent_on("cd") == dict.fromkeys("cd", SPENT)
    with pytest.raises(LedgerError, match="1 uploads went into an epoch"):
        ledger.add("people", more("x"), "abd")


@pytest.mark.parametrize(
    "changes",
    [
        {"out": Path("/elsewhere")},
        {"task": "count"},
        {"exact": Guarantee(Fraction(2), SPENT.delta)},
        {"exact": Guarantee(Fraction(1), Fraction(0))},
    ],
)
def test_what_was_not_charged_so_takes_nothing(ledger: Ledger, changes: dict[str, object]) -> None:
    ledger.charge("people", None, WHOLE)
    with pytest.raises(LedgerError, match=r"it has no charge of ε = .* for /.*; go on with the ledger"):
        ledger.add("people", more("c", **changes), "ab")


def test_uploads_that_another_run_used_are_refused(ledger: Ledger) -> None:
    ledger.charge("people", None, WHOLE)
    ledger.charge("others", None, other("c"))
    ledger.charge(None, None, other("d"))
    for used in "cd":
        with pytest.raises(UsedUploadsError, match="1 of these 2 new uploads went into another run"):
            ledger.add("people", more("x", used), "ab")


def test_another_population_is_refused(ledger: Ledger) -> None:
    ledger.charge("people", None, WHOLE)
    with pytest.raises(PopulationError, match="/series was not charged to 'others'"):
        ledger.add("others", more("c"), "ab")


def test_a_client_has_to_allow_all_of_it(ledger: Ledger) -> None:
    ledger.charge("people", None, WHOLE)
    policy = ClientPolicy(("weights",), "1/2", "1/2", PrivacyUnit.RECORD)
    with pytest.raises(BudgetError, match="policies of clients do not cover this run, in 1 of its 2 uploads"):
        ledger.add("people", more("c", "d", policies={"d": policy}), "ab")
    ledger.add("people", more("c", "d", policies={"d": replace(policy, epsilon="1")}), "ab")
