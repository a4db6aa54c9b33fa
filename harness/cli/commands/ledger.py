"""`ledger`: what each population has spent, and its budget."""

from __future__ import annotations

import json

from harness.cli.commands.choices import chosen_ledger
from harness.cli.options import LedgerOptions
from harness.cli.terminal import show
from harness.errors import OptionError, PopulationError
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Population, key_of, listed
from harness.views import ledger as view


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
        print(json.dumps(view.to_json(found.path, shown), indent=2, ensure_ascii=False))
        return
    show(*view.ledger(found.path, shown))


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
