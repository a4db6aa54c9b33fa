"""The suites as data: what is measured, on which models, how often; PrivFairFL's tables, figures, and beyond.

Factors, their levels, how often each cell is run, and which cells are not and why. Levels are named as in
results: see `benchmarks/README.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from benchmarks.measure.samples import Cell, Level, cell_key
from benchmarks.papers import privfairfl

Axis = Sequence[Mapping[str, Level]]
"""Levels of a factor, or of several that go together."""


def axis(factor: str, *levels: Level) -> Axis:
    """Return the axis of one factor."""
    return [{factor: level} for level in levels]


# PrivFairFL's federations. The second's number of records is not published: in all of Table 2's models the
# first takes 3.29249 times as long, and the paper's protocol costs the same for every record.
SHAPES = {name: (shape.clients, shape.records) for name, shape in privfairfl().shapes.items()}


@dataclass(frozen=True)
class Exclusion:
    """Cells that are not run, and why. Args: where: by factor, the levels that it takes to be one."""

    where: Mapping[str, Sequence[Level]]
    reason: str

    def covers(self, cell: Mapping[str, Level]) -> bool:
        """Return whether a cell has, for each of these factors, one of these levels."""
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
        """The cell as something that can be compared and looked up."""
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
        """Yield all combinations; the last axis' levels change first."""
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


REAL = ("semi2k", "ring", "spdz2k", "sy-rep-ring", "rep4-ring")
ALL = (*REAL, "mpyc")
PASSIVE = ("semi2k", "ring", "mpyc")
CHEAP = ("semi2k", "ring", "sy-rep-ring", "rep4-ring")  # the others take tens of times as long
PLANNED = ("ps-rep-ring",)  # measured for plans only, so far: it is newer than the other suites' results

_FEDERATIONS: Axis = [
    {"shape": shape, "clients": clients, "records": records} for shape, (clients, records) in SHAPES.items()
]
_TWO_BY_TWO: Axis = [{"groups": 2, "labels": 2}]
_HERE: Axis = [{"epsilon": "1", "network": "none"}]


def _protocol(protocol: str, variant: str = "default", input_path: str = "shares") -> Axis:
    return [{"protocol": protocol, "variant": variant, "input_path": input_path}]


_RW = _protocol("pi_rw")
_RW_PRODUCT = _protocol("pi_rw", "product")
_ROC = _protocol("pi_roc")
_CURVE = axis("thresholds", 1001)

_SLOW_SORT = Exclusion(
    {"model": ("spdz2k",)},
    "An AND costs spdz2k 900 bytes of each party, and the larger federation takes 55 million of them: "
    "1,524 s in the one run that was let end (docs/decisions/0013-counting-records.md).",
)
TABLE2 = Suite(
    "table2",
    "PrivFairFL's Table 2: weights and score curves of two federations, by model",
    grids=(
        Grid([_RW, axis("model", *ALL), _FEDERATIONS, _TWO_BY_TWO, _HERE], 7),
        Grid([_RW_PRODUCT, axis("model", *ALL), _FEDERATIONS, _TWO_BY_TWO, _HERE], 7),
        Grid(
            [
                *(_protocol("pi_rw", "product", "clients"), axis("model", *REAL)),
                *(_FEDERATIONS, _TWO_BY_TWO, _HERE),
            ],
            3,
        ),
        Grid([_ROC, axis("model", *ALL), _FEDERATIONS, _TWO_BY_TWO, _CURVE, _HERE], 5),
        Grid(
            [
                *(_protocol("pi_roc", "records"), axis("model", *REAL)),
                *(_FEDERATIONS, _TWO_BY_TWO, _CURVE, _HERE),
            ],
            3,
            excluded=[_SLOW_SORT],
        ),
        Grid(
            [
                *(_protocol("pi_roc", "published"), axis("model", *REAL)),
                *(_FEDERATIONS, _TWO_BY_TWO, axis("thresholds", 2, 4, 8), _HERE),
            ],
            3,
        ),
    ),
    quick=(
        Grid([_RW, axis("model", "ring", "mpyc"), _FEDERATIONS[:1], _TWO_BY_TWO, _HERE], 1),
        Grid([_RW_PRODUCT, axis("model", "rep4-ring", "mpyc"), _FEDERATIONS[:1], _TWO_BY_TWO, _HERE], 1),
    ),
)


def _growing(clients: int | None, *sizes: int) -> Axis:
    """Return federations of as many records as clients, or of one number of clients, of growing size."""
    return [{"shape": "", "clients": clients or size, "records": size} for size in sizes]


_DECADES = tuple(10**power for power in range(2, 7))
_FIGURE_2 = (10, 100, 1000, 10_000, 100_000)

SCALE = Suite(
    "scale",
    "PrivFairFL's Figures 1 and 2: weights against clients, score curves against records",
    grids=(
        Grid([_RW, axis("model", *CHEAP, "mpyc"), _growing(None, *_DECADES), _TWO_BY_TWO, _HERE], 3),
        Grid(
            [
                _RW_PRODUCT,
                axis("model", "ring", "semi2k", "mpyc"),
                _growing(None, *_DECADES),
                _TWO_BY_TWO,
                _HERE,
            ],
            3,
        ),
        Grid([_ROC, axis("model", *CHEAP), _growing(100, *_FIGURE_2, 10**6), _TWO_BY_TWO, _CURVE, _HERE], 3),
        Grid(
            [
                *(_protocol("pi_roc", "records"), axis("model", "ring", "rep4-ring")),
                *(_growing(100, *_FIGURE_2), _TWO_BY_TWO, _CURVE, _HERE),
            ],
            3,
        ),
        Grid(
            [
                *(_protocol("pi_roc", "records"), axis("model", "ring", "rep4-ring")),
                *(_growing(100, 10**6), _TWO_BY_TWO, _CURVE, _HERE),
            ],
            1,
        ),
        Grid(
            [
                *(_protocol("pi_roc", "published"), axis("model", "ring"), _growing(100, *_FIGURE_2)),
                *(_TWO_BY_TWO, axis("thresholds", 2), _HERE),
            ],
            3,
        ),
    ),
    quick=(Grid([_RW, axis("model", "ring", "mpyc"), _growing(None, 100, 1000), _TWO_BY_TWO, _HERE], 1),),
)


def _noise(sampler: str, *samples: int) -> list[Axis]:
    return [[{"protocol": "pi_lap", "variant": sampler, "network": "none"}], axis("samples", *samples)]


NOISE = Suite(
    "noise",
    "What a sample of noise costs, by sampler, number, ε and model",
    grids=(
        Grid([*_noise("default", 16, 256, 4096), axis("epsilon", "0.1", "1"), axis("model", *ALL)], 3),
        Grid([*_noise("default", 16_384), axis("epsilon", "0.1", "1"), axis("model", *CHEAP)], 3),
        Grid([*_noise("symmetric", 4096), axis("epsilon", "1"), axis("model", *ALL)], 3),
        Grid([*_noise("published", 64, 4096), axis("epsilon", "1"), axis("model", *CHEAP, "mpyc")], 3),
        Grid([*_noise("published", 64), axis("epsilon", "1"), axis("model", "spdz2k")], 2),
        Grid(
            [*_noise("published", 4096), axis("epsilon", "1"), axis("model", "spdz2k")],
            1,
            excluded=[
                Exclusion(
                    {"model": ("spdz2k",)},
                    "At 0.7 s a sample this takes most of an hour; it is run with 64 samples.",
                )
            ],
        ),
    ),
    quick=(Grid([*_noise("default", 16), axis("epsilon", "1"), axis("model", "ring", "mpyc")], 2),),
)

_NETWORKS = axis("network", "none", "lan", "wan")
_EPSILON = axis("epsilon", "1")
_ADS: Axis = [{"shape": "ads", "clients": 109, "records": 26_160, "groups": 2, "labels": 2}]
_VALUES: Axis = [{"shape": "", "clients": 109, "records": 109, "groups": 2, "labels": 0}]  # one a client

NETWORK = Suite(
    "network",
    "What delay and bandwidth between the parties do, by protocol and model",
    grids=(
        Grid([[*_RW, *_protocol("pi_cf")], axis("model", *ALL), _ADS, _EPSILON, _NETWORKS], 3),
        Grid([_protocol("pi_gap"), axis("model", *ALL), _VALUES, _EPSILON, _NETWORKS], 3),
        Grid([_ROC, axis("model", *CHEAP, "mpyc"), _ADS, _CURVE, _EPSILON, _NETWORKS], 3),
        Grid([_ROC, axis("model", "spdz2k"), _ADS, _CURVE, _EPSILON, _NETWORKS], 1, timeout_s=600.0),
    ),
    quick=(Grid([_RW, axis("model", "ring", "mpyc"), _ADS, _EPSILON, axis("network", "none", "lan")], 1),),
)

_PROTECTED = _protocol("pi_rw", "weights")
_RECORDS, _PUBLISHED = _protocol("pi_roc", "records"), _protocol("pi_roc", "published")
_COARSE = axis("thresholds", 101)
_DELAYED, _NARROW = axis("network", "20ms,10Gbit"), axis("network", "0ms,20Mbit")

_SLOTS, _GAP_SLOTS = _protocol("pi_rw", "slots"), _protocol("pi_gap", "slots")
_CF_SLOTS, _CHOICE = _protocol("pi_cf", "slots"), _protocol("pi_cap")
_CAP, _ONE_VALUE = axis("cap", 10), axis("cap", 1)


def _capped(records: int, *clients: int) -> Axis:
    """Return federations of so many clients, each with as many records."""
    return [{"shape": "", "clients": size, "records": records * size} for size in clients]


_NO_LABELS: Axis = [{"groups": 2, "labels": 0}]
CLIENTS_AS_UNIT = Suite(
    "clients",
    "Clients as the privacy unit: weights, confusion matrices and gaps from slots, score curves from capped "
    "keys, and the choice of a cap",
    grids=(
        Grid(
            [
                *(_SLOTS, axis("model", *CHEAP), _capped(10, 100, 1000, 10_000, 100_000)),
                *(_TWO_BY_TWO, _CAP, _HERE),
            ],
            3,
        ),
        Grid([_SLOTS, axis("model", "mpyc"), _capped(10, 100, 1000), _TWO_BY_TWO, _CAP, _HERE], 3),
        Grid([_SLOTS, axis("model", "spdz2k"), _capped(10, 1000, 10_000), _TWO_BY_TWO, _CAP, _HERE], 1),
        Grid([_CF_SLOTS, axis("model", *CHEAP), _capped(10, 1000, 10_000), _TWO_BY_TWO, _CAP, _HERE], 3),
        Grid([_CF_SLOTS, axis("model", "mpyc", "spdz2k"), _capped(10, 1000), _TWO_BY_TWO, _CAP, _HERE], 1),
        Grid([_CHOICE, axis("model", *CHEAP), _capped(100, 1000, 10_000), _TWO_BY_TWO, _HERE], 3),
        Grid([_CHOICE, axis("model", "mpyc", "spdz2k"), _capped(100, 1000), _TWO_BY_TWO, _HERE], 1),
        Grid([_GAP_SLOTS, axis("model", *CHEAP), _capped(1, 1000, 10_000), _NO_LABELS, _ONE_VALUE, _HERE], 3),
        Grid(
            [
                *(_RECORDS, axis("model", *CHEAP), _capped(10, 100, 10_000)),
                *(_TWO_BY_TWO, _CURVE, _CAP, _HERE),
            ],
            1,
        ),
    ),
    quick=(Grid([_SLOTS, axis("model", "ring", "mpyc"), _capped(10, 30), _TWO_BY_TWO, _CAP, _HERE], 1),),
)

# Small and large runs of all that programs are made of, none of them a cell of another suite: what plans are
# made from (`benchmarks.measure.units`), so that the other suites can tell whether they are right.
UNITS = Suite(
    "units",
    "Unit costs, from which ./inv plan predicts",
    grids=(
        Grid([*_noise("default", 1, 64, 1024), axis("epsilon", "1"), axis("model", *ALL, *PLANNED)], 5),
        Grid([*_noise("default", 3000), axis("epsilon", "1"), axis("model", *ALL, *PLANNED)], 3),
        Grid([*_noise("default", 32, 512), axis("epsilon", "0.02"), axis("model", *ALL, *PLANNED)], 3),
        Grid([_RW, axis("model", *ALL, *PLANNED), _growing(None, 90), _TWO_BY_TWO, _HERE], 5),
        Grid([_PROTECTED, axis("model", *REAL, *PLANNED), _growing(None, 90), _TWO_BY_TWO, _HERE], 5),
        Grid([_ROC, axis("model", *ALL, *PLANNED), _growing(90, 300), _TWO_BY_TWO, _COARSE, _HERE], 5),
        Grid(
            [
                _RW_PRODUCT,
                axis("model", "ring", "semi2k", "mpyc"),
                _growing(None, 500, 5000),
                _TWO_BY_TWO,
                _HERE,
            ],
            3,
        ),
        Grid([_RW_PRODUCT, axis("model", "ring"), _growing(None, 300_000), _TWO_BY_TWO, _HERE], 3),
        Grid([_RECORDS, axis("model", *CHEAP, *PLANNED), _growing(90, 3000), _TWO_BY_TWO, _COARSE, _HERE], 3),
        Grid(
            [
                _RECORDS,
                axis("model", *CHEAP, *PLANNED),
                _growing(90, 30_000),
                _TWO_BY_TWO,
                _COARSE,
                _HERE,
            ],
            3,
        ),
        Grid(
            [
                _PUBLISHED,
                axis("model", "ring", "semi2k"),
                _growing(90, 300, 5000),
                _TWO_BY_TWO,
                axis("thresholds", 3),
                _HERE,
            ],
            3,
        ),
        Grid(
            [
                _SLOTS,
                axis("model", *CHEAP, *PLANNED, "mpyc"),
                _capped(10, 300, 5000),
                _TWO_BY_TWO,
                _CAP,
                _HERE,
            ],
            3,
        ),
        Grid(
            [
                _GAP_SLOTS,
                axis("model", *CHEAP, *PLANNED, "mpyc"),
                _capped(1, 3000),
                _NO_LABELS,
                _ONE_VALUE,
                _HERE,
            ],
            3,
        ),
        Grid(
            [_RECORDS, axis("model", *CHEAP, *PLANNED), _capped(10, 1000), _TWO_BY_TWO, _CURVE, _CAP, _HERE],
            3,
        ),
        Grid(
            [
                *(_CHOICE, axis("model", *REAL, *PLANNED)),
                *([*_capped(20, 300), *_capped(100, 3000)], _TWO_BY_TWO, _HERE),
            ],
            3,
        ),
        Grid(
            [
                *(_protocol("pi_count"), axis("model", *PASSIVE), _growing(90, 300)),
                *([{"groups": 3, "labels": 3}, {"groups": 9, "labels": 9}], _HERE),
            ],
            3,
        ),
        Grid([_RW, axis("model", *ALL, *PLANNED), _growing(None, 90), _TWO_BY_TWO, _EPSILON, _DELAYED], 3),
        Grid(
            [
                _ROC,
                axis("model", *CHEAP, *PLANNED, "mpyc"),
                _growing(90, 300),
                _TWO_BY_TWO,
                _COARSE,
                _EPSILON,
                _NARROW,
            ],
            3,
        ),
        Grid([_RW, axis("model", "spdz2k"), _growing(None, 90), _TWO_BY_TWO, _EPSILON, _NARROW], 3),
    ),
    quick=(
        Grid([*_noise("default", 1, 64), axis("epsilon", "0.02", "1"), axis("model", "ring", "mpyc")], 2),
        Grid([_RW, axis("model", "ring", "mpyc"), _growing(None, 90), _TWO_BY_TWO, _HERE], 2),
    ),
)

SUITES = {suite.name: suite for suite in (TABLE2, SCALE, NOISE, NETWORK, CLIENTS_AS_UNIT, UNITS)}
