"""Reports of our own processes on a party: lines of JSON among the lines of programs and of MP-SPDZ.

A party's process, its gateway and the embedded engine write them to the party's log, in which the program's
text and MP-SPDZ write, too. A hostile party writes what it likes, so a line is read as a report by its type
and bounds, or not at all.
"""

from collections.abc import Iterable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from fairshares.harness.bounds import Seconds, Size

MARK = "fairshares: "  # begins the line of a report, and a message of ours where it is shown
LONGEST_MESSAGE = 300  # characters
LONGEST_LINE = 1 << 12  # characters of a report's line, and more than any takes

MessageText = Annotated[str, Meta(max_length=LONGEST_MESSAGE)]


class ReadyReport(Struct, frozen=True, tag="ready", forbid_unknown_fields=True):
    """The party's certificate is there, and the party waits for the others'."""


class Failure(Struct, frozen=True, tag="failure", forbid_unknown_fields=True):
    """Why a party ended, in a sentence that may be shown."""

    message: MessageText


class LostPeer(Struct, frozen=True, tag="lost-peer", forbid_unknown_fields=True):
    """A party ended because a connection with another one did."""

    message: MessageText


class ClientsFailed(Struct, frozen=True, tag="clients-failed", forbid_unknown_fields=True):
    """A party ended because of clients, as all parties agree."""

    message: MessageText


class Costs(Struct, frozen=True, kw_only=True, tag="costs", forbid_unknown_fields=True):
    """The costs of the embedded engine's computation at a party.

    Attributes:
        seconds: The seconds of the computation.
        sent_bytes: The bytes that the party sent, with the headers of messages and without the headers of
            TLS.
    """

    seconds: Seconds
    sent_bytes: Size


class ClientsServed(Struct, frozen=True, kw_only=True, tag="clients-served", forbid_unknown_fields=True):
    """The bytes that a party's gateway exchanged with clients, and the clients that it left out.

    Attributes:
        sent_bytes: The bytes that clients sent.
        received_bytes: The bytes that clients received.
        absent: Clients that did not come to all parties in time.
        failed: Clients that did not send all parties the same values in time.
        complained: Clients that said that their masks do not fit.
    """

    sent_bytes: Size
    received_bytes: Size
    absent: Size
    failed: Size
    complained: Size


ProcessReport: TypeAlias = ReadyReport | Failure | LostPeer | ClientsFailed | Costs | ClientsServed


class MalformedReportError(ValueError):
    """A line begins as a report does, and is none."""


def line_of(report: ProcessReport) -> str:
    """Return a report's line, without its end."""
    return MARK + msgspec.json.encode(report).decode()


def line_of_failure(message: str) -> str:
    """Return the line of a failure; a message that is too long is cut off."""
    return line_of(Failure(_sentence(message)))


def line_of_lost_peer(message: str) -> str:
    """Return the line of a lost peer; a message that is too long is cut off."""
    return line_of(LostPeer(_sentence(message)))


def report_in(line: str) -> ProcessReport | None:
    """Return the report in a line, None if the line is another program's.

    Raises MalformedReportError for a line that begins as a report, and has another type, an unknown or
    missing field, or a value out of bounds. The message holds nothing of the line.
    """
    if not line.startswith(MARK):
        return None
    try:
        report: ProcessReport = msgspec.json.decode(line.removeprefix(MARK), type=ProcessReport)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise MalformedReportError("a report that is none") from None
    return report


def reports_in(lines: Iterable[str]) -> list[ProcessReport]:
    """Return all reports in a party's lines, or raise as `report_in`."""
    found = [report_in(line) for line in lines]
    return [report for report in found if report is not None]


def _sentence(message: str) -> str:
    return " ".join(message.split())[:LONGEST_MESSAGE]
