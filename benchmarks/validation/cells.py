"""Measured runs of several suites, by cell."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure.runner import chosen_in
from benchmarks.measure.samples import (
    ABOUT,
    AT_FIRST,
    OK,
    SAMPLES,
    Cell,
    Level,
    Sample,
    Summary,
    by_cell,
    load,
    name_of,
    packed_path,
    summary,
)
from benchmarks.suites import EXPERIMENT, SUITES, UNITS
from harness.errors import ResultFileError
from harness.system.result_files import read_result

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class CellRuns:
    """The last attempts of a cell's repetitions, in order."""

    suite: str
    runs: tuple[Sample, ...]

    def __getitem__(self, factor: str) -> Level | None:
        """Return the level of a factor, or None."""
        return self.runs[0].cell.get(factor, AT_FIRST.get(factor))

    def number(self, factor: str) -> int:
        """Return the whole number of a factor, or 0."""
        level = self[factor]
        return level if isinstance(level, int) else 0

    def without(self, *factors: str) -> tuple[tuple[str, Level], ...]:
        """Return the levels of the other factors."""
        return tuple(pair for pair in self.runs[0].key if pair[0] not in factors)

    @property
    def name(self) -> str:
        """Its levels, without usual ones."""
        return name_of(self.runs[0].cell)

    def of(self, status: str) -> tuple[Sample, ...]:
        """Return the runs with a status."""
        return tuple(run for run in self.runs if run.status == status)

    @property
    def ok(self) -> tuple[Sample, ...]:
        """The good runs."""
        return self.of(OK)

    @property
    def reason(self) -> str:
        """Why there is no time."""
        return next((run.reason for run in reversed(self.runs) if run.reason), "its runs have no time")

    def seconds(self, time: str = "mpc_s") -> Summary | None:
        """Summarise one of the times over the good runs."""
        return summary(self.runs, time)

    @property
    def median_s(self) -> float | None:
        """The good runs' median seconds in the computation."""
        seconds = self.seconds()
        return seconds.median if seconds else None

    @property
    def networks(self) -> list[Mapping[str, Any]]:
        """The emulated networks of good runs."""
        return [run.network for run in self.ok if run.network is not None and not run.hosts]

    @property
    def sent_bytes(self) -> float | None:
        """The median of the bytes that all parties sent."""
        sent = [sum(run.sent_bytes) for run in self.ok if run.sent_bytes]
        return statistics.median(sent) if sent else None

    @property
    def rounds(self) -> int | None:
        """The most rounds of a run."""
        return max((run.rounds for run in self.ok if run.rounds is not None), default=None)


@dataclass(frozen=True)
class Measured:
    """The cells of several suites, with their `about.json` and planned repetitions."""

    cells: tuple[CellRuns, ...]
    abouts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    plans: Mapping[str, Mapping[Cell, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Sequence[Sample], **more: Any) -> "Measured":
        """Gather samples by suite and cell."""
        cells = [
            CellRuns(suite, tuple(runs))
            for suite in dict.fromkeys(sample.suite for sample in samples)
            for runs in by_cell(s for s in samples if s.suite == suite).values()
        ]
        return cls(tuple(cells), **more)

    @classmethod
    def read(cls, directory: Path) -> "Measured":
        """Read the results in a directory, except unit costs."""
        samples, abouts, plans = [], {}, {}
        for path in (directory, *sorted(directory.glob("*"))):
            samples_of = path / SAMPLES
            if not (path / ABOUT).is_file() or not (
                samples_of.is_file() or packed_path(samples_of).is_file()
            ):
                continue
            about = read_result(path, ABOUT)
            suite = str(about.get("suite"))
            if suite != UNITS and (suite in SUITES or (path / EXPERIMENT).is_file()):
                samples += load(path)
                abouts[suite] = about
                plans[suite] = {planned.key: planned.repetitions for planned in chosen_in(path).plan()}
        if not samples:
            raise ResultFileError(
                f"There are no measured runs in {directory}; name what ./inv bench.run table2 --out DIR "
                "made, or a directory that holds such directories."
            )
        return cls.of(samples, abouts=abouts, plans=plans)

    def where(self, *suites: str, **levels: Level) -> list[CellRuns]:
        """Return the cells of these suites, or all, with these levels."""
        return [
            cell
            for cell in self.cells
            if (not suites or cell.suite in suites) and all(cell[name] == of for name, of in levels.items())
        ]

    def pairs(self, **levels: Level) -> Iterator[tuple[CellRuns, CellRuns]]:
        """Yield cells with joint noise beside their twins with distributed noise."""
        joint = {(cell.suite, cell.without("noise")): cell for cell in self.where(noise="joint", **levels)}
        for own in self.where(noise="distributed", **levels):
            of = joint.get((own.suite, own.without("noise")))
            if of and of.median_s and own.median_s:
                yield of, own

    def series(
        self, factor: str, cells: Sequence[CellRuns], also: Sequence[str] = ()
    ) -> Iterator[list[CellRuns]]:
        """Yield cells that differ only in one factor, and in those in `also`."""
        alike: dict[tuple[object, ...], list[CellRuns]] = {}
        for cell in cells:
            if isinstance(cell[factor], int):
                alike.setdefault((cell.suite, cell.without(factor, *also)), []).append(cell)
        for series in alike.values():
            if len(series) > 1:
                yield sorted(series, key=lambda cell: cell.number(factor))


def fullest(cells: Sequence[CellRuns]) -> CellRuns | None:
    """Return the measured cell with most thresholds, if possible without clients that send."""
    return max(
        cells,
        key=lambda cell: (bool(cell.ok), cell["input_path"] != "clients", cell.number("thresholds")),
        default=None,
    )
