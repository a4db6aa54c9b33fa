"""A host's log: its owner reads what was refused and what failed, and no coordinator fills the disk by it."""

import io
import json
import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HostUnfitError
from harness.hosts import host_log, wire
from harness.hosts.agent import Agent, Work
from harness.hosts.host_log import FILE, MOST_OF_A_CONNECTION, Event, HostLog, ReadLog, read_log, why_failed
from harness.hosts.policy import LEDGER
from harness.hosts.states import State
from harness.privacy.ledger.entries import Ledger
from tests.support.command import refused, succeed
from tests.support.coordinators import RULE, asked, make_hosts, write_rules

REFUSED = {"do": "propose", "asked": asked(population="others")}
WHY = "Its policy names no population 'others'"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a host's directory, whose policy is for the coordinator alice and the population loans."""
    made = make_hosts(tmp_path, clients=0)[0]
    write_rules(made, f'coordinators = ["alice"]\n{RULE}')
    return made


def answers(host: Path, *requests: dict[str, Any], coordinator: str = "alice") -> list[dict[str, Any]]:
    """Have an agent answer requests; return what it said."""
    with ExitStack() as stack:
        agent = Agent(io.BytesIO(), io.BytesIO(), Work(host, stack, coordinator), "agent")
        return [agent._answer(dict(request)) for request in requests]


def test_an_owner_reads_what_was_refused_to_whom_and_why(host: Path) -> None:
    said = answers(host, REFUSED, {"do": "\x1b[2Jnothing"}, {"do": "certificate", "seconds": 1.0})
    answers(host, {"do": "clean"}, coordinator="mallory")
    answers(host, {"do": "collect"})  # which is answered
    lines = read_log(host).lines
    assert [(line.event, line.coordinator, line.request) for line in lines] == [
        (Event.REFUSED, "alice", "propose"),
        (Event.REFUSED, "alice", "\x1b[2Jnothing"),
        (Event.REFUSED, "alice", "certificate"),
        (Event.REFUSED, "mallory", "clean"),
    ]
    assert [line.said for line in lines[:3]] == [answer["error"][1] for answer in said]
    assert lines[0].said.startswith(WHY) and {line.process for line in lines} == {os.getpid()}
    assert (host / FILE).stat().st_mode & 0o777 == 0o600
    assert Ledger(host / LEDGER).populations() == []


def test_the_command_shows_the_last_events(host: Path, tmp_path: Path) -> None:
    shown = ("hosts.log", "--directory", str(host))
    assert "names nothing that was refused or failed" in succeed(*shown, cwd=tmp_path)
    answers(host, {"do": "\x1b[2Jnothing"}, REFUSED)
    with (host / FILE).open("a") as file:
        file.write('{"time": "2026-')
    last = succeed(*shown, "--last", "1", cwd=tmp_path)
    assert "propose" in last and "nothing" not in last.replace("nothing was", "")
    assert "1 of 2 events" in last and "1 line of it could not be read" in last
    every = succeed(*shown, cwd=tmp_path)
    assert "\x1b[2J" not in every and "nothing" in every
    as_json = json.loads(succeed(*shown, "--json", cwd=tmp_path))
    assert [event["request"] for event in as_json["events"]] == ["\x1b[2Jnothing", "propose"]
    assert as_json["unreadable"] == 1
    assert "no host's directory" in refused("hosts.log", "--directory", str(tmp_path), cwd=tmp_path)


def test_no_connection_and_no_number_of_them_fills_the_disk(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = HostLog(host, "alice")
    for number in range(MOST_OF_A_CONNECTION + 5):
        log.write(Event.REFUSED, "propose", f"reason {number}")
    lines = read_log(host).lines
    assert len(lines) == MOST_OF_A_CONNECTION
    assert [line.said[:15] for line in lines[-2:]] == ["reason 998", "This connection"]
    monkeypatch.setattr(host_log, "MOST_BYTES", (host / FILE).stat().st_size + 1)
    for _ in range(5):
        HostLog(host, "alice").write(Event.REFUSED, "propose", "x" * 10**6)
    assert len(read_log(host).lines) == MOST_OF_A_CONNECTION + 1
    assert len(read_log(host).lines[-1].said) == 1000
    (host / FILE).write_bytes(b" " * (host_log.MOST_BYTES + 10**6))
    with pytest.raises(HostUnfitError, match="Cannot read"):
        read_log(host)


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "full"])
def test_answers_do_not_depend_on_the_log(kind: str, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = host / "elsewhere"
    elsewhere.touch()
    if kind == "pipe":
        os.mkfifo(host / FILE)
    elif kind == "link":
        (host / FILE).symlink_to(elsewhere)
    elif kind == "directory":
        (host / FILE).mkdir()
    else:
        monkeypatch.setattr(HostLog, "_append", _no_room)
    (answer,) = answers(host, REFUSED)
    assert answer["error"][0] == "PolicyError" and answer["error"][1].startswith(WHY)
    assert elsewhere.read_bytes() == b""
    if kind == "full":
        assert read_log(host) == ReadLog([], 0)


def _no_room(_log: HostLog, _line: bytes) -> None:
    raise OSError(28, "No space left on device")


def test_a_party_that_failed_is_named_without_what_it_revealed(host: Path) -> None:
    lines = ["OUT counts 5 7", "Time = 1.5 seconds", "fairshares: Party 0 sent a message.", "Broken pipe"]
    assert why_failed(1, lines) == "The party ended with exit code 1. Party 0 sent a message. Broken pipe"

    class Ended:
        is_running = True
        reached = State.RUNNING

        def ended(self) -> dict[str, Any]:
            return {"code": 1, "lines": lines}

    with ExitStack() as stack:
        work = Work(host, stack, "alice")
        work.run = Ended()
        Agent(io.BytesIO(), io.BytesIO(), work, "agent")._say_if_ended()
    (line,) = read_log(host).lines
    assert (line.event, line.request, line.said) == (Event.FAILED, "", why_failed(1, lines))


def test_a_connection_that_ends_early_is_named(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it carries no message, or is slower than its limit."""
    why_ended: list[str] = []
    is_over = threading.Event()

    def end(why: str) -> None:
        why_ended.append(why)
        is_over.set()

    monkeypatch.setattr(Agent, "lose", lambda _agent: None)
    monkeypatch.setattr("harness.hosts.local_host.end_agent", end)
    with ExitStack() as stack:
        work = Work(host, stack, "alice")
        agent = Agent(io.BytesIO(b"[1, 2]\n"), io.BytesIO(), work, "agent")
        agent._listen(io.BytesIO(b"[1, 2]\n"))
        with agent._within(0.0, "The request 'aggregate'"):
            assert is_over.wait(60)
    lines = read_log(host).lines
    assert [line.event for line in lines] == [Event.ENDED, Event.ENDED]
    assert lines[0].said == "What the coordinator sent was no message: not an object."
    assert [lines[1].said] == why_ended and "took longer than its limit, 0 s" in why_ended[0]


def test_an_agent_for_clients_has_no_log(tmp_path: Path) -> None:
    class Answering(wire.Answers):
        pass

    agent = Agent(io.BytesIO(), io.BytesIO(), Answering(), "agent")
    assert "does not know" in agent._answer({"do": "x"})["error"][1]
    assert list(tmp_path.iterdir()) == []
