"""A host's log: its owner reads what was refused and what failed, and no coordinator fills the disk by it."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.engines.parties.handle import PartyState
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.hosts import host_keys, host_log, local_host, wire
from fairshares.harness.hosts.agent import Agent, Work
from fairshares.harness.hosts.frames import AnswerFrame, ErrorFrame
from fairshares.harness.hosts.host_log import (
    LOG_FILE,
    MOST_OF_A_CONNECTION,
    OLDER,
    Event,
    HostLog,
    LogLine,
    ReadLog,
    read_log,
    why_failed,
)
from fairshares.harness.hosts.local_host import TURN
from fairshares.harness.hosts.messages import Collect, Forget, Kill, Propose, ReceivedRequest, Removed
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.setup import Setup, set_up_here
from fairshares.harness.party_reports import line_of_failure
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.uploads.task import read_task
from tests.support.command import refused, succeed
from tests.support.coordinators import (
    RULE,
    Agent as Process,
    Coordinator,
    Party,
    agents,
    agreed,
    answered,
    asked,
    fed,
    let_go,
    make_hosts,
    spent,
    write_rules,
)
from tests.support.envelopes import unsealed
from tests.support.planted import check_logs_below

RUN_NAME = "0" * 32  # as `to_prepare` has it
REFUSED = {"do": "propose", "asked": asked(population="others")}
WHY = "Its policy names no population 'others'"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a host's directory, whose policy is for the coordinator alice and the population loans."""
    made = make_hosts(tmp_path, clients=0)[0]
    write_rules(made, f'coordinators = ["alice"]\n{RULE}')
    return made


def received(request: dict[str, Any]) -> ReceivedRequest:
    """Return a request as it arrives."""
    line = wire.encode(request)
    arrived = wire.decode(line)
    assert arrived is not None
    return ReceivedRequest.of_line(arrived.fields, len(line))


def answers(
    host: Path, *requests: dict[str, Any], coordinator: str = "alice"
) -> list[AnswerFrame | ErrorFrame]:
    """Have an agent answer requests; return what it said."""
    with ExitStack() as stack:
        agent = Agent(io.BytesIO(), io.BytesIO(), Work(host, stack, coordinator))
        return [agent._answer(received(request)) for request in requests]


def ends_in(host: Path) -> list[LogLine]:
    """Return the lines of a host's log on what failed or was ended."""
    return [line for line in read_log(host).lines if line.event in (Event.FAILED, Event.ENDED)]


def refusal(answer: AnswerFrame | ErrorFrame) -> str:
    """Return the sentence by which a request was refused."""
    assert isinstance(answer, ErrorFrame)
    return answer.text


def test_an_owner_reads_what_was_refused_to_whom_and_why(host: Path) -> None:
    said = answers(host, REFUSED, {"do": "\x1b[2Jnothing"}, {"do": "certificate", "seconds": 1.0})
    answers(host, {"do": "clean"}, coordinator="mallory")
    answers(host, {"do": "collect"})
    lines = read_log(host).lines
    assert [(line.event, line.coordinator, line.request) for line in lines] == [
        (Event.REFUSED, "alice", "propose"),
        (Event.REFUSED, "alice", "\x1b[2Jnothing"),
        (Event.REFUSED, "alice", "certificate"),
        (Event.REFUSED, "mallory", "clean"),
        (Event.ANSWERED, "alice", "collect"),
    ]
    assert [line.said for line in lines[:3]] == [*map(refusal, said)]
    assert lines[0].said.startswith(WHY) and {line.process for line in lines} == {os.getpid()}
    assert (host / LOG_FILE).stat().st_mode & 0o777 == 0o600
    assert Ledger(host / LEDGER).populations() == []


def test_the_command_shows_the_last_events(host: Path, tmp_path: Path) -> None:
    shown = ("hosts.log", "--directory", str(host))
    assert "has no events" in succeed(*shown, cwd=tmp_path)
    answers(host, {"do": "\x1b[2Jnothing"}, REFUSED)
    with (host / LOG_FILE).open("a") as file:
        file.write('{"time": "2026-')
    last = succeed(*shown, "--last", "1", cwd=tmp_path)
    assert "propose" in last and "nothing" not in last
    assert "1 of 2 events" in last and "1 line of it could not be read" in last
    every = succeed(*shown, cwd=tmp_path)
    assert "\x1b[2J" not in every and "nothing" in every
    as_json = json.loads(succeed(*shown, "--json", cwd=tmp_path))
    assert [event["request"] for event in as_json["events"]] == ["\x1b[2Jnothing", "propose"]
    assert as_json["unreadable"] == 1
    assert "no host's directory" in refused("hosts.log", "--directory", str(tmp_path), cwd=tmp_path)


def numbers(lines: list[LogLine]) -> list[int]:
    """Return what `number` lines say, the oldest first."""
    return [int(line.said) for line in lines]


@pytest.mark.parametrize("event", [Event.REFUSED, Event.ANSWERED])
def test_no_connection_writes_requests_without_end(event: Event, host: Path) -> None:
    """Though it cannot keep the end of its run out of the log by them."""
    log = HostLog(host, "alice")
    for number in range(MOST_OF_A_CONNECTION + 5):
        log.write(event, "propose", f"reason {number}")
    lines = read_log(host).lines
    assert len(lines) == MOST_OF_A_CONNECTION
    assert [line.said[:15] for line in lines[-2:]] == ["reason 998", "This connection"]
    log.write(Event.FAILED, "", "x" * 10**6)
    log.write(Event.ENDED, "kill", "It was ended.")
    (*_, failed, ended) = read_log(host).lines
    assert (failed.event, len(failed.said), ended.request) == (Event.FAILED, 1000, "kill")


def test_no_number_of_connections_fills_the_disk_or_keeps_new_lines_out(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    HostLog(host, "alice").write(Event.REFUSED, "propose", "1000")
    size = (host / LOG_FILE).stat().st_size
    monkeypatch.setattr(host_log, "MOST_BYTES", 10 * size)
    (host / LOG_FILE).unlink()
    for number in range(1000, 1200):
        HostLog(host, "alice").write(Event.REFUSED, "propose", f"{number}")
        kept = numbers(read_log(host).lines)
        assert kept == [*range(number + 1 - len(kept), number + 1)]
        assert len(kept) >= min(10, number - 999)
        assert all(path.stat().st_size <= 10 * size for path in host.glob(f"{LOG_FILE}*"))
    assert {path.name for path in host.glob(f"{LOG_FILE}*")} == {LOG_FILE, OLDER}
    assert (host / OLDER).stat().st_size == 10 * size
    (host / LOG_FILE).write_bytes(b" " * 10**6 + b"\n" + (host / OLDER).read_bytes())
    assert numbers(read_log(host).lines) == [*range(1180, 1190), *range(1180, 1190)]  # the end of each file


# Writes lines of the numbers from its first argument on, once it may.
WRITING = """
import sys
from pathlib import Path
from fairshares.harness.hosts import host_log
host_log.MOST_BYTES = int(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
log = host_log.HostLog(Path(sys.argv[2]), "alice")
for number in range(int(sys.argv[3]), int(sys.argv[3]) + 250):
    log.write(host_log.Event.REFUSED, "propose", f"{number}")
"""


def test_agents_that_write_at_once_lose_no_line(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 lines, of which 600 fit, so that the file is full once."""
    HostLog(host, "alice").write(Event.REFUSED, "propose", "1000")
    size = (host / LOG_FILE).stat().st_size - len(str(os.getpid()))
    (host / LOG_FILE).unlink()
    most = 600 * (size + 7)  # digits of a process's number, at most
    monkeypatch.setattr(host_log, "MOST_BYTES", most)
    with ExitStack() as stack:
        writing = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WRITING, f"{most}", host, f"{first}"],
                    cwd=PROJECT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for first in range(1000, 2000, 250)
        ]
        for one in writing:
            assert one.stdout is not None and one.stdout.readline() == b"ready\n"
        for one in writing:
            assert one.stdin is not None
            one.stdin.write(b"\n")
            one.stdin.flush()
    found = read_log(host)
    assert found.unreadable == 0 and sorted(numbers(found.lines)) == [*range(1000, 2000)]
    assert (host / LOG_FILE).stat().st_size <= most and most // 2 < (host / OLDER).stat().st_size <= most


def test_an_agent_that_comes_late_to_a_full_file_goes_on_in_the_new_one(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And writes while it alone holds the lock, so that the file is as long then as it was found."""
    for number in (1, 2, 3):
        HostLog(host, "alice").write(Event.REFUSED, "propose", f"{number}")
    monkeypatch.setattr(host_log, "MOST_BYTES", (host / LOG_FILE).stat().st_size)
    wait = fcntl.flock
    write = os.write
    others = ["4"]
    held: list[bool] = []

    def after_others(descriptor: int, operation: int) -> None:
        if others:
            HostLog(host, "alice").write(Event.REFUSED, "propose", others.pop(0))
        wait(descriptor, operation)

    def noting(descriptor: int, line: bytes) -> int:
        with (host / LOG_FILE).open("rb") as file:
            try:
                wait(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(True)
            else:
                held.append(False)
        return write(descriptor, line)

    monkeypatch.setattr(fcntl, "flock", after_others)
    monkeypatch.setattr(os, "write", noting)
    HostLog(host, "alice").write(Event.REFUSED, "propose", "5")
    assert numbers(read_log(host).lines) == [1, 2, 3, 4, 5] and held == [True, True]


def test_a_line_is_written_as_a_whole_or_not_at_all(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    HostLog(host, "alice").write(Event.REFUSED, "propose", "1")
    with monkeypatch.context() as full:
        write = os.write
        full.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:20]))
        HostLog(host, "alice").write(Event.REFUSED, "propose", "2")
    HostLog(host, "alice").write(Event.REFUSED, "propose", "3")
    assert read_log(host).unreadable == 0 and numbers(read_log(host).lines) == [1, 3]


def test_a_file_that_others_can_open_is_not_written_to_and_its_owner_reads_why(host: Path) -> None:
    """They could hold its lock, and every agent that refuses something."""
    answers(host, REFUSED)
    (host / LOG_FILE).chmod(0o644)
    holding = os.open(host / LOG_FILE, os.O_RDONLY)
    fcntl.flock(holding, fcntl.LOCK_EX)
    answers(host, REFUSED)
    os.close(holding)
    assert len(read_log(host).lines) == 1
    shown = ("hosts.log", "--directory", str(host))
    assert f"by chmod 600 {host / LOG_FILE}" in " ".join(succeed(*shown, cwd=host).split())
    assert json.loads(succeed(*shown, "--json", cwd=host))["open_to_others"]
    (host / LOG_FILE).chmod(0o600)
    assert "chmod" not in succeed(*shown, cwd=host)


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "full"])
def test_answers_do_not_depend_on_the_log(kind: str, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = host / "elsewhere"
    elsewhere.touch()
    if kind == "pipe":
        os.mkfifo(host / LOG_FILE)
    elif kind == "link":
        (host / LOG_FILE).symlink_to(elsewhere)
    elif kind == "directory":
        (host / LOG_FILE).mkdir()
    else:
        monkeypatch.setattr(HostLog, "_append", _no_room)
    (answer,) = answers(host, REFUSED)
    assert isinstance(answer, ErrorFrame) and answer.error == "PolicyError"
    assert answer.text.startswith(WHY)
    assert elsewhere.read_bytes() == b""
    if kind == "full":
        assert read_log(host) == ReadLog([], 0)


def _no_room(_log: HostLog, _line: bytes) -> None:
    raise OSError(28, "No space left on device")


FAILED = ["OUT counts 5 7", "Time = 1.5 seconds", line_of_failure("Party 0 sent a message."), "Broken pipe"]


class Failed(Party):
    """A party that has failed."""

    def state(self) -> PartyState:
        return PartyState((*FAILED,))

    def exit_code(self) -> int:
        return 1


@pytest.mark.parametrize("told_by", ["itself", "kill", "the end"])
def test_a_party_that_failed_is_named_once_without_what_it_revealed(told_by: str, tmp_path: Path) -> None:
    why = "The party ended with exit code 1. Party 0 sent a message. Broken pipe"
    assert why_failed(1, FAILED) == why
    hosts = make_hosts(tmp_path)
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[0], stack, "alice")
        work = coordinator.prepared(asked())
        let_go(coordinator, work, hosts, Failed())
        if told_by == "itself":
            ended = work.ended()
            assert ended is not None and ended.code == 1
        elif told_by == "kill":
            answered(work, Kill())
    (line,) = ends_in(hosts[0])
    assert (line.event, line.coordinator, line.request, line.said) == (Event.FAILED, "alice", "", why)
    assert line.run == RUN_NAME


class EndedWell(Party):
    """A party that has ended well, with its outputs."""

    def state(self) -> PartyState:
        return PartyState(("OUT counts [90210, -7, 31337, 4711]",))

    def exit_code(self) -> int:
        return 0


def test_a_run_is_told_from_its_request_to_its_end_with_its_name_and_coordinator(tmp_path: Path) -> None:
    """By the log, and by the entry in the ledger; neither has anything that the run revealed."""
    hosts = make_hosts(tmp_path)
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[0], stack, "alice")
        work = coordinator.prepared(asked())
        let_go(coordinator, work, hosts, EndedWell())
        ended = work.ended()
        assert ended is not None and ended.code == 0
        assert len(work.collect(Collect())) == 1
        work.forget(Forget(run=RUN_NAME))
    lines = read_log(hosts[0]).lines
    assert [(line.event, line.request, line.run) for line in lines] == [
        (Event.ANSWERED, "propose", ""),
        (Event.CHARGED, "go", RUN_NAME),
        (Event.BEGAN, "go", RUN_NAME),
        (Event.DONE, "", RUN_NAME),
        (Event.ANSWERED, "collect", ""),
        (Event.ANSWERED, "forget", RUN_NAME),
    ]
    assert {line.coordinator for line in lines} == {"alice"}
    assert lines[0].said == "A release, weights of population 'loans' in model mpyc."
    (loans,) = Ledger(hosts[0] / LEDGER).populations()
    (charge,) = loans.charges
    assert lines[1].said.endswith(f"charged to population 'loans', as charge {charge.id}.")
    assert [(run.name, run.coordinator) for run in charge.runs] == [(RUN_NAME, "alice")]
    shown = succeed("ledger", "--ledger", str(hosts[0] / LEDGER), cwd=tmp_path)
    assert RUN_NAME in shown and "alice" in shown
    as_json = json.loads(succeed("ledger", "--ledger", str(hosts[0] / LEDGER), "--json", cwd=tmp_path))
    (run,) = as_json["populations"][0]["charges"][0]["runs"]
    assert (run["name"], run["coordinator"], run["time"]) == (RUN_NAME, "alice", charge.runs[0].time)
    kept = (hosts[0] / LOG_FILE).read_bytes() + (hosts[0] / LEDGER).read_bytes()
    assert b"90210" not in kept and b"OUT counts" not in kept


def _own_key(host: Path) -> bytes:
    return (host / "keys" / "embedded" / "P0.key").read_bytes().split(b"\n")[1]


def _sealing_key(host: Path) -> bytes:
    (key,) = (host / "sealing").glob("*.key")
    return key.read_bytes().hex().encode()


def _share(host: Path) -> bytes:
    (upload,) = (host / "shares").glob("*.share")
    return (
        unsealed(read_task(host / "task.json"), 0, upload.read_bytes(), host / "sealing")[-12:].hex().encode()
    )


@pytest.mark.parametrize("secret", [_own_key, _sealing_key, _share])
def test_the_search_of_all_these_tests_finds_what_is_in_a_log(
    secret: Callable[[Path], bytes], tmp_path: Path
) -> None:
    """Or is in the ledger of a host; each test of hosts ends with this search."""
    host = make_hosts(tmp_path / "hosts")[0]
    HostLog(host, "alice").write(Event.REFUSED, "propose", "reason")
    assert check_logs_below(tmp_path) == 1
    text = secret(host).decode()
    HostLog(host, "alice").write(Event.REFUSED, "propose", text)
    with pytest.raises(AssertionError, match=r"log\.jsonl has"):
        check_logs_below(tmp_path)
    (host / LOG_FILE).unlink()
    HostLog(host, "alice").write(Event.REFUSED, "propose", "reason")
    Ledger(host / LEDGER).remember({"certificate": text})
    with pytest.raises(AssertionError, match=r"ledger\.sqlite has"):
        check_logs_below(tmp_path)
    (host / LEDGER).unlink()


def test_what_an_owner_changes_is_in_the_log(tmp_path: Path) -> None:
    """Keys that are made and renewed, certificates that are accepted, and a ledger that is restored."""
    own, other = tmp_path / "own", tmp_path / "other"
    for place, party in ((own, 0), (other, 1)):
        set_up_here(place, party, renew=False, policy_text=RULE, others=[], models=["mpyc"])
    exported = [other / "party-1.certificates"]
    set_up_here(own, 0, renew=True, policy_text=None, others=exported, models=["mpyc"])
    lost = ("--population", "loans", "--epsilon", "1", "--delta", "2^-40", "--seen", "0" * 64)
    succeed("hosts.restored", "--directory", str(own), *lost, cwd=tmp_path)
    lines = read_log(own).lines
    assert [(line.event, line.request, line.said) for line in lines] == [
        (Event.CHANGED, "setup", "Keys are there; the policy was written."),
        (Event.CHANGED, "setup", "Keys were renewed; the policy is as it was."),
        (Event.CHANGED, "pin", "Certificates of party 1 were accepted."),
        (
            Event.CHANGED,
            "restored",
            "Lost charges were added to population 'loans': ε = 1 and δ = 9.095e-13.",
        ),
    ]


def end_by_signal(one: Process) -> None:
    one.process.send_signal(signal.SIGTERM)
    one.process.wait()


def end_by_bye(one: Process) -> None:
    one.send("bye")
    one.process.wait()


def end_by_no_message(one: Process) -> None:
    one.write(b"[]\n")
    one.process.wait()


WITH_IT = "A party that had begun was ended with its connection, "
ENDS = {
    "a request": (
        lambda one: one.ask("kill"),
        [("kill", "A party that had begun was ended, as its coordinator asked.")],
    ),
    "goodbye": (end_by_bye, [("bye", f"{WITH_IT}as its coordinator asked.")]),
    "a broken connection": (Process.close, [("", f"{WITH_IT}which broke off.")]),
    "a signal": (end_by_signal, [("", f"{WITH_IT}by a signal to its agent.")]),
    "no message": (
        end_by_no_message,
        [
            ("", "The host ended the connection: what the coordinator sent was no message: not an object."),
            ("", f"{WITH_IT}which the host ended."),
        ],
    ),
}


def test_a_charged_run_that_is_ended_is_named_once_and_by_whom(tmp_path: Path) -> None:
    """At one host after the other, whose party waits for the others, which do not begin."""
    hosts = make_hosts(tmp_path)
    for end, said in ENDS.values():
        for place in hosts:
            (place / LOG_FILE).unlink(missing_ok=True)
        with agents(hosts, coordinator="alice") as live, free_ports(len(hosts)) as ports:
            fed(live, asked(epsilon="1/2"))
            signed = agreed(live, ports)
            live[0].ask("go", agreed=signed)
            charged = len(spent(hosts[0]))
            end(live[0])
        lines = ends_in(hosts[0])
        assert [(line.request, line.said) for line in lines] == said
        assert {(line.event, line.coordinator) for line in lines} == {(Event.ENDED, "alice")}
        asked_for = [(line.event, line.request, line.run) for line in read_log(hosts[0]).lines[:3]]
        assert asked_for == [
            (Event.ANSWERED, "propose", ""),
            (Event.CHARGED, "go", RUN_NAME),
            (Event.BEGAN, "go", RUN_NAME),
        ]
        assert len(spent(hosts[0])) == charged and spent(hosts[0])[-1][2] is Status.ABORTED
        for place in hosts[1:]:  # where nothing had begun
            assert [line.request for line in read_log(place).lines] == ["propose"]


# An agent whose limits are short: its arguments are names and values in modules, and then the directory.
SHORT = """
import sys
from fairshares.harness.hosts import agent, local_host, wire
for change in sys.argv[1:-1]:
    module, name, value = change.split(" ")
    setattr({"wire": wire, "local_host": local_host}[module], name, float(value))
sys.exit(agent.main([sys.argv[-1], "", "alice"]))
"""


@contextmanager
def impatient(host: Path, *changes: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield an agent with shorter limits."""
    with subprocess.Popen(
        [sys.executable, "-c", SHORT, *changes, host],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as one:
        yield one


def test_a_silent_coordinator_is_named_once(host: Path) -> None:
    with impatient(host, "wire BEAT_S 0.05") as one:
        one.wait()
    (line,) = read_log(host).lines
    assert (one.returncode, line.event, line.coordinator, line.request) == (1, Event.ENDED, "alice", "")
    assert line.said == "The host ended the connection: nothing came from it for 0.5 s."


def test_a_connection_that_does_not_take_the_turn_ends(host: Path) -> None:
    """Though signs of life come from it, and requests that need no turn."""
    with impatient(host, "local_host _TURNLESS_S 0.5") as one:
        assert one.stdin is not None
        while one.poll() is None:
            try:
                one.stdin.write(b'\n{"do": "collect"}\n')
                one.stdin.flush()
            except BrokenPipeError:
                break
            threading.Event().wait(0.05)
        one.wait()
    (line,) = ends_in(host)
    assert (one.returncode, line.event, line.coordinator) == (1, Event.ENDED, "alice")
    assert line.said == "The connection did not take the host's turn within 0.5 s, and the agent ended."
    assert not (host / TURN).exists()


def test_a_connection_with_the_turn_is_given_an_hour(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its end is noted, too."""
    waits: list[tuple[float, threading.Timer]] = []
    ended: list[str] = []

    class Timer(threading.Timer):
        def __init__(self, seconds: float, *arguments: Any) -> None:
            super().__init__(seconds, *arguments)
            waits.append((seconds, self))

    monkeypatch.setattr(local_host, "ContextTimer", Timer)
    monkeypatch.setattr(local_host, "end_agent", ended.append)
    with ExitStack() as stack:
        work = Work(host, stack, "alice")
        work.host.expect_turn()
        work.propose(Propose(asked=asked()))
        assert [(seconds, timer.finished.is_set()) for seconds, timer in waits] == [
            (600.0, True),
            (3600.0, False),
        ]
        timer = waits[1][1]
        timer.function(*timer.args)
    (line,) = ends_in(host)
    assert [line.said] == ended and line.event is Event.ENDED
    assert line.said.startswith("No run began within 3600 s")


def test_a_run_that_is_over_gives_another_hour(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it runs, nothing ends its connection for that; one limit counts at a time."""
    timers: list[threading.Timer] = []

    class Timer(threading.Timer):
        def __init__(self, seconds: float, *arguments: Any) -> None:
            super().__init__(seconds, *arguments)
            timers.append(self)

    monkeypatch.setattr(local_host, "ContextTimer", Timer)
    with ExitStack() as stack:
        turn = Work(host, stack, "alice").host.take_turn()
        expected: list[int] = []
        for step in (turn.run_begins, turn.expect_run, turn.expect_run, turn.run_begins):
            step()
            expected.append(sum(not timer.finished.is_set() for timer in timers))
        assert expected == [0, 1, 1, 0]


def test_a_connection_that_ends_early_is_named(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it carries no message, or is slower than its limit; a lost one is no act of the host."""
    why_ended: list[str] = []
    is_over = threading.Event()

    def end(why: str) -> None:
        why_ended.append(why)
        is_over.set()

    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr("fairshares.harness.hosts.local_host.end_agent", end)
    with ExitStack() as stack:
        work = Work(host, stack, "alice")
        Agent(io.BytesIO(), io.BytesIO(), work)._listen(io.BytesIO(b""))
        agent = Agent(io.BytesIO(), io.BytesIO(), work)
        agent._listen(io.BytesIO(b"[1, 2]\n"))
        agent.lose("it is gone")  # which it is already
        with agent._within(0.0, "The request 'aggregate'"):
            assert is_over.wait(60)
    lines = read_log(host).lines
    assert [line.event for line in lines] == [Event.ENDED, Event.ENDED]
    assert lines[0].said.endswith("connection: what the coordinator sent was no message: not an object.")
    assert [lines[1].said] == why_ended and "took longer than its limit, 0 s" in why_ended[0]


def test_who_ended_other_connections_is_named(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([0, 2])
    monkeypatch.setattr(
        local_host,
        "clean",
        lambda *_: Removed(processes=next(numbers), directories=0, records=0),
    )
    answers(host, {"do": "clean"}, {"do": "clean"})
    (line,) = ends_in(host)
    assert (line.event, line.coordinator, line.request) == (Event.ENDED, "alice", "clean")
    assert line.said == "It ended other connections: 2."


def test_what_was_refused_to_the_owner_over_ssh_is_named_where_there_is_a_host(tmp_path: Path) -> None:
    host, none = tmp_path / "host", tmp_path / "none"
    none.mkdir()
    request = {"do": "pin", "party": 0, "certificates": {"embedded": {"1": "none"}}, "successors": {}}

    def answer(directory: Path) -> str:
        agent = Agent(io.BytesIO(), io.BytesIO(), Setup(directory))
        return refusal(agent._answer(received(request)))

    answer(none)
    assert list(none.iterdir()) == []
    host_keys.make_keys(host, 0, renew=False)
    write_rules(host, RULE)
    said = answer(host)
    (line,) = read_log(host).lines
    assert (line.event, line.coordinator, line.request, line.said) == (Event.REFUSED, "", "pin", said)


def test_an_agent_for_clients_has_no_log(tmp_path: Path) -> None:
    class Answering(wire.Answers):
        pass

    agent = Agent(io.BytesIO(), io.BytesIO(), Answering())
    assert "does not know" in refusal(agent._answer(received({"do": "x"})))
    assert list(tmp_path.iterdir()) == []
