"""Is a cost linear in clients, records or thresholds: fits to our own measurements, none to the papers'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.validation.cells import CellRuns, Measured
from benchmarks.validation.findings import Check
from harness.security_models import get_model

LEAST_LEVELS = 3
LEAST_RATIO = 4  # of the largest level to the smallest
BYTES = 0.01  # of the embedded engine, whose messages have headers of different lengths, as a share
SCATTER = 1.0  # of the seconds of cells that should cost the same, on a busy machine, as a share
LEAST_SHARE = 0.5  # of the cost at the largest level that has to grow with it

Cost = Callable[[CellRuns], float | None]


def _seconds(cell: CellRuns) -> float | None:
    found = cell.seconds()
    return found.median if found else None


# How far the fit may be off, as a share: seconds share two cores, bytes are counted.
COSTS: Mapping[str, tuple[Cost, float]] = {
    "seconds": (_seconds, 0.35),
    "bytes": (lambda cell: cell.sent_bytes, 0.05),
}


@dataclass(frozen=True)
class Line:
    """A cost as constant + slope * level. Attributes: residual: the largest, as a share of the cost there."""

    constant: float
    slope: float
    residual: float

    def at(self, level: float) -> float:
        """Return the cost that the line has at a level."""
        return self.constant + self.slope * level


def fit(levels: Sequence[float], costs: Sequence[float]) -> Line:
    """Fit a line by least squares of the relative errors; its constant is not below 0.

    Raises: ValueError: fewer than two levels, or a cost that is not above 0.
    """
    x, y = np.asarray(levels, dtype=float), np.asarray(costs, dtype=float)
    if len(set(levels)) < 2 or (y <= 0).any():
        raise ValueError("a line needs two levels, and costs above 0")
    design = np.stack([1 / y, x / y], axis=1)
    constant, slope = np.linalg.lstsq(design, np.ones(len(y)), rcond=None)[0].tolist()
    if constant < 0:
        through_zero = x / y
        constant, slope = 0.0, float(through_zero.sum() / (through_zero @ through_zero))
    residual = float(np.max(np.abs((constant + slope * x) / y - 1)))
    return Line(constant, slope, residual)


@dataclass(frozen=True)
class Growth:
    """What a cost should do in a factor.

    Attributes: where: levels of the cells that it is said of; also: factors that may vary with it, which the
    cost does not depend on; several: only said of clients who may have several records, as noise is for
    another relation, and so another half of epsilon, where they have one.
    """

    factor: str
    linear: bool
    where: Mapping[str, str]
    why: str
    also: tuple[str, ...] = ()
    several: bool = False


_RECORDS = ("records",)  # clients count their own
GROWTHS = (
    Growth(
        "clients",
        True,
        {"protocol": "pi_rw", "variant": "product"},
        "a product per client and label",
        _RECORDS,
    ),
    Growth(
        "clients", False, {"protocol": "pi_rw", "variant": "default"}, "each party adds up before", _RECORDS
    ),
    Growth("clients", False, {"protocol": "pi_roc", "variant": "default"}, "each party adds up before"),
    Growth("records", False, {"protocol": "pi_roc", "variant": "default"}, "clients count before", (), True),
    Growth("records", True, {"protocol": "pi_roc", "variant": "published"}, "each record is compared"),
    Growth("thresholds", True, {"protocol": "pi_roc", "variant": "published"}, "all records per threshold"),
)


def checks(measured: Measured) -> Iterator[Check]:
    """Yield a check of each cost of each series of cells that differ in one factor only."""
    for growth in GROWTHS:
        cells = [
            cell
            for cell in measured.where(**growth.where)
            if not growth.several or cell.number("records") > cell.number("clients")
        ]
        for series in measured.series(growth.factor, cells, growth.also):
            for name, (cost, tolerance) in COSTS.items():
                yield check_series(series, growth, name, cost, tolerance)


def check_series(
    series: Sequence[CellRuns], growth: Growth, name: str, cost: Cost, tolerance: float
) -> Check:
    """Check one cost of cells that differ in the growth's factor only, sorted by its level."""
    first = series[0]
    verb = "linear" if growth.linear else "constant"
    what = first.name_without(growth.factor, *growth.also)
    key = f"{verb}.{growth.factor}.{first.suite}.{what}.{name}"
    says = f"{verb} in {growth.factor}: {growth.why}"
    points = [(cell.number(growth.factor), value) for cell in series if (value := cost(cell))]
    levels, costs = [level for level, _ in points], [value for _, value in points]
    if len(levels) < LEAST_LEVELS or levels[-1] < LEAST_RATIO * levels[0]:
        known = ", ".join(f"{level:,}" for level in levels) or "none"
        return Check(key, says, unjudged=f"too few levels to tell ({known})")
    over = f"{growth.factor} {levels[0]:,} to {levels[-1]:,}"
    if not growth.linear:
        spread = max(costs) / min(costs)
        counted = name == "bytes" and get_model(str(first["model"])).virtual_machine is not None
        most = 1.0 if counted else 1 + (BYTES if name == "bytes" else SCATTER)
        return Check(key, says, spread, 1.0, most, f"most over least {spread:.2f}, {over}")
    line = fit(levels, costs)
    share = line.slope * (levels[-1] - levels[0]) / costs[-1]
    found = f"off a line by {line.residual:.1%} at most, {over}"
    if line.residual <= tolerance and share < LEAST_SHARE:
        return Check(key, says, unjudged=f"only {max(share, 0):.0%} of the cost grows, {over}")
    return Check(key, says, line.residual, 0.0, tolerance, found)
