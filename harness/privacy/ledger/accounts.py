"""Where a run is charged: the ledger and the population that are named, and what is said of them."""

from collections.abc import Callable
from pathlib import Path

from harness.errors import OptionError, PopulationError, named
from harness.privacy.ledger.charge import UNCHARGED, Account, chosen_ledger
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Population, key_of, listed, refuse_misspelt
from protocols.guarantee import Budget

Say = Callable[[str], None]
"""Told what a user may want to know before a run, a sentence each."""


def nothing_said(_sentence: str) -> None:
    """Say nothing."""


def chosen_account(
    population: str | None, budget: Budget | None, ledger: Path | None, say: Say = nothing_said
) -> Account:
    """Return where a run is charged; say so if its population is a new one.

    Raises: PopulationError: nobody is named although the ledger has budgets, which would not hold then, or a
    new name may be a misspelt one; OptionError: a budget of nobody.
    """
    found = chosen_ledger(ledger)
    charged = population if population != UNCHARGED else None
    if budget and not charged:
        raise OptionError(f"{named('budget')} belongs to a population; name it with {named('population')}.")
    if charged:
        announce(found, charged, budget, say)
        return Account(found, charged, budget)
    guarded = [each.name for each in found.populations() if each.budget] if not population else []
    if guarded:
        raise PopulationError(
            f"{found.path} holds budgets, for {listed(guarded)}. Say whose records these are with "
            f"{named('population', 'NAME')}; or, with {named('population', UNCHARGED)}, that nobody counts "
            "what is spent."
        )
    return Account(found)


def announce(ledger: Ledger, name: str, budget: Budget | None, say: Say = nothing_said) -> None:
    """Say that a population is new, if it is. Raises: PopulationError: it may be a misspelt one."""
    known = ledger.populations()
    if key_of(name) not in {key_of(each.name) for each in known}:
        if budget is None:
            refuse_misspelt(name, known, ledger.path)
        say(f"New population {name!r} in {ledger.path}")


def populations_of(
    name: str | None, budget: Budget | None, ledger: Path | None, say: Say = nothing_said
) -> tuple[Path, list[Population]]:
    """Do what is asked for; return the ledger's file, and the population that is named, or all.

    Raises: OptionError: a budget of nobody; PopulationError: there is none of that name; LedgerError.
    """
    found = chosen_ledger(ledger)
    if budget and name is None:
        raise OptionError(f"{named('budget')} belongs to a population; name it with {named('population')}.")
    if budget and name is not None:
        announce(found, name, budget, say)
        found.set_budget(name, budget)
    return found.path, _chosen(found, name)


def _chosen(ledger: Ledger, name: str | None) -> list[Population]:
    populations = ledger.populations()
    if name is None:
        return populations
    chosen = [each for each in populations if key_of(each.name) == key_of(name)]
    if not chosen:
        known = listed([each.name for each in populations])
        has = f"it has {known}" if known else f"it has none yet, as runs with {named('population')} make them"
        raise PopulationError(f"{ledger.path} has no population {name!r}; {has}.")
    return chosen
