"""A host's log, for the host's owner: what was asked of its agents, what they did, and how runs ended.

Each line of the file is an object in JSON. No line has a secret: its sentences are those that the coordinator
was told, too, or name a run, a charge, a key that was renewed, or what ended a run.
"""

import fcntl
import json
import os
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from fairshares.harness.engines.parties.party_log import reasons_in
from fairshares.harness.errors import HostUnfitError, cannot
from fairshares.harness.system.documents import Limits, Refusal, as_type, parse_json
from fairshares.harness.system.files import OF_OTHERS, is_own_alone, is_still, open_regular

LOG_FILE = "log.jsonl"  # a file in a host's directory
OLDER = "log.jsonl.1"  # beside it, with the lines before
MOST_BYTES = 1 << 24  # bytes of the file, which then becomes the older one
MOST_OF_A_CONNECTION = 1000  # lines of a connection about requests, which cost its coordinator nothing
_MOST_REASONS = 3  # reasons that are written of a failed party
_LONGEST_TEXT = 1000  # characters of a sentence
_LINE = Limits.for_size(1 << 14)
_NO_MORE = f"This connection has {MOST_OF_A_CONNECTION:,} requests here; no more of them are written."
_TRIES = 100  # attempts to read both files without a change between them


class Event(StrEnum):
    """The kinds of lines."""

    ANSWERED = "answered"  # a request that begins a run, or shows, removes or reaches something
    CHANGED = "changed"  # the host's keys, policy or ledger, by its owner
    CHARGED = "charged"  # a run, in the host's ledger
    BEGAN = "began"  # a party
    DONE = "done"  # a party that had begun, and ended well
    REFUSED = "refused"  # a request, which changed nothing
    FAILED = "failed"  # a party that had begun
    ENDED = "ended"  # a connection by the host, or a party that had begun and would have gone on


_AT_WILL = frozenset({Event.REFUSED, Event.ANSWERED})


@dataclass(frozen=True)
class LogLine:
    """One event at a host.

    Attributes:
        time: The time of the event, in UTC and ISO 8601, with seconds.
        event: The kind of event.
        coordinator: The name that the host's own command line gives to the coordinator's key, or "".
        process: The number of the agent's process, which the lines of one connection have in common.
        request: The coordinator's request; "" where nothing was asked.
        said: The sentences that the coordinator was told: what was done, or why not.
        run: The name of the run that the line is about; "" if it has none yet, or the line is about no run.

    In the file "" is no request and no run. All other code says None.
    """

    time: str
    event: Event
    coordinator: str
    process: int
    request: str
    said: str
    run: str = ""


class HostLog:
    """The log of one connection.

    Guarantees: each of the two files has at most `MOST_BYTES`. A line is written as a whole or not at all,
    however many agents write at once, and stays until `MOST_BYTES` of later lines have been written. What a
    run cost and how it ended is written, however many requests the connection had. A disk without room, or a
    file of another kind in its place, changes no answer to the coordinator.
    [test: tests/harness/hosts/test_host_log.py]
    """

    def __init__(self, directory: Path, coordinator: str) -> None:
        self._file = directory / LOG_FILE
        self._older = directory / OLDER
        self._coordinator = coordinator
        self._requests = 0
        self._writing = threading.Lock()  # time limits end in threads of their own

    def write(self, event: Event, request: str | None, said: str, run: str | None = None) -> None:
        """Add a line about this connection, unless it is about one request too many."""
        with self._writing:
            if event in _AT_WILL:
                self._requests += 1
                if self._requests > MOST_OF_A_CONNECTION:
                    return
                if self._requests == MOST_OF_A_CONNECTION:
                    said = _NO_MORE
            time = datetime.now(UTC).isoformat(timespec="seconds")
            text = " ".join(said.split())[:_LONGEST_TEXT]
            line = LogLine(time, event, self._coordinator, os.getpid(), request or "", text, run or "")
            with suppress(OSError):
                self._append(json.dumps(asdict(line)).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        """Write a line at the end of the file, or of a new one if the line does not fit."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        is_written = False
        while not is_written:
            descriptor = os.open(self._file, flags, 0o600)
            try:
                is_written = self._write_alone(descriptor, line)
            finally:
                os.close(descriptor)

    def _write_alone(self, descriptor: int, line: bytes) -> bool:
        """Write a line to an open file while no other agent does.

        Whoever can open a file for reading can hold its lock, for ever. So nothing is written to a file that
        others than this user can open.

        Args:
            descriptor: The descriptor of the file.
            line: The line, with its line feed.
        Returns:
            Whether this is done. If not, the file is the older one by now, and there is a newer one to open.
        Raises:
            PermissionError: Others can open it.
            OSError: The line cannot be written.
        """
        if not is_own_alone(os.fstat(descriptor)):
            raise PermissionError(self._file)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # until it is closed
        if not is_still(self._file, descriptor):  # another agent was faster
            return False
        size = os.fstat(descriptor).st_size
        if size and size + len(line) > MOST_BYTES:
            self._file.rename(self._older)
            return False
        if os.write(descriptor, line) < len(line):  # the disk is full
            os.ftruncate(descriptor, size)
        return True


def _identity(file: Path) -> tuple[int, int] | None:
    """Return the numbers by which the system tells a file from others, or None if it is not there."""
    try:
        status = file.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def why_failed(code: int, lines: Sequence[str]) -> str:
    """Return why a party failed, from the lines that its coordinator is told, without revealed values."""
    reasons = [reason.text for reason in reasons_in(lines)]
    return " ".join([f"The party ended with exit code {code}.", *reasons[-_MOST_REASONS:]])


@dataclass(frozen=True)
class ReadLog:
    """A host's log as it was read.

    Attributes:
        lines: The events, the oldest first.
        unreadable: How many lines no agent wrote as they are; a reboot may cut a line off.
        is_open: Whether others than its owner can open the file, for which agents write nothing to it.
    """

    lines: list[LogLine]
    unreadable: int
    is_open: bool = False


def read_log(directory: Path) -> ReadLog:
    """Return a host's log, from the last `MOST_BYTES` of each file. Without a file the log is empty.

    Raises:
        HostUnfitError: A file cannot be read.
    """
    file = directory / LOG_FILE
    lines: list[LogLine] = []
    unreadable = 0
    refusal = Refusal(HostUnfitError, f"A line of {file}", "of a host's log", "remove it")
    for content in _contents(directory):
        for line in content.splitlines():
            try:
                lines.append(as_type(LogLine, parse_json(line, refusal, limits=_LINE), refusal))
            except HostUnfitError:
                unreadable += 1
    return ReadLog(lines, unreadable, _is_open(file))


def _is_open(file: Path) -> bool:
    """Return whether others than its owner have rights at a file."""
    try:
        return bool(file.stat().st_mode & OF_OTHERS)
    except OSError:  # it is not there
        return False


def why_unwritten(directory: Path) -> str | None:
    """Return a sentence on why agents of this user write nothing to a host's log, or None if they do.

    A file that is not there can be made, as far as this tells.
    """
    file = directory / LOG_FILE
    try:
        status = file.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return f"{file} is no file of its own, so nothing is written to it; move it away."
    if status.st_mode & OF_OTHERS:
        return f"Others can open {file}, so nothing is written to it; chmod 600 it."
    if not is_own_alone(status) or not os.access(file, os.W_OK):
        return f"This user cannot write to {file}, so its agents note nothing; chown it to this user."
    return None


def _contents(directory: Path) -> list[bytes]:
    """Return the ends of both files, the older one's first, as they were at one time."""
    files = [directory / OLDER, directory / LOG_FILE]
    found: list[bytes] = []
    for _ in range(_TRIES):
        before = [_identity(file) for file in files]
        found = [_last_bytes(file) for file in files]
        if [_identity(file) for file in files] == before:
            break
    return found


def _last_bytes(file: Path) -> bytes:
    """Return the last `MOST_BYTES` of a file, or no bytes if there is none.

    Raises:
        HostUnfitError: The file is there, and cannot be read.
    """
    try:
        with cannot(f"read {file}", HostUnfitError), open_regular(file, links=True) as content:
            size = content.seek(0, os.SEEK_END)
            content.seek(max(0, size - MOST_BYTES))
            return content.read(MOST_BYTES)
    except HostUnfitError:
        if file.exists():
            raise
    return b""
