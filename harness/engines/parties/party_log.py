"""The lines that a party's process prints: which of them may be shown, and why it ended.

A party's log is its virtual machine's or the embedded engine's, with reports of our own process among the
lines. A hostile party writes it as it likes.
"""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fairshares.harness.engines.execution import LONGEST_PRINTED, Printed
from fairshares.harness.engines.parties.working_directory import LOG, PRINTED, open_inside
from fairshares.harness.party_reports import (
    LONGEST_LINE,
    MARK,
    ClientsFailed,
    Failure,
    LostPeer,
    MalformedReportError,
    line_of_failure,
    report_in,
)

# Whole lines of MP-SPDZ and of programs that may be shown: opened (noisy) outputs, and costs. Of other lines
# only a known error text is shown, as MP-SPDZ quotes inputs beside some.
_OF_A_RUN = re.compile(
    r"OUT |Time\d* = |Data sent = |Global data sent = |Spent |\d+ threads spent a total of "
)
_LONGEST = 300  # characters of a line that are shown, but of outputs and reports
# Words of lines in which a machine says why it fails. Where all lines may be shown, they are shown whole.
_OF_A_FAILURE = re.compile(
    r"^[^\s-].*((?<!Truncation )error|exception|assert|terminate|abort|crash|bug|invalid|insufficient"
    r"|mismatch|overflow|unknown|cannot|could not|not (compiled|enough|found|supported|implemented|given)"
    r"|compiled for|requires?\b|need|has to be|at (least|most)|too )",
    re.IGNORECASE,
)
MOST_LOG_BYTES = 1 << 26  # bytes of a party's log that are read, far more than any release's outputs take
MOST_FOREIGN_LOG_BYTES = 1 << 22  # the same of a program of which nothing is known, and which may fill it
_MOST_KEPT = 1 << 14  # lines of it that are kept
_LAST_LINES = 5  # lines kept of a log whose lines may all be shown, if none says why the machine failed
_LOST_PEER = re.compile(
    r"[Cc]onnection (reset|refused|closed)[a-z ]*|stream truncated|end of file|Broken pipe"
)
_FAILED_CHECK = re.compile(
    r"[Mm]ac ?[Cc]heck [a-zA-Z]+|MAC mismatch"
    r"|(check )?hash mismatch( for sender (?P<sender>\d+) and backup (?P<backup>\d+))?"
    r"|check failed|[Ii]nconsist[a-z ]+|Invalid Commitment"
)
_KNOWN_ERROR = re.compile(
    rf"{_LOST_PEER.pattern}|{_FAILED_CHECK.pattern}"
    r"|(not enough inputs in|cannot read integer from|failure reading from) [\w./-]+"
    r"|certificate [a-z ]+|handshake [a-z ]+|timed? ?out|Address already in use"
    r"|std::bad_alloc|[Oo]ut of memory|No space left on device"
    r"|error while loading shared libraries: [\w.+-]+|symbol lookup error"
    r"|(bytecode|schedule|program) [a-z ]+|unknown option|terminated"
)


class EndedBy(Enum):
    """Who ended a party, as far as a single line of its log tells."""

    ITSELF = "the party or its machine, or somebody whom the line does not name"
    PEER = "another party, or the network: a connection with it ended"
    CLIENTS = "clients, as all parties agree"


@dataclass(frozen=True)
class FailedCheck:
    """A check of what parties sent each other, which failed.

    Attributes:
        words: MP-SPDZ's words about it.
        accused: The numbers of the parties that it names, a sender and its backup; empty if it names none.
    """

    words: str
    accused: frozenset[int]


@dataclass(frozen=True)
class Reason:
    """Why a party ended, from a line that may be shown.

    Attributes:
        text: Our own process's sentence, or known words of MP-SPDZ.
        is_ours: Whether our own process says so.
        ended_by: Whoever ended the process.
    """

    text: str
    is_ours: bool = False
    ended_by: EndedBy = EndedBy.ITSELF

    @property
    def shown(self) -> str:
        """The text as messages show it."""
        return MARK + self.text if self.is_ours else self.text

    @property
    def failed_check(self) -> FailedCheck | None:
        """The check that failed, if MP-SPDZ says so of one."""
        found = None if self.is_ours else _FAILED_CHECK.fullmatch(self.text)
        if found is None:
            return None
        named = [number for number in (found["sender"], found["backup"]) if number is not None]
        return FailedCheck(self.text, frozenset(map(int, named)))


def reasons_in(lines: Iterable[str]) -> list[Reason]:
    """Return why a party ended, from lines of its state; lines about a run that goes well say nothing."""
    found = [_reason_in(line) for line in lines]
    return [reason for reason in found if reason is not None]


def _reason_in(line: str) -> Reason | None:
    if _OF_A_RUN.match(line):
        return None
    try:
        report = report_in(line)
    except MalformedReportError:
        return Reason("It wrote a report that is none.", is_ours=True)
    if report is None:
        return Reason(line, ended_by=EndedBy.PEER if _LOST_PEER.fullmatch(line) else EndedBy.ITSELF)
    if isinstance(report, Failure):
        return Reason(report.message, is_ours=True)
    if isinstance(report, LostPeer):
        return Reason(report.message, is_ours=True, ended_by=EndedBy.PEER)
    if isinstance(report, ClientsFailed):
        return Reason(report.message, is_ours=True, ended_by=EndedBy.CLIENTS)
    return None


def size_of_output(directory: Path) -> int:
    """Return how many bytes a party has written into its log, and its program has printed."""
    size = 0
    for name in (LOG, PRINTED):
        try:
            file = open_inside(directory, name)
        except OSError:  # there is none, or the party removed or replaced it
            continue
        try:
            size += os.fstat(file).st_size
        finally:
            os.close(file)
    return size


def printed_apart(directory: Path) -> Printed | None:
    """Return the text that a program has printed into a file of its own; None if it is gone."""
    try:
        with os.fdopen(open_inside(directory, PRINTED), "rb") as file:
            text = file.read(LONGEST_PRINTED).decode(errors="replace")
            return Printed(text, os.fstat(file.fileno()).st_size)
    except OSError:
        return None


def kept_lines(directory: Path, most_bytes: int, *, shows_all_lines: bool = False) -> Iterator[str]:
    """Yield the lines of a party's log that may be shown. A hostile party writes the log as it likes.

    Args:
        directory: The party's directory.
        most_bytes: How much of the log is read.
        shows_all_lines: As in `PartySetup`.

    Guarantees: little more memory than `most_bytes`, and no more than `_MOST_KEPT` lines. A log that goes on
    has a last line that says so.
    [test: tests/harness/engines/test_sandbox.py]
    """
    lines = _lines_of_log(directory, most_bytes)
    shown = _lines_that_explain(lines) if shows_all_lines else _known_lines(lines)
    for number, line in enumerate(shown):
        if number == _MOST_KEPT:
            yield line_of_failure(
                f"It printed more than {_MOST_KEPT:,} lines to be shown, and the others were not read."
            )
            return
        yield line
    if size_of_output(directory) > most_bytes:
        yield line_of_failure(f"It printed more than {most_bytes >> 20} MiB, and the rest was not read.")


def _known_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a run, and known words of errors in place of the lines that have them."""
    for line in lines:
        of_run = _line_of_run(line)
        if of_run is not None:
            yield of_run
        elif known := _KNOWN_ERROR.search(line):
            yield known[0].strip()


def _lines_that_explain(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a run and, of a log whose lines may all be shown, those that say why it failed.

    Of a line about a lost connection only the known words are yielded, by which a lost peer is told. If no
    line says why, the last lines of the log come at the end.
    """
    says_why = False
    last: deque[str] = deque(maxlen=_LAST_LINES)
    for line in lines:
        of_run = _line_of_run(line)
        if of_run is not None:
            yield of_run
        elif lost := _LOST_PEER.search(line):
            says_why = True
            yield lost[0].strip()
        elif text := _text_of(line):
            last.append(text)
            if _OF_A_FAILURE.search(line[:_LONGEST]):
                says_why = True
                yield text
    if not says_why:
        yield from last


def _line_of_run(line: str) -> str | None:
    """Return an output, a cost or a report of our own process, cut to its length; None for another line."""
    if line.startswith("OUT "):
        return line.rstrip()
    if line.startswith(MARK):
        return line.rstrip()[:LONGEST_LINE]
    if _OF_A_RUN.match(line):
        return line.rstrip()[:_LONGEST]
    return None


def _lines_of_log(directory: Path, most_bytes: int) -> Iterator[str]:
    """Yield the first lines of a party's log, of so many bytes in all; none if the party replaced it."""
    try:
        log = open_inside(directory, LOG)
    except OSError:  # the party removed or replaced it
        return
    left = most_bytes
    with os.fdopen(log, "rb") as lines:
        while line := lines.readline(left):
            left -= len(line)
            yield line.decode(errors="replace")


def _text_of(line: str) -> str:
    """Return the part of any line that may be shown: its printable characters, not too many.

    A line that would then look like an output, a cost or a report of our own process becomes an empty text.
    """
    text = "".join(sign for sign in line[:_LONGEST] if sign.isprintable()).strip()
    if text.startswith(MARK) or _OF_A_RUN.match(text):
        return ""
    return text
