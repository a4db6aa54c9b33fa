"""Applies each group's thresholds to scores, with scikit-learn's interface."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state

from fairshares.harness.errors import (
    RecordsError,
    ResultFileError,
    ThresholdRuleError,
    UnseenGroupError,
    WriteError,
    cannot,
)
from fairshares.harness.inputs.columns import TypedName, TypedNames, as_names, one_column
from fairshares.harness.inputs.record_schema import shown
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule, rule_from_json
from fairshares.harness.system.result_files import SCHEMA, read_result, result_path, write_json
from fairshares.protocols.arrays import Floats

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame, IntoFrame, IntoSeries

Samples: TypeAlias = "npt.ArrayLike | IntoFrame | IntoSeries"
"""Values of samples: an array, or a frame or series that narwhals knows."""

RandomStateLike: TypeAlias = "int | np.random.RandomState | np.random.Generator | None"
"""A seed or generator; None: the system's randomness."""


class Estimator(Protocol):
    """A fitted classifier of two classes, whose scores the thresholds are for."""

    def predict_proba(self, X: Samples, /) -> npt.ArrayLike:  # noqa: N803
        """Return the probability of each class.

        Args:
            X: Features, of n samples.
        Returns:
            Probabilities, shape (n, 2).
        """


THRESHOLDS_FILE = "thresholds.json"
ERROR = "error"
_NUMBER_OF_FEATURES = "n_features_in_"  # an attribute of most estimators that were fitted
_NAMES_OF_FEATURES = "feature_names_in_"  # an attribute of estimators that were fitted on a table


class GroupThresholdPredictor(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type information
    """Predict positive where a score reaches its group's threshold, drawn anew for each sample if mixed.

    `fit` learns nothing, and so `sklearn.clone` copies rules and estimator as they are. Groups are matched as
    in a file: 1, 1.0 and "1" are one group, a missing group is "", and several columns make a group as for
    the run. Scores of single precision are read as a file has them: a `float32` nearest to 0.64 reaches the
    threshold 0.64.

    scikit-learn's `cross_validate` hands groups on if `sklearn.set_config(enable_metadata_routing=True)` was
    called, and they are in `params={"sensitive_features": groups}`. Without this its scores are NaN, and its
    warning ends with the error's message; with `error_score="raise"` it raises the error.

    Args:
        rules: A rule per group, from a run's `GroupThresholds.rules` or `load`.
        estimator: A fitted classifier of two classes with `predict_proba`. None: X holds positive scores.
        unseen_group: "error", or a threshold for groups without a rule, from 0 (everybody) to 2 (nobody).
        positive_label: The estimator's class for the thresholds, as in a file. None: its last.
        labels: The two labels to predict without an estimator. None: 0 and 1.
    """

    __module__ = "fairshares"  # the place where a pickle finds it again, whatever moves
    __metadata_request__predict: ClassVar = {"sensitive_features": True}
    __metadata_request__predict_proba: ClassVar = {"sensitive_features": True}
    __metadata_request__score: ClassVar = {"sensitive_features": True}

    def __init__(
        self,
        rules: Mapping[str, ThresholdRule],
        estimator: Estimator | None = None,
        unseen_group: str | float = ERROR,
        positive_label: str | None = None,
        labels: Sequence[TypedName] | None = None,
    ) -> None:
        self.rules = rules
        self.estimator = estimator
        self.unseen_group = unseen_group
        self.positive_label = positive_label
        self.labels = labels

    @classmethod
    def load(
        cls, path: Path | str, estimator: Estimator | None = None, unseen_group: str | float = ERROR
    ) -> GroupThresholdPredictor:
        """Read the rules of a run, or of `save`.

        Args:
            path: `thresholds.json`, or its directory.
            estimator: As for the class.
            unseen_group: As for the class.
        Returns:
            A classifier that applies the rules.
        Raises:
            ResultFileError: The file cannot be read, or holds no rules.
            ThresholdRuleError: A rule makes no sense.
        """
        result = read_result(path, THRESHOLDS_FILE)
        path = result_path(path, THRESHOLDS_FILE)
        rule_fields = result.get("thresholds")
        positive_label = result.get("positive_label")
        labels = result.get("labels")
        if (
            not isinstance(rule_fields, dict)
            or not rule_fields
            or not isinstance(positive_label, str | None)
            or not isinstance(labels, list | None)
        ):
            raise ResultFileError(f"{path} is not the {THRESHOLDS_FILE} of a run.")
        rules = {
            group: rule_from_json(rule, f"{path}, group {group!r},") for group, rule in rule_fields.items()
        }
        return cls(rules, estimator, unseen_group, positive_label, labels)

    def save(self, path: Path | str) -> None:
        """Write the rules, and nothing of the estimator, for `load`.

        Args:
            path: A file, or a directory for `thresholds.json`.
        Raises:
            WriteError: The file cannot be written.
        """
        fields = {
            "schema": SCHEMA,
            "positive_label": self.positive_label,
            "labels": self.classes_.tolist(),
            "deterministic": all(rule.is_deterministic for rule in self.rules.values()),
            "thresholds": {group: rule.to_json() for group, rule in self.rules.items()},
        }
        file = result_path(path, THRESHOLDS_FILE)
        with cannot(f"write {file}", WriteError, "name another path="):
            write_json(file, fields)

    def fit(self, X: Samples, y: Samples | None = None, **_: object) -> GroupThresholdPredictor:  # noqa: ARG002, N803
        """Do nothing: the rules are given.

        Args:
            X: Not used.
            y: Not used.
            _: Not used.
        Returns:
            The classifier itself.
        """
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> GroupThresholdPredictor:
        """Return a copy with the fitted estimator: scikit-learn's own would be without what it learned."""
        return copy.deepcopy(self)

    @property
    def classes_(self) -> TypedNames:
        """The sorted classes: the estimator's, or the labels."""
        labels = np.sort(np.array((0, 1) if self.labels is None else self.labels))
        return np.asarray(getattr(self.estimator, "classes_", labels))

    @property
    def n_features_in_(self) -> int:
        """The estimator's number of features; there is none without an estimator."""
        return int(getattr(self.estimator, _NUMBER_OF_FEATURES))

    @property
    def feature_names_in_(self) -> TypedNames:
        """The estimator's names of features; there are none without an estimator."""
        return np.asarray(getattr(self.estimator, _NAMES_OF_FEATURES))

    def predict(
        self,
        X: Samples,  # noqa: N803
        *,
        sensitive_features: Samples | None = None,
        random_state: RandomStateLike = None,
    ) -> TypedNames:
        """Predict each sample's class.

        Args:
            X: Features for the estimator, shape (n, features); or scores from 0 to 1, shape (n,), (n, 1), or
                (n, 2) as from `predict_proba`.
            sensitive_features: The groups, shape (n,); or shape (n, k), the columns that the run crossed into
                groups. Both may be lists, arrays, or frames and series that narwhals knows. None is refused.
            random_state: A seed or generator for a mixed rule's draws. None: the system's randomness.
        Returns:
            One of `classes_` for each sample, shape (n,).
        Raises:
            UnseenGroupError: A group has no rule.
            RecordsError: There are no groups, shapes do not fit, a score is not from 0 to 1, no class is the
                positive label, or the estimator gives no probabilities.
            ThresholdRuleError: `unseen_group` is no threshold.
        """
        probability = self.positive_probability(X, sensitive_features=sensitive_features)
        positive = _uniform(len(probability), random_state) < probability
        at = self._positive_class()
        return self.classes_[np.where(positive, at, 1 - at)]

    def predict_proba(self, X: Samples, *, sensitive_features: Samples | None = None) -> Floats:  # noqa: N803
        """Return the probability of each class under `predict`.

        Args:
            X: As in `predict`.
            sensitive_features: As in `predict`.
        Returns:
            Probabilities in the order of `classes_`, shape (n, 2).
        Raises: as in `predict`.
        """
        positive = self.positive_probability(X, sensitive_features=sensitive_features)
        both = np.column_stack([1 - positive, positive])
        if self._positive_class() == 0:
            both = both[:, ::-1]
        return both

    def score(  # type: ignore[override, unused-ignore]
        self,
        X: Samples,  # noqa: N803
        y: Samples,
        sample_weight: npt.ArrayLike | None = None,
        *,
        sensitive_features: Samples | None = None,
        random_state: RandomStateLike = None,
    ) -> float:
        """Return the accuracy of `predict`.

        Args:
            X: As in `predict`.
            y: The true classes, shape (n,).
            sample_weight: Each sample's weight, shape (n,). None: 1 each.
            sensitive_features: As in `predict`.
            random_state: As in `predict`.
        Returns:
            The share of samples whose class is predicted, by weight, from 0 to 1.
        Raises: as in `predict`.
        """
        predicted = self.predict(X, sensitive_features=sensitive_features, random_state=random_state)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def positive_probability(self, X: Samples, *, sensitive_features: Samples | None = None) -> Floats:  # noqa: N803
        """Return each sample's probability to be predicted positive.

        Args:
            X: As in `predict`.
            sensitive_features: As in `predict`.
        Returns:
            Probabilities, shape (n,).
        Raises:
            RecordsError: There are no groups, shapes do not fit, or the estimator gives no probabilities; and
                as in `predict`.
            UnseenGroupError: A group has no rule.
            ThresholdRuleError: `unseen_group` is no threshold.
        """
        if sensitive_features is None:
            raise RecordsError(
                "Thresholds are by group: give each sample's as sensitive_features. In cross_validate and "
                "the like, call sklearn.set_config(enable_metadata_routing=True) first, and give "
                "params={'sensitive_features': groups}; without it scikit-learn hands none on."
            )
        index = getattr(X, "index", None)
        if self.estimator is not None:
            if not hasattr(self.estimator, "predict_proba"):
                raise RecordsError(
                    f"{type(self.estimator).__name__} has no predict_proba, and thresholds are for scores "
                    "from 0 to 1, the same as those that they were computed from; give these scores in place "
                    "of a model, or a model that has it, as sklearn.calibration.CalibratedClassifierCV makes "
                    "of any."
                )
            X = self.estimator.predict_proba(X)  # noqa: N806
            if np.ndim(X) == 2 and np.shape(X)[1] == 2:
                X = np.asarray(X)[:, self._positive_class()]  # noqa: N806
        scores = _scores(X)
        probability = np.zeros(len(scores))
        for rows, rule in self._by_rule(_groups(sensitive_features, index, len(scores))):
            reached = scores[rows, np.newaxis] >= np.array(rule.thresholds)
            probability[rows] = reached @ np.array(rule.probabilities)
        return probability

    def _positive_class(self) -> int:
        """Return the place of the positive label among the classes; RecordsError if it is none of them."""
        if self.positive_label is None or (self.estimator is None and self.labels is None):
            return 1
        names = as_names(pd.Series(self.classes_)).tolist()
        if self.positive_label not in names:
            raise RecordsError(
                f"The thresholds are for the label {self.positive_label!r}, and the model's classes are "
                f"{', '.join(map(shown, names))}: use the model whose scores they were computed from."
            )
        return names.index(self.positive_label)

    def _by_rule(self, groups: pd.Series[str]) -> Iterator[tuple[npt.NDArray[np.int64], ThresholdRule]]:
        for group in groups.unique().tolist():
            rows = np.flatnonzero(groups == group)
            if group in self.rules:
                yield rows, self.rules[group]
            elif self.unseen_group == ERROR:
                raise UnseenGroupError(
                    f"Sample {rows[0]} is of the group {group!r}, which has no threshold (there are: "
                    f"{', '.join(map(shown, self.rules))}). Compute thresholds with that group, or say which "
                    "threshold to take with unseen_group."
                )
            elif _is_number(self.unseen_group):
                yield rows, ThresholdRule((float(self.unseen_group),))
            else:
                raise ThresholdRuleError(
                    f'unseen_group must be "{ERROR}" or a threshold, not {self.unseen_group!r}.'
                )


def _is_number(value: str | float) -> bool:
    """Return whether a value is a number of Python or NumPy, and not truth."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _collected(given: Samples) -> Samples | nw.DataFrame[IntoDataFrame] | nw.Series[IntoSeries]:
    """Return a frame or series in memory; anything else as it is."""
    known = nw.from_native(given, allow_series=True, pass_through=True)
    return known.collect() if isinstance(known, nw.LazyFrame) else known


def _scores(given_scores: Samples) -> Floats:
    """Return positive scores, shape (n,); raises RecordsError as `predict`."""
    values = _collected(given_scores)
    if isinstance(values, nw.DataFrame | nw.Series):
        values = values.to_numpy()
    given = np.asarray(values)
    if given.dtype in (np.float16, np.float32):
        given = given.astype(str)  # the shortest text of each, as a file has it
    scores = given.astype(np.float64)
    if scores.ndim == 2 and scores.shape[1] in (1, 2):
        scores = scores[:, -1]
    if scores.ndim != 1:
        raise RecordsError(
            f"Scores must have shape (n,), (n, 1), or (n, 2) for two classes, not {scores.shape}."
        )
    wrong = np.flatnonzero(~((scores >= 0) & (scores <= 1)))
    if len(wrong):
        raise RecordsError(
            f"Sample {wrong[0]} has the score {float(scores[wrong[0]])!r}; scores must be from 0 to 1, as "
            "those that the thresholds were computed from."
        )
    return scores


def _groups(given: Samples, index: pd.Index[TypedName] | None, samples: int) -> pd.Series[str]:
    """Return the groups of so many samples, as in a file; raises RecordsError as `predict`.

    Args:
        given: The groups.
        index: The samples' index, if they have one, which the groups' must equal.
        samples: The number of samples.
    """
    groups = _collected(one_column(given, "sensitive_features"))
    values: pd.Series[TypedName] | TypedNames
    if isinstance(groups, nw.Series):
        of_rows = nw.maybe_get_index(groups)
        if isinstance(index, pd.Index) and of_rows is not None and not index.equals(of_rows):
            raise RecordsError(
                "X and sensitive_features must have the same index: they belong to the same rows."
            )
        values = pd.Series(groups.to_list(), dtype=object)
    else:
        values = np.asarray(groups)
    if values.ndim != 1:
        raise RecordsError(
            "sensitive_features must have shape (n,), or (n, k) of k columns that make a group, not "
            f"{values.shape}."
        )
    if len(values) != samples:
        raise RecordsError(
            f"There are {samples} samples but {len(values)} sensitive features; each needs one."
        )
    return as_names(pd.Series(values))


def _uniform(count: int, random_state: RandomStateLike) -> Floats:
    """Draw from [0, 1), by default 53 bits each of the system's randomness."""
    if random_state is None:
        bits = np.frombuffer(os.urandom(8 * count), dtype="<u8") >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53
    if isinstance(random_state, np.random.Generator):
        return random_state.random(count)
    return np.asarray(check_random_state(random_state).random_sample(count))
