"""The privacy ledger: one SQLite file with the charges of all runs, and the budgets that hold them back.

A charge is written right before a run's parties start, and stays whatever happens then: from there on
somebody may have seen an opened value.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from harness.privacy.ledger.database import Database
from harness.privacy.ledger.populations import (
    Charge,
    NoiseEvent,
    Population,
    PrivacyEvent,
    Status,
    key_of,
    refuse_contradictions,
    refuse_late_rule,
    refuse_misspelt,
    refuse_overspending,
    refuse_uncovered,
)
from harness.privacy.ledger.series import EPOCHS, add_epochs, charge_of
from harness.privacy.ledger.uploads import USES, add_uses, refuse_elsewhere, refuse_used, spent_on, uses
from harness.system.processes import birth
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.circuits.coins import Coin
from protocols.guarantee import Budget, Guarantee

TIMEOUT_S = 20.0

_SCHEMA = 2
_TABLES = f"""
CREATE TABLE populations (
    key TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    budget_epsilon TEXT,
    budget_delta TEXT
);
CREATE TABLE charges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    population TEXT REFERENCES populations,
    time TEXT NOT NULL,
    task TEXT NOT NULL,
    model TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    unit TEXT NOT NULL,
    relation TEXT NOT NULL,
    noise TEXT,
    out TEXT NOT NULL,
    status TEXT NOT NULL,
    process TEXT NOT NULL
);
{USES}
{EPOCHS}
"""
_OF_A_CHARGE = "population, time, task, model, epsilon, delta, unit, relation, noise, out, status, process"


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
        self._database = Database(self.path, _TABLES, _SCHEMA, timeout_s)

    def populations(self) -> list[Population]:
        """Return all populations, by name; none if there is no file yet."""
        if not self._database.exists():
            return []
        with self._database.reading() as connection:
            return self._read(connection)

    def spent_on(self, uploads: Iterable[str]) -> dict[str, Guarantee]:
        """Return what each of these uploads has spent, by basic composition; none that no run used.

        [test: tests/harness/privacy/test_client_policies.py]
        """
        if not self._database.exists():
            return {}
        with self._database.reading() as connection, self._sound_entries():
            return spent_on(connection, uploads)

    def set_budget(self, name: str, budget: Budget) -> None:
        """Give a population this budget instead of the one that it has, if any."""
        with self._database.writing() as connection:
            refuse_late_rule(self._find(connection, name) or Population(name), budget)
            _give(connection, name, budget)

    def check(self, name: str | None, budget: Budget | None, release: PrivacyEvent) -> None:
        """Raise what `charge` would raise now; nothing is written."""
        if self._database.exists():
            with self._database.reading() as connection:
                self._refuse(connection, name, budget, release)
            return
        refuse_uncovered(release, {})
        if name is not None:
            refuse_overspending(Population(name, budget=budget), release.exact, release.noise)

    def charge(
        self, name: str | None, budget: Budget | None, release: PrivacyEvent
    ) -> tuple[int, Population | None]:
        """Write a charge, and that its uploads were used; return its number and what its population has now.

        What the uploads spent when nobody was named is charged to the population, too.

        Args: name: the population; None for a run that is counted for nobody; budget: what the population
        has, or gets if it has none; None leaves it as it is.
        Raises: PopulationError; BudgetError; UsedUploadsError: nothing is written then.
        """
        with self._database.writing() as connection:
            self._refuse(connection, name, budget, release)
            if name is not None:
                if budget is not None or self._find(connection, name) is None:
                    _give(connection, name, budget)
                connection.executemany(
                    "UPDATE charges SET population = ? WHERE id = ?",
                    ((key_of(name), each.id) for each in self._uncounted(connection, release.uploads)),
                )
            number = _insert(connection, name, release)
            return number, None if name is None else self._find(connection, name)

    def add(
        self, name: str | None, release: PrivacyEvent, epochs: Mapping[str, Sequence[str]]
    ) -> tuple[int, Population | None]:
        """Write that one more epoch begins of a series whose first one was charged; return as `charge`.

        Guarantees: of copies of what a series keeps only one goes on, and it is the latest.
        [test: tests/harness/privacy/test_ledger_series.py]
        Args: name: as for `charge`; release: the new epoch's; epochs: all that began, this one last: by
        identity, which uploads each was the first to count. A crash may have kept some from here.
        Raises: LedgerError: another ledger has the charge, it is of another ε or δ, or this ledger knows of
        more epochs; PopulationError; BudgetError; UsedUploadsError: another run had one. Nothing is written
        then.
        """
        with self._database.writing() as connection:
            number, key, new = charge_of(connection, self._database, name, release, epochs)
            uploads = sorted(upload for epoch in new for upload in epochs[epoch])
            refuse_elsewhere(connection, key, release, uploads)
            with self._sound_entries():
                refuse_uncovered(release, spent_on(connection, release.policies))
            add_uses(connection, number, uploads)
            add_epochs(connection, number, new)
            connection.execute(
                "UPDATE charges SET status = ?, process = ? WHERE id = ?",
                (str(Status.RUNNING), json.dumps(_process(os.getpid())), number),
            )
            return number, None if key is None else self._read(connection, key)[0]

    def settle(self, charge: int, status: Status) -> None:
        """Write what became of a run. Whatever it is, its charge stays."""
        with self._database.writing() as connection:
            connection.execute("UPDATE charges SET status = ? WHERE id = ?", (str(status), charge))

    def _refuse(
        self, connection: sqlite3.Connection, name: str | None, budget: Budget | None, release: PrivacyEvent
    ) -> None:
        if name is not None:
            found = self._find(connection, name)
            if found is None and budget is None:
                refuse_misspelt(name, self._read(connection), self.path)
            found, unnamed = found or Population(name), self._uncounted(connection, release.uploads)
            refuse_late_rule(Population(name, charges=unnamed), budget or found.budget)  # it is theirs, too
            found = replace(found, charges=found.charges + unnamed)
            refuse_contradictions(found, budget, release)
            refuse_overspending(replace(found, budget=budget or found.budget), release.exact, release.noise)
        refuse_used(connection, name, release.uploads)
        with self._sound_entries():
            spent = spent_on(connection, release.policies)
        refuse_uncovered(release, spent)

    def _find(self, connection: sqlite3.Connection, name: str) -> Population | None:
        return next(iter(self._read(connection, key_of(name))), None)

    def _read(self, connection: sqlite3.Connection, key: str | None = None) -> list[Population]:
        """Return the population of that key, or all of them."""
        populations = connection.execute(
            "SELECT key, name, budget_epsilon, budget_delta FROM populations "
            "WHERE key = ? OR ? ORDER BY name",
            (key, key is None),
        ).fetchall()
        with self._sound_entries():
            return [_population(connection, *row) for row in populations]

    def _uncounted(self, connection: sqlite3.Connection, uploads: Sequence[str]) -> tuple[Charge, ...]:
        """Return the charges that uploads went into when nobody was named."""
        numbers = {found.charge for found in uses(connection, uploads) if found.key is None}
        with self._sound_entries():
            return tuple(each for each in _charges(connection, None) if each.id in numbers)

    @contextmanager
    def _sound_entries(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, ArithmeticError, LookupError):
            raise self._database.error("an entry in it is damaged; restore it from a copy") from None


def _population(
    connection: sqlite3.Connection,
    key: str,
    name: str,
    epsilon: str | None,
    delta: str | None,
) -> Population:
    budget = None
    if epsilon is not None:
        limit, *rule = delta.split() if delta is not None else [None]
        chosen = {name: int(number) for name, _, number in (each.partition("=") for each in rule if each)}
        budget = Budget(Fraction(epsilon), None if limit is None else Fraction(limit), **chosen)
    return Population(name, budget, _charges(connection, key))


def _charges(connection: sqlite3.Connection, key: str | None) -> tuple[Charge, ...]:
    """Return the charges of a population, or of nobody."""
    rows = connection.execute(
        f"SELECT id, {_OF_A_CHARGE} FROM charges WHERE population IS ? ORDER BY id", (key,)
    )
    return tuple(_charge(*row) for row in rows)


def _charge(
    number: int,
    _population: str | None,
    time: str,
    task: str,
    model: str,
    epsilon: str,
    delta: str,
    unit: str,
    relation: str,
    noise: str | None,
    out: str,
    status: str,
    process: str,
) -> Charge:
    exact = Guarantee(Fraction(epsilon), Fraction(delta))
    if exact.epsilon < 0 or not 0 <= exact.delta < 1:
        raise ValueError("no release spends that")
    found = Status(status)
    if found is Status.RUNNING:
        found = _running_or_not(*json.loads(process))
    kind = PrivacyUnit(unit), NeighboringRelation(relation)
    return Charge(number, time, task, model, exact, *kind, _noise(noise), out, found)


def _noise(text: str | None) -> NoiseEvent | None:
    if text is None:
        return None
    values, coins = json.loads(text)
    return NoiseEvent(tuple(Coin(*coin) for coin in coins), values)


def _insert(connection: sqlite3.Connection, name: str | None, release: PrivacyEvent) -> int:
    noise = release.noise
    inserted = connection.execute(
        f"INSERT INTO charges ({_OF_A_CHARGE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            None if name is None else key_of(name),
            datetime.now(UTC).isoformat(timespec="seconds"),
            release.task,
            release.model,
            str(release.exact.epsilon),
            str(release.exact.delta),
            str(release.unit),
            str(release.relation),
            noise and json.dumps([noise.values, [(coin.numerator, coin.bits) for coin in noise.coins]]),
            str(release.out.absolute()),
            str(Status.RUNNING),
            json.dumps(_process(os.getpid())),
        ),
    )
    number = inserted.lastrowid
    assert number is not None
    add_uses(connection, number, release.uploads)
    if release.epoch:
        add_epochs(connection, number, [release.epoch])
    return number


def _give(connection: sqlite3.Connection, name: str, budget: Budget | None) -> None:
    """Write a population's budget; make the population if it is new."""
    epsilon = None if budget is None else str(budget.epsilon)
    delta = None if budget is None or budget.delta is None else str(budget.delta)
    if budget and delta and budget.rule:
        delta += f" {budget.rule}"
    connection.execute(
        "INSERT INTO populations (key, name, budget_epsilon, budget_delta) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET budget_epsilon = excluded.budget_epsilon, "
        "budget_delta = excluded.budget_delta",
        (key_of(name), name, epsilon, delta),
    )


def _process(pid: int) -> tuple[str, str, int, str]:
    """Return what tells a process from all others: machine, its last start, number, when it began."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # there is no /proc, and numbers alone have to do
        boot = ""
    return socket.gethostname(), boot, pid, birth(pid)


def _running_or_not(machine: str, boot: str, pid: int, began: str) -> Status:
    if machine != socket.gethostname():
        return Status.UNKNOWN
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass  # it is another user's
    except ProcessLookupError:
        return Status.ABORTED
    return Status.RUNNING if _process(pid) == (machine, boot, pid, began) else Status.ABORTED
