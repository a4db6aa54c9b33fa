"""Fairness while training: weights of groups that follow noisy counts."""

import math
from dataclasses import dataclass

import numpy as np

from fairshares.harness.errors import OptionError
from fairshares.harness.postprocessing.thresholds.constraints import (
    ACCURACY_PARITY,
    DEMOGRAPHIC_PARITY,
    EQUAL_OPPORTUNITY,
    EQUALIZED_ODDS,
    FALSE_POSITIVE_RATE_PARITY,
)
from fairshares.protocols.arrays import Floats, Integers

STEP = 0.01  # both defaults were chosen on public data
SHARE = 0.1

FAIRNESS = (
    EQUALIZED_ODDS,
    EQUAL_OPPORTUNITY,
    FALSE_POSITIVE_RATE_PARITY,
    DEMOGRAPHIC_PARITY,
    ACCURACY_PARITY,
)
OF_TWO_LABELS = (DEMOGRAPHIC_PARITY, FALSE_POSITIVE_RATE_PARITY)


@dataclass(frozen=True)
class FairGrad:
    """Weights of groups and labels in the loss, by how far the model is from a definition of fairness.

    Source: Maheshwari and Perrot 2023, without slack. A model is fair if all gaps F_k = C_k0 + sum_k' C_kk'
    accuracy_k' are 0, with k' a group and a label. The weights follow from the Lagrangian.

    Attributes:
        fairness: The definition, one of `FAIRNESS`.
        groups: The number of groups, k.
        labels: The number of labels, m.
        positive: The index of the positive label.
        step: How much a gap changes its multiplier in a round.
        share: The part of the zCDP that the counts take.
    """

    fairness: str
    groups: int
    labels: int
    positive: int
    step: float = STEP
    share: float = SHARE

    def __post_init__(self) -> None:
        if self.fairness in OF_TWO_LABELS and self.labels != 2:
            raise OptionError(
                f"Training for {self.fairness} takes two labels, not {self.labels}; choose another fairness."
            )

    @property
    def cells(self) -> int:
        """The number of counts: right, then wrong, by group and label."""
        return 2 * self.groups * self.labels

    def counts(self, group: Integers, label: Integers, right: Integers) -> Floats:
        """Return each record's counts, shape (n, cells): a 1 in its cell, else 0.

        Args:
            group: Each record's group, shape (n,).
            label: Each record's label, shape (n,).
            right: 1 where the model is right about a record, else 0, shape (n,).
        """
        wrong = 1 - right
        cell = (wrong * self.groups + group) * self.labels + label
        return np.asarray(np.eye(self.cells)[cell])

    def unit(self, norm: float) -> float:
        """Return the length of one count beside updates of this norm."""
        return norm * math.sqrt(self.share / (1 - self.share))

    def weights(self, counts: Floats, rounds: int) -> Floats:
        """Return the weights of groups and labels, shape (k, m), 1 on average; some may be below 0.

        A multiplier is `step` times `rounds` times the gap of all counts so far. A weight is 1, less n times
        the effect that one more right answer has on all gaps, each gap times its multiplier. A group and
        label with fewer than 1 % of all records counts as if it had 1 %.
        """
        right, wrong = counts.reshape(2, self.groups, self.labels)
        records = np.abs(counts).sum() or 1.0
        totals = np.maximum(right + wrong, records / 100)
        pools, sign = self._pools
        chosen = np.where(sign > 0, right, wrong) @ pools
        pooled = totals @ pools
        gaps = np.clip(chosen / pooled, 0, 1) - np.clip(chosen.sum(axis=0) / pooled.sum(axis=0), 0, 1)
        multipliers = self.step * rounds * gaps
        pushed = multipliers / pooled - multipliers.sum(axis=0) / pooled.sum(axis=0)
        return np.asarray(1 - totals.sum() * sign * (pushed @ pools.T))

    @property
    def _pools(self) -> tuple[Floats, Floats]:
        """The labels of each gap, and per label 1 for right answers, -1 for wrong ones."""
        identity = np.eye(self.labels)
        alike = np.ones(self.labels)
        all_labels = np.ones((self.labels, 1))
        return {
            EQUALIZED_ODDS: (identity, alike),
            EQUAL_OPPORTUNITY: (identity[:, [self.positive]], alike),
            FALSE_POSITIVE_RATE_PARITY: (1 - identity[:, [self.positive]], alike),
            DEMOGRAPHIC_PARITY: (all_labels, 2 * identity[self.positive] - 1),
            ACCURACY_PARITY: (all_labels, alike),
        }[self.fairness]
