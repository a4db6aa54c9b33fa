"""`reproduce utility` and `reproduce trust` as a user runs them: files, tables, what they refuse."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.studies.trust import IN_COMPUTATION, MODELS, PER_AGGREGATOR, PUBLISHED, REPAIRED
from benchmarks.studies.utility.curves import MEASURES, METHODS, NOISE_FREE
from tests.support.command import call, refused

QUICK = ("reproduce", "utility", "--quick", "--repetitions", "2")


def test_quick_suite(tmp_path: Path) -> None:
    done = call(*QUICK, "--out", "found", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = tmp_path / "found"
    assert sorted(path.name for path in found.iterdir()) == [
        "about.json",
        "samples.jsonl",
        "summary.csv",
        "utility-groups.png",
        "utility.png",
    ]
    shown = json.loads(done.stdout)
    with (found / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (found / "samples.jsonl").read_text().splitlines()]
    assert len(shown) == len(rows) == len(lines) == 2 * (1 + 2 * len(METHODS))
    assert {line["method"] for line in lines} == {NOISE_FREE, *METHODS}
    for line, row, summary in zip(lines, rows, shown, strict=True):
        assert all(len(line[name]) == 2 for name in MEASURES)
        middle = sum(line["gap_whole"]) / 2  # the median of two
        assert float(row["gap_whole_median"]) == summary["gap_whole_median"]
        assert summary["gap_whole_median"] == pytest.approx(middle, rel=1e-4)
        if line["method"] != NOISE_FREE:
            assert 0.9 * line["epsilon"] < line["epsilon_exact"] <= line["epsilon"]
    about = json.loads((found / "about.json").read_text())
    assert about["command"] == "./inv reproduce utility --quick --repetitions 2"
    assert set(about["neighboring_relation"].values()) == {"replace_one"}
    for name in ("utility.png", "utility-groups.png"):
        assert (found / name).read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--repetitions", "1"), "--repetitions"),
        (("--neighboring-relation", "other"), "--neighboring-relation"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], named: str, tmp_path: Path) -> None:
    assert named in refused("reproduce", "utility", "--quick", *options, "--out", "found", cwd=tmp_path)


def test_commands_of_the_suite_are_listed_and_explained(tmp_path: Path) -> None:
    listed = call("--list", cwd=tmp_path).stdout
    assert "reproduce" in listed
    assert "weights" in listed
    assert "--repetitions" in call("--help", "reproduce", cwd=tmp_path).stdout


def test_trust_models_quickly(tmp_path: Path) -> None:
    done = call(
        "reproduce", "trust", "--quick", "--repetitions", "200", "--out", "found", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = tmp_path / "found"
    files = ["about.json", "clients.csv", "samples.jsonl", "summary.csv", "trust.png"]
    assert sorted(path.name for path in found.iterdir()) == files
    shown = json.loads(done.stdout)
    assert [len(shown["errors"]), len(shown["clients"])] == [3 * len(MODELS), len(MODELS)]
    lines = [json.loads(line) for line in (found / "samples.jsonl").read_text().splitlines()]
    for line, summary in zip(lines, shown["errors"], strict=True):
        assert len(line["errors"]) == 200 and line["security"] == summary["security"]
        assert summary["epsilon_exact"] <= 1 or line["security"] == PUBLISHED
    needed = {row["security"]: row["clients_proven"] for row in shown["clients"]}
    assert needed[IN_COMPUTATION] < needed[PER_AGGREGATOR] < needed[REPAIRED] / 10
    assert (
        json.loads((found / "about.json").read_text())["command"]
        == "./inv reproduce trust --quick --repetitions 200"
    )
    assert "--repetitions must be" in refused(
        "reproduce", "trust", "--quick", "--repetitions", "1", "--out", "other", cwd=tmp_path
    )
