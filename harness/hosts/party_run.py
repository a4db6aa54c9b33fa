"""A run at one of its hosts, from its inputs to its end: a state for each step that it has taken.

Each state is a frozen value with all that its steps need. `listed_uploads.py` has the states before a run has
its inputs, `runs.py` the kinds of runs: releases, noise made ahead, and benchmark runs.

The party's process makes the key of its links in its own directory. The owner's key, whose certificate other
hosts hold, certifies that key for this run (`agree`). No request brings a certificate of a party.
"""

import os
import re
import secrets
import shutil
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Generic, Self

from fairshares.harness.charged import Chargeable
from fairshares.harness.engines.execution import Job
from fairshares.harness.engines.parties.certificates import RUN_CERTIFICATE_LASTS, check
from fairshares.harness.engines.parties.handle import LocalParty, LocalProcess, PartySetup, PartyState
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import HostUnfitError
from fairshares.harness.hosts import host_keys, local_host
from fairshares.harness.hosts.host_log import Event, why_failed
from fairshares.harness.hosts.local_host import NONCE_BYTES, HeldTurn, LocalHost, check_directory, check_ports
from fairshares.harness.hosts.messages import (
    Agree,
    GetCertificate,
    GetReport,
    Go,
    Kill,
    PartyEnd,
    Prepare,
    PrepareInvited,
    RunFacts,
    Sending,
    Start,
)
from fairshares.harness.hosts.policy import read_policy
from fairshares.harness.hosts.signed_results import (
    PreparedParty,
    RunAhead,
    check_agreement,
    run_certificates,
    sign,
)
from fairshares.harness.hosts.states import HostState, RunKind, State, Step, Stepping
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.online.session import ClientInputs
from fairshares.harness.party_reports import line_of_failure
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.files import scratch_directory
from fairshares.harness.system.signals import uninterrupted
from fairshares.harness.uploads.signatures import Signed

MAX_SKEW_S = 60.0
_ARGUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./^+-]*")  # nothing that a compiler would take for an option
_MEET_S = 600.0  # within which a party meets all others; before that, no input leaves it
_PARTY_DIRECTORY = "party"  # a folder in a run's directory
_VALUES = "values of the party"  # a second name of the file with the party's inputs, in a run's directory


@dataclass(frozen=True)
class RunPlace:
    """The directories and facts of an accepted run at its host, until it is closed.

    Attributes:
        host: This machine.
        kind: The kind of the run.
        model: The security model whose parties run it.
        keys: The host's own keys, and the certificates that it holds of others.
        turn: The host's turn.
        nonce: The host's nonce for this run.
        scratch: The run's directory.
        stack: The block that is closed at the run's end.
    """

    host: LocalHost
    kind: RunKind
    model: SecurityModel
    keys: host_keys.RunKeys
    turn: HeldTurn = field(compare=False)
    nonce: str
    scratch: Path
    stack: ExitStack = field(compare=False)

    @classmethod
    def open(cls, host: LocalHost, kind: RunKind, model: SecurityModel) -> Self:
        """Take the host's turn, and return a new run's place. Raises HostUnfitError as `take_turn`."""
        check_directory(host.directory)
        turn = host.take_turn()
        stack = host.stack.enter_context(ExitStack())
        scratch = stack.enter_context(scratch_directory(host.directory))
        stack.enter_context(local_host.signed(scratch, host.coordinator))
        run_keys = host_keys.RunKeys(host.directory, model)
        nonce = secrets.token_hex(NONCE_BYTES)
        return cls(host, kind, model, run_keys, turn, nonce, scratch, stack)

    def common_name(self, party: int) -> str:
        """Return the name that the certificate of a party's key has."""
        return engine_of(self.model).common_name(party)

    def sign(self, party: int, intent: RunAhead) -> Signed:
        """Return a statement before the run with this host's signature."""
        return sign(intent, self.keys.own(party))


@dataclass(frozen=True)
class RunState(HostState):
    """A state of a connection that has a run.

    Attributes:
        place: The run's directories and facts at its host.
    """

    place: RunPlace

    @property
    def kind(self) -> RunKind:
        return self.place.kind

    def close(self) -> None:
        self.place.stack.close()


class Begun(ABC):
    """The charge or record that was written as a run began, and the additions at its end."""

    def remember(self, parties: Collection[int]) -> bool:  # noqa: ARG002
        """Note that the party has met others; return whether that is done for good."""
        return True

    def settle(self, code: int) -> None:  # noqa: B027
        """Note that the party has ended, with this exit code."""

    @abstractmethod
    def ended_well(self, running: "Running", last: PartyState) -> Step[Signed | None]:
        """Return the state after the run of a party that ended well, with what this host signs of it.

        Args:
            running: The run.
            last: The party's last state.
        """


class RunInputs(ABC, Generic[RunAhead]):
    """All that a run takes of its host, before its program is compiled."""

    @abstractmethod
    def planned(self, message: Prepare, place: RunPlace) -> "PlannedRun[RunAhead]":
        """Return the run, of which nothing has been taken yet. Raises as `Fed.prepare`."""


class InvitedClients(ABC, Generic[RunAhead]):
    """All that a run takes of its host to which clients send, before its program is compiled."""

    @abstractmethod
    def planned(self, clients: Sending, place: RunPlace) -> "RunOfClients[RunAhead]":
        """Return the run of these clients. Raises as `ClientsInvited.prepare`."""


class PlannedRun(ABC, Generic[RunAhead]):
    """A run whose job is known."""

    @property
    @abstractmethod
    def job(self) -> Job:
        """The party's job."""

    @property
    @abstractmethod
    def values(self) -> Path | None:
        """The file with the party's inputs, or None if the host has none for the run."""

    def taken(self) -> Self:
        """Take what only one run may use, and return the run with it. Raises StockError."""
        return self

    def attempts(self) -> int:
        """Return the number of times that making the run's noise was begun."""
        return 0

    def seen(self, party: int) -> dict[str, str]:  # noqa: ARG002
        """Return the heads of other parties' ledgers that this host has seen."""
        return {}

    @abstractmethod
    def intent(self, prepared: PreparedParty, message: Agree) -> RunAhead:
        """Return the statement before the run, without the run's certificate. Raises as `Ready.agree`."""

    @abstractmethod
    def begin(self, own: RunAhead, others: Mapping[int, RunAhead], agreed: Chargeable) -> Begun:
        """Charge the run, or write what else its beginning costs. Raises an error to refuse the run.

        Args:
            own: The statement that this host signed before the run.
            others: The statements that the other parties' hosts signed, which say the same.
            agreed: The run that waits for its beginning.
        """


@dataclass(frozen=True)
class RunOfClients(Generic[RunAhead]):
    """A run to which clients send, whose job is known.

    Attributes:
        run: The run.
        sending: The clients.
    """

    run: PlannedRun[RunAhead]
    sending: ClientInputs


@dataclass(frozen=True)
class Unprepared(RunState, Generic[RunAhead]):
    """A run of which nothing more is needed for preparing its party."""

    def _check_parties(self, message: Prepare | PrepareInvited) -> None:
        """Raise HostUnfitError or CertificateError unless the run has the parties of its model, with keys."""
        if not 0 <= message.party < len(message.addresses) == self.place.model.parties:
            raise HostUnfitError("It was asked for a run of other parties than its model has.")
        self.place.keys.check(message.party)

    def _prepared(
        self,
        message: Prepare | PrepareInvited,
        planned: PlannedRun[RunAhead],
        client_ports: Sequence[int],
        gateway: GatewayConfig | None,
    ) -> Step[RunFacts]:
        """Compile the run's program, and lay out its party.

        Guarantees: whatever keeps a party from being laid out, such as a full disk, leaves the stock, the
        inputs and the run's directory as they were.
        [test: tests/harness/hosts/test_preparation.py::test_a_refused_run_takes_no_noise]

        Args:
            message: The message that asks for the run.
            planned: The run.
            client_ports: The ports at which the party's gateway and its virtual machine will listen, if it
                has a gateway.
            gateway: The ports and limits of the gateway through which clients reach the party; None if no
                clients do.

        Raises HostUnfitError without free ports, PolicyError, StockError, or OSError without room.
        """
        place = self.place
        model = place.model
        party = message.party
        if not all(map(_ARGUMENT.fullmatch, planned.job.arguments)):
            raise HostUnfitError("It was asked to compile what no command of FairShares asks for.")
        _, own_port = message.addresses[party]
        self._check_ports("port", [own_port])
        self._check_ports("client_port", client_ports)
        engine = engine_of(model)
        program = engine.prepared(planned.job, model)
        if program.fault_of_links is not None:
            raise HostUnfitError(program.fault_of_links)
        setup = engine.setup(program, party, message.addresses, values=planned.values, gateway=gateway)
        facts = RunFacts(
            engine_version=program.engine_version,
            job_hash=program_hash(planned.job),
            program_hash=program.program_hash,
            compile_options=program.compile_options,
            compile_s=program.compile_s,
            nonce=place.nonce,
            attempts=planned.attempts(),
            seen=planned.seen(party),
        )
        laid_out = _laid_out(replace(setup, takes_noise=None), place.scratch)
        with _removed_if_refused(place.scratch):
            # Last, as nothing that is refused may take noise from the stock.
            planned = planned.taken()
            if setup.takes_noise is not None:
                laid_out.take_noise(setup.takes_noise)
        if setup.values is not None:
            setup.values.unlink()
        prepared = PreparedParty(
            message.run, party, program.program_hash, engine_version=program.engine_version
        )
        return Step(Prepared(place, planned, prepared, laid_out), facts)

    def _check_ports(self, name: str, ports: Sequence[int]) -> None:
        host = self.place.host
        check_ports(host.directory, host.coordinator, name, ports)


@dataclass(frozen=True)
class Fed(Unprepared[RunAhead]):
    """A run with its inputs, which has prepared no party.

    Attributes:
        inputs: Everything that the run takes of this host.
    """

    inputs: RunInputs[RunAhead]

    NAME = State.FED

    def steps(self) -> Sequence[Stepping]:
        return [Prepare.leads_by(self.prepare)]

    def prepare(self, message: Prepare) -> Step[RunFacts]:
        """Compile the run's program from this host's own sources; answer with facts for the other hosts.

        Guarantees: program, arguments and noise follow from the request and this host's own inputs.
        [test: tests/harness/hosts/test_agreement.py]

        Raises HostUnfitError without a free port, PolicyError, CertificateError, StockError, or as
        `Guard.job`.
        """
        self._check_parties(message)  # first, as the name of a piece of noise follows from the parties' keys
        planned = self.inputs.planned(message, self.place)
        return self._prepared(message, planned, client_ports=[], gateway=None)


@dataclass(frozen=True)
class ClientsInvited(Unprepared[RunAhead]):
    """A run to which clients send while it runs, and which has prepared no party.

    Attributes:
        inputs: Everything that the run takes of this host.
    """

    inputs: InvitedClients[RunAhead]

    NAME = State.INVITED

    def steps(self) -> Sequence[Stepping]:
        return [PrepareInvited.leads_by(self.prepare)]

    def prepare(self, message: PrepareInvited) -> Step[RunFacts]:
        """Compile the run's program from this host's own sources; answer with facts for the other hosts.

        Guarantees: program, arguments and noise follow from the request and from who sends; clients are told
        of the same release.  [test: tests/harness/hosts/test_agreement.py]

        Raises HostUnfitError without free ports or if clients are told of something else, PolicyError,
        CertificateError, ShareError, or as `Guard.job`.
        """
        self._check_parties(message)
        clients = message.clients
        planned = self.inputs.planned(clients, self.place)
        gateway = planned.sending.gateway("0.0.0.0", *clients.ports, clients.seconds)
        return self._prepared(message, planned.run, clients.ports, gateway)


def _laid_out(setup: PartySetup, scratch: Path) -> LocalParty:
    """Return a party in a new directory, which gets a second name of the file of its inputs."""
    with _removed_if_refused(scratch):
        if setup.values is not None:
            second = scratch / _VALUES
            os.link(setup.values, second)
            setup = replace(setup, values=second)
        return LocalParty(setup, scratch / _PARTY_DIRECTORY)


@contextmanager
def _removed_if_refused(scratch: Path) -> Iterator[None]:
    """Remove a party's directory, and the second name of its inputs, if what is done meanwhile fails."""
    try:
        yield
    except BaseException:
        with uninterrupted():
            shutil.rmtree(scratch / _PARTY_DIRECTORY, ignore_errors=True)
            (scratch / _VALUES).unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class WithParty(RunState, Generic[RunAhead]):
    """A run whose party is prepared and does not compute.

    Attributes:
        planned: The run, with what it has taken.
        prepared: The run's name, its party and its program.
    """

    planned: PlannedRun[RunAhead]
    prepared: PreparedParty

    @property
    def run(self) -> str:
        return self.prepared.run

    def kill(self, _message: Kill) -> Step[None]:
        """End the party."""
        return Step(self.ended(_tell_nobody), None)


def _tell_nobody(_run: str) -> None:
    """Tell nothing of a party that had not begun."""


@dataclass(frozen=True)
class Prepared(WithParty[RunAhead]):
    """A run whose party is prepared and not started.

    Attributes:
        laid_out: The party, which has no process yet.
    """

    laid_out: LocalParty = field(compare=False)

    NAME = State.PREPARED

    def ended(self, note: Callable[[str], None]) -> HostState:
        del note  # no party has begun
        return Over(self.place, PartyState())

    def steps(self) -> Sequence[Stepping]:
        return [Start.leads_by(self.start), Kill.leads_by(self.kill)]

    def start(self, _message: Start) -> Step[None]:
        """Start the party's process."""
        process = self.laid_out.start()
        return Step(Started(self.place, self.planned, self.prepared, process), None)


@dataclass(frozen=True)
class Waiting(WithParty[RunAhead]):
    """A run whose party's process has started, and waits until it may begin.

    Attributes:
        process: The party's process.
    """

    process: LocalProcess = field(compare=False)

    def ended(self, note: Callable[[str], None]) -> HostState:
        del note  # no party has begun
        with uninterrupted():
            self.process.kill()
            self.process.close()
            return Over(self.place, self.process.state())

    def report(self, _message: GetReport) -> Step[PartyState]:
        """Answer with the party's state, and its filtered lines."""
        return Step(self, self.process.state())


@dataclass(frozen=True)
class Started(Waiting[RunAhead]):
    """A run whose party has started and is not ready."""

    NAME = State.STARTED

    def steps(self) -> Sequence[Stepping]:
        return [
            GetCertificate.leads_by(self.certificate),
            GetReport.leads_by(self.report),
            Kill.leads_by(self.kill),
        ]

    def certificate(self, message: GetCertificate) -> Step[str | None]:
        """Answer with the certificate of the party's key for this run, or None if it is not ready in time."""
        certificate = self.process.certificate(message.seconds)
        if certificate is None:
            return Step(self, None)
        return Step(Ready(self.place, self.planned, self.prepared, self.process, certificate), certificate)


@dataclass(frozen=True)
class Ready(Waiting[RunAhead]):
    """A run whose party is ready, and to which its host has not agreed.

    Attributes:
        own_certificate: The certificate of the party's key for this run.
    """

    own_certificate: str

    NAME = State.READY

    def steps(self) -> Sequence[Stepping]:
        return [
            GetCertificate.leads_by(self.certificate),
            Agree.leads_by(self.agree),
            GetReport.leads_by(self.report),
            Kill.leads_by(self.kill),
        ]

    def certificate(self, _message: GetCertificate) -> Step[str | None]:
        """Answer with the certificate of the party's key for this run."""
        return Step(self, self.own_certificate)

    def agree(self, message: Agree) -> Step[Signed]:
        """Hold the party's port, and sign the run ahead, with the certificate of the party's key for it.

        Until the party has the port, early peers try again.

        Raises HostUnfitError if its own nonce differs, or its clock by more than `MAX_SKEW_S`; PolicyError
        after too many attempts.
        """
        place = self.place
        party = self.prepared.party
        if message.nonces[party : party + 1] != [place.nonce]:
            raise HostUnfitError("It was asked to agree to a run that is not the one that it prepared.")
        _check_clock(message.started)
        own = "The certificate of its party for this run"
        check(self.own_certificate.encode(), place.common_name(party), own, RUN_CERTIFICATE_LASTS)
        intent = self.planned.intent(self.prepared, message)
        intent = replace(intent, run_certificate=self.own_certificate)
        owners = place.keys.others(party)
        signed = place.sign(party, intent)
        port = _held_port(read_policy(place.host.directory).port)
        place.stack.callback(port.close)
        agreed = Agreed(
            place=place,
            planned=self.planned,
            prepared=self.prepared,
            process=self.process,
            own_certificate=self.own_certificate,
            intent=intent,
            port=port,
            owners=owners,
            clock_offset_s=_clock_offset_s(),
        )
        return Step(agreed, signed)


def _check_clock(started: datetime) -> None:
    """Raise HostUnfitError if a run starts at another time than this host's clock shows."""
    now = datetime.now(UTC)
    if abs((started - now).total_seconds()) > MAX_SKEW_S:
        raise HostUnfitError(
            f"It was told that the run starts at {started:%FT%T%z}, and its own clock says {now:%FT%TZ}; "
            "set both clocks, by NTP for example."
        )


def _clock_offset_s() -> float:
    """Return how far this host's clock is ahead of its monotonic clock, in seconds."""
    return time.time() - time.monotonic()


def _check_clock_since(offset_s: float) -> None:
    """Raise HostUnfitError if this host's clock was set by more than `MAX_SKEW_S`.

    Its party would take the other parties' certificates for expired, or for not yet valid, after the charge.

    Args:
        offset_s: The offset that `_clock_offset_s` returned before.
    """
    set_by_s = _clock_offset_s() - offset_s
    if abs(set_by_s) > MAX_SKEW_S:
        direction = "ahead" if set_by_s > 0 else "back"
        raise HostUnfitError(
            f"Its clock was set {direction} by {abs(set_by_s):.0f} s after it signed the run; set it, by NTP "
            "for example, and start the run again."
        )


def _held_port(number: int) -> socket.socket:
    """Return a socket that keeps a port from other processes without listening there."""
    port = socket.socket()
    try:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("", number))
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # so that nobody else can listen there
    except OSError:
        port.close()
        raise
    return port


@dataclass(frozen=True)
class Agreed(Waiting[RunAhead], Chargeable):
    """A run that this host has signed, and that has not begun.

    Attributes:
        own_certificate: The certificate of the party's key for this run.
        intent: The statement that this host signed.
        port: The party's port, which is held until the party begins.
        owners: The certificates of the other parties' owners, by party.
        clock_offset_s: How far the clock was ahead of the monotonic clock as this host signed, in seconds.
    """

    own_certificate: str
    intent: RunAhead
    port: socket.socket = field(compare=False)
    owners: Mapping[int, str]
    clock_offset_s: float

    NAME = State.AGREED

    def ended(self, note: Callable[[str], None]) -> HostState:
        self.port.close()
        return super().ended(note)

    def steps(self) -> Sequence[Stepping]:
        return [
            GetCertificate.leads_by(self.certificate),
            Go.leads_by(self.go),
            GetReport.leads_by(self.report),
            Kill.leads_by(self.kill),
        ]

    def certificate(self, _message: GetCertificate) -> Step[str | None]:
        """Answer with the certificate of the party's key for this run."""
        return Step(self, self.own_certificate)

    def go(self, message: Go) -> Step[None]:
        """Charge the run, and have the party begin by what the other parties' hosts signed for this run.

        Guarantees: the party's links accept the keys that the pinned owners' keys certified for this run and
        party, and no other. No certificate comes from the coordinator.
        [test: tests/harness/hosts/test_run_certificates.py]

        Raises HostUnfitError, also if its clock was set since `agree`; CertificateError, PolicyError, or as
        `check_agreement` and `PlannedRun.begin`.
        """
        _check_clock_since(self.clock_offset_s)
        others = check_agreement(self.intent, host_keys.by_party(message.agreed), self.owners)
        certificates = run_certificates(others, self.place.common_name)
        limit: TimeLimit | Unlimited = Unlimited()
        if self.planned.job.is_foreign:
            limit = TimeLimit.from_now(read_policy(self.place.host.directory).benchmark_program_seconds)
        begun = self.planned.begin(self.intent, others, self)
        running = Running(
            place=self.place,
            name=self.run,
            party=self.prepared.party,
            process=self.process,
            begun=begun,
            owners=self.owners,
            meeting=MeetingTime(time.monotonic() + _MEET_S),
            limit=limit,
        )
        return Step(Beginning(self.place, running, self.port, certificates), None)


@dataclass(frozen=True)
class MeetingTime:
    """The time that a party has to meet all others.

    Attributes:
        ends: The time at which the run ends, by the monotonic clock.
    """

    ends: float


class MeetingOver(Enum):
    """The findings when a party's time to meet all others was over."""

    MET_ALL = "it had met all others"
    ALONE = "it had not, and was ended"


@dataclass(frozen=True)
class Unlimited:
    """The absence of a time limit of a run's own at the host."""


@dataclass(frozen=True)
class TimeLimit:
    """The time that a program of the coordinator's has at its host.

    Attributes:
        seconds: The time that the owner's policy gave it, in seconds.
        ends: The time at which the run ends, by the monotonic clock.
    """

    seconds: int
    ends: float

    @classmethod
    def from_now(cls, seconds: int) -> Self:
        """Return the limit of a program that begins now."""
        return cls(seconds, time.monotonic() + seconds)


@dataclass(frozen=True)
class LimitExceeded:
    """The time of a coordinator's program was over, and its party was ended.

    Attributes:
        seconds: The time that it had had, in seconds.
    """

    seconds: int

    @property
    def line(self) -> str:
        """The line that says why the party was ended."""
        return line_of_failure(
            f"Its host ends a coordinator's program after {self.seconds:,} s (benchmark_program_seconds in "
            "the owner's policy)."
        )


@dataclass(frozen=True)
class Running(RunState):
    """A run that has begun: it can't be made without what its beginning wrote.

    Attributes:
        name: The run's name.
        party: The host's party.
        process: The party's process.
        begun: The run's charge, or what else was written as it began.
        owners: The certificates of the other parties' owners, by party.
        meeting: The time that the party has to meet all others, or what was found at its end.
        met: The parties that this one has met, as far as that has been written.
        limit: The time limit of a program of the coordinator's own, or the sentence that it was exceeded.
    """

    name: str
    party: int
    process: LocalProcess = field(compare=False)
    begun: Begun
    owners: Mapping[int, str]
    meeting: MeetingTime | MeetingOver
    met: frozenset[int] = frozenset()
    limit: Unlimited | TimeLimit | LimitExceeded = Unlimited()

    NAME = State.RUNNING

    @property
    def run(self) -> str:
        return self.name

    def steps(self) -> Sequence[Stepping]:
        return [GetReport.leads_by(self.report), Kill.leads_by(self.kill)]

    def report(self, _message: GetReport) -> Step[PartyState]:
        """Answer with the party's state, with filtered lines."""
        looked = self.looked()
        return Step(looked, looked.last_state())

    def last_state(self) -> PartyState:
        """Return the last known state of the party. Whoever tells it to others calls `looked` first."""
        state = self.process.state()
        lines = state.lines
        if self.meeting is MeetingOver.ALONE:
            lines = (*lines, line_of_failure(f"It had not met all other parties after {_MEET_S:g} s."))
        if isinstance(self.limit, LimitExceeded):
            lines = (*lines, self.limit.line)
        return replace(state, lines=lines)

    def looked(self) -> "Running":
        """Return the run with the parties that this one has met by now, once that is written.

        Guarantees: nothing that a party prints leaves its host before the heads of all hosts whose parties it
        has met are remembered, however the run ends.
        [test: tests/harness/hosts/test_restored_hosts.py]
        """
        if len(self.met) == self.place.model.parties - 1:
            return self
        new = {*self.process.met()} - self.met
        if not new or not self.begun.remember(new):
            return self
        return replace(self, met=self.met | new)

    def polled(self) -> Step[PartyEnd | None]:
        """Look at the party; answer with its last state if it has ended.

        Guarantees: a program of the coordinator's ends when its time at this host is over.
        [test: tests/harness/hosts/test_states.py]
        """
        state = self.looked()
        if isinstance(state.meeting, MeetingTime) and time.monotonic() > state.meeting.ends:
            if len(state.process.met()) == state.place.model.parties - 1:
                state = replace(state, meeting=MeetingOver.MET_ALL)
            else:
                state = replace(state, meeting=MeetingOver.ALONE)
                state.process.kill()
        if isinstance(state.limit, TimeLimit) and time.monotonic() > state.limit.ends:
            state = replace(state, limit=LimitExceeded(state.limit.seconds))
            state.process.kill()
        code = state.process.exit_code()
        if code is None:
            return Step(state, None)
        with uninterrupted():  # otherwise an end might not be noted, or twice
            return state.over(code)

    def over(self, code: int) -> Step[PartyEnd | None]:
        """Write what became of the run of a party that has ended by itself, and answer with that."""
        self.process.close()
        self._is_over(code)
        self._note_failure(code)
        last = self.last_state()
        if code:
            return Step(Over(self.place, last), PartyEnd(state=last, code=code))
        ended = self.begun.ended_well(self, last)
        return Step(ended.state, PartyEnd(state=last, code=code, signed=ended.answer))

    def kill(self, _message: Kill) -> Step[None]:
        """End the party, and the run with it."""
        return Step(self.ended(self._note_kill), None)

    def _note_kill(self, run: str) -> None:
        """Tell the host's owner that the coordinator ended the party of a run."""
        why = "A party that had begun was ended, as its coordinator asked."
        self.place.host.log.write(Event.ENDED, Kill.name(), why, run)

    def ended(self, note: Callable[[str], None]) -> HostState:
        with uninterrupted():
            code = self.process.exit_code()
            self.process.kill()
            self.process.close()
            state = self.looked()
            state._is_over(self.process.exit_code() or 0)
            if code is None:
                note(self.run)
            else:
                state._note_failure(code)
            return Over(state.place, state.last_state())

    def _is_over(self, code: int) -> None:
        """Write that the run is over, and wait for another one."""
        self.begun.settle(code)
        self.place.turn.expect_run()

    def note_done(self, said: str) -> None:
        """Tell the host's owner that the party has ended well, and what that has left at the host."""
        self.place.host.log.write(Event.DONE, None, said, self.name)

    def _note_failure(self, code: int) -> None:
        """Tell the host's owner why the party that has ended failed, if it failed."""
        if code:
            why = why_failed(code, self.last_state().lines)
            self.place.host.log.write(Event.FAILED, None, why, self.name)


@dataclass(frozen=True)
class Beginning(RunState):
    """A run whose beginning is written, and whose party is let go next.

    Whatever ends it from now on ends a run that has begun: nothing takes a charge back.

    Attributes:
        running: The run, as it is once its party is let go.
        port: The party's port, which is held until the process has it.
        certificates: The certificates of the other parties' keys for this run, by party.
    """

    running: Running
    port: socket.socket = field(compare=False)
    certificates: Mapping[int, str]

    NAME = State.RUNNING

    @property
    def run(self) -> str:
        return self.running.run

    def steps(self) -> Sequence[Stepping]:
        return self.running.steps()

    def entered(self) -> HostState:
        """Let the party begin. If it cannot, its exit code says so later."""
        host = self.place.host
        self.port.close()
        host.stop_listening()
        process = self.running.process
        try:
            process.go(self.certificates)
        except OSError:
            process.kill()
        self.place.turn.run_begins()
        host.log.write(Event.BEGAN, Go.name(), f"Party {self.running.party} began.", self.running.name)
        return self.running

    def ended(self, note: Callable[[str], None]) -> HostState:
        self.port.close()
        return self.running.ended(note)


@dataclass(frozen=True)
class Over(RunState):
    """A run that is over, or never began.

    Attributes:
        last: The last state of its party.
    """

    last: PartyState

    NAME = State.OVER

    def steps(self) -> Sequence[Stepping]:
        return [GetReport.leads_by(self.report), Kill.leads_by(self.kill)]

    def report(self, _message: GetReport) -> Step[PartyState]:
        """Answer with the party's last state."""
        return Step(self, self.last)

    def kill(self, _message: Kill) -> Step[None]:
        """Do nothing: the party has ended."""
        return Step(self, None)
