"""A model's declared features, each with a range or categories."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from pathlib import Path
from typing import Self

import numpy as np

from fairshares.harness.errors import FeaturesError, RecordsError
from fairshares.harness.inputs.record_schema import shown
from fairshares.harness.inputs.tables import Counted
from fairshares.harness.system.documents import DECLARATION, Refusal, as_type, read_json
from fairshares.protocols.arrays import Floats
from fairshares.protocols.json_values import JsonFields, JsonValue

MAX_COLUMNS = 100_000
_ENDS = ("low", "high")  # the ends of a range
_KEYS = (*_ENDS, "categories")
_NEITHER = "A feature has categories, or a low end and a high one above it."
_TRUTH = {"true": "1", "false": "0"}  # truth as numbers of a range, however it is written
_WAY_OUT = 'declare {"age": {"low": 18, "high": 99}, "sector": {"categories": ["a", "b"]}}, for example'


class Feature(ABC):
    """A declared feature: a `NumberInRange`, or a `Category`."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """The number of columns of numbers that this feature becomes."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """A description of this feature's values, for messages."""

    @property
    @abstractmethod
    def stands_for_unread(self) -> str:
        """A description, for messages, of what stands for a missing or undeclared value."""

    @property
    @abstractmethod
    def takes_undeclared_alone(self) -> bool:
        """Whether a trained model takes a single row with an undeclared value."""

    @abstractmethod
    def names(self, name: str) -> list[str]:
        """Return the name of each of its columns; `name` is the feature's own."""

    @abstractmethod
    def encode(self, values: Sequence[str]) -> Floats:
        """Return any values as numbers from -1 to 1, shape (n, columns)."""

    @abstractmethod
    def unread(self, values: Sequence[str]) -> list[str]:
        """Return the values that are there, but are no number of a range or no declared category."""

    @abstractmethod
    def misread(self, name: str, values: Sequence[str]) -> Iterator[str]:
        """Yield a sentence on each kind of declared values, or lack of them, that may be a mistake.

        Args:
            name: The feature's own.
            values: The column's texts.
        Raises:
            RecordsError: No value is within the declaration.
        """

    @abstractmethod
    def to_json(self) -> dict[str, float | list[str]]:
        """Return its declaration."""


@dataclass(frozen=True)
class NumberInRange(Feature):
    """A number in a range; FeaturesError unless its low end is below its high end, by a finite distance."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.high / 2 - self.low / 2 < math.inf:
            raise FeaturesError(_NEITHER)

    @property
    def columns(self) -> int:
        return 1

    @property
    def expected(self) -> str:
        return "a number, such as 1.5"

    @property
    def stands_for_unread(self) -> str:
        return "the middle of the range"

    @property
    def takes_undeclared_alone(self) -> bool:
        return False

    def names(self, name: str) -> list[str]:
        return [name]

    def encode(self, values: Sequence[str]) -> Floats:
        """Return any values as numbers from -1 to 1, shape (n, 1).

        The range is scaled to [-1, 1]. A value beyond the range counts as its nearer end. A value that is
        missing or is no number counts as the middle, 0. Truth is read as 1 or 0.
        [test: tests/harness/training/test_features.py]
        """
        middle = self.low / 2 + self.high / 2
        radius = self.high / 2 - self.low / 2
        with np.errstate(over="ignore"):
            scaled = (_numbers(values) - middle) / radius
        return np.nan_to_num(np.clip(scaled, -1.0, 1.0)).reshape(-1, 1)

    def unread(self, values: Sequence[str]) -> list[str]:
        filled = [value for value in values if value]
        return [value for value, number in zip(filled, _numbers(filled), strict=True) if np.isnan(number)]

    def misread(self, name: str, values: Sequence[str]) -> Iterator[str]:
        numbers = _numbers(values)
        is_outside = (numbers < self.low) | (numbers > self.high)
        outside = [value for value, beyond in zip(values, is_outside, strict=True) if beyond]
        if not outside:
            return
        read = sum(1 for value in values if value) - len(self.unread(values))
        range_text = f"from {self.low:g} to {self.high:g}"
        if len(outside) == read:
            raise RecordsError(
                f"The column {name} holds {shown(outside[0])}, for example, and all of its numbers are "
                f"outside the declared range {range_text}; declare another range of {name}, or leave it out."
            )
        yield (
            f"{name}: {len(outside)} of {len(values)} values are outside the range {range_text}, as "
            f"{shown(outside[0])}, and count as its nearer end."
        )

    def to_json(self) -> dict[str, float | list[str]]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class Category(Feature):
    """One of several categories; FeaturesError for fewer than two, or for one that is named twice."""

    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.categories) < 2 or len(set(self.categories)) < len(self.categories):
            raise FeaturesError("A feature has two or more categories, each named once.")

    @property
    def columns(self) -> int:
        return len(self.categories)

    @property
    def expected(self) -> str:
        return "one of its declared categories"

    @property
    def stands_for_unread(self) -> str:
        return "none of the categories"

    @property
    def takes_undeclared_alone(self) -> bool:
        return True

    def names(self, name: str) -> list[str]:
        return [f"{name} = {category}" for category in self.categories]

    def encode(self, values: Sequence[str]) -> Floats:
        """Return any values as indicators, shape (n, columns).

        A declared category is 1 in its own column and 0 in the others. Any other value, or a missing value,
        is 0 in all columns.  [test: tests/harness/training/test_features.py]
        """
        return _indicators(values, self.categories)

    def unread(self, values: Sequence[str]) -> list[str]:
        return [value for value in values if value and value not in self.categories]

    def misread(self, name: str, values: Sequence[str]) -> Iterator[str]:
        found = set(values)
        unused = [category for category in self.categories if category not in found]
        if unused:
            yield f"{name}: no record has the category {', '.join(map(shown, unused))}."

    def to_json(self) -> dict[str, float | list[str]]:
        return {"categories": list(self.categories)}


@dataclass(frozen=True)
class Features:
    """A model's features; FeaturesError for none, too many, or reserved names."""

    by_name: Mapping[str, Feature]

    def __post_init__(self) -> None:
        if reserved := [name for name in ("client_id", "group", "label") if name in self.by_name]:
            raise FeaturesError(f"{reserved[0]} is no feature: leave it out, or copy it to another column.")
        if not 1 <= self.columns <= MAX_COLUMNS:
            raise FeaturesError(f"A model has 1 to {MAX_COLUMNS} columns of features, not {self.columns}.")

    @property
    def columns(self) -> int:
        """The number of columns of all features."""
        return sum(feature.columns for feature in self.by_name.values())

    @property
    def named(self) -> list[str]:
        """The name of each column."""
        names: list[str] = []
        for name, feature in self.by_name.items():
            names += feature.names(name)
        return names

    def encode(self, table: Mapping[str, Sequence[str]]) -> Floats:
        """Return a table's texts, by column, as numbers, shape (n, columns)."""
        encoded = [feature.encode(table[name]) for name, feature in self.by_name.items()]
        return np.concatenate(encoded, axis=1)

    def check_types(self, values: Mapping[str, Sequence[Hashable]]) -> None:
        """Raise RecordsError if a column holds dates or times, as no feature can be read from these."""
        for name in self.by_name:
            for value in values[name]:
                if isinstance(value, date | time | timedelta):
                    kind = type(value).__name__
                    raise RecordsError(
                        f"The column {name} has values of the type {kind}, which no feature is made of; give "
                        "numbers in their place, such as days, or categories, such as months."
                    )

    def misread(self, rows: Counted) -> Iterator[str]:
        """Yield a sentence on each kind of values that do not fit the declaration, which may be a mistake.

        Args:
            rows: Records on this machine, to train on.
        Raises:
            RecordsError: As `unreadable`; or all numbers of a column are outside its range.
        """
        yield from self.unreadable(rows, trained=False)
        for name, feature in self.by_name.items():
            yield from feature.misread(name, rows.texts[name])

    def unreadable(self, rows: Counted, *, trained: bool) -> Iterator[str]:
        """Yield a sentence on the values of each column that count as nothing, and on those that are missing.

        Args:
            rows: Records to train on, or to predict for.
            trained: Whether a model is trained on these features already. It then takes a single row with a
                missing value, or with a category that is not declared.
        Raises:
            RecordsError: Nothing in a column can be read, or as `check_types`.
        """
        self.check_types(rows.values)
        for name, feature in self.by_name.items():
            texts = rows.texts[name]
            found = _Uncounted.of(feature, texts)
            is_a_row = trained and len(texts) == 1 and (not found.unread or feature.takes_undeclared_alone)
            if texts and found.unread + found.missing == len(texts) and not is_a_row:
                holds = f"holds {found.commonest}, for example" if found.unread else "is empty"
                ways_out = "" if trained else f", or declare {name} otherwise, or leave it out"
                raise RecordsError(
                    f"The column {name} {holds}, and no value in it is {feature.expected}; correct "
                    f"it{ways_out}."
                )
            yield from found.sentences(name, feature)

    def uncounted(self, texts: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """Yield a sentence on the values of each column that count as nothing, and on those that are missing.

        Unlike `unreadable` it refuses nothing, whatever the values are.
        """
        for name, feature in self.by_name.items():
            yield from _Uncounted.of(feature, texts[name]).sentences(name, feature)

    def to_json(self) -> dict[str, dict[str, float | list[str]]]:
        """Return the declaration."""
        return {name: feature.to_json() for name, feature in self.by_name.items()}


def read_features(path: Path) -> Features:
    """Read a file of features, or raise FeaturesError."""
    return features_from_json(read_json(path, _refusal(str(path)), limits=DECLARATION), str(path))


def features_from_json(declaration: JsonValue, where: str) -> Features:
    """Return declared features; FeaturesError calls the declaration `where`."""
    declared = as_type(dict[str, JsonFields], declaration, _refusal(where))
    features = {name: _feature(fields, f"{where}: {name}") for name, fields in declared.items()}
    try:
        return Features(features)
    except FeaturesError as error:
        raise FeaturesError(f"{where}: {error}") from None


def _feature(fields: JsonFields, where: str) -> Feature:
    """Return a declared feature. A category that is a number or truth stands for its text."""
    unknown = [key for key in fields if key not in _KEYS]
    if unknown:
        raise FeaturesError(
            f"{where} has the key {shown(unknown[0])}; a feature has the keys low and high, or categories: "
            f"{_WAY_OUT}."
        )
    stated = JsonFields({key: value for key, value in fields.items() if value is not None})
    if "categories" not in stated:
        if len(stated) < len(_ENDS):
            raise FeaturesError(f"{where}: {_NEITHER}")
        return as_type(NumberInRange, stated, _refusal(where))
    if len(stated) > 1:
        raise FeaturesError(f"{where}: A feature has either categories, or a low and a high end.")
    categories = stated["categories"]
    if isinstance(categories, list):
        texts = [str(value) if isinstance(value, bool | int) else value for value in categories]
        stated = JsonFields(categories=texts)
    return as_type(Category, stated, _refusal(where))


@dataclass(frozen=True)
class _Uncounted:
    """The values of a column that count as nothing, and those that are missing.

    Attributes:
        texts: The number of the column's values.
        unread: The number of values that the feature cannot be, as a number out of its range.
        commonest: The commonest of these, as messages show it; None without any.
        missing: The number of missing values.
    """

    texts: int
    unread: int
    commonest: str | None
    missing: int

    @classmethod
    def of(cls, feature: Feature, texts: Sequence[str]) -> Self:
        """Look at a feature's column."""
        unread = feature.unread(texts)
        commonest = shown(Counter(unread).most_common(1)[0][0]) if unread else None
        return cls(len(texts), len(unread), commonest, sum(1 for text in texts if not text))

    def sentences(self, name: str, feature: Feature) -> Iterator[str]:
        """Yield a sentence on the unread values, and one on the missing values."""
        counts_as = f"count as {feature.stands_for_unread}."
        if self.unread:
            yield (
                f"{name}: {self.unread} of {self.texts} values are not {feature.expected}, as "
                f"{self.commonest}, and {counts_as}"
            )
        if self.missing:
            yield f"{name}: {self.missing} of {self.texts} values are missing, and {counts_as}"


def _indicators(values: Sequence[str], categories: Sequence[str]) -> Floats:
    """Return 1 where a value (row) is a category (column), else 0."""
    column_of = {category: column for column, category in enumerate(categories)}
    indicators = np.zeros((len(values), len(categories)))
    for row, value in enumerate(values):
        column = column_of.get(value)
        if column is not None:
            indicators[row, column] = 1.0
    return indicators


def _numbers(texts: Sequence[str]) -> Floats:
    """Return each text's number. Truth is 1 or 0; a text that is empty or no number is NaN."""
    import pandas as pd  # takes a second to load

    plain = pd.Series([_TRUTH.get(text.lower(), text) for text in texts], dtype=object)
    numbers: Floats = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64)
    return numbers


def _refusal(where: str) -> Refusal:
    return Refusal(FeaturesError, where, "a declaration of features", _WAY_OUT)
