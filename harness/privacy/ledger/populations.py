"""A population's losses, and the runs that its budget, unit and relation allow.

Its runs share one privacy unit and one neighboring relation: others do not add up.
"""

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from fairshares.harness.errors import (
    BudgetError,
    PopulationError,
    UsedNoiseError,
    UsedRevealError,
    UsedUploadsError,
    named,
    named_command,
)
from fairshares.harness.privacy.ledger.accountants import (
    Accountant,
    Loss,
    NoiseEvent,
    accountant_of,
    of_two_steps,
)
from fairshares.harness.uploads.policy import ClientPolicies, ClientPolicy
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.accounting.rounding import digits_down, digits_up, exact_text
from fairshares.protocols.accounting.rounds import Concentrated
from fairshares.protocols.circuits.coins import NoiseFamily, SymmetricCoins
from fairshares.protocols.guarantee import Budget, Guarantee, compose
from fairshares.protocols.noise.added import DistributedNoise


class Status(StrEnum):
    """A run's outcome, which is spent in any case."""

    RUNNING = "running"
    DONE = "done"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # it was started on another machine, or from another container


NOTHING_COMPUTED = "No party computed anything."


@dataclass(frozen=True)
class AskedRun:
    """A run with parties on hosts, as the ledger of one of these hosts names it.

    Attributes:
        name: The run's name, which all of its hosts have signed.
        coordinator: The name that the host's own command line gives to the coordinator's key, or "".
    """

    name: str
    coordinator: str


@dataclass(frozen=True)
class RunOfCharge(AskedRun):
    """A run with parties on hosts that was charged.

    Attributes:
        time: The time of the charge, in UTC and ISO 8601.
    """

    time: str


@dataclass(frozen=True)
class RunChain:
    """A chain of runs, which are charged once for all.

    Attributes:
        name: The chain's name.
        domain: The domain of the records of its runs, as JSON.
    """

    name: str
    domain: str


@dataclass(frozen=True)
class RevealOfTask(RunChain):
    """One of the reveals that a task declares, which are charged once for all; `name` is the task's.

    Attributes:
        number: The reveal's number, from 1 on.
    """

    number: int


@dataclass(frozen=True)
class PrivacyEvent:
    """A run that is about to reveal values.

    Attributes:
        noise: None if one record moves a value by more than 1, or the noise is of several kinds.
        uploads: The identities of the uploads that it counts.
        policies: Their clients' policies; None for inputs without uploads, or where hosts apply them.
        upload_task: The digest of the task of its uploads; None without uploads. A ledger keeps it for each
            upload.
        piece: The name of its noise if that was made ahead, else None.
        chain: The run's chain, or the reveal of a task that it is; None for neither.
        run: The digest of the hosts' statements; None for a run without hosts.
        asked_by: The run's name and coordinator, if its parties are on hosts.
        family: The family of joint noise of counts; None of other noise. A ledger keeps none.
        has_rounds: Whether noisy sums of rounds are part of it. A ledger keeps that neither.
    """

    task: str
    model: str
    exact: Guarantee
    unit: PrivacyUnit
    relation: NeighboringRelation
    out: Path
    noise: NoiseEvent | Concentrated | None = None
    uploads: Collection[str] = ()
    policies: ClientPolicies | None = None
    upload_task: str | None = None
    piece: str | None = None
    chain: RunChain | None = None
    run: str | None = None
    asked_by: AskedRun | None = None
    family: NoiseFamily | None = None
    has_rounds: bool = False

    @property
    def loss(self) -> Loss:
        """The population's loss, as accountants add it up."""
        return Loss(self.exact, self.noise)


@dataclass(frozen=True, kw_only=True)
class Charge(PrivacyEvent):
    """A run, or a chain's runs, in the ledger; `time` is UTC, ISO 8601.

    `runs` are the hosts' runs, the oldest first. Version 1.0 wrote none of them.
    """

    id: int
    time: str
    status: Status
    runs: tuple[RunOfCharge, ...] = ()


@dataclass(frozen=True)
class Population:
    """A population's entries in the ledger.

    Runs without a name ignore a `retired` one. If it is `of_uploads`, all of its runs took uploads.
    """

    name: str
    budget: Budget | None = None
    charges: tuple[Charge, ...] = ()
    retired: bool = False
    of_uploads: bool = False

    @property
    def unit(self) -> PrivacyUnit | None:
        """The privacy unit of the population's runs; None before the first."""
        return self.charges[0].unit if self.charges else None

    @property
    def relation(self) -> NeighboringRelation | None:
        """The neighboring relation of the population's runs; None before the first."""
        return self.charges[0].relation if self.charges else None

    def chain(self, name: str) -> Charge | None:
        """Return the named chain's charge, if any."""
        for charge in self.charges:
            if charge.chain is not None and charge.chain.name == name:
                return charge
        return None

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The loss of each run with any outcome; a chain counts once (theorem 16)."""
        return tuple(charge.loss for charge in self.charges)

    @property
    def spent(self) -> Guarantee:
        """The loss of all runs, by basic composition."""
        return compose(loss.exact for loss in self.losses)

    @property
    def spent_if_replaced(self) -> Guarantee | None:
        """The most that all runs lose of what a record says, if `spent` is for whether a record exists.

        None under another relation, whose loss is for what records say, or before the first run. Runs state
        smaller figures where these follow from their noise, which a ledger need not know.
        """
        if self.relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
            return None
        return compose(of_two_steps(loss.exact) for loss in self.losses)

    @property
    def accountant(self) -> Accountant | None:
        """The accountant of the population's budget, if it has any."""
        return None if self.budget is None else accountant_of(self.budget, self.losses)

    @property
    def left(self) -> Budget | None:
        """The rest of its budget, if any."""
        return None if self.accountant is None else self.accountant.left


class Use(NamedTuple):
    """The last charge of some uploads."""

    charge: int
    key: str | None
    name: str
    out: str
    uploads: int
    example: str


def key_of(name: str) -> str:
    """Return the common key of a name's spellings.

    [test: tests/harness/privacy/test_populations.py]
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def refuse_contradictions(population: Population, budget: Budget | None, event: PrivacyEvent) -> None:
    """Raise PopulationError if a run's unit, relation or budget is another."""
    for charge in population.charges:
        if (charge.unit, charge.relation) != (event.unit, event.relation):
            if charge.unit == event.unit:
                chosen_by = named("neighboring_relation", str(charge.relation))
            else:
                chosen_by = named("privacy_unit", str(charge.unit))
            raise PopulationError(
                f"Population {population.name!r} is accounted for per {charge.unit} under {charge.relation}, "
                f"this run would be per {event.unit} under {event.relation}, and the two do not add up. "
                f"Choose the former by {chosen_by}."
            )
    refuse_late_rule(population, budget)
    if budget is not None and population.budget not in (None, budget):
        raise PopulationError(
            f"Population {population.name!r} has a budget of {budget_text(population.budget)}, "
            f"not {budget_text(budget)}. Leave {named('budget')} out, or change it with "
            f"`{named_command('ledger')}`."
        )


def refuse_late_rule(population: Population, budget: Budget | None) -> None:
    """Raise PopulationError if a budget with its own rule is given or withdrawn after a run."""
    rules = [rule for rule in (population.budget, budget) if rule and rule.rule]
    if population.charges and budget not in (None, population.budget) and rules:
        raise PopulationError(
            f"Population {population.name!r} has runs already, and a budget of {budget_text(rules[0])} is "
            f"declared before the first and stays. Leave {named('budget')} out, or take a limit of ε or ε,δ "
            "where the population has none of that kind."
        )


def refuse_overspending(population: Population, event: PrivacyEvent) -> None:
    """Raise BudgetError unless a population's budget covers one more release.

    Guarantees: no sum is too low; a run may take all that is left.
    [test: tests/harness/privacy/test_ledger.py, tests/harness/privacy/test_ledger_rules.py]
    """
    budget = population.budget
    accountant = population.accountant
    runs = runs_text(population.charges)
    if budget is None or accountant is None or accountant.allows(event.loss):
        return
    if budget.runs is not None:
        raise BudgetError(
            f"Population {population.name!r} has a budget of {budget_text(budget)}, for {budget.runs} runs "
            f"with the noise of the first; after {runs} this one is beyond them, has other noise, or so many "
            f"like it exceed the budget. {NOTHING_COMPUTED} Repeat what the first run was asked for, its "
            f"{named('epsilon')}, {named('delta')} and {named('noise')}."
            f"{_as_version_1(population.charges, event)} Before the first run, ask for less."
        )
    raise BudgetError(
        f"Population {population.name!r} has {left_text(accountant.left)} left of its budget of "
        f"{budget_text(budget)}, after {runs}; this run needs {spent_text(event.exact)}. "
        f"{NOTHING_COMPUTED} Ask for less with {named('epsilon')} or {named('delta')}."
    )


def _as_version_1(charges: Sequence[Charge], event: PrivacyEvent) -> str:
    """Say what has a run lose no more than the first if version 1.0 ran that, where something has.

    That version had no family but signed noise. The loss of its trainings differs a little.
    """
    if not charges:
        return ""
    first = charges[0].noise
    ways = []
    is_other = isinstance(first, NoiseEvent) and isinstance(first.noise, SymmetricCoins | DistributedNoise)
    if event.family is NoiseFamily.SYMMETRIC and not is_other:
        ways.append(f"add {named('noise_family', 'signed')}")
    if event.has_rounds:
        ways.append(f"take a {named('delta')} that is a tenth smaller")
    if not ways:
        return ""
    return f" If version 1.0 ran it, {', and '.join(ways)}."


def uncovered(
    policies: ClientPolicies, event: PrivacyEvent, spent: Mapping[str, Guarantee]
) -> frozenset[str]:
    """Return the uploads whose clients' policies do not cover an event, which all hosts leave out.

    A policy covers its tasks, for its unit or a stronger one, up to a total loss.
    [test: tests/harness/privacy/test_populations.py]

    Args:
        policies: The policies of the uploads in question.
        event: The run.
        spent: The total loss of each upload that earlier runs counted.
    """
    covered: dict[tuple[ClientPolicy, Guarantee | None], bool] = {}  # by policy and loss before
    left_out = set()
    for upload in policies.uploads:
        policy = policies.of(upload)
        before = spent.get(upload)
        if (policy, before) not in covered:
            total = event.exact if before is None else compose([before, event.exact])
            covered[policy, before] = policy.covers(event.task, event.unit, total)
        if not covered[policy, before]:
            left_out.add(upload)
    return frozenset(left_out)


def refuse_uncovered(event: PrivacyEvent, spent: Mapping[str, Guarantee]) -> None:
    """Raise BudgetError unless all clients' policies cover a release."""
    lacking = frozenset[str]() if event.policies is None else uncovered(event.policies, event, spent)
    if lacking:
        raise BudgetError(
            f"The policies of clients do not cover this run, in {len(lacking)} of its {len(event.uploads)} "
            f"uploads; {min(lacking)} is one. {NOTHING_COMPUTED} Run it again on share files, which leaves "
            f"them out, or ask for less with {named('epsilon')} or {named('delta')}."
        )


def refuse_used(uses: Sequence[Use], name: str | None, uploads: Collection[str]) -> None:
    """Raise UsedUploadsError if nobody would count used uploads, PopulationError if others did."""
    others = [use for use in uses if use.key is not None and (name is None or use.key != key_of(name))]
    owners = listed(sorted({use.name for use in others}))
    if name is None and uses:
        raise UsedUploadsError(
            f"{sum(use.uploads for use in uses)} of these {len(uploads)} uploads went into a run before "
            f"({uses[-1].out}); a second run spends their ε again, and has to be charged."
            f"{f' They belong to {owners}.' if owners else ''} "
            f"Name the population that they are of with {named('population')}; {_sent_again(uses[-1])}."
        )
    if others:
        raise PopulationError(
            f"Some of these uploads were charged to {owners}, not to {name!r}: a record has one population. "
            f"Correct {named('population')}; {_sent_again(others[-1])}."
        )


def refuse_other_terms(begun: Charge, event: PrivacyEvent, chain: RunChain) -> None:
    """Raise PopulationError if a run differs from the first of its chain, which was charged."""
    is_alike = {
        "task": begun.task == event.task,
        "security model": begun.model == event.model,
        "ε, δ or noise": begun.loss == event.loss,
        "domain": begun.chain is not None and begun.chain.domain == chain.domain,
    }
    for what, alike in is_alike.items():
        if not alike and isinstance(chain, RevealOfTask):
            raise PopulationError(
                f"The reveals of task {chain.name[:16]} were begun with another {what} than this one has, "
                f"and spend {spent_text(begun.exact)} together. Repeat what the first one ({begun.out}) was "
                "asked for, or have clients share for another task, which is charged by itself."
            )
        if not alike:
            raise PopulationError(
                f"Chain {chain.name!r} was begun with another {what} than this run has, and spends "
                f"{spent_text(begun.exact)} once. Repeat what its first run ({begun.out}) was asked for, or "
                f"begin another chain by {named('chain', 'NAME')}, which is charged by itself."
                f"{_as_version_1([begun], event)}"
            )


def refuse_counted(counted: Collection[str], event: PrivacyEvent, chain: RunChain) -> None:
    """Raise UsedUploadsError if a chain's earlier runs had some of these uploads."""
    if counted:
        raise UsedUploadsError(
            f"{len(counted)} of these {len(event.uploads)} uploads went into a run of chain "
            f"{chain.name!r} before; {min(counted)} is one. A chain counts each upload once: leave it out."
        )


def refuse_used_reveal(number: int, task: str, last: int) -> None:
    """Raise UsedRevealError unless a reveal has a higher number than all of its task that were begun.

    Guarantees: no reveal is begun twice, and no more are begun than were declared, as none has a higher
    number.  [test: tests/harness/privacy/test_reveals.py]

    Args:
        number: The number of the reveal, from 1 on.
        task: The name of the task that declares the reveals.
        last: The highest number that was begun; 0 before the first.
    """
    if number <= last:
        raise UsedRevealError(
            f"Reveal {last} of task {task[:16]} was begun, so {number} counts as used, whatever came of it. "
            f"Have clients seal for reveal {last + 1}, which adds noise of its own."
        )


def refuse_closed(closed: str | None, task: str, path: Path) -> None:
    """Raise UsedUploadsError if the task of a run's uploads was closed.

    Args:
        closed: The time at which the task was closed, in UTC and ISO 8601; None for an open task.
        task: The task's digest.
        path: The ledger's file.
    """
    if closed is not None:
        raise UsedUploadsError(
            f"Task {task[:16]} was closed in {path} on {closed[:10]}, which forgot which of its uploads were "
            "counted, so no run takes any. Have clients share for another task."
        )


def _sent_again(use: Use) -> str:
    return f"if a client sent an old upload again, as {use.example} may be, remove it at every party"


def refuse_misspelt(name: str, known: Iterable[Population], path: Path) -> None:
    """Raise PopulationError for a new name without a budget, if others have budgets."""
    others = sorted(population.name for population in known if population.budget)
    if others:
        raise PopulationError(
            f"{path} has no population {name!r}, but budgets for {listed(others)}. Correct "
            f"{named('population')}; or, if these are other people, give them a budget with "
            f"{named('budget')}."
        )


@dataclass(frozen=True)
class LedgerState:
    """Everything in a ledger that decides about one run.

    Attributes:
        population: The population of the run; None if the ledger has none of its name.
        others: All populations, if the run's is new and comes without a budget; else none.
        uses: The last charge of each used upload of the run.
        uncounted: Charges of nobody that had uploads of the run, which become its population's.
        counted: The run's uploads that its chain, or another population, counted.
        noise_used_by: The charge that used the run's noise, None if it is unused.
        last_reveal: The highest number of the run's series that was begun; 0 before the first.
        spent_on: The total loss of each used upload of a run with clients' policies.
        closed: The time at which the task of the run's uploads was closed, in UTC and ISO 8601; None if it is
            open, or the run has no uploads.
    """

    path: Path
    population: Population | None = None
    others: tuple[Population, ...] = ()
    uses: tuple[Use, ...] = ()
    uncounted: tuple[Charge, ...] = ()
    counted: frozenset[str] = frozenset()
    noise_used_by: int | None = None
    spent_on: Mapping[str, Guarantee] = field(default_factory=dict)
    last_reveal: int = 0
    closed: str | None = None

    def begun(self, event: PrivacyEvent) -> Charge | None:
        """Return the charge of the run's chain; None before its first run, or for a run of no chain."""
        if self.population is None or event.chain is None:
            return None
        charges = self.population.charges + self.uncounted
        return replace(self.population, charges=charges).chain(event.chain.name)


class ChargeRules(Protocol):
    """The rules by which a ledger may charge a run.

    The ledger asks within the transaction that writes the charge, so nothing changes between the two.
    """

    def check_charge(
        self, state: LedgerState, name: str | None, budget: Budget | None, event: PrivacyEvent
    ) -> None:
        """Raise unless a ledger may charge a run.

        Args:
            state: The ledger's entries on the run's population, uploads and noise.
            name: The population; None if nobody is charged.
            budget: The budget that the population gets at once, if any.
            event: The run.
        """


class LedgerRules:
    """The rules of every ledger, which read no file: the same arguments have the same answer."""

    def check_charge(
        self, state: LedgerState, name: str | None, budget: Budget | None, event: PrivacyEvent
    ) -> None:
        """Raise unless a ledger may charge a run, see `ChargeRules`.

        Raises:
            PopulationError: The run contradicts the population or chain.
            BudgetError: The population's budget or a client's policy does not cover it.
            UsedUploadsError: The run's uploads were used and nobody would count it, or its chain counted
                them, or their task is closed.
            UsedNoiseError: Another run used its noise.
            UsedRevealError: The run is a reveal that was begun before.
        """
        if isinstance(event.chain, RevealOfTask):
            refuse_used_reveal(event.chain.number, event.chain.name, state.last_reveal)
            if not name:
                raise PopulationError(
                    "The reveals of a task are charged once, to a population: say whose vectors these are "
                    f"with {named('population', 'NAME')}."
                )
        if event.chain is not None and not (name and event.uploads):
            raise PopulationError(
                f"A chain is of uploads, and charged to a population: give {named('shares')}, and "
                f"{named('population', 'NAME')}."
            )
        if event.upload_task is not None:
            refuse_closed(state.closed, event.upload_task, state.path)
        refuse_used(state.uses, name, event.uploads)
        if name is not None:
            _refuse_to_population(state, name, budget, event)
        if state.noise_used_by is not None:
            raise UsedNoiseError(
                f"Run {state.noise_used_by} of {state.path} used this noise, so the stock is a copy from "
                "before that."
            )
        refuse_uncovered(event, state.spent_on)


LEDGER_RULES = LedgerRules()


def _refuse_to_population(state: LedgerState, name: str, budget: Budget | None, event: PrivacyEvent) -> None:
    if state.population is None and budget is None:
        refuse_misspelt(name, state.others, state.path)
    population = state.population or Population(name)
    # A budget's rule is that of runs without a name, too.
    refuse_late_rule(Population(name, charges=state.uncounted), budget or population.budget)
    population = replace(population, charges=population.charges + state.uncounted)
    refuse_contradictions(population, budget, event)
    begun = state.begun(event)
    if begun is not None and event.chain is not None:
        refuse_other_terms(begun, event, event.chain)
        refuse_counted(state.counted, event, event.chain)
    others = tuple(charge for charge in population.charges if charge is not begun)
    population = replace(population, charges=others, budget=budget or population.budget)
    refuse_overspending(population, event)


def spent_text(spent: Guarantee) -> str:
    """Say epsilon and delta, rounded up."""
    return f"ε = {digits_up(spent.epsilon, 4)} and δ = {digits_up(spent.delta, 4)}"


def left_text(left: Budget) -> str:
    """Say the rest of a budget, rounded down."""
    if left.runs is not None:
        return "1 run" if left.runs == 1 else f"{left.runs} runs"
    delta = "" if left.delta is None else f" and δ = {digits_down(left.delta, 4)}"
    return f"ε = {digits_down(left.epsilon, 4)}{delta}"


def budget_text(budget: Budget | None) -> str:
    """Say a budget exactly, as options do."""
    if budget is None:
        return "none"
    text = exact_text(budget.epsilon)
    if budget.delta is not None:
        text += f",{exact_text(budget.delta)}"
    if budget.order:
        text += ",renyi"
    elif budget.runs:
        text += f",{budget.runs}"
    return text


def runs_text(charges: tuple[Charge, ...]) -> str:
    """Say how many runs there are."""
    return "1 run" if len(charges) == 1 else f"{len(charges)} runs"


def listed(names: list[str]) -> str:
    """Say at most ten names, in quotes."""
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
