"""Table 2, cell by cell: the paper's seconds, its protocol run here, and our default."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
from scipy.optimize import nnls

from benchmarks.literal import FORMS, TOGETHER
from benchmarks.measure.samples import CONFIDENCE, Level, Sample, Summary, interval_of_median, ratios_in_turn
from benchmarks.papers import FigureClaim, Printed, privfairfl
from benchmarks.validation.cells import CellRuns, Measured, fullest

PROTOCOLS = ("pi_rw", "pi_roc")
# The two literal forms: an instance after the other, as printed; and all instances at once. Curves have a
# third one, `TOGETHER`, with the thresholds in vectors, too.
PRINTED, AT_ONCE = FORMS
NOT_YET = "not run"
# A model of ours that stands beside the paper's active model with as many parties.
BESIDE = {"ps-rep-ring": "sy-rep-ring"}
LEAST_LEVELS = 3  # the least number of levels by which a line is judged
LEAST_RATIO = 4  # the least ratio of the largest level to the smallest
BAND = 3.0  # the factor within which a median and a printed figure count as alike


def fit(levels: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Return the slope of a rising line by least squares, and its largest relative residual."""
    x = np.asarray(levels, dtype=float)
    y = np.asarray(costs, dtype=float)
    coefficients, _ = nnls(np.stack([1 / y, x / y], axis=1), np.ones(len(y)))
    constant, slope = coefficients.tolist()
    residuals = (constant + slope * x) / y - 1
    return slope, float(np.max(np.abs(residuals)))


@dataclass(frozen=True)
class Ratio:
    """A ratio of medians, with the least and the largest ratio that the runs allow."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Took:
    """A literal form's seconds at the paper's size.

    The median is over the runs, or follows from their median cost of a threshold. `low` and `high` are the
    least and the largest seconds of a run, or follow from all measured costs of a threshold.
    """

    median: float
    low: float
    high: float
    runs: Summary | None = None  # the runs of the whole protocol; None if it did not run whole
    basis: str = ""  # the part that ran in place of the whole
    a_round: tuple[float, float] | None = None  # seconds of a round, here and in the paper
    suite: str = ""  # the suite in which it ran


@dataclass(frozen=True)
class Beside:
    """A literal form's seconds, and our default's by which they are divided.

    A machine may be busier in one experiment than in another, so that both are of one where that has both.
    """

    form: str
    literal: Took
    ours: Summary

    @property
    def ratio(self) -> Ratio:
        """The literal form's seconds over our default's."""
        return Ratio(
            self.literal.median / self.ours.median,
            self.literal.low / self.ours.high,
            self.literal.high / self.ours.low,
        )


@dataclass(frozen=True)
class InTurn:
    """The literal form's seconds, with all instances at once, over our default's, in pairs run in turn."""

    median: float
    interval: tuple[float, float] | None
    pairs: int
    thresholds: int


@dataclass(frozen=True)
class Row:
    """A cell of Table 2, in the paper and here."""

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
    together: Took | None = None  # costs of curves, all instances at once, and the thresholds in vectors
    beside_together: Summary | None = None  # our default in the experiment of `together`

    @property
    def fastest(self) -> Beside | None:
        """The literal form that takes the least multiple of our default's seconds; None if none was run."""
        forms = []
        if self.at_once and self.default:
            forms.append(Beside(AT_ONCE, self.at_once, self.default))
        if self.together and self.beside_together:
            forms.append(Beside(TOGETHER, self.together, self.beside_together))
        return min(forms, key=lambda form: form.ratio.median, default=None)

    @property
    def gain(self) -> Ratio | None:
        """The fastest literal form's seconds over our default's."""
        return self.fastest.ratio if self.fastest else None

    @property
    def of_paper(self) -> Ratio | None:
        """The printed protocol's seconds here over the printed figure."""
        if not self.printed:
            return None
        return Ratio(
            self.printed.median / self.paper.seconds,
            self.printed.low / self.paper.seconds,
            self.printed.high / self.paper.seconds,
        )

    @property
    def holds(self) -> bool | None:
        """Whether the median here is within a factor of 3 of the printed figure; None without a median."""
        if not self.of_paper:
            return None
        return 1 / BAND <= self.of_paper.median <= BAND


def cells_of_figure(measured: Measured, claim: FigureClaim) -> list[CellRuns]:
    """Return the good cells of a figure's protocol and model, of two groups and two labels.

    They are of no federation's shape, count records and not clients, and ran on the machine's own network or
    that between hosts.
    """
    where: dict[str, Level] = {
        "protocol": claim.protocol,
        "security": claim.security,
        "shape": "",
        "epsilon": "1",
        "network": "none",
    }
    cells = []
    for cell in measured.where(**where):
        is_of_two = cell["groups"] in (None, 2) and cell["labels"] in (None, 2)
        if cell.ok and cell.number(claim.factor) and is_of_two and not cell.number("cap"):
            cells.append(cell)
    return measured.distinct(cells)


def table2_rows(measured: Measured) -> list[Row]:
    """Return a row for each cell of Table 2, and each model beside them."""
    paper = privfairfl()
    models = []
    for model in paper.parties:
        models.append(model)
        for beside, of_paper in BESIDE.items():
            if of_paper == model and measured.where(security=beside):
                models.append(beside)
    table = []
    for protocol in PROTOCOLS:
        for shape in paper.shapes:
            for model in models:
                printed = paper.table2[BESIDE.get(model, model), shape, protocol]
                table.append(_row(measured, protocol, shape, model, printed))
    return table


def _row(measured: Measured, protocol: str, shape: str, model: str, paper: Printed) -> Row:
    where: dict[str, Level | None] = {
        "protocol": protocol,
        "shape": shape,
        "security": model,
        "parties": None,  # the model's usual number
        "network": "none",
    }
    suite = _suite_of_ours(measured, where)
    ours = fullest(
        [cell for cell in measured.where(variant="default", noise="joint", **where) if cell.suite == suite]
    )
    with_own_noise = [own for _, own in measured.pairs(variant="default", **where) if own.suite == suite]
    own = fullest(with_own_noise)
    default = ours.seconds() if ours else None
    why_no_default = ""
    if default is None:
        why_no_default = ours.reason if ours else "not in the suite"
    together = took(measured, TOGETHER, protocol, shape, model)
    beside_together = None
    if together:
        beside = measured.where(together.suite, variant="default", noise="joint", **where)
        ours_in_turn = fullest(beside)
        beside_together = ours_in_turn.seconds() if ours_in_turn else None
    return Row(
        protocol=protocol,
        shape=shape,
        model=model,
        paper=paper,
        printed=took(measured, PRINTED, protocol, shape, model),
        at_once=took(measured, AT_ONCE, protocol, shape, model),
        default=default,
        why_no_default=why_no_default,
        in_turn=_in_turn(measured, where),
        own=own.seconds() if own else None,
        beside=BESIDE.get(model),
        together=together,
        beside_together=beside_together,
    )


def _suite_of_ours(measured: Measured, where: Mapping[str, Level | None]) -> str:
    """Return the suite whose runs of our default stand in a row; an empty text if none has any.

    The suite has the literal forms, too, so that ratios are of runs in turn. If several suites have them, or
    none, the suite has most good runs.
    """
    with_literal = {cell.suite for form in FORMS for cell in measured.where(variant=form, **where) if cell.ok}
    runs: Counter[str] = Counter()
    for cell in measured.where(variant="default", noise="joint", **where):
        runs[cell.suite] += len(cell.ok)
    return max(runs, key=lambda suite: (suite in with_literal, runs[suite]), default="")


def _in_turn(measured: Measured, where: Mapping[str, Level | None]) -> InTurn | None:
    """Return the ratio of the suite and the number of thresholds that ran most often in turn."""
    best: list[float] = []
    thresholds = 0
    for suite in measured.suites:
        for literal in measured.where(suite, variant=AT_ONCE, **where):
            for ours in measured.where(suite, variant="default", noise="joint", **where):
                if literal["thresholds"] != ours["thresholds"]:
                    continue
                ratios = ratios_in_turn(literal.ok, ours.ok)
                if len(ratios) > len(best):
                    best = ratios
                    thresholds = literal.number("thresholds")
    if not best:
        return None
    return InTurn(median(best), interval_of_median(best, CONFIDENCE), len(best), thresholds)


def took(
    measured: Measured, form: str, protocol: str, shape: str, model: str, *, parties: int | None = None
) -> Took | None:
    """Return a literal form's seconds; None if no run tells them.

    `parties` is their number where an experiment names it, and else None.

    If π_ROC did not run whole, its seconds follow from lines with all measured slopes, because its iterations
    are alike. Time is in proportion to records, so that runs of one federation tell the other's seconds.
    """
    shapes = privfairfl().shapes
    whole = privfairfl().thresholds
    where: dict[str, Level | None] = {
        "protocol": protocol,
        "variant": form,
        "security": model,
        "parties": parties,
        "network": "none",
    }
    all_at_this_shape = [cell for cell in measured.where(shape=shape, **where) if cell.ok]
    complete = [cell for cell in all_at_this_shape if cell["thresholds"] in (None, whole)]
    if complete:
        most = max(complete, key=lambda cell: len(cell.ok))
        seconds = most.seconds()
        if seconds:
            return Took(seconds.median, seconds.low, seconds.high, seconds, suite=most.suite)
    for suite in measured.suites:
        cells = [cell for cell in measured.where(suite, **where) if cell.ok and cell["shape"] in shapes]
        here = [cell for cell in cells if cell["shape"] == shape]
        partial = here or cells  # with fewer thresholds
        lines = slopes({cell.number("thresholds"): cell.ok for cell in partial if cell["thresholds"]})
        if lines is not None:
            scale = shapes[shape].records / partial[0].number("records")
            levels = ", ".join(map(str, sorted(cell.number("thresholds") for cell in partial)))
            basis = f"{levels} thresholds"
            if not here:
                basis += f" of {shapes[str(cells[0]['shape'])].title}"
            low, high = lines.whole
            rounds = median(lines.rounds)
            a_round = None
            if rounds:
                paper_s = privfairfl().table2[BESIDE.get(model, model), shape, protocol].seconds
                a_round = (median(lines.each) / rounds, paper_s / (whole * rounds * scale))
            return Took(
                lines.middle * scale, low * scale, high * scale, basis=basis, a_round=a_round, suite=suite
            )
    return None


@dataclass(frozen=True)
class Slopes:
    """The seconds of one more threshold."""

    each: Sequence[float]  # seconds by repetition, between the fewest thresholds and the most
    bend: float | None  # the slope at the upper end over that at the lower
    rounds: Sequence[float]  # rounds of one more threshold, between each two levels
    whole: tuple[float, float]  # seconds of all of the paper's thresholds, from and to
    middle: float  # the same by the median of `each`


def slopes(runs: Mapping[int, Sequence[Sample]]) -> Slopes | None:
    """Return the cost of a threshold, by runs with some numbers of thresholds; None of fewer than two."""
    levels = sorted(runs)
    most = privfairfl().thresholds
    if len(levels) < 2:
        return None
    seconds = {}  # seconds by level, then by repetition
    for level in levels:
        seconds[level] = {run.repetition: run.times["mpc_s"] for run in runs[level]}
    middles = [median(seconds[level].values()) for level in levels]
    low = levels[0]
    high = levels[-1]
    paired = sorted(seconds[low].keys() & seconds[high].keys())
    if not paired:
        return None
    each = [(seconds[high][number] - seconds[low][number]) / (high - low) for number in paired]
    parts = _steps(levels, middles)
    ends = [middles[-1] + slope * (most - high) for slope in (*each, *parts)]
    bend = parts[-1] / parts[0] if len(parts) > 1 and parts[0] else None
    rounds = _steps(levels, [float(runs[level][0].rounds or 0) for level in levels])
    middle = middles[-1] + median(each) * (most - high)
    return Slopes(each, bend, rounds, (min(ends), max(ends)), middle)


def _steps(levels: Sequence[int], values: Sequence[float]) -> list[float]:
    """Return the slopes between each two neighboring levels."""
    points = zip(levels, values, strict=True)
    return [(y - y_before) / (x - x_before) for (x_before, y_before), (x, y) in pairwise(points)]
