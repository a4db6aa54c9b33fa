"""`ledger`: what each population has spent, and its budget."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.table import Table

from harness.cli import terminal as cli
from harness.cli.commands.choices import chosen_ledger
from harness.cli.options import LedgerOptions
from harness.cli.terminal import plain, say
from harness.errors import OptionError, PopulationError
from harness.privacy.ledger.charge import Entry
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import (
    Charge,
    Population,
    Status,
    budget_text,
    exact_json,
    key_of,
    left_text,
    listed,
    runs_text,
    spent_text,
)
from protocols.accounting.rounding import digits_up, float_up

SCHEMA = 1
NUMERICAL_DELTAS = (1e-9, 1e-6)
NOT_CHARGED = "Charged to no ledger: what this run spent adds to what others on the same records spend."
TO_BE_CHARGED = " To have it counted, name whose records they are with --population."


def ledger(options: LedgerOptions) -> None:
    """Give a population a budget, if one is said; then print what it, or everybody, has spent."""
    found = chosen_ledger(options.ledger)
    name = options.population
    if options.budget:
        if name is None:
            raise OptionError("--budget is a population's; name it with --population.")
        found.set_budget(name, options.budget)
    shown = _chosen(found, name)
    if options.json:
        print(json.dumps(_to_json(found, shown), indent=2, ensure_ascii=False))
        return
    if not shown:
        say(f"Nothing is charged in {plain(str(found.path))} yet: runs with --population are.")
    for each in shown:
        _show(each)


def show_charge(charging: Entry, asked_for_none: bool) -> None:
    """Print where a finished run was charged, and what its population has spent and has left with it.

    Args: asked_for_none: whether the user said that nobody is to be charged.
    """
    found = charging.population
    if found is None:
        say(NOT_CHARGED if asked_for_none else NOT_CHARGED + TO_BE_CHARGED)
        return
    left = "; no budget is set" if found.left is None else f"; left of its budget: {left_text(found.left)}"
    name, path = plain(repr(found.name)), plain(str(charging.account.ledger.path))
    say(
        f"Charged to population {name} in {path}. "
        f"Spent in {runs_text(found.charges)}: {spent_text(found.spent)}{left}."
    )


def _chosen(ledger: Ledger, name: str | None) -> list[Population]:
    populations = ledger.populations()
    if name is None:
        return populations
    chosen = [each for each in populations if key_of(each.name) == key_of(name)]
    if not chosen:
        known = listed([each.name for each in populations])
        has = f"it has {known}" if known else "it has none yet, as runs with --population make them"
        raise PopulationError(f"{ledger.path} has no population {name!r}; {has}.")
    return chosen


def _show(population: Population) -> None:
    table = Table("run", "started (UTC)", "task", "model", "ε", "δ", "status")
    table.add_column("results", overflow="fold")
    for charge in population.charges:
        epsilon, delta = (digits_up(value, 4) for value in (charge.exact.epsilon, charge.exact.delta))
        started = charge.time.partition("+")[0].replace("T", " ")
        described = (str(charge.id), started, charge.task, charge.model, epsilon, delta, str(charge.status))
        table.add_row(*map(plain, described), plain(_from_here(charge.out)))
    protects = "" if population.unit is None else f", per {population.unit}, {population.relation}"
    say(f"\n[bold]Population {plain(repr(population.name))}[/]{protects}")
    if population.charges:
        cli.out.print(table)
    left = "" if population.left is None else f"; left of it: {left_text(population.left)}"
    budget = budget_text(population.budget)
    say(f"Spent: {spent_text(population.spent)}, by basic composition. Budget: {budget}{left}.")
    lost = [charge for charge in population.charges if charge.status in (Status.ABORTED, Status.UNKNOWN)]
    if lost:
        say("Runs that were aborted, or whose end is unknown, may have opened their values: they are spent.")
    tighter = [
        f"ε = {digits_up(Fraction(found), 4)} at δ = {delta:g}"
        for delta, found in _numerical(population)
        if found is not None
    ]
    if tighter:
        say(f"For information, decides nothing: numerically (dp_accounting) {', '.join(tighter)}.")


def _from_here(path: str) -> str:
    """Return a path as short as it is from here, if it is below."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _numerical(population: Population) -> list[tuple[float, float | None]]:
    """Return an epsilon for each of a few deltas."""
    if not population.charges:
        return []
    from harness.privacy.ledger.composition import numerical_epsilon  # takes a second or two to load

    return [(delta, numerical_epsilon(population.charges, delta)) for delta in NUMERICAL_DELTAS]


def _to_json(ledger: Ledger, populations: list[Population]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "ledger": str(ledger.path),
        "populations": [
            {
                "population": each.name,
                "privacy_unit": each.unit,
                "neighboring_relation": each.relation,
                "budget": exact_json(each.budget),
                "spent": exact_json(each.spent),
                "left": exact_json(each.left),
                "for_information_only": [
                    {"method": "dp_accounting", "delta": delta, "epsilon": found}
                    for delta, found in _numerical(each)
                ],
                "charges": [_charge_json(charge) for charge in each.charges],
            }
            for each in populations
        ],
    }


def _charge_json(charge: Charge) -> dict[str, Any]:
    return {
        "id": charge.id,
        "time": charge.time,
        "task": charge.task,
        "model": charge.model,
        "epsilon": float_up(charge.exact.epsilon),
        "delta": float_up(charge.exact.delta),
        "epsilon_exact": str(charge.exact.epsilon),
        "delta_exact": str(charge.exact.delta),
        "out": charge.out,
        "status": charge.status,
    }
