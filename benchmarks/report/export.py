"""Results for other people's tools: CSV and Parquet of every run, a LaTeX table, figures as PDF."""

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
    medians, measured = medians_by_model(samples), Measured.of(samples)
    (directory / "table.tex").write_text(latex(medians), encoding="utf-8")
    for name, figure in [("cells", drawn(medians)), *drawings(measured, rows(measured))]:
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
        if timed := summary(of):
            times = [run.times["mpc_s"] for run in of if run.status == OK]
            low, high = interval_of_median(times, CONFIDENCE) or (None, None)
            figures = {"runs": timed.n, "median_s": timed.median, "least_s": timed.low, "most_s": timed.high}
            yield {**of[-1].cell, **figures, "interval_low_s": low, "interval_high_s": high}


def medians_by_model(samples: Sequence[Sample]) -> pd.DataFrame:
    """Return median seconds: a column for each model, a row for what else cells have, by its name."""
    medians: dict[str, dict[str, float]] = {model: {} for model in MODELS}
    for of in by_cell(samples).values():
        if took := summary(of):
            medians[str(of[-1].cell["security"])][name_of(of[-1].cell, "security")] = took.median
    rows = dict.fromkeys(name_of(sample.cell, "security") for sample in samples)
    return pd.DataFrame(medians, index=list(rows)).dropna(how="all").dropna(axis="columns", how="all")


def latex(medians: pd.DataFrame) -> str:
    """Return a `tabular` of median seconds, which takes no package of LaTeX's."""
    shown = medians.map(seconds, na_action="ignore").fillna("--").style
    for axis in (0, 1):
        shown = shown.format_index(escape="latex", axis=axis)
    return str(shown.to_latex(column_format="l" + "r" * len(medians.columns)))


def drawn(medians: pd.DataFrame) -> Figure:
    """Draw median seconds, by model."""
    places = range(len(medians))
    marks = [
        line(medians[model], places, marker, color=colour, label=model)
        for model, colour, marker in zip(MODELS, COLOURS, MARKERS, strict=False)
        if model in medians
    ]
    frame = shown(xscale="log", ylim=(len(medians) - 0.5, -0.5))
    names = methodcaller("set_yticks", places, list(medians.index), fontsize="small")
    inches = (9.0, 1.2 + 0.22 * len(medians))
    return draw([[[*marks, frame, names, GRID, LEGEND_BESIDE]]], inches, x="seconds in the computation")
