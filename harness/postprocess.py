"""From differentially private statistics to sample weights, in the clear: costs no privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.outputs import NoisyCounts
from harness.records import RecordDomain

FLOOR = 1.0
CONFIDENCE = Fraction(95, 100)

Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GroupWeights:
    """A sample weight per (group, label); all tables have shape (groups, labels).

    Attributes: noisy_counts: before the floor; floored: where the floor was used; interval: shape
    (groups, labels, 2), holds all weights at once with probability `confidence`, over the noise.
    """

    domain: RecordDomain
    noisy_counts: Table
    floored: npt.NDArray[np.bool_]
    weights: Table
    interval: npt.NDArray[np.float64]
    reweighing: str
    confidence: Fraction = CONFIDENCE

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `weights.json` but for the privacy statement."""
        return {
            "groups": list(self.domain.groups),
            "labels": list(self.domain.labels),
            "noisy_counts": self.noisy_counts.tolist(),
            "floor": FLOOR,
            "floored": self.floored.tolist(),
            "weights": self.weights.tolist(),
            "weights_interval": self.interval.tolist(),
            "confidence": float(self.confidence),
            "reweighing": self.reweighing,
        }


def balanced_weights(noisy: NoisyCounts) -> GroupWeights:
    """Weigh every (group, label) pair equally: W(s, y) = N / (k m c(s, y)).

    Source: PrivFairFL, Protocol 2, lines 14-20; k groups and m labels for its 2 and 2; the floor is
    ours, as noisy counts may be zero or negative there.
    Computes: c = max(noisy count, 1), N = sum of c; so that the weighted c of all pairs are equal and
    add up to N.
    Guarantees: the interval covers the weights of the true counts (floored likewise) with probability
    at least 95 %.  [test: tests/unit/test_postprocess.py]
    Edge cases: a pair that nobody has gets a count near 0, so a large weight that applies to nobody.
    """
    floored = noisy.table < FLOOR
    counts = np.maximum(noisy.table, FLOOR)
    t = noisy.error_bound(1 - CONFIDENCE)
    low, high = np.maximum(noisy.table - t, FLOOR), np.maximum(noisy.table + t, FLOOR)
    # A weight grows with the other counts and falls with its own.
    lightest = _balanced(high, low.sum() - low)
    heaviest = _balanced(low, high.sum() - high)
    return GroupWeights(
        domain=noisy.domain,
        noisy_counts=noisy.table,
        floored=floored,
        weights=_balanced(counts, counts.sum() - counts),
        interval=np.stack([lightest, heaviest], axis=-1),
        reweighing="balanced",
    )


def _balanced(count: Table, others: Table) -> Table:
    """Return (count + others) / (cells * count), elementwise."""
    weights: Table = (count + others) / (count.size * count)
    return weights
