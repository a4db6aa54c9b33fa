"""ADS16, ratings of advertisements, which users download; see README.md."""

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd

from fairshares.data.movielens import LIKED, OLD, Ratings
from fairshares.harness.errors import DataSetError
from fairshares.protocols.arrays import Floats

SOURCE = "https://www.kaggle.com/datasets/groffo/ads16-dataset"
USERS = 120
CATEGORIES = 20
ADS = 15  # advertisements of each category

_AGE = "Age"
_GENDER = "Gender"
_ZIP = "Cap/Zip-Code"
_CHOICES = ("Home country", "Income")
_INTERESTS_OF_INF = ("Timepass", "Fave Sports")
_INTERESTS_OF_PREF = (
    "Most visited websites",
    "Most listened musics",
    "Most watched movies",
    "Most watched tv programmes",
    "Most read books",
)
_INTERESTS = _INTERESTS_OF_INF + _INTERESTS_OF_PREF
_DETAIL = re.compile(r"\s*\([^)]*\)|\s+(?=,)|(?<=,)\s+")  # "Indoor sports (Squash, Bowling, ...)"
_OF_PERSON = (_AGE, _GENDER, _ZIP)
_OF_INF = _OF_PERSON + _CHOICES + _INTERESTS_OF_INF
_RATINGS = "-RT.csv"


def load_ads(path: Path) -> Ratings:
    """Load ADS16 from the directory that its parts were unpacked into, however deep.

    Features are those of PrivFairFL, appendix C, that the files have: the user's gender, country, income,
    interests, age and first two characters of the zip code, and the advertisement's category. A user without
    an age counts as in the middle.

    Raises:
        DataSetError: There are no ratings, a user is there twice, or a file is missing or has another layout.
    """
    stars: dict[str, Floats] = {}
    users: dict[str, dict[str, str]] = {}
    categories: list[str] = []  # of each advertisement, in the order of every user's ratings
    for file in sorted(path.rglob(f"U*{_RATINGS}")):
        user = file.name.removesuffix(_RATINGS)
        if user in users:
            raise DataSetError(f"{path} has {file.name} twice; name a directory with one copy of ADS16.")
        categories, stars[user] = _rated(file)
        information = file.with_name(f"{user}-INF.csv")
        preferences = file.with_name(f"{user}-PREF.csv")
        described = _described(information, _OF_INF) | _described(preferences, _INTERESTS_OF_PREF)
        if described[_GENDER] not in ("F", "M"):
            raise _wrong(information)
        users[user] = described
    if not users:
        raise DataSetError(
            f"{path} has no U0001{_RATINGS} or its like; download ADS16 from {SOURCE}, unpack it and name "
            "the directory."
        )
    table = pd.DataFrame.from_dict(users, orient="index")
    rows = pd.DataFrame(
        {
            "user": np.repeat(list(users), CATEGORIES * ADS),
            "gender": np.repeat(table[_GENDER].to_numpy(), CATEGORIES * ADS),
            "liked": (np.concatenate(list(stars.values())) >= LIKED).astype(int),
        }
    )
    ads = pd.get_dummies(pd.Series(categories * len(users)), prefix="ad")
    features = _features(table).loc[rows["user"]].reset_index(drop=True)
    return Ratings("ADS16", rows, len(users) == USERS, pd.concat([ads, features], axis=1).astype(float))


def _rated(file: Path) -> tuple[list[str], Floats]:
    """Return the category of each advertisement, and its stars by a user."""
    try:
        _, names, cells = _read(file)
        stars = np.array([cell.split(",") for cell in cells], dtype=float)
    except ValueError:
        raise _wrong(file) from None
    if stars.shape != (CATEGORIES, ADS) or len(names) != CATEGORIES:
        raise _wrong(file)
    if not ((stars >= 0) & (stars <= 5)).all():
        raise _wrong(file)
    return np.repeat(names, ADS).tolist(), stars.ravel()


def _described(file: Path, needed: tuple[str, ...]) -> dict[str, str]:
    """Return a user's answers by question, which include the needed ones."""
    rows = _read(file)
    if len(rows) < 2:
        raise _wrong(file)
    questions = rows[0]
    answers = rows[1]
    described = dict(zip(questions, answers, strict=False))
    if not described.keys() >= set(needed):
        raise _wrong(file)
    return described


def _features(table: pd.DataFrame) -> pd.DataFrame:
    """Return the users' features, a row for each row of the table."""
    age = pd.to_numeric(table[_AGE], errors="coerce").clip(0, OLD).fillna(OLD / 2)
    zips = {f"zip {place}": table[_ZIP].str[place : place + 1] for place in (0, 1)}
    interests = [
        table[name].str.replace(_DETAIL, "", regex=True).str.get_dummies(",").add_prefix(f"{name}_")
        for name in _INTERESTS
    ]
    numbers = pd.DataFrame({"age": 2 * age / OLD - 1, "woman": np.where(table[_GENDER] == "F", 1, -1)})
    choices = pd.get_dummies(table[list(_CHOICES)].assign(**zips), dtype=int)
    parts = [numbers, choices]
    parts.extend(interests)
    return pd.concat(parts, axis=1)


def _read(file: Path) -> list[list[str]]:
    """Return a file's rows that are not empty."""
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise DataSetError(f"Cannot read {file}: {error.strerror}.") from None
    rows = []
    for row in csv.reader(io.StringIO(text), delimiter=";"):
        cells = [cell.strip() for cell in row]
        if any(cells):
            rows.append(cells)
    return rows


def _wrong(file: Path) -> DataSetError:
    return DataSetError(f"{file.name} is not laid out as ADS16's is; take it from {SOURCE} as it is.")
