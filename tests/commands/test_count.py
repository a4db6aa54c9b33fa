"""`./inv count`, as a user meets it."""

import json
from pathlib import Path

import pytest

from tests.support.command import succeed

RECORDS = "client_id,group,label\n" + "".join(f"c{i % 40},{'ab'[i % 5 == 0]},{i % 2}\n" for i in range(2000))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "records.csv").write_text(RECORDS)
    return tmp_path


def test_counts_and_what_they_protect(directory: Path) -> None:
    options = "--records records.csv --epsilon 1 --error-to 2000 --domain domain.json --out found"
    domain = {"groups": ["a", "b", "c"], "labels": ["0", "1"], "max_count": 100}
    (directory / "domain.json").write_text(json.dumps(domain))
    said = succeed("count", *options.split(), cwd=directory)
    found = json.loads((directory / "found" / "count.json").read_text())
    truth = [[800, 800], [200, 200], [0, 0]]
    for row, bounds, counts in zip(found["counts"], found["counts_interval"], truth, strict=True):
        for estimate, (low, high), count in zip(row, bounds, counts, strict=True):
            assert 0 <= low <= estimate <= high <= 2000
            assert abs(estimate - count) < 3 * count + 100  # far beyond the expected error
    privacy = json.loads((directory / "found" / "manifest.json").read_text())["privacy"]
    assert privacy["epsilon_requested"] == "1"  # of which this error takes less
    by_size = found["privacy_by_size"]
    assert [each["records"] for each in by_size] == [0, 10, 100, 1000]
    assert by_size[0]["epsilon"] == privacy["epsilon"] < 0.9 and by_size[0]["delta"] == privacy["delta"]
    assert by_size[-1]["epsilon"] < privacy["epsilon"] / 10
    assert "records in a cell" in said and "charged the ε of the smallest" in said
