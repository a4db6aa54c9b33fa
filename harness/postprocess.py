"""From differentially private statistics to sample weights, in the clear: costs no privacy."""

from __future__ import annotations

from collections.abc import Callable
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

    def weight(c: Table, row: Table, column: Table, rest: Table) -> Table:
        return (c + row + column + rest) / (c.size * c)

    # A weight falls with its own count and grows with all others.
    def bounds(own: _Range, row: _Range, column: _Range, rest: _Range) -> tuple[Table, Table]:
        return weight(own.high, row.low, column.low, rest.low), weight(
            own.low, row.high, column.high, rest.high
        )

    return _group_weights(noisy, "balanced", weight, bounds)


def label_weights(noisy: NoisyCounts) -> GroupWeights:
    """Weigh every label equally, whatever the group: W(s, y) = N / (m c(y)).

    Source: PrivFairFL, section 4.1, "Extending to other reweighing algorithms", for m labels.
    Guarantees, edge cases: as `balanced_weights`.
    """
    labels = len(noisy.domain.labels)

    def weight(c: Table, row: Table, column: Table, rest: Table) -> Table:
        return (c + row + column + rest) / (labels * (c + column))

    # A weight falls with its label's counts and grows with the other labels'.
    def bounds(own: _Range, row: _Range, column: _Range, rest: _Range) -> tuple[Table, Table]:
        low = weight(own.high, row.low, column.high, rest.low)
        return low, weight(own.low, row.high, column.low, rest.high)

    return _group_weights(noisy, "label", weight, bounds)


def kamiran_calders_weights(noisy: NoisyCounts) -> GroupWeights:
    """Weigh group and label into independence: W(s, y) = c(s) c(y) / (N c(s, y)).

    Source: Kamiran and Calders 2012, "Data preprocessing techniques for classification without
    discrimination"; as PrivFairFL, section 4.1 proposes.
    Guarantees, edge cases: as `balanced_weights`.
    """

    def weight(c: Table, row: Table, column: Table, rest: Table) -> Table:
        return (c + row) * (c + column) / ((c + row + column + rest) * c)

    # A weight grows with the others of its row and of its column and falls with the rest. In its own
    # count it falls to where rest c^2 = row column (2 c + row + column + rest), then rises.
    def bounds(own: _Range, row: _Range, column: _Range, rest: _Range) -> tuple[Table, Table]:
        product, d = row.low * column.low, rest.high
        root = product**2 + d * product * (row.low + column.low + d)
        lowest = np.clip((product + np.sqrt(root)) / d, own.low, own.high)
        low = weight(lowest, row.low, column.low, d)
        ends = [weight(end, row.high, column.high, rest.low) for end in (own.low, own.high)]
        return low, np.maximum(*ends)

    return _group_weights(noisy, "kamiran-calders", weight, bounds)


REWEIGHINGS: dict[str, Callable[[NoisyCounts], GroupWeights]] = {
    "balanced": balanced_weights,
    "label": label_weights,
    "kamiran-calders": kamiran_calders_weights,
}


@dataclass(frozen=True)
class _Range:
    low: Table
    high: Table


def _group_weights(
    noisy: NoisyCounts,
    reweighing: str,
    weight: Callable[[Table, Table, Table, Table], Table],
    bounds: Callable[[_Range, _Range, _Range, _Range], tuple[Table, Table]],
) -> GroupWeights:
    """Apply a scheme, given as a function of each count and of what surrounds it in the table.

    Args: weight: of the count, the others of its group, the others of its label, the rest; bounds: the
    weight's extremes over ranges of these.
    """
    t = noisy.error_bound(1 - CONFIDENCE)
    lows = _surroundings(np.maximum(noisy.table - t, FLOOR))
    highs = _surroundings(np.maximum(noisy.table + t, FLOOR))
    return GroupWeights(
        domain=noisy.domain,
        noisy_counts=noisy.table,
        floored=noisy.table < FLOOR,
        weights=weight(*_surroundings(np.maximum(noisy.table, FLOOR))),
        interval=np.stack(bounds(*map(_Range, lows, highs)), axis=-1),
        reweighing=reweighing,
    )


def _surroundings(counts: Table) -> tuple[Table, Table, Table, Table]:
    """Return, for each count: itself, the others of its row, the others of its column, the rest."""
    row = counts.sum(axis=1, keepdims=True) - counts
    column = counts.sum(axis=0, keepdims=True) - counts
    return counts, row, column, counts.sum() - counts - row - column
