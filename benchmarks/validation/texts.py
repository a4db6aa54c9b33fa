"""Findings and tables as parts of views, and numbers in words."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import floor, log10
from statistics import median

from benchmarks.literal import literal_of
from benchmarks.measure.samples import CONFIDENCE, OK, Level, Sample, Summary, cell_key, name_of
from benchmarks.papers import privfairfl
from benchmarks.validation.findings import Finding, Status
from benchmarks.validation.side_by_side import NOT_YET, PROTOCOLS, InTurn, Row, Slopes, Took, slopes
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
    "ratio": "times within a factor of 3 of the paper's",
    "gain": "the default against the faster literal form",
}


FEDERATIONS = "; ".join(
    f"{shape.title}, {shape.clients:,} clients with {shape.records:,} records"
    for shape in privfairfl().shapes.values()
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


def table2(rows: Sequence[Row], protocol: str) -> Iterator[list[str]]:
    """Yield the names of columns, then a line for each model.

    A line has a federation's figure after the other's; figures in the same words are said once.
    """
    yield [
        "model",
        "published",
        "literal, run here",
        "all instances at once, here",
        "ours",
        "ours, distributed noise",
        "at once ÷ ours",
        "at once ÷ ours, in turn",
    ]
    by_model: dict[str, list[Row]] = {}
    for shape in privfairfl().shapes:
        for row in rows:
            if row.protocol == protocol and row.shape == shape:
                by_model.setdefault(row.model, []).append(row)
    for model, rows_of_model in by_model.items():
        figures_of_federations = [_figures(row) for row in rows_of_model]
        line = [model]
        for figures in zip(*figures_of_federations, strict=True):
            line.append("; ".join(dict.fromkeys(figures)))
        yield line


def _figures(row: Row) -> list[str]:
    """Return the figures of a row of Table 2, in the order of the columns after the model."""
    published = NONE
    if not row.beside:
        published = _published(row.paper.seconds)
    gain = NOT_YET
    if row.gain:
        gain = times(row.gain)
    return [
        published,
        _took(row.printed),
        _took(row.at_once),
        _median(row.default),
        _median(row.own),
        gain,
        in_turn(row.in_turn),
    ]


def _median(found: Summary | None) -> str:
    if found is None:
        return NONE
    return seconds(found.median, 2)


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
        return f"{times(ratio.median)} ({times(low)} – {times(high)})"
    noun = "pairs" if ratio.pairs > 1 else "pair"
    return f"{times(ratio.median)} ({ratio.pairs} {noun})"


def table2_parts(rows: Sequence[Row], over: str = "") -> Iterator[Part]:
    """View Table 2 side by side, with notes.

    Args:
        rows: The table's rows.
        over: The hosts and networks of runs, in words; empty for one machine.
    """
    for protocol in PROTOCOLS:
        header, *lines = table2(rows, protocol)
        yield Table(header, lines, caption=f"{TITLES[protocol]}: {FEDERATIONS}.")
    yield Sentences(list(_notes(rows, over)))


def took(form: Took | None) -> str:
    """Return a literal form's seconds with their range."""
    if form is None:
        return NONE
    if form.runs:
        return spread(form.runs)
    return f"{seconds(form.low)} – {seconds(form.high)}".replace(" ", "\N{NO-BREAK SPACE}")


def _took(form: Took | None) -> str:
    if form is None:
        return NOT_YET
    if form.basis:
        return f"{took(form)} ‡"
    return took(form)


def _notes(rows: Sequence[Row], over: str) -> Iterator[str]:
    yield (
        f"Seconds in the computation, preprocessing included. The paper's are for {privfairfl().machine}; "
        f"ours {over or 'for all parties on one machine'}. In turn: the median over pairs at as many "
        f"thresholds ({CONFIDENCE:.0%} interval)."
    )
    if any(row.own for row in rows):
        yield DISTRIBUTED_NOISE
    yield (
        "Literal: the paper's protocol as printed, an instance after the other, on made-up records. What it "
        "reveals is not private. Both of its forms are in benchmarks/literal; none has clients that send."
    )
    forms = [form for row in rows for form in (row.printed, row.at_once)]
    bases = dict.fromkeys(form.basis for form in forms if form and form.basis)
    for basis in bases:
        yield f"‡ From and to, by what each iteration took in runs with {basis}. It did not run whole."


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
    of_table2 = [finding for finding in findings if finding.check.key.startswith("ratio.table2.")]
    by_status = Counter(finding.status for finding in of_table2)
    return (
        f"{len(findings):,} checks: {numbers[Status.PASSED]:,} passed, "
        f"{numbers[Status.EXPLAINED]:,} deviate as explained, {numbers[Status.FAILED]:,} failed, "
        f"{numbers[Status.NOT_JUDGED]:,} could not be judged. "
        f"Of Table 2's {by_status.total()} times {by_status[Status.PASSED]} hold, "
        f"{by_status[Status.EXPLAINED]} fail with an experiment as the reason, "
        f"{by_status[Status.FAILED]} fail without, {by_status[Status.NOT_JUDGED]} are {NOT_YET}"
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


def iterations(cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    """View the cost of a threshold in literal cells."""
    by_rest: dict[object, dict[int, list[Sample]]] = {}
    for runs in cells:
        cell = runs[-1].cell
        good = [run for run in runs if run.status == OK]
        if literal_of(cell) and "thresholds" in cell and good:
            rest = cell_key({name: level for name, level in cell.items() if name != "thresholds"})
            by_rest.setdefault(rest, {})[int(cell["thresholds"])] = good
    rows = []
    for levels in by_rest.values():
        found = slopes(levels)
        if found:
            rows.append(_row(levels[max(levels)][0].cell, sorted(levels), found))
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


def _row(cell: Mapping[str, Level], levels: Sequence[int], found: Slopes) -> list[str]:
    """Return the line of a cell that ran with these numbers of thresholds."""
    records = int(cell["records"])
    paper = privfairfl()
    printed = paper.table2.get((str(cell["security"]), str(cell.get("shape")), "pi_roc"))
    of_paper = NONE
    if printed:
        instance_s = printed.seconds / paper.thresholds / records
        of_paper = seconds(instance_s * 1e6)
    bend = NONE
    if found.bend is not None:
        bend = f"{found.bend:.2f}"
    if levels[-1] >= paper.thresholds:
        whole = "it ran"
    else:
        low, high = found.whole
        whole = f"{seconds(low)} – {seconds(high)}"
    return [
        name_of(cell, "thresholds"),
        ", ".join(map(str, levels)),
        spread(Summary(len(found.each), median(found.each), min(found.each), max(found.each))),
        seconds(median(found.each) / records * 1e6),
        of_paper,
        bend,
        " / ".join(f"{rounds:,.0f}" for rounds in found.rounds),
        whole,
    ]
