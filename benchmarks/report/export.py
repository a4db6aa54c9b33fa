"""Results as figures and as files for other tools."""

import shutil
from collections.abc import Iterator, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.figures import (
    GRID,
    LEGEND_BESIDE,
    LOGARITHMIC,
    Mark,
    Panel,
    draw,
    level,
    line,
    note,
    shown,
)
from benchmarks.literal import FORMS
from benchmarks.measure.samples import Sample, Summary, by_cell, load, model_name, name_of, summary
from benchmarks.papers import FigureClaim, privfairfl
from benchmarks.report.tables import latex_table, table_of_cells, table_of_runs
from benchmarks.validation.cells import CellRuns, Measured
from benchmarks.validation.side_by_side import (
    AT_ONCE,
    PRINTED,
    PROTOCOLS,
    Row,
    Took,
    cells_of_figure,
    table2_rows,
)
from benchmarks.validation.texts import TITLES
from fairshares.harness.errors import ResultFileError
from fairshares.harness.request.request import DISTRIBUTED, JOINT
from fairshares.harness.views.palette import COLOURS, GREY

_SECONDS = ["seconds in the computation"]
_FORMS = {  # a line's color, marker, style and name, by variant and noise, in the legend's order
    (PRINTED, JOINT): (COLOURS[2], "D", "-", "literal"),
    (AT_ONCE, JOINT): (COLOURS[1], "s", "-", "literal, all at once"),
    ("product", JOINT): (COLOURS[3], "^", "-", "by products"),
    ("records", JOINT): (COLOURS[3], "^", "-", "ours, records counted by parties"),
    ("default", JOINT): (COLOURS[0], "o", "-", "ours"),
    ("default", DISTRIBUTED): (COLOURS[0], "o", "--", "ours, distributed noise"),
}


def drawings(measured: Measured, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    """Yield Table 2 for ADS, and the paper's figures, where there are runs."""
    figures = {name: growth_figure(measured, claim) for name, claim in privfairfl().figures.items()}
    for name, drawn in {"table2": table2_figure(rows), **figures}.items():
        if drawn is not None:
            yield name, drawn


# Each returns None where nothing that it shows was measured.


def table2_figure(rows: Sequence[Row]) -> Figure | None:
    """Draw the seconds of Table 2 for ADS."""
    if not any(row.printed or row.at_once or row.default for row in rows):
        return None
    panels = []
    for protocol in PROTOCOLS:
        rows_of_ads = [row for row in rows if row.protocol == protocol and row.shape == "ads"]
        panels.append([_table2(protocol, rows_of_ads)])
    return draw(panels, (5.5, 6.8), x=_SECONDS[0], legend_columns=2)  # as wide as a phone can show


def _table2(protocol: str, rows: Sequence[Row]) -> Panel:
    marks: list[Mark] = []
    for y, row in enumerate(rows):
        marks.append(level(y, color=GREY, alpha=0.25, linewidth=0.8))
        if not row.beside:
            marks.append(line(row.paper.seconds, y, "kx", markersize=8, label="PrivFairFL"))
        marks += _literal(row.printed, y, "D", color=COLOURS[2], label="literal, run here")
        marks += _literal(row.at_once, y, "s", color=COLOURS[1], label="all instances at once")
        marks += _timed(row.default, y, "o", color=COLOURS[0], label="ours")
        marks += _timed(
            row.own,
            y,
            "o",
            color=COLOURS[0],
            label="ours, distributed noise",
            markerfacecolor="none",
        )
    marks += [
        shown(xscale="log", ylim=(len(rows) - 0.5, -0.5)),
        methodcaller("set_yticks", range(len(rows)), [row.model for row in rows]),
        methodcaller("tick_params", axis="y", length=0),
        methodcaller("set_title", TITLES[protocol], loc="left"),
        GRID,
    ]
    return marks


def _timed(found: Summary | None, y: float, marker: str, color: str, **style: Any) -> list[Mark]:
    if found is None:
        return []
    span = line([found.low, found.high], [y, y], color=color, linewidth=2.5, alpha=0.5)
    return [span, line(found.median, y, marker, color=color, **style)]


def _literal(form: Took | None, y: float, marker: str, color: str, label: str) -> list[Mark]:
    if form is None:
        return []
    if form.runs:
        return _timed(form.runs, y, marker, color=color, label=label)
    ends = [form.low, form.high]
    return [line(ends, [y, y], color=color, marker=marker, markerfacecolor="none", label=label)]


def growth_figure(measured: Measured, claim: FigureClaim) -> Figure | None:
    """Draw seconds against a factor, with a line for each form, and the paper's claim."""
    cells = cells_of_figure(measured, claim)
    if not cells:
        return None
    marks: list[Mark] = []
    for (variant, noise), (color, marker, style, name) in _FORMS.items():
        of_form = [cell for cell in cells if cell["variant"] == variant and cell["noise"] == noise]
        also = ("records",) if claim.factor == "clients" else ()
        for series in measured.series(claim.factor, of_form, also):
            label = name
            thresholds = series[0]["thresholds"]
            if variant in FORMS and thresholds:
                label += f", {thresholds} thresholds"
            face = "none" if noise == DISTRIBUTED else color
            signs = {"color": color, "marker": marker, "linestyle": style, "markerfacecolor": face}
            marks.append(_points(series, claim.factor, label=label, **signs))
    marks += _claimed(claim)
    marks += [LOGARITHMIC, methodcaller("margins", y=0.12), GRID, LEGEND_BESIDE]
    return draw([[marks]], (7.6, 4.6), x=claim.factor, y=_SECONDS)


def _claimed(claim: FigureClaim) -> list[Mark]:
    """Draw the paper's seconds: a cross at one level, or a bar over a range of levels."""
    low, high = claim.at
    shape: dict[str, Any]
    if low == high:
        shape = {"marker": "x", "markersize": 9}
        alignment = "right"
    else:
        shape = {"linewidth": 6, "alpha": 0.5}
        alignment = "left"
    about = f"{claim.seconds:g} s"
    if claim.seconds >= 7200:
        about = f"{claim.seconds / 3600:.0f} hours"
    above = {"textcoords": "offset points", "xytext": (0, 8), "ha": alignment}
    return [
        line([low, high], [claim.seconds, claim.seconds], color=GREY, solid_capstyle="butt", **shape),
        note(f"{claim.title}: about {about}", (low, claim.seconds), color="#555555", **above),
    ]


def _points(cells: Sequence[CellRuns], factor: str, **style: Any) -> Mark:
    """Draw medians, with bars from the least to the most."""
    summaries = {}
    for cell in cells:
        summary = cell.seconds()
        if summary:
            summaries[cell.number(factor)] = summary
    middle = [summary.median for summary in summaries.values()]
    bars = [
        [summary.median - summary.low for summary in summaries.values()],
        [summary.high - summary.median for summary in summaries.values()],
    ]
    style = {"capsize": 2, "linewidth": 1.3, "markersize": 5, **style}
    return methodcaller("errorbar", list(summaries), middle, yerr=bars, **style)


def export(results: Path, directory: Path) -> None:
    """Write tables, figures and the measured runs of an experiment into a directory.

    Raises:
        ResultFileError: There are no runs, or something else is in their place.
    """
    samples = load(results)
    if not samples:
        raise ResultFileError(f"There are no measured runs in {results}; name what ./inv bench.run wrote.")
    cells = list(by_cell(samples).values())
    for name, table in (("runs", table_of_runs(samples)), ("cells", table_of_cells(cells))):
        table.to_csv(directory / f"{name}.csv", index=False)
        duckdb.from_df(table).write_parquet(str(directory / f"{name}.parquet"))
    (directory / "table.tex").write_text(latex_table(cells), encoding="utf-8")
    measured = Measured.from_samples(samples)
    for name, figure in [("cells", _bars(samples)), *drawings(measured, table2_rows(measured))]:
        figure.savefig(directory / f"{name}.pdf", bbox_inches="tight")
    shutil.copytree(results, directory / "measured")


def _bars(samples: Sequence[Sample]) -> Figure:
    """Draw the median seconds of each cell, by model."""
    medians: dict[str, dict[str, float]] = {}
    for runs in by_cell(samples).values():
        found = summary(runs)
        if found is not None:
            cell = runs[-1].cell
            name = name_of(cell, "security", "machine")
            medians.setdefault(model_name(cell), {})[name] = found.median
    table = pd.DataFrame(medians)
    bars = Figure(figsize=(9, 1 + len(table)))
    if len(table):
        table.plot.barh(logx=True, xlabel=_SECONDS[0], ax=bars.subplots())
    return bars
