"""Table 2 beside what was measured: the paper's protocol as run here, or extrapolated, and our default."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.measure.cell import error_ratio
from benchmarks.measure.samples import Summary
from benchmarks.papers import Printed, privfairfl
from benchmarks.validation.cells import CellRuns, Measured, fullest

TABLE2 = ("table2", "paper")  # the suites that have its cells
SCALE = ("scale", "paper")  # and those of the figures
# The variant that does what the paper's protocol does.
AS_PUBLISHED = {"pi_rw": "product", "pi_roc": "published"}
BESIDE = {"ps-rep-ring": "sy-rep-ring"}  # a model that the paper has not, beside its active one of as many
LEAST_LEVELS = 3  # that tell a line
LEAST_RATIO = 4  # of the largest level to the smallest


@dataclass(frozen=True)
class Line:
    """A cost as constant + slope * level.

    Attributes: residual: the largest, as a share of the cost there; levels: that it was fitted to.
    """

    constant: float
    slope: float
    residual: float
    levels: tuple[float, ...]

    def at(self, level: float) -> float:
        """Return the cost that the line has at a level."""
        return self.constant + self.slope * level


def fit(levels: Sequence[float], costs: Sequence[float]) -> Line:
    """Fit a line by least squares of the relative errors; neither its constant nor its slope is below 0.

    Args: levels: two at least, all different; costs: above 0.
    """
    x, y = np.asarray(levels, dtype=float), np.asarray(costs, dtype=float)
    constant, slope = nnls(np.stack([1 / y, x / y], axis=1), np.ones(len(y)))[0].tolist()
    residual = float(np.max(np.abs((constant + slope * x) / y - 1)))
    return Line(constant, slope, residual, tuple(levels))


@dataclass(frozen=True)
class Row:
    """One cell of Table 2, and what became of it here.

    Attributes: published: the paper's protocol, as it was run whole, or with `thresholds` of its
    thresholds, the most that were run; clients_send: and had to be waited for; extrapolated: seconds by
    thresholds, where not all were run; why_not: there is neither, why; default: ours; own: the same with
    distributed noise, whose standard error is `error_ratio` times as large; beside: the paper's model
    whose figure is meant, None: its own.
    """

    protocol: str
    shape: str
    model: str
    paper: Printed
    published: Summary | None
    thresholds: int | None
    clients_send: bool
    extrapolated: Line | None
    why_not: str
    default: Summary | None
    why_no_default: str
    own: Summary | None = None
    error_ratio: float | None = None
    beside: str | None = None

    @property
    def whole(self) -> float | None:
        """Seconds of the whole protocol as published, measured or extrapolated."""
        thresholds = privfairfl().thresholds
        if self.extrapolated is not None:
            return self.extrapolated.at(thresholds)
        partial = self.thresholds not in (None, thresholds)
        return None if self.published is None or partial else self.published.median

    def to_json(self) -> dict[str, Any]:
        """Return the row; what is extrapolated has a key of its own."""

        line = self.extrapolated
        return {
            "protocol": self.protocol,
            "shape": self.shape,
            "security": self.model,
            "paper_s": self.paper.seconds,
            "published_s": self.published and vars(self.published),
            "published_thresholds": self.thresholds,
            "published_clients_send": self.clients_send,
            "extrapolated_s": line
            and {
                "seconds": self.whole,
                "constant_s": line.constant,
                "s_per_threshold": line.slope,
                "largest_relative_residual": line.residual,
                "thresholds": list(line.levels),
            },
            "why_not": self.why_not or None,
            "default_s": self.default and vars(self.default),
            "distributed_noise_s": self.own and vars(self.own),
            "distributed_noise_error_ratio": self.error_ratio,
            "paper_figure_is_of": self.beside or self.model,
            "paper_over_published": self.whole and self.paper.seconds / self.whole,
            "paper_over_default": self.default and self.paper.seconds / self.default.median,
        }


def rows(measured: Measured) -> list[Row]:
    """Return a row for each cell of Table 2, in the paper's order, and one for each model beside them."""
    paper = privfairfl()
    models = [each for model in paper.parties for each in (model, *(m for m in BESIDE if BESIDE[m] == model))]
    return [
        _row(measured, protocol, shape, model, paper.table2[BESIDE.get(model, model), shape, protocol])
        for protocol in AS_PUBLISHED
        for shape in paper.shapes
        for model in models
        if model in paper.parties or measured.where(*TABLE2, security=model)
    ]


def _row(measured: Measured, protocol: str, shape: str, model: str, printed: Printed) -> Row:
    where = {"protocol": protocol, "shape": shape, "security": model}
    ours = fullest(measured.where(*TABLE2, variant="default", noise="joint", **where))
    own = fullest([pair[1] for pair in measured.pairs(variant="default", **where) if pair[1].suite in TABLE2])
    published = measured.where(*TABLE2, variant=AS_PUBLISHED[protocol], **where)
    most = fullest(published)
    seconds, default = (cell.seconds() if cell else None for cell in (most, ours))
    line, why = None, ""
    if protocol == "pi_roc" and most and seconds:
        line, why = extrapolate([cell for cell in published if cell["input_path"] == most["input_path"]])
    return Row(
        protocol,
        shape,
        model,
        printed,
        seconds,
        (most.number("thresholds") or None) if most and seconds else None,
        bool(most and most["input_path"] == "clients"),
        line,
        why or ("" if seconds else _reason(most)),
        default,
        "" if default else _reason(ours),
        own.seconds() if own else None,
        error_ratio(own.runs[0].cell) if own else None,
        BESIDE.get(model),
    )


def _reason(cell: CellRuns | None) -> str:
    return cell.reason if cell else "not in the suite"


def extrapolate(cells: list[CellRuns]) -> tuple[Line | None, str]:
    """Extrapolate seconds to all thresholds; where that would be a guess, say why instead.

    Args: cells: alike in all but their thresholds.
    """
    whole = privfairfl().thresholds
    found = {cell.number("thresholds"): cell.median_s for cell in cells if cell.number("thresholds")}
    points = {thresholds: seconds for thresholds, seconds in found.items() if seconds}
    if whole in points:
        return None, ""
    levels = sorted(points)
    if len(levels) < LEAST_LEVELS or levels[-1] < LEAST_RATIO * levels[0]:
        return None, f"too few thresholds were run to extrapolate ({', '.join(map(str, levels)) or 'none'})"
    return fit(levels, [points[level] for level in levels]), ""
