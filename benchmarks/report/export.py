"""Results for other people's tools: CSV and Parquet of every run, a LaTeX table, figures as PDF."""

import re
import shutil
from collections.abc import Iterator, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.figures import GRID, LEGEND_BESIDE, draw, line, shown
from benchmarks.measure.samples import (
    CONFIDENCE,
    OK,
    Sample,
    by_cell,
    interval_of_median,
    load,
    name_of,
    summary,
)
from benchmarks.report.plots import drawings
from benchmarks.validation.cells import Measured
from benchmarks.validation.side_by_side import rows
from benchmarks.validation.texts import seconds
from harness.errors import ResultFileError
from harness.security_models import MODELS
from harness.views.palette import COLOURS, MARKERS

_LATEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "π": r"$\pi$",
    "ε": r"$\varepsilon$",
    "–": "--",
}


def export(results: Path, directory: Path) -> None:
    """Write all of it into a directory that is there, beside what was measured, as it is.

    Args: results: of one experiment. Raises: ResultFileError: there are none.
    """
    samples = load(results)
    if not samples:
        raise ResultFileError(f"There are no measured runs in {results}; name what ./inv bench.run wrote.")
    runs, cells = pd.DataFrame([_row(sample) for sample in samples]), pd.DataFrame(_cells(samples))
    for name, table in (("runs", runs), ("cells", cells)):
        table.to_csv(directory / f"{name}.csv", index=False)
        table.to_parquet(directory / f"{name}.parquet", index=False)
    (directory / "table.tex").write_text(latex(samples), encoding="utf-8")
    measured = Measured.of(samples)
    drawn = [(each.name, each.drawn) for _, each in drawings(measured, rows(measured))]
    for name, figure in [("cells", medians(samples)), *drawn]:
        figure.savefig(directory / f"{name}.pdf", metadata={"CreationDate": None})
    shutil.copytree(results, directory / "measured")


def _row(sample: Sample) -> dict[str, Any]:
    """Return a run as a row; a value of each party has a column of its own."""
    network = sample.network or {}
    flat: dict[str, Any] = {
        **sample.cell,
        **{name: getattr(sample, name) for name in ("suite", "repetition", "warm_up", "status", "reason")},
        **{name: time for name, time in sample.times.items() if name != "party_mpc_s"},
        "rounds": sample.rounds,
        **{name: network.get(name) for name in ("measured_rtt_s", "measured_bandwidth_bits_per_s")},
        "hosts": " ".join(str(host["name"]) for host in sample.hosts),
        **{name: getattr(sample, name) for name in ("time", "program_hash", "engine", "engine_version")},
        "compile_options": " ".join(sample.compile_options),
    }
    for name, values in (
        ("mpc_s", sample.times["party_mpc_s"] or ()),
        ("sent_bytes", sample.sent_bytes),
        ("peak_memory_bytes", sample.peak_memory_bytes),
    ):
        flat |= {f"{name}_{party}": value for party, value in enumerate(values)}
    return flat


def _cells(samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """Yield each cell's median, with the interval that holds it at 95 %, where there are enough runs."""
    for of in by_cell(samples).values():
        if found := summary(of):
            times = [run.times["mpc_s"] for run in of if run.status == OK]
            low, high = interval_of_median(times, CONFIDENCE) or (None, None)
            figures = {"runs": found.n, "median_s": found.median, "least_s": found.low, "most_s": found.high}
            yield {**of[-1].cell, **figures, "interval_low_s": low, "interval_high_s": high}


def latex(samples: Sequence[Sample]) -> str:
    """Return a `tabular` of median seconds, a column for each model; it takes no package of LaTeX's."""
    by_row = _by_row(samples)
    models = [name for name in MODELS if any(name in row for row in by_row.values())]
    table: list[list[str | float | None]] = [["", *models]]
    table += [[name, *(of.get(model) for model in models)] for name, of in by_row.items()]
    first, *rest = [" & ".join([_escaped(value) for value in row]) + r" \\" for row in table]
    lines = [
        "% Median seconds in the computation; \\input this file. A row has a cell's other levels.",
        f"\\begin{{tabular}}{{l{'r' * len(models)}}}",
        *("\\hline", first, "\\hline", *rest, "\\hline"),
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _by_row(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Return medians by model, by the name of the rest of the cell."""
    found: dict[str, dict[str, float]] = {}
    for of in by_cell(samples).values():
        if took := summary(of):
            found.setdefault(name_of(of[-1].cell, "model"), {})[str(of[-1].cell["model"])] = took.median
    return found


def _escaped(value: str | float | None) -> str:
    text = "--" if value is None else seconds(value) if isinstance(value, float) else value
    return re.sub(r"[&%$#_{}~^\\πε–]", lambda match: _LATEX[match[0]], text)


def medians(samples: Sequence[Sample]) -> Figure:
    """Draw each cell's median seconds, by model."""
    by_row = _by_row(samples)
    marks = []
    for model, colour, marker in zip(MODELS, COLOURS, MARKERS, strict=False):
        at = {i: row[model] for i, row in enumerate(by_row.values()) if model in row}
        if at:
            marks.append(line(list(at.values()), list(at), marker, color=colour, label=model))
    frame = shown(xscale="log", ylim=(len(by_row) - 0.5, -0.5))
    names = methodcaller("set_yticks", range(len(by_row)), list(by_row), fontsize="small")
    inches = (9.0, 1.2 + 0.22 * len(by_row))
    return draw([[[*marks, frame, names, GRID, LEGEND_BESIDE]]], inches, x="seconds in the computation")
