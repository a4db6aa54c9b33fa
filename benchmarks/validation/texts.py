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
from harness.privacy.statement import SHIFTED
from harness.views.parts import Part, Sentences, Table

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
    """Return seconds with some digits and no exponent."""
    magnitude = floor(log10(value)) if value > 0 else 0
    return f"{round(value, digits - 1 - magnitude):,.{max(0, digits - 1 - magnitude)}f}"


def spread(found: Summary | None) -> str:
    """Return a median with its range."""
    if found is None:
        return NONE
    span = f" ({seconds(found.low, 2)} – {seconds(found.high, 2)})" if found.n > 1 else ""
    return f"{seconds(found.median)}{span}".replace(" ", "\N{NO-BREAK SPACE}")


def times(ratio: float) -> str:
    """Return a ratio with two digits."""
    return f"×{float(f'{ratio:.2g}'):,g}" if ratio < 1e6 else f"×{ratio:.2g}"


def table2(rows: Sequence[Row], protocol: str) -> Iterator[list[str]]:
    """Yield names of columns, then each model's row."""
    yield [
        *("model", "published", "literal, run here", "all instances at once, here"),
        *("ours", "ours, distributed noise", "at once ÷ ours", "at once ÷ ours, in turn"),
    ]
    for of_model in zip(
        *(
            [row for row in rows if (row.protocol, row.shape) == (protocol, shape)]
            for shape in privfairfl().shapes
        ),
        strict=True,
    ):
        columns = (
            [
                NONE if row.beside else f"{row.paper.seconds:,.{2 if row.paper.seconds < 100 else 0}f}"
                for row in of_model
            ],
            [_took(row.printed) for row in of_model],
            [_took(row.at_once) for row in of_model],
            [seconds(row.default.median, 2) if row.default else NONE for row in of_model],
            [seconds(row.own.median, 2) if row.own else NONE for row in of_model],
            [times(row.gain) if row.gain else NOT_YET for row in of_model],
            [in_turn(row.in_turn) for row in of_model],
        )
        yield [of_model[0].model, *("; ".join(dict.fromkeys(column)) for column in columns)]


def in_turn(ratio: InTurn | None) -> str:
    """Return a ratio with its interval, or the number of pairs."""
    if ratio is None:
        return NOT_YET
    pairs = f"{ratio.pairs} pair{'s' * (ratio.pairs > 1)}"
    return f"{times(ratio.median)} ({' – '.join(map(times, ratio.interval or ())) or pairs})"


def table2_parts(rows: Sequence[Row], over: str = "") -> Iterator[Part]:
    """View Table 2 side by side, with notes."""
    for protocol in PROTOCOLS:
        header, *of_models = table2(rows, protocol)
        yield Table(header, of_models, caption=f"{TITLES[protocol]}: {FEDERATIONS}.")
    yield Sentences(list(_notes(rows, over)))


def took(form: Took | None) -> str:
    """Return a literal form's seconds with their range."""
    if form is None or form.runs:
        return spread(form.runs if form else None)
    return f"{seconds(form.low)} – {seconds(form.high)}".replace(" ", "\N{NO-BREAK SPACE}")


def _took(form: Took | None) -> str:
    return NOT_YET if form is None else took(form) + " ‡" * bool(form.basis)


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
    for basis in dict.fromkeys(form.basis for row in rows for form in (row.printed, row.at_once) if form):
        if basis:
            yield f"‡ From and to, by what each iteration took in runs with {basis}. It did not run whole."


def unjudged(findings: Sequence[Finding]) -> Iterator[Table]:
    """View why checks could not be judged."""
    keys = [
        (finding.reason, finding.check.key) for finding in findings if finding.status is Status.NOT_JUDGED
    ]
    numbers, first = Counter(reason for reason, _ in keys), dict(reversed(keys))
    if keys:
        yield Table(
            ["not judged, because", "checks", "for example"],
            [[reason, str(number), first[reason]] for reason, number in numbers.items()],
        )


def counts(findings: Sequence[Finding]) -> str:
    """Return the number of checks by status, in words."""
    numbers = Counter(finding.status for finding in findings)
    of = Counter(finding.status for finding in findings if finding.check.key.startswith("ratio.table2."))
    return (
        f"{len(findings):,} checks: {numbers[Status.PASSED]:,} passed, "
        f"{numbers[Status.EXPLAINED]:,} deviate as explained, {numbers[Status.FAILED]:,} failed, "
        f"{numbers[Status.NOT_JUDGED]:,} could not be judged. "
        f"Of Table 2's {of.total()} times {of[Status.PASSED]} hold, {of[Status.EXPLAINED]} fail with an "
        f"experiment as the reason, {of[Status.FAILED]} fail without, {of[Status.NOT_JUDGED]} are {NOT_YET}"
    )


def by_kind(findings: Sequence[Finding]) -> Table:
    """View the number of checks by kind and status."""
    numbers = Counter((finding.check.kind, finding.status) for finding in findings)
    kinds = dict.fromkeys(kind for kind, _ in numbers)
    return Table(
        ["checks", *map(str, Status)],
        [[KINDS[kind], *(str(numbers[kind, status]) for status in Status)] for kind in kinds],
    )


_MEANING = (
    "One: what one more threshold costs, between the fewest and the most, repetition by repetition (least – "
    "most). Bend: its cost between the two largest numbers over that between the two least: 1 if all cost "
    "the same; rounds: of one more, likewise. All 1,001: where lines of all these slopes lead."
)


def iterations(cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    """View the cost of a threshold in literal cells."""
    by_rest: dict[object, dict[int, list[Sample]]] = {}
    for runs in cells:
        cell, good = runs[-1].cell, [run for run in runs if run.status == OK]
        if literal_of(cell) and "thresholds" in cell and good:
            rest = cell_key({name: level for name, level in cell.items() if name != "thresholds"})
            by_rest.setdefault(rest, {})[int(cell["thresholds"])] = good
    rows = [
        _row(levels[max(levels)][0].cell, sorted(levels), found)
        for levels in by_rest.values()
        if (found := slopes(levels))
    ]
    if rows:
        columns = ("one, s", "an instance, µs", "paper", "bend", "rounds", "all 1,001, s")
        yield Table(["cell", "thresholds", *columns], rows, caption=_MEANING)


def _row(cell: Mapping[str, Level], levels: Sequence[int], found: Slopes) -> list[str]:
    records, paper = int(cell["records"]), privfairfl()
    printed = paper.table2.get((str(cell["security"]), str(cell.get("shape")), "pi_roc"))
    of_paper = printed and printed.seconds / paper.thresholds / records
    low, high = found.whole
    return [
        name_of(cell, "thresholds"),
        ", ".join(map(str, levels)),
        spread(Summary(len(found.each), median(found.each), min(found.each), max(found.each))),
        seconds(median(found.each) / records * 1e6),
        seconds(of_paper * 1e6) if of_paper else "–",
        f"{found.bend:.2f}" if found.bend is not None else "–",
        " / ".join(f"{rounds:,.0f}" for rounds in found.rounds),
        "it ran" if levels[-1] >= paper.thresholds else f"{seconds(low)} – {seconds(high)}",
    ]
