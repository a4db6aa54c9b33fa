"""The loader of MovieLens: both versions' layouts, and files that are not of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.studies.capping.population import movielens
from data.movielens import load_movielens
from harness.errors import DataSetError

ML_1M = {
    "ratings.dat": "1::1193::5::978300760\n1::661::3::978302109\n2::661::4::978302109\n",
    "users.dat": "1::F::1::10::48067\n2::M::56::16::70072-1234\n3::F::25::15::55117\n",
}
ML_100K = {
    "u.data": "1\t1193\t5\t978300760\n1\t661\t3\t978302109\n2\t661\t4\t978302109\n",
    "u.user": "1|24|F|technician|85711\n2|53|M|other|T8H1N\n3|23|F|writer|32067\n",
}


def written(files: dict[str, str], directory: Path) -> Path:
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


@pytest.mark.parametrize(("files", "name"), [(ML_1M, "MovieLens 1M"), (ML_100K, "MovieLens 100K")])
def test_ratings_are_read(files: dict[str, str], name: str, tmp_path: Path) -> None:
    found = load_movielens(written(files, tmp_path))
    assert (found.name, found.whole) == (name, False)
    assert found.table.to_dict("list") == {
        "user": ["1", "1", "2"],
        "gender": ["F", "F", "M"],
        "liked": [1, 0, 1],
    }
    population = movielens(tmp_path)
    assert population.name == f"{name}, in part"
    assert population.group.tolist() == [0, 1] and population.records.tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ratings.dat", "1::1193::5\n"),
        ("ratings.dat", "1::1193::6::978300760\n"),
        ("ratings.dat", "9::1193::5::978300760\n"),
        ("ratings.dat", "1::1193::5::978300760\n1,1193,5,978300760,0,0\n"),
        ("ratings.dat", ""),
        ("users.dat", "1::X::1::10::48067\n2::M::56::16::70072\n"),
        ("users.dat", "1::F::1::10::48067\n1::F::1::10::48067\n2::M::56::16::70072\n"),
        ("users.dat", "userId,gender\n1,F\n2,M\n"),
    ],
)
def test_other_files_are_refused(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(DataSetError, match=rf"{name} is not laid out as MovieLens' is"):
        load_movielens(written({**ML_1M, name: text}, tmp_path))


@pytest.mark.parametrize(("name", "of_the_other"), [("ratings.dat", "u.data"), ("u.data", "ratings.dat")])
def test_ratings_of_the_other_version_are_refused(name: str, of_the_other: str, tmp_path: Path) -> None:
    """Else its users would get the genders of this one's."""
    both = {**ML_1M, **ML_100K}
    users = "users.dat" if name == "ratings.dat" else "u.user"
    written({name: both[of_the_other], users: both[users]}, tmp_path)
    with pytest.raises(DataSetError, match=rf"{name} is not laid out"):
        load_movielens(tmp_path)


@pytest.mark.parametrize("lacking", ["ratings.dat", "users.dat"])
def test_a_directory_without_them_is_refused(lacking: str, tmp_path: Path) -> None:
    written({name: text for name, text in ML_1M.items() if name != lacking}, tmp_path)
    with pytest.raises(DataSetError, match=r"has neither ratings\.dat and users\.dat"):
        load_movielens(tmp_path)
