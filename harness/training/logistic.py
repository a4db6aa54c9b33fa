"""Logistic regression with k labels from noisy sums of clients' updates: gradients, and the training loop."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from harness.training.fairness import FairGrad
from harness.training.updates import Floats, Integers
from protocols.accounting.calibration import PrivacyUnit

SumOf = Callable[[Floats], Floats]  # from updates, a row per protected unit, to their noisy sum


@dataclass(frozen=True)
class Descent:
    """How a model is trained, all of it public and fixed beforehand; usual values were good on public data.

    Attributes: rounds: sums, in each of which everybody takes part; clip: the largest L2 norm of a record's
    gradient; largest_weight: larger weights count as this; learning_rate, momentum: of gradient descent.
    """

    rounds: int
    clip: float = 1.0
    largest_weight: float = 1.0
    learning_rate: float = 1.0
    momentum: float = 0.9


@dataclass(frozen=True)
class Examples:
    """Records to train on: n of M clients.

    Attributes: features: shape (n, p), as `features.Features.encode` makes them; label: shape (n,), in
    [0, labels); client: shape (n,), in [0, clients); weight: shape (n,), None: 1 each; group: shape (n,), for
    `FairGrad` only.
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
    def _means(self) -> csr_array:  # of records, to clients
        share = 1 / np.bincount(self.client, minlength=self.clients)[self.client]
        places = self.client, np.arange(len(self.client))
        return csr_array((share, places), shape=(self.clients, len(self.client)))

    def updates(
        self,
        parameters: Floats,
        clip: float,
        largest_weight: float,
        unit: PrivacyUnit,
        fairgrad: FairGrad | None = None,
        weights: Floats | None = None,
    ) -> Floats:
        """Return an update per protected unit: clipped, then weighed, not yet rounded.

        Computes: a record's gradient of the negative log-likelihood, shortened to the L2 norm `clip` where it
        is longer, times its weight, from -largest_weight to `largest_weight`; with `fairgrad` that of its
        group and label, and after it the record's counts. A client's: the mean of its records'.
        Guarantees: no row is longer than N = clip * largest_weight; with counts N / sqrt(1 - share).
        [test: tests/harness/training/test_logistic.py, test_fairness.py]
        Edge cases: a client without records has the update 0.
        Args: weights: of groups and labels, shape (k, m).
        Returns: shape (n, d) where records are the unit, (M, d) where clients are; d parameters, and counts.
        """
        found = probabilities(parameters, self._inputs)
        off = found[:, 1:] - self._of_label
        # The gradient is the outer product of both, so that its norm is that of their norms.
        norms = np.linalg.norm(off, axis=1) * self._lengths
        scale = np.minimum(1, clip / np.maximum(norms, clip))
        weight = self.weight if weights is None else weights[self.group, self.label]
        if weight is not None:
            scale = scale * np.clip(weight, -largest_weight, largest_weight)
        rows = _outer(off * scale[:, np.newaxis], self._inputs)
        if fairgrad is not None:
            assert self.group is not None
            right = (found.argmax(axis=1) == self.label).astype(np.int64)
            counts = fairgrad.counts(self.group, self.label, right)
            rows = np.hstack([rows, fairgrad.unit(clip * largest_weight) * counts])
        return rows if unit is PrivacyUnit.RECORD else np.asarray(self._means @ rows)


def fit(
    examples: Examples, sum_of: SumOf, how: Descent, unit: PrivacyUnit, fairgrad: FairGrad | None = None
) -> Floats:
    """Train on noisy sums.

    Computes: gradient descent with heavy-ball momentum on the noisy sums, divided by the number of clients,
    which is public; and of its steps the mean of the later half, over which the noise averages out.
    Args: sum_of: from updates to their noisy sum, for example `SumSession.add`; nothing else reads them.
    fairgrad: weighs groups, in place of records' weights, by the counts of each round's model.
    Returns: parameters, shape (k - 1, p + 1), for `probabilities`.
    """
    parameters, velocity = np.zeros(examples.shape), np.zeros(examples.shape)
    total, weights = np.zeros(examples.shape), None
    counts = np.zeros(fairgrad.cells if fairgrad else 0)
    for done in range(how.rounds):
        noisy = sum_of(examples.updates(parameters, how.clip, how.largest_weight, unit, fairgrad, weights))
        velocity = how.momentum * velocity + noisy[: total.size].reshape(examples.shape) / examples.clients
        parameters = parameters - how.learning_rate * velocity
        if done >= how.rounds // 2:
            total += parameters
        if fairgrad is not None:
            counts += noisy[total.size :]
            weights = fairgrad.weights(counts, done + 1)
    return total / (how.rounds - how.rounds // 2)


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
