"""A run's way through the ledger: when it is charged, what it becomes, and that no run goes around it."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.charged import Chargeable
from fairshares.harness.errors import (
    BudgetError,
    FairSharesError,
    LedgerError,
    PartyFailedError,
    PopulationError,
    UsedUploadsError,
)
from fairshares.harness.privacy.ledger import charge as charging
from fairshares.harness.privacy.ledger.charge import Account, SeriesEntry, entry, settled
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent, Status
from fairshares.harness.stated_privacy import StatedLoss
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Budget
from tests.support.events import a_run

RELEASE = a_run()
# Draws noise and opens nothing else.


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite", timeout_s=0.2)


@pytest.fixture
def locked(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the ledger that can lock it."""
    monkeypatch.setattr(charging, "ABORTED_TIMEOUT_S", 0.1)
    ledger.set_budget("others", Budget(Fraction(9)))
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        yield connection


def statuses(ledger: Ledger) -> list[Status]:
    return [charge.status for population in ledger.populations() for charge in population.charges]


def run_and_fail(account: Account, error: type[BaseException], started: bool = True) -> None:
    with entry(account) as run:
        run.check(RELEASE)
        if started:
            run.charge(RELEASE, Chargeable())
        raise error


def run_and_lock(account: Account, locked: sqlite3.Connection, error: Exception | None) -> None:
    with entry(account) as run:
        run.charge(RELEASE, Chargeable())
        locked.execute("BEGIN EXCLUSIVE")
        if error is not None:
            raise error


def test_a_run_that_ends_well(ledger: Ledger) -> None:
    with entry(Account(ledger, "loans", Budget(Fraction(1)))) as run:
        run.check(RELEASE)
        assert run.stated() is None and statuses(ledger) == []
        run.charge(RELEASE, Chargeable())
        assert statuses(ledger) == [Status.RUNNING]
    assert statuses(ledger) == [Status.DONE]
    charged = run.stated()
    assert charged is not None
    assert (charged.population, charged.charge, charged.path) == ("loans", 1, str(ledger.path))
    assert charged.spent == StatedLoss(epsilon=Fraction(1), delta=Fraction(0))


@pytest.mark.parametrize("error", [PartyFailedError, KeyboardInterrupt, SystemExit])
def test_a_run_that_fails_stays_charged(error: type[BaseException], ledger: Ledger) -> None:
    with pytest.raises(error):
        run_and_fail(Account(ledger, "loans"), error)
    assert statuses(ledger) == [Status.ABORTED]


def test_a_run_that_fails_before_its_parties_start_is_not_charged(ledger: Ledger) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_and_fail(Account(ledger, "loans"), KeyboardInterrupt, started=False)
    with pytest.raises(BudgetError), entry(Account(ledger, "loans", Budget(Fraction(1, 2)))) as run:
        run.charge(RELEASE, Chargeable())
    assert not ledger.path.exists() or statuses(ledger) == []


def test_a_run_for_nobody_leaves_uploads_marked_and_nothing_else(ledger: Ledger) -> None:
    with entry(Account(ledger)) as run:
        run.check(RELEASE)
        run.charge(RELEASE, Chargeable())
    assert not ledger.path.exists() and run.stated() is None
    marked = PrivacyEvent(**{**vars(RELEASE), "uploads": ("ab" * 32,)})
    with entry(Account(ledger)) as run:
        run.charge(marked, Chargeable())
    assert run.stated() is None and ledger.populations() == []
    with pytest.raises(UsedUploadsError), entry(Account(ledger)) as run:
        run.check(marked)


def test_a_locked_ledger_stops_a_run_before_its_parties(ledger: Ledger, locked: sqlite3.Connection) -> None:
    locked.execute("BEGIN EXCLUSIVE")
    stopped = r"locked for 0\.2 s; .*\. No party computed anything\."
    with pytest.raises(LedgerError, match=stopped), entry(Account(ledger, "others")) as run:
        run.check(RELEASE)
    with pytest.raises(LedgerError, match=stopped), entry(Account(ledger, "others")) as run:
        run.charge(RELEASE, Chargeable())


def use(ledger: Ledger) -> None:
    """Let uploads go into a run that nobody counts."""
    with entry(Account(ledger)) as run:
        run.charge(MARKED, Chargeable())


MARKED = replace(RELEASE, uploads=("ab" * 32,))
# By what refuses a run that was not refused when it was checked: what others did to the ledger since.
SINCE: dict[type[FairSharesError], Callable[[Ledger], object]] = {
    BudgetError: lambda ledger: ledger.charge("loans", None, RELEASE),
    PopulationError: lambda ledger: ledger.charge("loans", None, replace(RELEASE, unit=PrivacyUnit.CLIENT)),
    UsedUploadsError: use,
    LedgerError: lambda ledger: ledger.path.write_text("no ledger"),
}


@pytest.mark.parametrize("error", SINCE)
def test_a_charge_that_is_refused_is_not_said_to_be_spent(
    error: type[FairSharesError], ledger: Ledger
) -> None:
    """Whatever refuses it; and the next charge of the same run is written, if it is the first."""
    ledger.set_budget("loans", Budget(Fraction(1)))
    said, named = list(charging.SPENT), "loans" if error is not UsedUploadsError else None
    with settled(SeriesEntry(Account(ledger, named), MARKED)) as run:
        run.check(RELEASE)
        kept = ledger.path.read_bytes()
        SINCE[error](ledger)
        noted = list(charging.SPENT)
        with pytest.raises(error, match="No party computed anything"):
            run.charge(RELEASE, Chargeable())
        assert noted == charging.SPENT and run.stated() is None
        ledger.path.write_bytes(kept)
        run.charge(RELEASE, Chargeable())
        assert len(charging.SPENT) == len(noted) + 1
    del charging.SPENT[len(said) :]


def test_a_ledger_that_is_locked_at_the_end(ledger: Ledger, locked: sqlite3.Connection) -> None:
    """The results are there; the charge is there; a failed run's own error comes through."""
    account, message = (
        Account(ledger, "others"),
        "The run is charged and its results in out are complete, but: ",
    )
    for error, match in ((None, message), (PartyFailedError("first"), "^first$")):
        with pytest.raises(LedgerError if error is None else PartyFailedError, match=match):
            run_and_lock(account, locked, error)
        locked.execute("ROLLBACK")
    assert statuses(ledger) == [Status.RUNNING] * 2  # until this process ends: then they are aborted
