"""`reproduce groupwise` as a user runs it."""

import json
import re
from pathlib import Path

from tests.support.command import call


def test_tables_and_picture(tmp_path: Path) -> None:
    done = call("reproduce", "groupwise", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found" / "groupwise.json").read_text())
    assert (tmp_path / "found" / "groupwise.png").stat().st_size > 10_000
    rows = found["rows"]
    assert [row["records"] for row in rows] == [10**power for power in range(7)]
    logarithm = [row["epsilon, logarithm"] for row in rows]
    assert logarithm == sorted(logarithm, reverse=True) and logarithm[-1] < logarithm[0] / 10
    for row in rows[2:]:
        assert (
            row["relative error, logarithm"] <= 0.1 and row["relative error, plain noise, same target"] <= 0.1
        )
        assert row["epsilon, plain noise, same charge"] == rows[0]["epsilon, plain noise, same charge"]
    figure = found["figure1"]  # of a million simulated outputs: 5 standard errors
    assert abs(figure["mean"] - figure["published_mean"]) < 5 * 3000 / 1000 * 1.5
    assert abs(figure["standard_deviation"] - figure["published_standard_deviation"]) < 15
    said = " ".join(done.stdout.split())
    assert "no proof beyond its first stage" in said
    for each in found["mechanisms"]:  # rounded up, as all ε that is shown
        shown = re.search(rf"{each['name']} (\d[\d.]*)[,.] ", said)
        assert shown is not None and 0 <= float(shown[1]) - each["epsilon_charged"] < 0.01
