"""Both ends of a connection to a host, and links between hosts: what is heard ends in one sentence."""

import io
import json
import os
import queue
import socket
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.engines.parties.handle import PartyState
from fairshares.harness.errors import HostUnfitError, HostUnreachableError, SurfaceName, naming
from fairshares.harness.hosts import agent, connection, local_host as links, wire
from fairshares.harness.hosts.connection import HostConnection
from fairshares.harness.hosts.fleet import skew_s
from fairshares.harness.hosts.frames import (
    WIRE_VERSION,
    AnswerFrame,
    EndFrame,
    ErrorFrame,
    Hello,
    HostFrame,
    Role,
)
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.local_host import greet, reach, time_link
from fairshares.harness.hosts.messages import (
    SHORT,
    AgentGreets,
    AnotherAccepts,
    Check,
    Collect,
    NobodyAccepts,
    PartyEnd,
    ReceivedRequest,
)
from fairshares.harness.system import documents
from fairshares.harness.uploads.signatures import Signed
from tests.support.coordinators import RULE, asked, write_rules
from tests.support.running import until

HOST = Host(0, "one.example", "/srv/fairshares", "/srv/FairShares", 9000)


class Session:
    """Stands in for ssh and its channel: a host that has said something, and then says what it is told to.

    Attributes: exit_status, stderr: of the agent, once it has ended; takes: whether the host reads.
    """

    def __init__(self, said: bytes = b"", *, goes_on: bool = False) -> None:
        self._ending = threading.Lock()
        reads, self._writes = os.pipe()
        self._incoming = os.fdopen(reads, "rb")
        self.say(said)
        self.sent: list[bytes] = []
        self.status_event, self._closed = threading.Event(), threading.Event()
        self.exit_status, self.stderr, self.takes = -1, b"", True
        if not goes_on:
            self.end()

    def say(self, said: bytes) -> None:
        os.write(self._writes, said)

    def end(self) -> None:
        with self._ending:  # a connection may end from either side
            writes, self._writes = self._writes, -1
        if writes >= 0:
            os.close(writes)
        self.status_event.set()

    def create_session(self) -> "Session":
        return self

    def makefile(self, _mode: str) -> BinaryIO:
        return self._incoming

    def sendall(self, line: bytes) -> None:
        if not self.takes:
            self._closed.wait()
        if self._closed.is_set():
            raise OSError
        self.sent.append(line)

    def recv_stderr_ready(self) -> bool:
        return bool(self.stderr)

    def recv_stderr(self, _most: int) -> bytes:
        return self.stderr

    def exec_command(self, command: str) -> None: ...

    def close(self) -> None:
        self._closed.set()
        self.end()


def connect(session: Session, monkeypatch: pytest.MonkeyPatch) -> HostConnection:
    """Return a connection to a host that is there no longer than the session."""
    monkeypatch.setattr(connection, "_open", lambda host: session)
    return HostConnection(HOST)


HELLO = wire.encode(Hello(Role.AGENT).to_json())
CHECK = Check(party=0, security="mpyc", port=9000, client_ports=[])


@pytest.mark.parametrize(
    ("greeting", "update"),
    [
        ({"agent": WIRE_VERSION - 1}, "it there, in /srv/FairShares"),
        ({"agent": WIRE_VERSION + 1}, "it on this machine"),
        ({"agent": "new"}, "it there, in /srv/FairShares"),
        ({"agent": True}, "it there, in /srv/FairShares"),
        ({"setup": WIRE_VERSION}, "it there, in /srv/FairShares"),
        ({}, "it there, in /srv/FairShares"),
    ],
)
def test_a_host_of_another_version_is_asked_nothing(
    greeting: dict[str, Any], update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(wire.encode(greeting))
    with pytest.raises(HostUnfitError, match=rf"^Host one\.example .* update {update}; both need") as raised:
        connect(session, monkeypatch)
    assert str(raised.value).count(". ") == 0
    assert not any(b'"do"' in line and b"bye" not in line for line in session.sent)


# What is a line, and no frame. The first three are as hosts of earlier versions wrote them.
NO_FRAMES: tuple[dict[str, Any], ...] = (
    {"ok": None},
    {"error": ["HostUnfitError", "It is elsewhere."]},
    {"ended": {"state": {"lines": []}, "code": 0}},
    {},
    {"said": "another"},
    {"said": ["answer"], "answer": None},
    {"said": "answer"},
    {"said": "answer", "answer": None, "more": 1},
    {"said": "error", "error": "HostUnfitError"},
    {"said": "error", "error": "x" * 257, "text": ""},
    {"said": "error", "error": "HostUnfitError", "text": "x" * ((1 << 20) + 1)},
    {"said": "end"},
    {"said": "end", "end": {"state": {"lines": []}, "code": 256}},
    {"said": "end", "end": {"state": {"lines": []}, "code": 0, "more": 1}},
)


@pytest.mark.parametrize("role", Role)
def test_the_first_line_is_that_of_every_version(role: Role) -> None:
    """Version 1.0 writes it so, and reads it so."""
    line = wire.encode(Hello(role, 12).to_json())
    assert line == b'{"%s": 12}\n' % role.value.encode()
    for wanted in Role:
        fields = json.loads(line)
        is_told = role is wanted or role is Role.AGENT
        assert Hello.read(fields, wanted) == (Hello(role, 12) if is_told else Hello(wanted, 0))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ErrorFrame(error="AdoptedError", text="It is elsewhere."), "It is elsewhere"),
        (ErrorFrame(error="Path", text="It is no error."), "It is no error"),
        (ErrorFrame(error="HostUnfitError", text="x" * 10**5), "x{1000}$"),
        (AnswerFrame(answer={}), "its answer to 'check' .* object missing required field `time`"),
        (AnswerFrame(answer=json.loads("[" * 500 + "]" * 500)), "went away: what it says is no message"),
        *((frame, "what it says is not a message of this version: .*; update") for frame in NO_FRAMES),
    ],
)
def test_a_broken_answer_is_one_sentence(
    answer: dict[str, Any] | HostFrame, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(HELLO, goes_on=True)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: connect(session, monkeypatch).ask(CHECK))
        until(lambda: any(b'"check"' in line for line in session.sent))
        session.say(wire.encode(answer))
        with pytest.raises(
            (HostUnfitError, HostUnreachableError), match=rf"^Host one\.example .*{said}"
        ) as raised:
            asked.result()
    assert len(str(raised.value)) < 2000
    session.close()


@pytest.mark.parametrize("surface", SurfaceName)
def test_a_request_says_who_reads_its_answer(surface: SurfaceName, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(HELLO, goes_on=True)

    def ask() -> list[Signed]:
        with naming(surface.used):
            return connect(session, monkeypatch).ask(Collect())

    with ThreadPoolExecutor(1) as pool:
        asked_for = pool.submit(ask)
        until(lambda: any(b'"collect"' in line for line in session.sent))
        session.say(wire.encode(AnswerFrame(answer=[])))
        assert asked_for.result() == []
    (request,) = [json.loads(line) for line in session.sent if b'"collect"' in line]
    assert request == {"do": "collect", "surface": surface.value}
    session.close()


def test_the_end_of_a_party_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host tells it between two answers, or before one."""
    session = Session(HELLO, goes_on=True)
    one = connect(session, monkeypatch)
    assert one.party_end() is None
    end = PartyEnd(state=PartyState(("OUT counts 1",)), code=0)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: one.ask(Collect()))
        until(lambda: any(b'"collect"' in line for line in session.sent))
        session.say(wire.encode(EndFrame(end=end)) + wire.encode(AnswerFrame(answer=[])))
        assert asked.result() == [] and one.party_end() == end
    one.forget_end()
    assert one.party_end() is None
    session.close()


def test_what_nobody_asked_for_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a host could fill this machine's memory, or have answers ready for what it will be asked."""
    session = Session(HELLO, goes_on=True)
    one = connect(session, monkeypatch)
    session.say(wire.encode(AnswerFrame(answer="unasked")) * 100)
    until(lambda: one.lost)
    with pytest.raises(
        HostUnreachableError, match=r"^Host one\.example .* went away: it answers what it was not asked\.$"
    ):
        one.ask(Collect())


@pytest.mark.parametrize(
    "line",
    [b"Welcome!\n", b"\xff\n", b"[]\n", b"[" * 10**4 + b"\n", b'{"said": NaN}\n', b'{"x": 1, "x": 2}\n'],
    ids=lambda line: str(line[:8]),
)
def test_what_is_no_message_ends_the_connection(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for said in (line, HELLO + line):
        with pytest.raises(HostUnreachableError, match="what it says is no message of FairShares; does any"):
            connect(Session(said, goes_on=True), monkeypatch).ask(Collect())


def test_a_line_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LONGEST", 1 << 17)
    endless = io.BytesIO(b"x" * (1 << 20))
    with pytest.raises(ValueError, match="too long"):
        wire.read_line(endless, lambda: None)
    assert endless.tell() < 1 << 18


def test_a_long_line_shows_that_its_sender_is_there() -> None:
    heard: list[int] = []
    line = b"x" * 10**6 + b"\n"
    assert wire.read_line(io.BytesIO(line), lambda: heard.append(1)) == line
    assert len(heard) > 10 and wire.read_line(io.BytesIO(line[:-1]), lambda: None) is None


@pytest.mark.parametrize(
    ("status", "stderr", "said"),
    [
        (-1, b"", r"went away: the connection broke\.$"),
        (1, b"", r"went away: its agent ended with exit code 1\.$"),
        (1, b"Traceback\nImportError: no x.\n", r"ended with exit code 1: ImportError: no x\.$"),
        (-1, b"\xff" + b"x" * 10**4, r"the connection broke: .x{999}\.$"),
    ],
)
def test_an_agent_that_ends_is_quoted(
    status: int, stderr: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for greeting in (b"", HELLO):
        session = Session(greeting)
        session.exit_status, session.stderr = status, stderr
        with pytest.raises(HostUnreachableError, match=said):
            connect(session, monkeypatch).ask(Collect())


def test_an_agent_takes_as_long_to_start_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine says nothing for a while; only one that was there can be missed. It hears us, though."""
    monkeypatch.setattr(wire, "BEAT_S", 0.001)
    session = Session(goes_on=True)

    def greet() -> None:
        until(lambda: len(session.sent) > 10 * wire.SILENT_BEATS)
        session.say(HELLO)

    threading.Thread(target=greet).start()
    one = connect(session, monkeypatch)
    until(lambda: one.lost)
    with pytest.raises(HostUnreachableError, match=r"went away: nothing came from it for 0\.01 s\.$"):
        one.ask(Collect())


@pytest.mark.parametrize("takes", [True, False])
def test_patience_ends_with_a_host_that_takes_nothing_or_answers_nothing(
    takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(HELLO, goes_on=True)
    one = connect(session, monkeypatch)
    session.takes = takes
    monkeypatch.setattr(Collect, "PATIENCE_S", 0.2)
    with pytest.raises(HostUnreachableError, match=r"went away: it gave no answer within 0\.2 s\.$"):
        one.ask(Collect())


@pytest.mark.parametrize(
    ("asked", "said", "answered", "ahead"),
    [(10, 10.5, 11, 0), (10, 10, 10, 0), (10, 71, 11, 60), (10, -50, 11, -60), (10, 11.5, 11, 0.5)],
)
def test_a_clock_is_off_only_as_far_as_waiting_cannot_explain(
    asked: float, said: float, answered: float, ahead: float
) -> None:
    assert skew_s(asked, said, answered) == ahead


GREETING = "0f" * 16


@contextmanager
def answering(greeting: str = GREETING) -> Iterator[int]:
    """Answer one connection, as an agent does; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as reached:
                greet(reached, greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_a_delay_shows_in_the_round_trip_and_not_in_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, delay_s, bits_per_s = links._exchange, 0.5, 8e6

    def emulated(link: socket.socket, incoming: object, sent: int, wanted: int) -> float:
        exchange(link, incoming, sent, wanted)  # type: ignore[arg-type]
        return delay_s + 8 * max(sent, wanted) / (bits_per_s / (2 if sent > wanted else 1))

    monkeypatch.setattr(links, "_exchange", emulated)
    with answering() as port:
        timed = time_link("127.0.0.1", port, GREETING)
    assert timed is not None and timed.rtt_s == pytest.approx(delay_s, rel=1e-4)
    assert timed.bits_per_s == pytest.approx(bits_per_s / 2, rel=1e-4)  # of the slower direction


def test_nobody_or_somebody_else_is_no_link() -> None:
    with answering("1f" * 16) as port:
        assert time_link("127.0.0.1", port, GREETING) is None
    with answering("1f" * 16) as port:
        assert reach("127.0.0.1", port, GREETING) == AnotherAccepts(fault="something else answers there")
    assert time_link("127.0.0.1", port, GREETING) is None
    assert reach("127.0.0.1", port, GREETING) == NobodyAccepts(fault="Connection refused")
    with answering() as port:
        assert reach("127.0.0.1", port, GREETING) == AgentGreets()


def test_who_accepts_and_breaks_off_is_not_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a proxy does in whose back nobody listens, which would end a party that calls early."""
    connected = threading.Event()
    create = socket.create_connection

    def create_connection(address: tuple[str, int], timeout: float) -> socket.socket:
        made = create(address, timeout)
        connected.set()
        return made

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def break_off() -> None:
            with listening.accept()[0] as reached:
                connected.wait()  # else the caller might not even notice that it was connected
                # Closing resets the connection then, as if by a proxy that has nobody to pass it on to.
                reached.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=break_off)
        thread.start()
        ended = reach("127.0.0.1", listening.getsockname()[1], GREETING)
        thread.join()
    assert isinstance(ended, AnotherAccepts)
    assert ended.fault == "it accepts the connection, and then: Connection reset by peer"


def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_TRANSFER_S", 0.05)
    with answering() as port, socket.create_connection(("127.0.0.1", port)) as silent:
        assert silent.makefile("rb").read() == GREETING.encode()  # to its end, which the other side makes


def test_nobody_has_an_agent_send_without_end() -> None:
    started = time.monotonic()
    with answering() as port, socket.create_connection(("127.0.0.1", port)) as greedy:
        greedy.sendall(links._SIZES.pack(0, 2**32 - 1))
        greedy.shutdown(socket.SHUT_WR)
        with greedy.makefile("rb") as incoming:
            assert len(incoming.read()) == len(GREETING) + links._MOST_BYTES
    assert time.monotonic() - started < 300


def test_who_comes_takes_little_memory() -> None:
    """Whoever reaches the port may come, and ask for as much as anybody may, and come often."""
    size, took = links._MOST_BYTES, 0
    with (
        answering() as port,
        socket.create_connection(("127.0.0.1", port)) as link,
        link.makefile("rb") as incoming,
    ):
        incoming.read(len(GREETING))
        tracemalloc.start()
        link.sendall(links._SIZES.pack(size, 2 * size))
        for _ in range(size >> 16):
            link.sendall(bytes(1 << 16))
        while took < size:
            took += len(incoming.read(1 << 16))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert took == size and peak < size // 8


MORE = 64 << 20  # bytes that a host may need for what nobody has accepted
# In a process of its own, as memory is told of those that have ended.
TOLD = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "fairshares.harness.hosts.agent", sys.argv[1]])
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr)
"""


def long_line(size: int, request: str = "nonsense") -> bytes:
    """Return a request of so many bytes, of what takes most memory: empty lists."""
    start = json.dumps({"do": request, "x": []}).encode()[:-2]
    said = start + b"[]," * ((size - len(start) - 5) // 3) + b"[]]}"
    return said + b" " * (size - 1 - len(said)) + b"\n"


@pytest.fixture
def ruled(tmp_path: Path) -> Path:
    """Return a host's directory, with a policy."""
    (tmp_path / "host").mkdir(mode=0o700)
    write_rules(tmp_path / "host", RULE)
    return tmp_path / "host"


def told(host: Path, *parts: bytes) -> tuple[list[dict[str, Any]], int, int]:
    """Return what an agent answers, its exit code, and how much memory it took.

    Args: parts: what it is told, each after the first answer to the one before.
    """
    with subprocess.Popen(
        [sys.executable, "-c", TOLD, host],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as wrapped:
        assert wrapped.stdin is not None and wrapped.stdout is not None and wrapped.stderr is not None
        said = filter(None, map(wire.decode, wrapped.stdout))
        answers = [next(said)]
        for part in (*parts, wire.encode({"do": "bye"})):
            with suppress(BrokenPipeError):
                wrapped.stdin.write(part)
                wrapped.stdin.flush()
            answers += islice(said, 1)
        answers += said
        code, peak = map(int, wrapped.stderr.read().split()[-2:])
        with suppress(BrokenPipeError):
            wrapped.stdin.close()
    return [dict(answer.fields) for answer in answers[1:]], code, peak


def test_requests_take_little_memory_before_a_run_is_accepted(ruled: Path) -> None:
    """Neither one that is long, nor many that wait; what is as long as it may be is answered."""
    assert len(long_line(SHORT)) == SHORT
    *_, idle = told(ruled)
    answers, code, peak = told(ruled, long_line(SHORT) * 100)
    assert (len(answers), code) == (100, 0) and peak - idle < MORE
    refused = wire.encode({"do": "propose", "asked": asked(population="others")})
    for before in ([], [refused]):
        answers, code, peak = told(ruled, *before, long_line(1 << 25))
        assert (len(answers), code) == (len(before), 1) and peak - idle < MORE


def test_long_requests_are_taken_once_a_run_is_accepted(ruled: Path) -> None:
    """As a list of a million uploads is; not what makes more of itself in memory than any list does."""
    accepted = wire.encode({"do": "propose", "asked": asked()})
    answers, code, idle = told(ruled, accepted, long_line(1 << 20, "take_list"))
    assert [answer["said"] for answer in answers] == ["answer", "error"] and code == 0
    answers, code, peak = told(ruled, accepted, long_line(3 * documents.MESSAGE.values + (1 << 20)))
    assert (len(answers), code) == (1, 1) and peak - idle < 4 * MORE


class Listening(agent.Agent):
    """A connection that tells nobody that it is there."""

    def _beat(self) -> None: ...


class Waits(queue.Queue[ReceivedRequest]):
    """Notes for how long a request is waited for."""

    def __init__(self, waits: list[float | None]) -> None:
        super().__init__(1)
        self._waits = waits

    def get(self, block: bool = True, timeout: float | None = None) -> ReceivedRequest:
        self._waits.append(timeout)
        return super().get(block, timeout)


def test_an_agent_that_waits_hears_of_its_end() -> None:
    """Python loses a signal that comes right before a wait without end, and a host would keep its turn."""
    waits: list[float | None] = []
    one = Listening(io.BytesIO(wire.encode({"do": "bye"})), io.BytesIO(), wire.Answers())
    one.requests = Waits(waits)
    one.serve()
    assert waits and all(seconds is not None and seconds <= 2.0 for seconds in waits)


def test_at_most_one_request_waits_while_another_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    taken, read, early = 0, 0, 0
    decode = wire.decode

    def counted(said: bytes) -> wire.Received | None:
        nonlocal read, early
        read += 1
        early += read > taken + 2  # the one that waits, and the one behind it that cannot
        return decode(said)

    monkeypatch.setattr(wire, "decode", counted)
    said = io.BytesIO(wire.encode({"do": "state"}) * 100)
    one = Listening(said, io.BytesIO(), wire.Answers())
    monkeypatch.setattr(one, "lose", lambda _why: ended.set())
    one.begin(said)
    until(lambda: read >= 2)
    while taken < 100:
        taken += 1
        one.requests.get()
    ended.wait()
    assert early == 0
