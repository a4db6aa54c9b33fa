"""The findings of a study, for people, programs and files."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from msgspec import to_builtins

from benchmarks.measure.samples import ABOUT, SAMPLES
from fairshares.harness.pipeline.manifest_of_run import environment
from fairshares.harness.system.result_files import write_json
from fairshares.harness.views.parts import Table, View

SUMMARY = "summary.csv"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class StudyResult:
    """A study's results, in all forms in which they are shown and kept.

    Args:
        about: Fields of `about.json`.
        json: The value that `--json` prints.
        view: The tables and sentences that the terminal shows.
        samples: The lines of `samples.jsonl`; without any there is no such file.
        tables: The content of each file of comma-separated values, by its name.
        result: The name of a file with what `--json` prints; empty for none.
        figures: The function that draws each picture, by the name of the picture's file.
        dpi: The pictures' dots per inch.
    """

    about: Row
    json: Any
    view: View
    samples: Iterable[Row] = ()
    tables: Mapping[str, Sequence[Row] | pd.DataFrame] = field(default_factory=dict)
    result: str = ""
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    dpi: int = 110

    def write(self, directory: Path, command: str, seconds: float) -> None:
        """Write all files into an empty directory."""
        about = {"schema": 1, "command": command, **self.about}
        write_json(
            directory / ABOUT,
            about | {"wall_s": round(seconds, 1), "environment": to_builtins(environment())},
        )
        if self.result:
            write_json(directory / self.result, self.json)
        lines = [json.dumps(sample, allow_nan=False) + "\n" for sample in self.samples]
        if lines:
            (directory / SAMPLES).write_text("".join(lines), encoding="utf-8")
        for name, rows in self.tables.items():
            pd.DataFrame(rows, dtype=object).to_csv(directory / name, index=False, lineterminator="\n")
        for name, draw in self.figures.items():
            draw().savefig(directory / name, dpi=self.dpi)


def grouped(columns: Sequence[str], rows: Iterable[Sequence[str]], by: int = 1, **more: Any) -> Table:
    """Return a table in which neighboring rows with equal first columns show these columns once.

    Args:
        columns: The names of the columns.
        rows: The rows. An empty row, which is a rule, goes between those with different first columns.
        by: How many columns are first columns.
        more: Further arguments of `Table`.
    """
    lines: list[Sequence[str]] = []
    for _, alike in groupby(rows, key=lambda row: tuple(row[:by])):
        first, *others = alike
        if lines:
            lines.append([])
        lines.append(first)
        for row in others:
            lines.append([*[""] * by, *row[by:]])
    return Table(columns, lines, **more)


def rounded(value: float, digits: int = 5) -> float:
    """Return the value, rounded to this number of significant digits."""
    return float(f"{value:.{digits}g}")
