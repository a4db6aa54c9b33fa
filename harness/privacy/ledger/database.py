"""One SQLite file that many processes change, one at a time, each change whole or not at all.

SQLite's errors become LedgerErrors.
"""

import os
import secrets
import sqlite3
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from fairshares.harness.errors import LedgerError, cannot, named

APPLICATION_ID = 0x46534C47  # "FSLG", which marks any copy of the file as ours

_ELSEWHERE = "name another file with {ledger}"
_LOCKED = "another program has kept it locked for {timeout_s} s; end that program, or try again"
_DAMAGED = "it is damaged; restore it from a copy"
_REASONS = {  # reasons by SQLite's primary result code
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: f"it may not be written; make it and its directory writable, or {_ELSEWHERE}",
    sqlite3.SQLITE_PERM: f"it may not be opened; change its permissions, or {_ELSEWHERE}",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; it has to be a file, in a directory that may be written",
    sqlite3.SQLITE_FULL: "the disk is full; make room, then run again",
    sqlite3.SQLITE_IOERR: "the disk or its file system failed; see that both work, then run again",
    sqlite3.SQLITE_NOTADB: "it is no database, or its beginning is damaged; restore it from a copy",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
}


class Database(ABC):
    """One file; subclasses give its `tables`, as SQL, and their version.

    A file of the `earlier` version is read as it is. The first transaction that writes brings it to this one.
    """

    tables: ClassVar[str]
    schema: ClassVar[int]
    earlier: ClassVar[int]

    def __init__(self, path: Path, timeout_s: float) -> None:
        self.path = path.absolute()
        self.timeout_s = timeout_s

    @abstractmethod
    def upgrade(self, connection: sqlite3.Connection, *, keep: bool) -> None:
        """Make the tables of this version from the tables of the earlier version.

        Args:
            connection: A connection within a transaction.
            keep: Whether the file has them from then on. Without it, the connection alone sees them.
        """

    def exists(self) -> bool:
        """Return whether there is a file."""
        try:
            return self.path.exists()
        except OSError as error:
            raise self.error(f"it cannot be found: {error.strerror}; {_ELSEWHERE}") from None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees one state of the file, if any."""
        if not self.exists():
            with closing(sqlite3.connect(":memory:")) as empty:
                empty.executescript(self.tables)
                yield empty
            return
        with self._transaction("BEGIN", writes=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the only connection that may write; commit to disk, or roll back on an exception.

        [test: tests/harness/privacy/test_ledger_processes.py]
        """
        self._create()
        with self._transaction("BEGIN IMMEDIATE", writes=True) as connection:
            yield connection

    def copy_to(self, copy: Path) -> None:
        """Copy the file, as one of its states, into a new one that only its owner reads.

        Programs that write wait meanwhile as they do for each other.
        [test: tests/harness/privacy/test_ledger_processes.py]

        Raises:
            LedgerError: There is no ledger, the copy is there, or one of them cannot be used.
        """
        if not self.exists():
            raise self.error("there is none to copy")
        if os.path.lexists(copy):
            raise LedgerError(f"{copy} is there, and no copy replaces a file; name another one.")
        partial = copy.with_name(f".{copy.name}.{secrets.token_hex(8)}")
        try:
            with cannot(f"write {copy}", LedgerError):
                os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                with self.reading() as connection, closing(sqlite3.connect(partial)) as target:
                    connection.backup(target)
                os.link(partial, copy)
        finally:
            with suppress(OSError):
                partial.unlink()

    def shrink(self) -> None:
        """Give the disk back what the file no longer needs, which takes its size again meanwhile.

        Killed at any time, it leaves the file as it was.
        """
        try:
            with closing(self._connected()) as connection:
                connection.execute("VACUUM")
        except sqlite3.Error as error:
            raise self._reason(error) from None

    def error(self, reason: str) -> LedgerError:
        """Return the error with this reason."""
        return LedgerError(
            f"Cannot use the ledger {self.path}: {reason.replace('{ledger}', named('ledger'))}."
        )

    def _connected(self) -> sqlite3.Connection:
        """Return a connection to the file."""
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=self.timeout_s, isolation_level=None
        )
        connection.execute("PRAGMA synchronous=EXTRA")
        connection.execute("PRAGMA trusted_schema=OFF")
        return connection

    @contextmanager
    def _transaction(self, begin: str, *, writes: bool) -> Iterator[sqlite3.Connection]:
        self._check_regular()
        try:
            with closing(self._connected()) as connection:
                if writes:
                    connection.execute("PRAGMA foreign_keys=ON")
                connection.execute(begin)
                schema = self._check(connection)
                try:
                    if schema == self.earlier:
                        self.upgrade(connection, keep=writes)
                        if writes:
                            connection.execute(f"PRAGMA user_version={self.schema}")
                    yield connection
                    connection.execute("COMMIT")
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._reason(error) from None
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:  # rows hold something else
            raise self.error("an entry in it is damaged; restore it from a copy") from error

    def _check_regular(self) -> None:
        """Raise LedgerError for a pipe, a device or a directory, which SQLite could wait for forever."""
        try:
            regular = stat.S_ISREG(self.path.stat().st_mode)
        except OSError as error:
            raise self.error(f"it cannot be found: {error.strerror}; {_ELSEWHERE}") from None
        if not regular:
            raise self.error(_REASONS[sqlite3.SQLITE_CANTOPEN])

    def _check(self, connection: sqlite3.Connection) -> int:
        """Return the version of a sound file's tables; raise LedgerError for any other file or version."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise self.error(f"it is no ledger of FairShares; {_ELSEWHERE}")
        schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if schema not in (self.schema, self.earlier):
            raise self.error(
                f"it has schema {schema}, this version of FairShares has {self.schema}; "
                "use the version that made it"
            )
        kinds = {kind for (kind,) in connection.execute("SELECT DISTINCT type FROM sqlite_master")}
        if not kinds <= {"table", "index"}:
            raise self.error(f"it has a {min(kinds - {'table', 'index'})}, as no ledger has; {_ELSEWHERE}")
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self.error(_DAMAGED)
        return schema

    def _create(self) -> None:
        """Put a complete ledger in place unless a file is there: an empty file is a damaged one."""
        if self.exists():
            return
        partial = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
                connection.executescript(
                    f"BEGIN; {self.tables} PRAGMA application_id={APPLICATION_ID}; "
                    f"PRAGMA user_version={self.schema}; COMMIT;"
                )
            with suppress(FileExistsError):  # another process was faster
                os.link(partial, self.path)
        except OSError as error:
            raise self.error(
                f"it cannot be made: {error.strerror}; make its directory writable, or {_ELSEWHERE}"
            ) from None
        except sqlite3.Error as error:
            raise self._reason(error) from None
        finally:
            with suppress(OSError):
                partial.unlink()

    def _reason(self, error: sqlite3.Error) -> LedgerError:
        reason = _REASONS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, f"SQLite says: {error}")
        return self.error(reason.replace("{timeout_s}", f"{self.timeout_s:g}"))
