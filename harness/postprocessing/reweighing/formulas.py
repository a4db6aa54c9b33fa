"""From differentially private statistics to sample weights, in the clear: costs no privacy."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.inputs.record_schema import RecordDomain, scale_of
from harness.postprocessing.noisy_counts import NoisyCounts
from harness.postprocessing.reweighing.intervals import CONFIDENCE, FLOOR, Table, count_intervals
from protocols.circuits.weights import BALANCED, KAMIRAN_CALDERS, LABEL


@dataclass(frozen=True)
class GroupWeights:
    """A sample weight per (group, label); all tables have shape (groups, labels).

    Attributes: noisy_counts: before the floor; floored: where the floor was used; interval: shape
    (groups, labels, 2), each holds its weight of the true counts with probability `confidence`, over the
    noise, at least; confidence is one of each, not of all together.
    """

    domain: RecordDomain
    noisy_counts: Table
    floored: NDArray[np.bool_]
    weights: Table
    interval: Table
    reweighing: str
    confidence: Fraction = CONFIDENCE

    @property
    def unit(self) -> int:
        """How much a count is where clients weigh 1 in all: what one client adds; else 1."""
        return scale_of(self.domain.cap)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `weights.json` but for the privacy statement."""
        return {
            "groups": list(self.domain.groups),
            "labels": list(self.domain.labels),
            "noisy_counts": (self.noisy_counts / self.unit).tolist(),
            "floor": FLOOR / self.unit,
            "floored": self.floored.tolist(),
            "weights": self.weights.tolist(),
            "weights_interval": self.interval.tolist(),
            "confidence": float(self.confidence),
            "reweighing": self.reweighing,
        }


# Of positive counts, shape (..., groups, labels).
_FORMULAS: dict[str, Callable[[Table], Table]] = {
    BALANCED: lambda c: _sum(c, -2, -1) / (c.shape[-2] * c.shape[-1] * c),
    LABEL: lambda c: 0 * c + _sum(c, -2, -1) / (c.shape[-1] * _sum(c, -2)),
    KAMIRAN_CALDERS: lambda c: _sum(c, -1) * _sum(c, -2) / (_sum(c, -2, -1) * c),
}


def _sum(counts: Table, *axes: int) -> Table:
    return np.asarray(counts.sum(axis=axes, keepdims=True))


def weights_of_counts(counts: Table, reweighing: str) -> Table:
    """Return a scheme's weights of noisy counts: shape (..., groups, labels), for as many tables."""
    return _FORMULAS[reweighing](np.maximum(counts, FLOOR))


def group_weights(reweighing: str, noisy: NoisyCounts) -> GroupWeights:
    """Weigh each group and label by a scheme.

    Computes: with c = max(noisy count, 1), N = sum of c, k groups and m labels: `balanced` weighs every pair
    equally, W(s, y) = N / (k m c(s, y)); `label` every label, whatever the group, W(s, y) = N / (m c(y));
    `kamiran-calders` has group and label independent, W(s, y) = c(s) c(y) / (N c(s, y)).
    Source: PrivFairFL, Protocol 2, lines 14-20, and section 4.1, for its 2 groups and 2 labels; the floor is
    ours, as noisy counts may be zero or negative there. Kamiran and Calders 2012, "Data preprocessing
    techniques for classification without discrimination".
    Guarantees: each interval holds the weight of the true counts (floored likewise) with probability at
    least 95 %; that of Kamiran and Calders' more, for pairs with less than about 100/epsilon records.
    [test: tests/statistical/test_weight_intervals.py]
    Edge cases: a pair that nobody has gets a count near 0, so a large weight that applies to nobody.
    """
    return GroupWeights(
        domain=noisy.domain,
        noisy_counts=noisy.table,
        floored=noisy.table < FLOOR,
        weights=weights_of_counts(noisy.table, reweighing),
        interval=count_intervals(np.maximum(noisy.table, FLOOR), reweighing, noisy.noise),
        reweighing=reweighing,
    )


REWEIGHINGS: dict[str, Callable[[NoisyCounts], GroupWeights]] = {
    name: partial(group_weights, name) for name in _FORMULAS
}
