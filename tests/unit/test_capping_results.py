"""The study of caps that the repository carries: it is what the code gives, and README has its numbers."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from benchmarks.reproduce.capping.claims import claims
from benchmarks.reproduce.capping.population import zipf
from benchmarks.reproduce.capping.report import BOUNDS, ERRORS, PRICE, RESULT
from benchmarks.reproduce.capping.study import SEED, study
from benchmarks.results import ABOUT
from harness.chosen_cap import CAP_SHARE
from tests.conftest import PROJECT

RESULTS = PROJECT / "benchmarks" / "results" / "reproduce-capping"
README = PROJECT / "benchmarks" / "README.md"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RESULTS / RESULT).read_text(encoding="utf-8"))
    return read


def recorded_errors() -> list[dict[str, str]]:
    with (RESULTS / ERRORS).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_results_are_whole(found: dict[str, Any]) -> None:
    names = [each["name"] for each in found["populations"]]
    synthetic = [
        f"Zipf {law}, {size} clients" for law in ("1.5", "2") for size in ("1,000", "10,000", "100,000")
    ]
    assert names == [*synthetic, "MovieLens 100K"]
    figures = [name for name in (path.name for path in RESULTS.iterdir()) if name.startswith("errors-")]
    assert len(figures) == len(names)
    assert {path.name for path in RESULTS.iterdir()} == {ABOUT, RESULT, ERRORS, BOUNDS, PRICE, *figures}
    assert found["claims"] == [claim.to_json() for claim in claims()]
    assert found["populations"][-1]["clients"] == 943 and found["populations"][-1]["records"] == 100_000


def test_a_population_computed_again_is_the_same(found: dict[str, Any]) -> None:
    again = study([zipf(1000, 2.0, SEED)])
    name = again.found[0].population.name
    recorded = [row for row in found["choices"] if row["population"] == name]
    for row, now in zip(recorded, again.rows(), strict=True):
        for key, value in now.items():
            assert row[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-3)), key
    errors = [row for row in recorded_errors() if row["population"] == name]
    for each, then in zip(again.errors(), errors, strict=True):
        assert [each[key] for key in ("epsilon", "quantity")] == [then["epsilon"], then["quantity"]]
        for key in ("cap", "noise", "bias", "total"):
            assert each[key] == pytest.approx(float(then[key]), rel=1e-3)
    theorem = again.to_json()["theorem_1"]
    assert [each["bias"] for each in theorem] == [each["bias"] for each in found["theorem_1"]]


def rows_of_caps(found: dict[str, Any]) -> list[str]:
    """Return README's rows of MovieLens and of 10,000 synthetic clients at epsilon 1."""
    return [
        f"| {row['population']} | {row['quantity']} | {row['best_cap']:,} | {row['rule_cap']:,}, "
        f"{row['rule_regret']:.2f} | {row['pi_cap_5']:,} … {row['pi_cap_95']:,}, {row['pi_cap_regret']:.2f} "
        f"| {row['histogram_regret']:.2f} |"
        for row in found["choices"]
        if row["epsilon"] == "1" and row["population"] in ("Zipf 2, 10,000 clients", "MovieLens 100K")
    ]


def rows_of_shares(found: dict[str, Any]) -> list[str]:
    """Return README's rows: regret by the share, its worst in brackets."""
    rows = []
    for share in ("1/50", "1/20", "1/10", "1/5", "1/2"):
        cells = [
            f"{row[name]:.2f} ({row[f'{name}_worst']:.1f})"
            for quantity, aim, name in COLUMNS
            for row in found["shares"]
            if (row["quantity"], row["aim"], row["share"]) == (quantity, aim, share)
        ]
        rows.append(f"| {share} | {' | '.join(cells)} |")
    return rows


COLUMNS = (
    ("sum", 1, "pi_cap"),
    ("counts", 1, "pi_cap"),
    ("weights", 1, "pi_cap"),
    ("weights", 8, "pi_cap"),
    ("gap", 1, "pi_cap"),
    ("gap", 8, "pi_cap"),
    ("counts", 1, "histogram"),
    ("weights", 8, "histogram"),
)


def test_readme_has_the_tables(found: dict[str, Any]) -> None:
    written = README.read_text(encoding="utf-8")
    for rows in (rows_of_caps(found), rows_of_shares(found)):
        assert "\n".join(rows) in written, "\n".join(rows)


def test_the_share_in_the_tables_is_the_best(found: dict[str, Any]) -> None:
    """Of those tried, with the target that suits the quantity: in the mean, or within 1 %."""
    for quantity, aim in (("sum", 1), ("counts", 1), ("weights", 8), ("gap", 8)):
        rows = [row for row in found["shares"] if (row["quantity"], row["aim"]) == (quantity, aim)]
        chosen = next(row for row in rows if row["share"] == str(CAP_SHARE))
        assert chosen["pi_cap"] <= 1.01 * min(row["pi_cap"] for row in rows)
    for quantity in ("weights", "gap"):
        rows = [
            row for row in found["shares"] if (row["quantity"], row["share"]) == (quantity, str(CAP_SHARE))
        ]
        assert min(rows, key=lambda row: float(row["pi_cap"]))["aim"] == 8
