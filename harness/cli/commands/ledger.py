"""`ledger`: what each population has spent, and its budget."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness.cli.commands.choices import announce
from harness.cli.options import LedgerOptions
from harness.cli.report import tell
from harness.errors import OptionError, PopulationError
from harness.privacy.ledger.charge import chosen_ledger
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Population, key_of, listed
from harness.views import ledger as view


def ledger(options: LedgerOptions) -> None:
    """Give a population a budget, if asked to; then print what has been spent."""
    path, found = populations_of(options)
    shown, fields = view.ledger(path, found), partial(view.to_json, path, found)
    tell("ledger", "What was spent", shown, fields, plot=options.plot, as_json=options.json)


def populations_of(options: LedgerOptions) -> tuple[Path, list[Population]]:
    """Do what is asked for; return the ledger's file, and the population that is named, or all.

    Raises: OptionError: a budget of nobody; PopulationError: there is none of that name; LedgerError.
    """
    found = chosen_ledger(options.ledger)
    name = options.population
    if options.budget and name is None:
        raise OptionError("--budget belongs to a population; name it with --population.")
    if options.budget and name is not None:
        announce(found, name, options.budget)
        found.set_budget(name, options.budget)
    return found.path, _chosen(found, name)


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
