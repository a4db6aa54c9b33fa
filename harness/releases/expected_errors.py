"""How far off a release would be, from its noise's exact variance, for records of declared shares.

To first order in noise over counts: where that says a tenth or more, there is too much noise to say more than
that. Nothing here sees a record.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from harness.inputs.contribution_bounds import scale_of
from harness.inputs.record_schema import RecordDomain
from harness.postprocessing.curves import CurveNoise
from protocols.arrays import Floats
from protocols.circuits.weights import BALANCED, KAMIRAN_CALDERS, LABEL
from protocols.guarantee import Guarantee
from protocols.mechanisms.shifted_log import ErrorTarget, ShiftedLog
from protocols.noise.added import Noise, mean_square_error

FIRST_ORDER = 0.1  # errors above it are only known to be large
_DRAWS = 20_000  # of the groups' errors, for the gap that they make
_SEED = 20_220_524  # any; fixed, so that a plan can be repeated


@dataclass(frozen=True)
class ExpectedError:
    """The errors to expect, as root mean squares over the noise.

    Attributes: count: of an opened count, in records; of score curves, of the records at or above a
    threshold; of performance values, of a group's size in clients; what: what `each` is an error of; each: by
    group, and label where it has one; gap: mean difference between groups that are alike, None for weights;
    epochs: of a series, whose last epoch all else is of, `count` and the worst of `each` after every epoch,
    where as many records arrive in each.
    """

    count: float
    what: str
    each: Mapping[str, float]
    gap: float | None = None
    epochs: tuple[tuple[float, float], ...] = ()

    @property
    def worst(self) -> float:
        """The largest of these errors."""
        return max(self.each.values())

    @property
    def known(self) -> bool:
        """Whether the noise is small enough for these figures to mean what they say."""
        return self.worst <= FIRST_ORDER

    def records_for(self, records: int, error: float) -> int:
        """Return how many records it takes for the worst error to be this: it falls as records rise."""
        return math.ceil(records * self.worst / error)


@dataclass(frozen=True)
class ExpectedCap:
    """What is known of a cap before it is chosen.

    Attributes: caps: to choose from; above: how many clients may exceed it at most; noise: by how many
    clients noise moves a comparison at most, with probability `contribution_cap.CONFIDENCE`.
    """

    caps: tuple[int, ...]
    above: int
    noise: int


@dataclass(frozen=True)
class ExpectedCount:
    """What to expect of one count. Attributes: error: relative to it, E|estimate - records| / records."""

    records: float
    error: float
    guarantee: Guarantee


@dataclass(frozen=True)
class ExpectedCounts:
    """What to expect of counts with a relative error: each by group and label."""

    each: Mapping[str, ExpectedCount]
    law: ShiftedLog
    target: ErrorTarget


def deviation(noise: Noise, domain: RecordDomain) -> float:
    """Return the root mean square of one value's noise, in records, or in clients that weigh 1 in all."""
    return math.sqrt(mean_square_error(noise)) / scale_of(domain.cap)


def by_cell(domain: RecordDomain, values: Floats) -> dict[str, float]:
    """Return the values by the names of their cells. Args: values: shape (groups, labels)."""
    names = [", ".join(pair) for pair in product(domain.groups, domain.labels)]
    return dict(zip(names, values.ravel().tolist(), strict=True))


def weight_errors(counts: Floats, reweighing: str) -> Floats:
    """Return the relative errors of weights, for noise of variance 1 in each count.

    Computes: the logarithms of a weight's counts, differentiated by all counts: balanced N / C(s, y), label
    N / C(y), Kamiran-Calders C(s) C(y) / (N C(s, y)).
    Args: counts: shape (k, m). Returns: of the same shape.
    [test: tests/harness/releases/test_expected_errors.py]
    """
    groups, labels = counts.shape
    everything = np.ones((groups, labels) * 2) / counts.sum()
    same_group = np.eye(groups)[:, np.newaxis, :, np.newaxis] + np.zeros((1, labels, 1, labels))
    same_label = np.eye(labels)[np.newaxis, :, np.newaxis, :] + np.zeros((groups, 1, groups, 1))
    own = same_group * same_label / counts[:, :, np.newaxis, np.newaxis]
    of_group = same_group / counts.sum(axis=1)[:, np.newaxis, np.newaxis, np.newaxis]
    of_label = same_label / counts.sum(axis=0)[np.newaxis, :, np.newaxis, np.newaxis]
    changes = {
        BALANCED: everything - own,
        LABEL: everything - of_label,
        KAMIRAN_CALDERS: of_group + of_label - everything - own,
    }
    return np.asarray(np.sqrt((changes[reweighing] ** 2).sum(axis=(2, 3))))


def rate_errors(sizes: Floats, labels: int) -> Floats:
    """Return the errors of the rates of predictions, for noise of variance 1 in each count.

    Computes: a rate p is a count over its row's sum; all predictions are as frequent.
    Args: sizes: records of each group and label, shape (k, m). Returns: of the same shape.
    """
    p = 1 / labels
    return np.asarray(math.sqrt((1 - p) ** 2 + (labels - 1) * p**2) / sizes)


def curve_errors(noise: CurveNoise, sizes: Floats) -> Floats:
    """Return the errors of true and false positive rates, over all thresholds.

    Computes: a rate p is a count over the total, both linear in the nodes' noise; p falls evenly along the
    thresholds. Making curves monotone afterwards only brings them nearer.
    Args: sizes: records of each group and label, shape (k, 2). Returns: of the same shape.
    [test: tests/harness/releases/test_expected_errors.py]
    """
    above, total = noise.linear[:-1], noise.linear[-1:]
    rates = 1 - np.arange(len(above)) / len(above)
    rows = above - rates[:, np.newaxis] * total
    spread = math.sqrt(float(mean_square_error(noise.node)) * float((rows**2).sum(axis=1).mean()))
    return np.asarray(spread / sizes)


def mean_errors(sizes: Floats, steps: int) -> Floats:
    """Return the errors of groups' mean values, as shares of the range, for noise of variance 1.

    Computes: a mean is a sum over `steps` times a size; it is furthest off at an end of the range.
    Args: sizes: in clients, of any shape, which is the errors'; steps: on either side of the range's centre.
    """
    return np.asarray(math.sqrt(2) / (2 * steps * sizes))


def expected_gap(errors: Floats) -> float:
    """Return the mean largest difference between two groups that are alike, in the worse of their rates.

    Computes: Gaussian errors that are independent, by simulation with a fixed seed.
    Args: errors: shape (k, rates).  [test: tests/harness/releases/test_expected_errors.py]
    """
    drawn = np.random.default_rng(_SEED).standard_normal((_DRAWS, *errors.shape)) * errors
    return float(np.ptp(drawn, axis=1).max(axis=-1).mean())
