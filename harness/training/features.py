"""A model's declared features, each with a range or categories."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import FeaturesError
from harness.system.documents import DECLARATION, Refusal, as_type, read_json
from protocols.arrays import Floats

MAX_COLUMNS = 100_000
_WAY_OUT = 'declare {"age": {"low": 18, "high": 99}, "sector": {"categories": ["a", "b"]}}, for example'


@dataclass(frozen=True)
class Feature:
    """A number in a range, or a category; FeaturesError for neither, or both."""

    low: float | None = None
    high: float | None = None
    categories: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.categories is None:
            if self.low is None or self.high is None or not 0 < self.high / 2 - self.low / 2 < math.inf:
                raise FeaturesError("A feature has categories, or a low end and a high one above it.")
        elif self.low is not None or self.high is not None:
            raise FeaturesError("A feature has either categories, or a low and a high end.")
        elif not 2 <= len(set(self.categories)) == len(self.categories):
            raise FeaturesError("A feature has two or more categories, each named once.")

    @property
    def columns(self) -> int:
        """The number of its columns."""
        return 1 if self.categories is None else len(self.categories)

    def encode(self, values: Sequence[str]) -> Floats:
        """Return any values as numbers, shape (n, columns).

        A range becomes [-1, 1], values beyond it its nearer end, and a text that is no number 0. A category
        is 1 in its own column, and any other value is all 0.  [test: tests/harness/training/test_features.py]
        """
        if self.categories is not None:
            return np.array(
                [[float(value == category) for category in self.categories] for value in values]
            ).reshape(-1, self.columns)
        import pandas as pd  # takes a second to load

        assert self.low is not None and self.high is not None
        numbers = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").to_numpy(dtype=np.float64)
        radius = self.high / 2 - self.low / 2
        with np.errstate(over="ignore"):
            scaled = (numbers - (self.low / 2 + self.high / 2)) / radius
        return np.nan_to_num(np.clip(scaled, -1.0, 1.0)).reshape(-1, 1)

    def to_json(self) -> dict[str, Any]:
        """Return its declaration."""
        if self.categories is None:
            return {"low": self.low, "high": self.high}
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
        return [
            name if category is None else f"{name} = {category}"
            for name, feature in self.by_name.items()
            for category in feature.categories or (None,)
        ]

    def encode(self, table: Mapping[str, Sequence[str]]) -> Floats:
        """Return a table's texts as numbers, shape (n, columns)."""
        return np.concatenate([feature.encode(table[name]) for name, feature in self.by_name.items()], axis=1)

    def to_json(self) -> dict[str, Any]:
        """Return the declaration."""
        return {name: feature.to_json() for name, feature in self.by_name.items()}


def read_features(path: Path) -> Features:
    """Read a file of features, or raise FeaturesError."""
    return features_from_json(read_json(path, _refusal(str(path)), limits=DECLARATION), str(path))


def features_from_json(declaration: Any, where: str) -> Features:
    """Return declared features; FeaturesError calls the declaration `where`."""
    declared = as_type(dict[str, dict[str, Any]], declaration, _refusal(where))
    features = {name: as_type(Feature, one, _refusal(f"{where}: {name}")) for name, one in declared.items()}
    try:
        return Features(features)
    except FeaturesError as error:
        raise FeaturesError(f"{where}: {error}") from None


def _refusal(where: str) -> Refusal:
    return Refusal(FeaturesError, where, "a declaration of features", _WAY_OUT)
