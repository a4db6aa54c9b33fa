"""Heads of a ledger: a hash chain over its charges, by which other hosts notice that it went back in time.

Each head commits to the previous one, and to all that hosts signed of the charged run: the request, and the
accepted uploads.
"""

import hashlib
import sqlite3
from collections.abc import Iterable


def next_head(head: str, entry: str) -> str:
    """Return a ledger's head after one more charge."""
    return hashlib.sha256(f"{head} {entry}".encode()).hexdigest()


def last_head(connection: sqlite3.Connection) -> str:
    """Return a ledger's head, "" before the first charge."""
    return str(connection.execute("SELECT MAX(id), COALESCE(digest, '') FROM heads").fetchone()[1])


def heads_among(connection: sqlite3.Connection, heads: Iterable[str]) -> list[str]:
    """Return which of these a ledger has had."""
    known = "SELECT 1 FROM heads WHERE digest = ?"
    return [head for head in heads if connection.execute(known, (head,)).fetchone()]


def append_entry(connection: sqlite3.Connection, entry: str, *seen: str) -> None:
    """Write a ledger's next head, and `seen` heads that it lost."""
    heads = (*seen, next_head(last_head(connection), " ".join([entry, *seen])))
    connection.executemany("INSERT OR IGNORE INTO heads (digest) VALUES (?)", ((head,) for head in heads))
