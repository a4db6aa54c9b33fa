"""A run whose parties are on hosts, of a release or a benchmark.

A host gets the request, the other hosts' signatures, and certificates of clients that send, and returns
public facts. Shares go from clients to the hosts, past this machine.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from harness.bounds import Seconds, Size
from harness.charged import Charged
from harness.engines.base import (
    EngineResult,
    Job,
    MadeUpJob,
    Prepared,
    PrivateJob,
    Progress,
    Ready,
    Runner,
)
from harness.engines.emulated_network.profiles import Network
from harness.engines.parties.certificates import fingerprint
from harness.engines.parties.handle import PartyProcess, PartyState
from harness.engines.parties.supervisor import Waiting, started
from harness.engines.parties.working_directory import LOOPBACK
from harness.engines.registry import engine_of
from harness.errors import (
    FairSharesError,
    HostUnfitError,
    HostUnreachableError,
    PartyFailedError,
    StockError,
    UnsupportedError,
    named,
)
from harness.hosts.connection import Connection, checked
from harness.hosts.fleet import ask_of_others, at_once, connected, fit_hosts
from harness.hosts.inventory import Host
from harness.hosts.local_host import RunName
from harness.hosts.signed_results import check_ended, noise_of, verify, what_hosts_ran
from harness.hosts.trials import Trial
from harness.inputs.shares.signatures import Signed
from harness.pipeline.preprocessing import joint_noise_of, noise_job, what_it_took
from harness.pipeline.sources import PartyInputs, RunContext, Source, feed_heads
from harness.releases.base import PreparedRelease
from harness.request.base import Request
from harness.security_models import SecurityModel
from harness.system.signals import uninterrupted
from protocols.spec import CLIENTS, InputForm, ProtocolSpec

_ADDING_S = 3600.0  # for a host to list or to add up its uploads
_KILL_S, _ANSWERS_S = 5.0, 60.0  # for quick requests to a host that may be busy
_DIFFERS = {
    "left_out": "left out other uploads",
    "program_hash": "another program hash",
    "engine_version": "another engine version",
}


@dataclass(frozen=True)
class _Aggregated:
    """See `Uploads.aggregate`."""

    head: str
    bytes: Size
    left_out: dict[str, Size]
    pieces: list[str]


@dataclass(frozen=True)
class _Facts:
    """See `PartyRun.prepare`."""

    engine_version: str
    program_hash: str
    compile_options: tuple[str, ...]
    compile_s: Seconds
    nonce: str
    attempts: Size
    seen: dict[str, str]


@dataclass(frozen=True)
class _State(PartyState):
    """See `PartyRun.state` and `ended`."""

    peak_memory_bytes: Size | None = None
    code: int = 0
    signed: Signed | None = None


class RemoteProcess(PartyProcess):
    """A party on a host."""

    def __init__(self, connection: Connection, agreed: Mapping[int, Signed]) -> None:
        """Args: agreed: the hosts' statements, by party, once all parties are ready."""
        self.name = f"Party {connection.host.party} (on {connection.host.address})"
        self._connection, self._agreed = connection, agreed

    def start(self) -> None:
        self._connection.ended = None  # so that no earlier run's end counts
        self._connection.ask("start")

    def certificate(self, seconds: float) -> str | None:
        certificate: str | None = self._connection.ask(
            "certificate", max(0.0, seconds) + _ANSWERS_S, kind=str | None, seconds=seconds
        )
        return certificate

    def go(self, certificates: Mapping[int, str]) -> None:  # noqa: ARG002  # hosts believe signed ones only
        self._connection.ask("go", agreed={party: asdict(one) for party, one in self._agreed.items()})

    def exit_code(self) -> int | None:
        ended = self._connection.ended
        if ended is None and self._connection.lost:
            raise PartyFailedError(
                f"{self.name} went away: the connection to its host broke; the others were stopped and no "
                "result was written."
            )
        return None if ended is None else self.state().code

    def kill(self) -> None:
        if not self._connection.lost:
            with suppress(FairSharesError):  # the others must be ended in any case
                self._connection.ask("kill", _KILL_S)

    def close(self) -> None:
        """Do nothing: the agent has waited, or ends by itself."""

    def state(self) -> _State:
        state, connection = _State(), self._connection
        with suppress(HostUnreachableError):
            if connection.ended is None:
                state = connection.ask("state", _KILL_S, kind=_State)
            else:
                state = checked(_State, connection.ended, connection.host, "state")
        return state


class HostsRunner(Runner):
    """Runs a model's parties on hosts, which sign each run before it begins, and a release's end.

    Guarantees: this machine receives and writes no secret.  [test: tests/commands/test_hosts_run.py]
    """

    _signs_ends = True  # whether hosts sign what a run revealed

    def __init__(self, hosts: Sequence[Host], model: SecurityModel) -> None:
        self.model, self._hosts = model, hosts
        self._connections: list[Connection] = []
        self._offline, self._piece = False, ""  # whether the run takes noise made ahead, and its name

    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        without = [host.name for host in self._hosts if not host.client_port]
        if form.path is CLIENTS and without:
            return f"Clients that send need a client_port of every host in hosts.toml; {without[0]} has none."
        if form.path is CLIENTS and spec.uses_piece:
            return (
                "Hosts look for noise made ahead when they add up shares, and clients that send leave none; "
                f"leave out {named('offline')}."
            )
        return engine_of(model).refusal(spec, model, form)

    @contextmanager
    def connected(self, progress: Progress) -> Iterator[None]:
        """Connect to fit hosts; HostUnreachableError, or HostUnfitError with all faults."""
        with connected(self._hosts, progress) as self._connections:
            fit_hosts(self._connections, self.model, progress, " No party was started.")
            yield

    def propose(self, request: Request) -> None:
        """Propose a release to each host; PolicyError or HostUnfitError."""
        self._offline = request.randomness.offline
        at_once(lambda one: one.ask("propose", asked=request.to_json()), self._connections)

    def preprocess(
        self, prepared: PreparedRelease[Any], runs: int, timeout_s: float, progress: Progress
    ) -> list[dict[str, Any]]:
        """Have hosts make the noise of so many runs of a release; return each one's cost.

        Each host keeps its part once all have signed that their parties ended well. After an error, finished
        noise stays.
        """
        request, domain, pieces = prepared.release.to_json(), prepared.domain.to_json(), []
        job = noise_job(joint_noise_of(prepared), [Path()] * self.model.parties)
        for number in range(runs):
            progress(f"piece {number + 1}")
            at_once(lambda one: one.ask("preprocess", asked=request, domain=domain), self._connections)
            result = self.run(job, self.model, Path(), timeout_s, progress)
            keep = partial(Connection.ask, request="keep", made=dict(enumerate(result.signed)))
            at_once(keep, self._connections)
            pieces.append(what_it_took(result) | to_builtins(result.preprocessing))
        return pieces

    def feed(self, form: InputForm, scratch: Path, progress: Progress) -> PartyInputs:
        """Have each host aggregate its party's shares; return their public facts.

        Hosts first exchange signed lists of sound and allowed uploads, from which each derives the common
        ones. Raises ShareError if shares do not go together.
        """
        progress("aggregate")
        self._list_uploads()
        aggregates = at_once(
            lambda one: one.ask("aggregate", _ADDING_S, kind=_Aggregated, party=one.host.party),
            self._connections,
        )
        heads = [scratch / f"party-{i}.head" for i in range(len(aggregates))]
        for path, aggregate in zip(heads, aggregates, strict=True):
            path.write_text(aggregate.head)
        self._check_same(aggregates, "left_out")
        self._piece = min(set.intersection(*(set(one.pieces) for one in aggregates)), default="")
        if self._offline and not self._piece:
            has = ", ".join(
                f"{host.name} {len(one.pieces)}" for host, one in zip(self._hosts, aggregates, strict=True)
            )
            raise StockError(
                f"For this release no piece of noise is at all hosts ({has}). Make some beforehand by "
                f"{named('preprocess')}, or leave out {named('offline')}."
            )
        inputs = feed_heads(heads, form, self.model, tuple(aggregate.bytes for aggregate in aggregates))
        # Hosts apply clients' policies themselves.
        return replace(inputs, excluded=aggregates[0].left_out, policies={})

    def _list_uploads(self) -> None:
        signed = at_once(
            lambda one: one.ask("check_uploads", _ADDING_S, kind=Signed | None, party=one.host.party),
            self._connections,
        )
        if None in signed:  # aggregates, on which the parties agreed before
            return
        for own, listed in zip(self._connections, signed, strict=True):
            self._pass_on(own, asdict(listed))

    def _pass_on(self, own: Connection, signed: dict[str, str]) -> None:
        others, party, at = [one for one in self._connections if one is not own], own.host.party, 0
        until = time.monotonic() + _ADDING_S

        def tell(one: Connection) -> None:
            one.ask("take_list", _ADDING_S, of=party, signed=signed, at=at, piece=piece)

        while time.monotonic() < until and (piece := own.ask("read_list", _ADDING_S, kind=str, at=at)):
            at_once(tell, others)
            at += len(piece)

    def _check_same(self, facts: Sequence[_Aggregated] | Sequence[_Facts], *names: str) -> None:
        for host, answer in zip(self._hosts, facts, strict=True):
            for name in names:
                if getattr(answer, name) != getattr(facts[0], name):
                    raise HostUnfitError(
                        f"{host.title} has {_DIFFERS[name]} than {self._hosts[0].name}; no party was started."
                    )

    @contextmanager
    def prepare(
        self,
        job: PrivateJob,
        model: SecurityModel,  # noqa: ARG002  the hosts are of one model
        work: Path,  # noqa: ARG002
        timeout_s: float,
        progress: Progress,
        *,
        network: Network | None = None,
    ) -> Iterator[Ready]:
        with self._waiting(job, timeout_s, progress, network) as ready:
            yield ready

    def run(
        self,
        job: MadeUpJob,
        model: SecurityModel,  # noqa: ARG002  the hosts are of one model
        work: Path,  # noqa: ARG002
        timeout_s: float,
        progress: Progress,
        *,
        network: Network | None = None,
    ) -> EngineResult:
        with self._waiting(job, timeout_s, progress, network) as ready:
            return ready.finish()

    @contextmanager
    def _waiting(
        self,
        job: Job,
        timeout_s: float,
        progress: Progress,
        network: Network | None,
    ) -> Iterator["_AtHosts"]:
        """Have hosts prepare and start their parties, and agree to the run, which they then wait for."""
        if network is not None:
            raise UnsupportedError("A network is emulated between parties on one machine only, not on hosts.")
        began, run = time.monotonic(), secrets.token_hex(16)
        progress("compile")
        prepared, facts = self._prepare(job, run, timeout_s)
        progress("run")
        agreed: dict[int, Signed] = {}
        parties = [RemoteProcess(connection, agreed) for connection in self._connections]
        with started(parties, timeout_s) as waiting:
            agreed.update(self._agreed(facts))  # before a charge: what a host refuses is charged nowhere
            yield _AtHosts(
                self._hosts, prepared, parties, waiting, agreed, began, signs_ends=self._signs_ends
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
        verify(results, [fingerprint(one["certificate"].encode()) for one in result.signed])
        at_once(lambda one: one.ask("forget", run=run), self._connections)

    def _agreed(self, facts: Sequence[_Facts]) -> dict[int, Signed]:
        """Have all hosts, whose parties are ready, sign the run; return their statements by party."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        nonces = [host.nonce for host in facts]
        attempts = max(host.attempts for host in facts)

        def agree(one: Connection) -> Any:
            return one.ask(
                "agree",
                kind=Signed,
                nonces=nonces,
                started=now,
                attempts=attempts,
                heads=sorted({host.seen.get(str(one.host.party), "") for host in facts} - {""}),
            )

        return dict(enumerate(at_once(agree, self._connections)))

    def _prepare(self, job: Job, run: str, timeout_s: float) -> tuple[Prepared, list[_Facts]]:
        def prepare(connection: Connection) -> Any:
            own = connection.host
            addresses = [
                (LOOPBACK, own.port) if one.party == own.party else one.reached for one in self._hosts
            ]
            clients = None
            if job.sending is not None:
                clients = {
                    "terms": job.sending.terms,
                    "certificates": [upload.certificate for upload in job.sending.uploads],
                    "ports": own.client_ports,
                    "seconds": timeout_s,
                }
            return connection.ask(
                "prepare",
                2000.0,  # to compile its program
                kind=_Facts,
                run=run,
                party=own.party,
                addresses=addresses,
                clients=clients,
                piece=self._piece,
            )

        prepared: list[_Facts] = at_once(prepare, self._connections)
        self._check_same(prepared, "program_hash", "engine_version")
        slowest = max(prepared, key=lambda facts: facts.compile_s)
        program = (slowest.engine_version, slowest.program_hash, slowest.compile_options)
        return Prepared(job, self.model, *program, slowest.compile_s), prepared


class _AtHosts(Ready):
    """Parties at hosts, all of which agreed to the run."""

    def __init__(
        self,
        hosts: Sequence[Host],
        prepared: Prepared,
        parties: Sequence[RemoteProcess],
        waiting: Waiting,
        agreed: Mapping[int, Signed],
        began: float,
        *,
        signs_ends: bool,
    ) -> None:
        self._hosts, self._prepared, self._parties = hosts, prepared, parties
        self._waiting, self._agreed, self._began = waiting, agreed, began
        self._signs_ends = signs_ends

    def go(self, charged: Charged) -> EngineResult:
        charged.begin()
        return self.finish()

    def finish(self) -> EngineResult:
        """Let the parties go, and return what they revealed: of a run that needs no charge, or has one."""
        addresses = [host.client_reached for host in self._hosts]
        states = self._waiting.finish(self._prepared.job.sending, addresses, self._agreed)
        result = engine_of(self._prepared.model).result(
            self._prepared, states, time.monotonic() - self._began
        )
        if not self._signs_ends:
            return result
        ended = [party.state().signed for party in self._parties]
        names = [host.name for host in self._hosts]
        agreed = [self._agreed[party] for party in range(len(names))]
        ran = check_ended(names, agreed, ended, result.outputs).ran
        return replace(
            result,
            signed=tuple(asdict(one) for one in ended if one),
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
    """Hosts, and connections to them until they are closed.

    `seen` has, by model, the `hosts` by party, and the `network` with all links and the worst values.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._open: dict[int, Connection] = {}
        self._seen_at: dict[str, float] = {}  # by the monotonic clock
        self.seen: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        """End all agents."""
        self._close(list(self._open))

    def ready(self, model: SecurityModel, progress: Progress) -> list[Connection]:
        """Return connections to fit hosts. Raises HostUnreachableError, HostUnfitError or PolicyError."""
        hosts = self.hosts[: model.parties]
        self._close([party for party, one in self._open.items() if one.lost])
        missing = [host for host in hosts if host.party not in self._open]

        def connect(host: Host) -> None:
            self._open[host.party] = Connection(host)

        at_once(connect, missing)
        connections = [self._open[host.party] for host in hosts]
        # A check of hosts counts for ten minutes.
        if missing or model.name not in self.seen or time.monotonic() - self._seen_at[model.name] > 600.0:
            self.seen[model.name] = _look(connections, model, progress)
            self._seen_at[model.name] = time.monotonic()
        return connections

    def _close(self, parties: Sequence[int]) -> None:
        with uninterrupted():
            at_once(Connection.close, [self._open.pop(party) for party in parties])


class BenchmarkRunner(HostsRunner):
    """Runs one cell's parties on hosts."""

    _signs_ends = False

    def __init__(self, hosts: BenchmarkHosts, model: SecurityModel, trial: Trial) -> None:
        super().__init__(hosts.hosts[: model.parties], model)
        self._benchmark, self._trial = hosts, trial

    @contextmanager
    def _waiting(
        self,
        job: Job,
        timeout_s: float,
        progress: Progress,
        network: Network | None,
    ) -> Iterator[_AtHosts]:
        self._connections = self._benchmark.ready(self.model, progress)
        trial = asdict(self._trial)
        try:
            at_once(lambda one: one.ask("benchmark", party=one.host.party, trial=trial), self._connections)
            with super()._waiting(job, timeout_s, progress, network) as ready:
                yield ready
        except FairSharesError:
            del self._benchmark.seen[self.model.name]  # so that the next run checks the hosts again
            raise


def _look(connections: Sequence[Connection], model: SecurityModel, progress: Progress) -> dict[str, Any]:
    hosts = [
        {
            "party": finding.host.party,
            "name": finding.host.address,
            **finding.facts["machine"],
            "environment": finding.facts["environment"],
            "engine_version": finding.facts["engine_version"],
            "clock_offset_s": round(finding.skew_s, 3),
        }
        for finding in fit_hosts(connections, model, progress)
    ]
    links = list(_links(connections, engine_of(model).connects_down))
    return {
        "hosts": hosts,
        "network": {
            "links": links,
            "measured_rtt_s": max(link["rtt_s"] for link in links),
            "measured_bandwidth_bits_per_s": min(link["bandwidth_bits_per_s"] for link in links),
        },
    }


def _links(connections: Sequence[Connection], down: bool) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        stack.callback(at_once, lambda one: one.ask("stop_listening"), connections)
        greetings = at_once(lambda one: one.ask("listen", kind=RunName, port=one.host.port), connections)
        for number, one in enumerate(connections):
            others = range(number) if down else range(number + 1, len(connections))
            wanted = [(connections[other].host, greetings[other]) for other in others]
            times = ask_of_others(one, "time_links", tuple[float, float] | None, wanted)
            for other, timed in zip(others, times, strict=True):
                if timed is None:
                    raise HostUnfitError(
                        f"{one.host.title} lost {connections[other].host.name} while the link between them "
                        "was measured; look at the network between them."
                    )
                yield {"parties": [number, other], "rtt_s": timed[0], "bandwidth_bits_per_s": timed[1]}
