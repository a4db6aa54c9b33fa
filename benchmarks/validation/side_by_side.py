"""Table 2, cell by cell: the paper's seconds, its protocol run here, and our default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
from scipy.optimize import nnls

from benchmarks.literal import FORMS
from benchmarks.measure.samples import CONFIDENCE, Level, Sample, Summary, interval_of_median, ratios_in_turn
from benchmarks.papers import Printed, privfairfl
from benchmarks.validation.cells import Measured, fullest

TABLE2 = ("table2", "paper")  # suites with our forms
LITERAL = ("literal", "paper")  # with the protocols as printed
SCALE = ("scale", "paper", "literal")  # of the figures
PROTOCOLS = ("pi_rw", "pi_roc")
PRINTED, AT_ONCE = FORMS  # an instance after the other, as printed; all instances at once
NOT_YET = "not measured yet"
BESIDE = {"ps-rep-ring": "sy-rep-ring"}  # a model beside the paper's active one with as many parties
LEAST_LEVELS = 3  # for a line
LEAST_RATIO = 4  # of the largest level to the smallest


def fit(levels: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Return the slope of a rising line by least squares, and its largest relative residual."""
    x, y = np.asarray(levels, dtype=float), np.asarray(costs, dtype=float)
    constant, slope = nnls(np.stack([1 / y, x / y], axis=1), np.ones(len(y)))[0].tolist()
    return slope, float(np.max(np.abs((constant + slope * x) / y - 1)))


@dataclass(frozen=True)
class Took:
    """A literal form's seconds at the paper's size."""

    low: float
    high: float
    runs: Summary | None = None  # of the whole, if it ran
    basis: str = ""  # else the iterations that ran
    a_round: tuple[float, float] | None = None  # seconds of a round, here and in the paper


@dataclass(frozen=True)
class InTurn:
    """The faster literal form's seconds over our default's, in turn."""

    median: float
    interval: tuple[float, float] | None
    pairs: int
    thresholds: int


@dataclass(frozen=True)
class Row:
    """One cell of Table 2, in the paper and here."""

    protocol: str
    shape: str
    model: str
    paper: Printed
    printed: Took | None  # the paper's protocol, an instance after the other
    at_once: Took | None  # all instances at once
    default: Summary | None
    why_no_default: str
    in_turn: InTurn | None = None
    own: Summary | None = None  # ours with distributed noise
    beside: str | None = None  # the paper's model whose figure is meant, if another

    @property
    def gain(self) -> float | None:
        """The faster literal form's seconds over our default's, at least."""
        return self.at_once.low / self.default.median if self.at_once and self.default else None


def rows(measured: Measured) -> list[Row]:
    """Return a row for each cell of Table 2, and each model beside them."""
    paper = privfairfl()
    models = [name for model in paper.parties for name in (model, *(m for m in BESIDE if BESIDE[m] == model))]
    return [
        _row(measured, protocol, shape, model, paper.table2[BESIDE.get(model, model), shape, protocol])
        for protocol in PROTOCOLS
        for shape in paper.shapes
        for model in models
        if model in paper.parties or measured.where(*TABLE2, *LITERAL, security=model)
    ]


def _row(measured: Measured, protocol: str, shape: str, model: str, paper: Printed) -> Row:
    where = {"protocol": protocol, "shape": shape, "security": model}
    # Cells that ran in turn with the literal ones, if any, so that the ratio is of one run.
    suite = next((s for s in LITERAL if measured.where(s, variant="default", **where)), TABLE2[0])
    ours = fullest(measured.where(suite, variant="default", noise="joint", **where))
    own = fullest([pair[1] for pair in measured.pairs(variant="default", **where) if pair[1].suite == suite])
    default = ours.seconds() if ours else None
    return Row(
        protocol,
        shape,
        model,
        paper,
        took(measured, PRINTED, protocol, shape, model),
        took(measured, AT_ONCE, protocol, shape, model),
        default,
        "" if default else ours.reason if ours else "not in the suite",
        _in_turn(measured, where),
        own.seconds() if own else None,
        BESIDE.get(model),
    )


def _in_turn(measured: Measured, where: Mapping[str, Level]) -> InTurn | None:
    of_ratios = [
        (ratios, literal.number("thresholds"))
        for suite in LITERAL
        for literal in measured.where(suite, variant=AT_ONCE, **where)
        for ours in measured.where(suite, variant="default", noise="joint", **where)
        if literal["thresholds"] == ours["thresholds"] and (ratios := ratios_in_turn(literal.ok, ours.ok))
    ]
    if not of_ratios:
        return None
    ratios, thresholds = max(of_ratios, key=lambda pair: len(pair[0]))
    return InTurn(median(ratios), interval_of_median(ratios, CONFIDENCE), len(ratios), thresholds)


def took(measured: Measured, form: str, protocol: str, shape: str, model: str) -> Took | None:
    """Return a literal form's seconds, or None if no run tells them.

    Without a run of the whole, those of π_ROC follow from lines with all measured slopes, as its iterations
    are alike. Time is in proportion to records, so that one federation's runs tell the other's.
    """
    shapes, whole = privfairfl().shapes, privfairfl().thresholds
    for suite in LITERAL:
        of_suite = measured.where(suite, protocol=protocol, variant=form, security=model)
        cells = [cell for cell in of_suite if cell.ok and cell["shape"] in shapes]
        here = [cell for cell in cells if cell["shape"] == shape]
        complete = [cell for cell in here if cell["thresholds"] in (None, whole)]
        if complete and (seconds := complete[0].seconds()):
            return Took(seconds.low, seconds.high, seconds)
        of_form = here or (cells if form == PRINTED else [])
        lines = slopes({cell.number("thresholds"): cell.ok for cell in of_form if cell["thresholds"]})
        if lines is not None:
            scale = shapes[shape].records / of_form[0].number("records")
            levels = ", ".join(map(str, sorted(cell.number("thresholds") for cell in of_form)))
            other = "" if here else f" of {shapes[str(cells[0]['shape'])].title}"
            low, high = (seconds * scale for seconds in lines.whole)
            a_round = None
            if rounds := median(lines.rounds):
                of_paper = privfairfl().table2[BESIDE.get(model, model), shape, protocol].seconds
                a_round = (median(lines.each) / rounds, of_paper / (whole * rounds * scale))
            return Took(low, high, None, f"{levels} thresholds{other}", a_round)
    return None


@dataclass(frozen=True)
class Slopes:
    """The seconds of one more threshold."""

    each: Sequence[float]  # by repetition, between the fewest thresholds and the most
    bend: float | None  # the slope at the upper end over that at the lower
    rounds: Sequence[float]  # of one more threshold, between each two levels
    whole: tuple[float, float]  # seconds of all of the paper's thresholds, from and to


def slopes(runs: Mapping[int, Sequence[Sample]]) -> Slopes | None:
    """Return the cost of a threshold, or None of fewer than two levels."""
    levels, most = sorted(runs), privfairfl().thresholds
    if len(levels) < 2:
        return None
    seconds = {level: {run.repetition: run.times["mpc_s"] for run in runs[level]} for level in levels}
    middles = [median(seconds[level].values()) for level in levels]
    low, high = levels[0], levels[-1]
    paired = sorted(seconds[low].keys() & seconds[high].keys())
    each = [(seconds[high][number] - seconds[low][number]) / (high - low) for number in paired]
    parts = _steps(levels, middles)
    ends = [middles[-1] + slope * (most - high) for slope in (*each, *parts)]
    bend = parts[-1] / parts[0] if len(parts) > 1 and parts[0] else None
    rounds = _steps(levels, [float(runs[level][0].rounds or 0) for level in levels])
    return Slopes(each, bend, rounds, (min(ends), max(ends))) if each else None


def _steps(levels: Sequence[int], values: Sequence[float]) -> list[float]:
    return [(y - before) / (x - at) for (at, before), (x, y) in pairwise(zip(levels, values, strict=True))]
