"""The trust results that the repository carries are whole, and the table of them is what they say."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from benchmarks.studies.trust.models import MODELS
from benchmarks.studies.trust.report import NEEDED
from benchmarks.studies.trust.study import Setting
from tests.conftest import PROJECT

RESULTS = PROJECT / "benchmarks" / "results" / "trust"
README = (PROJECT / "benchmarks" / "README.md").read_text(encoding="utf-8")
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def rows(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_results_are_of_the_whole_suite() -> None:
    lines = [json.loads(line) for line in (RESULTS / "samples.jsonl").read_text().splitlines()]
    suite, summary = Setting(), rows("summary.csv")
    of_models = len(suite.epsilons) * len(MODELS)
    assert len(lines) == len(summary) == of_models * len(suite.clients)
    assert len(rows(NEEDED)) == of_models * len(suite.errors)
    runs = json.loads((RESULTS / "about.json").read_text())["runs"]
    for line, row in zip(lines, summary, strict=True):
        assert [line["model"], str(line["clients"])] == [row["model"], row["clients"]]
        errors = np.abs(line["errors"])
        assert len(errors) == runs
        assert float(row["simulated_99"]) == pytest.approx(np.quantile(errors, 0.99), rel=0.005)
        if row["bound_99"]:  # exceeded in 1 % of runs at most: by 10^-9, in fewer than 4 %
            assert np.mean(errors > float(row["bound_99"])) < 0.04


def test_the_table_is_the_results() -> None:
    lines = README[README.index("| ε | model | its ε |") :].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]]
    found = iter(rows(NEEDED))
    assert len(cells) == len(Setting().epsilons) * len(MODELS)
    for epsilon, model, exact, *numbers in cells:
        for proven, simulated in zip(numbers[::2], numbers[1::2], strict=True):
            row = next(found)
            assert (row["model"], float(row["epsilon"])) == (model, float(epsilon))
            assert float(exact) == pytest.approx(float(row["epsilon_exact"]), rel=1e-3)
            for shown, column in ((proven, "clients_proven"), (simulated, "clients_simulated")):
                number = float(shown.replace(",", "").translate(SUPERSCRIPTS).replace("·10", "e"))
                assert number == pytest.approx(int(row[column]), rel=0.005)
