"""What an agent can do for its host's party: each method one request, in the order in which they come."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.engines.base import PROJECT, Job, Prepared
from harness.engines.output_parser import parse_outputs
from harness.engines.parties.certificates import fingerprint
from harness.engines.parties.handle import LocalProcess
from harness.engines.program_hash import sources_hash
from harness.engines.registry import engine_of
from harness.errors import HostUnfitError, PartyFailedError, PolicyError, ShareError
from harness.hosts import cleanup, keys
from harness.hosts.guard import Guard
from harness.hosts.links import greet, reach, time_link
from harness.hosts.policy import check_starter, read_policy
from harness.hosts.signed_results import (
    Intent,
    Signed,
    Statement,
    UploadList,
    check_agreement,
    lists_of_others,
    sign,
)
from harness.hosts.trials import Trial
from harness.inputs.aggregation import (
    Agreement,
    UploadReport,
    aggregate,
    check_own,
    extract_values,
    paths_of,
    policy_from_json,
    uploads_at,
)
from harness.inputs.shares import SUFFIX
from harness.pipeline.manifest import environment, machine
from harness.pipeline.party_inputs import PartyInputs, agreed, inputs_in
from harness.pipeline.terms import Asked
from harness.privacy.ledger.populations import Status
from harness.security_models import Model, get_model
from harness.system.files import create_file, held_alone, scratch_directory, writable_by_others, write_whole
from protocols.spec import CLIENTS, REPLICATED

# What has to be the same everywhere, by what messages call it.
SOURCES = {
    "programs and circuits": ("Programs/Source", "protocols/circuits"),
    "code": ("harness", "protocols"),
}

FACTS = ("engine_version", "program_hash", "compile_options", "compile_s")  # of a prepared program
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\.(share|aggregate)")
_ARGUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./^+-]*")  # none that a compiler would take for an option
_RUN = re.compile(r"[0-9a-f]{32}")
_REQUESTS = (
    *("check", "listen", "stop_listening", "reach", "time_links", "propose", "benchmark", "put_file"),
    *("check_uploads", "take_list", "aggregate", "prepare", "agree", "start", "go", "state", "kill"),
    *("forget", "collect", "clean"),
)
_NONCE_BYTES = 16
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
    writes the bytes that follow a request to a file; starter: whom the host's own command line names, if
    anybody.
    """

    def __init__(
        self, directory: Path, stack: ExitStack, read_body: Callable[[int, int], None], starter: str = ""
    ) -> None:
        self._directory, self._stack, self._read_body = directory, stack, read_body
        self._turn = stack.enter_context(ExitStack())  # ends last
        self._run = stack.enter_context(ExitStack())  # what a run has, its files included
        self._starter = starter
        self._trial: Trial | None = None
        self._guard: Guard | None = None
        self._inputs: PartyInputs | None = None
        self._scratch: Path | None = None
        self._report: UploadReport | None = None
        self._told: dict[int, Signed] = {}  # of other parties' uploads
        self._lists: dict[int, UploadList] = {}  # of all parties', once they are checked
        self._values: Path | None = None
        self._party: LocalProcess | None = None
        self._listening: list[socket.socket] = []
        self._record: dict[str, Any] = {}
        self._nonce = secrets.token_hex(_NONCE_BYTES)
        self._has_turn = False
        self._intent: Intent | None = None
        self.is_running = False
        self.handlers = {name: getattr(self, name) for name in _REQUESTS}

    # Before a run.

    def check(self, party: int, model: str, port: int, client_ports: list[int]) -> dict[str, Any]:
        """Say what a run depends on here; nothing of it is secret. Args: client_ports: if it takes any.

        From here on no other connection checks or runs anything, or their parties would meet who listens.
        """
        now, chosen = time.time(), get_model(model)
        engine = engine_of(chosen)
        return {
            "time": now,
            **{what: sources_hash(*directories) for what, directories in SOURCES.items()},
            "commit": _commit(),
            "environment": environment(),
            "machine": machine(),
            "engine_version": engine.version(),
            "unavailable": engine.availability(chosen),
            "directory": self._fault_of_directory(),
            "free_bytes": shutil.disk_usage(_existing(self._directory)).free,
            "port": self._fault_of_turn() or port_fault("Its party", port),
            "clients": next(filter(None, (port_fault("For clients it", one) for one in client_ports)), None),
            "certificates": keys.own_certificates(self._directory, party),
            "pinned": {
                name: {str(other): text for other, text in certificates.items()}
                for name, certificates in keys.pinned(self._directory).items()
            },
            "policy": self._fault_of_policy(),
        }

    def listen(self, port: int) -> str:
        """Listen where the party will, or its gateway, and greet who comes; return the greeting.

        Raises: HostUnfitError: another connection has the host.
        """
        self._take_turn()
        greeting = secrets.token_hex(_NONCE_BYTES)
        listening = self._stack.enter_context(_listening(port))
        self._listening.append(listening)

        def answer() -> None:
            while True:
                try:
                    reached, _ = listening.accept()
                except OSError:  # closed
                    return
                # Each by itself: who is slow, or no agent, keeps nobody else from an answer.
                threading.Thread(target=_greet, args=(reached, greeting), daemon=True).start()

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

        Raises: PolicyError: the host's owner does not allow it; OptionError, UnsupportedError: there is none.
        """
        _once(self._guard or self._trial, "taken part in another run")
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
        _once(self._guard, "taken part in another run")
        self._run.close()
        self._scratch = self._values = self._party = None
        self._trial, values = trial, trial.values(party)
        if values is not None:
            self._values = self._own_scratch() / "values"
            create_file(self._values, values)

    def put_file(self, name: str, bytes: int) -> None:
        """Keep a share file of this party, which follows the request.

        Args: bytes: its length. Raises: ShareError: its name is none of a share file, or is there already; it
        would take most of the room that is left.
        """
        self._guarded()
        if bytes > (free := shutil.disk_usage(self._directory).free) // 2:
            raise ShareError(f"A share file of {bytes} bytes is too large for {free} that are free there.")
        received, incoming = self._own_scratch() / "received", self._own_scratch() / "incoming"
        self._read_body(bytes, os.open(incoming, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
        if not _NAME.fullmatch(name) or (received / name).exists():
            raise ShareError(f"{name!r} is no name of a new share file.")
        received.mkdir(exist_ok=True)
        incoming.rename(received / name)

    def check_uploads(self, party: int, rules: dict[str, Any]) -> dict[str, str] | None:
        """Say, signed, which uploads in the host's own directory are sound; None if they are aggregated.

        Reveals: identities, names and kinds of uploads. Args: rules: what they have to be.
        Raises: HostUnfitError: it has said that; as `keys.check_keys`.
        """
        guard, shares = self._guarded(), self._shares_of(party)
        if any(shares.glob("*.aggregate")):
            return None
        _once(self._report, "listed its uploads")
        self._check_keys(party)
        self._report = guard.judged(uploads_at(party, shares, policy_from_json(rules)))
        return sign(self._own_list(), self._own_certificate(party))

    def _own_list(self) -> UploadList:
        if self._report is None:
            raise HostUnfitError("It was told of others' uploads before it listed its own.")
        return UploadList(self._nonce, self._report.to_json())

    def take_list(self, of: int, signed: Signed) -> None:
        """Take what another party's host signed of its uploads; what all take follows from all lists."""
        if of not in range(self._guarded().release.model.parties):
            raise HostUnfitError("It was told of uploads of a party that its model does not have.")
        self._told[of] = signed

    def aggregate(self, party: int) -> dict[str, Any]:
        """Aggregate this party's shares; return what all may know of them.

        They are those that were put here, else what lies in the host's own directory `shares`: of these what
        all parties take by their lists, if it was told these; else all of them have to be sound.
        Guarantees: replicated shares are added up here, each compared with its digest in the identity. So
        hosts that begin the same run have the same of each share.
        [test: tests/harness/hosts/test_replicated_shares.py]
        Reveals: the aggregate's first two lines, its header and the uploads' identities, and their size; how
        many were left out, by why.
        Raises: ShareError: there are none, one is not sound, more than one aggregate is there, or one of
        replicated shares; as `lists_of_others`.
        """
        release = self._guarded().release
        _once(self._values, "had its shares added up")
        scratch, shares = self._own_scratch(), self._shares_of(party)
        ready = sorted(shares.glob("*.aggregate"))
        if len(ready) > 1:
            raise ShareError(f"{shares} holds more than one aggregate; leave one.")
        if ready and release.form.path is REPLICATED:
            raise ShareError(
                f"{ready[0].name} was added up before, and hosts compare replicated shares upload by upload; "
                "give each host the files that `share` wrote for it instead."
            )
        aggregated = ready[0] if ready else scratch / f"party-{party}.aggregate"
        agreement = self._agreement(party) if self._told else None
        taken = None
        if agreement is not None and self._report is not None:
            taken = paths_of(agreement.taken, self._report, shares)
        if not ready:
            aggregate(party, shares, aggregated, taken)
        inputs = inputs_in(check_own(aggregated, party), aggregated, release.form, release.model)
        if inputs.policies and not ready:  # each client's own, in place of what all of them allow
            found = self._report if self._report and taken is not None else uploads_at(party, shares)
            if not set(inputs.batches) <= found.sound_batches.keys():
                raise ShareError(f"Uploads in {shares} changed meanwhile; start again.")
            allowed = {each: found.policies[each] for each in inputs.batches if each in found.policies}
            inputs = replace(inputs, policies=allowed)
        self._values, self._inputs = extract_values(aggregated, scratch / "values"), inputs
        with aggregated.open("rb") as file:
            head = file.readline() + file.readline()
        return {
            "head": head.decode(),
            "bytes": sum(path.stat().st_size for path in shares.glob(f"*{SUFFIX}")),
            "left_out": agreement.left_out if agreement else {},
        }

    def _agreement(self, party: int) -> Agreement | None:
        """Return which uploads all parties take, by their lists; None: all that there are."""
        release, own = self._guarded().release, self._own_list()
        assert self._report is not None
        self._lists = {**lists_of_others(self._told, self._peers(party)), party: own}
        others = {other: each.report(other) for other, each in self._lists.items() if other != party}
        reports = {**others, party: self._report}
        return agreed([reports[i] for i in sorted(reports)], release.form, release.model)

    def _shares_of(self, party: int) -> Path:
        """Return where this party's shares are: those that were put here, or the host's own."""
        received, own = self._own_scratch() / "received", self._directory / "shares"
        shares = received if received.is_dir() else own / f"party-{party}"
        return shares if shares.is_dir() else own

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
        _once(self._party, "prepared a party")
        self._take_turn()
        model = self._model
        if not _RUN.fullmatch(run) or not 0 <= party < len(addresses) == model.parties:
            raise HostUnfitError("It was asked for a run of other parties than its model has.")
        job, engine = self._job(clients), engine_of(model)
        if not all(map(_ARGUMENT.fullmatch, job.arguments)):
            raise HostUnfitError("It was asked to compile what no command of FairShares asks for.")
        job.check_parties(model)
        self._check_keys(party)
        for port in (addresses[party][1], *(clients.ports if clients else ())):
            fault = port_fault("Its party", port)
            if fault is not None:
                raise HostUnfitError(fault)
        prepared = self._run.enter_context(engine.prepared(job, model))
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
        inputs = guard.sent(clients.terms, clients.certificates) if clients else self._inputs
        if inputs is None or (clients is None) == (guard.release.form.path is CLIENTS):
            raise HostUnfitError("It was asked for a run before it had any inputs.")
        return guard.job(inputs)

    def agree(self, nonces: list[str]) -> dict[str, str]:
        """Sign what this host is about to run; see `check_agreement`. Args: nonces: of all parties, in order.

        Returns: nothing for a benchmark run: no host's party in a release meets one.
        Raises: HostUnfitError: its own is another.
        """
        if self._trial is not None:
            return {}
        party, guard = self._laid_out().number, self._guarded()
        if nonces[party : party + 1] != [self._nonce]:
            raise HostUnfitError("It was asked to agree to a run that is not the one that it prepared.")
        self._intent = guard.intent(nonces, party, self._record, self._lists)
        return sign(self._intent, self._own_certificate(party))

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
        return certificate

    def go(self, agreed: dict[str, Signed]) -> None:
        """Charge the run to the host's own ledger, then let the party begin, with the certificates it holds.

        Args: agreed: what each party's host signed. Raises: as `check_agreement`; as `Guard.charge`.
        """
        party = self._laid_out()
        held = self._peers(party.number)
        if self.is_running or (self._trial is None and self._intent is None):
            raise HostUnfitError("It has agreed to no run that is still to begin.")
        if self._intent is not None:
            check_agreement(self._intent, keys.by_party(agreed), held)
            self._guarded().charge()
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
            {str(other): fingerprint(text.encode()) for other, text in self._peers(party).items()},
            str(guard.event.exact.epsilon),
            str(guard.event.exact.delta),
            {name: list(values) for name, values in outputs.items()},
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return sign(statement, self._own_certificate(party))

    def _check_keys(self, party: int) -> None:
        keys.check_keys(self._directory, self._engine, party, self._model.parties)

    @property
    def _engine(self) -> str:
        return engine_of(self._model).name

    def _own_certificate(self, party: int) -> Path:
        return self._directory / keys.DIRECTORY / self._engine / f"P{party}.pem"

    def _peers(self, own: int) -> dict[int, str]:
        """Return the certificates that this host holds of the run's other parties."""
        held = keys.pinned(self._directory)[self._engine]
        return {party: held[party] for party in range(self._model.parties) if party != own}

    def _fault_of_turn(self) -> str | None:
        """Let no other connection check or prepare a run until this one ends; say so if one has."""
        if not self._has_turn and self._directory.is_dir():
            descriptor = held_alone(self._directory)
            if descriptor is None:
                return "Another run is under way on it; wait for its end, or end it by ./inv hosts.clean."
            self._turn.callback(os.close, descriptor)
            self._has_turn = True
        return None

    def _take_turn(self) -> None:
        busy = self._fault_of_turn()
        if busy is not None:
            raise HostUnfitError(busy)

    def kill(self) -> None:
        """End the party, if there is one."""
        if self._party is not None:
            self._party.kill()
            self._party.close()
        self.is_running = False

    # After a run.

    def forget(self, run: str) -> None:
        """Remove what a run opened: it has been read. Raises: PolicyError: this starter may start nothing."""
        check_starter(self._directory, self._starter)
        if _RUN.fullmatch(run):
            cleanup.place_of(self._directory, run).unlink(missing_ok=True)

    def collect(self) -> list[dict[str, Any]]:
        """Return what runs opened here that nobody has read. Raises: as `forget`."""
        check_starter(self._directory, self._starter)
        return cleanup.records(self._directory)

    def clean(self) -> dict[str, int]:
        """End processes of other connections, remove what they left; return how many of each there were.

        Raises: as `forget`.
        """
        check_starter(self._directory, self._starter)
        return cleanup.clean(self._directory, self._scratch)

    def _own_scratch(self) -> Path:
        if self._scratch is None:
            fault = self._fault_of_directory()
            if fault is not None:
                raise HostUnfitError(fault)
            self._scratch = self._run.enter_context(scratch_directory(self._directory))
            cleanup.sign(self._scratch)
        return self._scratch

    def _laid_out(self) -> LocalProcess:
        if self._party is None:
            raise HostUnfitError("It has prepared no party.")
        return self._party

    @property
    def _model(self) -> Model:
        return self._trial.of if self._trial else self._guarded().release.model

    def _guarded(self) -> Guard:
        if self._guard is None:
            raise HostUnfitError("No release was proposed to it.")
        return self._guard

    def _check_benchmark(self) -> None:
        found = read_policy(self._directory)
        found.check_starter(self._starter)
        found.check_benchmark()

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


def _greet(reached: socket.socket, greeting: str) -> None:
    with reached:
        greet(reached, greeting)


def _once(found: object, what: str) -> None:
    """Raise HostUnfitError if this connection has done that already: what was checked stays what runs."""
    if found is not None:
        raise HostUnfitError(f"It has {what} already; a connection is for one run.")


def _check_greetings(others: Sequence[tuple[str, int, str]]) -> None:
    if not all(_RUN.fullmatch(greeting) for _, _, greeting in others):
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
