"""The privacy ledger: one SQLite file with the charges of all runs, and their budgets.

A charge is written right before a run's waiting parties compute, and stays.
"""

import hashlib
import json
import os
import socket
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from fairshares.harness.privacy.ledger import histories
from fairshares.harness.privacy.ledger.accountants import noise_of, noise_text
from fairshares.harness.privacy.ledger.database import Database
from fairshares.harness.privacy.ledger.histories import UploadHistory
from fairshares.harness.privacy.ledger.populations import (
    LEDGER_RULES,
    AskedRun,
    Charge,
    ChargeRules,
    LedgerState,
    Population,
    PrivacyEvent,
    RevealOfTask,
    RunChain,
    RunOfCharge,
    Status,
    Use,
    key_of,
    refuse_late_rule,
)
from fairshares.harness.system.documents import strict_json
from fairshares.harness.system.processes import birth
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.exact_numbers import stated_number
from fairshares.protocols.guarantee import Budget, Guarantee, compose

_COLUMNS = (  # the columns of a charge
    "population, time, task, model, epsilon, delta, unit, relation, noise, out, chain, domain, "
    "status, process"
)
_NO_STATEMENTS = ""  # enters the head after a charge without hosts, as in version 1.0
# Some ledgers of schema 6 have these tables, and those of version 1.0 do not.
_RUNS = """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        charge INTEGER REFERENCES charges,
        name TEXT NOT NULL,
        coordinator TEXT NOT NULL,
        time TEXT NOT NULL
    );
"""
_REVEALS = """
    CREATE TABLE reveals (
        charge INTEGER REFERENCES charges,
        number INTEGER NOT NULL,
        PRIMARY KEY (charge, number)
    ) WITHOUT ROWID;
"""
TIMEOUT_S = 20.0


def default_path() -> Path:
    """Return the user's ledger, below `$XDG_DATA_HOME` or `~/.local/share`."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "fairshares" / "ledger.sqlite"


@dataclass(frozen=True)
class LedgerSize:
    """The numbers of a ledger's entries.

    Attributes:
        charges: The number of charges.
        uploads: The number of uploads that runs have counted, without the uploads of closed tasks.
        last: The time of the last charge, in UTC and ISO 8601; None before the first.
    """

    charges: int
    uploads: int
    last: str | None


class Ledger(Database):
    """A ledger's file; every method is one transaction, and may raise LedgerError.

    Guarantees: of runs that race for the rest of a budget, only those that fit are charged. A crash loses no
    charge.
    [test: tests/harness/privacy/test_ledger_processes.py]
    """

    schema = 7
    earlier = 6  # the version of ledgers of version 1.0
    tables = f"""
    CREATE TABLE populations (
        key TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        budget_epsilon TEXT,
        budget_delta TEXT,
        retired INTEGER NOT NULL DEFAULT 0
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
        chain TEXT NOT NULL,
        domain TEXT NOT NULL,
        status TEXT NOT NULL,
        process TEXT NOT NULL
    );
    {histories.TABLES}
    {_RUNS}
    {_REVEALS}
    CREATE TABLE pieces (
        name TEXT PRIMARY KEY,
        charge INTEGER REFERENCES charges
    ) WITHOUT ROWID;
    CREATE TABLE peers (
        certificate TEXT PRIMARY KEY,
        head TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE heads (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        digest TEXT UNIQUE NOT NULL
    );
    """

    def __init__(self, path: Path | None = None, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(path or default_path(), timeout_s)

    def upgrade(self, connection: sqlite3.Connection, *, keep: bool) -> None:
        histories.upgrade(connection, keep=keep)
        for name, table in (("runs", _RUNS), ("reveals", _REVEALS)):
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
            if found is None:
                connection.execute(table if keep else table.replace("CREATE TABLE", "CREATE TEMP TABLE"))

    def populations(self, name: str | None = None) -> list[Population]:
        """Return the named population, if any, or all, sorted by name."""
        with self.reading() as connection:
            return _populations(connection, None if name is None else key_of(name))

    def spent_on(self, uploads: Iterable[str]) -> dict[str, Guarantee]:
        """Return the total loss of each used upload among these.

        [test: tests/harness/privacy/test_populations.py]
        """
        with self.reading() as connection:
            return _spent_on(connection, histories.ask(connection, uploads))

    def counted(self, name: str | None, chain: str | None, uploads: Iterable[str]) -> frozenset[str]:
        """Return the uploads that a run leaves out: those counted for its chain or another population.

        Without a population, any earlier run counts.
        """
        with self.reading() as connection:
            return _counted(connection, name, chain, histories.ask(connection, uploads))

    def set_budget(self, name: str, budget: Budget) -> None:
        """Give a population another budget."""
        with self.writing() as connection:
            refuse_late_rule(_find(connection, name) or Population(name), budget)
            _set_budget(connection, name, budget)

    def retire(self, name: str) -> None:
        """Let runs without a name ignore a population, until its next budget."""
        with self.writing() as connection:
            connection.execute("UPDATE populations SET retired = 1 WHERE key = ?", (key_of(name),))

    def check(
        self,
        name: str | None,
        budget: Budget | None,
        event: PrivacyEvent,
        rules: ChargeRules = LEDGER_RULES,
    ) -> None:
        """Raise what `charge` would raise."""
        with self.reading() as connection:
            asked = histories.ask(connection, event.uploads)
            rules.check_charge(self._state(connection, name, budget, event, asked), name, budget, event)

    def charge(
        self,
        name: str | None,
        budget: Budget | None,
        event: PrivacyEvent,
        rules: ChargeRules = LEDGER_RULES,
    ) -> tuple[int, Population | None]:
        """Write a charge and the use of its uploads; return its number and the population after it.

        Charges of nobody for the same uploads become the population's. A chain or a series is charged for its
        first run, and further runs add their uploads and, in a series, their numbers. An error leaves the
        file as it was. `rules` decide within the transaction, from the ledger's state alone.
        [test: tests/harness/privacy/test_ledger_chains.py, tests/harness/privacy/test_reveals.py]

        Raises:
            PopulationError: The run contradicts the population or chain.
            BudgetError: The population's budget or a client's policy does not cover it.
            UsedUploadsError: The run's uploads were used and nobody would count it, or its chain counted
                them, or their task is closed.
            UsedNoiseError: Another run used its noise.
            UsedRevealError: The run is a reveal that was begun before.
        """
        with self.writing() as connection:
            asked = histories.ask(connection, event.uploads)
            state = self._state(connection, name, budget, event, asked)
            rules.check_charge(state, name, budget, event)
            begun = state.begun(event)
            if name is not None and (budget is not None or _find(connection, name) is None):
                _set_budget(connection, name, budget)
            if name is not None:
                connection.executemany(
                    "UPDATE charges SET population = ? WHERE id = ?",
                    [(key_of(name), charge.id) for charge in _uncounted(connection, asked)],
                )
            number = _insert(connection, name, event) if begun is None else begun.id
            if event.uploads:
                histories.count_asked(connection, asked, number, event.upload_task)
            if event.piece is not None:
                connection.execute("INSERT INTO pieces VALUES (?, ?)", (event.piece, number))
            if event.asked_by is not None:
                _insert_run(connection, number, event.asked_by)
            if isinstance(event.chain, RevealOfTask):
                connection.execute("INSERT INTO reveals VALUES (?, ?)", (number, event.chain.number))
            _append_head(connection, _NO_STATEMENTS if event.run is None else event.run)
            _set_status(connection, number, Status.RUNNING)
            return number, None if name is None else _find(connection, name)

    def last_reveal(self, name: str, task: str) -> int:
        """Return the highest number of a task's reveals that was begun; 0 before a population's first."""
        with self.reading() as connection:
            return _last_reveal(connection, name, task)

    def close_task(self, task: str) -> int:
        """Let no run take a task's uploads any more; forget the counted ones, and return how many they were.

        Charges stay, and so do the heads that other hosts know. The file gets smaller.
        [test: tests/harness/privacy/test_ledger_sizes.py]

        Args:
            task: The task's digest.
        """
        with self.writing() as connection:
            forgotten = histories.close(connection, task, _now())
        self.shrink()
        return forgotten

    def closed_on(self, task: str) -> str | None:
        """Return when a task was closed, in UTC and ISO 8601; None if it is open."""
        with self.reading() as connection:
            return histories.closed_on(connection, task)

    def size(self) -> "LedgerSize":
        """Return how much the ledger has."""
        with self.reading() as connection:
            (charges,) = connection.execute("SELECT COUNT(*) FROM charges").fetchone()
            newest = connection.execute("SELECT time FROM charges ORDER BY id DESC LIMIT 1").fetchone()
            last = str(newest[0]) if newest else None
            (uploads,) = connection.execute("SELECT COUNT(*) FROM uploads").fetchone()
            return LedgerSize(charges=int(charges), uploads=int(uploads), last=last)

    def head(self) -> str:
        """Return the digest of all charges, or ""."""
        with self.reading() as connection:
            return _last_head(connection)

    def had(self, heads: Iterable[str]) -> list[str]:
        """Return the heads among these that this ledger has had."""
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT value FROM json_each(?) WHERE value IN (SELECT digest FROM heads)",
                (json.dumps([*heads]),),
            )
            return [head for (head,) in rows]

    def restore(self, name: str, lost: PrivacyEvent, seen: Sequence[str]) -> None:
        """Write a restored ledger's lost charge, and the lost heads that others saw."""
        with self.writing() as connection:
            if _find(connection, name) is None:
                _set_budget(connection, name, None)
            _append_head(connection, "lost", *seen)
            _set_status(connection, _insert(connection, name, lost), Status.DONE)

    def seen(self) -> dict[str, str]:
        """Return other hosts' heads, by certificate."""
        with self.reading() as connection:
            return dict(connection.execute("SELECT certificate, head FROM peers"))

    def remember(self, heads: Mapping[str, str]) -> None:
        """Write other hosts' heads, by certificate."""
        with self.writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO peers VALUES (?, ?)", heads.items())

    def settle(self, charge: int, status: Status) -> None:
        """Write a run's outcome."""
        with self.writing() as connection:
            _set_status(connection, charge, status)

    def _state(
        self,
        connection: sqlite3.Connection,
        name: str | None,
        budget: Budget | None,
        event: PrivacyEvent,
        asked: Sequence[UploadHistory],
    ) -> LedgerState:
        """Return the entries that decide about a run whose uploads were asked about."""
        used = None
        if event.piece is not None:
            used = connection.execute("SELECT charge FROM pieces WHERE name = ?", (event.piece,)).fetchone()
        counted: frozenset[str] = frozenset()
        if event.chain is not None:
            counted = _counted(connection, name, event.chain.name, asked)
        last_reveal = 0
        if isinstance(event.chain, RevealOfTask):
            last_reveal = _last_reveal(connection, name, event.chain.name)
        population = None if name is None else _find(connection, name)
        is_new = name is not None and population is None and budget is None
        closed = None
        if event.upload_task is not None:
            closed = histories.closed_on(connection, event.upload_task)
        return LedgerState(
            path=self.path,
            population=population,
            others=tuple(_populations(connection)) if is_new else (),
            uses=tuple(_uses(connection, asked)),
            uncounted=_uncounted(connection, asked) if name is not None else (),
            counted=counted,
            noise_used_by=None if used is None else int(used[0]),
            spent_on={} if event.policies is None else _spent_on(connection, asked),
            last_reveal=last_reveal,
            closed=closed,
        )


def _find(connection: sqlite3.Connection, name: str) -> Population | None:
    """Return the population of a name, None if there is none."""
    return next(iter(_populations(connection, key_of(name))), None)


def _uncounted(connection: sqlite3.Connection, asked: Sequence[UploadHistory]) -> tuple[Charge, ...]:
    """Return the charges of nobody that had some of the asked uploads."""
    numbers = {use.charge for use in _uses(connection, asked) if use.key is None}
    return tuple(charge for charge in _charges(connection, None) if charge.id in numbers)


def _populations(connection: sqlite3.Connection, key: str | None = None) -> list[Population]:
    """Return the population of a key, if there is one, or all of them, by name."""
    rows = connection.execute(
        "SELECT key, name, budget_epsilon, budget_delta, retired, "
        "(SELECT MIN(id IN (SELECT charge FROM histories)) FROM charges WHERE population = key) "
        "FROM populations WHERE key = ? OR ? ORDER BY name",
        (key, key is None),
    ).fetchall()
    populations = []
    for row in map(_PopulationRow._make, rows):
        population = Population(
            name=row.name,
            budget=_budget(row.budget_epsilon, row.budget_delta),
            charges=_charges(connection, row.key),
            retired=bool(row.retired),
            of_uploads=bool(row.of_uploads),
        )
        populations.append(population)
    return populations


def _charges(connection: sqlite3.Connection, key: str | None) -> tuple[Charge, ...]:
    found = f"SELECT id, {_COLUMNS} FROM charges WHERE population IS ? ORDER BY id"
    runs = _runs(connection)
    charges = (_charge(_ChargeRow(*row)) for row in connection.execute(found, (key,)))
    return tuple(replace(charge, runs=tuple(runs.get(charge.id, ()))) for charge in charges)


def _runs(connection: sqlite3.Connection) -> dict[int, list[RunOfCharge]]:
    """Return the runs of hosts, by their charge and the oldest first; version 1.0 wrote none."""
    runs: dict[int, list[RunOfCharge]] = {}
    for number, name, coordinator, time in connection.execute(
        "SELECT charge, name, coordinator, time FROM runs ORDER BY id"
    ):
        runs.setdefault(number, []).append(RunOfCharge(str(name), str(coordinator), str(time)))
    return runs


def _last_reveal(connection: sqlite3.Connection, name: str | None, task: str) -> int:
    """Return the highest number of a task's reveals that was begun; 0 before the first, or of nobody."""
    if name is None:
        return 0
    (last,) = connection.execute(
        "SELECT MAX(number) FROM reveals JOIN charges ON id = charge WHERE population = ? AND chain = ?",
        (key_of(name), task),
    ).fetchone()
    return int(last or 0)


def _insert_run(connection: sqlite3.Connection, charge: int, run: AskedRun) -> None:
    """Write which run of hosts a charge is of."""
    connection.execute(
        "INSERT INTO runs (charge, name, coordinator, time) VALUES (?, ?, ?, ?)",
        (charge, run.name, run.coordinator, _now()),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _set_budget(connection: sqlite3.Connection, name: str, budget: Budget | None) -> None:
    epsilon = None if budget is None else str(budget.epsilon)
    delta = None if budget is None or budget.delta is None else f"{budget.delta} {budget.rule}".rstrip()
    connection.execute(
        "INSERT INTO populations (key, name, budget_epsilon, budget_delta) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET budget_epsilon = excluded.budget_epsilon, "
        "budget_delta = excluded.budget_delta, retired = 0",
        (key_of(name), name, epsilon, delta),
    )


def _insert(connection: sqlite3.Connection, name: str | None, event: PrivacyEvent) -> int:
    number = connection.execute(
        f"INSERT INTO charges ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            None if name is None else key_of(name),
            _now(),
            event.task,
            event.model,
            str(event.exact.epsilon),
            str(event.exact.delta),
            str(event.unit),
            str(event.relation),
            noise_text(event.noise),
            str(event.out.absolute()),
            "" if event.chain is None else event.chain.name,
            "" if event.chain is None else event.chain.domain,
            str(Status.RUNNING),
            json.dumps(_process(os.getpid())),
        ),
    ).lastrowid
    assert number is not None
    return number


def _set_status(connection: sqlite3.Connection, charge: int, status: Status) -> None:
    connection.execute(
        "UPDATE charges SET status = ?, process = ? WHERE id = ?",
        (str(status), json.dumps(_process(os.getpid())), charge),
    )


def _counted(
    connection: sqlite3.Connection, name: str | None, chain: str | None, asked: Sequence[UploadHistory]
) -> frozenset[str]:
    """Return the asked uploads that a charge of this chain, or of another population, counted.

    Without a chain, NULL is equal to no chain of the table, where a charge without a chain has "".
    """
    rows = connection.execute(
        "SELECT id FROM charges WHERE :key IS NULL OR population <> :key OR chain = :chain",
        {"key": key_of(name) if name else None, "chain": chain},
    )
    charges = {int(number) for (number,) in rows}
    left_out = [history.number for history in asked if history.charges & charges]
    return frozenset(upload for upload, _ in histories.asked_with(connection, left_out))


def _uses(connection: sqlite3.Connection, asked: Sequence[UploadHistory]) -> list[Use]:
    """Return the last charge of each asked upload that was counted, the oldest first."""
    last: dict[int, list[UploadHistory]] = {}
    for history in asked:
        last.setdefault(max(history.charges), []).append(history)
    uses: list[Use] = []
    for charge, of_charge in sorted(last.items()):
        key, name, out = connection.execute(
            "SELECT populations.key, populations.name, charges.out FROM charges "
            "LEFT JOIN populations ON populations.key = charges.population WHERE charges.id = ?",
            (charge,),
        ).fetchone()
        number = sum(history.uploads for history in of_charge)
        uses.append(Use(charge, key, name, out, number, min(history.example for history in of_charge)))
    return uses


def _spent_on(connection: sqlite3.Connection, asked: Sequence[UploadHistory]) -> dict[str, Guarantee]:
    """Return the total loss of each asked upload that was counted."""
    of_charges = {
        int(number): Guarantee(stated_number(epsilon), stated_number(delta))
        for number, epsilon, delta in connection.execute("SELECT id, epsilon, delta FROM charges")
    }
    totals: dict[int, Guarantee] = {}  # totals by history
    for history in asked:
        totals[history.number] = compose(of_charges[charge] for charge in history.charges)
    return {upload: totals[number] for upload, number in histories.asked_with(connection, totals)}


def next_head(head: str, entry: str) -> str:
    """Return a ledger's head after one more charge.

    Heads are a hash chain, by which other hosts notice a ledger that went back in time. Each commits to all
    that hosts signed of the charged run.
    """
    return hashlib.sha256(f"{head} {entry}".encode()).hexdigest()


def _last_head(connection: sqlite3.Connection) -> str:
    return str(connection.execute("SELECT MAX(id), COALESCE(digest, '') FROM heads").fetchone()[1])


def _append_head(connection: sqlite3.Connection, entry: str, *seen: str) -> None:
    """Write the next head, after lost ones."""
    heads = (*seen, next_head(_last_head(connection), " ".join([entry, *seen])))
    connection.executemany("INSERT OR IGNORE INTO heads (digest) VALUES (?)", ((head,) for head in heads))


class _PopulationRow(NamedTuple):
    """A population as the database has it.

    Attributes:
        key: The key of the population's name, as `key_of` makes it.
        name: The population's name.
        budget_epsilon: The ε of the population's budget, None without a budget.
        budget_delta: The rest of the population's budget, as `_budget` reads it.
        retired: Whether it is retired, as 0 or 1.
        of_uploads: Whether all of its charges had uploads, as 0 or 1; None without a charge.
    """

    key: str
    name: str
    budget_epsilon: str | None
    budget_delta: str | None
    retired: int
    of_uploads: int | None


def _budget(epsilon: str | None, delta: str | None) -> Budget | None:
    """Return a budget.

    Args:
        epsilon: The budget's ε, None for no budget.
        delta: The budget's δ and, after a blank each, the numbers of its rule, as "runs=12"; None for ε
            alone.
    """
    if epsilon is None:
        return None
    if delta is None:
        return Budget(stated_number(epsilon))
    limit, *rule = delta.split()
    chosen: dict[str, int] = {}
    for part in rule:
        name, number = part.split("=")
        chosen[name] = int(number)
    return Budget(stated_number(epsilon), stated_number(limit), **chosen)


class _ChargeRow(NamedTuple):
    """A charge as the database has it: its number, and the columns of `_COLUMNS`."""

    number: int
    population: str | None
    time: str
    task: str
    model: str
    epsilon: str
    delta: str
    unit: str
    relation: str
    noise: str | None
    out: str
    chain: str
    domain: str
    status: str
    process: str


def _charge(row: _ChargeRow) -> Charge:
    exact = Guarantee(stated_number(row.epsilon), stated_number(row.delta))
    if exact.epsilon < 0 or not 0 <= exact.delta < 1:
        raise ValueError("no release spends that")
    settled = Status(row.status)
    if settled is Status.RUNNING:
        settled = _running_or_not(_Process.read(row.process))
    return Charge(
        id=row.number,
        time=row.time,
        task=row.task,
        model=row.model,
        exact=exact,
        unit=PrivacyUnit(row.unit),
        relation=NeighboringRelation(row.relation),
        out=Path(row.out),
        chain=RunChain(row.chain, row.domain) if row.chain else None,
        noise=noise_of(row.noise),
        status=settled,
    )


class _Process(NamedTuple):
    """A process, as a charge names the one that ran it.

    Attributes:
        machine: The name of its machine.
        boot: The name of the machine's last start, "" where the system tells none.
        pid: The number of the process.
        began: The start of the process, as `birth` tells it.
    """

    machine: str
    boot: str
    pid: int
    began: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the process of a charge's text, a list of JSON, or raise ValueError."""
        fields = strict_json(text.encode())
        if not isinstance(fields, list) or len(fields) != len(cls._fields):
            raise ValueError("a process is a list of four values")
        machine, boot, pid, began = fields
        if type(pid) is not int:
            raise ValueError("a process has a whole number")
        return cls(str(machine), str(boot), pid, str(began))


def _process(pid: int) -> _Process:
    """Return the process that has a number on this machine now."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    boot = boot_id.read_text().strip() if boot_id.exists() else ""  # without /proc numbers alone have to do
    return _Process(socket.gethostname(), boot, pid, birth(pid))


def _running_or_not(process: _Process) -> Status:
    """Return the status of a charge that no process has settled, by whether its process still runs."""
    if process.machine != socket.gethostname():
        return Status.UNKNOWN
    try:
        os.kill(process.pid, 0)
    except PermissionError:
        pass  # it is another user's
    except ProcessLookupError:
        return Status.ABORTED
    return Status.RUNNING if _process(process.pid) == process else Status.ABORTED
