"""Sample weights and their intervals, computed in the clear from differentially private counts, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib import import_module

import numpy as np
import numpy.typing as npt

from fairshares.harness.inputs.record_schema import RecordDomain, scale_of
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts
from fairshares.harness.reweighing.count_errors import FLOOR, CountTable, noise_of
from fairshares.harness.reweighing.names import weighting_names
from fairshares.harness.reweighing.weighting import Weighting
from fairshares.protocols.noise.added import Noise


@dataclass(frozen=True)
class GroupWeights:
    """A sample weight per (group, label), and tables of that shape.

    Attributes:
        noisy_counts: The noisy counts, before the floor.
        floored: The places where the floor raised a noisy count.
        interval: Each weight's interval, which by itself holds the weight with probability at least
            `confidence`.
    """

    domain: RecordDomain
    noisy_counts: CountTable
    floored: npt.NDArray[np.bool_]
    weights: CountTable
    interval: CountTable
    reweighing: str
    confidence: Fraction = CONFIDENCE

    @property
    def unit(self) -> int:
        """The count of a client: 1, or the scale of clients that weigh 1."""
        return scale_of(self.domain.cap)


def weighting_of(name: str) -> Weighting:
    """Return the weighting of this name, one of `weighting_names`."""
    module = import_module(f"fairshares.harness.reweighing.weightings.{name.replace('-', '_')}")
    weighting: Weighting = module.WEIGHTING
    return weighting


def weights_of_counts(counts: CountTable, reweighing: str) -> CountTable:
    """Return the weights of noisy counts, shape (..., groups, labels)."""
    return weighting_of(reweighing).of_counts(np.maximum(counts, FLOOR))


def count_intervals(counts: CountTable, reweighing: str, of_count: Noise) -> CountTable:
    """Return each weight's interval from noisy counts raised to 1, shape (groups, labels, 2).

    `of_count` is the noise of each count.

    Guarantees: each holds its weight with probability at least 95 %.
    [test: tests/statistical/test_weight_intervals.py]
    """
    return weighting_of(reweighing).intervals(counts, noise_of(of_count, counts))


def group_weights(reweighing: str, noisy: NoisyCounts) -> GroupWeights:
    """Weigh each group and label by a formula of docs/how-to/reweighing.md.

    Source: PrivFairFL, Protocol 2, without the floor; each weighting names its own.
    Guarantees: each interval holds the weight of the true counts, floored as the noisy counts are, with
    probability at least 95 %.
    [test: tests/statistical/test_weight_intervals.py]
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
    name: partial(group_weights, name) for name in weighting_names()
}
