"""One run's way through the ledger: its population, its charge, and its outcome."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import FairSharesError, LedgerError, OptionError, PopulationError, named
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import (
    NOT_STARTED,
    Population,
    PrivacyEvent,
    Refuse,
    Status,
    listed,
    refuse_charge,
    refuse_misspelt,
    spent_text,
)
from protocols.guarantee import Budget

if TYPE_CHECKING:
    from harness.privacy.ledger.stated import StatedCharge

ABORTED_TIMEOUT_S = 1.0  # whoever interrupts a run does not wait for a locked ledger
LEDGER_VARIABLE = "FAIRSHARES_LEDGER"
UNCHARGED = "none"  # the population of records whose privacy nobody has to count
NOTHING_SPENT = "Nothing was spent."
SPENT: list[str] = []  # a sentence on the loss of each run of this process whose parties may have started

Say = Callable[[str], None]  # receives sentences for the user before a run


def nothing_said(_sentence: str) -> None:
    """Say nothing."""


def chosen_ledger(path: Path | None) -> Ledger:
    """Return the ledger in a file, in $FAIRSHARES_LEDGER, or the user's."""
    chosen = path or os.environ.get(LEDGER_VARIABLE)
    return Ledger(Path(chosen).expanduser() if chosen else None)


@dataclass(frozen=True)
class Account:
    """Where a run is charged: without a population, to nobody.

    `refuse` decides whether the ledger may charge it: a host's also asks its owner's policy.
    """

    ledger: Ledger = field(default_factory=Ledger)
    population: str | None = None
    budget: Budget | None = None
    refuse: Refuse = refuse_charge

    @property
    def declared(self) -> bool:
        """Whether the budget is for a declared number of runs."""
        known = self.ledger.populations(self.population) if self.population else []
        return any(budget and budget.runs for budget in (self.budget, *(one.budget for one in known)))


def chosen_account(
    population: str | None,
    budget: Budget | None,
    ledger: Path | None,
    say: Say = nothing_said,
    *,
    of_records: bool = False,
) -> Account:
    """Return where a run is charged, and announce a new population.

    With `of_records`, budgets of populations of uploads do not matter. Raises PopulationError if nobody is
    named although the ledger has budgets, or a name may be misspelt.
    """
    place, charged = chosen_ledger(ledger), population if population != UNCHARGED else None
    _announce(place, charged, budget, say)
    known = [] if population else place.populations()
    guarded = [
        existing.name
        for existing in known
        if existing.budget and not existing.retired and not (of_records and existing.of_uploads)
    ]
    if guarded:
        raise PopulationError(
            f"{place.path} holds budgets, for {listed(guarded)}. Say whose records these are with "
            f"{named('population', 'NAME')}; or, with {named('population', UNCHARGED)}, that nobody counts "
            "what is spent."
        )
    return Account(place, charged or None, budget)


def _announce(ledger: Ledger, name: str | None, budget: Budget | None, say: Say) -> None:
    if budget and not name:
        raise OptionError(f"{named('budget')} belongs to a population; name it with {named('population')}.")
    if name and not ledger.populations(name):
        if budget is None:
            refuse_misspelt(name, ledger.populations(), ledger.path)
        say(f"New population {name!r} in {ledger.path}")


def populations_of(
    name: str | None,
    budget: Budget | None,
    ledger: Path | None,
    retire: str | None = None,
    say: Say = nothing_said,
) -> tuple[Path, list[Population]]:
    """Set a budget or retire a population; return the file, and the chosen populations."""
    place, name = chosen_ledger(ledger), name or retire
    if budget:
        _announce(place, name, budget, say)
        place.set_budget(name or "", budget)
    chosen = place.populations(name)
    if name is not None and not chosen:
        known = listed([population.name for population in place.populations()])
        has = f"it has {known}" if known else f"it has none yet, as runs with {named('population')} make them"
        raise PopulationError(f"{place.path} has no population {name!r}; {has}.")
    if retire is not None:
        place.retire(retire)
        chosen = place.populations(name)
    return place.path, chosen


class Entry:
    """One run's place in the ledger: empty until `start`, settled at its end.

    `whole` is the event of several runs that are charged once, before the first.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.out = ""
        self.whole: PrivacyEvent | None = None
        self._charge: int | None = None
        self.population: Population | None = None

    def check(self, release: PrivacyEvent) -> None:
        """Raise what `start` would raise."""
        account, release = self.account, self.whole or release
        if self._charged_before:
            return
        if account.population is not None or release.uploads or release.piece:
            with nothing_started():
                account.ledger.check(account.population, account.budget, release, account.refuse)

    def start(self, release: PrivacyEvent) -> None:
        """Charge a run whose parties are about to start; a run of nobody only marks its uploads."""
        account, release = self.account, self.whole or release
        if self._charged_before:
            return
        SPENT.append(_spent(account, release))  # first, as it may be interrupted right after the charge
        if account.population is not None or release.uploads or release.piece:
            try:
                with nothing_started():
                    self._charge, self.population = account.ledger.charge(
                        account.population, account.budget, release, account.refuse
                    )
            except Exception:  # whatever refuses it; an interrupt may come after it
                SPENT.pop()
                raise
        self.out = str(release.out)

    @property
    def _charged_before(self) -> bool:
        return self.whole is not None and bool(self.out)

    def charged(self) -> "StatedCharge | None":
        """Return what a manifest says of the charge, None if nobody was charged."""
        if self.population is None:
            return None
        # Every command imports this module, and msgspec, which these two do, takes time to load.
        from harness.privacy.ledger.stated import StatedCharge, state_budget
        from harness.stated_privacy import state_loss

        return StatedCharge(
            path=str(self.account.ledger.path),
            population=self.population.name,
            charge=self._charge,
            runs=len(self.population.charges),
            spent=state_loss(self.population.spent),
            budget=state_budget(self.population.budget),
        )

    def settle(self, status: Status, timeout_s: float) -> None:
        """Write the outcome of a charged run."""
        if self._charge is not None:
            Ledger(self.account.ledger.path, timeout_s).settle(self._charge, status)


def _spent(account: Account, release: PrivacyEvent) -> str:
    charged = "no ledger counts it"
    if account.population is not None:
        charged = f"charged to population {account.population!r} in {account.ledger.path}"
    if release.chain:
        charged += (
            f", once for all runs of chain {release.chain!r}; this run's uploads go into no other, so their "
            "records are not shared again"
        )
    return f"Spent: {spent_text(release.exact)} by {release.task}, as its parties had started; {charged}."


@contextmanager
def nothing_started() -> Iterator[None]:
    """Add to refusals that no party was started."""
    try:
        yield
    except FairSharesError as error:
        if NOT_STARTED not in str(error):
            error.args = (f"{error} {NOT_STARTED}",)
        raise


@contextmanager
def entry(account: Account) -> Iterator[Entry]:
    """Yield a run's entry; settle it as done, or as aborted."""
    made = Entry(account)
    try:
        yield made
    except BaseException:
        with suppress(LedgerError):  # it stays `running` then, and is shown as aborted
            made.settle(Status.ABORTED, ABORTED_TIMEOUT_S)
        raise
    try:
        made.settle(Status.DONE, account.ledger.timeout_s)
    except LedgerError as error:
        raise LedgerError(
            f"The run is charged and its results in {made.out} are complete, but: {error}"
        ) from None
