"""Populations' spending and budgets, and a run's charge."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from fairshares.harness.errors import named
from fairshares.harness.privacy.ledger.accountants import numerical_epsilon
from fairshares.harness.privacy.ledger.charge import Entry
from fairshares.harness.privacy.ledger.populations import (
    Charge,
    Population,
    Status,
    budget_text,
    left_text,
    runs_text,
    spent_text,
)
from fairshares.harness.privacy.ledger.stated import state_budget
from fairshares.harness.privacy.statement import what_changes
from fairshares.harness.stated_privacy import state_loss
from fairshares.harness.system.documents import as_json
from fairshares.harness.views.parts import Findings, Heading, Line, Part, Table
from fairshares.harness.views.rendering.plots import spent
from fairshares.protocols.accounting.rounding import digits_up, float_up
from fairshares.protocols.json_values import JsonValue

SCHEMA = 1
NUMERICAL_DELTAS = (1e-9, 1e-6)
NOT_CHARGED = "Not tracked. ε adds up over runs on the same people."
_COLUMNS = ["run", "started (UTC)", "task", "security", "ε", "δ", "status", "results"]


def charge(charging: Entry, asked_for_none: bool) -> str:
    """Say where a run was charged, and what its population has left.

    `asked_for_none` tells whether the caller chose that nobody counts; else a sentence says how to.
    """
    population = charging.population
    if population is None and asked_for_none:
        return NOT_CHARGED
    if population is None:
        return f"{NOT_CHARGED} {named('population', 'NAME')} tracks it."
    left = "; no budget is set"
    if population.left is not None:
        left = f"; left of its budget: {left_text(population.left)}"
    return (
        f"Charged to population {population.name!r} in {charging.account.ledger.path}. "
        f"Spent in {runs_text(population.charges)}: {spent_text(population.spent)}{left}."
        f"{_if_replaced(population)}"
    )


def _if_replaced(population: Population) -> str:
    """Say what runs lose of what records say, where their ε and budget are for whether records exist."""
    replaced = population.spent_if_replaced
    if replaced is None:
        return ""
    return f" That is for whether a record exists; for what it says, at most {spent_text(replaced)}."


def ledger(path: Path, populations: Sequence[Population]) -> Iterator[Part]:
    """Show each population's charges, spending and remaining budget."""
    yield Line("Ledger", str(path))
    charged = [population for population in populations if population.charges]
    if charged:
        yield Findings(
            [f"Population {population.name!r} has spent {_spent_of(population)}." for population in charged]
        )
        yield spent(charged)
    if not populations:
        yield f"Nothing is charged in it yet: runs with {named('population')} are."
    for population in populations:
        yield from _population(population)


def _population(population: Population) -> Iterator[Part]:
    detail = ", retired" if population.retired else ""
    if population.unit and population.relation:
        detail += f", {what_changes(population.unit, population.relation)}"
    yield Heading(f"Population {population.name!r}", detail)
    if population.charges:
        yield Table(
            _COLUMNS,
            [_row(charge) for charge in population.charges],
            alignment="l" * len(_COLUMNS),
            if_wide=["results"],
        )
    yield f"Spent: {_spent_of(population, ', by basic composition')}.{_if_replaced(population)}"
    yield from _runs_of_hosts(population)
    if any(charge.status in (Status.ABORTED, Status.UNKNOWN) for charge in population.charges):
        yield "Runs that were aborted, or whose end is unknown, may have revealed values: their ε is spent."
    tighter = [
        f"ε = {digits_up(Fraction(epsilon), 4)} at δ = {probability:g}"  # a choice of ours, no bound
        for probability, epsilon in _numerical(population)
        if epsilon is not None
    ]
    if tighter:
        yield f"For information, decides nothing: numerically (dp_accounting) {', '.join(tighter)}."


def _runs_of_hosts(population: Population) -> Iterator[Part]:
    """Show which runs of hosts were charged, and who asked for them."""
    rows = [
        [str(charge.id), run.name, run.coordinator, run.time.partition("+")[0].replace("T", " ")]
        for charge in population.charges
        for run in charge.runs
    ]
    if rows:
        yield Table(["run", "name", "coordinator", "charged (UTC)"], rows, "llll", caption="Runs of hosts.")


def _spent_of(population: Population, how: str = "") -> str:
    left = "" if population.left is None else f"; left of it: {left_text(population.left)}"
    return f"{spent_text(population.spent)}{how}. Budget: {budget_text(population.budget)}{left}"


def _row(charge: Charge) -> list[str]:
    """Return a charge's row, a text for each of `_COLUMNS`; results in this directory by a relative path."""
    here = Path.cwd()
    return [
        str(charge.id),
        charge.time.partition("+")[0].replace("T", " "),
        charge.task,
        charge.model,
        digits_up(charge.exact.epsilon, 4),
        digits_up(charge.exact.delta, 4),
        str(charge.status),
        str(charge.out.relative_to(here) if charge.out.is_relative_to(here) else charge.out),
    ]


def _numerical(population: Population) -> list[tuple[float, float | None]]:
    """Return pairs of δ and the ε that dp_accounting finds for it, None if it finds none."""
    if not population.charges:
        return []
    return [(delta, numerical_epsilon(population.losses, delta)) for delta in NUMERICAL_DELTAS]


def to_json(path: Path, populations: Sequence[Population]) -> dict[str, JsonValue]:
    """Return the output of `ledger --json`."""
    return {
        "schema": SCHEMA,
        "ledger": str(path),
        "populations": [_population_json(population) for population in populations],
    }


def _population_json(population: Population) -> JsonValue:
    numerical: list[JsonValue] = [
        {"method": "dp_accounting", "delta": delta, "epsilon": epsilon}
        for delta, epsilon in _numerical(population)
    ]
    replaced = population.spent_if_replaced
    if_replaced: JsonValue = None
    if replaced is not None:
        if_replaced = {"epsilon": float_up(replaced.epsilon), "delta": float_up(replaced.delta)}
    return {
        "population": population.name,
        "privacy_unit": population.unit,
        "neighboring_relation": population.relation,
        "retired": population.retired,
        "budget": as_json(state_budget(population.budget)),
        "spent": as_json(state_loss(population.spent)),
        "spent_if_replaced": if_replaced,
        "left": as_json(state_budget(population.left)),
        "for_information_only": numerical,
        "charges": [_charge_json(charge) for charge in population.charges],
    }


def _charge_json(charge: Charge) -> JsonValue:
    return {
        "id": charge.id,
        "time": charge.time,
        "task": charge.task,
        "security": charge.model,
        "epsilon": float_up(charge.exact.epsilon),
        "delta": float_up(charge.exact.delta),
        "epsilon_exact": str(charge.exact.epsilon),
        "delta_exact": str(charge.exact.delta),
        "out": str(charge.out),
        "status": charge.status,
        "runs": [{"name": run.name, "coordinator": run.coordinator, "time": run.time} for run in charge.runs],
    }
