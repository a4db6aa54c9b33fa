"""`reproduce groupwise` as a user runs it."""

from pathlib import Path

from tests.support.command import read_json, succeed


def test_tables_and_picture(tmp_path: Path) -> None:
    said = succeed("reproduce", "groupwise", "--out", "found", cwd=tmp_path)
    found = read_json(tmp_path / "found" / "groupwise.json")
    assert (tmp_path / "found" / "groupwise.png").stat().st_size > 10_000
    rows = found["rows"]
    assert [row["records"] for row in rows] == [10**power for power in range(7)]
    logarithm = [row["epsilon, logarithm"] for row in rows]
    assert logarithm == sorted(logarithm, reverse=True) and logarithm[-1] < logarithm[0] / 10
    assert all(row["relative error, logarithm"] <= 0.1 for row in rows[2:])
    figure = found["figure1"]  # of a million simulated outputs: 5 standard errors
    assert abs(figure["mean"] - figure["published_mean"]) < 5 * 3000 / 1000 * 1.5
    assert abs(figure["standard_deviation"] - figure["published_standard_deviation"]) < 15
    assert "no proof beyond its first stage" in " ".join(said.split())
