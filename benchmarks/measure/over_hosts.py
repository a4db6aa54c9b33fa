"""Cells of a benchmark over hosts: connections that stay open between runs, and what is seen of the hosts.

A host takes part where its owner's policy allows it (`fairshares.harness.hosts.trials`). It charges and signs
nothing of such a run.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

from msgspec import to_builtins

from fairshares.harness.charged import Permission
from fairshares.harness.engines.compiled import CompiledJob, place_of
from fairshares.harness.engines.execution import (
    Conditions,
    EngineResult,
    Job,
    MadeUpJob,
    MadeUpRunner,
    PrivateJob,
    Progress,
    ReadyParties,
    Runner,
)
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import FairSharesError, HostUnfitError
from fairshares.harness.hosts.connection import HostConnection
from fairshares.harness.hosts.fleet import answers_of_each, ask_all, at_once, fit_hosts, listener
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import Listen, RunTrial, StopListening, TakeProgram, TimeLinks
from fairshares.harness.hosts.remote_parties import (
    AgreedParties,
    ConnectedHosts,
    check_not_emulated,
    refusal_at_hosts,
)
from fairshares.harness.hosts.signed_results import BenchmarkIntent
from fairshares.harness.hosts.trials import Trial
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.signals import uninterrupted
from fairshares.protocols.json_values import JsonObject
from fairshares.protocols.spec import InputForm, ProtocolSpec

PIECE_BYTES = 1 << 20  # bytes of a program in one message
_CHECK_COUNTS_S = 600.0  # the time for which a check of the hosts counts


@dataclass(frozen=True)
class SeenHosts:
    """A report's facts of a model's hosts and of their network, as JSON.

    Attributes:
        hosts: Each host's name, machine, environment and clock, in the parties' order.
        network: The round-trip time and bandwidth of each link and of the slowest link.
    """

    hosts: tuple[JsonObject, ...]
    network: JsonObject


class BenchmarkHosts:
    """Hosts for benchmark runs, with connections that stay open between runs.

    Attributes:
        hosts: All hosts, in the parties' order.
        seen: The facts that the last check found of a model's hosts, by the model's name.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._open: dict[int, HostConnection] = {}  # connections by party
        self._seen_at: dict[str, float] = {}  # the times of checks that count, by the monotonic clock
        self.seen: dict[str, SeenHosts] = {}

    def close(self) -> None:
        """End all agents."""
        self._close(list(self._open))

    def ready(self, model: SecurityModel, progress: Progress) -> ConnectedHosts:
        """Return a model's hosts, which are checked first unless they were checked lately.

        Raises:
            HostUnreachableError: This machine does not reach a host.
            HostUnfitError: A host is unfit.
            PolicyError: A host's policy refuses benchmark runs of the model.
        """
        hosts = self.hosts[: model.parties]
        self._close([party for party, connection in self._open.items() if connection.lost])
        missing = [host for host in hosts if host.party not in self._open]

        def connect(host: Host) -> None:
            self._open[host.party] = HostConnection(host)

        at_once(connect, missing)
        connections = [self._open[host.party] for host in hosts]
        if missing or not self._was_seen_lately(model):
            self.seen[model.title] = _look(connections, model, progress)
            self._seen_at[model.title] = time.monotonic()
        return ConnectedHosts(model, connections)

    def forget(self, model: SecurityModel) -> None:
        """Forget the last check of a model's hosts, so that the next run checks them again."""
        self._seen_at.pop(model.title, None)

    def _was_seen_lately(self, model: SecurityModel) -> bool:
        """Return whether a check of the model's hosts still counts."""
        seen_at = self._seen_at.get(model.title)
        return seen_at is not None and time.monotonic() - seen_at <= _CHECK_COUNTS_S

    def _close(self, parties: Sequence[int]) -> None:
        """Close the connections to the hosts of these parties, whatever interrupts this process."""
        with uninterrupted():
            at_once(HostConnection.close, [self._open.pop(party) for party in parties])


class BenchmarkRunner(Runner, MadeUpRunner):
    """Runs the parties of one cell of a benchmark on hosts, which sign no result."""

    def __init__(self, hosts: BenchmarkHosts, model: SecurityModel, trial: Trial) -> None:
        self._hosts = hosts
        self._model = model
        self._trial = trial

    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        return refusal_at_hosts(self._hosts.hosts[: model.parties], spec, model, form)

    @contextmanager
    def prepare(
        self,
        job: PrivateJob,
        model: SecurityModel,  # noqa: ARG002  the hosts are of one model
        conditions: Conditions,
    ) -> Iterator[ReadyParties]:
        check_not_emulated(conditions.network)
        with self._agreed_parties(job, conditions.timeout_s, conditions.progress) as parties:
            yield _ReadyCell(parties)

    def run(
        self,
        job: MadeUpJob,
        model: SecurityModel,  # noqa: ARG002  the hosts are of one model
        conditions: Conditions,
    ) -> EngineResult:
        check_not_emulated(conditions.network)
        with self._agreed_parties(job, conditions.timeout_s, conditions.progress) as parties:
            return parties.finish(job)

    @contextmanager
    def _agreed_parties(self, job: Job, timeout_s: float, progress: Progress) -> Iterator[AgreedParties]:
        """Ask the hosts for the cell's run; its parties then wait. Hosts that fail are checked again."""
        hosts = self._hosts.ready(self._model, progress)

        def ask(connection: HostConnection) -> None:
            connection.ask(RunTrial(party=connection.host.party, trial=self._trial))
            if isinstance(job, CompiledJob):
                _send_program(connection, job)

        try:
            at_once(ask, hosts.connections)
            with hosts.agreed_parties(job, timeout_s, progress, kind=BenchmarkIntent) as parties:
                yield parties
        except FairSharesError:
            self._hosts.forget(self._model)
            raise


def _send_program(connection: HostConnection, job: CompiledJob) -> None:
    """Send a host the files of a program that its owner allows, piece by piece."""
    for number, sent in enumerate(job.program.files):
        with place_of(sent, job.programs).open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                at = file.tell() - len(piece)
                connection.ask(TakeProgram(file=number, at=at, piece=piece))


class _ReadyCell(ReadyParties):
    """Parties at hosts that sign nothing of what they reveal."""

    def __init__(self, parties: AgreedParties) -> None:
        self._parties = parties

    def _finish(self, permission: Permission) -> EngineResult:
        return self._parties.finish(permission)


@dataclass(frozen=True)
class LinkFound:
    """A link between two hosts, as it was measured.

    Attributes:
        parties: The hosts' parties.
        rtt_s: The round-trip time in seconds.
        bandwidth_bits_per_s: The bandwidth of the slower direction.
    """

    parties: tuple[int, int]
    rtt_s: float
    bandwidth_bits_per_s: float


def _look(connections: Sequence[HostConnection], model: SecurityModel, progress: Progress) -> SeenHosts:
    """Check a model's hosts, and measure their links; return what a report says of both."""
    hosts: list[JsonObject] = []
    for found in fit_hosts(connections, model, progress):
        host = {
            "party": found.host.party,
            "name": found.host.address,
            **to_builtins(found.facts.machine),
            "environment": to_builtins(found.facts.environment),
            "engine_version": found.facts.engine_version,
            "clock_offset_s": round(found.answer.skew_s, 3),
        }
        hosts.append(host)
    links = list(_links(connections, engine_of(model).connects_down))
    network: JsonObject = {
        "links": [{**asdict(link), "parties": list(link.parties)} for link in links],
        "measured_rtt_s": max(link.rtt_s for link in links),
        "measured_bandwidth_bits_per_s": min(link.bandwidth_bits_per_s for link in links),
    }
    return SeenHosts(tuple(hosts), network)


def _links(connections: Sequence[HostConnection], down: bool) -> Iterator[LinkFound]:
    """Measure the link between each two hosts, one after the other.

    Args:
        connections: The connections to the hosts, in the parties' order.
        down: Whether a party connects to the parties of lower numbers, or to the parties of higher numbers.

    Raises:
        HostUnfitError: A host lost another while their link was measured.
    """
    with ExitStack() as stack:
        stack.callback(ask_all, connections, StopListening())
        greetings = at_once(lambda connection: connection.ask(Listen(port=connection.host.port)), connections)
        for party, connection in enumerate(connections):
            others = range(party) if down else range(party + 1, len(connections))
            wanted = [listener(connections[other].host, greetings[other]) for other in others]
            times = answers_of_each(connection, TimeLinks(others=wanted), wanted)
            for other, timed in zip(others, times, strict=True):
                if timed is None:
                    raise HostUnfitError(
                        f"{connection.host.title} lost {connections[other].host.name} while the link between "
                        "them was measured; look at the network between them."
                    )
                yield LinkFound((party, other), timed.rtt_s, timed.bits_per_s)
