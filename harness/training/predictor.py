"""A trained model, with scikit-learn's interface."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin

from harness.errors import FeaturesError
from harness.inputs.tables import read_table
from harness.system.documents import as_type
from harness.system.result_files import SCHEMA, not_result, read_result, result_path
from harness.training.features import Features, features_from_json
from harness.training.logistic import probabilities, with_constant
from harness.training.updates import Floats

FILE = "model.json"


class LogisticModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # has no type information
    """Logistic regression that was trained under differential privacy; its inputs are tables.

    Guarantees: `fit` learns nothing, so the model stays what the run that made it says of it.
    Args: features: as declared for training; labels: all k, as a file would name them; parameters: shape
    (k - 1, p + 1): a row of coefficients, then the intercept, for each label but the first.
    """

    __module__ = "fairshares"  # where a pickle finds it again, whatever moves

    def __init__(self, features: Features, labels: Sequence[str], parameters: Floats) -> None:
        self.features = features
        self.labels = labels
        self.parameters = parameters

    @classmethod
    def load(cls, path: Path | str) -> "LogisticModel":
        """Read the model of a run. Args: path: `model.json`, or the directory that it is in.

        Raises: ResultFileError: it is no such file; FeaturesError: it declares no features.
        """
        found, path = read_result(path, FILE), result_path(path, FILE)
        refusal = not_result(path, FILE)
        labels = as_type(list[str], found.get("labels"), refusal)
        features = features_from_json(found.get("features"), str(path))
        parameters = as_type(list[list[float]], found.get("parameters"), refusal)
        if [*map(len, parameters)] != [features.columns + 1] * (len(labels) - 1) or not parameters:
            refusal.say("its parameters are not those of its features and labels")
        return cls(features, tuple(labels), np.array(parameters))

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `model.json` but for the privacy statement."""
        names = [*self.features.named, "intercept"]
        return {
            "schema": SCHEMA,
            "labels": list(self.labels),
            "features": self.features.to_json(),
            "columns": names,
            "parameters": self.parameters.tolist(),
        }

    @property
    def classes_(self) -> npt.NDArray[np.str_]:
        """The labels, in the order of `predict_proba`'s columns."""
        return np.array(self.labels)

    def fit(self, X: Any, y: Any = None, **_: Any) -> "LogisticModel":  # noqa: ARG002, N803
        """Do nothing: the model is trained."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: pd.DataFrame) -> Floats:  # noqa: N803
        """Return each label's probability, shape (n, k).

        Args: X: a table with all columns that are features; others are ignored. Values outside a declared
        range count as its nearest end, other categories and what is no number as nothing.
        Raises: FeaturesError: it is no table; RecordsError: it lacks a column.
        """
        if not isinstance(X, pd.DataFrame):
            raise FeaturesError(f"A model takes a pandas DataFrame of features, not {type(X).__name__}.")
        table, _ = read_table(X, list(self.features.by_name))
        return probabilities(self.parameters, with_constant(self.features.encode(table)))

    def predict(self, X: pd.DataFrame) -> npt.NDArray[np.str_]:  # noqa: N803
        """Return each row's most probable label, shape (n,). Args, raises: as `predict_proba`."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
