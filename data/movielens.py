"""Ratings of films: label `liked`, sensitive feature `gender`.

The data are not carried here, and their terms forbid passing them on: `load_movielens` reads what the user
downloaded. README.md says from where, what every column means, and what the data cannot bear.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness.errors import DataSetError

SOURCE = "https://grouplens.org/datasets/movielens/"
LIKED = 4  # stars, at least

_USER, _GENDER, _STARS = "user", "gender", "stars"
_RATINGS = (_USER, "film", _STARS, "time")


@dataclass(frozen=True)
class _Layout:
    """The files of one version. Attributes: columns: of the file of users; size: ratings and users."""

    name: str
    ratings: str
    users: str
    separators: tuple[str, str]
    columns: tuple[str, ...]
    size: tuple[int, int]


_LAYOUTS = (
    _Layout(
        "MovieLens 1M",
        "ratings.dat",
        "users.dat",
        ("::", "::"),
        (_USER, _GENDER, "age", "occupation", "zip"),
        (1_000_209, 6040),
    ),
    _Layout(
        "MovieLens 100K",
        "u.data",
        "u.user",
        ("\t", "|"),
        (_USER, "age", _GENDER, "occupation", "zip"),
        (100_000, 943),
    ),
)


@dataclass(frozen=True, eq=False)
class Ratings:
    """All ratings, one per row.

    Attributes: name: of the version; table: columns `user`, `gender` (F or M) and `liked` (0 or 1); whole:
    whether there are as many ratings and users as README.md describes.
    """

    name: str
    table: pd.DataFrame
    whole: bool


def load_movielens(path: Path) -> Ratings:
    """Load MovieLens 1M or 100K from the directory that it was unpacked into.

    Raises: DataSetError: neither is there, or a file is not of the layout.
    """
    for layout in _LAYOUTS:
        ratings, users = path / layout.ratings, path / layout.users
        if ratings.is_file() and users.is_file():
            return _joined(
                layout,
                _read(ratings, layout.separators[0], _RATINGS),
                _read(users, layout.separators[1], layout.columns),
            )
    raise DataSetError(
        f"{path} has neither ratings.dat and users.dat (ml-1m) nor u.data and u.user (ml-100k); download one "
        f"of them from {SOURCE}, unpack it and name the directory."
    )


def _joined(layout: _Layout, ratings: pd.DataFrame, users: pd.DataFrame) -> Ratings:
    gender = users.set_index(_USER)[_GENDER]
    if not gender.index.is_unique or not gender.isin(["F", "M"]).all():
        raise _wrong(layout.users)
    table = pd.DataFrame({_USER: ratings[_USER], _GENDER: ratings[_USER].map(gender)})
    if table[_GENDER].isna().any() or not ratings[_STARS].isin(["1", "2", "3", "4", "5"]).all():
        raise _wrong(layout.ratings)
    table["liked"] = (ratings[_STARS].astype(int) >= LIKED).astype(int)
    return Ratings(layout.name, table, (len(ratings), len(users)) == layout.size)


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
