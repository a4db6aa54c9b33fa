"""What an agent can do for its host's party: each method one request, in the order in which they come."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.engines.base import PROJECT, Job, Prepared
from harness.engines.engine import left_out_by
from harness.engines.output_parser import parse_outputs
from harness.engines.parties.handle import OWN, LocalProcess
from harness.engines.program_hash import sources_hash
from harness.engines.registry import engine_of
from harness.errors import HostUnfitError, PartyFailedError, PolicyError
from harness.hosts import cleanup, keys, wire
from harness.hosts.guard import Guard
from harness.hosts.inventory import ADDRESS
from harness.hosts.links import greet, reach, time_link
from harness.hosts.policy import FILE, read_policy
from harness.hosts.signed_results import INVITED, Intent, Signed, Statement, check_agreement, sign
from harness.hosts.trials import Trial
from harness.hosts.uploads import Uploads, once
from harness.pipeline.manifest import environment, machine
from harness.pipeline.terms import Asked
from harness.privacy.ledger.populations import Status
from harness.security_models import Model, get_model
from harness.system.files import create_file, held_alone, scratch_directory, writable_by_others, write_whole
from protocols.spec import CLIENTS

# What has to be the same everywhere, by what messages call it.
SOURCES = {
    "programs and circuits": ("Programs/Source", "protocols/circuits"),
    "code": ("harness", "protocols"),
}

FACTS = ("engine_version", "program_hash", "compile_options", "compile_s")  # of a prepared program
_ARGUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./^+-]*")  # none that a compiler would take for an option
_REQUESTS = (
    *("check", "listen", "stop_listening", "reach", "time_links", "propose", "benchmark", "prepare"),
    *("agree", "start", "go", "state", "kill", "forget", "collect", "clean"),
)
_OF_UPLOADS = ("check_uploads", "take_list", "aggregate")
_NONCE_BYTES = 16
_IDLE_S = 3600.0  # without a run, after which a turn ends, and its connection
_AT_ONCE = 64  # who come to a port where the agent listens, so that they take little memory
_MEET_S = 600.0  # for a party to meet all others; before that, no input leaves it
_ALONE = f"{OWN}It had not met all other parties after {_MEET_S:g} s."
MAX_SKEW_S = 60.0
_ANYWHERE = "0.0.0.0"  # all of the host's addresses, as parties listen


@dataclass(frozen=True)
class Sending:
    """Clients that send while a party runs. Attributes: ports: the gateway's, its machine's."""

    terms: dict[str, Any]
    certificates: list[str]
    ports: tuple[int, int]
    seconds: float


class Work:
    """One host's work for one connection.

    Args: directory: the host's own; stack: closed when the connection ends, however it does; starter: whom
    the host's own command line names, if anybody.
    """

    def __init__(self, directory: Path, stack: ExitStack, starter: str = "") -> None:
        self._directory, self._stack = directory, stack
        self._turn = stack.enter_context(ExitStack())  # ends last
        self._run = stack.enter_context(ExitStack())  # what a run has, its files included
        self._starter = starter
        self._trial: Trial | None = None
        self._guard: Guard | None = None
        self._scratch: Path | None = None
        self._values: Path | None = None  # of a benchmark run
        self._party: LocalProcess | None = None
        self._listening: list[socket.socket] = []
        self._held: socket.socket | None = None  # the party's port, from when it agrees until it begins
        self._is_ready = False  # the party's process
        self._record: dict[str, Any] = {}
        self._nonce = secrets.token_hex(_NONCE_BYTES)
        self._has_turn = False
        self._idle: threading.Timer | None = None
        self._meets_by, self._alone = math.inf, False
        self._intent: Intent | None = None
        self.is_running = False
        self.uploads = Uploads(directory, self._guarded, self._own_scratch, self._nonce)
        self.handlers = {
            **{name: getattr(self, name) for name in _REQUESTS},
            **{name: getattr(self.uploads, name) for name in _OF_UPLOADS},
        }

    def admit(self, request: str) -> None:
        """Check that this starter may ask anything. Raises: PolicyError.

        A host without a policy says by `check` that it has none, and nothing else.
        """
        if request != "check" or os.path.lexists(self._directory / FILE):
            read_policy(self._directory).check_starter(self._starter)

    # Before a run.

    def check(self, party: int, model: str, port: int, client_ports: list[int]) -> dict[str, Any]:
        """Say what a run depends on here; nothing of it is secret. Args: client_ports: if it takes any.

        From here on no other connection checks or runs anything, or their parties would meet who listens.
        """
        now, chosen = time.time(), get_model(model)
        engine, policy = engine_of(chosen), self._fault_of_policy()
        has_policy = policy is None and self._fault_of_directory() is None
        return {
            "time": now,
            **{what: sources_hash(*directories) for what, directories in SOURCES.items()},
            "commit": _commit(),
            "environment": environment(),
            "machine": machine(),
            "engine_version": engine.version(),
            "unavailable": engine.availability(chosen) or engine.fault_of_links(chosen),
            "directory": self._fault_of_directory(),
            "free_bytes": shutil.disk_usage(_existing(self._directory)).free,
            "port": self._fault_of_turn() or (self._fault_of_ports(port, []) if has_policy else None),
            "clients": self._fault_of_ports(None, client_ports) if has_policy else None,
            "certificates": keys.own_certificates(self._directory, party),
            "pinned": {
                name: {str(other): text for other, text in certificates.items()}
                for name, certificates in keys.pinned(self._directory).items()
            },
            "policy": policy,
        }

    def listen(self, port: int) -> str:
        """Listen where the party will, or its gateway, and greet who comes; return the greeting.

        Raises: HostUnfitError: another connection has the host; PolicyError: its party listens elsewhere.
        """
        policy = read_policy(self._directory)
        of_clients = policy.client_port and port == policy.client_port
        policy.check_ports(*((None, [port, port + 1]) if of_clients else (port,)))
        self._take_turn()
        greeting = secrets.token_hex(_NONCE_BYTES)
        listening = self._stack.enter_context(_listening(port))
        self._listening.append(listening)
        free = threading.Semaphore(_AT_ONCE)

        def answer() -> None:
            while True:
                free.acquire()
                try:
                    reached, _ = listening.accept()
                except OSError:  # closed
                    return
                # Each by itself: who is slow, or no agent, keeps few others from an answer.
                threading.Thread(target=_greet, args=(reached, greeting, free), daemon=True).start()

        threading.Thread(target=answer, daemon=True).start()
        return greeting

    def stop_listening(self) -> None:
        """Listen no more: the ports are the party's."""
        while self._listening:
            listening = self._listening.pop()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # or `accept` would keep it
            listening.close()

    def reach(self, others: Sequence[tuple[str, int, str]]) -> list[str | None]:
        """Connect to other parties' ports; return per party what is wrong, None if its agent answers.

        Raises: HostUnfitError: what is to answer is no greeting of an agent.
        """
        _check_greetings(others)
        return [reach(*other) for other in others]

    def time_links(self, others: Sequence[tuple[str, int, str]]) -> list[tuple[float, float] | None]:
        """Return how fast other parties' ports are reached, one after the other; see `time_link`.

        Raises: PolicyError: the host's owner allows no benchmark runs; as `reach` and `listen`.
        """
        self._check_benchmark()
        self._take_turn()
        _check_greetings(others)
        return [time_link(*other) for other in others]

    # A run.

    def propose(self, asked: Asked) -> None:
        """Take a release that this party is to take part in; all that follows is for it.

        From here on no other connection takes part in a run: what this one signs is of one run alone.
        Raises: PolicyError: the host's owner does not allow it; OptionError, UnsupportedError: there is none;
        as `listen`.
        """
        self._take_turn()
        once(self._guard or self._trial, "taken part in another run")
        self._guard = Guard(self._directory, asked, self._starter)

    def benchmark(self, party: int, trial: Trial) -> None:
        """Take a run on made-up records that this party is to take part in, in place of the last such run.

        Guarantees: no share is in it, neither of this host's own nor of those that starters send: only
        `aggregate` reads any, after `propose`, which no connection with a benchmark run has.
        [test: tests/harness/hosts/test_trials.py]
        Raises: PolicyError: the host's owner allows none; as `Trial.job` and `listen`.
        """
        self._check_benchmark()
        self._take_turn()
        once(self._guard, "taken part in another run")
        self._run.close()
        self._scratch = self._values = self._party = None
        self._trial, values = trial, trial.values(party)
        if values is not None:
            self._values = self._own_scratch() / "values"
            create_file(self._values, values)

    def prepare(
        self, run: str, party: int, addresses: list[tuple[str, int]], clients: Sending | None = None
    ) -> dict[str, Any]:
        """Compile here, from this host's own sources, what was proposed; say what came of it.

        Guarantees: program, arguments and noise follow from what was proposed and from this host's own
        inputs; where clients send, they are told of the same release.
        [test: tests/harness/hosts/test_guard.py]
        Args: addresses: of all parties as this one reaches them; its own port is where it listens; clients:
        that send while it runs.
        Raises: HostUnfitError: a port is taken, or there is nothing to run on; as `Guard.job`;
        CertificateError: of the keys.
        """
        once(self._party, "prepared a party")
        self._take_turn()
        model = self._model
        if not cleanup.RUN.fullmatch(run) or not 0 <= party < len(addresses) == model.parties:
            raise HostUnfitError("It was asked for a run of other parties than its model has.")
        if not all(ADDRESS.fullmatch(address) for address, _ in addresses):
            raise HostUnfitError("It was told an address that is neither a name nor an IPv4 address.")
        job, engine = self._job(clients), engine_of(model)
        if not all(map(_ARGUMENT.fullmatch, job.arguments)):
            raise HostUnfitError("It was asked to compile what no command of FairShares asks for.")
        self._keys.check(party)
        ports = list(clients.ports) if clients else []
        if (fault := self._fault_of_ports(addresses[party][1], ports)) is not None:
            raise HostUnfitError(fault)
        prepared = self._run.enter_context(engine.prepared(job, model))
        if prepared.fault_of_links is not None:
            raise HostUnfitError(prepared.fault_of_links)
        facts = {name: getattr(prepared, name) for name in FACTS}
        self._lay_out(prepared, party, addresses, clients)
        self._record = {
            "run": run,
            "party": party,
            "model": model.name,
            "protocol": job.spec.name,
            "arguments": list(job.arguments),
            **facts,
        }
        return {**facts, "nonce": self._nonce}

    def _job(self, clients: Sending | None) -> Job:
        if self._trial is not None:
            job = self._trial.job(self._directory, clients.certificates if clients else ())
            if (clients is None) != (job.clients is None):
                raise HostUnfitError("It was asked for a run before it had any inputs.")
            return job
        guard = self._guarded()
        inputs = guard.sent(clients.terms, clients.certificates) if clients else self.uploads.inputs
        if inputs is None or (clients is None) == (guard.release.form.path is CLIENTS):
            raise HostUnfitError("It was asked for a run before it had any inputs.")
        return guard.job(inputs)

    def agree(self, nonces: list[str], started: str) -> dict[str, str] | None:
        """Hold the party's port, and sign what this host is about to run; see `check_agreement`.

        Until the party has the port, it refuses connections: a peer that comes too early tries again.
        Args: nonces: of all parties, in order; started: now, in ISO 8601.
        Returns: nothing for a benchmark run: no host's party in a release meets one.
        Raises: HostUnfitError: its own nonce is another, or its clock says so.
        """
        if self._trial is not None:
            return None
        once(self._intent, "agreed to a run")
        party, guard = self._laid_out().number, self._guarded()
        if nonces[party : party + 1] != [self._nonce]:
            raise HostUnfitError("It was asked to agree to a run that is not the one that it prepared.")
        now = datetime.now(UTC)
        if not abs((_time_of(started) - now).total_seconds()) <= MAX_SKEW_S:
            raise HostUnfitError(
                f"It was told that the run starts at {started[:40]!r}, and its own clock says {now:%FT%TZ}; "
                "set both clocks, by NTP for example."
            )
        self._held = self._run.enter_context(socket.socket())
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("", read_policy(self._directory).port))
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # else others could listen there
        self._intent = guard.intent(
            nonces, started, self._record, self.uploads.heard, self.uploads.source or INVITED
        )
        return sign(self._intent, self._keys.own(party))

    def _lay_out(
        self,
        prepared: Prepared,
        party: int,
        addresses: list[tuple[str, int]],
        clients: Sending | None,
    ) -> None:
        engine, sending = engine_of(prepared.model), prepared.job.clients
        config = engine.config(prepared, party, addresses)
        if self._trial is None:  # else a party of its own, which nobody takes for the host's in a release
            config["keys"] = os.fspath(self._directory / keys.DIRECTORY / engine.name)
        if clients is not None and sending is not None:
            config["front"] = sending.front(_ANYWHERE, *clients.ports, clients.seconds)
        values = self._values if self._trial else self.uploads.values
        self._party = LocalProcess(prepared.job, config, self._own_scratch() / "party", values)
        self._run.callback(self.kill)

    def start(self, seconds: float) -> str:
        """Start the party's process; return its certificate once it is ready.

        Raises: PartyFailedError: it is not after so many seconds.
        """
        party = self._laid_out()
        party.start()
        certificate = party.certificate(seconds)
        if certificate is None:
            raise PartyFailedError(f"{party.name} was not ready after {seconds:g} s.")
        self._is_ready = True
        return certificate

    def go(self, agreed: dict[str, Signed], certificates: dict[str, str] | None = None) -> None:
        """Charge the run to the host's own ledger, then let the party begin, with the certificates it holds.

        Args: agreed: what each party's host signed; certificates: of a benchmark run's parties, which made
        keys of their own. Raises: as `check_agreement`; as `Guard.charge`.
        """
        party = self._laid_out()
        held = keys.by_party(certificates or {}) if self._trial else self._keys.others(party.number)
        if not self._is_ready or (self._trial is None and self._intent is None):
            raise HostUnfitError("It has agreed to no run that is still to begin.")
        if self._intent is not None:
            check_agreement(self._intent, keys.by_party(agreed), held)
            self._guarded().charge()
        self._is_ready = False
        if self._held is not None:
            self._held.close()
        self.stop_listening()
        party.go(held)
        self.is_running, self._meets_by = True, time.monotonic() + _MEET_S
        if self._idle is not None:
            self._idle.cancel()

    def state(self) -> dict[str, Any]:
        """Say how the party does; its lines are filtered, as all that leaves a party is."""
        party = self._laid_out()
        return {
            "lines": (*party.lines(), *([_ALONE] if self._alone else [])),
            "stopped": party.is_stopped(),
            "no_room": party.lacks_room(),
            "peak_memory_bytes": party.peak_memory_bytes(),
        }

    def ended(self) -> dict[str, Any] | None:
        """Say how the party ended, None while it runs; keep what it opened, until it is known to be read."""
        party = self._laid_out()
        if time.monotonic() > self._meets_by:
            self._meets_by = math.inf
            if len(party.met()) < self._model.parties - 1:
                self._alone = True
                party.kill()
        code = party.exit_code()
        if code is None:
            return None
        self.is_running = False
        self._expect_run()
        if self._trial is not None:
            return {"code": code, **self.state()}
        self._guarded().settle(Status.ABORTED if code else Status.DONE)
        state = {"code": code, **self.state()}
        if code == 0:
            state["signed"] = self._signed(state["lines"])
            record = {**self._record, **state, "ended": datetime.now(UTC).isoformat(timespec="seconds")}
            place = cleanup.place_of(self._directory, self._record["run"])
            with suppress(OSError):  # no room for it: who asked is told all the same
                write_whole(place, json.dumps(record).encode())
        return state

    def _signed(self, lines: Sequence[str]) -> dict[str, str]:
        """Return this host's signature of what its party revealed."""
        guard, party = self._guarded(), self._laid_out().number
        assert guard.event is not None
        assert self._intent is not None
        outputs = parse_outputs([lines], guard.release.program_of(guard.statistic.spec).outputs)
        statement = Statement(
            self._intent,
            {str(other): text for other, text in self._laid_out().met().items()},
            str(guard.event.exact.epsilon),
            str(guard.event.exact.delta),
            {name: list(values) for name, values in outputs.items()},
            left_out_by(party, lines) if self._intent.source == INVITED else {},
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return sign(statement, self._keys.own(party))

    @property
    def _keys(self) -> keys.RunKeys:
        return keys.RunKeys(self._directory, engine_of(self._model).name, self._model.parties)

    def _fault_of_turn(self) -> str | None:
        """Let no other connection check or prepare a run until this one ends; say so if one has."""
        if not self._has_turn and self._directory.is_dir():
            descriptor = held_alone(self._directory)
            if descriptor is None:
                return (
                    f"Another run is under way on it ({cleanup.holder(self._directory)}); wait for its end, "
                    "or end it by ./inv hosts.clean."
                )
            self._turn.callback(os.close, descriptor)
            self._turn.enter_context(cleanup.signed(self._directory, self._starter))
            self._has_turn = True
            self._expect_run()
        return None

    def _expect_run(self) -> None:
        """End this connection, and with it its turn, unless a run begins in time."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = threading.Timer(_IDLE_S, os.kill, [os.getpid(), signal.SIGTERM])
        self._turn.callback(self._idle.cancel)
        self._idle.daemon = True
        self._idle.start()

    def _take_turn(self) -> None:
        busy = self._fault_of_turn()
        if busy is not None:
            raise HostUnfitError(busy)

    def kill(self) -> None:
        """End the party, if there is one."""
        if self._party is not None:
            self._party.kill()
            self._party.close()
        if self.is_running:
            self.is_running = False
            self._expect_run()

    # After a run.

    def forget(self, run: str) -> None:
        """Remove what a run opened: it has been read."""
        if cleanup.RUN.fullmatch(run):
            cleanup.place_of(self._directory, run).unlink(missing_ok=True)

    def collect(self) -> list[dict[str, Any]]:
        """Return what runs opened here that nobody has read."""
        return [asdict(kept) for kept in cleanup.records(self._directory)]

    def clean(self) -> cleanup.Removed:
        """End processes of other connections, remove what they left; return how many of each there were."""
        return cleanup.clean(self._directory, self._scratch)

    def _own_scratch(self) -> Path:
        if self._scratch is None:
            fault = self._fault_of_directory()
            if fault is not None:
                raise HostUnfitError(fault)
            self._scratch = self._run.enter_context(scratch_directory(self._directory))
            self._run.enter_context(cleanup.signed(self._scratch, self._starter))
        return self._scratch

    def _laid_out(self) -> LocalProcess:
        if self._party is None:
            raise HostUnfitError("It has prepared no party.")
        return self._party

    @property
    def longest(self) -> int:
        """How long a request may be: until the owner's policy has accepted a run, none says much."""
        return wire.LONGEST if self._guard or self._trial else wire.SHORT

    @property
    def _model(self) -> Model:
        return self._trial.of if self._trial else self._guarded().release.model

    def _guarded(self) -> Guard:
        if self._guard is None:
            raise HostUnfitError("No release was proposed to it.")
        return self._guard

    def _check_benchmark(self) -> None:
        read_policy(self._directory).check_benchmark()

    def _fault_of_ports(self, port: int | None, client_ports: Sequence[int]) -> str | None:
        """Return why its party, or its gateway, cannot listen there: its policy, or another process."""
        try:
            read_policy(self._directory).check_ports(port, client_ports)
        except PolicyError as error:
            return str(error)
        asked = [] if port is None else [("Its party", port)]
        asked += [("For clients it", client_port) for client_port in client_ports]
        return next(filter(None, (port_fault(whose, number) for whose, number in asked)), None)

    def _fault_of_policy(self) -> str | None:
        if self._fault_of_directory() is None:
            try:
                read_policy(self._directory)
            except PolicyError as error:
                return str(error)
        return None

    def _fault_of_directory(self) -> str | None:
        if not self._directory.is_dir():
            return f"There is no directory {self._directory}; run ./inv hosts.setup, or correct hosts.toml."
        return writable_by_others(self._directory)


def _greet(reached: socket.socket, greeting: str, free: threading.Semaphore) -> None:
    with reached:
        greet(reached, greeting)
    free.release()


def _check_greetings(others: Sequence[tuple[str, int, str]]) -> None:
    if not all(cleanup.RUN.fullmatch(greeting) for _, _, greeting in others):
        raise HostUnfitError("It was told of greetings that no agent gives.")


def port_fault(whose: str, port: int) -> str | None:
    """Return why nothing of that name can listen there, None if it can."""
    try:
        _listening(port).close()
    except OSError as error:
        return f"{whose} cannot listen on port {port}: {os.strerror(error.errno or 0)}."
    return None


def _listening(port: int) -> socket.socket:
    return socket.create_server(("", port))


def _time_of(text: str) -> datetime:
    """Return a time in ISO 8601; one that is far from now where it is none."""
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return datetime.max.replace(tzinfo=UTC)


def _existing(directory: Path) -> Path:
    return next(path for path in (directory, *directory.parents) if path.is_dir())


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(PROJECT), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"
