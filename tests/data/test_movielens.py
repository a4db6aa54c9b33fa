"""The loader of MovieLens: both versions' layouts, and files that are not of them."""

from pathlib import Path

import pytest

from benchmarks.studies.capping.errors import movielens
from fairshares.data.movielens import load_movielens
from fairshares.harness.errors import DataSetError

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
    ratings = load_movielens(written(files, tmp_path))
    assert (ratings.name, ratings.whole) == (name, False)
    assert ratings.table.to_dict("list") == {
        "user": ["1", "1", "2"],
        "gender": ["F", "F", "M"],
        "liked": [1, 0, 1],
    }
    population = movielens(tmp_path)
    assert population.name == f"{name}, in part"
    assert population.group.tolist() == [0, 1] and population.records.tolist() == [[1, 1], [0, 1]]


FILMS_1M = "661::James and the Giant Peach (1996)::Animation|Children's|Musical\n1193::Nest::Drama\n"
FILMS_100K = (
    f"661|James and the Giant Peach (1996)|a||b|{'|'.join('0001100000001000000')}\n"
    f"1193|Nest||||{'|'.join('0000000010000000000')}\n"
)


@pytest.mark.parametrize(
    ("files", "ages"),
    [(ML_1M | {"movies.dat": FILMS_1M}, [1, 1, 56]), (ML_100K | {"u.item": FILMS_100K}, [24, 24, 53])],
)
def test_features_are_the_papers(files: dict[str, str], ages: list[int], tmp_path: Path) -> None:
    features = load_movielens(written(files, tmp_path), features=True).features
    assert len(features) == 3 and features.to_numpy().min() >= -1 and features.to_numpy().max() <= 1
    assert features["Animation"].tolist() == [0, 1, 1] and features["Drama"].tolist() == [1, 0, 0]
    assert features["woman"].tolist() == [1, 1, -1]
    assert features["age"].tolist() == pytest.approx([2 * age / 100 - 1 for age in ages])
    released = features["years since release"].tolist()  # rated in January 2001; a film without a year
    assert released[0] == 0 and released[1:] == pytest.approx([2 * 5 / 80 - 1] * 2, abs=2e-3)
    assert features.filter(like="occupation").sum(axis=1).tolist() == [1, 1, 1]


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
