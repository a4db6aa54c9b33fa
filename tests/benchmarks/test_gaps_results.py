"""The reproduction that the repository carries is whole, and what is written about it is in it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from benchmarks.measure.samples import ABOUT
from benchmarks.studies.gaps.report import FIGURES, RESULT
from benchmarks.studies.gaps.study import WHOLE
from benchmarks.studies.gaps.tables import table1
from protocols.accounting.rounding import float_up
from tests.conftest import PROJECT

RESULTS = PROJECT / "benchmarks" / "results" / "reproduce-gaps"
README = PROJECT / "benchmarks" / "README.md"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RESULTS / RESULT).read_text(encoding="utf-8"))
    return read


def epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def rows_of_table1(found: dict[str, Any]) -> list[str]:
    """Return README's rows: the cells with 10^7 clients."""
    return [
        f"| {cell['mechanism']} | {cell['alpha']:g} | {cell['published']} | {epsilon(cell['true_epsilon'])} "
        f"| {cell['repaired']:.3g} | {cell['tight']:.3g} |"
        for cell in found["table1"]
        if cell["clients"] == 10**7 and cell["published"]
    ]


def rows_of_table2(found: dict[str, Any]) -> list[str]:
    return [
        f"| {cell['mechanism']} | {cell['epsilon']} | {cell['published']['alpha']} "
        f"| {epsilon(cell['true_epsilon'])} | {cell['repaired_alpha']:.4f} | {cell['published']['error']} "
        f"| {(cell['coded'] or cell['errors'])['mean']:.2g} | {cell['repaired']['mean']:.2g} |"
        for cell in found["table2"]
    ]


def test_results_are_of_the_whole_data() -> None:
    about = json.loads((RESULTS / ABOUT).read_text(encoding="utf-8"))
    assert about["extent"] == asdict(WHOLE)
    assert about["population"]["same_as_described_in_data_README"]
    assert sorted(path.name for path in RESULTS.iterdir()) == sorted(
        [ABOUT, RESULT, *(f"{name}.png" for name in FIGURES)]
    )


def test_table1_on_record_is_that_of_today(found: dict[str, Any]) -> None:
    for cell, row in zip(table1(), found["table1"], strict=True):
        exact = None if cell.true_epsilon is None else float_up(cell.true_epsilon)
        assert (cell.mechanism, cell.clients, cell.published, exact) == (
            row["mechanism"],
            row["clients"],
            row["published"],
            row["true_epsilon"],
        )
        assert row["reproduced"] == (
            None if cell.reproduced is None else pytest.approx(cell.reproduced, 1e-4)
        )


def test_readme_has_the_tables(found: dict[str, Any]) -> None:
    written = README.read_text(encoding="utf-8")
    for rows in (rows_of_table1(found), rows_of_table2(found)):
        assert len(rows) in (5, 8) and "\n".join(rows) in written


def test_what_readme_says_is_reproduced(found: dict[str, Any]) -> None:
    assert all(row["agrees"] for row in found["table1"] + found["table2"] + found["activity"])
    assert (len(found["table1"]), len(found["table2"]), len(found["activity"])) == (30, 8, 12)
    coded = {(row["mechanism"], row["epsilon"]): row["coded"] or row["errors"] for row in found["table2"]}
    assert all(errors["fits_mean"] >= 0.01 for errors in coded.values())
    assert [key for key, errors in coded.items() if errors["fits_deviation"] < 0.01] == [("M_R", "0.01")]
    printed = {row["epsilon"]: row["errors"]["fits_mean"] for row in found["table2"] if row["coded"]}
    assert [round(printed[at], 2) for at in ("0.01", "0.10")] == [0.07, 0.04]
    activity = {row["what"]: row for row in found["activity"]}
    for name in ("accuracy", "true_positive_rate"):
        assert f"{activity[name]['found']:.2f}" == activity[name]["published"]
    assert [claim["reproduced"] for claim in found["claims"]][1:3] == [
        "0.36 to 3.53",
        "not for ε from 2.00 to 5.62",
    ]
    assert [claim["agrees"] for claim in found["claims"]] == [False, False, False, True, True, False, True]
    published, _ = found["figure4"]
    assert (round(published["empirical"][-1], 3), round(published["theory"], 3)) == (4.298, 4.297)
