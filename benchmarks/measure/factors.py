"""Suites as data: factors, their levels, how often each cell is run, and which cells are not and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from benchmarks.measure.samples import Cell, Level, cell_key

Axis = Sequence[Mapping[str, Level]]
"""Levels of a factor, or of several that go together."""


def axis(factor: str, *levels: Level) -> Axis:
    """Return the axis of one factor."""
    return [{factor: level} for level in levels]


@dataclass(frozen=True)
class Exclusion:
    """Cells that are not run, and why. Args: where: by factor, the levels that it takes to be one."""

    where: Mapping[str, Sequence[Level]]
    reason: str

    def covers(self, cell: Mapping[str, Level]) -> bool:
        return all(cell.get(factor) in levels for factor, levels in self.where.items())


@dataclass(frozen=True)
class Planned:
    """A cell of a suite. Attributes: timeout_s: of a run; excluded: why it is not run, None if it is."""

    cell: Mapping[str, Level]
    repetitions: int
    timeout_s: float
    excluded: str | None = None

    @property
    def key(self) -> Cell:
        return cell_key(self.cell)


@dataclass(frozen=True)
class Grid:
    """All combinations of the axes' levels.

    Attributes: repetitions: of each cell; timeout_s: that a run may take; excluded: the first exclusion
    that covers a cell says why it is not run.
    """

    axes: Sequence[Axis]
    repetitions: int
    timeout_s: float = 120.0
    excluded: Sequence[Exclusion] = ()

    def cells(self) -> Iterator[Planned]:
        for levels in product(*self.axes):
            cell: dict[str, Level] = {}
            for some in levels:
                cell |= some
            reasons = [exclusion.reason for exclusion in self.excluded if exclusion.covers(cell)]
            yield Planned(cell, self.repetitions, self.timeout_s, reasons[0] if reasons else None)


@dataclass(frozen=True)
class Suite:
    """A benchmark. Attributes: title: what it measures; quick: instead of `grids` where seconds count."""

    name: str
    title: str
    grids: Sequence[Grid]
    quick: Sequence[Grid]

    def plan(
        self,
        *,
        quick: bool = False,
        models: Sequence[str] = (),
        repetitions: int | None = None,
        timeout_s: float | None = None,
    ) -> list[Planned]:
        """Return all cells, each once.

        Args: models: only these; repetitions, timeout_s: of each, instead of the grid's own.

        Raises: ValueError: two grids have a cell in common.
        """
        found: dict[Cell, Planned] = {}
        for grid in self.quick if quick else self.grids:
            for planned in grid.cells():
                if planned.key in found:
                    raise ValueError(f"suite {self.name} has the cell {dict(planned.cell)} twice")
                if not models or planned.cell["model"] in models:
                    found[planned.key] = replace(
                        planned,
                        repetitions=repetitions or planned.repetitions,
                        timeout_s=timeout_s or planned.timeout_s,
                    )
        return list(found.values())
