"""The ledger's rows: its tables, what is read from them, and what is written into them."""

import json
import os
import socket
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from harness.privacy.ledger.accountants import NoiseEvent
from harness.privacy.ledger.populations import Charge, Population, PrivacyEvent, Status, Use, key_of
from harness.system.processes import birth
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.circuits.coins import Coin
from protocols.guarantee import Budget, Guarantee, compose

SCHEMA = 2
TABLES = """
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
CREATE TABLE uses (
    upload TEXT,
    charge INTEGER REFERENCES charges,
    PRIMARY KEY (upload, charge)
) WITHOUT ROWID;
CREATE TABLE epochs (
    id TEXT PRIMARY KEY,
    charge INTEGER REFERENCES charges
) WITHOUT ROWID;
"""
_OF_A_CHARGE = "population, time, task, model, epsilon, delta, unit, relation, noise, out, status, process"


def populations(connection: sqlite3.Connection, key: str | None = None) -> list[Population]:
    """Return the population of that key, or all of them, by name."""
    found = connection.execute(
        "SELECT key, name, budget_epsilon, budget_delta FROM populations WHERE key = ? OR ? ORDER BY name",
        (key, key is None),
    ).fetchall()
    return [
        Population(name, None if epsilon is None else _budget(epsilon, delta), charges(connection, key))
        for key, name, epsilon, delta in found
    ]


def charges(connection: sqlite3.Connection, key: str | None) -> tuple[Charge, ...]:
    """Return the charges of a population, or of nobody."""
    found = connection.execute(
        f"SELECT id, {_OF_A_CHARGE} FROM charges WHERE population IS ? ORDER BY id", (key,)
    )
    return tuple(_charge(*row) for row in found)


def set_budget(connection: sqlite3.Connection, name: str, budget: Budget | None) -> None:
    """Write a population's budget; make the population if it is new."""
    epsilon = None if budget is None else str(budget.epsilon)
    delta = None if budget is None or budget.delta is None else f"{budget.delta} {budget.rule}".rstrip()
    connection.execute(
        "INSERT INTO populations (key, name, budget_epsilon, budget_delta) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET budget_epsilon = excluded.budget_epsilon, "
        "budget_delta = excluded.budget_delta",
        (key_of(name), name, epsilon, delta),
    )


def insert(connection: sqlite3.Connection, name: str | None, release: PrivacyEvent) -> int:
    """Write a charge, and what it uses; return its number. Args: name: of its population, None of nobody."""
    noise = release.noise
    number = connection.execute(
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
    ).lastrowid
    assert number is not None
    add(connection, number, release.uploads, [release.epoch] if release.epoch else [])
    return number


def add(connection: sqlite3.Connection, charge: int, uploads: Iterable[str], epochs: Iterable[str]) -> None:
    """Write that uploads went into a charge, and that epochs begin under it."""
    connection.executemany("INSERT OR IGNORE INTO uses VALUES (?, ?)", ((each, charge) for each in uploads))
    connection.executemany("INSERT INTO epochs VALUES (?, ?)", ((each, charge) for each in epochs))


def adopt(connection: sqlite3.Connection, name: str, unnamed: Iterable[Charge]) -> None:
    """Write that charges of nobody are a population's."""
    connection.executemany(
        "UPDATE charges SET population = ? WHERE id = ?", ((key_of(name), charge.id) for charge in unnamed)
    )


def set_status(connection: sqlite3.Connection, charge: int, status: Status) -> None:
    """Write what became of a run; whatever it is, this process is said to have run it."""
    connection.execute(
        "UPDATE charges SET status = ?, process = ? WHERE id = ?",
        (str(status), json.dumps(_process(os.getpid())), charge),
    )


def charge_of(
    connection: sqlite3.Connection, epoch: str, exact: Guarantee
) -> tuple[int, str | None, set[str]] | None:
    """Return an epoch's charge of this ε and δ, its population's key, and all epochs under it."""
    found = connection.execute(
        "SELECT charges.id, population FROM epochs JOIN charges ON charges.id = charge "
        "WHERE epochs.id = ? AND (epsilon, delta) = (?, ?)",
        (epoch, str(exact.epsilon), str(exact.delta)),
    ).fetchone()
    if found is None:
        return None
    began = connection.execute("SELECT id FROM epochs WHERE charge = ?", found[:1])
    return *found, {epoch for (epoch,) in began}


def uses(connection: sqlite3.Connection, uploads: Sequence[str]) -> list[Use]:
    """Return the last charges of these uploads."""
    with _asked(connection, uploads):
        found = connection.execute(
            "SELECT charges.id, populations.key, populations.name, charges.out, COUNT(*), MIN(upload) "
            "FROM (SELECT upload, MAX(charge) AS charge FROM asked JOIN uses USING (upload) GROUP BY upload) "
            "JOIN charges ON charges.id = charge "
            "LEFT JOIN populations ON populations.key = charges.population "
            "GROUP BY charges.id ORDER BY charges.id"
        ).fetchall()
    return [Use(*row) for row in found]


def spent_on(connection: sqlite3.Connection, uploads: Iterable[str]) -> dict[str, Guarantee]:
    """Return what each of these uploads has spent, by basic composition; none that no run used."""
    with _asked(connection, uploads):
        found = connection.execute(
            "SELECT upload, GROUP_CONCAT(charge) FROM asked JOIN uses USING (upload) GROUP BY upload"
        ).fetchall()
    rows = connection.execute("SELECT id, epsilon, delta FROM charges")
    of_charges = {
        str(number): Guarantee(Fraction(epsilon), Fraction(delta)) for number, epsilon, delta in rows
    }
    totals = {
        each: compose(of_charges[one] for one in each.split(",")) for each in {each for _, each in found}
    }
    return {upload: totals[each] for upload, each in found}


@contextmanager
def _asked(connection: sqlite3.Connection, uploads: Iterable[str]) -> Iterator[None]:
    """Have a temporary table `asked` of uploads."""
    connection.execute("CREATE TEMP TABLE asked (upload TEXT PRIMARY KEY)")
    connection.executemany("INSERT OR IGNORE INTO asked VALUES (?)", ((upload,) for upload in uploads))
    yield
    connection.execute("DROP TABLE asked")


def _budget(epsilon: str, delta: str | None) -> Budget:
    if delta is None:
        return Budget(Fraction(epsilon))
    limit, *rule = delta.split()
    chosen = {name: int(number) for name, _, number in (each.partition("=") for each in rule)}
    return Budget(Fraction(epsilon), Fraction(limit), **chosen)


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
    exact, known = Guarantee(Fraction(epsilon), Fraction(delta)), None
    if exact.epsilon < 0 or not 0 <= exact.delta < 1:
        raise ValueError("no release spends that")
    if noise is not None:
        values, coins = json.loads(noise)
        known = NoiseEvent(tuple(Coin(*coin) for coin in coins), values)
    found = Status(status)
    return Charge(
        id=number,
        time=time,
        task=task,
        model=model,
        exact=exact,
        unit=PrivacyUnit(unit),
        relation=NeighboringRelation(relation),
        out=Path(out),
        noise=known,
        status=_running_or_not(*json.loads(process)) if found is Status.RUNNING else found,
    )


def _process(pid: int) -> tuple[str, str, int, str]:
    """Return what tells a process from all others: machine, its last start, number, when it began."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    boot = boot_id.read_text().strip() if boot_id.exists() else ""  # without /proc numbers alone have to do
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
