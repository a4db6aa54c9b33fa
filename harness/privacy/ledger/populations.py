"""What a population has spent, and which further run its budget and its kind of privacy allow.

A population is whoever the records are about; the user names it. Its runs share one privacy unit and one
neighbouring relation: only then do their epsilons and deltas add up to a guarantee.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.errors import BudgetError, PopulationError
from harness.inputs.client_policy import ClientPolicy
from harness.privacy.ledger import filters
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.accounting.rounding import digits_down, digits_up, exact_text
from protocols.circuits.coins import Coin
from protocols.guarantee import Budget, Guarantee, compose


class Status(StrEnum):
    """What became of a run. Whatever it is, the run is spent: it may have opened its values."""

    RUNNING = "running"
    DONE = "done"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # it was started on another machine, or from another container


NOT_STARTED = "No party was started."


@dataclass(frozen=True)
class NoiseEvent:
    """The noise of a release, so far as one record can move it: so many values, each by 1.

    The ledger keeps none of a release whose values move by more.
    """

    coins: tuple[Coin, ...]
    values: int


@dataclass(frozen=True)
class PrivacyEvent:
    """What a run is about to open.

    Attributes: noise: None where it is of another kind; uploads: their identities; policies: of those whose
    clients have one, by identity; epoch: its identity, "" where the run is of no series.
    """

    task: str
    model: str
    exact: Guarantee
    unit: PrivacyUnit
    relation: NeighboringRelation
    out: Path
    noise: NoiseEvent | None = None
    uploads: tuple[str, ...] = ()
    policies: Mapping[str, ClientPolicy] = field(default_factory=dict)
    epoch: str = ""


@dataclass(frozen=True)
class Charge:
    """One run in the ledger. time: UTC, ISO 8601; out: where its results are, if it came so far."""

    id: int
    time: str
    task: str
    model: str
    exact: Guarantee
    unit: PrivacyUnit
    relation: NeighboringRelation
    noise: NoiseEvent | None
    out: str
    status: Status


@dataclass(frozen=True)
class Population:
    """What the ledger has of a population."""

    name: str
    budget: Budget | None = None
    charges: tuple[Charge, ...] = ()

    @property
    def unit(self) -> PrivacyUnit | None:
        """What all its runs protect; None before the first."""
        return self.charges[0].unit if self.charges else None

    @property
    def relation(self) -> NeighboringRelation | None:
        """What all its runs protect it under; None before the first."""
        return self.charges[0].relation if self.charges else None

    @property
    def spent(self) -> Guarantee:
        """What all its runs spent, by basic composition."""
        return compose(charge.exact for charge in self.charges)

    @property
    def left(self) -> Budget | None:
        """What its budget leaves; None where it has no budget."""
        return None if self.budget is None else filters.left(self.budget, [*map(_spent, self.charges)])

    @property
    def renyi(self) -> dict[str, Any] | None:
        """What its runs spent by the filter that keeps its budget, as JSON; None where none does."""
        order = self.budget.order if self.budget else None
        if order is None:
            return None
        rho, apart = filters.renyi_spent(order, [*map(_spent, self.charges)])
        return {"order": str(order), "rho": rho, "delta": str(apart)}


def _spent(run: Charge | PrivacyEvent) -> filters.Spent:
    return (None if run.noise is None else (run.noise.coins, run.noise.values)), run.exact


def key_of(name: str) -> str:
    """Return what two spellings of one name have in common: neither case nor the form of a letter counts.

    [test: tests/harness/privacy/test_populations.py]
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def refuse_contradictions(population: Population, budget: Budget | None, release: PrivacyEvent) -> None:
    """Raise PopulationError where a run's unit, relation or budget is not the population's.

    Args: budget: what the run's command says; None if it says nothing.
    """
    for charge in population.charges:
        if (charge.unit, charge.relation) != (release.unit, release.relation):
            raise PopulationError(
                f"Population {population.name!r} is accounted for per {charge.unit} under {charge.relation}, "
                f"this run would be per {release.unit} under {release.relation}, and the two do not add up. "
                "Choose the former."
            )
    refuse_late_rule(population, budget)
    if budget is not None and population.budget not in (None, budget):
        raise PopulationError(
            f"Population {population.name!r} has a budget of {budget_text(population.budget)}, "
            f"not {budget_text(budget)}. Leave --budget out, or change it with `./inv ledger`."
        )


def refuse_late_rule(population: Population, budget: Budget | None) -> None:
    """Raise PopulationError where a budget with a rule of its own is given, or taken back, after a run."""
    rules = [each for each in (population.budget, budget) if each and each.rule]
    if population.charges and budget not in (None, population.budget) and rules:
        raise PopulationError(
            f"Population {population.name!r} has runs already, and a budget of {budget_text(rules[0])} is "
            "declared before the first and stays. Leave --budget out, or take a limit of ε or ε,δ where the "
            "population has none of that kind."
        )


def refuse_overspending(population: Population, more: Guarantee, noise: NoiseEvent | None = None) -> None:
    """Raise BudgetError unless a population's budget covers one more release, by the budget's own rule.

    Guarantees: no sum is too low; a run that takes all that is left is allowed.
    [test: tests/harness/privacy/test_ledger_properties.py, tests/harness/privacy/test_ledger_rules.py]
    Args: noise: the release's, where it is known.
    """
    budget, spent = population.budget, [*map(_spent, population.charges)]
    event = None if noise is None else (noise.coins, noise.values)
    if budget is None or filters.allows(budget, [*spent, (event, more)]):
        return
    if budget.runs is not None:
        raise BudgetError(
            f"Population {population.name!r} has a budget of {budget_text(budget)}, for {budget.runs} runs "
            f"with the noise of the first; after {runs_text(population.charges)} this one is beyond them, "
            f"has other noise, or so many like it exceed the budget. {NOT_STARTED} Repeat the first run's "
            "--epsilon and --delta; before the first run, ask for less."
        )
    left = filters.left(budget, spent)
    raise BudgetError(
        f"Population {population.name!r} has {left_text(left)} left of its budget of {budget_text(budget)}, "
        f"after {runs_text(population.charges)}; this run needs {spent_text(more)}. {NOT_STARTED} "
        "Ask for less with --epsilon or --delta."
    )


def uncovered(
    policies: Mapping[str, ClientPolicy], release: PrivacyEvent, spent: Mapping[str, Guarantee]
) -> frozenset[str]:
    """Return the uploads whose clients' policies do not cover a release: all hosts leave them out of it.

    Computes: a policy covers a release of a task that it names, for a unit that it asks for or a stronger
    one, if what the upload has spent and what the release spends add up to no more than its total.
    Guarantees: exact; a release that takes all that is left is covered.
    [test: tests/harness/privacy/test_client_policies.py]
    Args: policies: by upload; spent: by upload, as `Ledger.spent_on` says; nothing where it is silent.
    """
    return frozenset(
        upload
        for upload, policy in policies.items()
        if not policy.covers(
            release.task, release.unit, compose([*filter(None, [spent.get(upload)]), release.exact])
        )
    )


def refuse_uncovered(release: PrivacyEvent, spent: Mapping[str, Guarantee]) -> None:
    """Raise BudgetError unless the policies of all clients cover a release."""
    if found := uncovered(release.policies, release, spent):
        raise BudgetError(
            f"The policies of clients do not cover this run, in {len(found)} of its {len(release.uploads)} "
            f"uploads; {min(found)} is one. {NOT_STARTED} Run it again on share files, which leaves "
            "them out, or ask for less with --epsilon or --delta."
        )


def refuse_misspelt(name: str, known: Iterable[Population], path: Path) -> None:
    """Raise PopulationError for a new name without a budget, where others have one: it may be one of them."""
    others = sorted(population.name for population in known if population.budget)
    if others:
        raise PopulationError(
            f"{path} has no population {name!r}, but budgets for {listed(others)}. Correct --population; "
            "or, if these are other people, give them a budget with --budget."
        )


def exact_json(total: Guarantee | Budget | None) -> dict[str, str | None] | None:
    """Return epsilon and delta as rationals `p/q`; a delta that is not limited is None."""
    if total is None:
        return None
    rule = {name: getattr(total, name, None) for name in ("order", "runs")}
    exact = {"epsilon": str(total.epsilon), "delta": None if total.delta is None else str(total.delta)}
    return exact | {name: str(value) for name, value in rule.items() if value is not None}


def spent_text(spent: Guarantee) -> str:
    """Say epsilon and delta, rounded up."""
    return f"ε = {digits_up(spent.epsilon, 4)} and δ = {digits_up(spent.delta, 4)}"


def left_text(left: Budget) -> str:
    """Say what is left, rounded down."""
    if left.runs is not None:
        return f"{left.runs} runs"
    delta = "" if left.delta is None else f" and δ = {digits_down(left.delta, 4)}"
    return f"ε = {digits_down(left.epsilon, 4)}{delta}"


def budget_text(budget: Budget | None) -> str:
    """Say a budget as options take it, exactly."""
    if budget is None:
        return "none"
    rule = ",renyi" if budget.order else f",{budget.runs}" if budget.runs else ""
    return (
        exact_text(budget.epsilon) + ("" if budget.delta is None else f",{exact_text(budget.delta)}") + rule
    )


def runs_text(charges: tuple[Charge, ...]) -> str:
    """Say how many they are."""
    return "1 run" if len(charges) == 1 else f"{len(charges)} runs"


def listed(names: list[str]) -> str:
    """Say names in quotes, at most ten of them."""
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
