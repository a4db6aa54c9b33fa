"""A study's results, for people, programs and files."""

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
from harness.pipeline.manifests import environment
from harness.system.result_files import write_json
from harness.views.parts import Table, View

SUMMARY = "summary.csv"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A study's results."""

    about: Row  # fields of `about.json`
    json: Any  # what `--json` prints, and the file `result` holds, if that has a name
    view: View
    samples: Iterable[Row] = ()
    tables: Mapping[str, Sequence[Row] | pd.DataFrame] = field(default_factory=dict)  # by file
    result: str = ""
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)  # by file
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
        if lines := [json.dumps(sample, allow_nan=False) + "\n" for sample in self.samples]:
            (directory / SAMPLES).write_text("".join(lines), encoding="utf-8")
        for name, rows in self.tables.items():
            pd.DataFrame(rows, dtype=object).to_csv(directory / name, index=False, lineterminator="\n")
        for name, draw in self.figures.items():
            draw().savefig(directory / name, dpi=self.dpi)


def grouped(columns: Sequence[str], rows: Iterable[Sequence[str]], by: int = 1, **more: Any) -> Table:
    """Return a table between rules, with equal first columns of rows shown once."""
    lines: list[Sequence[str]] = []
    for _, (first, *others) in groupby(rows, key=lambda row: tuple(row[:by])):
        lines += [[], first, *([*[""] * by, *row[by:]] for row in others)]
    return Table(columns, lines[1:], **more)


def rounded(value: float, digits: int = 5) -> float:
    """Return the value to so many significant digits."""
    return float(f"{value:.{digits}g}")
