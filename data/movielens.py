"""MovieLens, ratings of films, which users download; see README.md."""

import csv
import io
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from fairshares.harness.errors import DataSetError

SOURCE = "https://grouplens.org/datasets/movielens/"
LIKED = 4  # stars, at least

GENRES = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War"),
    "Western",
)
OLDEST, OLD = 80, 100  # years, of films and of users: ranges that are declared, not read off

_USER, _GENDER, _STARS = "user", "gender", "stars"
_RATINGS = (_USER, "film", _STARS, "time")
_FILM = ("film", "title")
_YEAR = re.compile(r"\(([0-9]{4})\)\s*$")
_SECONDS_A_YEAR = 365.25 * 24 * 3600

_File = tuple[str, str, tuple[str, ...]]  # name, separator, columns
# Versions, each with its files of ratings, users and films, and the numbers of ratings and users.
_LAYOUTS: tuple[tuple[str, tuple[_File, ...], tuple[int, int]], ...] = (
    (
        "MovieLens 1M",
        (
            ("ratings.dat", "::", _RATINGS),
            ("users.dat", "::", (_USER, _GENDER, "age", "occupation", "zip")),
            ("movies.dat", "::", (*_FILM, "genres")),
        ),
        (1_000_209, 6040),
    ),
    (
        "MovieLens 100K",
        (
            ("u.data", "\t", _RATINGS),
            ("u.user", "|", (_USER, "age", _GENDER, "occupation", "zip")),
            ("u.item", "|", (*_FILM, "released", "video", "address", *GENRES)),
        ),
        (100_000, 943),
    ),
)


@dataclass(frozen=True, eq=False)
class Ratings:
    """All ratings of a version, a row each."""

    name: str
    table: pd.DataFrame  # `user`, `gender` (F or M) and `liked` (0 or 1)
    whole: bool  # as many ratings and users as README.md describes
    features: pd.DataFrame = field(default_factory=pd.DataFrame)  # from -1 to 1, if they were asked for


def load_movielens(path: Path, *, features: bool = False) -> Ratings:
    """Load MovieLens 1M or 100K from the directory that it was unpacked into.

    Features are those of PrivFairFL, appendix C: the film's genres, years from its release (by its title) to
    the rating, and the user's age, gender and occupation. A film without a year counts as in the middle.

    Raises:
        DataSetError: Neither version is there, or a file has another layout.
    """
    for version, files, size in _LAYOUTS:
        if all((path / name).is_file() for name, _, _ in files[:2]):
            rated, people, *films = [
                _read(path / name, sep, names) for name, sep, names in files[: 2 + features]
            ]
            ratings = Ratings(version, _joined(files, rated, people), (len(rated), len(people)) == size)
            return replace(ratings, features=_features(files, rated, people, *films)) if features else ratings
    raise DataSetError(
        f"{path} has neither ratings.dat and users.dat (ml-1m) nor u.data and u.user (ml-100k); download one "
        f"of them from {SOURCE}, unpack it and name the directory."
    )


def _joined(files: tuple[_File, ...], ratings: pd.DataFrame, users: pd.DataFrame) -> pd.DataFrame:
    gender = users.set_index(_USER)[_GENDER]
    if not gender.index.is_unique or not gender.isin(["F", "M"]).all():
        raise _wrong(files[1][0])
    table = pd.DataFrame({_USER: ratings[_USER], _GENDER: ratings[_USER].map(gender)})
    if table[_GENDER].isna().any() or not ratings[_STARS].isin(["1", "2", "3", "4", "5"]).all():
        raise _wrong(files[0][0])
    table["liked"] = (ratings[_STARS].astype(int) >= LIKED).astype(int)
    return table


def _features(
    files: tuple[_File, ...], rated: pd.DataFrame, people: pd.DataFrame, films: pd.DataFrame
) -> pd.DataFrame:
    who = people.set_index(_USER).loc[rated[_USER]].reset_index()
    what = films.set_index("film").reindex(rated["film"]).reset_index()
    year = pd.to_numeric(what["title"].str.extract(_YEAR, expand=False))
    if what["title"].isna().any():
        raise _wrong(files[2][0])
    if "genres" in what:
        named = what["genres"].str.get_dummies("|").reindex(columns=list(GENRES), fill_value=0)
    else:
        named = what[list(GENRES)].astype(int)
    since = 1970 + pd.to_numeric(rated["time"]) / _SECONDS_A_YEAR - year
    parts = {
        "years since release": (2 * since / OLDEST - 1).clip(-1, 1).fillna(0),
        "age": 2 * pd.to_numeric(who["age"]) / OLD - 1,
        "woman": np.where(who[_GENDER] == "F", 1, -1),
    }
    jobs = pd.get_dummies(who["occupation"].astype(str), prefix="occupation")
    return pd.concat([named, pd.DataFrame(parts), jobs], axis=1).astype(float)


def _read(file: Path, separator: str, columns: tuple[str, ...]) -> pd.DataFrame:
    try:
        text = file.read_text(encoding="latin-1")
        if separator == "::":  # pandas is fast with one character
            if "\t" in text:
                raise _wrong(file.name)
            text, separator = text.replace("::", "\t"), "\t"
        table = pd.read_csv(
            io.StringIO(text),
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            quoting=csv.QUOTE_NONE,
        )
    except OSError as error:
        raise DataSetError(f"Cannot read {file}: {error.strerror}.") from None
    except ValueError:  # pandas' own errors are ValueErrors
        raise _wrong(file.name) from None
    if table.shape[1] != len(columns):
        raise _wrong(file.name)
    return table.set_axis(list(columns), axis=1)


def _wrong(name: str) -> DataSetError:
    return DataSetError(f"{name} is not laid out as MovieLens' is; take it from {SOURCE} as it is.")
