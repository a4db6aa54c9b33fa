"""What a threshold costs in the literal Protocol 4, from runs with some, beside the paper's figure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.literal import literal_of
from benchmarks.measure.samples import OK, Level, Sample, Summary, cell_key, name_of
from benchmarks.papers import privfairfl
from benchmarks.validation.side_by_side import Slopes, slopes
from benchmarks.validation.texts import seconds as shown, spread
from harness.views.parts import Part, Table

_MEANING = (
    "One: what one more threshold costs, between the fewest and the most, repetition by repetition (least – "
    "most). Bend: its cost between the two largest numbers over that between the two least: 1 if all cost "
    "the same; rounds: of one more, likewise. All 1,001: where lines of all these slopes lead."
)


def view(cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    """View what a threshold costs in each literal cell that was run with several numbers of them."""
    by_rest: dict[object, dict[int, list[Sample]]] = {}
    for runs in cells:
        cell, good = runs[-1].cell, [run for run in runs if run.status == OK]
        if literal_of(cell) and "thresholds" in cell and good:
            rest = cell_key({name: level for name, level in cell.items() if name != "thresholds"})
            by_rest.setdefault(rest, {})[int(cell["thresholds"])] = good
    rows = []
    for levels in by_rest.values():
        if found := slopes(levels):
            rows.append(_row(levels[max(levels)][0].cell, sorted(levels), found))
    columns = ["cell", "thresholds", "one, s", "an instance, µs", "paper", "bend", "rounds", "all 1,001, s"]
    if rows:
        yield Table(columns, rows, caption=_MEANING)


def _row(cell: Mapping[str, Level], levels: Sequence[int], found: Slopes) -> list[str]:
    records, paper = int(cell["records"]), privfairfl()
    printed = paper.table2.get((str(cell["security"]), str(cell.get("shape")), "pi_roc"))
    of_paper = printed and printed.seconds / paper.thresholds / records
    low, high = found.whole
    return [
        name_of(cell, "thresholds"),
        ", ".join(map(str, levels)),
        spread(Summary(len(found.each), median(found.each), min(found.each), max(found.each))),
        shown(median(found.each) / records * 1e6),
        shown(of_paper * 1e6) if of_paper else "–",
        f"{found.bend:.2f}" if found.bend is not None else "–",
        " / ".join(f"{rounds:,.0f}" for rounds in found.rounds),
        "it ran" if levels[-1] >= paper.thresholds else f"{shown(low)} – {shown(high)}",
    ]
