"""Measured runs: one JSON line each, appended as the run ends."""

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

from harness.engines.base import TIMES
from harness.errors import ResultFileError
from harness.system.documents import Refusal, as_type, parse_json
from harness.system.result_files import result_path

T = TypeVar("T")

SCHEMA = 1
SAMPLES, ABOUT = "samples.jsonl", "about.json"
OK, FAILED, SKIPPED = STATUSES = ("ok", "failed", "skipped")
CONFIDENCE = 0.95  # of intervals, unless an experiment says otherwise

Level = str | int | float
AT_FIRST: dict[str, Level] = {"noise": "joint"}  # of earlier cells, without the factor
Cell = tuple[tuple[str, Level], ...]  # one level of each factor, sorted by the factor's name

# The order of factors in a cell's name, and levels that it leaves out.
_ORDER = (
    *("program", "arguments", "compile_options", "inputs"),
    *("protocol", "variant", "input_path", "shape", "clients", "records", "samples", "thresholds"),
    *("groups", "labels", "cap", "epsilon", "noise", "network", "security"),
)
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

    Unknown times are None. The computation's include preprocessing, but neither start-up nor compilation.
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


@dataclass(frozen=True)
class Sample(RunRecord):
    """One attempt to run one repetition of one cell, with the run's record."""

    suite: str
    cell: Annotated[Mapping[str, Level], Meta(min_length=1)]  # level by factor
    repetition: Annotated[int, Meta(ge=0)]
    # Skipped if it cannot run here or is excluded.
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
class Summary:
    """The median, least and most of n runs."""

    n: int
    median: float
    low: float
    high: float


def cell_key(cell: Mapping[str, Level]) -> Cell:
    """Return the cell as a key, without the factors that earlier cells lack."""
    return tuple(sorted(cell.items() - AT_FIRST.items()))


def name_of(cell: Mapping[str, Level], *hidden: str) -> str:
    """Return a cell's levels, dotted, without hidden and usual levels."""
    left_out = {*hidden, *(("clients", "records") if cell.get("shape") else ())}
    ordered = [*(f for f in _ORDER if f in cell), *sorted(set(cell) - set(_ORDER))]
    shown = [cell[f] for f in ordered if f not in left_out and cell[f] not in ("", 0, _USUAL.get(f))]
    return ".".join(map(str, shown))


def append(path: Path, line: Any, **more: Any) -> None:
    """Add a dataclass and `more` as a line, and wait until it is on the disk.

    Guarantees: whatever a machine that died left behind, all earlier lines stay, and the new one is whole.
    [test: tests/benchmarks/measure/test_samples.py]
    """
    text = json.dumps({**more, **asdict(line)}, ensure_ascii=False, allow_nan=False) + "\n"
    if (packed := packed_path(path)).exists():
        path.write_bytes(b"".join(line + b"\n" for line in whole_lines(path)))
    with path.open("a+b") as file:
        file.truncate(_whole(path.read_bytes()))
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    packed.unlink(missing_ok=True)


def load(path: Path) -> list[Sample]:
    """Return a file's or directory's attempts, in order."""
    return load_lines(result_path(path, SAMPLES), Sample, "a measured run", SCHEMA)


def packed_path(path: Path) -> Path:
    """Return the path of a file of lines that was packed by gzip, which holds if both are there."""
    return path.with_name(path.name + ".gz")


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, or of it packed, without a torn last one."""
    packed = packed_path(path)
    try:
        content = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    except (EOFError, OSError, zlib.error) as error:
        raise ResultFileError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.") from None
    return content[: _whole(content)].splitlines()


def load_lines(path: Path, kind: type[T], what: str, schema: int | None = None) -> list[T]:
    """Return an object for each whole line of JSON; errors call the kind `what`."""
    objects = []
    for number, line in enumerate(whole_lines(path), 1):
        where, way_out = f"{path}, line {number}", "restore the file, or measure into a new directory"
        refusal = Refusal(ResultFileError, where, what, way_out)
        objects.append(as_type(kind, parse_json(line, refusal, schema), refusal))
    return objects


def by_cell(samples: Iterable[Sample]) -> dict[Cell, list[Sample]]:
    """Return the last run of each cell's repetitions, without warm-ups."""
    cells: dict[Cell, dict[int, Sample]] = {}
    for sample in samples:
        if not sample.warm_up:
            cells.setdefault(sample.key, {})[sample.repetition] = sample
    return {cell: [of[number] for number in sorted(of)] for cell, of in cells.items()}


def summary(samples: Iterable[Sample], time: str = "mpc_s") -> Summary | None:
    """Summarise one of the times over good runs, if any."""
    good = [sample for sample in samples if sample.status == OK and not sample.warm_up]
    values = [sample.times[time] for sample in good if sample.times[time] is not None]
    if not values:
        return None
    return Summary(len(values), statistics.median(values), min(values), max(values))


def interval_of_median(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Return the narrowest interval of order statistics that holds the median, or None of too few values.

    Computes: the k-th least and the k-th largest for the largest k with 1 − 2 P(Bin(n, ½) < k) ≥ confidence.
    Guarantees: it holds the median of independent values with that probability, or nearly so where one
    measures until it is narrow. [test: tests/benchmarks/measure/test_samples.py]
    """
    n, below, k = len(values), 0, 0
    while k < n and (below := below + comb(n, k)) * 2 <= (1 - confidence) * 2**n:
        k += 1
    ordered = sorted(values)
    return (ordered[k - 1], ordered[n - k]) if k else None


def ratios_in_turn(above: Iterable[Sample], below: Iterable[Sample]) -> list[float]:
    """Return the ratios of seconds of two cells' repetitions, run in turn."""
    seconds = [
        {run.repetition: run.times["mpc_s"] for run in runs if run.status == OK} for runs in (above, below)
    ]
    return [seconds[0][number] / seconds[1][number] for number in sorted(set(seconds[0]) & set(seconds[1]))]


def measured_over(runs: Iterable[Sample]) -> str:
    """Return the hosts and networks of runs in words, if there are any."""
    over = [run for run in runs if run.hosts and run.network]
    if not over:
        return ""
    trips, rates = (
        [float(run.network[name]) for run in over if run.network]
        for name in ("measured_rtt_s", "measured_bandwidth_bits_per_s")
    )
    names = {str(host["name"]) for run in over for host in run.hosts}
    return (
        f"measured over {len(names)} hosts, RTT {_span(trips, 1e3)} ms, {_span(rates, 1e-9)} Gbit/s (of each "
        "run's slowest pair)"
    )


def _span(values: Sequence[float], per_unit: float) -> str:
    ends = (f"{value * per_unit:.3g}" for value in (min(values), max(values)))
    return " to ".join(dict.fromkeys(ends))


def _whole(content: bytes) -> int:
    return content.rfind(b"\n") + 1
