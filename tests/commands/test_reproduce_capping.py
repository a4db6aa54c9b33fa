"""`reproduce capping` as a user runs it."""

from pathlib import Path

from benchmarks.measure.samples import ABOUT
from benchmarks.studies.capping.study import BOUNDS, ERRORS, PRICE, RESULT, TARGETS
from tests.support.command import files_below, read_json, succeed


def some_of_movielens(directory: Path) -> Path:
    """Write made-up ratings in MovieLens' layout: a few users with many, and many with few."""
    directory.mkdir()
    users = [f"{user}::{'FM'[user % 2]}::25::4::00000" for user in range(1, 101)]
    films = [(user, film) for user in range(1, 101) for film in range(2 + 300 // user)]
    (directory / "users.dat").write_text("\n".join(users))
    (directory / "ratings.dat").write_text(
        "\n".join(f"{user}::{film}::{1 + (user * film) % 5}::0" for user, film in films)
    )
    return directory


def test_tables_and_pictures(tmp_path: Path) -> None:
    some_of_movielens(tmp_path / "ml-1m")
    options = ["--clients", "200", "--exponents", "2", "--movielens", "ml-1m", "--out", "found"]
    said = " ".join(succeed("reproduce", "capping", *options, cwd=tmp_path).split())
    directory = tmp_path / "found"
    found = read_json(directory / RESULT)
    drawn = ("zipf-2-200-clients", "movielens-1m-in-part")
    figures = {BOUNDS, PRICE, TARGETS, *(f"{kind}-{of}.png" for kind in ("errors", "curves") for of in drawn)}
    assert files_below(directory) == {ABOUT, RESULT, ERRORS, *figures}
    assert [each["clients"] for each in found["populations"]] == [200, 100]
    assert len(found["choices"]) == 2 * 4 * 7  # settings, quantities
    for row in found["choices"]:
        assert row["rule_regret"] >= 1 and row["pi_cap_regret"] > 0.8  # which of curves is simulated
    assert "What the paper states" in said and "it is not private" in said
