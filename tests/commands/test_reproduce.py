"""`reproduce.gaps` as a user runs it: its files, its tables, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import call, refused


def test_quick_reproduction(tmp_path: Path) -> None:
    done = call("reproduce.gaps", "--quick", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == [
        "about.json",
        "figure-1.png",
        "figure-2.png",
        "figure-3.png",
        "figure-4.png",
        "gaps.json",
    ]
    shown = json.loads((tmp_path / "found" / "gaps.json").read_text())
    assert shown["population"]["source"] == "synthetic"
    assert all(cell["agrees"] for cell in shown["table1"] + shown["table2"])
    assert "SYNTHETIC" in done.stdout and "30 of 30 cells" in done.stdout
    about = json.loads((tmp_path / "found" / "about.json").read_text())
    assert about["command"] == "./inv reproduce.gaps --quick"


def test_data_that_are_not_there_are_refused(tmp_path: Path) -> None:
    assert "Cannot read absent.zip" in refused(
        "reproduce.gaps", "--data", "absent.zip", "--out", "found", cwd=tmp_path
    )
