"""The uploads that charges counted: each identity once, with its history of charges by reference.

A *history* is a charge after an earlier history. Uploads that the same runs counted have the same history. A
run that counts uploads again adds a history after each that they had, and changes a number in each upload's
row. So an identity takes about 50 bytes of the file, however many runs count it. Version 1.0 had a row of 80
bytes for each upload and run.

A task whose last day is over may be *closed*: which of its uploads were counted is forgotten then, as no run
takes any of them any more. Its histories stay, and so does what they say of charges.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

_UNKNOWN_TASK = ""  # the table's name of the task of uploads of which nobody says it, as version 1.0 did not
_NO_HISTORY = 0  # before the first charge
_COUNTED = "asked CROSS JOIN uploads USING (upload)"  # looks up each asked one, and reads no others
TABLES = """
    CREATE TABLE tasks (
        id INTEGER PRIMARY KEY,
        name TEXT UNIQUE NOT NULL,
        closed TEXT
    );
    CREATE TABLE histories (
        id INTEGER PRIMARY KEY,
        charge INTEGER NOT NULL REFERENCES charges,
        before INTEGER NOT NULL,
        task INTEGER NOT NULL REFERENCES tasks,
        UNIQUE (charge, before, task)
    );
    CREATE TABLE uploads (
        upload BLOB PRIMARY KEY,
        history INTEGER NOT NULL
    ) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class UploadHistory:
    """Some of the uploads that were asked about, which the same charges counted.

    Attributes:
        number: The number of the history in the ledger.
        charges: The numbers of the charges that counted them.
        uploads: How many of the asked uploads have this history.
        example: The first identity of these.
    """

    number: int
    charges: frozenset[int]
    uploads: int
    example: str


def ask(connection: sqlite3.Connection, uploads: Iterable[str]) -> list[UploadHistory]:
    """Note which uploads the next calls are about, and return the histories of those that were counted.

    Args:
        connection: A connection within a transaction.
        uploads: Identities, in hexadecimal digits.
    """
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS asked (upload BLOB PRIMARY KEY) WITHOUT ROWID")
    connection.execute("DELETE FROM asked")
    connection.executemany(
        "INSERT OR IGNORE INTO asked VALUES (?)", ((bytes.fromhex(upload),) for upload in uploads)
    )
    groups = connection.execute(
        f"SELECT history, COUNT(*), MIN(upload) FROM {_COUNTED} GROUP BY history"
    ).fetchall()
    return [
        UploadHistory(
            number=number,
            charges=_charges_in(connection, number),
            uploads=uploads_of_it,
            example=example.hex(),
        )
        for number, uploads_of_it, example in groups
    ]


def _charges_in(connection: sqlite3.Connection, history: int) -> frozenset[int]:
    """Return the charges of a history. Raises LookupError if one before it is missing."""
    charges = set[int]()
    before = history
    while before != _NO_HISTORY:
        row = connection.execute("SELECT charge, before FROM histories WHERE id = ?", (before,)).fetchone()
        if row is None or row[0] in charges:  # in a damaged file histories could go round for ever
            raise LookupError(f"history {before}")
        charges.add(int(row[0]))
        before = int(row[1])
    return frozenset(charges)


def asked_with(connection: sqlite3.Connection, histories: Collection[int]) -> Iterator[tuple[str, int]]:
    """Yield each asked upload that has one of these histories, and that history's number."""
    wanted = {*histories}
    for upload, history in connection.execute(f"SELECT upload, history FROM {_COUNTED}"):
        if history in wanted:
            yield upload.hex(), history


def count_asked(
    connection: sqlite3.Connection, histories: Sequence[UploadHistory], charge: int, task: str | None
) -> None:
    """Write that a charge counts all asked uploads; those that it counted before stay as they are.

    Args:
        connection: The only connection that writes.
        histories: The answers that `ask` returned.
        charge: The charge's number.
        task: The digest of the uploads' task; None if it is unknown.
    """
    befores = [history.number for history in histories if charge not in history.charges]
    values = {"charge": charge, "task": _number_of(connection, task), "none": _NO_HISTORY}
    values_of_new = [{**values, "before": before} for before in (_NO_HISTORY, *befores)]
    connection.executemany(
        "INSERT OR IGNORE INTO histories (charge, before, task) VALUES (:charge, :before, :task)",
        values_of_new,
    )
    followed = "SELECT id FROM histories WHERE charge = :charge AND task = :task AND before = "
    connection.execute(
        f"UPDATE uploads SET history = COALESCE(({followed} uploads.history), history) "
        "WHERE upload IN (SELECT upload FROM asked)",
        values,
    )
    connection.execute(f"INSERT OR IGNORE INTO uploads SELECT upload, ({followed} :none) FROM asked", values)


def _number_of(connection: sqlite3.Connection, task: str | None) -> int:
    """Return a task's number, None for an unknown task; write the task if it is new."""
    name = _UNKNOWN_TASK if task is None else task
    connection.execute("INSERT OR IGNORE INTO tasks (name) VALUES (?)", (name,))
    (number,) = connection.execute("SELECT id FROM tasks WHERE name = ?", (name,)).fetchone()
    return int(number)


def closed_on(connection: sqlite3.Connection, task: str) -> str | None:
    """Return when a task was closed, in UTC and ISO 8601; None while it is open."""
    row = connection.execute("SELECT closed FROM tasks WHERE name = ?", (task,)).fetchone()
    return None if row is None or row[0] is None else str(row[0])


def close(connection: sqlite3.Connection, task: str, time: str) -> int:
    """Close a task, unless it is, and forget its uploads; return how many were forgotten.

    Identities that version 1.0 counted stay until a run counts them again, as no table says of which task
    they are.
    """
    number = _number_of(connection, task)
    connection.execute("UPDATE tasks SET closed = COALESCE(closed, ?) WHERE id = ?", (time, number))
    return connection.execute(
        "DELETE FROM uploads WHERE history IN (SELECT id FROM histories WHERE task = ?)", (number,)
    ).rowcount


def upgrade(connection: sqlite3.Connection, *, keep: bool) -> None:
    """Make the tables of histories from version 1.0's table `uses`, with a row for each upload and run.

    Args:
        connection: A connection within a transaction; with `keep`, the only one that writes.
        keep: Whether the file has the new tables from then on, in place of `uses`. Without it, the connection
            alone sees them.
    """
    for statement in TABLES.strip().split(";"):
        connection.execute(statement if keep else statement.replace("CREATE TABLE", "CREATE TEMP TABLE"))
    connection.executemany("INSERT INTO uploads VALUES (?, ?)", _histories_of_uses(connection))
    if keep:
        connection.execute("DROP TABLE uses")


def _histories_of_uses(connection: sqlite3.Connection) -> Iterator[tuple[bytes, int]]:
    """Yield each upload of `uses` in order, with the number of its history, which is written before."""
    task = _number_of(connection, None)
    numbers: dict[tuple[int, int], int] = {}  # numbers of histories, by their charge and the history before
    known: dict[str, int] = {}  # numbers of histories, by all of their charges
    for upload, charges in connection.execute(
        "SELECT upload, GROUP_CONCAT(charge) FROM uses GROUP BY upload ORDER BY upload"
    ):
        if charges not in known:
            history = _NO_HISTORY
            for charge in sorted(map(int, charges.split(","))):
                if (charge, history) not in numbers:
                    numbers[charge, history] = len(numbers) + 1
                    connection.execute(
                        "INSERT INTO histories VALUES (?, ?, ?, ?)",
                        (numbers[charge, history], charge, history, task),
                    )
                history = numbers[charge, history]
            known[charges] = history
        yield bytes.fromhex(upload), known[charges]
