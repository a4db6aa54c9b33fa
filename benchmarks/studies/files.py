"""Writes what a simulated suite found: raw samples, tables, and what they are of."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure.samples import ABOUT, SAMPLES
from harness.pipeline.manifest import environment

SUMMARY = "summary.csv"
SCHEMA = 1


def write_samples(directory: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON line each."""
    with (directory / SAMPLES).open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, allow_nan=False) + "\n")


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV file; all rows have the first one's columns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def write_about(directory: Path, command: str, seconds: float, fields: Mapping[str, Any]) -> None:
    """Write the command, what the suite has to say of itself, how long it took, and the machine."""
    about = {
        "schema": SCHEMA,
        "command": command,
        **fields,
        "wall_s": round(seconds, 1),
        "environment": environment(),
    }
    text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    (directory / ABOUT).write_text(text, encoding="utf-8")


def rounded(value: float, digits: int = 5) -> float:
    """Return the value to so many significant digits."""
    return float(f"{value:.{digits}g}")
