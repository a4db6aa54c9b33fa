"""Reports of our own processes: each is read as it was written, and nothing else is read as one."""

from typing import Any

import msgspec
import pytest

from fairshares.harness.engines.engine import left_out_by
from fairshares.harness.engines.parties.party_log import EndedBy, reasons_in
from fairshares.harness.errors import OutputError
from fairshares.harness.party_reports import (
    LONGEST_MESSAGE,
    MARK,
    ClientsFailed,
    ClientsServed,
    Costs,
    Failure,
    LostPeer,
    MalformedReportError,
    ProcessReport,
    ReadyReport,
    line_of,
    line_of_failure,
    report_in,
    reports_in,
)

SERVED = ClientsServed(sent_bytes=1, received_bytes=2, absent=3, failed=0, complained=5)
ALL: list[ProcessReport] = [
    ReadyReport(),
    Failure("It failed – ünicode."),
    LostPeer("It lost party 2."),
    ClientsFailed("None came."),
    Costs(seconds=0.25, sent_bytes=(1 << 63) - 1),
    SERVED,
]


@pytest.mark.parametrize("report", ALL, ids=lambda report: type(report).__name__)
def test_a_report_is_read_as_it_was_written(report: ProcessReport) -> None:
    line = line_of(report)
    assert "\n" not in line and report_in(line) == report
    assert reports_in(["OUT n 1", line, "Time = 1 seconds"]) == [report]


def changed(report: ProcessReport, **fields: Any) -> str:
    told = {**msgspec.to_builtins(report), **fields}
    return (
        MARK + msgspec.json.encode({name: value for name, value in told.items() if value is not ...}).decode()
    )


MALFORMED = {
    "no JSON": f"{MARK}Party 1 was given fewer input bits.",
    "cut off": line_of(SERVED)[:-1],
    "two": line_of(ReadyReport()) + "{}",
    "a list": f"{MARK}[]",
    "no type": f"{MARK}{{}}",
    "another type": changed(ReadyReport(), type="shares"),
    "an unknown field": changed(SERVED, shares=[12345]),
    "a missing field": changed(SERVED, failed=...),
    "a negative number": changed(SERVED, failed=-1),
    "a number beyond 64 bits": changed(SERVED, failed=1 << 63),
    "no whole number": changed(SERVED, failed=0.5),
    "a text for a number": changed(SERVED, failed="0"),
    "no time": changed(ALL[4], seconds=-0.5),
    "an endless time": changed(ALL[4], seconds=1e9),
    "a long message": changed(Failure(""), message="x" * (LONGEST_MESSAGE + 1)),
    "deep": f"{MARK}{'[' * 10**5}",
    "half a character": f'{MARK}{{"type":"failure","message":"\\ud800"}}',
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_report_is_not_read_as_one(line: str) -> None:
    with pytest.raises(MalformedReportError, match=r"^a report that is none$"):
        report_in(line)
    assert [reason.shown for reason in reasons_in([line])] == [f"{MARK}It wrote a report that is none."]
    with pytest.raises(OutputError, match="Party 2 ended well but did not report its clients' traffic"):
        left_out_by(2, [line_of(SERVED), line])


def test_a_gateway_reports_once() -> None:
    assert left_out_by(0, [line_of(SERVED)]) == {
        "did not come to all parties in time": 3,
        "said that their masks do not fit: a party may cheat": 5,
    }
    for lines in ([], [line_of(SERVED)] * 2, [line_of(ReadyReport())]):
        with pytest.raises(OutputError, match="Party 0 ended well but did not report"):
            left_out_by(0, lines)


def test_reasons_tell_a_lost_peer_and_clients_from_other_failures() -> None:
    lines = ["OUT n 5", *map(line_of, ALL), "Broken pipe", "MacCheck Failure", "Spent 1 seconds"]
    found = reasons_in(lines)
    assert [reason.text for reason in found] == [
        "It failed – ünicode.",
        "It lost party 2.",
        "None came.",
        "Broken pipe",
        "MacCheck Failure",
    ]
    assert [reason.ended_by is EndedBy.PEER for reason in found] == [False, True, False, True, False]
    assert [reason.ended_by is EndedBy.CLIENTS for reason in found] == [False, False, True, False, False]
    assert [reason.failed_check is not None for reason in found] == [False, False, False, False, True]
    assert not reasons_in([line_of(Failure("MacCheck Failure"))])[0].failed_check


def test_a_long_message_is_cut_and_stays_a_report() -> None:
    report = report_in(line_of_failure("many  \n words " * 100))
    assert isinstance(report, Failure) and len(report.message) == LONGEST_MESSAGE
    assert report.message.startswith("many words many words")
