"""A host before a run: its turn, dependencies and ports; and the remains of dead runs."""

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
from pathlib import Path
from statistics import median
from typing import BinaryIO

from fairshares.harness.engines.base import PROJECT
from fairshares.harness.engines.mpspdz.compiler import git
from fairshares.harness.engines.parties.sandbox import missing
from fairshares.harness.engines.program_hash import sources_hash
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import FairSharesError, HostUnfitError
from fairshares.harness.hosts import keys
from fairshares.harness.hosts.decision import Action, Benchmark, Look, Ports
from fairshares.harness.hosts.host_log import Event, HostLog
from fairshares.harness.hosts.messages import (
    Answering,
    Check,
    HostFacts,
    LinkTimes,
    Listen,
    Machine,
    Reach,
    Removed,
    StopListening,
    TimeLinks,
)
from fairshares.harness.hosts.policy import ask_owner, read_policy
from fairshares.harness.pipeline.manifests import environment, machine
from fairshares.harness.security_models import get_model
from fairshares.harness.system.documents import Refusal, as_type, read_json
from fairshares.harness.system.files import (
    PREFIX,
    changeable_by_others,
    held_alone,
    remove_unless_held,
    write_whole,
)
from fairshares.harness.system.processes import birth
from fairshares.harness.uploads.signatures import Signed

PROGRAMS, CODE = "programs and circuits", "code"  # as sentences name them
# Sources that must be the same everywhere.
SOURCES = {
    PROGRAMS: ("Programs/Source", "protocols/circuits"),
    CODE: ("harness", "protocols"),
}
TURN = "turn"  # the file in a host's directory that its runs lock, which nobody else can open
NONCE_BYTES = 16
_IDLE_S = 3600.0  # for a run to begin, from its turn or the end of the last run
_TURNLESS_S = 600.0  # for a connection to take the turn
BY_HOST = "which the host ended"
_BY_A_SIGNAL = "by a signal to its agent"  # as another connection's `clean` sends it, or this machine
_AT_ONCE = 64  # connections to a listening agent, so that they take little memory


class LocalHost:
    """This machine as a host, for one connection, at the end of which `stack` is closed.

    One connection at a time has the turn. The host's own command line may name the `coordinator`.
    """

    def __init__(self, directory: Path, stack: ExitStack, coordinator: str) -> None:
        self.directory, self.stack, self.coordinator = directory, stack, coordinator
        self._until_the_end = stack.enter_context(ExitStack())  # closed after all else on the stack
        self.log = HostLog(directory, coordinator)
        self.ending: tuple[str, str] | None = None  # the request by which the connection ends, and how
        self._has_turn = False
        self._idle: threading.Timer | None = None
        self._listening: list[socket.socket] = []

    def handlers(self) -> list[Answering]:
        """Return the handlers of what it answers before a run."""
        return [
            Check.answered_by(self.check),
            Listen.answered_by(self.listen),
            StopListening.answered_by(lambda _message: self.stop_listening()),
            Reach.answered_by(self.reach),
            TimeLinks.answered_by(self.time_links),
        ]

    def ask_owner(self, action: Action) -> None:
        """Raise PolicyError unless the owner's policy, as it is now, allows this to the coordinator."""
        ask_owner(self.directory, self.coordinator, action)

    def take_turn(self) -> None:
        """Let no other connection check or prepare a run, or raise HostUnfitError."""
        if self._has_turn or not self.directory.is_dir():
            return
        self._until_the_end.enter_context(turn_at(self.directory))
        self._until_the_end.enter_context(signed(self.directory, self.coordinator))
        self._has_turn = True
        self.expect_run()

    def expect_turn(self) -> None:
        """End this connection unless it takes the turn within ten minutes.

        Else connections of which nothing but signs of life come would take memory for good.
        """
        self._end_after(
            _TURNLESS_S,
            f"The connection did not take the host's turn within {_TURNLESS_S:g} s, and the agent ended.",
        )

    def expect_run(self) -> None:
        """End this connection unless a run begins within an hour."""
        self._end_after(
            _IDLE_S,
            f"No run began within {_IDLE_S:g} s, for which the host kept its turn, and the agent ended.",
        )

    def run_begins(self) -> None:
        """Stop waiting for a run."""
        if self._idle is not None:
            self._idle.cancel()

    def ends(self, request: str, how: str) -> None:
        """Learn how the connection ends, as `Answers.ends`."""
        if self.ending is None:
            self.ending = request, how

    def note_ended_party(self) -> None:
        """Note that a party that had begun was ended with the connection."""
        request, how = self.ending or ("", _BY_A_SIGNAL)
        self.log.write(Event.ENDED, request, f"A party that had begun was ended with its connection, {how}.")

    def _end_after(self, seconds: float, why: str) -> None:
        """End this connection after some time, in place of what it waited for."""

        def end() -> None:
            self.log.write(Event.ENDED, "", why)
            self.ends("", BY_HOST)
            end_agent(why)

        self.run_begins()
        self._idle = threading.Timer(seconds, end)
        self._until_the_end.callback(self._idle.cancel)
        self._idle.daemon = True
        self._idle.start()

    def check(self, message: Check) -> HostFacts:
        """Take the turn, so that a run's parties meet this host's; return facts on which it depends."""
        now = time.time()
        chosen = get_model(message.security)
        engine = engine_of(chosen)
        directory = _fault(lambda: check_directory(self.directory))
        policy = None if directory else _fault(lambda: read_policy(self.directory))
        turn = _fault(self.take_turn)
        port, clients, notices = None, None, list[str]()
        if not directory and not policy:
            notices = read_policy(self.directory).notices
            port = _fault(lambda: self._check_ports("port", [message.port]))
            clients = _fault(lambda: self._check_ports("client_port", message.client_ports))
            policy = _fault(lambda: self.ask_owner(Look(message.security)))
        run_keys = keys.RunKeys(self.directory, chosen)
        own_keys = None if directory else _fault(lambda: run_keys.check(message.party))
        return HostFacts(
            time=now,
            programs=sources_hash(*SOURCES[PROGRAMS]),
            code=sources_hash(*SOURCES[CODE]),
            commit=git(PROJECT, "rev-parse", "HEAD") or "unknown",
            environment=environment(),
            machine=Machine(**machine()),
            engine_version=engine.version(),
            unavailable=engine.availability(chosen) or engine.fault_of_links(chosen),
            unprotected=list(missing()),
            directory=directory,
            free_bytes=0 if directory else shutil.disk_usage(self.directory).free,
            port=turn or port,
            clients=clients,
            keys=own_keys,
            fingerprints={} if directory or own_keys else run_keys.fingerprints(message.party),
            policy=policy,
            notices=notices,
        )

    def _check_ports(self, name: str, ports: Sequence[int]) -> None:
        check_ports(self.directory, self.coordinator, name, ports)

    def listen(self, message: Listen) -> str:
        """Listen as the party or its gateway will, and greet callers; return the greeting.

        Raises HostUnfitError as `take_turn`, or PolicyError for another port than the owner's.
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
            refused.pop_all()
        self.stack.callback(listening.close)
        self._listening.append(listening)
        free = threading.Semaphore(_AT_ONCE)

        def answer() -> None:
            while True:
                free.acquire()
                try:
                    reached, _ = listening.accept()
                except OSError:  # closed
                    return
                # In threads, so that a slow peer keeps few others from an answer.
                threading.Thread(target=_greet, args=(reached, greeting, free), daemon=True).start()

        threading.Thread(target=answer, daemon=True).start()
        return greeting

    def stop_listening(self) -> None:
        """Leave the ports to the party."""
        while self._listening:
            listening = self._listening.pop()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # otherwise `accept` would keep the port
            listening.close()

    def reach(self, message: Reach) -> list[str | None]:
        """Call other parties' ports; return each one's fault, None if its agent answers."""
        return [reach(other.address, other.port, other.greeting) for other in message.others]

    def time_links(self, message: TimeLinks) -> list[LinkTimes | None]:
        """Time the links to other parties' ports, one by one.

        Raises HostUnfitError as `take_turn`, or PolicyError if benchmark runs are not allowed.
        """
        self.ask_owner(Benchmark(None))
        self.take_turn()
        return [time_link(other.address, other.port, other.greeting) for other in message.others]


@contextmanager
def turn_at(directory: Path) -> Iterator[None]:
    """Have a host's turn in the block, as one process at a time does.

    Raises HostUnfitError if another one has the turn, or if others could keep it.
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
        if (signature := _signed(directory)) is not None:
            holder = f"process {signature[0]}, for {signature[1] or 'a key without a name'}"
        raise HostUnfitError(
            f"Another run is under way on it ({holder}); wait for its end, or end it by ./inv hosts.clean."
        )
    try:
        yield
    finally:
        os.close(descriptor)


def end_agent(why: str) -> None:
    """End this process in an orderly way; its coordinator reads why."""
    with suppress(OSError, ValueError):
        print(why, file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def check_directory(directory: Path) -> None:
    """Raise HostUnfitError unless a host's directory is its owner's alone, and nobody else can replace it."""
    if not directory.is_dir():
        raise HostUnfitError(
            f"There is no directory {directory}; run ./inv hosts.setup, or correct hosts.toml."
        )
    if (fault := changeable_by_others(directory)) is not None:
        raise HostUnfitError(fault)


def check_ports(directory: Path, coordinator: str, name: str, ports: Sequence[int]) -> None:
    """Raise PolicyError or HostUnfitError unless a party or gateway can listen there.

    `name` is `port`, or `client_port`, which stands for two ports.
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
    """Return the sentence by which a check refuses, None if it does not."""
    try:
        check()
    except FairSharesError as error:
        return str(error)
    return None


def _greet(reached: socket.socket, greeting: str, free: threading.Semaphore) -> None:
    with reached:
        greet(reached, greeting)
    free.release()


_RESULTS, _SIGNATURE = "results", "agent"
PATIENCE_S = 5.0


def place_of(directory: Path, run: str) -> Path:
    """Return the file of a run's opened values."""
    (directory / _RESULTS).mkdir(mode=0o700, exist_ok=True)
    return directory / _RESULTS / f"{run}.json"


def signed_runs(directory: Path) -> list[Signed]:
    """Return the kept signed statements of runs."""
    paths = sorted((directory / _RESULTS).glob("*.json"))
    refusals = [Refusal(HostUnfitError, str(path), "what a run revealed", "remove it") for path in paths]
    return [as_type(Signed, read_json(path, one), one) for path, one in zip(paths, refusals, strict=True)]


@contextmanager
def signed(directory: Path, coordinator: str) -> Iterator[None]:
    """Name this agent and its coordinator in a directory."""
    place = directory / _SIGNATURE
    write_whole(place, f"{os.getpid()} {birth(os.getpid())} {coordinator}".encode())
    try:
        yield
    finally:
        place.unlink(missing_ok=True)


def clean(directory: Path, own: Collection[Path]) -> Removed:
    """End other agents with their parties; remove all remains but `own` directories."""
    left = [path for path in directory.glob(f"{PREFIX}*") if path not in own]
    agents = {signature[0] for path in (directory, *left) if (signature := _signed(path))} - {os.getpid()}
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


def _signed(directory: Path) -> tuple[int, str] | None:
    try:
        pid, began, coordinator = (directory / _SIGNATURE).read_text().split(" ", 2)
    except (OSError, ValueError):
        return None
    return (int(pid), coordinator) if began == birth(int(pid)) else None


def _end(pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + PATIENCE_S
        while birth(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not birth(pid):
            return


_TRANSFER_S = 60.0  # longest exchange, on a slow and long link
_SIZES = struct.Struct(">II")  # bytes that follow, and bytes wanted back
_LEAST, _MOST = 1 << 16, 1 << 26  # bytes sent at once
_PROBE_S, _LONG_S = (
    0.2,
    1.0,
)  # least time of sending, which grows with the round trip until TCP is at full speed


def greet(reached: socket.socket, greeting: str) -> None:
    """Greet a caller; then receive and send as many bytes as it says.

    Guarantees: little memory for each call.  [test: tests/harness/hosts/test_connection.py]
    """
    reached.settimeout(PATIENCE_S)
    with suppress(OSError), reached.makefile("rb") as incoming:
        reached.sendall(greeting.encode())
        reached.settimeout(_TRANSFER_S)
        while len(sizes := incoming.read(_SIZES.size)) == _SIZES.size:
            follow, wanted = _SIZES.unpack(sizes)
            for piece in _pieces(follow):
                incoming.read(piece)
            for piece in _pieces(wanted):
                reached.sendall(bytes(piece))


def _pieces(size: int) -> Iterator[int]:
    for begin in range(0, min(size, _MOST), _LEAST):
        yield min(_LEAST, min(size, _MOST) - begin)


def reach(address: str, port: int, greeting: str) -> str | None:
    """Return a call's fault, None if the greeting comes back."""
    try:
        with socket.create_connection((address, port), PATIENCE_S) as reached:
            answer = reached.makefile("rb").read(len(greeting))
    except OSError as error:
        return error.strerror or str(error)
    return None if answer == greeting.encode() else "something else answers there"


def time_link(address: str, port: int, greeting: str) -> LinkTimes | None:
    """Return the median round-trip time, and the rate of the slower direction.

    Return None unless `greet` answers.  [test: tests/harness/hosts/test_connection.py]
    """
    with suppress(OSError), socket.create_connection((address, port), PATIENCE_S) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with link.makefile("rb") as incoming:
            if incoming.read(len(greeting)) == greeting.encode():
                link.settimeout(_TRANSFER_S)
                rtt_s = median(_exchange(link, incoming, 0, 1) for _ in range(15))
                there = _rate(link, incoming, rtt_s, outgoing=True)
                back = _rate(link, incoming, rtt_s, outgoing=False)
                return LinkTimes(rtt_s=rtt_s, bits_per_s=min(there, back))
    return None


def _rate(link: socket.socket, incoming: BinaryIO, rtt_s: float, *, outgoing: bool) -> float:
    size, took = _LEAST // 4, 0.0
    while size < _MOST and took < max(_PROBE_S, min(20 * rtt_s, _LONG_S)):
        size *= 4
        took = _exchange(link, incoming, *((size, 1) if outgoing else (0, size)))
    return 8 * size / max(took - rtt_s, 1e-9)


def _exchange(link: socket.socket, incoming: BinaryIO, sent: int, wanted: int) -> float:
    started = time.perf_counter()
    link.sendall(_SIZES.pack(sent, wanted) + bytes(sent))
    if len(incoming.read(wanted)) < wanted:
        raise ConnectionResetError
    return time.perf_counter() - started
