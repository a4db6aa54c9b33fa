"""`./inv count`, as a user meets it."""

import json
from pathlib import Path

import pytest

from tests.support.command import call, refused

RECORDS = "client_id,group,label\n" + "".join(f"c{i % 40},{'ab'[i % 5 == 0]},{i % 2}\n" for i in range(2000))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "records.csv").write_text(RECORDS)
    return tmp_path


def test_counts_and_what_they_protect(directory: Path) -> None:
    options = "--records records.csv --epsilon 1 --error-to 2000 --domain domain.json --out found"
    domain = {"groups": ["a", "b", "c"], "labels": ["0", "1"], "max_count": 100}
    (directory / "domain.json").write_text(json.dumps(domain))
    done = call("count", *options.split(), cwd=directory)
    assert done.returncode == 0, done.stderr
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
    assert "records in a cell" in done.stdout and "charged the ε of the smallest" in done.stdout


@pytest.mark.parametrize("groups", ["ab", "abcde"])
def test_more_comparisons_are_more_likely_to_fail(groups: str, directory: Path) -> None:
    """One for each cell and power of 2 between the offset and the largest count."""
    domain = {"groups": [*groups], "labels": ["0", "1"], "max_count": 100}
    (directory / "domain.json").write_text(json.dumps(domain))
    options = (
        "--records records.csv --epsilon 1 --error-to 2000 --domain domain.json --security mpyc --out found"
    )
    done = call("count", *options.split(), cwd=directory)
    assert done.returncode == 0, done.stderr
    found = json.loads((directory / "found" / "count.json").read_text())
    compared = 2 * len(groups) * sum(found["offset"] < 1 << i <= found["offset"] + 2000 for i in range(64))
    privacy = json.loads((directory / "found" / "manifest.json").read_text())["privacy"]
    bits = 61 - (compared - 1).bit_length()
    assert compared > 1 and privacy["mpc_statistical_security_bits"] == bits


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--relative-error 2", "--relative-error must be a number above 0 and at most 1"),
        ("--error-from 5000 --error-to 100", "--error-from 5000 is above --error-to 100"),
        ("--error-from 0", "--error-from must be a whole number from 1"),
        ("--error-from 3 --error-to 10", "--epsilon 1 is not enough: a relative error of 0.1 from 3 records"),
        ("--security spdz2k", "pi_count is not linear in its plain shares"),
        ("--security rep4-ring", "use --input-path replicated, or a passive model"),
    ],
)
def test_bad_options(options: str, message: str, directory: Path) -> None:
    run = ("count", "--records", "records.csv", "--epsilon", "1", *options.split())
    assert message in refused(*run, cwd=directory)
