"""The epochs of a series under one charge: who may go on, that it stays as it is, that none is forgotten."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from harness.errors import (
    BudgetError,
    FairSharesError,
    LedgerError,
    PopulationError,
    UsedUploadsError,
)
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import PrivacyEvent
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.guarantee import Budget, Guarantee
from tests.support.sharing import allowing

SPENT = Guarantee(Fraction(1), Fraction(1, 1 << 40))
RUN = PrivacyEvent(
    "weights",
    "ring",
    SPENT,
    PrivacyUnit.RECORD,
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    Path("/series"),
    uploads=("a", "b"),
)
FIRST = replace(RUN, epoch="1")
ONE = {"1": ["a", "b"]}
TWO = {**ONE, "2": ["c"]}


def other(*uploads: str) -> PrivacyEvent:
    return replace(RUN, uploads=uploads, out=Path("/other"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite", timeout_s=0.2)


@pytest.mark.parametrize("name", ["people", None])
def test_epochs_are_added_and_nothing_is_charged(ledger: Ledger, name: str | None) -> None:
    budget = Budget(Fraction(1)) if name else None
    number, _ = ledger.charge(name, budget, FIRST)
    assert ledger.add(name, FIRST, TWO)[0] == number
    assert ledger.add(None, FIRST, {**TWO, "3": ["d", "e"]})[0] == number
    assert ledger.spent_on("abcde") == dict.fromkeys("abcde", SPENT)
    assert [len(each.charges) for each in ledger.populations()] == ([1] if name else [])
    refused: type[FairSharesError] = BudgetError if name else UsedUploadsError
    with pytest.raises(refused):  # a run of their own is charged, or counted
        ledger.charge(name, None, other("c"))


def test_whoever_does_not_know_all_epochs_is_refused(ledger: Ledger) -> None:
    """It is a copy from before, whatever it brings: its release would be made again."""
    ledger.charge("people", None, FIRST)
    ledger.add("people", FIRST, TWO)
    ledger.charge("people", None, other("c", "d"))  # after which it is not the last use
    for new in ("c", "x"):
        with pytest.raises(LedgerError, match="an epoch began that /series does not know, which is a copy"):
            ledger.add("people", FIRST, {**ONE, "3": [new]})
    assert "x" not in ledger.spent_on("x")
    ledger.add("people", FIRST, {**TWO, "3": ["d"]})  # charged to the same people
    assert ledger.spent_on("d")["d"].epsilon == 2


def test_two_series_at_one_place_with_the_same_terms_are_two(ledger: Ledger) -> None:
    """Though the uploads of one are all known to the other."""
    first, _ = ledger.charge("people", None, FIRST)
    second, _ = ledger.charge("people", None, replace(FIRST, uploads=("a",), epoch="5"))
    assert ledger.add("people", FIRST, TWO)[0] == first
    assert ledger.add("people", FIRST, {"5": ["a"], "6": ["x"]})[0] == second


def test_what_a_crash_kept_from_the_ledger_is_added_later(ledger: Ledger) -> None:
    """An epoch was killed after the folder was written: its uploads are counted again by a later one."""
    ledger.charge("people", None, FIRST)
    ledger.add("people", FIRST, {**TWO, "3": ["d"]})
    assert ledger.spent_on("cd") == dict.fromkeys("cd", SPENT)
    with pytest.raises(LedgerError, match="an epoch began"):
        ledger.add("people", FIRST, {**ONE, "3": ["d"], "4": ["x"]})


@pytest.mark.parametrize("before", [lambda ledger: None, lambda ledger: ledger.charge("people", None, RUN)])
def test_a_ledger_without_the_charge_takes_nothing(ledger: Ledger, before: Callable[[Ledger], None]) -> None:
    before(ledger)
    with pytest.raises(LedgerError, match=r"no charge of ε = 1 .* for the series in /series; go on with"):
        ledger.add("people", FIRST, TWO)


@pytest.mark.parametrize(
    "exact", [replace(SPENT, epsilon=Fraction(2)), replace(SPENT, delta=Fraction(1, 1 << 39))]
)
def test_epochs_that_spend_what_was_not_charged_are_refused(ledger: Ledger, exact: Guarantee) -> None:
    """Another version of FairShares, for example, may design other noise from the same options."""
    ledger.charge("people", None, FIRST)
    with pytest.raises(LedgerError, match=r"no charge of .* the ledger and the version that it was begun"):
        ledger.add("people", replace(FIRST, exact=exact), TWO)
    assert "c" not in ledger.spent_on("c")


def test_uploads_that_another_run_used_are_refused(ledger: Ledger) -> None:
    ledger.charge("people", None, FIRST)
    ledger.charge("others", None, other("c"))
    ledger.charge(None, None, other("d"))
    for used in "cd":
        with pytest.raises(UsedUploadsError, match="1 of these 2 new uploads went into another run"):
            ledger.add("people", FIRST, {**ONE, "2": ["x", used]})


def test_another_population_is_refused(ledger: Ledger) -> None:
    ledger.charge("people", None, FIRST)
    with pytest.raises(PopulationError, match="/series was not charged to 'others'"):
        ledger.add("others", FIRST, TWO)


def test_a_client_has_to_allow_all_of_it(ledger: Ledger) -> None:
    ledger.charge("people", None, FIRST)
    policy = allowing(("weights",), "1/2", "1/2", PrivacyUnit.RECORD)
    second = replace(FIRST, uploads=("c", "d"))
    with pytest.raises(BudgetError, match="policies of clients do not cover this run, in 1 of its 2 uploads"):
        ledger.add("people", replace(second, policies={"d": policy}), {**ONE, "2": ["c", "d"]})
    larger = allowing(("weights",), "1", "1/2", PrivacyUnit.RECORD)
    ledger.add("people", replace(second, policies={"d": larger}), {**ONE, "2": ["c", "d"]})
