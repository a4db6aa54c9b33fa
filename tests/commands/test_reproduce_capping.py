"""`reproduce capping` as a user runs it."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measure.samples import ABOUT
from benchmarks.studies.capping.study import BOUNDS, CAPS, ERRORS, PRICE, RESULT, TARGETS
from tests.support.command import call, refused


def some_of_movielens(directory: Path) -> Path:
    """Write made-up ratings in MovieLens' layout: a few users with many, and many with few."""
    directory.mkdir()
    rng = np.random.default_rng(6)
    users = [f"{user}::{'FM'[user % 2]}::25::4::00000" for user in range(1, 101)]
    ratings = [
        f"{user}::{film}::{rng.integers(1, 6)}::0"
        for user in range(1, 101)
        for film in range(2 + 300 // user)
    ]
    (directory / "users.dat").write_text("\n".join(users))
    (directory / "ratings.dat").write_text("\n".join(ratings))
    return directory


def test_tables_and_pictures(tmp_path: Path) -> None:
    some_of_movielens(tmp_path / "ml-1m")
    options = ["--clients", "200", "--exponents", "2", "--movielens", "ml-1m", "--out", "found"]
    done = call("reproduce", "capping", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    directory = tmp_path / "found"
    found = json.loads((directory / RESULT).read_text())
    drawn = ("zipf-2-200-clients", "movielens-1m-in-part")
    figures = [BOUNDS, PRICE, TARGETS, *(f"{kind}-{of}.png" for kind in ("errors", "curves") for of in drawn)]
    assert {path.name for path in directory.iterdir()} == {ABOUT, RESULT, ERRORS, *figures}
    assert all((directory / name).stat().st_size > 10_000 for name in figures)
    assert [each["clients"] for each in found["populations"]] == [200, 100]
    assert not any(each["held_out"] for each in found["populations"])
    assert len(found["choices"]) == 2 * 4 * 7  # settings, quantities
    for row in found["choices"]:
        assert row["rule_regret"] >= 1 and row["pi_cap_regret"] > 0.8  # which of curves is simulated
    with (directory / ERRORS).open() as file:
        errors = list(csv.DictReader(file))
    sums = [
        row for row in errors if (row["epsilon"], row["models"], row["quantity"]) == ("1", "passive", "sum")
    ]
    assert {int(row["cap"]) for row in sums} == set(CAPS)
    for row in sums:
        assert float(row["total"]) <= 1.001 * (float(row["noise"]) + float(row["bias"]))
    told = " ".join(done.stdout.split())
    assert "What the paper states" in told and "it is not private" in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clients", "10"], "--clients must be a whole number from 100 to 1000000; got '10'."),
        (["--exponents", "2,x"], "--exponents must be numbers from 0.5 to 4, separated by commas; got 'x'."),
        (["--clients", "100", "--movielens", "."], "has neither ratings.dat and users.dat"),
    ],
)
def test_bad_options(options: list[str], message: str, tmp_path: Path) -> None:
    assert message in refused("reproduce", "capping", *options, "--out", "found", cwd=tmp_path)
