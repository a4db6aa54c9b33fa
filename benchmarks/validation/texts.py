"""Findings and tables as parts of views, and numbers in words."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median

from benchmarks.literal import TOGETHER, literal_of
from benchmarks.measure.samples import CONFIDENCE, OK, Level, Sample, Summary, cell_key, name_of
from benchmarks.papers import privfairfl
from benchmarks.validation.differences import Supposed
from benchmarks.validation.findings import Finding, Status
from benchmarks.validation.side_by_side import (
    BAND,
    NOT_YET,
    PROTOCOLS,
    Beside,
    InTurn,
    Ratio,
    Row,
    Slopes,
    Took,
    slopes,
)
from fairshares.harness.privacy.statement import SHIFTED
from fairshares.harness.views.parts import Part, Sentences, Table

TITLES = {"pi_rw": "Weights", "pi_roc": "Thresholds"}
NONE = "–"
KINDS = {
    "whole": "suites are whole, of one program per cell and one machine",
    "exact": "sizes, parties, multiplications: exact",
    "order": "orders of models and phases, as in the paper",
    "linear": "linear where it should be, ours only",
    "constant": "constant where it should be, ours only",
    "network": "emulated networks bite",
    "own": "distributed noise sends less and takes less time than joint noise, and errs by what is stated",
    "ratio": "medians within a factor of 3 of the paper's figures",
    "gain": "the default against the fastest literal form",
}


RULE = (
    f"A time holds if the median here is within a factor of {BAND:g} of the printed figure, whatever the "
    "spread of the runs and the rounding of the figure."
)
DISTRIBUTED_NOISE = (
    "With two, three and four parties, distributed noise has at most 1.41, 1.22 and 1.15 times the standard "
    f"error, and {SHIFTED}."
)


def seconds(value: float, digits: int = 3) -> str:
    """Return seconds with so many significant digits, and no exponent."""
    magnitude = floor(log10(value)) if value > 0 else 0
    decimals = digits - 1 - magnitude
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def spread(found: Summary | None) -> str:
    """Return a median with its range."""
    if found is None:
        return NONE
    text = seconds(found.median)
    if found.n > 1:
        text += f" ({seconds(found.low, 2)} – {seconds(found.high, 2)})"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def times(ratio: float) -> str:
    """Return a ratio with two significant digits."""
    two_digits = f"{ratio:.2g}"
    if ratio < 1e6:
        return f"×{float(two_digits):,g}"  # without an exponent
    return f"×{two_digits}"


def ratio(found: Ratio | None) -> str:
    """Return a ratio of medians with the least and the largest that the runs allow."""
    if found is None:
        return NOT_YET
    text = times(found.median)
    if times(found.low) != times(found.high):
        text += f" ({_within(found.low, found.high)})"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def left_by(found: Supposed | None) -> str:
    """Return the ratio that a supposed reason leaves, bold if it is shown and the time then holds."""
    if found is None:
        return NONE
    text = in_turn(found.left)
    return f"**{text}**" if found.is_shown and found.holds else text


def _within(low: float, high: float) -> str:
    """Return the ends of an interval of ratios, without the sign that is before the ratio itself."""
    return f"{times(low)[1:]} – {times(high)[1:]}"


def judged_rows(rows: Sequence[Row], shape: str) -> Iterator[list[str]]:
    """Yield the names of columns, then a federation's line of Table 2 for each of its times."""
    yield ["protocol", "model", "published, s", "here, s", "here ÷ published (least – most)", "holds"]
    for row in rows:
        if row.shape == shape and row.beside is None:
            holds = NOT_YET
            if row.holds is not None:
                holds = "yes" if row.holds else "no"
            yield [
                TITLES[row.protocol].lower(),
                row.model,
                _published(row.paper.seconds),
                median_took(row.printed),
                ratio(row.of_paper),
                holds,
            ]


def beside_ours(rows: Sequence[Row], protocol: str, shape: str) -> Iterator[list[str]]:
    """Yield the names of columns, then for each model literal forms beside our default."""
    names = ["model", "literal, s", "ours, s", "distributed noise, s"]
    if protocol == "pi_roc":
        names += ["in vectors, s", "ours in turn, s", "fastest ÷ ours (least – most)"]
    else:
        names.append("literal ÷ ours, in turn (95 %)")
    yield names
    for row in rows:
        if row.shape == shape and row.protocol == protocol:
            line = [row.model, median_took(row.at_once), _median(row.default), _median(row.own)]
            if protocol == "pi_roc":
                line += [median_took(row.together), _median(row.beside_together), ratio(row.gain)]
            else:
                line.append(in_turn(row.in_turn))
            yield line


def gains(rows: Sequence[Row]) -> Iterator[list[str]]:
    """Yield the names of columns, then by model the fastest literal form's time of curves over ours."""
    by_model: dict[str, list[Row]] = {}
    for row in rows:
        if row.protocol == "pi_roc":
            by_model.setdefault(row.model, []).append(row)
    titles = [f"{shape.title} (least – most)" for shape in privfairfl().shapes.values()]
    yield ["model", *titles, "fastest literal form"]
    for model, rows_of_model in by_model.items():
        forms = dict.fromkeys(_form_of(row.fastest) for row in rows_of_model)
        yield [model, *(ratio(row.gain) for row in rows_of_model), ", ".join(forms)]


def _form_of(found: Beside | None) -> str:
    """Return a literal form in words, with the sign of what did not run whole."""
    if found is None:
        return NONE
    text = "thresholds in vectors" if found.form == TOGETHER else "instances at once"
    return f"{text}\N{NO-BREAK SPACE}‡" if found.literal.basis else text


def held(findings: Sequence[Finding]) -> Iterator[list[str]]:
    """Yield the names of columns, then how many of Table 2's times hold, by protocol and in all."""
    yield ["times of Table 2", "number", "hold", "explained by an experiment", "not explained", NOT_YET]
    keys = {TITLES[protocol].lower(): f"ratio.table2.{protocol}." for protocol in PROTOCOLS}
    keys["all"] = "ratio.table2."
    for name, key in keys.items():
        numbers = Counter(finding.status for finding in findings if finding.check.key.startswith(key))
        statuses = (Status.PASSED, Status.EXPLAINED, Status.NOT_EXPLAINED, Status.NOT_JUDGED)
        yield [name, str(numbers.total()), *(str(numbers[status]) for status in statuses)]


def _median(found: Summary | None) -> str:
    if found is None:
        return NONE
    return seconds(found.median, 2)


def median_took(form: Took | None) -> str:
    """Return a literal form's seconds, with the sign of what did not run whole."""
    if form is None:
        return NOT_YET
    if form.basis:
        return f"{seconds(form.median)}\N{NO-BREAK SPACE}‡"
    return seconds(form.median)


def _published(value: float) -> str:
    if value < 100:
        return f"{value:,.2f}"
    return f"{value:,.0f}"


def in_turn(ratio: InTurn | None) -> str:
    """Return a ratio with its interval, or the number of pairs."""
    if ratio is None:
        return NOT_YET
    if ratio.interval:
        low, high = ratio.interval
        shown = f"{times(ratio.median)} ({_within(low, high)})"
        return shown.replace(" ", "\N{NO-BREAK SPACE}")
    noun = "pairs" if ratio.pairs > 1 else "pair"
    return f"{times(ratio.median)} ({ratio.pairs} {noun})"


def table2_parts(rows: Sequence[Row], over: str = "") -> Iterator[Part]:
    """View Table 2 side by side, a federation a table, with notes.

    Args:
        rows: The table's rows.
        over: The hosts and networks of runs, in words; empty for one machine.
    """
    for shape in privfairfl().shapes.values():
        size = f"{shape.title}, {shape.clients:,} clients with {shape.records:,} records"
        header, *lines = judged_rows(rows, shape.name)
        yield Table(header, lines, caption=f"The paper's protocols as printed. {size}.")
        for protocol in PROTOCOLS:
            header, *lines = beside_ours(rows, protocol, shape.name)
            yield Table(header, lines, caption=f"{TITLES[protocol]}, all instances at once. {size}.")
    header, *lines = gains(rows)
    yield Table(header, lines, caption="Thresholds: the fastest literal form over ours.")
    yield Sentences(list(_notes(rows, over)))


def took(form: Took | None) -> str:
    """Return a literal form's seconds with their range."""
    if form is None:
        return NONE
    if form.runs:
        return spread(form.runs)
    return f"{seconds(form.low)} – {seconds(form.high)}".replace(" ", "\N{NO-BREAK SPACE}")


def _notes(rows: Sequence[Row], over: str) -> Iterator[str]:
    yield (
        f"Seconds in the computation, preprocessing included. The paper's are for {privfairfl().machine}; "
        f"ours {over or 'for all parties on one machine'}. Least – most: of the runs. In turn: the "
        f"median over pairs at as many thresholds ({CONFIDENCE:.0%} interval)."
    )
    yield RULE
    if any(row.own for row in rows):
        yield DISTRIBUTED_NOISE
    yield (
        "Literal: the paper's protocol as printed, an instance after the other, on made-up records. What it "
        "reveals is not private. Its forms are in benchmarks/literal; none has clients that send."
    )
    forms = [form for row in rows for form in (row.printed, row.at_once, row.together)]
    bases = dict.fromkeys(form.basis for form in forms if form and form.basis)
    for basis in bases:
        yield f"‡ It did not run whole: by what each iteration took in runs with {basis}."


def unjudged(findings: Sequence[Finding]) -> Iterator[Table]:
    """View why checks could not be judged."""
    keys_by_reason: dict[str, list[str]] = {}
    for finding in findings:
        if finding.status is Status.NOT_JUDGED:
            keys_by_reason.setdefault(finding.reason, []).append(finding.check.key)
    if keys_by_reason:
        yield Table(
            ["not judged, because", "checks", "for example"],
            [[reason, str(len(keys)), keys[0]] for reason, keys in keys_by_reason.items()],
        )


def counts(findings: Sequence[Finding]) -> str:
    """Return the number of checks by status, in words."""
    numbers = Counter(finding.status for finding in findings)
    *_, (_, total, holding, explained, unexplained, missing) = held(findings)
    return (
        f"{len(findings):,} checks: {numbers[Status.PASSED]:,} passed, "
        f"{numbers[Status.EXPLAINED]:,} deviate as explained, "
        f"{numbers[Status.NOT_EXPLAINED]:,} deviate from the paper and are not explained, "
        f"{numbers[Status.FAILED]:,} failed, {numbers[Status.NOT_JUDGED]:,} could not be judged. "
        f"Of Table 2's {total} times {holding} hold, as the median is within a factor of {BAND:g} of the "
        f"printed figure; {explained} are explained by an experiment, {unexplained} are not explained, "
        f"{missing} are {NOT_YET}"
    )


def by_kind(findings: Sequence[Finding]) -> Table:
    """View the number of checks by kind and status."""
    numbers_by_kind: dict[str, Counter[Status]] = {}
    for finding in findings:
        numbers_by_kind.setdefault(finding.check.kind, Counter())[finding.status] += 1
    lines = []
    for kind, numbers in numbers_by_kind.items():
        lines.append([KINDS[kind], *(str(numbers[status]) for status in Status)])
    return Table(["checks", *map(str, Status)], lines)


_MEANING = (
    "One: what one more threshold costs, between the fewest and the most, repetition by repetition (least – "
    "most). Bend: its cost between the two largest numbers over that between the two least: 1 if all cost "
    "the same; rounds: of one more, likewise. All 1,001: where lines of all these slopes lead."
)


@dataclass(frozen=True)
class Iterations:
    """The cost of a threshold in literal cells that differ in the number of thresholds alone."""

    cell: Mapping[str, Level]  # the cell with most thresholds
    levels: Sequence[int]  # numbers of thresholds that ran, in order
    found: Slopes

    @property
    def instance_s(self) -> float:
        """The seconds of an instance: a record and a threshold."""
        return median(self.found.each) / int(self.cell["records"])

    @property
    def printed_instance_s(self) -> float | None:
        """The same by the paper's time; None if the paper has none."""
        paper = privfairfl()
        key = (str(self.cell["security"]), str(self.cell.get("shape")), "pi_roc")
        printed = paper.table2.get(key)
        if printed is None:
            return None
        return printed.seconds / paper.thresholds / int(self.cell["records"])

    @property
    def one(self) -> str:
        """The seconds of one more threshold, with the least and the most of the repetitions."""
        each = self.found.each
        return spread(Summary(len(each), median(each), min(each), max(each)))

    @property
    def bend(self) -> str:
        """The cost of a threshold at the upper end over that at the lower."""
        if self.found.bend is None:
            return NONE
        return f"{self.found.bend:.2f}"


def iterations_of(cells: Sequence[Sequence[Sample]]) -> list[Iterations]:
    """Return the cost of a threshold in each kind of literal cells that tells it."""
    by_rest: dict[object, dict[int, list[Sample]]] = {}
    for runs in cells:
        cell = runs[-1].cell
        good = [run for run in runs if run.status == OK]
        if literal_of(cell) and "thresholds" in cell and good:
            rest = cell_key({name: level for name, level in cell.items() if name != "thresholds"})
            by_rest.setdefault(rest, {})[int(cell["thresholds"])] = good
    costs = []
    for levels in by_rest.values():
        found = slopes(levels)
        if found:
            costs.append(Iterations(levels[max(levels)][0].cell, sorted(levels), found))
    return costs


def iterations(cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    """View the cost of a threshold in literal cells."""
    rows = [_row(cost) for cost in iterations_of(cells)]
    if rows:
        columns = [
            "cell",
            "thresholds",
            "one, s",
            "an instance, µs",
            "paper",
            "bend",
            "rounds",
            "all 1,001, s",
        ]
        yield Table(columns, rows, caption=_MEANING)


def _row(cost: Iterations) -> list[str]:
    of_paper = NONE
    if cost.printed_instance_s is not None:
        of_paper = seconds(cost.printed_instance_s * 1e6)
    if cost.levels[-1] >= privfairfl().thresholds:
        whole = "it ran"
    else:
        low, high = cost.found.whole
        whole = f"{seconds(low)} – {seconds(high)}"
    return [
        name_of(cost.cell, "thresholds"),
        ", ".join(map(str, cost.levels)),
        cost.one,
        seconds(cost.instance_s * 1e6),
        of_paper,
        cost.bend,
        " / ".join(f"{rounds:,.0f}" for rounds in cost.found.rounds),
        whole,
    ]


def iterations_at(cells: Sequence[Sequence[Sample]], form: str, shape: str) -> Iterator[list[str]]:
    """Yield the names of columns, then the cost of a threshold in a federation's cells of a literal form.

    Cells that name a number of parties are left out: they stand beside other numbers.
    """
    yield ["model", "thresholds", "one more, s", "an instance, µs", "paper, µs", "bend", "rounds"]
    for cost in iterations_of(cells):
        if cost.cell.get("shape") != shape or cost.cell["variant"] != form or "parties" in cost.cell:
            continue
        of_paper = NONE
        if cost.printed_instance_s is not None:
            of_paper = seconds(cost.printed_instance_s * 1e6)
        yield [
            str(cost.cell["security"]),
            f"{cost.levels[0]:,} to {cost.levels[-1]:,}".replace(" ", "\N{NO-BREAK SPACE}"),
            cost.one,
            seconds(cost.instance_s * 1e6),
            of_paper,
            cost.bend,
            f"{cost.found.rounds[-1]:,.0f}",
        ]
