"""Possible differences of the paper's programs from ours, and the ratios to Table 2 that they leave.

A supposed reason is a pair of measured cells of one experiment, which differ in that reason alone
(benchmarks/literal/differences.toml). Whether the paper's authors did so is not known.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from benchmarks.literal import FORMS
from benchmarks.measure.samples import CONFIDENCE, interval_of_median, ratios_in_turn
from benchmarks.papers import privfairfl
from benchmarks.validation.cells import CellRuns, Measured
from benchmarks.validation.side_by_side import AT_ONCE, BAND, PRINTED, InTurn, Row

_PROGRAMS = {"pi_rw": "pi_rw_literal.mpc", "pi_roc": "pi_roc_literal.mpc"}
# Programs with instances side by side, and the form of their loops.
_SIDE_BY_SIDE = {"pi_rw": ("pi_rw_literal.mpc", FORMS[AT_ONCE]), "pi_roc": ("pi_roc_unrolled.mpc", "")}


class Reason(StrEnum):
    """A possible difference of the paper's programs from ours; the value says it to readers."""

    DEFAULTS = "by MP-SPDZ's defaults"
    DABITS = "by daBits (`-X`)"
    SIDE_BY_SIDE = "instances side by side"


_OPTIONS = {Reason.DEFAULTS: "-R 64", Reason.DABITS: "-R 64 -X"}  # options of the compiler


@dataclass(frozen=True)
class Supposed:
    """The ratio to a printed figure that a supposed reason would leave.

    Attributes:
        of_paper: The printed protocol's median seconds here over the printed figure.
        factor: The seconds by the reason over those without it: the median over pairs of runs in turn.
        interval: The 95 % interval of the factor; None of too few pairs.
        pairs: The number of pairs.
    """

    of_paper: float
    factor: float
    interval: tuple[float, float] | None
    pairs: int

    @property
    def left(self) -> InTurn:
        """The ratio that is left, by pairs."""
        interval = None
        if self.interval:
            low, high = self.interval
            interval = (self.of_paper * low, self.of_paper * high)
        return InTurn(self.of_paper * self.factor, interval, self.pairs, thresholds=0)

    @property
    def is_shown(self) -> bool:
        """Whether the pairs show that the reason makes a difference: the interval has no 1."""
        if self.interval is None:
            return False
        low, high = self.interval
        return high < 1 or low > 1

    @property
    def holds(self) -> bool:
        """Whether what is left is within a factor of 3 of the printed figure."""
        return 1 / BAND <= self.left.median <= BAND


def supposed(measured: Measured, row: Row) -> dict[Reason, Supposed]:
    """Return the ratio that each reason which was measured for a time of Table 2 would leave."""
    factors: dict[Reason, list[float]] = {}
    for reason, with_it, without_it in _pairs(measured, row):
        factors.setdefault(reason, []).extend(ratios_in_turn(with_it.ok, without_it.ok))
    found = {}
    for reason, of_reason in factors.items():
        if of_reason and row.of_paper:
            interval = interval_of_median(of_reason, CONFIDENCE)
            found[reason] = Supposed(row.of_paper.median, median(of_reason), interval, len(of_reason))
    return found


def explained(measured: Measured, rows: Sequence[Row]) -> list[Row]:
    """Return the times of Table 2 that a reason explains.

    It makes a difference that pairs of runs show, the time holds by it, and no time of the same protocol that
    holds without it fails by it.
    """
    by_row = [(row, supposed(measured, row)) for row in rows if row.beside is None]
    found = []
    for row, of_row in by_row:
        of_protocol = [(other, of_other) for other, of_other in by_row if other.protocol == row.protocol]
        is_explained = any(
            change.is_shown and change.holds and not _breaks(reason, of_protocol)
            for reason, change in of_row.items()
        )
        if is_explained and not row.holds:
            found.append(row)
    return found


def _breaks(reason: Reason, rows: Sequence[tuple[Row, Mapping[Reason, Supposed]]]) -> bool:
    """Return whether a time that holds would not hold by the reason."""
    return any(row.holds and reason in of_row and not of_row[reason].holds for row, of_row in rows)


def _pairs(measured: Measured, row: Row) -> Iterator[tuple[Reason, CellRuns, CellRuns]]:
    """Yield each reason that was measured, with a cell as the paper may have it, and as ours has it.

    Several experiments may have a pair.
    """
    ours = _our_options(measured, row)
    by_options = _by_options(measured, row, _PROGRAMS[row.protocol], FORMS[PRINTED])
    for reason, options in _OPTIONS.items():
        if options != ours and options in by_options:
            with_it = by_options[options]
            without_it = _printed_in(measured, row, with_it.suite) or by_options.get(ours)
            if without_it is not None:
                yield reason, with_it, without_it
    side_by_side = _by_options(measured, row, *_SIDE_BY_SIDE[row.protocol])
    if ours in side_by_side and ours in by_options:
        yield Reason.SIDE_BY_SIDE, side_by_side[ours], by_options[ours]
    if row.protocol == "pi_rw":
        for at_once in measured.where(variant=AT_ONCE, **_where(row)):
            for one_by_one in measured.where(at_once.suite, variant=PRINTED, **_where(row)):
                yield Reason.SIDE_BY_SIDE, at_once, one_by_one


def _where(row: Row) -> Mapping[str, str | None]:
    """Return the levels of a row's cells, of the model's usual number of parties."""
    return {"protocol": row.protocol, "shape": row.shape, "security": row.model, "parties": None}


def _our_options(measured: Measured, row: Row) -> str:
    """Return the options with which the printed protocol was compiled here, or "" if it did not run."""
    for cell in measured.where(protocol=row.protocol, variant=PRINTED, security=row.model, parties=None):
        for run in cell.ok:
            return " ".join(run.compile_options)
    return ""


def _by_options(measured: Measured, row: Row, program: str, form: str) -> Mapping[str, CellRuns]:
    """Return the good cells of a program in a row's model, and of its federation's size, by their options.

    One threshold takes as long beside any number of records, in proportion.

    Args:
        measured: The runs.
        row: The row.
        program: The program's file.
        form: The form of its loops, an argument; an empty text if it has one form.
    """
    size = privfairfl().shapes[row.shape]
    found = {}
    for cell in measured.where(program=program, security=row.model):
        arguments = str(cell["arguments"])
        is_of_size = row.protocol == "pi_roc" or f" {size.clients} {size.records} " in arguments
        is_of_form = not form or form in arguments.split()
        if cell.ok and is_of_size and is_of_form:
            found[str(cell["compile_options"])] = cell
    return found


def _printed_in(measured: Measured, row: Row, suite: str) -> CellRuns | None:
    """Return the printed protocol's cell of an experiment, with the batches of our runs; None without one."""
    cells = measured.where(suite, protocol=row.protocol, variant=PRINTED, security=row.model, parties=None)
    return next((cell for cell in cells if cell.ok), None)
