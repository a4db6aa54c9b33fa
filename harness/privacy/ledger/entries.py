"""The privacy ledger: one SQLite file with the charges of all runs, and the budgets that hold them back.

A charge is written right before a run's parties start, and stays whatever happens then: from there on
somebody may have seen an opened value.
"""

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import PopulationError
from harness.privacy.ledger import rows
from harness.privacy.ledger.database import Database
from harness.privacy.ledger.populations import (
    Charge,
    Population,
    PrivacyEvent,
    Status,
    key_of,
    refuse_contradictions,
    refuse_elsewhere,
    refuse_late_rule,
    refuse_misspelt,
    refuse_overspending,
    refuse_uncovered,
    refuse_used,
    spent_text,
)
from protocols.guarantee import Budget, Guarantee

TIMEOUT_S = 20.0


def default_path() -> Path:
    """Return where a user's ledger is: below `$XDG_DATA_HOME` if that is absolute, else `~/.local/share`."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "fairshares" / "ledger.sqlite"


class Ledger:
    """The charges and budgets in one file; every method is one transaction.

    Guarantees: of runs that race for the rest of a budget only as many are charged as fit it; no charge
    that was made is lost by a crash.  [test: tests/harness/privacy/test_ledger_processes.py]
    Args: path: `default_path()` unless given.
    Raises: LedgerError: the file is locked, damaged, not a ledger, or cannot be written.
    """

    def __init__(self, path: Path | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.path, self.timeout_s = (path or default_path()).absolute(), timeout_s
        self._database = Database(self.path, rows.TABLES, rows.SCHEMA, timeout_s)

    def populations(self) -> list[Population]:
        """Return all populations, by name; none if there is no file yet."""
        with self._database.reading() as connection:
            return rows.populations(connection)

    def spent_on(self, uploads: Iterable[str]) -> dict[str, Guarantee]:
        """Return what each of these uploads has spent, by basic composition; none that no run used.

        [test: tests/harness/privacy/test_client_policies.py]
        """
        with self._database.reading() as connection:
            return rows.spent_on(connection, uploads)

    def set_budget(self, name: str, budget: Budget) -> None:
        """Give a population this budget instead of the one that it has, if any."""
        with self._database.writing() as connection:
            refuse_late_rule(_find(connection, name) or Population(name), budget)
            rows.set_budget(connection, name, budget)

    def check(self, name: str | None, budget: Budget | None, release: PrivacyEvent) -> None:
        """Raise what `charge` would raise now; nothing is written."""
        with self._database.reading() as connection:
            self._refuse(connection, name, budget, release)

    def charge(
        self, name: str | None, budget: Budget | None, release: PrivacyEvent
    ) -> tuple[int, Population | None]:
        """Write a charge, and that its uploads were used; return its number and what its population has now.

        What the uploads spent when nobody was named is charged to the population, too.

        Args:
            name: the population; None for a run that is counted for nobody.
            budget: what the population has, or gets if it has none; None leaves it as it is.
            release: what is charged.
        Raises: PopulationError; BudgetError; UsedUploadsError: nothing is written then.
        """
        with self._database.writing() as connection:
            self._refuse(connection, name, budget, release)
            if name is None:
                return rows.insert(connection, None, release), None
            if budget is not None or _find(connection, name) is None:
                rows.set_budget(connection, name, budget)
            rows.adopt(connection, name, _uncounted(connection, release.uploads))
            return rows.insert(connection, name, release), _find(connection, name)

    def add(
        self, name: str | None, release: PrivacyEvent, epochs: Mapping[str, Sequence[str]]
    ) -> tuple[int, Population | None]:
        """Write that one more epoch begins of a series whose first one was charged; return as `charge`.

        Guarantees: of copies of what a series keeps only one goes on, and it is the latest.
        [test: tests/harness/privacy/test_ledger_series.py]
        Args:
            name: as for `charge`.
            release: the new epoch's.
            epochs: all that began, this one last: by identity, which uploads each was the first to count. A
                crash may have kept some from here.
        Raises: LedgerError: another ledger has the charge, it is of another ε or δ, or this ledger knows of
        more epochs; PopulationError; BudgetError; UsedUploadsError: another run had one. Nothing is written
        then.
        """
        with self._database.writing() as connection:
            found = rows.charge_of(connection, next(iter(epochs)), release.exact)
            if found is None:
                raise self._database.error(
                    f"it has no charge of {spent_text(release.exact)} for the series in {release.out}; go on "
                    "with the ledger and the version that it was begun with"
                )
            number, key, began = found
            if name is not None and key != key_of(name):
                raise PopulationError(
                    f"{release.out} was not charged to {name!r}; name the population that it was begun with, "
                    "or none."
                )
            if began - epochs.keys():
                raise self._database.error(
                    f"an epoch began that {release.out} does not know, which is a copy from before it; go on "
                    "with the latest one"
                )
            new = [epoch for epoch in epochs if epoch not in began]
            uploads = sorted(upload for epoch in new for upload in epochs[epoch])
            refuse_elsewhere(rows.uses(connection, uploads), key, release.out, uploads)
            refuse_uncovered(release, rows.spent_on(connection, release.policies))
            rows.add(connection, number, uploads, new)
            rows.set_status(connection, number, Status.RUNNING)
            return number, None if key is None else rows.populations(connection, key)[0]

    def settle(self, charge: int, status: Status) -> None:
        """Write what became of a run. Whatever it is, its charge stays."""
        with self._database.writing() as connection:
            rows.set_status(connection, charge, status)

    def _refuse(
        self, connection: sqlite3.Connection, name: str | None, budget: Budget | None, release: PrivacyEvent
    ) -> None:
        if name is not None:
            found = _find(connection, name)
            if found is None and budget is None:
                refuse_misspelt(name, rows.populations(connection), self.path)
            found, unnamed = found or Population(name), _uncounted(connection, release.uploads)
            refuse_late_rule(Population(name, charges=unnamed), budget or found.budget)  # it is theirs, too
            found = replace(found, charges=found.charges + unnamed)
            refuse_contradictions(found, budget, release)
            refuse_overspending(replace(found, budget=budget or found.budget), release.loss)
        refuse_used(rows.uses(connection, release.uploads), name, release.uploads)
        refuse_uncovered(release, rows.spent_on(connection, release.policies))


def _find(connection: sqlite3.Connection, name: str) -> Population | None:
    return next(iter(rows.populations(connection, key_of(name))), None)


def _uncounted(connection: sqlite3.Connection, uploads: Sequence[str]) -> tuple[Charge, ...]:
    """Return the charges that uploads went into when nobody was named."""
    numbers = {use.charge for use in rows.uses(connection, uploads) if use.key is None}
    return tuple(charge for charge in rows.charges(connection, None) if charge.id in numbers)
