"""Measured runs. Each is a line of JSON, which is appended to a file when the run ends."""

import gzip
import json
import os
import statistics
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from benchmarks.measure.machines import FILE_ENDING
from fairshares.harness.engines.execution import TIMES, PhaseCosts, Printed
from fairshares.harness.errors import ResultFileError, WriteError
from fairshares.harness.system.documents import Refusal, as_type, parse_json
from fairshares.harness.system.result_files import result_path

T = TypeVar("T")

SCHEMA = 1
SAMPLES = "samples.jsonl"
ABOUT = "about.json"
OK = "ok"
FAILED = "failed"
SKIPPED = "skipped"
STATUSES = (OK, FAILED, SKIPPED)
CONFIDENCE = 0.95  # the confidence of intervals, unless an experiment says otherwise

Level = str | int | float
AT_FIRST: dict[str, Level] = {"noise": "joint"}  # levels of cells that were recorded before the factor was
Cell = tuple[tuple[str, Level], ...]  # one level of each factor, sorted by the factor's name

# The order of factors in a cell's name, and levels that it leaves out.
_ORDER = (
    "program",
    "arguments",
    "compile_options",
    "inputs",
    "threads",
    "protocol",
    "variant",
    "input_path",
    "shape",
    "clients",
    "records",
    "samples",
    "thresholds",
    "groups",
    "labels",
    "cap",
    "epsilon",
    "noise",
    "network",
    "parties",
    "security",
    "machine",
    "batch_size",
    "bucket_size",
    "security_bits",
    "run_options",
)
# Factors whose levels alone would say too little, with what a cell's name has around them. A machine may have
# the name of a model.
_IN_WORDS = {
    "machine": f"{{}}{FILE_ENDING}",
    "threads": "{} threads",
    "parties": "{} parties",
    "batch_size": "batches of {}",
    "bucket_size": "buckets of {}",
    "security_bits": "{} bits of security",
}
_USUAL: dict[str, Level] = {
    "input_path": "shares",
    "thresholds": 1001,
    "groups": 2,
    "labels": 2,
    "epsilon": "1",
    "network": "none",
    **AT_FIRST,
}


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The program, engine and cost of a run, as files of samples hold them.

    A time that is unknown is None. The computation's time includes preprocessing, but neither start-up nor
    compilation. Of a program of a user's own, `phases` has the costs of each phase by party, and `printed`
    what it printed at each party.
    """

    engine: str | None = None
    engine_version: str | None = None
    program_hash: str | None = None
    compile_options: tuple[str, ...] = ()
    times: Mapping[str, Any] = field(default_factory=lambda: dict.fromkeys(TIMES))
    rounds: int | None = None
    sent_bytes: tuple[int, ...] = ()
    client_sent_bytes: tuple[int, ...] | None = None
    peak_memory_bytes: tuple[int, ...] = ()
    network: Mapping[str, Any] | None = None
    phases: Mapping[str, tuple[PhaseCosts, ...]] = field(default_factory=dict)
    printed: tuple[Printed, ...] = ()


@dataclass(frozen=True)
class Sample(RunRecord):
    """An attempt to run a repetition of a cell, with the run's record.

    `reason` says why a run failed, or why the cell was skipped: it can't run here, or it is excluded.
    """

    suite: str
    cell: Annotated[Mapping[str, Level], Meta(min_length=1)]  # level by factor
    repetition: Annotated[int, Meta(ge=0)]
    status: Annotated[str, Meta(pattern="^(ok|failed|skipped)$")]
    time: str  # UTC, ISO 8601
    environment: Mapping[str, Any]
    reason: str | None = None
    hosts: tuple[Mapping[str, Any], ...] = ()
    warm_up: bool = False

    def __post_init__(self) -> None:
        if (self.reason is None) != (self.status == OK):
            raise ValueError(f"a run that is {self.status!r} cannot have the reason {self.reason!r}")
        if set(self.times) != set(TIMES):
            raise ValueError("a sample has all times of a run")

    @property
    def key(self) -> Cell:
        """The cell as a key."""
        return cell_key(self.cell)


@dataclass(frozen=True)
class PhaseOfRuns:
    """The costs of a phase of a program in runs of a cell, of those that report it.

    Attributes:
        seconds: The seconds of the slowest party, by run.
        sent_bytes: The bytes of all parties together, by run.
        rounds: The most of any party and run.
    """

    seconds: tuple[float, ...]
    sent_bytes: tuple[int, ...]
    rounds: int


@dataclass(frozen=True)
class Summary:
    """The median, the least and the largest value of n runs."""

    n: int
    median: float
    low: float
    high: float


def phases_of(runs: Sequence[Sample]) -> dict[str, PhaseOfRuns]:
    """Return the costs of each phase in runs of a cell, in the order in which they report them."""
    costs: dict[str, list[tuple[PhaseCosts, ...]]] = {}
    for run in runs:
        for name, by_party in run.phases.items():
            costs.setdefault(name, []).append(by_party)
    phases = {}
    for name, by_run in costs.items():
        seconds = []
        sent_bytes = []
        for by_party in by_run:
            seconds.append(max(cost.seconds for cost in by_party))
            sent_bytes.append(sum(cost.sent_bytes for cost in by_party))
        phases[name] = PhaseOfRuns(
            seconds=tuple(seconds),
            sent_bytes=tuple(sent_bytes),
            rounds=max(cost.rounds for by_party in by_run for cost in by_party),
        )
    return phases


def cell_key(cell: Mapping[str, Level]) -> Cell:
    """Return the cell as a key, without the factors that earlier cells lack."""
    return tuple(sorted(cell.items() - AT_FIRST.items()))


def model_name(cell: Mapping[str, Level]) -> str:
    """Return the security model that a cell runs in, or the file of MP-SPDZ's machine that it runs on."""
    if "machine" in cell:
        return f"{cell['machine']}{FILE_ENDING}"
    return str(cell.get("security", ""))


def name_of(cell: Mapping[str, Level], *hidden: str) -> str:
    """Return a cell's levels, joined by dots, without usual levels and levels of factors in `hidden`."""
    left_out = set(hidden)
    if cell.get("shape"):  # which tells the numbers of clients and records
        left_out |= {"clients", "records"}
    ordered = [factor for factor in _ORDER if factor in cell]
    ordered += sorted(set(cell) - set(_ORDER))
    shown = []
    for factor in ordered:
        is_usual = cell[factor] in ("", 0, _USUAL.get(factor))
        if factor not in left_out and not is_usual:
            shown.append(_IN_WORDS.get(factor, "{}").format(cell[factor]))
    return ".".join(shown)


def append(path: Path, record: Any, **more: Any) -> None:
    """Add a line with the fields of a dataclass and `more` to a file, and wait until it is on the disk.

    Guarantees: whatever a machine that died left behind, all earlier lines stay, and the new one is whole.
    [test: tests/benchmarks/measure/test_samples.py]

    Raises:
        WriteError: The line cannot be written, for example because the disk is full.
    """
    text = json.dumps({**more, **asdict(record)}, ensure_ascii=False, allow_nan=False) + "\n"
    packed = packed_path(path)
    try:
        if packed.exists():
            path.write_bytes(b"".join(line + b"\n" for line in whole_lines(path)))
        with path.open("a+b") as file:
            file.truncate(_length_of_whole_lines(path.read_bytes()))
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        packed.unlink(missing_ok=True)
    except OSError as error:
        raise WriteError(
            f"Cannot write to {path}: {error.strerror}; all earlier results are there. Go on by --resume."
        ) from None


def load(path: Path) -> list[Sample]:
    """Return a file's or directory's attempts, in order."""
    return load_lines(result_path(path, SAMPLES), Sample, "a measured run", SCHEMA)


def packed_path(path: Path) -> Path:
    """Return the path at which a file of lines may be packed by gzip. If both exist, the packed one holds."""
    return path.with_name(path.name + ".gz")


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file that may be packed, without a last line that was not written to its end."""
    packed = packed_path(path)
    try:
        if packed.exists():
            content = gzip.decompress(packed.read_bytes())
        else:
            content = path.read_bytes()
    except (EOFError, OSError, zlib.error) as error:
        raise ResultFileError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.") from None
    return content[: _length_of_whole_lines(content)].splitlines()


def load_lines(path: Path, kind: type[T], what: str, schema: int | None = None) -> list[T]:
    """Return an object for each whole line of JSON in a file.

    Args:
        path: The file.
        kind: The objects' type.
        what: The name of what a line should be, in the words of an error.
        schema: The number that each line's field `schema` should have; None for lines without it.

    Raises:
        ResultFileError: A line is something else.
    """
    way_out = "restore the file, or measure into a new directory"
    objects = []
    for number, line in enumerate(whole_lines(path), 1):
        refusal = Refusal(ResultFileError, f"{path}, line {number}", what, way_out)
        objects.append(as_type(kind, parse_json(line, refusal, schema), refusal))
    return objects


def by_cell(samples: Iterable[Sample]) -> dict[Cell, list[Sample]]:
    """Return, for each cell, the last run of each repetition, without warm-ups."""
    cells: dict[Cell, dict[int, Sample]] = {}
    for sample in samples:
        if not sample.warm_up:
            cells.setdefault(sample.key, {})[sample.repetition] = sample
    in_order = {}
    for cell, runs in cells.items():
        in_order[cell] = [runs[number] for number in sorted(runs)]
    return in_order


def summary(samples: Iterable[Sample], time: str = "mpc_s") -> Summary | None:
    """Summarize one of the times over good runs; None if there is none."""
    good = [sample for sample in samples if sample.status == OK and not sample.warm_up]
    values = [sample.times[time] for sample in good if sample.times[time] is not None]
    if not values:
        return None
    return Summary(len(values), statistics.median(values), min(values), max(values))


def interval_of_median(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Return the narrowest interval of order statistics that holds the median; None for too few values.

    Computes: the k-th least and the k-th largest for the largest k with 1 − 2 P(Bin(n, ½) < k) ≥ confidence.
    Guarantees: the interval holds the median of independent values with this probability. The probability is
    slightly smaller if values are measured until the interval is narrow.
    [test: tests/benchmarks/measure/test_samples.py]
    """
    n = len(values)
    ways_below = 0  # the ways in which n coins show fewer than k heads
    k = 0
    while k < n:
        ways_below += comb(n, k)
        if ways_below * 2 > (1 - confidence) * 2**n:
            break
        k += 1
    if k == 0:
        return None
    ordered = sorted(values)
    return ordered[k - 1], ordered[n - k]


def ratios_in_turn(above: Iterable[Sample], below: Iterable[Sample]) -> list[float]:
    """Return the ratios of two cells' seconds, one for each repetition that went well in both.

    The cells' repetitions were run in turn, so that a busy machine slows both alike.
    """
    seconds_above = {run.repetition: run.times["mpc_s"] for run in above if run.status == OK}
    seconds_below = {run.repetition: run.times["mpc_s"] for run in below if run.status == OK}
    in_both = sorted(set(seconds_above) & set(seconds_below))
    return [seconds_above[number] / seconds_below[number] for number in in_both]


def measured_over(runs: Iterable[Sample]) -> str:
    """Return the hosts and networks of runs in words; an empty text if there are none."""
    over_hosts = [run for run in runs if run.hosts and run.network]
    if not over_hosts:
        return ""
    networks = [run.network for run in over_hosts if run.network]
    trips = [float(network["measured_rtt_s"]) for network in networks]
    rates = [float(network["measured_bandwidth_bits_per_s"]) for network in networks]
    names = {str(host["name"]) for run in over_hosts for host in run.hosts}
    return (
        f"measured over {len(names)} hosts, RTT {_span(trips, 1e3)} ms, {_span(rates, 1e-9)} Gbit/s (of each "
        "run's slowest pair)"
    )


def _span(values: Sequence[float], per_unit: float) -> str:
    least = f"{min(values) * per_unit:.3g}"
    most = f"{max(values) * per_unit:.3g}"
    if least == most:
        return least
    return f"{least} to {most}"


def _length_of_whole_lines(content: bytes) -> int:
    return content.rfind(b"\n") + 1
