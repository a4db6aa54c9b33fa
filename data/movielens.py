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
    "unknown",
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)
# Declared ranges, not read off the data.
OLDEST = 80  # years of a film, at most
OLD = 100  # years of a user, at most

_USER = "user"
_GENDER = "gender"
_STARS = "stars"
_RATINGS = (_USER, "film", _STARS, "time")
_FILM = ("film", "title")
_DETAILS_OF_FILM = ("released", "video", "address")
_YEAR = re.compile(r"\(([0-9]{4})\)\s*$")
_SECONDS_A_YEAR = 365.25 * 24 * 3600


@dataclass(frozen=True)
class _File:
    """The layout of a file."""

    name: str
    separator: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Version:
    """The files of a version of MovieLens, and the numbers of ratings and users that it has."""

    name: str
    ratings: _File
    users: _File
    films: _File
    number_of_ratings: int
    number_of_users: int


_VERSIONS = (
    _Version(
        name="MovieLens 1M",
        ratings=_File("ratings.dat", "::", _RATINGS),
        users=_File("users.dat", "::", (_USER, _GENDER, "age", "occupation", "zip")),
        films=_File("movies.dat", "::", (*_FILM, "genres")),
        number_of_ratings=1_000_209,
        number_of_users=6040,
    ),
    _Version(
        name="MovieLens 100K",
        ratings=_File("u.data", "\t", _RATINGS),
        users=_File("u.user", "|", (_USER, "age", _GENDER, "occupation", "zip")),
        films=_File("u.item", "|", _FILM + _DETAILS_OF_FILM + GENRES),
        number_of_ratings=100_000,
        number_of_users=943,
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
    for version in _VERSIONS:
        if (path / version.ratings.name).is_file() and (path / version.users.name).is_file():
            return _loaded(path, version, features)
    raise DataSetError(
        f"{path} has neither ratings.dat and users.dat (ml-1m) nor u.data and u.user (ml-100k); download one "
        f"of them from {SOURCE}, unpack it and name the directory."
    )


def _loaded(path: Path, version: _Version, features: bool) -> Ratings:
    """Load this version from its directory; raise DataSetError if a file has another layout."""
    ratings = _read(path, version.ratings)
    users = _read(path, version.users)
    films = _read(path, version.films) if features else None
    has_all_ratings = len(ratings) == version.number_of_ratings
    has_all_users = len(users) == version.number_of_users
    loaded = Ratings(
        name=version.name,
        table=_joined(version, ratings, users),
        whole=has_all_ratings and has_all_users,
    )
    if films is None:
        return loaded
    return replace(loaded, features=_features(version, ratings, users, films))


def _joined(version: _Version, ratings: pd.DataFrame, users: pd.DataFrame) -> pd.DataFrame:
    """Return `Ratings.table`."""
    gender = users.set_index(_USER)[_GENDER]
    if not gender.index.is_unique or not gender.isin(["F", "M"]).all():
        raise _wrong(version.users.name)
    table = pd.DataFrame({_USER: ratings[_USER], _GENDER: ratings[_USER].map(gender)})
    if table[_GENDER].isna().any() or not ratings[_STARS].isin(["1", "2", "3", "4", "5"]).all():
        raise _wrong(version.ratings.name)
    table["liked"] = (ratings[_STARS].astype(int) >= LIKED).astype(int)
    return table


def _features(
    version: _Version, ratings: pd.DataFrame, users: pd.DataFrame, films: pd.DataFrame
) -> pd.DataFrame:
    """Return `Ratings.features`."""
    user = users.set_index(_USER).loc[ratings[_USER]].reset_index()  # of each rating
    film = films.set_index("film").reindex(ratings["film"]).reset_index()  # of each rating
    released = pd.to_numeric(film["title"].str.extract(_YEAR, expand=False))
    if film["title"].isna().any():
        raise _wrong(version.films.name)
    if "genres" in film:
        genres = film["genres"].str.get_dummies("|").reindex(columns=list(GENRES), fill_value=0)
    else:
        genres = film[list(GENRES)].astype(int)
    rated = 1970 + pd.to_numeric(ratings["time"]) / _SECONDS_A_YEAR
    since = rated - released
    numbers = {
        "years since release": (2 * since / OLDEST - 1).clip(-1, 1).fillna(0),
        "age": 2 * pd.to_numeric(user["age"]) / OLD - 1,
        "woman": np.where(user[_GENDER] == "F", 1, -1),
    }
    occupations = pd.get_dummies(user["occupation"].astype(str), prefix="occupation")
    return pd.concat([genres, pd.DataFrame(numbers), occupations], axis=1).astype(float)


def _read(directory: Path, layout: _File) -> pd.DataFrame:
    """Return a file's table, all cells as texts; raise DataSetError if it has another layout."""
    file = directory / layout.name
    separator = layout.separator
    try:
        text = file.read_text(encoding="latin-1")
        if separator == "::":  # pandas is fast with separators of a single character
            if "\t" in text:
                raise _wrong(file.name)
            separator = "\t"
            text = text.replace("::", separator)
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
    if table.shape[1] != len(layout.columns):
        raise _wrong(file.name)
    return table.set_axis(list(layout.columns), axis=1)


def _wrong(name: str) -> DataSetError:
    return DataSetError(f"{name} is not laid out as MovieLens' is; take it from {SOURCE} as it is.")
