"""`reproduce utility` and `reproduce trust` as a user runs them: files, tables, what they refuse."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.studies.trust import IN_COMPUTATION, MODELS, PER_AGGREGATOR, PUBLISHED, REPAIRED
from benchmarks.studies.utility.curves import METHODS, NOISE_FREE
from tests.support.command import files_below, read_json, succeed

QUICK = ("reproduce", "utility", "--quick", "--repetitions", "2")


def test_quick_suite(tmp_path: Path) -> None:
    printed = succeed(*QUICK, "--out", "found", "--json", cwd=tmp_path)
    found = tmp_path / "found"
    pictures = {"utility-groups.png", "utility.png"}
    assert files_below(found) == {"about.json", "samples.jsonl", "summary.csv", *pictures}
    shown = json.loads(printed)
    with (found / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (found / "samples.jsonl").read_text().splitlines()]
    assert len(shown) == len(rows) == len(lines) == 2 * (1 + 2 * len(METHODS))
    assert {line["method"] for line in lines} == {NOISE_FREE, *METHODS}
    for line, row, summary in zip(lines, rows, shown, strict=True):
        middle = sum(line["gap_whole"]) / 2  # the median of two
        assert (
            float(row["gap_whole_median"]) == summary["gap_whole_median"] == pytest.approx(middle, rel=1e-4)
        )
        assert (
            line["method"] == NOISE_FREE or 0.9 * line["epsilon"] < line["epsilon_exact"] <= line["epsilon"]
        )
    about = read_json(found / "about.json")
    assert about["command"] == "./inv reproduce utility --quick --repetitions 2"
    assert set(about["neighboring_relation"].values()) == {"replace_one"}


def test_trust_models_quickly(tmp_path: Path) -> None:
    options = ("--quick", "--repetitions", "200", "--out", "found", "--json")
    shown = json.loads(succeed("reproduce", "trust", *options, cwd=tmp_path))
    files = {"about.json", "clients.csv", "samples.jsonl", "summary.csv", "trust.png"}
    assert files_below(tmp_path / "found") == files
    assert [len(shown["errors"]), len(shown["clients"])] == [3 * len(MODELS), len(MODELS)]
    assert all(each["epsilon_exact"] <= 1 or each["model"] == PUBLISHED for each in shown["errors"])
    needed = {row["model"]: row["clients_proven"] for row in shown["clients"]}
    assert needed[IN_COMPUTATION] < needed[PER_AGGREGATOR] < needed[REPAIRED] / 10
    about = read_json(tmp_path / "found" / "about.json")
    assert about["command"] == "./inv reproduce trust --quick --repetitions 200"
