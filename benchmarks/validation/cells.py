"""Measured runs of several suites, by cell."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from fairshares.harness.errors import ResultFileError
from fairshares.harness.system.result_files import read_result

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class CellRuns:
    """The last attempts of a cell's repetitions, in order."""

    suite: str
    runs: tuple[Sample, ...]

    def __getitem__(self, factor: str) -> Level | None:
        """Return the level of a factor; None if the cell lacks it."""
        return self.runs[0].cell.get(factor, AT_FIRST.get(factor))

    def has(self, **levels: Level | None) -> bool:
        """Return whether the cell has these levels; None of a factor that it lacks."""
        return all(self[factor] == level for factor, level in levels.items())

    def number(self, factor: str) -> int:
        """Return the level of a factor if it is a whole number, else 0."""
        level = self[factor]
        return level if isinstance(level, int) else 0

    def without(self, *factors: str) -> tuple[tuple[str, Level], ...]:
        """Return the levels of the other factors."""
        return tuple(pair for pair in self.runs[0].key if pair[0] not in factors)

    @property
    def name(self) -> str:
        """The cell's levels, without usual ones."""
        return name_of(self.runs[0].cell)

    def with_status(self, status: str) -> tuple[Sample, ...]:
        """Return the runs with a status."""
        return tuple(run for run in self.runs if run.status == status)

    @property
    def ok(self) -> tuple[Sample, ...]:
        """The good runs."""
        return self.with_status(OK)

    @property
    def reason(self) -> str:
        """Why there is no time."""
        for run in reversed(self.runs):
            if run.reason:
                return run.reason
        return "its runs have no time"

    def seconds(self, time: str = "mpc_s") -> Summary | None:
        """Summarize one of the times over the good runs; None if there is none."""
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

    @property
    def suites(self) -> list[str]:
        """The names of the suites, in the order in which they were read."""
        return list(dict.fromkeys(cell.suite for cell in self.cells))

    @classmethod
    def from_samples(cls, samples: Sequence[Sample], **more: Any) -> "Measured":
        """Gather samples by suite and cell."""
        by_suite: dict[str, list[Sample]] = {}
        for sample in samples:
            by_suite.setdefault(sample.suite, []).append(sample)
        cells = []
        for suite, samples_of_suite in by_suite.items():
            cells += [CellRuns(suite, tuple(runs)) for runs in by_cell(samples_of_suite).values()]
        return cls(tuple(cells), **more)

    @classmethod
    def read(cls, directory: Path) -> "Measured":
        """Read the results in a directory, except unit costs.

        If results of two directories have the same experiment's name, the later one is called by its
        directory's name, too.
        """
        samples = []
        abouts = {}
        plans = {}
        for path in (directory, *sorted(directory.glob("*"))):
            file = path / SAMPLES
            has_samples = file.is_file() or packed_path(file).is_file()
            if not has_samples or not (path / ABOUT).is_file():
                continue
            about = read_result(path, ABOUT)
            suite = str(about.get("suite"))
            if suite != UNITS and (suite in SUITES or (path / EXPERIMENT).is_file()):
                if suite in abouts:
                    suite = f"{suite} ({path.name})"
                samples += [replace(sample, suite=suite) for sample in load(path)]
                abouts[suite] = about
                plans[suite] = {planned.key: planned.repetitions for planned in chosen_in(path).plan()}
        if not samples:
            raise ResultFileError(
                f"There are no measured runs in {directory}; name what ./inv bench.run table2 --out DIR "
                "made, or a directory that holds such directories."
            )
        return cls.from_samples(samples, abouts=abouts, plans=plans)

    def where(self, *suites: str, **levels: Level | None) -> list[CellRuns]:
        """Return the cells with these levels, of these suites, or of all if none is named."""
        found = []
        for cell in self.cells:
            is_of_suite = not suites or cell.suite in suites
            if is_of_suite and cell.has(**levels):
                found.append(cell)
        return found

    def distinct(self, cells: Sequence[CellRuns]) -> list[CellRuns]:
        """Return each cell once, whichever suites ran it.

        If several suites have a cell, the suite with most good runs of all these cells is taken, so that
        cells that are compared are of as few suites as possible.
        """
        good_runs: Counter[str] = Counter()
        for cell in cells:
            good_runs[cell.suite] += len(cell.ok)
        once: dict[Cell, CellRuns] = {}
        for cell in sorted(cells, key=lambda cell: -good_runs[cell.suite]):
            once.setdefault(cell.runs[0].key, cell)
        return list(once.values())

    def pairs(self, **levels: Level | None) -> Iterator[tuple[CellRuns, CellRuns]]:
        """Yield each measured cell with joint noise, beside the same with distributed noise."""
        cells = {(cell.suite, cell.without("noise")): cell for cell in self.where(noise="joint", **levels)}
        for distributed in self.where(noise="distributed", **levels):
            joint = cells.get((distributed.suite, distributed.without("noise")))
            if joint and joint.median_s and distributed.median_s:
                yield joint, distributed

    def series(
        self, factor: str, cells: Sequence[CellRuns], also: Sequence[str] = ()
    ) -> Iterator[list[CellRuns]]:
        """Yield lists of cells that differ only in a factor, and perhaps in those in `also`.

        Args:
            factor: A factor whose levels are whole numbers; a list is in their order.
            cells: The cells.
            also: Further factors in which the cells of a list may differ.
        """
        alike: dict[tuple[object, ...], list[CellRuns]] = {}
        for cell in cells:
            if isinstance(cell[factor], int):
                alike.setdefault((cell.suite, cell.without(factor, *also)), []).append(cell)
        for series in alike.values():
            if len(series) > 1:
                yield sorted(series, key=lambda cell: cell.number(factor))


def fullest(cells: Sequence[CellRuns]) -> CellRuns | None:
    """Return the measured cell with most thresholds, if possible without clients that send.

    A cell without good runs is returned only if there is no other, and None if there is none.
    """
    return max(
        cells,
        key=lambda cell: (bool(cell.ok), cell["input_path"] != "clients", cell.number("thresholds")),
        default=None,
    )
