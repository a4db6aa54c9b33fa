"""Multinomial logistic regression from noisy sums, with scikit-learn's interface."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from msgspec import Struct
from narwhals.typing import IntoFrame
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin

from fairshares.harness.errors import RecordsError
from fairshares.harness.inputs.columns import TABLE, TypedName, TypedNames
from fairshares.harness.inputs.tables import table_at
from fairshares.harness.postprocessing.thresholds.predictor import Samples
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.harness.system.documents import Refusal, as_json, as_type, read_json
from fairshares.harness.system.result_files import SCHEMA, not_result, result_path
from fairshares.harness.training.fairness import FairGrad
from fairshares.harness.training.features import Features, features_from_json
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.json_values import JsonValue

SumOf = Callable[[Floats], Floats]  # a function from updates, a row per protected unit, to their noisy sum


@dataclass(frozen=True)
class Descent:
    """The training's parameters, fixed beforehand; the defaults did well on public data.

    Attributes:
        rounds: The number of rounds of gradient descent, at least 1.
        clip: The bound on the L2 norm of a record's gradient, before it is weighed.
        largest_weight: The bound on a record's weight.
        learning_rate: The step of the descent.
        momentum: The momentum of the descent, from 0 to below 1.
    """

    rounds: int
    clip: float = 1.0
    largest_weight: float = 1.0
    learning_rate: float = 1.0
    momentum: float = 0.9


@dataclass(frozen=True)
class UpdateBounds:
    """The bounds that a task of vectors, or a session, declares of a training's updates.

    Attributes:
        coordinates: The length of an update.
        norm: A bound on the L2 norm of a weighed update.
    """

    coordinates: int
    norm: float

    @classmethod
    def of(cls, labels: int, columns: int, how: Descent, fairgrad: FairGrad | None) -> "UpdateBounds":
        """Return the bounds of a model of k labels and p columns of features.

        Computes: (k - 1)(p + 1) coordinates of norm N = clip * largest_weight. With `fairgrad`, a count for
        each cell follows, and the norm is N / sqrt(1 - share).
        [test: tests/harness/training/test_client_round.py]

        Args:
            labels: The number of labels, k.
            columns: The number of columns of features, p.
            how: The training's parameters.
            fairgrad: How groups are weighed during training; None if they are not.
        Returns:
            The bounds.
        """
        coordinates = (labels - 1) * (columns + 1)
        norm = how.clip * how.largest_weight
        if fairgrad is None:
            return cls(coordinates, norm)
        return cls(coordinates + fairgrad.cells, math.hypot(norm, fairgrad.unit(norm)))


@dataclass(frozen=True)
class Examples:
    """The n records to train on, of M clients. Each array has n rows.

    Attributes:
        features: The encoded features, shape (n, p).
        label: Each record's label, in [0, labels).
        client: Each record's client, in [0, clients).
        clients: The number of clients, M.
        labels: The number of labels, k.
        weight: Each record's weight; None for 1 each.
        group: Each record's group, which only `FairGrad` needs.
    """

    features: Floats
    label: Integers
    client: Integers
    clients: int
    labels: int
    weight: Floats | None = None
    group: Integers | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The parameters' shape: coefficients and an intercept per label but the first."""
        return self.labels - 1, self.features.shape[1] + 1

    @cached_property
    def _inputs(self) -> Floats:
        return with_constant(self.features)

    @cached_property
    def _lengths(self) -> Floats:
        return np.asarray(np.linalg.norm(self._inputs, axis=1))

    @cached_property
    def _of_label(self) -> Floats:
        return np.eye(self.labels)[self.label][:, 1:]

    @cached_property
    def _means(self) -> csr_array:  # the means of records, to clients
        share = 1 / np.bincount(self.client, minlength=self.clients)[self.client]
        places = self.client, np.arange(len(self.client))
        return csr_array((share, places), shape=(self.clients, len(self.client)))

    def updates(
        self,
        parameters: Floats,
        clip: float,
        largest_weight: float,
        unit: PrivacyUnit,
        *,
        fairgrad: FairGrad | None = None,
        weights: Floats | None = None,
    ) -> Floats:
        """Return an update per protected unit, clipped, then weighed.

        A client's update is the mean of its records' updates. A client without records has the update 0.

        Guarantees: no row is longer than N = clip * largest_weight; with counts N / sqrt(1 - share).
        [test: tests/harness/training/test_logistic.py, test_fairness.py]

        Args:
            parameters: The model's parameters in this round, shape (k - 1, p + 1).
            clip: The L2 norm to which a record's gradient is shortened.
            largest_weight: The bound on weights, which are cut to [-largest_weight, largest_weight].
            unit: The protected unit.
            fairgrad: How groups are weighed during training; a record's counts then follow its update. None:
                they are not weighed.
            weights: The weights by group and label, with `fairgrad`. None: `weight` of each record.
        Returns:
            Updates, shape (n, d) if records are protected, (M, d) if clients are.
        """
        predicted = probabilities(parameters, self._inputs)
        off = predicted[:, 1:] - self._of_label
        # A gradient is the outer product of a row of `off` and a row of inputs, so that its norm is the
        # product of their norms.
        norms = np.linalg.norm(off, axis=1) * self._lengths
        scale = np.minimum(1, clip / np.maximum(norms, clip))
        weight = self.weight if weights is None else weights[self.group, self.label]
        if weight is not None:
            scale = scale * np.clip(weight, -largest_weight, largest_weight)
        scaled = off * scale[:, np.newaxis]
        rows = (scaled[:, :, np.newaxis] * self._inputs[:, np.newaxis]).reshape(len(off), -1)
        if fairgrad is not None:
            assert self.group is not None
            right = predicted.argmax(axis=1) == self.label
            counts = fairgrad.counts(self.group, self.label, right.astype(np.int64))
            rows = np.hstack([rows, fairgrad.unit(clip * largest_weight) * counts])
        return rows if unit is PrivacyUnit.RECORD else np.asarray(self._means @ rows)


@dataclass(frozen=True)
class Descending:
    """Gradient descent between two rounds. All of it follows from the noisy sums so far.

    Attributes:
        parameters: The model's parameters, shape (k - 1, p + 1).
        velocity: The last step, by which the next one is moved on.
        total: The sum of the parameters after each step of the later half.
        counts: With `FairGrad`, the sum of all noisy counts so far, shape (cells,).
        weights: With `FairGrad`, the weights of groups and labels in the next round; None before the first.
        done: The number of rounds so far.
    """

    parameters: Floats
    velocity: Floats
    total: Floats
    counts: Floats
    weights: Floats | None = None
    done: int = 0

    @classmethod
    def begun(cls, shape: tuple[int, int], fairgrad: FairGrad | None) -> "Descending":
        """Return the descent before its first round.

        Args:
            shape: The shape of the parameters, (k - 1, p + 1).
            fairgrad: How groups are weighed during training; None if they are not.
        Returns:
            The descent, with parameters of 0.
        """
        zeros = np.zeros(shape)
        return cls(zeros, zeros, zeros, np.zeros(fairgrad.cells if fairgrad else 0))

    def after(
        self, noisy: Floats, clients: int, how: Descent, fairgrad: FairGrad | None = None
    ) -> "Descending":
        """Return the descent after one more round.

        Args:
            noisy: The noisy sum of updates; with `fairgrad`, the noisy sum of counts follows.
            clients: The number of clients, by which the sum is divided.
            how: The training's parameters.
            fairgrad: How groups are weighed during training; None if they are not.
        Returns:
            The descent before the next round.
        """
        size = self.parameters.size
        gradient = noisy[:size].reshape(self.parameters.shape) / clients
        velocity = how.momentum * self.velocity + gradient
        parameters = self.parameters - how.learning_rate * velocity
        total = self.total
        if self.done >= how.rounds // 2:
            total = total + parameters
        counts = self.counts
        weights = self.weights
        done = self.done + 1
        if fairgrad is not None:
            counts = counts + noisy[size:]
            weights = fairgrad.weights(counts, done)
        return Descending(parameters, velocity, total, counts, weights, done)

    def without_sum(self, how: Descent) -> "Descending":
        """Return the descent after a round that revealed nothing, which leaves the model as it was.

        Args:
            how: The training's parameters.
        Returns:
            The descent before the next round.
        """
        total = self.total
        if self.done >= how.rounds // 2:
            total = total + self.parameters
        return replace(self, total=total, done=self.done + 1)

    def average(self, how: Descent) -> Floats:
        """Return the mean of the parameters after each step of the later half of all rounds.

        Args:
            how: The training's parameters.
        Returns:
            The parameters of the trained model, shape (k - 1, p + 1).
        """
        return self.total / (how.rounds - how.rounds // 2)


def fit(
    examples: Examples, sum_of: SumOf, how: Descent, unit: PrivacyUnit, fairgrad: FairGrad | None = None
) -> Floats:
    """Train on noisy sums.

    Computes: gradient descent with heavy-ball momentum. The result is the mean of the parameters after each
    step of the later half, as noise averages out over these.

    Args:
        examples: The records to train on.
        sum_of: A function from updates, a row per protected unit, to their noisy sum.
        how: The training's parameters.
        unit: The protected unit.
        fairgrad: How groups are weighed during training; None if they are not.
    Returns:
        Parameters of shape (k - 1, p + 1), for `probabilities`.
    """
    state = Descending.begun(examples.shape, fairgrad)
    for _ in range(how.rounds):
        updates = examples.updates(
            state.parameters, how.clip, how.largest_weight, unit, fairgrad=fairgrad, weights=state.weights
        )
        state = state.after(sum_of(updates), examples.clients, how, fairgrad)
    return state.average(how)


def probabilities(parameters: Floats, inputs: Floats) -> Floats:
    """Return each label's probability. The first label's score is 0.

    Args:
        parameters: The model's parameters, shape (k - 1, p + 1).
        inputs: Features as `with_constant` returns them, shape (n, p + 1).
    Returns:
        Probabilities, shape (n, k).
    """
    scores = np.concatenate([np.zeros((len(inputs), 1)), inputs @ parameters.T], axis=1)
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def with_constant(features: Floats) -> Floats:
    """Return features and a last column of ones.

    Args:
        features: Encoded features, shape (n, p).
    Returns:
        Shape (n, p + 1).
    """
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


MODEL_FILE = "model.json"


class StatedModel(Struct, frozen=True, kw_only=True):
    """A model's parameters as files state them, and what they are for.

    Attributes:
        labels: All k labels.
        features: The declared range or categories of each feature, by name.
        columns: The names of the parameters' p columns, and of the intercept.
        parameters: Shape (k - 1, p + 1): a row for each label but the first.
    """

    labels: list[TypedName]
    features: dict[str, dict[str, float | list[str]]]
    columns: list[str]
    parameters: list[list[float]]


class ModelFile(StatedModel, frozen=True, kw_only=True):
    """The file `model.json`."""

    file_name: ClassVar[str] = MODEL_FILE
    schema: Literal[1] = 1
    privacy: StatedPrivacy


class LogisticModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # has no type information
    """Logistic regression trained under differential privacy; `fit` learns nothing.

    Args:
        features: The features that were declared for the training.
        labels: All k labels.
        parameters: Shape (k - 1, p + 1): coefficients, then the intercept, for each label but the first.
    """

    __module__ = "fairshares"  # the place where a pickle finds it again, whatever moves

    def __init__(self, features: Features, labels: Sequence[TypedName], parameters: Floats) -> None:
        self.features = features
        self.labels = labels
        self.parameters = parameters

    @classmethod
    def load(cls, path: Path | str) -> "LogisticModel":
        """Read the model of a run.

        Args:
            path: `model.json`, or its directory.
        Returns:
            The model.
        Raises:
            ResultFileError: The file is no `model.json`, or damaged.
            FeaturesError: The file declares no features.
        """
        path = result_path(path, MODEL_FILE)
        refusal = not_result(path, MODEL_FILE)
        return cls.from_stated(
            as_type(StatedModel, read_json(path, refusal, SCHEMA), refusal, more=True), refusal
        )

    @classmethod
    def from_stated(cls, stated: StatedModel, refusal: Refusal) -> "LogisticModel":
        """Return the model that a file states.

        Args:
            stated: The model's part of the file.
            refusal: The error if the file states no model.
        Returns:
            The model.
        Raises:
            FairSharesError: The file states no model; in the class of `refusal`.
        """
        features = features_from_json(stated.features, refusal.where)
        sizes = [len(row) for row in stated.parameters]
        if sizes != [features.columns + 1] * (len(stated.labels) - 1) or not sizes:
            refusal.say("its parameters are not those of its features and labels")
        return cls(features, tuple(stated.labels), np.array(stated.parameters))

    @property
    def stated(self) -> StatedModel:
        """The model as files state it."""
        return StatedModel(
            labels=np.array(self.labels).tolist(),
            features=self.features.to_json(),
            columns=[*self.features.named, "intercept"],
            parameters=self.parameters.tolist(),
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields of `model.json` without the privacy of the training.

        Returns:
            The fields, as `stated` has them.
        """
        return {"schema": SCHEMA, **as_json(self.stated)}

    @property
    def classes_(self) -> TypedNames:
        """The sorted labels, in the order of `predict_proba`."""
        return np.sort(np.array(self.labels))

    @property
    def feature_names_in_(self) -> TypedNames:
        """The features' names, shape (`n_features_in_`,)."""
        return np.array([*self.features.by_name], dtype=object)

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return len(self.features.by_name)

    def fit(self, X: Samples, y: "Samples | None" = None, **_: object) -> "LogisticModel":  # noqa: ARG002, N803
        """Do nothing: the model is trained.

        Args:
            X: Not used.
            y: Not used.
            _: Not used.
        Returns:
            The model itself.
        """
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Samples) -> Floats:  # noqa: N803
        """Return each label's probability, in the order of `classes_`.

        Values outside a declared range count as its nearer end, truth as 1 or 0. Missing values, and texts
        that are no number, count as the middle of the range; undeclared categories as none of them. A warning
        says how many values of a column count so.

        Args:
            X: A frame that narwhals knows, with the features as columns; or an array with the columns of
                `feature_names_in_`.
        Returns:
            Probabilities, shape (n, k).
        Raises:
            RecordsError: A column is missing, is no feature or holds dates; or X is neither frame nor array.
                Or nothing in a column can be read, except in a single row with a missing value or an
                undeclared category.
        """
        names = [*self.features.by_name]
        rows = table_at(_framed(X, names), names).rows(names)
        for sentence in self.features.unreadable(rows, trained=True):
            warnings.warn_explicit(sentence, UserWarning, __file__, 0)  # each time, unlike `warn`
        shares = probabilities(self.parameters, with_constant(self.features.encode(rows.texts)))
        return shares[:, np.argsort(np.array(self.labels))]

    def predict(self, X: Samples) -> TypedNames:  # noqa: N803
        """Return each row's most probable label.

        Args:
            X: As in `predict_proba`.
        Returns:
            Labels of `classes_`, shape (n,).
        Raises: as in `predict_proba`.
        """
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def _framed(given: Samples, names: Sequence[str]) -> IntoFrame:
    """Return a frame, or an array as a frame with these names; RecordsError as `predict_proba`."""
    frame = nw.from_native(given, pass_through=True)
    if isinstance(frame, nw.DataFrame | nw.LazyFrame):
        columns = frame.collect_schema().names()
        if others := [str(name) for name in columns if name not in names]:
            raise RecordsError(
                f"{TABLE} has the column {others[0]}, which is no feature of the model; select "
                "X[list(model.feature_names_in_)]."
            )
        native: IntoFrame = frame.to_native()
        return native
    array = np.asarray(given)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise RecordsError(
            f"X has the shape {array.shape}; the model takes a frame with the columns {', '.join(names)}, or "
            "an array of them."
        )
    return pd.DataFrame(array, columns=list(names))
