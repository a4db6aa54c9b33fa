"""The uploads in a ledger: which charges each of them went into, and what it has spent by them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import NamedTuple

from harness.errors import PopulationError, UsedUploadsError
from harness.privacy.ledger.populations import PrivacyEvent, key_of, listed
from protocols.guarantee import Guarantee, compose

USES = """
CREATE TABLE uses (
    upload TEXT,
    charge INTEGER REFERENCES charges,
    PRIMARY KEY (upload, charge)
) WITHOUT ROWID;
"""


def add_uses(connection: sqlite3.Connection, number: int, uploads: Sequence[str]) -> None:
    """Write that these uploads went into a charge."""
    connection.executemany("INSERT OR IGNORE INTO uses VALUES (?, ?)", ((each, number) for each in uploads))


def refuse_used(connection: sqlite3.Connection, name: str | None, uploads: Sequence[str]) -> None:
    """Raise where uploads were used and nobody would count it, or were charged to others.

    Raises: UsedUploadsError; PopulationError.
    """
    used = uses(connection, uploads)
    owners = {use.key: use.name for use in used if use.key is not None}
    if name is None and used:
        whose = f" They belong to {listed(sorted(owners.values()))}." if owners else ""
        raise UsedUploadsError(
            f"{sum(use.uploads for use in used)} of these {len(uploads)} uploads went into a run before "
            f"({used[-1].out}); a second run spends their ε again, and has to be charged.{whose} "
            f"Name the population that they are of with --population; {_sent_again(used[-1])}."
        )
    others = [use for use in used if use.key is not None and name is not None and use.key != key_of(name)]
    if others:
        raise PopulationError(
            f"Some of these uploads were charged to {listed(sorted({use.name for use in others}))}, not to "
            f"{name!r}: a record has one population. Correct --population; {_sent_again(others[-1])}."
        )


def refuse_elsewhere(
    connection: sqlite3.Connection, key: str | None, release: PrivacyEvent, uploads: Sequence[str]
) -> None:
    """Raise UsedUploadsError where another population's run, or nobody's, had uploads of a series."""
    others = [use for use in uses(connection, uploads) if use.key is None or use.key != key]
    if others:
        raise UsedUploadsError(
            f"{sum(use.uploads for use in others)} of these {len(uploads)} new uploads went into another run "
            f"before ({others[-1].out}), which {release.out} is not charged with; {_sent_again(others[-1])}."
        )


def _sent_again(use: Use) -> str:
    return f"if a client sent an old upload again, as {use.example} may be, remove it at every party"


class Use(NamedTuple):
    """A charge that some uploads went into last. key, name: of its population; key: None: of nobody.

    uploads: how many; example: one of them.
    """

    charge: int
    key: str | None
    name: str
    out: str
    uploads: int
    example: str


def uses(connection: sqlite3.Connection, uploads: Sequence[str]) -> list[Use]:
    """Return the last charges of these uploads."""
    if not uploads:
        return []
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
    """Return what uploads have spent, as `Ledger.spent_on`."""
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
