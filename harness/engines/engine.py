"""The common part of all engines."""

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import convert

from fairshares.harness.bounds import Address
from fairshares.harness.charged import Chargeable, Charged, Permission
from fairshares.harness.engines.execution import (
    LONGEST_S,
    MOST_COUNTED,
    Conditions,
    DistributedNoiseInput,
    EngineResult,
    Job,
    MadeUpJob,
    MadeUpRunner,
    PhaseCosts,
    PreparedJob,
    PrivateJob,
    ReadyParties,
    Runner,
    parse_outputs,
    times_of,
)
from fairshares.harness.engines.links import Links, links_between
from fairshares.harness.engines.parties.config import (
    PartyConfig,
    PartyEngine,
    RoundsOfColumns,
    VirtualMachine,
)
from fairshares.harness.engines.parties.handle import LocalParty, PartySetup, PartyState
from fairshares.harness.engines.parties.layouts import (
    AdditiveShares,
    NoiseBehindColumn,
    NoShares,
    OwnNoise,
    PublicIntegers,
    ReplicatedShares,
    RingName,
    ShareLayout,
    Slots,
    SumsOfColumn,
)
from fairshares.harness.engines.parties.noise_terms import NoiseTerms
from fairshares.harness.engines.parties.party_log import MOST_FOREIGN_LOG_BYTES, MOST_LOG_BYTES
from fairshares.harness.engines.parties.supervisor import (
    LaysPartyOut,
    Rounds,
    WaitingParties,
    free_ports,
    waiting_parties,
)
from fairshares.harness.engines.parties.working_directory import LOOPBACK
from fairshares.harness.errors import OutputError, UnsupportedError, named
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.party_reports import ClientsServed, MalformedReportError, reports_in
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.spec import CLIENTS, REPLICATED, InputForm, ProtocolSpec

# Why clients are left out.
_ABSENT = "did not come to all parties in time"
_FAILED = "did not send all parties the same values in time"
_COMPLAINED = "said that their masks do not fit: a party may cheat"

RING_NAMES: dict[str, RingName] = {"ring64": "ring64", "field127": "field127"}
MOST_FILE_BYTES = 1 << 30  # bytes that a program of which nothing is known writes into a file


@dataclass(frozen=True)
class PartyCosts:
    """A party's own costs."""

    seconds: float
    sent_bytes: int
    rounds: int | None = None
    online_s: float | None = None
    offline_s: float | None = None
    phases: Mapping[str, PhaseCosts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for seconds in (self.seconds, self.online_s, self.offline_s):
            if seconds is not None and not 0 <= seconds < LONGEST_S:  # nor is NaN in this range
                raise ValueError("digits that are no time")
        for count in (self.sent_bytes, self.rounds):
            if count is not None and not 0 <= count < MOST_COUNTED:
                raise ValueError("digits that are no number of bytes or rounds")


@dataclass(frozen=True)
class RoundsShape:
    """The number of rounds that parties have, and of values in each round's column."""

    rounds: int
    values: int


@dataclass(frozen=True, kw_only=True)
class EnginePart:
    """An engine's part of what starts a party.

    Attributes:
        engine: The engine that computes.
        reads: Files and directories of the engine and the program. The party's process may read these and
            Python's, and no others.
        packages: Python packages that only a party's process imports.
        links: Files and directories that the party's directory has links to, by the links' names.
        replicated: How the engine's replicated shares lie in files. None if the engine takes none.
    """

    engine: PartyEngine
    reads: tuple[str, ...]
    packages: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    replicated: ReplicatedShares | None = None


class Engine(Runner, MadeUpRunner):
    """Runs `.mpc` programs, each party in a process and a directory of its own.

    Parties connect to lower numbers if `connects_down`, else to higher ones.

    Args:
        lay_out: Lays a party out on this machine.
    """

    name: str
    compiles: bool
    connects_down: bool

    def __init__(self, lay_out: LaysPartyOut = LocalParty) -> None:
        self._lay_out = lay_out

    @abstractmethod
    def version(self) -> str | None:
        """Return the installation's version, if any."""

    @abstractmethod
    def availability(self, model: SecurityModel) -> str | None:
        """Return the reason why a model cannot run here, with the remedy; None if it can run."""

    def fault_of_links(self, model: SecurityModel) -> str | None:  # noqa: ARG002
        """Return why links do not ask for certificates; None if all do."""
        return None

    @abstractmethod
    def common_name(self, party: int) -> str:
        """Return the name in a party's certificate."""

    @abstractmethod
    def program_hash(self, job: Job, model: SecurityModel) -> str:
        """Return the program's hash without compiling it.

        [test: tests/commands/test_bench_measured.py]
        """

    def is_compiled(self, job: Job, model: SecurityModel) -> bool:  # noqa: ARG002
        """Return whether the job would compile nothing."""
        return not self.compiles

    @abstractmethod
    def _program(self, job: Job, model: SecurityModel) -> PreparedJob:
        """Return the job with its program."""

    @abstractmethod
    def _part(self, prepared: PreparedJob, party: int) -> EnginePart:
        """Return the engine's part of what starts a party."""

    @abstractmethod
    def _costs(self, lines: Sequence[str]) -> PartyCosts:
        """Return the costs in a party's lines, or raise IndexError or ValueError."""

    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        reason = self.refusal(spec, model, form) or self.availability(model)
        if reason is None and form.path is REPLICATED:
            reason = self.fault_of_links(model)
        return reason

    def refusal(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        """Return why this combination is unsound on any machine, if so.

        Guarantees: in an active model no client value that came as a plain additive share is a factor of a
        secret product, where a party's change could carry other clients' values past the noise. Only sums
        depend on such a value, unless it was shared as bits, which stay bits.
        [test: tests/harness/engines/test_supports.py]
        """
        if form.name not in spec.input_forms:
            return f"{spec.name} has no input form {form.name!r}; choose {' or '.join(spec.input_forms)}."
        if form.path not in spec.input_paths:
            return (
                f"{spec.name} takes no values by input path {form.path.name!r}; use "
                f"{named('input_path', 'shares')}."
            )
        reason = model.refusal(form.path) or _refused_keys(spec, model)
        if reason is not None:
            return reason
        paths = []
        for path in spec.input_paths:
            # In no command do clients send to a program that has a single form.
            is_offered = path is not CLIENTS or len(spec.input_forms) > 1
            if path.authenticated and not model.refusal(path) and is_offered:
                paths.append(path.name)
        ways = []
        if paths:
            ways.append(named("input_path", " or ".join(paths)))
        if model.active and form.multiplies_client_values and not form.path.authenticated:
            if "split" in spec.input_forms:
                ways.append(named("input_form", "split"))
            return (
                f"Input form {form.name!r} multiplies plain shares, which one active (malicious) server "
                f"could use to reveal a client's value in {model.name}; use {_or_passive(ways)}."
            )
        if model.active and not (spec.linear or form.shares_bits or form.path.authenticated):
            return (
                f"{spec.name} is not linear in its plain shares: one active server could shift a count in "
                f"{model.name} to where less noise hides it; use {_or_passive(ways)}."
            )
        return None

    def prepared(self, job: Job, model: SecurityModel) -> PreparedJob:
        """Return the job with its program, or raise UnsupportedError or CompileError."""
        reason = self.availability(model)
        if reason is not None:
            raise UnsupportedError(reason)
        job.check_parties(model)
        prepared = self._program(job, model)
        if job.replicated and prepared.fault_of_links is not None:
            raise UnsupportedError(prepared.fault_of_links)
        return prepared

    def setup(
        self,
        prepared: PreparedJob,
        party: int,
        addresses: Sequence[Address],
        *,
        values: Path | None = None,
        gateway: GatewayConfig | None = None,
        rounds: RoundsOfColumns | None = None,
    ) -> PartySetup:
        """Return the set-up that starts a party of a job.

        Args:
            prepared: The job with its program.
            party: The party's number.
            addresses: The addresses at which parties find each other. A party listens on every interface
                unless they are loopback.
            values: The file of the party's shares, None if it gets none from here.
            gateway: The ports and limits of the gateway through which clients reach the party; None if no
                clients do.
            rounds: The columns that it gets while it runs.
        """
        job = prepared.job
        model = prepared.model
        part = self._part(prepared, party)
        piece = None if job.pieces is None else job.pieces[party]
        keeps_printed = job.keeps_printed and isinstance(part.engine, VirtualMachine)
        return PartySetup(
            config=PartyConfig(
                party=party,
                common_names=tuple(self.common_name(i) for i in range(model.parties)),
                engine=part.engine,
                addresses=tuple(addresses),
                fair_bits=job.fair_bits,
                shares=NoShares() if values is None else _shares_of(job, part),
                own_noise=None if job.own is None else _own_noise(job, model, job.own),
                rounds=rounds,
                gateway=gateway,
                reads=part.reads,
                packages=part.packages,
                keeps_printed=keeps_printed,
                most_file_bytes=MOST_FILE_BYTES if job.is_foreign else None,
            ),
            values=values,
            links=part.links,
            takes_noise=piece if job.spec.uses_piece else None,
            keeps_noise=piece if job.spec.makes_piece else None,
            notes_links=prepared.fault_of_links is None,  # else it is unknown whom they accepted
            shows_all_lines=keeps_printed or job.is_foreign,
            most_log_bytes=MOST_FOREIGN_LOG_BYTES if job.is_foreign else MOST_LOG_BYTES,
        )

    def run(self, job: MadeUpJob, model: SecurityModel, conditions: Conditions) -> EngineResult:
        with self.prepare(job, model, conditions) as parties:
            return parties._finish(job)

    @contextmanager
    def prepare(self, job: Job, model: SecurityModel, conditions: Conditions) -> Iterator[ReadyParties]:
        """Start the parties of any job, as `Runner.prepare`; `run` lets its own go without a charge."""
        began = time.monotonic()
        parties = model.parties
        if self.compiles:
            conditions.progress("compile")
        prepared = self.prepared(job, model)
        timeout_s = conditions.timeout_s
        ports_of_each = 1 if job.sending is None else 3
        with free_ports(ports_of_each * parties) as ports:
            conditions.progress("run")
            gateways: list[GatewayConfig | None] = [None] * parties
            if job.sending is not None:
                # Two ports for each party: for its clients, and for its virtual machine.
                of_gateways = zip(ports[parties::2], ports[parties + 1 :: 2], strict=True)
                gateways = [
                    job.sending.gateway(LOOPBACK, port, machine_port, timeout_s)
                    for port, machine_port in of_gateways
                ]
            with links_between(ports[:parties], conditions.network) as links:
                setups = self._setups(prepared, links, gateways)
                with waiting_parties(job, setups, conditions.work, timeout_s, self._lay_out) as waiting:
                    yield _OnThisMachine(self, prepared, waiting, links, began)

    def _setups(
        self, prepared: PreparedJob, links: Links, gateways: Sequence[GatewayConfig | None]
    ) -> Iterator[PartySetup]:
        """Yield the set-up of each party on this machine, one when the one before it is laid out."""
        for party, gateway in enumerate(gateways):
            addresses = [(LOOPBACK, port) for port in links.ports[party]]
            values = prepared.job.values_of(party)
            yield self.setup(prepared, party, addresses, values=values, gateway=gateway)

    @contextmanager
    def prepare_rounds(
        self, job: PrivateJob, model: SecurityModel, work: Path, timeout_s: float, shape: RoundsShape
    ) -> Iterator["ReadyRounds"]:
        """Start the parties of rounds, which then wait, as `prepare` starts the parties of a job."""
        prepared = self.prepared(job, model)
        with free_ports(model.parties) as ports:
            addresses = [(LOOPBACK, port) for port in ports]
            rounds = RoundsOfColumns(number=shape.rounds, column_bytes=shape.values * model.ring.value_bytes)
            setups = (
                self.setup(prepared, party, addresses, values=job.values_of(party), rounds=rounds)
                for party in range(model.parties)
            )
            with waiting_parties(job, setups, work, timeout_s, self._lay_out) as waiting:
                yield ReadyRounds(waiting)

    def result(self, prepared: PreparedJob, logs: Sequence[PartyState], wall_s: float) -> EngineResult:
        """Return the result in the parties' logs, or raise OutputError."""
        costs = self.costs(logs)
        slowest = max(costs, key=lambda cost: cost.seconds)
        peaks = [log.peak_memory_bytes for log in logs if log.peak_memory_bytes is not None]
        result = EngineResult(
            model=prepared.model,
            outputs=parse_outputs([log.lines for log in logs], prepared.job.spec.outputs),
            engine=self.name,
            engine_version=prepared.engine_version,
            program_hash=prepared.program_hash,
            compile_options=prepared.compile_options,
            times=times_of(
                [cost.seconds for cost in costs],
                prepared.compile_s,
                online_s=slowest.online_s,
                offline_s=slowest.offline_s,
                wall_s=wall_s,
            ),
            rounds=max((cost.rounds for cost in costs if cost.rounds is not None), default=None),
            sent_bytes=tuple(cost.sent_bytes for cost in costs),
            peak_memory_bytes=tuple(peaks) if len(peaks) == len(logs) else (),
            phases=_phases_of(costs),
            printed=tuple(log.printed for log in logs if log.printed is not None),
        )
        if prepared.job.sending is not None:
            result = _with_clients(result, logs)
        return result

    def costs(self, logs: Sequence[PartyState]) -> list[PartyCosts]:
        """Return each party's costs, or raise OutputError."""
        costs: list[PartyCosts] = []
        for party, log in enumerate(logs):
            try:
                reports_in(log.lines)  # each is one, whatever else the engine prints
                costs.append(self._costs(log.lines))
            except (IndexError, OverflowError, ValueError):
                raise OutputError(
                    f"Party {party} ended well but did not report its time and traffic; is its disk full? "
                    "No result was written."
                ) from None
        return costs


def _phases_of(costs: Sequence[PartyCosts]) -> dict[str, tuple[PhaseCosts, ...]]:
    """Return the costs of each phase at each party, without phases that a party does not report."""
    phases = {}
    for name in costs[0].phases:
        if all(name in cost.phases for cost in costs):
            phases[name] = tuple(cost.phases[name] for cost in costs)
    return phases


def _refused_keys(spec: ProtocolSpec, model: SecurityModel) -> str | None:
    """Return why a program that counts keys is refused in a model, None if it is not."""
    if spec.counts_keys_of is None or model.makes_bits_of_keys:
        return None
    able = [known.name for known in MODELS.values() if known.makes_bits_of_keys and known.virtual_machine]
    return (
        f"{spec.name} turns keys into bits, which {model.name} cannot; choose "
        f"{named('variant', 'histogram')}, or one of the models {', '.join(able)}."
    )


def _shares_of(job: Job, part: EnginePart) -> ShareLayout:
    """Return how a party's shares lie, for the input form and path of a job."""
    if job.is_foreign:
        return PublicIntegers()
    if job.replicated:
        if part.replicated is None:
            raise UnsupportedError(f"{job.spec.name} takes replicated shares, which this engine cannot read.")
        return part.replicated
    if job.spec.slot_bits is not None:
        named = job.named_arguments
        return Slots(
            slots=int(named["slots"]), width=job.spec.slot_bits(named), per_lane=int(named["per_lane"])
        )
    return AdditiveShares()


def _own_noise(job: Job, model: SecurityModel, own: DistributedNoiseInput) -> OwnNoise:
    """Return how a party's own noise enters its input, in public terms."""
    noise = job.distributed_noise(model)  # none for sums that get joint noise
    terms = None if noise is None else convert(noise.to_json(), NoiseTerms)
    ring = RING_NAMES[model.ring.name]
    if own.sums is not None:
        return SumsOfColumn(ring=ring, values=own.values, sums=own.sums, noise=terms)
    if terms is None:
        raise UnsupportedError(f"{job.spec.name} has no noise for its arguments.")
    return NoiseBehindColumn(ring=ring, values=own.values, samples=own.samples, noise=terms)


class ReadyRounds(Chargeable):
    """Parties of rounds that have started and wait: they have got no column."""

    def __init__(self, waiting: WaitingParties) -> None:
        self._waiting = waiting

    def go(self, charged: Charged) -> AbstractContextManager[Rounds]:
        """Let these parties begin their rounds, once, on the charge that was made for them.

        Raises LedgerError if the charge was made for other parties, or let these go before.
        """
        return self._waiting.rounds(charged.begin(self))


class _OnThisMachine(ReadyParties):
    """Parties of a job on this machine."""

    def __init__(
        self, engine: Engine, prepared: PreparedJob, waiting: WaitingParties, links: Links, began: float
    ) -> None:
        self._engine = engine
        self._prepared = prepared
        self._waiting = waiting
        self._links = links
        self._began = began

    def _finish(self, permission: Permission) -> EngineResult:
        states = self._waiting.finish(permission)
        result = self._engine.result(self._prepared, states, time.monotonic() - self._began)
        return replace(result, network=self._links.measured)


def _or_passive(ways: Sequence[str]) -> str:
    """Return the models that a user can choose, for messages: any of these, or a passive model."""
    if not ways:
        return "a passive model"
    return f"{', '.join(ways)}, or a passive model"


def _with_clients(result: EngineResult, logs: Sequence[PartyState]) -> EngineResult:
    """Return a result with what the gateways report, or raise OutputError."""
    served = [_clients_served(party, log.lines) for party, log in enumerate(logs)]
    left_out = [_reasons_of(report) for report in served]
    if any(reasons != left_out[0] for reasons in left_out):
        raise OutputError("The parties left out different numbers of clients; discard this run.")
    return replace(
        result,
        client_sent_bytes=tuple(report.sent_bytes for report in served),
        client_received_bytes=tuple(report.received_bytes for report in served),
        left_out=left_out[0],
    )


def left_out_by(party: int, lines: Sequence[str]) -> dict[str, int]:
    """Return how many clients a party left out, by reason, or raise OutputError."""
    return _reasons_of(_clients_served(party, lines))


def _reasons_of(served: ClientsServed) -> dict[str, int]:
    counts = {_ABSENT: served.absent, _FAILED: served.failed, _COMPLAINED: served.complained}
    return {why: count for why, count in counts.items() if count}


def _clients_served(party: int, lines: Sequence[str]) -> ClientsServed:
    """Return a gateway's report, or raise OutputError unless there is exactly one."""
    try:
        reports = [report for report in reports_in(lines) if isinstance(report, ClientsServed)]
    except MalformedReportError:
        reports = []
    if len(reports) != 1:
        raise OutputError(f"Party {party} ended well but did not report its clients' traffic.")
    return reports[0]
