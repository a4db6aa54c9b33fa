"""One run's way through the ledger: its population, its charge, and its outcome."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fairshares.harness.charged import UNCHARGED, BegunCharge, Chargeable, Charged
from fairshares.harness.errors import FairSharesError, LedgerError, OptionError, PopulationError, named
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import (
    LEDGER_RULES,
    NOTHING_COMPUTED,
    ChargeRules,
    Population,
    PrivacyEvent,
    RevealOfTask,
    Status,
    listed,
    refuse_closed,
    refuse_misspelt,
    spent_text,
)
from fairshares.harness.system.progress import Say, nothing_said
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Budget

if TYPE_CHECKING:
    from fairshares.harness.privacy.ledger.stated import StatedCharge

ABORTED_TIMEOUT_S = 1.0  # whoever interrupts a run does not wait for a locked ledger
LEDGER_VARIABLE = "FAIRSHARES_LEDGER"
NOTHING_SPENT = "Nothing was spent."
SPENT: list[str] = []  # a sentence on the loss of each run of this process whose parties may have started


def chosen_ledger(path: Path | None) -> Ledger:
    """Return the ledger in a file, in $FAIRSHARES_LEDGER, or the user's."""
    chosen = path or os.environ.get(LEDGER_VARIABLE)
    return Ledger(Path(chosen).expanduser() if chosen else None)


@dataclass(frozen=True)
class CountedBefore:
    """The uploads that a ledger's runs have counted, for a party that lists its uploads for a later run.

    It is what `uploads.party.EarlierRuns` asks for.

    Attributes:
        ledger: The ledger.
        population: The population that the later run is charged to; None for nobody.
        chain: The chain of the later run, if it is of one.
    """

    ledger: Ledger
    population: str | None
    chain: str | None = None

    def check_open(self, task: str) -> None:
        """Raise UsedUploadsError if a task, by its digest, was closed."""
        refuse_closed(self.ledger.closed_on(task), task, self.ledger.path)

    def counted(self, uploads: Iterable[str]) -> frozenset[str]:
        """Return the uploads among these, by identity, that the later run leaves out."""
        return self.ledger.counted(self.population, self.chain, uploads)


@dataclass(frozen=True)
class Account:
    """The population and the ledger that a run is charged to; without a population, nobody is charged.

    `rules` decide whether the ledger may charge it: a host's are also its owner's policy.
    """

    ledger: Ledger = field(default_factory=Ledger)
    population: str | None = None
    budget: Budget | None = None
    rules: ChargeRules = LEDGER_RULES

    def counts(self, event: PrivacyEvent) -> bool:
        """Return whether the ledger is asked and written: for a population, or what may be used once."""
        return self.population is not None or bool(event.uploads) or event.piece is not None

    def kept_relation(self, unit: PrivacyUnit) -> NeighboringRelation | None:
        """Return the relation of the population's first charge, which its other runs keep.

        None for nobody, before the first charge, and if the population's unit is another.
        """
        if self.population is None:
            return None
        for population in self.ledger.populations(self.population):
            if population.unit is unit:
                return population.relation
        return None

    @property
    def declared(self) -> bool:
        """Whether the budget is for a declared number of runs."""
        budgets = [self.budget]
        if self.population:
            budgets += [population.budget for population in self.ledger.populations(self.population)]
        return any(budget is not None and budget.runs for budget in budgets)


def chosen_account(
    population: str | None,
    budget: Budget | None,
    ledger: Path | None,
    say: Say = nothing_said,
    *,
    of_records: bool = False,
) -> Account:
    """Return the account that a run is charged to, and announce a new population.

    With `of_records`, budgets of populations of uploads do not matter. Raises PopulationError if nobody is
    named although the ledger has budgets, or a name may be misspelt.
    """
    place = chosen_ledger(ledger)
    charged = None if population == UNCHARGED else population
    _announce(place, charged, budget, say)
    guarded = []  # populations that a run without a name might be of
    if not population:
        for existing in place.populations():
            is_elsewhere = of_records and existing.of_uploads
            if existing.budget and not existing.retired and not is_elsewhere:
                guarded.append(existing.name)
    if guarded:
        raise PopulationError(
            f"{place.path} holds budgets, for {listed(guarded)}. Say whose records these are with "
            f"{named('population', 'NAME')}; or, with {named('population', UNCHARGED)}, that nobody counts "
            "what is spent."
        )
    return Account(place, charged or None, budget)


def account_read(population: str | None, ledger: Path | None) -> Account:
    """Return an account to be read, to which nothing is charged; the population may be new, or nobody."""
    charged = None if population == UNCHARGED else population
    return Account(chosen_ledger(ledger), charged)


def _announce(ledger: Ledger, name: str | None, budget: Budget | None, say: Say) -> None:
    """Announce a new population; OptionError or PopulationError as `chosen_account`."""
    if budget and not name:
        raise OptionError(f"{named('budget')} belongs to a population; name it with {named('population')}.")
    if name and not ledger.populations(name):
        if budget is None:
            refuse_misspelt(name, ledger.populations(), ledger.path)
        say(f"New population {name!r} in {ledger.path}.")


def populations_of(
    name: str | None,
    budget: Budget | None,
    ledger: Path | None,
    retire: str | None = None,
    say: Say = nothing_said,
) -> tuple[Path, list[Population]]:
    """Set a budget or retire a population; return the file, and the chosen populations."""
    place = chosen_ledger(ledger)
    name = name or retire
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


class ChargedRun(Charged):
    """One run's charge: making it writes the ledger, and nothing takes it back.

    Attributes:
        event: The event that was charged.
        number: The charge's number in the ledger. None if nobody is charged, and nothing had to be marked as
            used.
        population: The population that was charged, with this charge; None for nobody.
    """

    def __init__(self, account: Account, event: PrivacyEvent, waiting: Chargeable) -> None:
        """Charge what waits; a run of nobody only marks its uploads and its noise.

        Args:
            account: The population that is charged, and the ledger.
            event: The loss, and what is used up.
            waiting: The run's parties, or a client that sends. Nothing else can begin on this charge.

        Raises:
            BudgetError, PopulationError, UsedUploadsError, UsedNoiseError: The ledger refuses the run.
            LedgerError: The ledger cannot be written.
        """
        self.event = event
        self.number: int | None = None
        self.population: Population | None = None
        self._waiting: list[Chargeable] = [waiting]
        self._begun: list[Chargeable] = []
        SPENT.append(_spent(account, event))  # first, as it may be interrupted right after the charge
        if not account.counts(event):
            return
        try:
            with nothing_computed():
                self.number, self.population = account.ledger.charge(
                    account.population, account.budget, event, account.rules
                )
        except Exception:  # whatever refuses it; an interrupt may come after it
            SPENT.pop()
            raise

    def begin(self, waiting: Chargeable) -> BegunCharge:
        if any(run is waiting for run in self._begun):
            raise LedgerError("A charge is for one run, and the run of this one has begun; charge another.")
        if not any(run is waiting for run in self._waiting):
            raise LedgerError("A charge is for one run, and this one was made for another run; charge each.")
        self._begun.append(waiting)
        return BegunCharge()


class ChargedSeries(ChargedRun):
    """The charge of a series of runs, by the loss of all of them together."""

    def join(self, waiting: Chargeable) -> None:
        """Take another run of the series, which can begin on this charge, too."""
        self._waiting.append(waiting)


class Entry:
    """One run's place in the ledger: empty until `charge`, settled at its end."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.charged: ChargedRun | None = None

    def check(self, event: PrivacyEvent) -> None:
        """Raise what `charge` would raise, before anything is shared."""
        if self.account.counts(event):
            with nothing_computed():
                self.account.ledger.check(
                    self.account.population, self.account.budget, event, self.account.rules
                )

    def charge(self, event: PrivacyEvent, waiting: Chargeable) -> ChargedRun:
        """Charge what waits; see `ChargedRun`."""
        self.charged = ChargedRun(self.account, event, waiting)
        return self.charged

    @property
    def population(self) -> Population | None:
        """Who was charged, if anybody was."""
        return None if self.charged is None else self.charged.population

    def stated(self) -> "StatedCharge | None":
        """Return the charge as a manifest states it, None if nobody was charged."""
        charged = self.charged
        if charged is None or charged.population is None:
            return None
        # Every command imports this module, and msgspec, which these two do, takes time to load.
        from fairshares.harness.privacy.ledger.stated import StatedCharge, state_budget
        from fairshares.harness.stated_privacy import state_loss

        return StatedCharge(
            path=str(self.account.ledger.path),
            population=charged.population.name,
            charge=charged.number,
            runs=len(charged.population.charges),
            spent=state_loss(charged.population.spent),
            budget=state_budget(charged.population.budget),
        )

    def settle(self, status: Status, timeout_s: float) -> None:
        """Write the outcome of a charged run."""
        if self.charged is not None and self.charged.number is not None:
            Ledger(self.account.ledger.path, timeout_s).settle(self.charged.number, status)


class SeriesEntry(Entry):
    """The place of several runs that are charged once, by the loss of all, before the first reveals anything.

    Each run checks and charges the whole here, whatever its own event is.
    """

    def __init__(self, account: Account, whole: PrivacyEvent) -> None:
        super().__init__(account)
        self.whole = whole
        self._series: ChargedSeries | None = None

    def check(self, event: PrivacyEvent) -> None:  # noqa: ARG002
        if self._series is None:
            super().check(self.whole)

    def charge(self, event: PrivacyEvent, waiting: Chargeable) -> ChargedRun:  # noqa: ARG002
        if self._series is None:
            self._series = ChargedSeries(self.account, self.whole, waiting)
            self.charged = self._series
        else:
            self._series.join(waiting)
        return self._series


def _spent(account: Account, event: PrivacyEvent) -> str:
    """Return the sentence on the loss of a run whose parties may have started."""
    charged = "no ledger counts it"
    if account.population is not None:
        charged = f"charged to population {account.population!r} in {account.ledger.path}"
    if isinstance(event.chain, RevealOfTask):
        of_task = event.chain
        charged += (
            f", once for all reveals of task {of_task.name[:16]}; reveal {of_task.number} counts as used"
        )
    elif event.chain is not None:
        charged += (
            f", once for all runs of chain {event.chain.name!r}; this run's uploads go into no other, so "
            "their records are not shared again"
        )
    return f"Spent: {spent_text(event.exact)} by {event.task}, as its parties may have started; {charged}."


@contextmanager
def nothing_computed() -> Iterator[None]:
    """Add to refusals that no party computed anything."""
    try:
        yield
    except FairSharesError as error:
        if NOTHING_COMPUTED not in str(error):
            error.args = (f"{error} {NOTHING_COMPUTED}",)
        raise


def entry(account: Account) -> AbstractContextManager[Entry]:
    """Yield a run's entry; settle it as done, or as aborted."""
    return settled(Entry(account))


E = TypeVar("E", bound=Entry)


@contextmanager
def settled(made: E) -> Iterator[E]:
    """Yield an entry, and settle it as done, or as aborted."""
    account = made.account
    try:
        yield made
    except BaseException:
        with suppress(LedgerError):  # it stays `running` then, and is shown as aborted
            made.settle(Status.ABORTED, ABORTED_TIMEOUT_S)
        raise
    try:
        made.settle(Status.DONE, account.ledger.timeout_s)
    except LedgerError as error:
        results = "" if made.charged is None else made.charged.event.out
        raise LedgerError(
            f"The run is charged and its results in {results} are complete, but: {error}"
        ) from None
