"""A host's log: what its agents refused, and how they and their parties failed, for the host's owner.

Each line of the file is an object in JSON. No line has a secret: its sentences are those that the coordinator
was told, too.
"""

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

from harness.engines.parties.handle import OWN, REPORT
from harness.errors import HostUnfitError, cannot
from harness.system.documents import Limits, Refusal, as_type, parse_json
from harness.system.files import read_bounded

FILE = "log.jsonl"  # in a host's directory
MOST_BYTES = 1 << 24  # of the file, after which nothing is written until its owner moves it away
MOST_OF_A_CONNECTION = 1000  # lines
_MOST_REASONS = 3  # of a failed party
_LONGEST_TEXT = 1000  # characters of a sentence
_LINE = Limits.of(1 << 14)
_NO_MORE = f"This connection has {MOST_OF_A_CONNECTION:,} lines here; no more of it is written."


class Event(StrEnum):
    """The kinds of lines."""

    REFUSED = "refused"  # a request, which changed nothing
    FAILED = "failed"  # a party that had begun, or was to begin
    ENDED = "ended"  # an agent, before its coordinator let it go


@dataclass(frozen=True)
class LogLine:
    """One event at a host.

    Attributes:
        time: When, in UTC and ISO 8601, with seconds.
        event: What happened.
        coordinator: The name that the host's own command line gives to the coordinator's key, or "".
        process: The number of the agent's process, which the lines of one connection have in common.
        request: What the coordinator asked for; "" where nothing was asked.
        said: Why, in the sentences that the coordinator was told.
    """

    time: str
    event: Event
    coordinator: str
    process: int
    request: str
    said: str


class HostLog:
    """The log of one connection.

    Guarantees: a coordinator makes the file no longer than `MOST_BYTES` and a line. A disk without room, or a
    file of another kind in its place, changes no answer to the coordinator.
    [test: tests/harness/hosts/test_host_log.py]
    """

    def __init__(self, directory: Path, coordinator: str) -> None:
        self._file = directory / FILE
        self._coordinator = coordinator
        self._written = 0
        self._writing = threading.Lock()  # time limits end in threads of their own

    def write(self, event: Event, request: str, said: str) -> None:
        """Add a line about this connection, unless it has too many, or the file is full."""
        with self._writing:
            self._written += 1
            if self._written > MOST_OF_A_CONNECTION:
                return
            if self._written == MOST_OF_A_CONNECTION:
                said = _NO_MORE
            time = datetime.now(UTC).isoformat(timespec="seconds")
            text = " ".join(said.split())[:_LONGEST_TEXT]
            line = LogLine(time, event, self._coordinator, os.getpid(), request, text)
            with suppress(OSError):
                self._append(json.dumps(asdict(line)).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._file, flags, 0o600)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode) and found.st_size < MOST_BYTES:
                os.write(descriptor, line)  # at once, so that lines of several agents do not mix
        finally:
            os.close(descriptor)


def why_failed(code: int, lines: Sequence[str]) -> str:
    """Return why a party failed, from the lines that its coordinator is told, without revealed values."""
    reasons = [line.removeprefix(OWN) for line in lines if not REPORT.match(line)]
    return " ".join([f"The party ended with exit code {code}.", *reasons[-_MOST_REASONS:]])


@dataclass(frozen=True)
class ReadLog:
    """A host's log as it was read.

    Attributes:
        lines: The events, the oldest first.
        unreadable: How many lines no agent wrote as they are; a full disk or a reboot may cut a line off.
    """

    lines: list[LogLine]
    unreadable: int


def read_log(directory: Path) -> ReadLog:
    """Return a host's log, which is empty if there is no file. Raises HostUnfitError if it cannot be read."""
    file = directory / FILE
    lines: list[LogLine] = []
    unreadable = 0
    refusal = Refusal(HostUnfitError, f"A line of {file}", "of a host's log", "remove it")
    with cannot(f"read {file}", HostUnfitError):
        content = read_bounded(file, MOST_BYTES + _LINE.size) if file.exists() else b""
    for line in content.splitlines():
        try:
            lines.append(as_type(LogLine, parse_json(line, refusal, limits=_LINE), refusal))
        except HostUnfitError:
            unreadable += 1
    return ReadLog(lines, unreadable)
