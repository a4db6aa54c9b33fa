"""The utility results that the repository carries are whole, and what is written about them is in them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.studies.utility.measures import MEASURES
from benchmarks.studies.utility.releases import METHODS, NOISE_FREE
from benchmarks.studies.utility.study import settings
from tests.conftest import PROJECT

RESULTS = PROJECT / "benchmarks" / "results" / "utility"
README = PROJECT / "benchmarks" / "README.md"


def summary() -> list[dict[str, Any]]:
    with (RESULTS / "summary.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def tables(path: Path) -> list[list[list[str]]]:
    """Return the cells of a Markdown file's tables by records and groups, without their heads."""
    found: list[list[list[str]]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [table[2:] for table in found if table and table[0][:2] == ["records", "groups"]]


def test_results_are_of_the_whole_suite() -> None:
    lines = [json.loads(line) for line in (RESULTS / "samples.jsonl").read_text().splitlines()]
    suite = settings(quick=False)
    assert len(lines) == len(summary()) == sum(1 + len(each.epsilons) * len(METHODS) for each in suite)
    repetitions = json.loads((RESULTS / "about.json").read_text())["repetitions"]
    for line, row in zip(lines, summary(), strict=True):
        assert all(len(line[name]) == repetitions for name in MEASURES)
        assert float(row["tpr_rmse_median"]) == pytest.approx(np.median(line["tpr_rmse"]), rel=1e-4)


@pytest.mark.parametrize(("table", "measure"), [(0, "tpr_rmse"), (1, "gap_whole")])
def test_tables_are_the_results(table: int, measure: str) -> None:
    at_one = [row for row in summary() if row["epsilon"] in ("1.0", "")]
    of_settings = [at_one[first : first + 5] for first in range(0, len(at_one), 5)]
    written = tables(README)[table]
    assert len(written) == len(of_settings) == len(settings(quick=False))
    for cells, rows in zip(written, of_settings, strict=True):
        assert cells[:2] == [
            cells[0] if "loan" in cells[0] else f"{int(rows[0]['records']):,}",
            rows[0]["groups"],
        ]
        medians = {row["method"]: f"{float(row[f'{measure}_median']):.2g}" for row in rows}
        assert cells[2:] == [medians[method] for method in (*METHODS, NOISE_FREE)]
