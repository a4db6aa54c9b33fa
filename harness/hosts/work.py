"""What an agent can do for its host's party: each method one request, in the order in which they come."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.engines.base import PROGRAMS, PROJECT, Job, Prepared
from harness.engines.parties.handle import LocalProcess
from harness.engines.program_hash import sources_hash
from harness.engines.registry import engine_of
from harness.errors import CertificateError, HostUnfitError, PartyFailedError, ShareError
from harness.hosts import cleanup, keys
from harness.inputs.aggregation import (
    UploadReport,
    aggregate,
    extract_values,
    paths_of,
    policy_from_json,
    uploads_at,
)
from harness.inputs.shares import SUFFIX
from harness.pipeline.manifest import environment
from harness.pipeline.terms import read_terms
from harness.security_models import Model, get_model
from harness.system.files import scratch_directory, writable_by_others, write_whole
from protocols.spec import PROTOCOLS

# What has to be the same everywhere, by what messages call it.
SOURCES = {
    "programs and circuits": ("Programs/Source", "protocols/circuits"),
    "code": ("harness", "protocols"),
}

FACTS = ("engine_version", "program_hash", "compile_options", "compile_s")  # of a prepared program
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\.(share|aggregate)")
_ARGUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./^+-]*")  # none that a compiler would take for an option
_RUN = re.compile(r"[0-9a-f]{32}")
_PARTY = re.compile(r"[0-9]{1,3}")
_REQUESTS = (
    *("check", "listen", "stop_listening", "reach", "setup", "pin", "put_file", "check_uploads", "aggregate"),
    *("prepare", "start", "go", "state", "kill", "forget", "collect", "clean"),
)
_NONCE_BYTES = 16
_CONNECT_S = 5.0
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

    Args: directory: the host's own; stack: closed when the connection ends, however it does; read_body:
    writes the bytes that follow a request to a file.
    """

    def __init__(self, directory: Path, stack: ExitStack, read_body: Callable[[int, int], None]) -> None:
        self._directory, self._stack, self._read_body = directory, stack, read_body
        self._scratch: Path | None = None
        self._report: UploadReport | None = None
        self._values: Path | None = None
        self._party: LocalProcess | None = None
        self._engine = ""
        self._listening: list[socket.socket] = []
        self._record: dict[str, Any] = {}
        self.is_running = False
        self.handlers = {name: getattr(self, name) for name in _REQUESTS}

    # Before a run.

    def check(self, party: int, model: str, port: int, client_ports: list[int]) -> dict[str, Any]:
        """Say what a run depends on here; nothing of it is secret. Args: client_ports: if it takes any."""
        now, chosen = time.time(), get_model(model)
        engine = engine_of(chosen)
        return {
            "time": now,
            **{what: sources_hash(*directories) for what, directories in SOURCES.items()},
            "commit": _commit(),
            "environment": environment(),
            "engine_version": engine.version(),
            "unavailable": engine.availability(chosen),
            "directory": self._fault_of_directory(),
            "free_bytes": shutil.disk_usage(_existing(self._directory)).free,
            "port": port_fault("Its party", port),
            "clients": next(filter(None, (port_fault("For clients it", one) for one in client_ports)), None),
            "certificates": keys.own_certificates(self._directory, party),
            "pinned": {
                name: {str(other): text for other, text in certificates.items()}
                for name, certificates in keys.pinned(self._directory).items()
            },
        }

    def listen(self, port: int) -> str:
        """Listen where the party will, or its gateway, and greet who comes; return the greeting."""
        greeting = os.urandom(_NONCE_BYTES).hex()
        listening = self._stack.enter_context(_listening(port))
        self._listening.append(listening)

        def greet() -> None:
            while True:
                try:
                    reached, _ = listening.accept()
                except OSError:  # closed
                    return
                with reached:
                    reached.sendall(greeting.encode())

        threading.Thread(target=greet, daemon=True).start()
        return greeting

    def stop_listening(self) -> None:
        """Listen no more: the ports are the party's."""
        while self._listening:
            listening = self._listening.pop()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # or `accept` would keep it
            listening.close()

    def reach(self, others: Sequence[tuple[str, int, str]]) -> list[str | None]:
        """Connect to other parties' ports; return per party what is wrong, None if its agent answers."""
        return [reach(*other) for other in others]

    def setup(self, party: int, renew: bool) -> dict[str, str]:
        """Make this host's directory and keys, if need be; return its certificates by engine."""
        return keys.make_keys(self._directory, party, renew=renew)

    def pin(self, party: int, certificates: dict[str, dict[str, str]]) -> None:
        """Hold on to other parties' certificates."""
        by_party = {name: _by_party(texts) for name, texts in certificates.items()}
        keys.pin(self._directory, party, by_party)

    # A run.

    def put_file(self, name: str, bytes: int) -> None:
        """Keep a share file of this party, which follows the request.

        Args: bytes: its length. Raises: ShareError: its name is none of a share file, or is there already.
        """
        received, incoming = self._own_scratch() / "received", self._own_scratch() / "incoming"
        self._read_body(bytes, os.open(incoming, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
        if not _NAME.fullmatch(name) or (received / name).exists():
            raise ShareError(f"{name!r} is no name of a new share file.")
        received.mkdir(exist_ok=True)
        incoming.rename(received / name)

    def check_uploads(self, party: int, rules: dict[str, Any]) -> dict[str, Any] | None:
        """Say which uploads in the host's own directory are sound; None if they are aggregated already.

        Reveals: identities, names and kinds of uploads. Args: rules: what they have to be.
        """
        shares = self._shares_of(party)
        if any(shares.glob("*.aggregate")):
            return None
        self._report = uploads_at(party, shares, policy_from_json(rules))
        return self._report.to_json()

    def aggregate(self, party: int, without: list[str] | None = None) -> dict[str, Any]:
        """Aggregate this party's shares; return what all may know of them.

        They are those that were put here, else what lies in the host's own directory `shares`.
        Reveals: the aggregate's first two lines, its header and the uploads' identities, and their size.
        Args: without: identities of sound uploads, as `check_uploads` said, that are left out; None: all
        uploads that there are have to be sound.
        Raises: ShareError: there are none, one is not sound, or more than one aggregate is there.
        """
        scratch, shares = self._own_scratch(), self._shares_of(party)
        ready = sorted(shares.glob("*.aggregate"))
        if len(ready) > 1:
            raise ShareError(f"{shares} holds more than one aggregate; leave one.")
        aggregated = ready[0] if ready else scratch / f"party-{party}.aggregate"
        if not ready:
            taken = None
            if without is not None and self._report is not None:
                taken = paths_of(set(self._report.sound) - set(without), self._report, shares)
            aggregate(party, shares, aggregated, taken)
        self._values = extract_values(aggregated, scratch / "values")
        with aggregated.open("rb") as file:
            head = file.readline() + file.readline()
        return {
            "head": head.decode(),
            "bytes": sum(path.stat().st_size for path in shares.glob(f"*{SUFFIX}")),
        }

    def _shares_of(self, party: int) -> Path:
        """Return where this party's shares are: those that were put here, or the host's own."""
        received, own = self._own_scratch() / "received", self._directory / "shares"
        shares = received if received.is_dir() else own / f"party-{party}"
        return shares if shares.is_dir() else own

    def prepare(
        self,
        run: str,
        party: int,
        model: str,
        protocol: str,
        arguments: list[str],
        fair_bits: list[tuple[int, int]],
        addresses: list[tuple[str, int]],
        clients: Sending | None = None,
    ) -> dict[str, Any]:
        """Compile the program here, from this host's own sources; say what came of it.

        Guarantees: where clients send, what runs is what the terms say that this host tells them.
        [test: tests/harness/hosts/test_work.py]
        Args: addresses: of all parties as this one reaches them; its own port is where it listens; clients:
        that send while it runs.
        Raises: HostUnfitError: no command asks for that, or a port is taken; CertificateError: of the keys.
        """
        known = _RUN.fullmatch(run) and protocol in PROTOCOLS and 0 <= party < len(addresses)
        if not known or not all(map(_ARGUMENT.fullmatch, arguments)):
            raise HostUnfitError("It was asked to compile what no command of FairShares asks for.")
        chosen, spec = get_model(model), PROTOCOLS[protocol]
        engine = engine_of(chosen)
        bits = tuple((width, lanes) for width, lanes in fair_bits)
        job = Job(
            spec, PROGRAMS / f"{spec.name}.mpc", tuple(arguments), (None,) * chosen.parties, fair_bits=bits
        )
        if clients is not None:
            job = _promised(job, chosen, clients)
        job.check_parties(chosen)
        keys.check_keys(self._directory, engine.name, party, chosen.parties)
        for port in (addresses[party][1], *(clients.ports if clients else ())):
            fault = port_fault("Its party", port)
            if fault is not None:
                raise HostUnfitError(fault)
        prepared = self._stack.enter_context(engine.prepared(job, chosen))
        facts = {name: getattr(prepared, name) for name in FACTS}
        self._engine = engine.name
        self._lay_out(prepared, party, addresses, clients)
        self._record = {
            "run": run,
            "party": party,
            "model": model,
            "protocol": protocol,
            "arguments": arguments,
            **facts,
        }
        return facts

    def _lay_out(
        self,
        prepared: Prepared,
        party: int,
        addresses: list[tuple[str, int]],
        clients: Sending | None,
    ) -> None:
        engine, sending = engine_of(prepared.model), prepared.job.clients
        config = engine.config(prepared, party, addresses)
        config["keys"] = os.fspath(self._directory / keys.DIRECTORY / engine.name)
        if clients is not None and sending is not None:
            config["front"] = sending.front(_ANYWHERE, *clients.ports, clients.seconds)
        self._party = LocalProcess(prepared.job, config, self._own_scratch() / "party", self._values)
        self._stack.callback(self.kill)

    def start(self, seconds: float) -> str:
        """Start the party's process; return its certificate once it is ready.

        Raises: PartyFailedError: it is not after so many seconds.
        """
        party = self._laid_out()
        party.start()
        certificate = party.certificate(seconds)
        if certificate is None:
            raise PartyFailedError(f"{party.name} was not ready after {seconds:g} s.")
        return certificate

    def go(self, certificates: dict[str, str]) -> None:
        """Let the party begin, with the certificates that this host holds on to.

        Args: certificates: the parties' own, as whoever started them says; they have to be the same.
        Raises: CertificateError: one is not.
        """
        party, held = self._laid_out(), keys.pinned(self._directory)[self._engine]
        for other, certificate in _by_party(certificates).items():
            if other != party.number and held.get(other) != certificate:
                raise CertificateError(f"Party {other} has another certificate than this host holds of it.")
        party.go(held)
        self.is_running = True

    def state(self) -> dict[str, Any]:
        """Say how the party does; its lines are filtered, as all that leaves a party is."""
        party = self._laid_out()
        return {
            "lines": party.lines(),
            "stopped": party.is_stopped(),
            "no_room": party.lacks_room(),
            "peak_memory_bytes": party.peak_memory_bytes(),
        }

    def ended(self) -> dict[str, Any] | None:
        """Say how the party ended, None while it runs; keep what it opened, until it is known to be read."""
        code = self._laid_out().exit_code()
        if code is None:
            return None
        self.is_running = False
        state = {"code": code, **self.state()}
        if code == 0:
            record = {**self._record, **state, "ended": datetime.now(UTC).isoformat(timespec="seconds")}
            write_whole(cleanup.place_of(self._directory, self._record["run"]), json.dumps(record).encode())
        return state

    def kill(self) -> None:
        """End the party, if there is one."""
        if self._party is not None:
            self._party.kill()
            self._party.close()
        self.is_running = False

    # After a run.

    def forget(self, run: str) -> None:
        """Remove what a run opened: it has been read."""
        if _RUN.fullmatch(run):
            cleanup.place_of(self._directory, run).unlink(missing_ok=True)

    def collect(self) -> list[dict[str, Any]]:
        """Return what runs opened here that nobody has read."""
        return cleanup.records(self._directory)

    def clean(self) -> dict[str, int]:
        """End processes of other connections, remove what they left; return how many of each there were."""
        return cleanup.clean(self._directory, self._scratch)

    def _own_scratch(self) -> Path:
        if self._scratch is None:
            fault = self._fault_of_directory()
            if fault is not None:
                raise HostUnfitError(fault)
            self._scratch = self._stack.enter_context(scratch_directory(self._directory))
            cleanup.sign(self._scratch)
        return self._scratch

    def _laid_out(self) -> LocalProcess:
        if self._party is None:
            raise HostUnfitError("It has prepared no party.")
        return self._party

    def _fault_of_directory(self) -> str | None:
        if not self._directory.is_dir():
            return f"There is no directory {self._directory}; run ./inv hosts.setup, or correct hosts.toml."
        return writable_by_others(self._directory)


def _by_party(certificates: dict[str, str]) -> dict[int, str]:
    if not all(map(_PARTY.fullmatch, certificates)):
        raise HostUnfitError("It was told certificates of what is no party.")
    return {int(other): text for other, text in certificates.items()}


def _promised(asked: Job, model: Model, clients: Sending) -> Job:
    """Return the job that clients' terms promise. Raises: HostUnfitError: another one is asked for."""
    terms = read_terms(clients.terms, "What clients are told")
    job = terms.job(clients.certificates)
    assert job.clients is not None
    terms_of_job, same = job.clients.terms, ("spec", "source", "arguments", "fair_bits")
    differs = [name for name in same if getattr(job, name) != getattr(asked, name)]
    if differs or terms_of_job != clients.terms or terms.release.model != model:
        raise HostUnfitError("It was asked to run something else than clients are told.")
    return job


def port_fault(whose: str, port: int) -> str | None:
    """Return why nothing of that name can listen there, None if it can."""
    try:
        _listening(port).close()
    except OSError as error:
        return f"{whose} cannot listen on port {port}: {error.strerror}."
    return None


def _listening(port: int) -> socket.socket:
    return socket.create_server(("", port))


def reach(address: str, port: int, greeting: str) -> str | None:
    """Connect; return what is wrong, None if what answers there gives this greeting."""
    try:
        with socket.create_connection((address, port), _CONNECT_S) as reached:
            answer = reached.makefile("rb").read(len(greeting))
    except OSError as error:
        return error.strerror or str(error)
    return None if answer == greeting.encode() else "something else answers there"


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
