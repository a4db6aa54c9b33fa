"""Parties at hosts, as the coordinator sees them: prepared, started, and agreed to a run."""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from fairshares.harness.bounds import Address
from fairshares.harness.charged import Permission
from fairshares.harness.engines.execution import EngineResult, Job, PreparedJob, Progress, check_permission
from fairshares.harness.engines.links import Network
from fairshares.harness.engines.parties.handle import (
    NOTHING_SIGNED,
    LaidOutParty,
    PartyProcess,
    PartyState,
)
from fairshares.harness.engines.parties.supervisor import CertifiedParties, started
from fairshares.harness.engines.parties.working_directory import LOOPBACK
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import (
    FairSharesError,
    HostUnfitError,
    HostUnreachableError,
    PartyFailedError,
    UnsupportedError,
    named,
)
from fairshares.harness.hosts.connection import HostConnection
from fairshares.harness.hosts.fleet import ask_all, at_once
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.ledger_heads import compare_heads, lost_piece
from fairshares.harness.hosts.messages import (
    CERTIFICATE_S,
    Agree,
    GetCertificate,
    GetReport,
    Go,
    Kill,
    Message,
    Prepare,
    PrepareInvited,
    RunFacts,
    Sending,
    Start,
)
from fairshares.harness.hosts.signed_results import BenchmarkIntent, Intent, check_agreed
from fairshares.harness.online.session import ClientInputs
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.spec import CLIENTS, InputForm, ProtocolSpec

T = TypeVar("T")

_RUN_NAME_BYTES = 16


def refusal_at_hosts(
    hosts: Sequence[Host], spec: ProtocolSpec, model: SecurityModel, form: InputForm
) -> str | None:
    """Return why hosts cannot run a protocol soundly with this input form, or None if they can."""
    without_port = [host.name for host in hosts if host.client_port is None]
    if form.path is CLIENTS and without_port:
        return (
            f"Clients that send need a client_port of every host in hosts.toml; {without_port[0]} has none."
        )
    if form.path is CLIENTS and spec.uses_piece:
        return (
            "Hosts look for noise made ahead when they add up shares, and clients that send leave none; "
            f"leave out {named('offline')}."
        )
    return engine_of(model).refusal(spec, model, form)


def check_not_emulated(network: Network | None) -> None:
    """Raise UnsupportedError if a network is to be emulated, which hosts don't do."""
    if network is not None:
        raise UnsupportedError("A network is emulated between parties on one machine only, not on hosts.")


class _RemoteParty:
    """The connection to a party's host, and how a party is ended there."""

    def __init__(self, connection: HostConnection) -> None:
        self.name = f"Party {connection.host.party} (on {connection.host.address})"
        self._connection = connection

    def kill(self) -> None:
        if not self._connection.lost:
            with suppress(FairSharesError):  # the others must be ended in any case
                self._connection.ask(Kill())

    def close(self) -> None:
        """Do nothing: the agent has waited, or ends by itself."""


class RemoteParty(_RemoteParty, LaidOutParty["RemoteProcess"]):
    """A party that its host has laid out."""

    def start(self) -> "RemoteProcess":
        self._connection.forget_end()
        self._connection.ask(Start())
        return RemoteProcess(self._connection)


class RemoteProcess(_RemoteParty, PartyProcess):
    """A party whose process has started on its host."""

    def certificate(self, seconds: float) -> str | None:
        not_negative = max(0.0, seconds)
        return self._connection.ask(GetCertificate(seconds=min(not_negative, CERTIFICATE_S)))

    def go(
        self,
        certificates: Mapping[int, str],  # noqa: ARG002  hosts believe signed ones only
        agreed: Mapping[int, Signed] = NOTHING_SIGNED,
    ) -> None:
        self._connection.ask(Go(agreed=by_number(agreed)))

    def exit_code(self) -> int | None:
        ended = self._connection.party_end()
        if ended is not None:
            return ended.code
        if self._connection.lost:
            raise PartyFailedError(
                f"{self.name} went away: the connection to its host broke; the others were stopped and no "
                "result was written."
            )
        return None

    def state(self) -> PartyState:
        ended = self._connection.party_end()
        if ended is not None:
            return ended.state
        with suppress(HostUnreachableError):
            return self._connection.ask(GetReport())
        return PartyState()

    def signed_end(self) -> Signed | None:
        """Return the statement of the run's end that its host signed; None without one."""
        ended = self._connection.party_end()
        return None if ended is None else ended.signed


def by_number(signed: Mapping[int, Signed]) -> dict[str, Signed]:
    """Return the statements of parties' hosts as messages have them, by the parties' numbers as texts."""
    return {str(party): statement for party, statement in signed.items()}


@dataclass(frozen=True)
class AgreedParties:
    """Parties at hosts that wait, on a run that all hosts have signed ahead.

    Attributes:
        prepared: The job, with the program and the engine that all hosts have.
        waiting: The parties' processes.
        agreed: The statement of the run that each host signed, by party.
        hosts: The hosts, in the parties' order.
        began: The time at which the preparation of the run began, by the monotonic clock.
    """

    prepared: PreparedJob
    waiting: CertifiedParties[RemoteProcess]
    agreed: Mapping[int, Signed]
    hosts: Sequence[Host]
    began: float

    def finish(self, permission: Permission) -> EngineResult:
        """Let the parties go, and return what they revealed, and what it took.

        Raises PartyFailedError, PartyTimeoutError, ClientError or OutputError.
        """
        sending = self.prepared.job.sending
        addresses = [] if sending is None else [host.client_reached for host in self.hosts]
        check_permission(permission, self.prepared.job)
        states = self.waiting.finish(permission, sending, addresses, self.agreed)
        seconds = time.monotonic() - self.began
        return engine_of(self.prepared.model).result(self.prepared, states, seconds)

    def signed_ends(self) -> list[Signed | None]:
        """Return each host's signed statement of the run's end, by party; None for a host without one."""
        return [process.signed_end() for process in self.waiting.parties]


@dataclass(frozen=True)
class ConnectedHosts:
    """The hosts of a model's parties, with an agent each.

    Attributes:
        model: The security model.
        connections: The connections to the agents, in the parties' order.
    """

    model: SecurityModel
    connections: Sequence[HostConnection]

    @property
    def hosts(self) -> list[Host]:
        """The hosts, in the parties' order."""
        return [connection.host for connection in self.connections]

    def ask_each(self, message: Message[T]) -> list[T]:
        """Send each host the same message, at once, and return the answers, by party."""
        return ask_all(self.connections, message)

    def check_same(self, facts: Sequence[object], differs: str) -> None:
        """Raise HostUnfitError unless all hosts state the same fact.

        Args:
            facts: The facts that each host states, by party.
            differs: The thing of a host that differs, for the sentence "Host … has `differs` than …".
        """
        hosts = self.hosts
        for host, fact in zip(hosts, facts, strict=True):
            if fact != facts[0]:
                raise HostUnfitError(
                    f"{host.title} has {differs} than {hosts[0].name}; no party was started."
                )

    @contextmanager
    def agreed_parties(
        self,
        job: Job,
        timeout_s: float,
        progress: Progress,
        piece: str | None = None,
        kind: type[Intent | BenchmarkIntent] = Intent,
    ) -> Iterator[AgreedParties]:
        """Have hosts prepare and start their parties, and agree to the run; then the parties wait.

        Guarantees: no party is started unless all hosts have prepared the very job of this machine. What a
        host refuses by what all of them signed is refused here, before this machine charges anything and lets
        a party go.  [test: tests/harness/hosts/test_hostile_hosts.py, tests/commands/test_hosts_restored.py]

        Args:
            job: The job that the hosts run, as they have worked it out themselves.
            timeout_s: The seconds for the parties to start and compute.
            progress: A function that is told each step.
            piece: The name of the piece of noise made ahead that the run takes, None for none.
            kind: The kind of statement that hosts sign before the run.

        Raises:
            HostUnfitError: A host has prepared another job, or does not agree to the run.
            CertificateError: A party's certificate for the run is not fit for it.
            PartyFailedError: A party ended before it was ready.
            PartyTimeoutError: A party was not ready in time.
        """
        began = time.monotonic()
        progress("compile")
        facts = self._prepare(job, timeout_s, piece)
        progress("run")
        parties = [RemoteParty(connection) for connection in self.connections]
        with started(parties, timeout_s) as waiting:
            agreed = self._agree(facts)  # before a charge: what a host refuses is charged nowhere
            self._check_agreed(agreed, kind, piece)
            yield AgreedParties(self._program(job, facts), waiting, agreed, self.hosts, began)

    def _prepare(self, job: Job, timeout_s: float, piece: str | None) -> list[RunFacts]:
        """Have all hosts prepare the same program; return each host's facts about the run, by party."""
        run = secrets.token_hex(_RUN_NAME_BYTES)

        def prepare(connection: HostConnection) -> RunFacts:
            own = connection.host
            addresses = [_address_for(own, host) for host in self.hosts]
            if job.sending is None:
                message = Prepare(run=run, party=own.party, addresses=addresses, piece=piece)
                return connection.ask(message)
            clients = _sending_to(own, job.sending, timeout_s)
            invited = PrepareInvited(run=run, party=own.party, addresses=addresses, clients=clients)
            return connection.ask(invited)

        facts = at_once(prepare, self.connections)
        self._check_job(job, [fact.job_hash for fact in facts])
        self.check_same([fact.program_hash for fact in facts], "another program hash")
        self.check_same([fact.engine_version for fact in facts], "another engine version")
        return facts

    def _check_job(self, job: Job, hashes: Sequence[str]) -> None:
        """Raise HostUnfitError unless all hosts have prepared this job.

        Args:
            job: The job that is to run.
            hashes: The hash of the program and the arguments that each host has prepared, by party.
        """
        wanted = program_hash(job)
        for host, prepared in zip(self.hosts, hashes, strict=True):
            if prepared != wanted:
                raise HostUnfitError(
                    f"{host.title} prepared another run than the one that this machine planned; no party was "
                    "started. Have all of you the same commit, and propose the run again."
                )

    def _program(self, job: Job, facts: Sequence[RunFacts]) -> PreparedJob:
        """Return a job with its program, which took as long to compile as at the slowest host."""
        slowest = max(facts, key=lambda fact: fact.compile_s)
        return PreparedJob(
            job=job,
            model=self.model,
            engine_version=slowest.engine_version,
            program_hash=slowest.program_hash,
            compile_options=slowest.compile_options,
            compile_s=slowest.compile_s,
        )

    def _agree(self, facts: Sequence[RunFacts]) -> dict[int, Signed]:
        """Have all hosts, whose parties are ready, sign the run; return their statements by party."""
        now = datetime.now(UTC).replace(microsecond=0)
        nonces = [fact.nonce for fact in facts]
        attempts = max(fact.attempts for fact in facts)

        def agree(connection: HostConnection) -> Signed:
            own = str(connection.host.party)
            seen = {fact.seen.get(own) for fact in facts}
            heads = sorted(head for head in seen if head)
            message = Agree(nonces=nonces, started=now, attempts=attempts, heads=heads)
            return connection.ask(message)

        return dict(enumerate(at_once(agree, self.connections)))

    def _check_agreed(
        self, agreed: Mapping[int, Signed], kind: type[Intent | BenchmarkIntent], piece: str | None
    ) -> None:
        """Refuse a run that a host would refuse to let begin, by what all of them signed.

        Raises HostUnfitError or CertificateError, as `check_agreed` and `compare_heads`.
        """
        common_name = engine_of(self.model).common_name
        try:
            said = check_agreed(kind, agreed, common_name)
            compare_heads({party: own for party, own in said.items() if isinstance(own, Intent)})
        except FairSharesError as error:
            error.args = (f"{error}{lost_piece('the hosts', piece)}",)
            raise


def _address_for(own: Host, other: Host) -> Address:
    """Return the address and port at which a host's party finds another host's party, or itself."""
    if other.party == own.party:
        return (LOOPBACK, own.port)
    return other.reached


def _sending_to(own: Host, clients: ClientInputs, timeout_s: float) -> Sending:
    """Return the facts about clients that send which a host is told."""
    port, machine_port = own.client_ports
    return Sending(
        terms=clients.terms,
        certificates=[upload.certificate for upload in clients.uploads],
        ports=(port, machine_port),
        seconds=timeout_s,
    )
