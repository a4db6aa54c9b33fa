"""Logistic regression with k labels from noisy sums of clients' updates: gradients, and the training loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from protocols.accounting.calibration import PrivacyUnit

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
SumOf = Callable[[Floats], Floats]  # from updates, a row per protected unit, to their noisy sum

CLIP = 1.0  # of a record's gradient; what `fit` takes unless told, good on data that is no longer private
LEARNING_RATE = 1.0
MOMENTUM = 0.9


@dataclass(frozen=True)
class Examples:
    """Records to train on: n of M clients.

    Attributes: features: shape (n, p), as `features.FeatureSchema.encode` makes them; label: shape (n,), in
    [0, labels); client: shape (n,), in [0, clients); weight: shape (n,), not negative; None: 1 each.
    """

    features: Floats
    label: Integers
    client: Integers
    clients: int
    labels: int
    weight: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the parameters: a row per label but the first, of p coefficients and an intercept."""
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
    def _share(self) -> Floats:  # of a record in its client's mean
        return 1 / np.bincount(self.client, minlength=self.clients)[self.client]

    def updates(self, parameters: Floats, clip: float, largest_weight: float, unit: PrivacyUnit) -> Floats:
        """Return an update per protected unit: clipped, then weighed, not yet rounded.

        Computes: a record's gradient of the negative log-likelihood, shortened to the L2 norm `clip` where it
        is longer, times its weight, at most `largest_weight`; a client's: the mean of its records'.
        Guarantees: no row is longer than clip * largest_weight.
        [test: tests/harness/training/test_logistic.py]
        Edge cases: a client without records has the update 0.
        Returns: shape (n, d) where records are the unit, (M, d) where clients are; d parameters.
        """
        off = probabilities(parameters, self._inputs)[:, 1:] - self._of_label
        # The gradient is the outer product of both, so that its norm is that of their norms.
        norms = np.linalg.norm(off, axis=1) * self._lengths
        scale = np.minimum(1, clip / np.maximum(norms, clip))
        if self.weight is not None:
            scale = scale * np.minimum(self.weight, largest_weight)
        if unit is PrivacyUnit.RECORD:
            return _outer(off * scale[:, np.newaxis], self._inputs)
        of_record = off * (scale * self._share)[:, np.newaxis]
        found = np.zeros((self.clients, of_record.shape[1] * self._inputs.shape[1]))
        order, starts, present = self._by_client
        found[present] = np.add.reduceat(_outer(of_record[order], self._inputs[order]), starts)
        return found

    @cached_property
    def _by_client(self) -> tuple[Integers, Integers, Integers]:
        order = np.argsort(self.client, kind="stable")
        present, starts = np.unique(self.client[order], return_index=True)
        return order, starts, present


def fit(
    examples: Examples,
    sum_of: SumOf,
    *,
    rounds: int,
    unit: PrivacyUnit,
    clip: float = CLIP,
    largest_weight: float = 1.0,
    learning_rate: float = LEARNING_RATE,
    momentum: float = MOMENTUM,
) -> Floats:
    """Train by so many noisy sums, in each of which everybody takes part.

    Computes: gradient descent with heavy-ball momentum on the noisy sums, divided by the number of clients,
    which is public; and of its steps the mean of the later half, over which the noise averages out.
    Args: sum_of: from updates to their noisy sum, for example `SumSession.add`; nothing else reads them.
    largest_weight: public, fixed beforehand; larger weights count as this.
    Returns: parameters, shape (k - 1, p + 1), for `probabilities`.
    """
    parameters, velocity = np.zeros(examples.shape), np.zeros(examples.shape)
    total = np.zeros(examples.shape)
    for done in range(rounds):
        noisy = sum_of(examples.updates(parameters, clip, largest_weight, unit))
        velocity = momentum * velocity + noisy.reshape(examples.shape) / examples.clients
        parameters = parameters - learning_rate * velocity
        if done >= rounds // 2:
            total += parameters
    return total / (rounds - rounds // 2)


def probabilities(parameters: Floats, inputs: Floats) -> Floats:
    """Return each label's probability, shape (n, k), the first label's score being 0.

    Args: parameters: shape (k - 1, p + 1); inputs: shape (n, p + 1), the last column 1.
    """
    scores = np.concatenate([np.zeros((len(inputs), 1)), inputs @ parameters.T], axis=1)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def with_constant(features: Floats) -> Floats:
    """Return features, shape (n, p), and the constant 1 after them, which the intercept multiplies."""
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def _outer(rows: Floats, columns: Floats) -> Floats:
    return (rows[:, :, np.newaxis] * columns[:, np.newaxis]).reshape(len(rows), -1)
