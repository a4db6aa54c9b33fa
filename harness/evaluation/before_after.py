"""A model's accuracy and fairness with and without a mitigation, in the clear, on public data."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from fairshares.harness.evaluation.labeled_data import LabeledData
from fairshares.harness.evaluation.metrics import METRICS, assess
from fairshares.harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.reweighing.sample_weight import WeightsTable, sample_weight
from fairshares.protocols.arrays import Floats, Integers

UNMITIGATED = "unmitigated"


def model_for(data: LabeledData) -> Pipeline:
    """Return an unfitted pipeline: impute, scale or encode, logistic regression.

    It lacks the sensitive feature, and learns medians and scales, too, in `fit`.
    [test: tests/harness/evaluation/test_before_after.py::test_test_rows_do_not_reach_the_fitted_pipeline]
    """
    numeric = [name for name in data.features.columns if name not in data.categorical]
    prepare = ColumnTransformer(
        [
            ("numeric", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numeric),
            (
                "categorical",
                make_pipeline(
                    SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
                ),
                list(data.categorical),
            ),
        ],
        sparse_threshold=0,
    )
    return Pipeline([("prepare", prepare), ("classify", LogisticRegression(max_iter=1000))])


def fit(data: LabeledData, rows: Integers, weights: WeightsTable | None = None) -> Pipeline:
    """Fit the model, each row weighted by its group and label; ConvergenceWarning if it stops early."""
    y = data.y_true[rows]
    model = model_for(data)
    per_sample: pd.Series[float] | None = None
    if weights is not None:
        table = pd.Series(np.ravel(weights), pd.MultiIndex.from_product([data.groups, data.labels]))
        per_sample = sample_weight(table, data.sensitive_feature[rows], y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(data.features.iloc[rows], y, classify__sample_weight=per_sample)
    return model


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of a data set, and the unmitigated model."""

    data: LabeledData
    seed: int
    train: Integers
    test: Integers

    @property
    def tested(self) -> pd.DataFrame:
        """The features of the test rows."""
        return self.data.features.iloc[self.test]

    @cached_property
    def unmitigated(self) -> Pipeline:
        """The model, fitted once without weights."""
        return fit(self.data, self.train)


def held_out_scores(data: LabeledData, rows: Integers) -> Floats:
    """Return each row's score from a model that was fitted without it, by three-fold cross-validation."""
    with threadpool_limits(limits=1):
        predicted = cross_val_predict(
            model_for(data),
            data.features.iloc[rows],
            data.y_true[rows],
            cv=KFold(3, shuffle=True, random_state=0),
            method="predict_proba",
        )
    return np.asarray(predicted[:, 1])


class Mitigation(ABC):
    """A way to make a model fairer, or its decisions."""

    @abstractmethod
    def predict(self, fold: Fold) -> Integers:
        """Return predictions, 0 or 1, for a fold's test rows."""


class Unmitigated(Mitigation):
    """The model as it is."""

    def predict(self, fold: Fold) -> Integers:
        return np.asarray(fold.unmitigated.predict(fold.tested))


class Reweighed(Mitigation):
    """A model that is fitted anew, with weights."""

    @abstractmethod
    def weights(self, fold: Fold) -> WeightsTable:
        """Return the weights by group and label, from a fold's training rows."""

    def predict(self, fold: Fold) -> Integers:
        return np.asarray(fit(fold.data, fold.train, self.weights(fold)).predict(fold.tested))


class Thresholded(Mitigation):
    """Decisions by each group's rule on the model's scores; mixed rules draw from the split's seed."""

    @abstractmethod
    def rules(self, fold: Fold) -> Mapping[str, ThresholdRule]:
        """Return each group's rule, from a fold's training rows."""

    def predict(self, fold: Fold) -> Integers:
        predictor = GroupThresholdPredictor(self.rules(fold), fold.unmitigated)
        groups = fold.data.sensitive_feature[fold.test]
        predicted = predictor.predict(fold.tested, sensitive_features=groups, random_state=fold.seed)
        return predicted.astype(np.int64)


def summary(runs: pd.DataFrame, **more: "Callable[[pd.Series[float]], int]") -> pd.DataFrame:
    """Return mean, std, splits, and `more`, by model and metric.

    `splits` counts those with a defined metric. They overlap, so std is a spread, not a standard error.
    """
    values = (
        runs.set_index(["split", "model"])[list(METRICS)]
        .rename_axis(columns="metric")
        .stack(future_stack=True)
        .groupby(["model", "metric"], sort=False)
    )
    figures = {"mean": values.mean(), "std": values.std(), "splits": values.count()}
    for name, count in more.items():
        figures[name] = values.agg(count)
    return pd.DataFrame(figures).reset_index()


def changes(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of changes against the unmitigated model of the same split.

    `lower` and `higher` count splits.
    """
    wide = runs.set_index(["split", "model"])[list(METRICS)]
    before = wide.xs(UNMITIGATED, level="model")
    change = wide - before.reindex(wide.index.get_level_values("split")).to_numpy()
    others = change.drop(UNMITIGATED, level="model").reset_index()
    return summary(others, lower=_number_below_0, higher=_number_above_0)


def _number_below_0(values: "pd.Series[float]") -> int:
    return int((values < 0).sum())


def _number_above_0(values: "pd.Series[float]") -> int:
    return int((values > 0).sum())


def evaluate(
    data: LabeledData,
    mitigations: Mapping[str, Mitigation],
    splits: Iterable[int],
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Assess the model without and with each mitigation on every split's test rows.

    The caller states the source of weights or thresholds beside the figures. Each call is one more release on
    people that are in most splits.
    """
    every = {UNMITIGATED: Unmitigated(), **mitigations}
    seeds = list(splits)
    rows: list[dict[str, str | float]] = []
    # On small data threads wait for each other: one is faster, many times so on a busy machine.
    with threadpool_limits(limits=1):
        for done, seed in enumerate(seeds, start=1):
            fold = Fold(data, seed, *data.split(seed))
            for name, mitigation in every.items():
                truth = data.y_true[fold.test]
                feature = data.sensitive_feature[fold.test]
                figures = assess(truth, mitigation.predict(fold), feature, data.groups)
                rows.append({"split": seed, "model": name, **figures})
            if progress is not None:
                progress(done, len(seeds))
    return pd.DataFrame(rows, columns=["split", "model", *METRICS])
