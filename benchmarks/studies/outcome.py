"""What a study found, as people, programs and files get it; and how a command carries a study out."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.measure.samples import ABOUT, SAMPLES
from harness.cli import terminal
from harness.pipeline.manifest import environment
from harness.system.result_files import default_out, new_directory, write_json
from harness.views.parts import Table, View
from harness.views.run import results

SUMMARY = "summary.csv"
SCHEMA = 1

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a study found.

    Attributes: about: what it says of itself in `about.json`; json: all of it, as `--json` prints it; view:
    what people are shown; samples: a JSON line each, no file if there are none; tables: rows by the name of
    a CSV file, all with the first one's columns; result: the name of a JSON file with `json` in it, if there
    is one; figures: by file, each drawn when it is written; dpi: of the figures.
    """

    about: Row
    json: Any
    view: View
    samples: Iterable[Row] = ()
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    result: str = ""
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    dpi: int = 110

    def write(self, directory: Path, command: str, seconds: float) -> None:
        """Write all files, with the command, how long it took and the machine, into an empty directory."""
        about = {"schema": SCHEMA, "command": command, **self.about, "wall_s": round(seconds, 1)}
        write_json(directory / ABOUT, about | {"environment": environment()})
        if self.result:
            write_json(directory / self.result, self.json)
        if lines := [json.dumps(sample, allow_nan=False) + "\n" for sample in self.samples]:
            (directory / SAMPLES).write_text("".join(lines), encoding="utf-8")
        for name, rows in self.tables.items():
            with (directory / name).open("w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                table.writeheader()
                table.writerows(rows)
        for name, draw in self.figures.items():
            draw().savefig(directory / name, dpi=self.dpi)


def carry_out(
    task: str,
    options: str,
    steps: dict[str, str],
    study: Callable[[terminal.Steps], Outcome],
    asked: Any,
) -> None:
    """Carry a study out: write its files into a new directory, show it, and print it as JSON if asked to.

    Args: task: as it is called after `./inv`; options: as they were understood, each with a space before it;
    steps: what to call them, but the last one, which draws and writes; study: told of what begins each step
    but the first, which has begun; asked: options with `out` and `json`.
    """
    directory, started = asked.out or default_out(task), time.monotonic()
    names = {**steps, "draw": "write and draw"}
    with new_directory(directory) as partial, terminal.steps(names) as begin:
        begin(next(iter(steps)))
        found = study(begin)
        begin("draw")
        found.write(partial, f"./inv {task}{options}", time.monotonic() - started)
    terminal.show(*found.view, results(directory))
    if asked.json:
        terminal.print_json(found.json)


def grouped(columns: Sequence[str], rows: Iterable[Sequence[str]], by: int = 1, **more: Any) -> Table:
    """Return a table that says once what rows have in common, with a rule between others.

    Args: by: how many of the first columns are what rows may have in common; more: of `Table`.
    """
    found: list[Sequence[str]] = []
    for _, (first, *others) in groupby(rows, key=lambda row: tuple(row[:by])):
        found += [[], first, *([*[""] * by, *row[by:]] for row in others)]
    return Table(columns, found[1:], **more)


def rounded(value: float, digits: int = 5) -> float:
    """Return the value to so many significant digits."""
    return float(f"{value:.{digits}g}")
