"""A host's health, for its owner on that host: what needs care before a run fails of it.

Nothing here takes the host's turn, opens an upload or changes a file, so that it can be asked at any time.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import TracebackType

from fairshares.harness.errors import FairSharesError
from fairshares.harness.hosts import host_keys
from fairshares.harness.hosts.expiries import Expiring, Expiry, certificates_of, invalid, soon
from fairshares.harness.hosts.host_log import LOG_FILE, OLDER, read_log, why_unwritten
from fairshares.harness.hosts.listed_uploads import SEALING, SHARES
from fairshares.harness.hosts.local_host import check_directory
from fairshares.harness.hosts.policy import LEDGER, read_policy
from fairshares.harness.privacy.ledger.entries import Ledger, LedgerSize
from fairshares.harness.system.files import write_whole
from fairshares.harness.uploads.envelope_files import StoredFiles, stored_at
from fairshares.harness.uploads.files import TASK_FILE
from fairshares.harness.uploads.keys import PARTY_FILE as PARTY, read_party
from fairshares.harness.uploads.task import read_task
from fairshares.protocols.json_values import JsonObject

LEAST_FREE_BYTES = 1 << 29  # bytes that a run takes
_LEAST_FREE_INODES = 10_000  # the number of files that can still be made
_SKEW_S = 60.0  # the seconds by which an entry of a ledger may be later than the clock
_NO_LEDGER = LedgerSize(charges=0, uploads=0, last=None)


@dataclass(frozen=True)
class HostHealth:
    """The facts that an owner was told of its host.

    Attributes:
        directory: The host's own directory.
        checked: The time at which the host was looked at, in UTC.
        faults: A sentence for each thing that keeps runs from their end, by its name.
        notices: Sentences on what will need care.
        expiries: The things that expire, the first to end first.
        free_bytes: The free bytes of the directory's disk.
        free_inodes: The number of files that can still be made there; 0 where the file system has no limit.
        size_bytes: The disk's size.
        ledger_bytes: The bytes of the ledger's file, 0 without one.
        ledger: A summary of the ledger.
        log_bytes: The bytes of the log's files.
        uploads: The uploads in the host's directory; None without a task.
    """

    directory: Path
    checked: datetime
    faults: Mapping[str, str]
    notices: tuple[str, ...]
    expiries: tuple[Expiry, ...]
    free_bytes: int
    free_inodes: int
    size_bytes: int
    ledger_bytes: int
    ledger: LedgerSize
    log_bytes: int
    uploads: StoredFiles | None

    def to_json(self) -> JsonObject:
        """Return the answer of `hosts.check --directory … --json`."""
        uploads = self.uploads
        return {
            "schema": 1,
            "directory": str(self.directory),
            "checked": self.checked.isoformat(timespec="seconds"),
            "fit": not self.faults,
            "faults": dict(self.faults),
            "notices": list(self.notices),
            "expires": [expiry.to_json() for expiry in self.expiries],
            "disk": {
                "free_bytes": self.free_bytes,
                "free_inodes": self.free_inodes,
                "size_bytes": self.size_bytes,
            },
            "ledger": {
                "bytes": self.ledger_bytes,
                "charges": self.ledger.charges,
                "uploads": self.ledger.uploads,
            },
            "log_bytes": self.log_bytes,
            "uploads": None
            if uploads is None
            else {
                "files": uploads.files,
                "envelopes": uploads.envelopes,
                "bytes": uploads.size_bytes,
                "garbage_files": uploads.garbage_files,
            },
        }

    def metrics(self) -> str:
        """Return all figures in Prometheus' text format."""
        return "".join(_metric_lines(self))


def look_at(directory: Path) -> HostHealth:
    """Look at this machine's host, and return what was found, whatever is wrong with it."""
    now = datetime.now(UTC)
    faults: dict[str, str] = {}
    notices: list[str] = []
    expiries: list[Expiry] = []
    with _noting(faults, "directory"):
        check_directory(directory)
    with _noting(faults, "policy"):
        notices += read_policy(directory).notices
    with _noting(faults, "certificates"):
        expiries += certificates_of(directory)
    reason = invalid(expiries, now)
    if reason is not None:
        faults["certificates"] = f"{reason}; its owner renews it by ./inv hosts.setup --renew."
    with _noting(faults, "sealing"):
        expiries += _sealing_keys(directory)
    expiries.sort(key=lambda expiry: expiry.ends)
    notices += soon(expiries, now)
    ledger = _NO_LEDGER
    with _noting(faults, "ledger"):
        ledger = Ledger(directory / LEDGER).size()
    if ledger.last is not None and datetime.fromisoformat(ledger.last) > now + timedelta(seconds=_SKEW_S):
        faults["clock"] = (
            f"This machine's clock says {now:%FT%TZ}, and its ledger has a last entry of {ledger.last}; set "
            "the clock, by NTP for example, unless it was ahead then: the next charge ends this fault."
        )
    with _noting(faults, "log"):
        read_log(directory)  # raises where it cannot be read
        unwritten = why_unwritten(directory)
        if unwritten is not None:
            notices.append(unwritten)
    uploads = None
    with _noting(faults, "uploads"):
        uploads = _uploads(directory)
    if uploads is not None and uploads.garbage_files:
        notices.append(f"{uploads.garbage_files:,} files among the uploads can hold none of this task's.")
    disk = _disk(directory, faults)
    return HostHealth(
        directory=directory,
        checked=now,
        faults=faults,
        notices=tuple(notices),
        expiries=tuple(expiries),
        free_bytes=disk.free_bytes,
        free_inodes=disk.free_inodes,
        size_bytes=disk.size_bytes,
        ledger_bytes=_bytes_of(directory / LEDGER),
        ledger=ledger,
        log_bytes=_bytes_of(directory / LOG_FILE) + _bytes_of(directory / OLDER),
        uploads=uploads,
    )


def write_metrics(path: Path, health: HostHealth) -> None:
    """Write the figures whole, for every user to read, as the collector of Prometheus is another one.

    Raises OSError.
    """
    write_whole(path, health.metrics().encode(), mode=0o644)


class _noting:  # noqa: N801  a context manager
    """Notes the refusal of a block, or what the system says, as the fault of a name."""

    def __init__(self, faults: dict[str, str], name: str) -> None:
        self._faults = faults
        self._name = name

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """End the block; return whether its error was noted."""
        if isinstance(error, FairSharesError):
            self._faults.setdefault(self._name, str(error))
            return True
        if isinstance(error, OSError):
            self._faults.setdefault(self._name, f"{error.filename or 'A file'}: {error.strerror}.")
            return True
        return False


@dataclass(frozen=True)
class _Disk:
    """The room of a disk, as `HostHealth` has it."""

    free_bytes: int
    free_inodes: int
    size_bytes: int


def _disk(directory: Path, faults: dict[str, str]) -> _Disk:
    """Return the room of a directory's disk, and note a fault if that is too little for a run."""
    with _noting(faults, "disk"):
        room = shutil.disk_usage(directory)
        files = os.statvfs(directory)
        disk = _Disk(room.free, files.f_favail, room.total)
        if files.f_flag & os.ST_RDONLY:
            faults["disk"] = (
                f"The disk of {directory} takes no writes now, as after an error of its own; look at the "
                "system's messages, and mount it again."
            )
        elif disk.free_bytes < LEAST_FREE_BYTES:
            faults["disk"] = (
                f"{disk.free_bytes // 10**6} MB are free for {directory}, less than "
                f"{LEAST_FREE_BYTES / 1e6:.0f} MB; make room."
            )
        elif files.f_files and disk.free_inodes < _LEAST_FREE_INODES:
            faults["disk"] = (
                f"{disk.free_inodes:,} more files fit on the disk of {directory}, less than "
                f"{_LEAST_FREE_INODES:,}; join or move uploads."
            )
        return disk
    return _Disk(0, 0, 0)


def _bytes_of(file: Path) -> int:
    """Return a file's bytes, 0 if it is not there."""
    with suppress(OSError):
        return file.stat().st_size
    return 0


def _sealing_keys(directory: Path) -> Iterator[Expiry]:
    """Yield the sealing keys that clients may seal for; none where the host has no such keys."""
    description = directory / SEALING / PARTY
    if not os.path.lexists(description):
        return
    for key, state in read_party(description).states().items():
        if state != "expired":
            ends = datetime.combine(date.fromisoformat(key.until), datetime.max.time(), UTC)
            yield Expiry(Expiring.SEALING, key.id.hex(), ends)


def _uploads(directory: Path) -> StoredFiles | None:
    """Return the stored files of the host's task, by size; None without a task or its uploads."""
    if not (directory / TASK_FILE).exists() or not (directory / SHARES).is_dir():
        return None
    return stored_at(directory / SHARES, read_task(directory / TASK_FILE), host_keys.party_of(directory))


def _metric_lines(health: HostHealth) -> Iterator[str]:
    host = _label("host", str(health.directory))
    figures = [
        ("checked_timestamp_seconds", "When the host was looked at.", int(health.checked.timestamp())),
        ("disk_free_bytes", "Free bytes of the disk of the host's directory.", health.free_bytes),
        ("disk_free_inodes", "Files that can still be made there.", health.free_inodes),
        ("disk_size_bytes", "The size of that disk.", health.size_bytes),
        ("ledger_bytes", "The size of the ledger's file.", health.ledger_bytes),
        ("ledger_charges", "Charges in the ledger.", health.ledger.charges),
        ("ledger_uploads", "Identities of uploads in the ledger.", health.ledger.uploads),
        ("log_bytes", "The size of the host's log.", health.log_bytes),
    ]
    if health.uploads is not None:
        figures += [
            ("upload_files", "Files of uploads.", health.uploads.files),
            ("upload_envelopes", "Envelopes that these hold, by their sizes.", health.uploads.envelopes),
            ("upload_bytes", "Bytes of these files.", health.uploads.size_bytes),
            ("garbage_files", "Files that can hold no upload of the task.", health.uploads.garbage_files),
        ]
    for name, text, value in figures:
        yield _head(name, text)
        yield f"fairshares_{name}{{{host}}} {value}\n"
    yield _head("fit", "Whether nothing keeps runs from their end.")
    yield f"fairshares_fit{{{host}}} {int(not health.faults)}\n"
    if health.faults:
        yield _head("fault", "What does, by its name.")
        for name in health.faults:
            yield f"fairshares_fault{{{host},{_label('name', name)}}} 1\n"
    if health.expiries:
        yield _head("expiry_timestamp_seconds", "When a certificate or a key expires.")
        for expiry in health.expiries:
            which = f"{host},{_label('kind', str(expiry.kind))},{_label('name', expiry.name)}"
            yield f"fairshares_expiry_timestamp_seconds{{{which}}} {int(expiry.ends.timestamp())}\n"


def _head(name: str, text: str) -> str:
    return f"# HELP fairshares_{name} {text}\n# TYPE fairshares_{name} gauge\n"


def _label(name: str, value: str) -> str:
    """Return a label, in which backslashes, quotes and ends of lines are escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'
