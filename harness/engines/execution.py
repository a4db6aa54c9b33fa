"""A run on any engine: job, program, result and runner."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, TypedDict

from msgspec import Meta

from fairshares.harness.bounds import Size
from fairshares.harness.charged import Chargeable, Charged, Permission
from fairshares.harness.computation import EmulatedNetwork, HostsRun, Preprocessing
from fairshares.harness.engines.links import Network
from fairshares.harness.errors import LedgerError, OutputError, UnsupportedError, refuse
from fairshares.harness.online.session import ClientInputs
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.circuits.noise import input_widths
from fairshares.protocols.noise.added import DistributedNoise, NoiseDistribution
from fairshares.protocols.spec import REPLICATED, InputForm, ProtocolSpec

LONGEST_S = 1e9  # the longest time of a run: thirty years
MOST_COUNTED = 1 << 63  # bytes, or rounds
LONGEST_PRINTED = 1 << 14  # bytes of what a program prints that are kept


class Times(TypedDict):
    """Seconds of a run; None if nobody measured them.

    Papers' times are compared with `mpc_s`, the slowest party's. The computation's include preprocessing, but
    neither start-up nor compilation.
    """

    mpc_s: float | None
    party_mpc_s: list[float] | None
    online_s: float | None
    offline_s: float | None
    wall_s: float | None
    compile_s: float | None
    share_s: float | None


TIMES = ("mpc_s", "party_mpc_s", "online_s", "offline_s", "wall_s", "compile_s", "share_s")


def unmeasured() -> Times:
    """Return the times of a run that nobody measured."""
    return Times(
        mpc_s=None,
        party_mpc_s=None,
        online_s=None,
        offline_s=None,
        wall_s=None,
        compile_s=None,
        share_s=None,
    )


def times_of(
    party_mpc_s: Sequence[float],
    compile_s: float,
    *,
    online_s: float | None = None,
    offline_s: float | None = None,
    wall_s: float | None = None,
) -> Times:
    """Return a run's times."""
    times = unmeasured()
    times["mpc_s"] = max(party_mpc_s)
    times["party_mpc_s"] = list(party_mpc_s)
    times["compile_s"] = compile_s
    times["online_s"] = online_s
    times["offline_s"] = offline_s
    times["wall_s"] = wall_s
    return times


@dataclass(frozen=True)
class PhaseCosts:
    """The costs of a phase of a computation at a party, as its machine reports them.

    Raises ValueError for numbers that are none.
    """

    seconds: float
    sent_bytes: int
    rounds: int

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < LONGEST_S:  # nor is NaN in this range
            raise ValueError("digits that are no time")
        if not (0 <= self.sent_bytes < MOST_COUNTED and 0 <= self.rounds < MOST_COUNTED):
            raise ValueError("digits that are no number of bytes or rounds")


@dataclass(frozen=True)
class Printed:
    """The text that a program printed at a party: its beginning, and its number of bytes."""

    text: Annotated[str, Meta(max_length=LONGEST_PRINTED)]
    size: Size


PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = PROJECT / "Programs" / "Source"

Progress = Callable[[str], None]  # receives the name of each step as it begins


@dataclass(frozen=True)
class StepsOfRun:
    """Names the steps of one of several runs: the run's own name comes before the step's.

    Attributes:
        run: The run's name.
        progress: Receives the names.
    """

    run: str
    progress: Progress

    def begin(self, step: str) -> None:
        """Tell that a step of the run begins."""
        self.progress(f"{self.run} {step}")


@dataclass(frozen=True)
class DistributedNoiseInput:
    """How a party's own noise enters its input.

    Attributes:
        samples: Number of samples that each party draws.
        values: Number of the party's values that the program reads.
        sums: The values that each noisy value is the sum of (`protocols.spec.Sums`), if noise is added to
            sums. None puts noise behind the values.
    """

    samples: int
    values: int = 0
    sums: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class Job(ABC):
    """A program and what it takes, except for inputs, which only a `PrivateJob` has.

    Attributes:
        spec: The protocol.
        source: The program's file.
        arguments: The program's arguments, in the order of the protocol's names.
        fair_bits: (width, lanes) of each block of random bits that every party draws as it starts.
        compile_options: Options in place of the model's, if any.
        own: How each party's own noise enters its input. None if the program adds noise itself.
        pieces: The directory of each party for shares of noise made ahead.
        keeps_printed: Whether what the program prints is part of the result, as of a program of a user's own,
            on values that are nobody's secret.
        compile_timeout_s: The most seconds that compiling it may take.
    """

    spec: ProtocolSpec
    source: Path
    arguments: tuple[str, ...]
    _: KW_ONLY
    fair_bits: tuple[tuple[int, int], ...] = ()
    compile_options: tuple[str, ...] = ()
    own: DistributedNoiseInput | None = None
    pieces: tuple[Path, ...] | None = None
    keeps_printed: bool = False
    compile_timeout_s: float = 1800.0

    @property
    @abstractmethod
    def sending(self) -> ClientInputs | None:
        """The clients that send while the parties run, if any."""

    @abstractmethod
    def values_of(self, party: int) -> Path | None:
        """Return the file of a party's values, None if it gets none from here."""

    @property
    def is_foreign(self) -> bool:
        """Whether the program is somebody else's: nothing is known of it, and its inputs are public."""
        return False

    @property
    def is_production(self) -> bool:
        """Whether the program is in `Programs/Source`."""
        return self.source.resolve().is_relative_to(PROGRAMS.resolve())

    @property
    def named_arguments(self) -> dict[str, str]:
        """The program's arguments by name."""
        return dict(zip(self.spec.arguments, self.arguments, strict=False))

    @property
    def replicated(self) -> bool:
        """Whether parties' files hold replicated shares."""
        return self.named_arguments.get("path") == REPLICATED.name

    @property
    def compared(self) -> int:
        """Number of integers that the program compares."""
        return self.spec.compared(self.named_arguments)

    @property
    def lanes(self) -> int:
        """The most lanes of bits that are input for noise or clients' slots."""
        arguments = self.named_arguments
        most = 0
        if self.spec.slot_bits:
            most = int(arguments["slots"]) // int(arguments["per_lane"])
        for _, lanes in self.fair_bits:
            most = max(most, lanes)
        return most

    def batch(self, model: SecurityModel) -> int | None:
        """Return the batch size, None for the machine's choice."""
        records = 0
        if self.spec.records_at_once:  # it sorts all keys at once, or compares all scores with a threshold
            records = int(self.named_arguments["records"])
        return model.batch(self.lanes, records)

    def check_parties(self, model: SecurityModel) -> None:
        """Raise UnsupportedError unless all parties give inputs and all bits of noise.

        Guarantees: no request makes a production program draw less noise than its ε says.
        [test: tests/harness/engines/test_supports.py, tests/harness/hosts/test_agreement.py]
        """
        parties = self.named_arguments.get("parties", model.parties)
        made_ahead = self.spec.makes_piece or self.spec.uses_piece
        refuse(
            UnsupportedError,
            (
                int(parties) != model.parties,
                f"{self.spec.name} was laid out for {parties} parties; model {model.name} has "
                f"{model.parties}.",
            ),
            (
                self.is_production and made_ahead != (self.pieces is not None),
                f"{self.spec.name} takes no noise of a stock, or was given none of it.",
            ),
        )
        if self.is_production:
            if not self.spec.uses_piece:
                self._check_bits()
            self._check_distributed_noise(model)

    def distributed_noise(self, model: SecurityModel) -> DistributedNoise | None:
        """Return each party's own noise, if any, or raise UnsupportedError."""
        if not self.spec.draws_distributed_noise:
            return None
        named = self.named_arguments
        honest = model.parties - model.corruptions
        try:
            law = NoiseDistribution(named["law"])
            rate = Fraction(named["rate"])
            edge = int(named["edge"])
            return DistributedNoise(law, rate, edge, model.parties, honest)
        except (ArithmeticError, LookupError, ValueError):
            raise UnsupportedError(f"{self.spec.name} has no noise for its arguments.") from None

    def _check_distributed_noise(self, model: SecurityModel) -> None:
        """Raise UnsupportedError unless each noisy value gets each party's own noise, where it is read."""
        if not (self.distributed_noise(model) or self.spec.adds_to_sums) or self.spec.release is None:
            return
        named = self.named_arguments
        noisy = int(named["nodes"]) if "nodes" in named else self.spec.release(named).nodes
        own = self.own
        refuse(
            UnsupportedError,
            (
                own is None or own.samples != noisy,
                f"{self.spec.name} was told to draw another number of samples than it has values.",
            ),
            (
                own and (own.sums is not None) != ("nodes" in named and own.values > 0),
                f"{self.spec.name} was told to put noise elsewhere than it is read.",
            ),
        )

    def _check_bits(self) -> None:
        """Check the number of bits; missing ones would be zeros."""
        try:
            needed = input_widths(self.spec.fair_bits(self.named_arguments))
        except (ArithmeticError, LookupError, ValueError):
            raise UnsupportedError(f"{self.spec.name} has no noise for its arguments.") from None
        if [width for width, _ in self.fair_bits] != needed or len({n for _, n in self.fair_bits}) > 1:
            raise UnsupportedError(
                f"{self.spec.name} was told to draw other numbers of random bits than its noise takes."
            )


@dataclass(frozen=True)
class ValuesElsewhere:
    """Clients' values that are not on this machine: each party has its own, or gets them later."""


@dataclass(frozen=True)
class ValueFiles:
    """Clients' values, as parties have them.

    Attributes:
        files: A file for each party, of values in the model's domain, little-endian.
    """

    files: tuple[Path, ...]


VALUES_ELSEWHERE = ValuesElsewhere()

ClientValues = ValuesElsewhere | ValueFiles | ClientInputs
"""Where clients' values are before a run: elsewhere, in files, or at clients that send while parties run."""


@dataclass(frozen=True)
class PrivateJob(Job):
    """A program with inputs of clients, which runs only once it is charged.

    Attributes:
        values: The place of clients' values.
        piece_at_hosts: The name of the piece of noise made ahead that all hosts take for it, None
            for none.
    """

    values: ClientValues
    _: KW_ONLY
    piece_at_hosts: str | None = None

    def __post_init__(self) -> None:
        if self.spec.made_up and not isinstance(self.values, ValuesElsewhere):
            raise UnsupportedError(
                f"{self.spec.name} is for benchmarks and protects nobody: it makes its records up and takes "
                "no shares."
            )

    @property
    def sending(self) -> ClientInputs | None:
        return self.values if isinstance(self.values, ClientInputs) else None

    def values_of(self, party: int) -> Path | None:
        return self.values.files[party] if isinstance(self.values, ValueFiles) else None

    def check_parties(self, model: SecurityModel) -> None:
        if isinstance(self.values, ValueFiles) and len(self.values.files) != model.parties:
            raise UnsupportedError(
                f"{self.spec.name} was given inputs of {len(self.values.files)} parties; model {model.name} "
                f"has {model.parties}."
            )
        super().check_parties(model)


@dataclass(frozen=True)
class MadeUpJob(Job, Permission):
    """A program without anybody's data: noise, samples of noise, or records that the program makes up.

    It has no place for a record or an upload, and so it is its own permission: it runs without a charge.
    """

    @property
    def sending(self) -> None:
        return None

    def values_of(self, party: int) -> None:  # noqa: ARG002
        return None


@dataclass(frozen=True, kw_only=True)
class EngineResult:
    """A finished run: the program, the engine, the cost, and the opened integers.

    Attributes:
        outputs: The opened integers by name of the `OUT` line, equal at all parties.
        times: The seconds that it took.
        left_out: The number of clients that the parties left out, by reason.
        signed: The statement of the run that hosts signed; see `fairshares.harness.hosts.signed_results`.
        hosts: The facts about the run that hosts signed.
        preprocessing: The noise that hosts had made ahead.
        phases: The costs of each phase, by its name, at each party: "online", "offline" (of several threads
            their sums), and "timer_N" for a timer N of the program's own.
        printed: The text that the program printed at each party, where it is kept.
    """

    model: SecurityModel
    outputs: Mapping[str, tuple[int, ...]]
    engine: str
    engine_version: str
    program_hash: str
    compile_options: tuple[str, ...] = ()
    times: Times = field(default_factory=unmeasured)
    rounds: int | None = None
    sent_bytes: tuple[int, ...] = ()
    client_sent_bytes: tuple[int, ...] | None = None
    client_received_bytes: tuple[int, ...] | None = None
    peak_memory_bytes: tuple[int, ...] = ()
    network: EmulatedNetwork | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    signed: tuple[Signed, ...] = ()
    hosts: HostsRun | None = None
    preprocessing: Preprocessing | None = None
    phases: Mapping[str, tuple[PhaseCosts, ...]] = field(default_factory=dict)
    printed: tuple[Printed, ...] = ()


@dataclass(frozen=True)
class PreparedJob:
    """A job with its program.

    `libraries` are the shared libraries that its machine loads, by their paths. `fault_of_links` says why
    links do not ask for certificates.
    """

    job: Job
    model: SecurityModel
    engine_version: str
    program_hash: str
    compile_options: tuple[str, ...] = ()
    compile_s: float = 0.0
    command: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    fault_of_links: str | None = None


class ReadyParties(Chargeable, ABC):
    """Parties that have started, have their inputs, and wait: nothing has left them."""

    def go(self, charged: Charged) -> EngineResult:
        """Let these parties compute, once, on the charge that was made for them; return what they revealed.

        Raises PartyFailedError, PartyTimeoutError, ClientError or OutputError; LedgerError if the charge was
        made for other parties, or let these go before.
        """
        return self._finish(charged.begin(self))

    @abstractmethod
    def _finish(self, permission: Permission) -> EngineResult:
        """Let the parties go, and return what they revealed.

        Args:
            permission: The run's charge, which has begun, or the very job if it is on nobody's data.

        Raises as `go`.
        """


def check_permission(permission: Permission, job: Job) -> None:
    """Raise LedgerError for the permission of another job that is on nobody's data.

    A permission by a charge was compared with the parties as it began.
    """
    if isinstance(permission, MadeUpJob) and permission is not job:
        raise LedgerError(
            f"A job without anybody's data permits itself alone, and that of {job.spec.name} is another; "
            "charge its run."
        )


class Backend(ABC):
    """The place where parties run: this machine with its engine, or hosts with an engine each."""

    @abstractmethod
    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        """Return why this combination is unsound or cannot run, if so."""


@dataclass(frozen=True)
class Conditions:
    """The files and limits that a job's parties are given besides the job.

    Attributes:
        work: The new directory in which each party on this machine gets its own.
        timeout_s: Seconds to start and compute.
        progress: Receives the name of each step as it begins.
        network: The emulated network between the parties, if any.
    """

    work: Path
    timeout_s: float
    progress: Progress
    network: Network | None = None


class Runner(Backend):
    """A backend that runs jobs on clients' inputs."""

    @abstractmethod
    def prepare(
        self, job: PrivateJob, model: SecurityModel, conditions: Conditions
    ) -> AbstractContextManager[ReadyParties]:
        """Start a process per party; they wait until they may go.

        The block ends them. Whatever is raised, KeyboardInterrupt included, no process and no secret file is
        left, nor the directory of their work.

        Raises UnsupportedError, CompileError, UsedDirectoryError, PartyFailedError or PartyTimeoutError, or
        as `Network.links_between`.
        """

    def finish(self, result: EngineResult, results: Path) -> None:
        """Check a run's result files before they are put in place, or raise SignatureError."""


class MadeUpRunner(ABC):
    """A runner of jobs without anybody's data: an engine on this machine, or hosts of a benchmark."""

    @abstractmethod
    def run(self, job: MadeUpJob, model: SecurityModel, conditions: Conditions) -> EngineResult:
        """Run a job without anybody's data, uncharged.

        Raises, and leaves as much, as `Runner.prepare` and `ReadyParties.go`.
        """


# At most 20 digits: a damaged line does not become a huge integer.
_LINE = re.compile(
    r"OUT ([A-Za-z_][A-Za-z0-9_]*) (?:(-?\d{1,20})|\[(-?\d{1,20}(?:, -?\d{1,20})*)\])", re.ASCII
)
_LIMIT = 1 << 63


def parse_outputs(logs: Sequence[Sequence[str]], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the `OUT <name> <integers>` lines of every party's log, in the order of `names`.

    Guarantees: every party printed exactly these names, once each, with the same integers in [-2^63, 2^63).
    Other lines are ignored. Without names anything may be printed.
    [test: tests/harness/engines/test_output_parser.py]

    Raises OutputError, which has names and parties, never a value.
    """
    if not logs:
        raise OutputError("No party printed anything; the run has no result.")
    if not names:
        return {}
    outputs = [_party_outputs(log, names, party) for party, log in enumerate(logs)]
    for party, other in enumerate(outputs):
        differing = [name for name in names if other[name] != outputs[0][name]]
        if differing:
            raise OutputError(
                f"Parties 0 and {party} revealed different values for {', '.join(differing)}; a party is "
                "faulty or deviates, discard this run."
            )
    return outputs[0]


def _party_outputs(log: Sequence[str], names: Sequence[str], party: int) -> dict[str, tuple[int, ...]]:
    """Return a party's outputs in the order of `names`; raises as `parse_outputs`."""
    outputs: dict[str, tuple[int, ...]] = {}
    for line in log:
        if line.startswith("OUT"):
            name, values = _parsed(line.rstrip(), party)
            refuse(
                OutputError,
                (
                    name not in names,
                    f"Party {party} printed OUT {name}, which the protocol does not declare.",
                ),
                (name in outputs, f"Party {party} printed OUT {name} twice."),
            )
            outputs[name] = values
    missing = [name for name in names if name not in outputs]
    if missing:
        raise OutputError(f"Party {party} did not print OUT {', '.join(missing)}; the run did not complete.")
    return {name: outputs[name] for name in names}


def _parsed(line: str, party: int) -> tuple[str, tuple[int, ...]]:
    """Return the name and the integers of an `OUT` line; raises as `parse_outputs`."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise OutputError(f"Party {party} printed an OUT line that is not a name and integers.")
    values = tuple(map(int, (match[2] or match[3]).split(", ")))
    if not all(-_LIMIT <= value < _LIMIT for value in values):
        raise OutputError(f"Party {party} revealed a value outside [-2^63, 2^63) in OUT {match[1]}.")
    return match[1], values
