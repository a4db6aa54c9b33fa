"""A host outside of a run: its turn, its dependencies, ports and links, and the remains of dead runs."""

import os
import secrets
import shutil
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import BinaryIO

from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.engines.mpspdz.compiler import cache_directory, git
from fairshares.harness.engines.parties.sandbox import missing
from fairshares.harness.engines.program_hash import sources_hash
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import FairSharesError, HostUnfitError
from fairshares.harness.hosts import host_keys
from fairshares.harness.hosts.decision import Action, Benchmark, Look, Ports
from fairshares.harness.hosts.expiries import Expiry, certificates_of, soon
from fairshares.harness.hosts.host_log import Event, HostLog
from fairshares.harness.hosts.messages import (
    AgentGreets,
    AnotherAccepts,
    Answering,
    CallEnd,
    Check,
    HostFacts,
    LinkTimes,
    Listen,
    Listener,
    NobodyAccepts,
    Reach,
    Removed,
    StopListening,
    TimeLinks,
)
from fairshares.harness.hosts.policy import LEDGER, ask_owner, read_policy
from fairshares.harness.pipeline.manifest_of_run import environment, hardware
from fairshares.harness.security_models import get_model
from fairshares.harness.system.documents import Refusal, as_type, read_json
from fairshares.harness.system.files import PREFIX, held_alone, remove_unless_held, write_whole
from fairshares.harness.system.places import place_fault
from fairshares.harness.system.processes import birth
from fairshares.harness.system.threads import ContextThread, ContextTimer
from fairshares.harness.uploads.signatures import Signed

PROGRAM_TEXTS = "programs and circuits"  # the name in sentences
CODE = "code"
# The folders whose text must be the same on all machines.
COMPARED_FOLDERS = {
    PROGRAM_TEXTS: ("Programs/Source", "protocols/circuits"),
    CODE: ("harness", "protocols"),
}
TURN = "turn"  # the file in a host's directory that its runs lock, which nobody else can open
NONCE_BYTES = 16
_IDLE_S = 3600.0  # within which a run begins, from the connection's turn or the end of its last run on
_ENDING_S = 300.0  # within which an agent ends that has to
_STUCK = (
    f"The agent did not end within {_ENDING_S:g} s, as a disk or a mount that it reads may hang, and was "
    "killed."
)
_NOTING_S = 1.0  # the time for a line in the log of an agent that is killed, as the log's disk may hang
_TURNLESS_S = 600.0  # within which a connection takes the turn
BY_HOST = "which the host ended"
_AT_ONCE = 64  # the most connections to a listening agent, so that they take little memory
_LINK_PROBES = 15  # round trips that are timed on a link


@dataclass(frozen=True)
class ConnectionEnd:
    """How a connection ends.

    Attributes:
        request: The request by which it ends; None if it ends without one.
        how: The end of a sentence about it.
    """

    request: str | None
    how: str


_BY_A_SIGNAL = ConnectionEnd(None, "by a signal to its agent")
"""A signal comes from another connection's `clean`, or from this machine. It tells nobody that it comes.

So a connection of which nobody has told how it ends, ends like this.
"""


@dataclass(frozen=True)
class TurnNotTaken:
    """The state of a connection that may do without the host's turn, or take it at any time."""


@dataclass(frozen=True)
class TurnAwaited:
    """The state of a connection that has to take the host's turn in time.

    Attributes:
        limit: Ends the connection otherwise.
    """

    limit: ContextTimer


class HeldTurn:
    """The host's turn, which a connection has until it leaves it, or its end.

    The connection ends unless a run begins within an hour.

    Args:
        host: This machine.
        taken: The locks that hold the turn until they are released.
    """

    def __init__(self, host: "LocalHost", taken: ExitStack) -> None:
        self._host = host
        self._taken = taken
        self._limit = self._limit_from_now()

    def run_begins(self) -> None:
        """Stop waiting for a run."""
        self._limit.cancel()

    def expect_run(self) -> None:
        """End the connection unless a run begins within an hour from now."""
        self._limit.cancel()
        self._limit = self._limit_from_now()

    def leave(self) -> None:
        """Let other connections have the turn."""
        self._limit.cancel()
        self._taken.close()

    def _limit_from_now(self) -> ContextTimer:
        why = f"No run began within {_IDLE_S:g} s, for which the host kept its turn, and the agent ended."
        return self._host.limit(_IDLE_S, why)


class LocalHost:
    """This machine as a host, for one connection. One connection at a time has the host's turn.

    Attributes:
        directory: The host's own directory.
        stack: The block that is closed at the end of the connection.
        coordinator: The name that the host's own command line gives to the coordinator's key, or "".
        log: The host's log, for this connection.
        turn: The connection's part in the host's turn.
        ending: How the connection ends, as far as that is known.
    """

    def __init__(self, directory: Path, stack: ExitStack, coordinator: str) -> None:
        self.directory = directory
        self.stack = stack
        self.coordinator = coordinator
        self._until_the_end = stack.enter_context(ExitStack())  # closed after all else on the stack
        self._until_the_end.callback(self._end_turn)
        self.log = HostLog(directory, coordinator)
        self.turn: TurnNotTaken | TurnAwaited | HeldTurn = TurnNotTaken()
        self.ending = _BY_A_SIGNAL
        self._listening: list[socket.socket] = []
        self._checked: tuple[str, str] | None = None  # the project's hashes at the connection's first check

    def handlers(self) -> list[Answering]:
        """Return the handlers of the requests that a host answers outside of a run."""
        return [
            Check.answered_by(self.check),
            Listen.answered_by(self.listen),
            StopListening.answered_by(self._leave_ports),
            Reach.answered_by(self.reach),
            TimeLinks.answered_by(self.time_links),
        ]

    def ask_owner(self, action: Action) -> None:
        """Raise PolicyError unless the owner's policy, as it is now, allows this to the coordinator."""
        ask_owner(self.directory, self.coordinator, action)

    def take_turn(self) -> HeldTurn:
        """Keep all other connections from checking or preparing a run; return the turn.

        Raises:
            HostUnfitError: Another connection has the turn.
        """
        if isinstance(self.turn, HeldTurn):
            return self.turn
        with ExitStack() as refused:
            refused.enter_context(turn_at(self.directory))
            refused.enter_context(signed(self.directory, self.coordinator))
            taken = refused.pop_all()
        if isinstance(self.turn, TurnAwaited):
            self.turn.limit.cancel()
        turn = HeldTurn(self, taken)
        self.turn = turn
        return turn

    def leave_turn(self) -> None:
        """Let other connections have the turn, if this one has it, and expect to take it again."""
        self.stop_listening()
        if isinstance(self.turn, HeldTurn):
            self._end_turn()
            self.expect_turn()

    def _end_turn(self) -> None:
        """Let other connections have the turn, if this one has it."""
        if isinstance(self.turn, HeldTurn):
            self.turn.leave()
            self.turn = TurnNotTaken()

    def expect_turn(self) -> None:
        """End this connection, which has no turn, unless it takes the turn within ten minutes.

        Otherwise connections that send signs of life and nothing else would take memory for ever.
        """
        why = f"The connection did not take the host's turn within {_TURNLESS_S:g} s, and the agent ended."
        self.turn = TurnAwaited(self.limit(_TURNLESS_S, why))

    def ends(self, request: str | None, how: str) -> None:
        """Learn how the connection ends, as `Answers.ends`.

        Guarantees: the process is gone some time later, and with it its party and the host's turn, whatever
        system call does not return.  [test: tests/harness/hosts/test_stalled_mounts.py]
        """
        if self.ending is _BY_A_SIGNAL:
            self.ending = ConnectionEnd(request, how)
            timer = ContextTimer(_ENDING_S, self._kill, [])
            timer.daemon = True
            self._until_the_end.callback(timer.cancel)
            timer.start()

    def _kill(self) -> None:
        """Kill this process, which did not end by itself, with a line in the log if that can be written."""
        noting = ContextThread(target=self.log.write, args=(Event.ENDED, None, _STUCK), daemon=True)
        noting.start()
        noting.join(_NOTING_S)
        os.kill(os.getpid(), signal.SIGKILL)

    def note_ended_party(self, run: str) -> None:
        """Note that a party of a run, which had begun, was ended with the connection."""
        sentence = f"A party that had begun was ended with its connection, {self.ending.how}."
        self.log.write(Event.ENDED, self.ending.request, sentence, run)

    def limit(self, seconds: float, why: str) -> ContextTimer:
        """Return the timer that ends this connection after some time, unless it is cancelled before.

        Args:
            seconds: The time.
            why: The sentence for the host's log and the coordinator.
        """
        timer = ContextTimer(seconds, self._end, [why])
        self._until_the_end.callback(timer.cancel)
        timer.daemon = True
        timer.start()
        return timer

    def _end(self, why: str) -> None:
        """End this connection, as `why` says in the host's log and to the coordinator."""
        self.log.write(Event.ENDED, None, why)
        self.ends(None, BY_HOST)
        end_agent(why)

    def check(self, message: Check) -> HostFacts:
        """Take the turn, so that others meet this host's party; return the facts on which a run depends.

        Raises HostUnfitError if the project was changed since the connection's first check. This process runs
        what was there then, and a party's process would run what is there now.
        [test: tests/harness/hosts/test_turns.py]
        """
        now = time.time()
        programs, code = (sources_hash(*COMPARED_FOLDERS[what]) for what in (PROGRAM_TEXTS, CODE))
        if self._checked not in (None, (programs, code)):
            raise HostUnfitError(
                f"The project in {PROJECT} was changed since this connection began; connect to it again."
            )
        self._checked = (programs, code)
        chosen = get_model(message.security, message.parties)
        engine = engine_of(chosen)
        directory = _fault(lambda: check_directory(self.directory))
        policy = None if directory else _fault(lambda: read_policy(self.directory))
        turn = _fault(self.take_turn) if self.directory.is_dir() else None
        port: str | None = None
        clients: str | None = None
        notices: list[str] = []
        if not directory and not policy:
            notices = read_policy(self.directory).notices
            port = _fault(lambda: self._check_ports("port", [message.port]))
            clients = _fault(lambda: self._check_ports("client_port", message.client_ports))
            policy = _fault(lambda: self.ask_owner(Look(chosen.title)))
        run_keys = host_keys.RunKeys(self.directory, chosen)
        own_keys = None if directory else _fault(lambda: run_keys.check(message.party))
        expiries = [] if directory else _certificates_at(self.directory)
        notices += soon(expiries, datetime.fromtimestamp(now, UTC))
        ledger = self.directory / LEDGER
        return HostFacts(
            time=now,
            programs=programs,
            code=code,
            commit=git(PROJECT, "rev-parse", "HEAD") or "unknown",
            environment=environment(),
            machine=hardware(),
            engine_version=engine.version(),
            unavailable=engine.availability(chosen) or engine.fault_of_links(chosen),
            unprotected=list(missing()),
            directory=directory,
            free_bytes=0 if directory else shutil.disk_usage(self.directory).free,
            cache_free_bytes=_free_for_cache(),
            port=turn or port,
            clients=clients,
            keys=own_keys,
            fingerprints={} if directory or own_keys else run_keys.fingerprints(message.party),
            policy=policy,
            notices=notices,
            expires={expiry.title: expiry.ends.isoformat(timespec="seconds") for expiry in expiries},
            ledger_bytes=ledger.stat().st_size if ledger.exists() else 0,
        )

    def _check_ports(self, name: str, ports: Sequence[int]) -> None:
        check_ports(self.directory, self.coordinator, name, ports)

    def listen(self, message: Listen) -> str:
        """Listen as the party or its gateway will, and greet callers; return the greeting.

        Raises:
            HostUnfitError: As `take_turn`.
            PolicyError: The port is not one of the owner's policy.
        """
        port = message.port
        client_port = read_policy(self.directory).client_port
        wanted = Ports("port", (port,))
        if client_port and port == client_port:
            wanted = Ports("client_port", (port, port + 1))
        self.ask_owner(wanted)
        greeting = secrets.token_hex(NONCE_BYTES)
        with ExitStack() as refused:
            listening = refused.enter_context(socket.create_server(("", port)))
            self.take_turn()  # last, as a refused request takes no turn
            refused.pop_all()  # the socket stays open
        self.stack.callback(self.stop_listening)  # so that the thread below ends, too
        self._listening.append(listening)
        ContextThread(target=_greet_callers, args=(listening, greeting), daemon=True).start()
        return greeting

    def _leave_ports(self, _message: StopListening) -> None:
        self.stop_listening()

    def stop_listening(self) -> None:
        """Leave the ports to the party."""
        while self._listening:
            listening = self._listening.pop()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # otherwise `accept` would keep the port
            listening.close()

    def reach(self, message: Reach) -> list[CallEnd]:
        """Call other parties' ports, and return how each call ends."""
        self._note_called(Reach.name(), message.others)
        return [reach(other.address, other.port, other.greeting) for other in message.others]

    def time_links(self, message: TimeLinks) -> list[LinkTimes | None]:
        """Time the links to other parties' ports, one after the other.

        Raises:
            HostUnfitError: As `take_turn`.
            PolicyError: The owner allows no benchmark runs.
        """
        self.ask_owner(Benchmark(None))
        self.take_turn()
        self._note_called(TimeLinks.name(), message.others)
        return [time_link(other.address, other.port, other.greeting) for other in message.others]

    def _note_called(self, request: str, others: Sequence[Listener]) -> None:
        """Tell the host's owner which addresses this host is asked to call."""
        if others:
            called = ", ".join(f"{other.address}:{other.port}" for other in others)
            self.log.write(Event.ANSWERED, request, f"It calls {called}.")


@contextmanager
def turn_at(directory: Path) -> Iterator[None]:
    """Have a host's turn in the block. One process at a time has it.

    Raises:
        HostUnfitError: Another process has the turn, or other users could keep it.
    """
    place = directory / TURN
    try:
        descriptor = held_alone(place)
    except PermissionError:
        raise HostUnfitError(
            f"Others can open {place}, by which runs take turns, and could keep all runs off; make it its "
            f"owner's alone, by chmod 600 {place}."
        ) from None
    if descriptor is None:
        holder = "an agent that ends, or its owner's hosts.restored"
        signature = _signed(directory)
        if signature is not None:
            holder = f"process {signature.pid}, for {signature.coordinator or 'a key without a name'}"
        raise HostUnfitError(
            f"Another run is under way on it ({holder}); wait for its end, or end it by ./inv hosts.clean."
        )
    try:
        yield
    finally:
        os.close(descriptor)


def end_agent(why: str) -> None:
    """End this process in an orderly way, and tell its coordinator why."""
    with suppress(OSError, ValueError):
        print(why, file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def check_directory(directory: Path) -> None:
    """Raise HostUnfitError unless a host's directory is its owner's alone, and nobody else can replace it."""
    if not directory.is_dir():
        raise HostUnfitError(
            f"There is no directory {directory}; run ./inv hosts.setup, or correct hosts.toml."
        )
    fault = place_fault(directory)
    if fault is not None:
        raise HostUnfitError(fault)


def check_ports(directory: Path, coordinator: str, name: str, ports: Sequence[int]) -> None:
    """Raise an error unless a party, or its gateway, can listen at its ports.

    Args:
        directory: The host's own directory.
        coordinator: The name of the coordinator's key, or "".
        name: The name of the policy's field, `port` or `client_port`, which stands for two ports.
        ports: The ports that were asked for.

    Raises:
        PolicyError: The ports differ from the ports in the owner's policy.
        HostUnfitError: Another process uses a port.
    """
    ask_owner(directory, coordinator, Ports(name, tuple(ports)))
    for port in ports:
        try:
            socket.create_server(("", port)).close()
        except OSError as error:
            who = "Its party" if name == "port" else "For clients it"
            raise HostUnfitError(
                f"{who} cannot listen on port {port}: {os.strerror(error.errno or 0)}."
            ) from None


def _fault(check: Callable[[], object]) -> str | None:
    """Return the sentence by which a check refuses, or None if it refuses nothing."""
    try:
        check()
    except FairSharesError as error:
        return str(error)
    return None


def _free_for_cache() -> int:
    """Return the free bytes of the disk on which this user's compiled programs are, or will be."""
    place = cache_directory().absolute()
    while not place.is_dir():
        place = place.parent
    return shutil.disk_usage(place).free


def _certificates_at(directory: Path) -> list[Expiry]:
    """Return the certificates in a host's directory that can be read; what keeps others off is a fault."""
    try:
        return [*certificates_of(directory)]
    except FairSharesError:
        return []


def _greet_callers(listening: socket.socket, greeting: str) -> None:
    """Greet all callers, each in a thread, so that a slow peer keeps few others from an answer."""
    free = threading.Semaphore(_AT_ONCE)
    while True:
        free.acquire()
        try:
            reached, _ = listening.accept()
        except OSError:  # closed
            return
        ContextThread(target=_greet, args=(reached, greeting, free), daemon=True).start()


def _greet(reached: socket.socket, greeting: str, free: threading.Semaphore) -> None:
    """Greet one caller, close the connection, and make room for another caller."""
    with reached:
        greet(reached, greeting)
    free.release()


_RESULTS = "results"  # the directory in a host's directory with what runs opened
_SIGNATURE = "agent"  # the file by which an agent says that a directory is its own
PATIENCE_S = 5.0  # the time for an answer on a link, or the end of a process
_LOOK_S = 0.02  # between two looks at a process that should end


def place_of(directory: Path, run: str) -> Path:
    """Return the file of a run's opened values."""
    (directory / _RESULTS).mkdir(mode=0o700, exist_ok=True)
    return directory / _RESULTS / f"{run}.json"


def signed_runs(directory: Path) -> list[Signed]:
    """Return the kept signed statements of runs."""
    paths = sorted((directory / _RESULTS).glob("*.json"))
    statements: list[Signed] = []
    for path in paths:
        refusal = Refusal(HostUnfitError, str(path), "what a run revealed", "remove it")
        statements.append(as_type(Signed, read_json(path, refusal), refusal))
    return statements


@contextmanager
def signed(directory: Path, coordinator: str) -> Iterator[None]:
    """Name this agent and its coordinator in a file of a directory, for the time of the block."""
    place = directory / _SIGNATURE
    write_whole(place, f"{os.getpid()} {birth(os.getpid())} {coordinator}".encode())
    try:
        yield
    finally:
        place.unlink(missing_ok=True)


def clean(directory: Path, own: Collection[Path]) -> Removed:
    """End other agents with their parties, and remove the remains of their runs.

    Args:
        directory: The host's own directory.
        own: The directories of this connection's run, which stay.

    Returns:
        How many processes were ended, and how many directories and statements of runs were removed.
    """
    left = [path for path in directory.glob(f"{PREFIX}*") if path not in own]
    agents: set[int] = set()
    for path in [directory, *left]:
        signature = _signed(path)
        if signature is not None:
            agents.add(signature.pid)
    agents.discard(os.getpid())
    for pid in agents:
        _end(pid)
    for path in left:
        remove_unless_held(path)
    if not _signed(directory):
        (directory / _SIGNATURE).unlink(missing_ok=True)
    kept = list((directory / _RESULTS).glob("*.json"))
    for path in kept:
        path.unlink(missing_ok=True)
    gone = [path for path in left if not path.exists()]
    return Removed(processes=len(agents), directories=len(gone), records=len(kept))


@dataclass(frozen=True)
class LivingAgent:
    """An agent that is alive, and that names itself in a directory.

    Attributes:
        pid: The number of its process.
        coordinator: The name of its coordinator's key, or "".
    """

    pid: int
    coordinator: str


def _signed(directory: Path) -> LivingAgent | None:
    """Return the agent that a directory names, None if it names none or a dead one."""
    try:
        pid, began, coordinator = (directory / _SIGNATURE).read_text().split(" ", 2)
    except (OSError, ValueError):
        return None
    if began != birth(int(pid)):  # another process has the number by now, or none
        return None
    return LivingAgent(int(pid), coordinator)


def _end(pid: int) -> None:
    """End a process: ask it to end and, if it does not within five seconds, kill it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + PATIENCE_S
        while birth(pid) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        if not birth(pid):
            return


_TRANSFER_S = 60.0  # the longest exchange, on a slow and long link
_SIZES = struct.Struct(">II")  # the bytes that follow, and the bytes that are wanted back
_PIECE_BYTES = 1 << 16  # bytes that are sent or received at once
_MOST_BYTES = 1 << 26  # bytes of one exchange
# A rate is measured by an exchange that takes long enough for TCP to be at full speed: 20 round trips, and at
# least and at most these times.
_ROUND_TRIPS = 20
_LEAST_PROBE_S = 0.2
_MOST_PROBE_S = 1.0
_GROWTH = 4  # the factor by which an exchange that was too short is repeated with more bytes
_LEAST_S = 1e-9  # the least time for an exchange beyond the round trip, so that a rate is finite


def greet(reached: socket.socket, greeting: str) -> None:
    """Greet a caller; then receive and send as many bytes as it asks for.

    Guarantees: a call takes little memory, however many bytes the caller asks for.
    [test: tests/harness/hosts/test_connection.py]
    """
    reached.settimeout(PATIENCE_S)
    with suppress(OSError), reached.makefile("rb") as incoming:
        reached.sendall(greeting.encode())
        reached.settimeout(_TRANSFER_S)
        while True:
            sizes = incoming.read(_SIZES.size)
            if len(sizes) < _SIZES.size:
                return
            follow, wanted = _SIZES.unpack(sizes)
            for piece in _pieces(follow):
                incoming.read(piece)
            for piece in _pieces(wanted):
                reached.sendall(bytes(piece))


def _pieces(size: int) -> Iterator[int]:
    """Yield the sizes of the pieces of so many bytes, or of the most bytes of an exchange."""
    left = min(size, _MOST_BYTES)
    while left > 0:
        piece = min(_PIECE_BYTES, left)
        yield piece
        left -= piece


def reach(address: str, port: int, greeting: str) -> CallEnd:
    """Call an agent that listens and should answer by a greeting; return how the call ends."""
    try:
        reached = socket.create_connection((address, port), PATIENCE_S)
    except ConnectionResetError as error:  # accepted, and reset before this process looked
        return _breaks_off(error)
    except OSError as error:
        return NobodyAccepts(fault=error.strerror or str(error))
    with reached:
        try:
            answer = reached.makefile("rb").read(len(greeting))
        except OSError as error:
            return _breaks_off(error)
    if answer != greeting.encode():
        return AnotherAccepts(fault="something else answers there")
    return AgentGreets()


def _breaks_off(error: OSError) -> AnotherAccepts:
    return AnotherAccepts(fault=f"it accepts the connection, and then: {error.strerror or error}")


def time_link(address: str, port: int, greeting: str) -> LinkTimes | None:
    """Return the median round-trip time of a link, and the rate of its slower direction.

    The other end has to be at `greet`, with the right greeting. Otherwise the result is None.
    [test: tests/harness/hosts/test_connection.py]
    """
    with suppress(OSError), socket.create_connection((address, port), PATIENCE_S) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with link.makefile("rb") as incoming:
            if incoming.read(len(greeting)) == greeting.encode():
                link.settimeout(_TRANSFER_S)
                rtt_s = median(_exchange(link, incoming, 0, 1) for _ in range(_LINK_PROBES))
                there = _rate(link, incoming, rtt_s, outgoing=True)
                back = _rate(link, incoming, rtt_s, outgoing=False)
                return LinkTimes(rtt_s=rtt_s, bits_per_s=min(there, back))
    return None


def _rate(link: socket.socket, incoming: BinaryIO, rtt_s: float, *, outgoing: bool) -> float:
    """Return the bits per second of one direction of a link.

    Args:
        link: The connection.
        incoming: The lines that come from the coordinator.
        rtt_s: The link's round-trip time in seconds.
        outgoing: Whether this end sends, or else receives.
    """
    long_enough_s = max(_LEAST_PROBE_S, min(_ROUND_TRIPS * rtt_s, _MOST_PROBE_S))
    size = _PIECE_BYTES // _GROWTH
    took = 0.0
    while size < _MOST_BYTES and took < long_enough_s:
        size *= _GROWTH
        if outgoing:
            took = _exchange(link, incoming, sent=size, wanted=1)
        else:
            took = _exchange(link, incoming, sent=0, wanted=size)
    return 8 * size / max(took - rtt_s, _LEAST_S)


def _exchange(link: socket.socket, incoming: BinaryIO, sent: int, wanted: int) -> float:
    """Return the seconds that it takes to send so many bytes, and to receive so many."""
    started = time.perf_counter()
    link.sendall(_SIZES.pack(sent, wanted) + bytes(sent))
    if len(incoming.read(wanted)) < wanted:
        raise ConnectionResetError
    return time.perf_counter() - started
