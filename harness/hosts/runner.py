"""A run whose parties are on hosts, of a release or a benchmark.

A host gets the request, the other hosts' signatures, and certificates of clients that send, and returns
public facts. Shares go from clients to the hosts, past this machine.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec import to_builtins

from fairshares.harness.engines.base import (
    EngineResult,
    Job,
    MadeUpJob,
    MadeUpRunner,
    Prepared,
    PrivateJob,
    Progress,
    Ready,
    Runner,
)
from fairshares.harness.engines.links import Network
from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.engines.parties.handle import PartyProcess, PartyState
from fairshares.harness.engines.parties.supervisor import Waiting, started
from fairshares.harness.engines.parties.working_directory import LOOPBACK
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import (
    FairSharesError,
    HostUnfitError,
    HostUnreachableError,
    PartyFailedError,
    StockError,
    UnsupportedError,
    named,
)
from fairshares.harness.hosts.connection import Connection
from fairshares.harness.hosts.fleet import answers_of_each, at_once, connected, fit_hosts, listener
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import (
    CERTIFICATE_S,
    Address,
    Aggregate,
    Agree,
    CheckUploads,
    Forget,
    GetCertificate,
    GetReport,
    Go,
    Keep,
    Kill,
    Listen,
    Message,
    PartyReport,
    Prepare,
    Preprocess,
    Propose,
    ReadList,
    RunFacts,
    RunTrial,
    Sending,
    Start,
    StopListening,
    TakeList,
    TimeLinks,
)
from fairshares.harness.hosts.signed_results import check_ended, noise_of, verify, what_hosts_ran
from fairshares.harness.hosts.trials import Trial
from fairshares.harness.pipeline.preprocessing import joint_noise_of, noise_job, what_it_took
from fairshares.harness.pipeline.sources import PartyInputs, RunContext, Source, feed_heads
from fairshares.harness.releases.base import Answer, PreparedRelease
from fairshares.harness.request.base import Request
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.signals import uninterrupted
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.json_values import JsonObject, JsonValue
from fairshares.protocols.spec import CLIENTS, InputForm, ProtocolSpec

_RUN_NAME_BYTES = 16
_LISTING_S = 3600.0  # for all of a host's list of uploads
_CHECK_COUNTS_S = 600.0  # for which a check of a benchmark's hosts counts


class RemoteProcess(PartyProcess):
    """A party that runs on a host."""

    def __init__(self, connection: Connection, agreed: Mapping[int, Signed]) -> None:
        """Stand for the party of the host at the other end of a connection.

        Args:
            connection: The connection to the host's agent.
            agreed: What the hosts signed before the run, by party. It is empty until all parties are ready.
        """
        self.name = f"Party {connection.host.party} (on {connection.host.address})"
        self._connection = connection
        self._agreed = agreed

    def start(self) -> None:
        self._connection.forget_end()
        self._connection.ask(Start())

    def certificate(self, seconds: float) -> str | None:
        at_least_none = max(0.0, seconds)
        return self._connection.ask(GetCertificate(seconds=min(at_least_none, CERTIFICATE_S)))

    def go(self, certificates: Mapping[int, str]) -> None:  # noqa: ARG002  # hosts believe signed ones only
        self._connection.ask(Go(agreed=_by_name(self._agreed)))

    def exit_code(self) -> int | None:
        ended = self._connection.party_end()
        if ended is None and self._connection.lost:
            raise PartyFailedError(
                f"{self.name} went away: the connection to its host broke; the others were stopped and no "
                "result was written."
            )
        return None if ended is None else ended.code

    def kill(self) -> None:
        if not self._connection.lost:
            with suppress(FairSharesError):  # the others must be ended in any case
                self._connection.ask(Kill())

    def close(self) -> None:
        """Do nothing: the agent has waited, or ends by itself."""

    def state(self) -> PartyState:
        report: PartyReport | None = self._connection.party_end()
        if report is None:
            report = PartyReport()
            with suppress(HostUnreachableError):
                report = self._connection.ask(GetReport())
        return PartyState(report.lines, report.peak_memory_bytes, report.stopped, report.no_room)

    def signed_end(self) -> Signed | None:
        """Return what its host signed of the run's end, if anything."""
        ended = self._connection.party_end()
        return None if ended is None else ended.signed


def _by_name(signed: Mapping[int, Signed]) -> dict[str, Signed]:
    """Return what hosts signed, by the parties' numbers as texts, which is how messages have it."""
    return {str(party): statement for party, statement in signed.items()}


def _have_kept(connections: Sequence[Connection], result: EngineResult) -> None:
    """Have hosts keep the noise that a run made, by what all of them signed of its end."""
    made = {party: Signed(**signed) for party, signed in enumerate(result.signed)}
    _tell(connections, Keep(made=_by_name(made)))


class HostsRunner(Runner):
    """Runs a model's parties on hosts, which sign each run before it begins, and a release's end.

    Hosts run what was proposed to them, on inputs of their own. So a job that they are to prepare is one that
    they work out themselves, and each host says which one it has worked out.

    Guarantees: this machine receives and writes no secret.  [test: tests/commands/test_hosts_run.py]
    No party is started unless all hosts have prepared the very job of this machine.
    [test: tests/harness/hosts/test_hostile_hosts.py]
    """

    _signs_ends = True  # whether hosts sign what a run revealed

    def __init__(self, hosts: Sequence[Host], model: SecurityModel) -> None:
        self.model = model
        self._hosts = hosts
        self._connections: list[Connection] = []
        self._offline = False  # whether the run takes noise made ahead
        self._piece = ""  # the name of the piece of noise that it takes, "" without one

    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        without_port = [host.name for host in self._hosts if not host.client_port]
        if form.path is CLIENTS and without_port:
            return (
                f"Clients that send need a client_port of every host in hosts.toml; {without_port[0]} has "
                "none."
            )
        if form.path is CLIENTS and spec.uses_piece:
            return (
                "Hosts look for noise made ahead when they add up shares, and clients that send leave none; "
                f"leave out {named('offline')}."
            )
        return engine_of(model).refusal(spec, model, form)

    @contextmanager
    def connected(self, progress: Progress) -> Iterator[None]:
        """Be connected to the hosts in the block, if all of them are fit.

        Raises:
            HostUnreachableError: This machine does not reach a host.
            HostUnfitError: Hosts are unfit; the error has all faults.
        """
        with connected(self._hosts, progress) as self._connections:
            fit_hosts(self._connections, self.model, progress, " No party was started.")
            yield

    def propose(self, request: Request) -> None:
        """Propose a release to each host.

        Raises:
            PolicyError: A host's policy refuses it.
            HostUnfitError: A host cannot take part.
        """
        self._offline = request.randomness.offline
        message = Propose(asked=request.to_json())
        at_once(lambda connection: connection.ask(message), self._connections)

    def preprocess(
        self, prepared: PreparedRelease[Answer], runs: int, timeout_s: float, progress: Progress
    ) -> list[dict[str, JsonValue]]:
        """Have hosts make the noise of so many runs of a release ahead.

        Each host keeps its part of a piece once all hosts have signed that their parties ended well. After an
        error, the pieces that were finished stay.

        Returns:
            What each piece cost.
        """
        proposed = Preprocess(asked=prepared.release.to_json(), domain=prepared.domain.to_json())
        pieces: list[dict[str, JsonValue]] = []
        job = noise_job(joint_noise_of(prepared), [Path()] * self.model.parties)
        for number in range(runs):
            progress(f"piece {number + 1}")
            at_once(lambda connection: connection.ask(proposed), self._connections)
            with self._start(job, timeout_s, progress) as parties:
                result = parties._finish()
            _have_kept(self._connections, result)
            pieces.append(what_it_took(result) | to_builtins(result.preprocessing))
        return pieces

    def feed(self, form: InputForm, scratch: Path, progress: Progress) -> PartyInputs:
        """Have each host aggregate its party's shares; return the public facts about them.

        Before, the hosts exchange signed lists of the uploads that are sound and allowed. From these lists
        each host derives the uploads that all of them have.

        Raises:
            ShareError: The shares do not go together.
            StockError: The run takes noise made ahead, and no piece is at all hosts.
        """
        progress("aggregate")
        self._list_uploads()
        aggregates = at_once(
            lambda connection: connection.ask(Aggregate(party=connection.host.party)), self._connections
        )
        heads: list[Path] = []
        for party, aggregate in enumerate(aggregates):
            head = scratch / f"party-{party}.head"
            head.write_text(aggregate.head)
            heads.append(head)
        self._check_same([aggregate.left_out for aggregate in aggregates], "left out other uploads")
        self._piece = self._common_piece([aggregate.pieces for aggregate in aggregates])
        sizes = tuple(aggregate.bytes for aggregate in aggregates)
        inputs = feed_heads(heads, form, self.model, sizes)
        # Without the policies of clients, as hosts apply these themselves.
        return replace(inputs, excluded=aggregates[0].left_out, policies={})

    def _common_piece(self, pieces_of_hosts: Sequence[Sequence[str]]) -> str:
        """Return the first name of a piece of noise that all hosts have, or "" if there is none.

        Args:
            pieces_of_hosts: The names of the pieces that each host has for this release, by party.

        Raises:
            StockError: There is none, and the run takes noise made ahead.
        """
        at_all_hosts = set(pieces_of_hosts[0])
        for pieces in pieces_of_hosts[1:]:
            at_all_hosts.intersection_update(pieces)
        if at_all_hosts:
            return min(at_all_hosts)
        if self._offline:
            numbers = [
                f"{host.name} {len(pieces)}"
                for host, pieces in zip(self._hosts, pieces_of_hosts, strict=True)
            ]
            raise StockError(
                f"For this release no piece of noise is at all hosts ({', '.join(numbers)}). Make some "
                f"beforehand by {named('preprocess')}, or leave out {named('offline')}."
            )
        return ""

    def _list_uploads(self) -> None:
        """Have each host list its uploads, and hand each list to the other hosts.

        A host that has an aggregate has no list. Its owner made the aggregate of uploads on which the parties
        had agreed.
        """
        answers = at_once(
            lambda connection: connection.ask(CheckUploads(party=connection.host.party)), self._connections
        )
        lists = [answer for answer in answers if answer is not None]
        if len(lists) < len(answers):
            return
        for lister, signed_list in zip(self._connections, lists, strict=True):
            self._pass_on(lister, signed_list)

    def _pass_on(self, lister: Connection, signed: Signed) -> None:
        """Hand a host's list of uploads to the others, piece by piece, until the list or the time ends."""
        others = [connection for connection in self._connections if connection is not lister]
        deadline = time.monotonic() + _LISTING_S
        offset = 0
        while time.monotonic() < deadline:
            piece = lister.ask(ReadList(at=offset))
            if not piece:
                return
            _tell(others, TakeList(lister=lister.host.party, signed=signed, at=offset, piece=piece))
            offset += len(piece)

    def _check_same(self, facts: Sequence[object], differs: str) -> None:
        """Raise HostUnfitError unless all hosts state the same fact.

        Args:
            facts: What each host states, by party.
            differs: What a host has that differs, for the sentence "Host … has `differs` than …".
        """
        for host, fact in zip(self._hosts, facts, strict=True):
            if fact != facts[0]:
                raise HostUnfitError(
                    f"{host.title} has {differs} than {self._hosts[0].name}; no party was started."
                )

    def prepare(
        self,
        job: PrivateJob,
        model: SecurityModel,  # noqa: ARG002  the hosts are of one model
        work: Path,  # noqa: ARG002  each host has its own
        timeout_s: float,
        progress: Progress,
        *,
        network: Network | None = None,
    ) -> AbstractContextManager[Ready]:
        """Have hosts prepare the release that was proposed to them, else as `Runner.prepare`.

        Raises HostUnfitError if a host has prepared another job than this one.
        """
        _check_real(network)
        return self._start(job, timeout_s, progress)

    def _check_job(self, job: Job, hashes: Sequence[str]) -> None:
        """Raise HostUnfitError unless all hosts have prepared this job.

        Args:
            job: What is to run.
            hashes: The hash of the program and the arguments that each host has prepared, by party.
        """
        wanted = program_hash(job)
        for host, prepared in zip(self._hosts, hashes, strict=True):
            if prepared != wanted:
                raise HostUnfitError(
                    f"{host.title} prepared another run than the one that this machine planned; no party was "
                    "started. Have all of you the same commit, and propose the run again."
                )

    @contextmanager
    def _start(self, job: Job, timeout_s: float, progress: Progress) -> Iterator["_AtHosts"]:
        """Have hosts prepare and start their parties, and agree to the run, which they then wait for."""
        began = time.monotonic()
        run = secrets.token_hex(_RUN_NAME_BYTES)
        progress("compile")
        prepared, facts = self._prepare(job, run, timeout_s)
        progress("run")
        agreed: dict[int, Signed] = {}
        parties = [RemoteProcess(connection, agreed) for connection in self._connections]
        with started(parties, timeout_s) as waiting:
            agreed.update(self._agreed(facts))  # before a charge: what a host refuses is charged nowhere
            yield _AtHosts(
                self._hosts,
                prepared=prepared,
                parties=parties,
                waiting=waiting,
                agreed=agreed,
                began=began,
                signs_ends=self._signs_ends,
            )

    def finish(self, result: EngineResult, results: Path) -> None:
        """Check a release's results against what hosts signed, and let these forget them.

        Guarantees: a release writes only what `verify` accepts.
        [test: tests/harness/hosts/test_hostile_hosts.py]

        Raises SignatureError, as `verify`; the hosts keep what they signed then, for `hosts.collect`.
        """
        if result.hosts is None:  # nothing was released
            return
        run = result.hosts.run
        signers = [fingerprint(statement["certificate"].encode()) for statement in result.signed]
        verify(results, signers)
        _tell(self._connections, Forget(run=run))

    def _agreed(self, facts: Sequence[RunFacts]) -> dict[int, Signed]:
        """Have all hosts, whose parties are ready, sign the run; return their statements by party."""
        now = datetime.now(UTC).replace(microsecond=0)
        nonces = [host.nonce for host in facts]
        attempts = max(host.attempts for host in facts)

        def agree(connection: Connection) -> Signed:
            seen = {host.seen.get(str(connection.host.party), "") for host in facts}
            message = Agree(nonces=nonces, started=now, attempts=attempts, heads=sorted(seen - {""}))
            return connection.ask(message)

        return dict(enumerate(at_once(agree, self._connections)))

    def _prepare(self, job: Job, run: str, timeout_s: float) -> tuple[Prepared, list[RunFacts]]:
        """Have all hosts prepare a run of the same program; return it, and each host's facts by party."""

        def prepare(connection: Connection) -> RunFacts:
            own = connection.host
            message = Prepare(
                run=run,
                party=own.party,
                addresses=[_address_for(own, host) for host in self._hosts],
                clients=_sending_to(own, job, timeout_s),
                piece=self._piece,
            )
            return connection.ask(message)

        prepared = at_once(prepare, self._connections)
        self._check_job(job, [facts.job_hash for facts in prepared])
        self._check_same([facts.program_hash for facts in prepared], "another program hash")
        self._check_same([facts.engine_version for facts in prepared], "another engine version")
        slowest = max(prepared, key=lambda facts: facts.compile_s)
        common = Prepared(
            job=job,
            model=self.model,
            engine_version=slowest.engine_version,
            program_hash=slowest.program_hash,
            compile_options=slowest.compile_options,
            compile_s=slowest.compile_s,
        )
        return common, prepared


def _check_real(network: Network | None) -> None:
    """Raise UnsupportedError if a network is to be emulated, which hosts don't do."""
    if network is not None:
        raise UnsupportedError("A network is emulated between parties on one machine only, not on hosts.")


def _tell(connections: Sequence[Connection], message: Message[None]) -> None:
    """Send each host the same message, at once."""
    at_once(lambda connection: connection.ask(message), connections)


def _address_for(own: Host, other: Host) -> Address:
    """Return the address and port at which a host's party finds another host's party, or itself."""
    if other.party == own.party:
        return (LOOPBACK, own.port)
    return other.reached


def _sending_to(own: Host, job: Job, timeout_s: float) -> Sending | None:
    """Return what a host is told of clients that send, or None for a job without such clients."""
    if job.sending is None:
        return None
    port, machine_port = own.client_ports
    return Sending(
        terms=job.sending.terms,
        certificates=[upload.certificate for upload in job.sending.uploads],
        ports=(port, machine_port),
        seconds=timeout_s,
    )


class _AtHosts(Ready):
    """Parties at hosts, all of which agreed to the run."""

    def __init__(
        self,
        hosts: Sequence[Host],
        *,
        prepared: Prepared,
        parties: Sequence[RemoteProcess],
        waiting: Waiting,
        agreed: Mapping[int, Signed],
        began: float,
        signs_ends: bool,
    ) -> None:
        self._hosts = hosts
        self._prepared = prepared
        self._parties = parties
        self._waiting = waiting
        self._agreed = agreed
        self._began = began
        self._signs_ends = signs_ends

    def _finish(self) -> EngineResult:
        addresses = [host.client_reached for host in self._hosts]
        states = self._waiting.finish(self._prepared.job.sending, addresses, self._agreed)
        result = engine_of(self._prepared.model).result(
            self._prepared, states, time.monotonic() - self._began
        )
        if not self._signs_ends:
            return result
        ended = [party.signed_end() for party in self._parties]
        names = [host.name for host in self._hosts]
        agreed = [self._agreed[party] for party in range(len(names))]
        ran = check_ended(names, agreed, ended, result.outputs).ran
        return replace(
            result,
            signed=tuple(asdict(statement) for statement in ended if statement is not None),
            hosts=what_hosts_ran(ran),
            preprocessing=noise_of(ran),
        )


@dataclass(frozen=True)
class HostsSource(Source):
    """The hosts' uploads, or an aggregate of them."""

    hosts: HostsRunner

    def describe(self, run: RunContext) -> PartyInputs:
        return self.hosts.feed(run.release.form, run.scratch, run.progress)


class BenchmarkHosts:
    """Hosts for benchmark runs, with connections that stay open between runs.

    Attributes:
        hosts: All hosts, in the parties' order.
        seen: What a report says of a model's hosts and their network, by the model's name, as the last check
            found it.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._open: dict[int, Connection] = {}  # by party
        self._seen_at: dict[str, float] = {}  # by the monotonic clock
        self.seen: dict[str, JsonObject] = {}

    def close(self) -> None:
        """End all agents."""
        self._close(list(self._open))

    def ready(self, model: SecurityModel, progress: Progress) -> list[Connection]:
        """Return connections to a model's hosts, which are checked first unless they were checked lately.

        Raises:
            HostUnreachableError: This machine does not reach a host.
            HostUnfitError: A host is unfit.
            PolicyError: A host's policy refuses benchmark runs of the model.
        """
        hosts = self.hosts[: model.parties]
        self._close([party for party, connection in self._open.items() if connection.lost])
        missing = [host for host in hosts if host.party not in self._open]

        def connect(host: Host) -> None:
            self._open[host.party] = Connection(host)

        at_once(connect, missing)
        connections = [self._open[host.party] for host in hosts]
        if missing or not self._was_seen_lately(model):
            self.seen[model.name] = _look(connections, model, progress)
            self._seen_at[model.name] = time.monotonic()
        return connections

    def _was_seen_lately(self, model: SecurityModel) -> bool:
        """Return whether a check of the model's hosts still counts."""
        if model.name not in self.seen:
            return False
        return time.monotonic() - self._seen_at[model.name] <= _CHECK_COUNTS_S

    def _close(self, parties: Sequence[int]) -> None:
        """Close the connections to the hosts of these parties, whatever interrupts this process."""
        with uninterrupted():
            at_once(Connection.close, [self._open.pop(party) for party in parties])


class BenchmarkRunner(HostsRunner, MadeUpRunner):
    """Runs the parties of one cell of a benchmark on hosts, which sign no result."""

    _signs_ends = False

    def __init__(self, hosts: BenchmarkHosts, model: SecurityModel, trial: Trial) -> None:
        super().__init__(hosts.hosts[: model.parties], model)
        self._benchmark = hosts
        self._trial = trial

    def run(
        self,
        job: MadeUpJob,
        model: SecurityModel,  # noqa: ARG002  the hosts are of one model
        work: Path,  # noqa: ARG002  each host has its own
        timeout_s: float,
        progress: Progress,
        *,
        network: Network | None = None,
    ) -> EngineResult:
        _check_real(network)
        with self._start(job, timeout_s, progress) as parties:
            return parties._finish()

    @contextmanager
    def _start(self, job: Job, timeout_s: float, progress: Progress) -> Iterator["_AtHosts"]:
        self._connections = self._benchmark.ready(self.model, progress)
        try:
            at_once(
                lambda connection: connection.ask(RunTrial(party=connection.host.party, trial=self._trial)),
                self._connections,
            )
            with super()._start(job, timeout_s, progress) as parties:
                yield parties
        except FairSharesError:
            del self._benchmark.seen[self.model.name]  # so that the next run checks the hosts again
            raise


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


def _look(connections: Sequence[Connection], model: SecurityModel, progress: Progress) -> JsonObject:
    """Check a model's hosts, and measure their links; return what a report says of both."""
    hosts = [
        {
            "party": found.finding.host.party,
            "name": found.finding.host.address,
            **to_builtins(found.facts.machine),
            "environment": to_builtins(found.facts.environment),
            "engine_version": found.facts.engine_version,
            "clock_offset_s": round(found.finding.skew_s, 3),
        }
        for found in fit_hosts(connections, model, progress)
    ]
    links = list(_links(connections, engine_of(model).connects_down))
    return {
        "hosts": hosts,
        "network": {
            "links": [{**asdict(link), "parties": list(link.parties)} for link in links],
            "measured_rtt_s": max(link.rtt_s for link in links),
            "measured_bandwidth_bits_per_s": min(link.bandwidth_bits_per_s for link in links),
        },
    }


def _links(connections: Sequence[Connection], down: bool) -> Iterator[LinkFound]:
    """Measure the link between each two hosts, one after the other.

    Args:
        connections: The connections to the hosts, in the parties' order.
        down: Whether a party connects to the parties of lower numbers, or to those of higher ones.

    Raises:
        HostUnfitError: A host lost another while their link was measured.
    """
    with ExitStack() as stack:
        stack.callback(_tell, connections, StopListening())
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
