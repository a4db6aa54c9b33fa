"""The series in a ledger: which epochs began under the charge that was made for all of them together."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from harness.errors import PopulationError
from harness.privacy.ledger.database import Database
from harness.privacy.ledger.populations import PrivacyEvent, key_of, spent_text

EPOCHS = """
CREATE TABLE epochs (
    id TEXT PRIMARY KEY,
    charge INTEGER REFERENCES charges
) WITHOUT ROWID;
"""


def add_epochs(connection: sqlite3.Connection, charge: int, epochs: Iterable[str]) -> None:
    """Write that epochs begin under a charge."""
    connection.executemany("INSERT INTO epochs VALUES (?, ?)", ((epoch, charge) for epoch in epochs))


def charge_of(
    connection: sqlite3.Connection,
    database: Database,
    name: str | None,
    release: PrivacyEvent,
    epochs: Mapping[str, Sequence[str]],
) -> tuple[int, str | None, list[str]]:
    """Return a series' charge, its population's key, and the epochs that it lacks.

    Raises: LedgerError; PopulationError: as `Ledger.add` says.
    """
    found: tuple[int, str | None] | None = connection.execute(
        "SELECT charges.id, population FROM epochs JOIN charges ON charges.id = charge "
        "WHERE epochs.id = ? AND (epsilon, delta) = (?, ?)",
        (next(iter(epochs)), str(release.exact.epsilon), str(release.exact.delta)),
    ).fetchone()
    if found is None:
        raise database.error(
            f"it has no charge of {spent_text(release.exact)} for the series in {release.out}; go on "
            "with the ledger and the version that it was begun with"
        )
    number, key = found
    if name is not None and key != key_of(name):
        raise PopulationError(
            f"{release.out} was not charged to {name!r}; name the population that it was begun with, or none."
        )
    rows = connection.execute("SELECT id FROM epochs WHERE charge = ?", (number,))
    began = {epoch for (epoch,) in rows}
    if began - epochs.keys():
        raise database.error(
            f"an epoch began that {release.out} does not know, which is a copy from before it; go on "
            "with the latest one"
        )
    return number, key, [epoch for epoch in epochs if epoch not in began]
