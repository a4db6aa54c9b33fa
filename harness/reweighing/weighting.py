"""The interface of a weighting: weights per group and label from counts, and their intervals."""

from abc import ABC, abstractmethod

import numpy as np

from fairshares.harness.reweighing.count_errors import CountsNoise, CountTable
from fairshares.harness.reweighing.intervals import ratio_intervals

_STEP = 1e-4  # a share of a count; the errors' own error is of the order of its square


def sums(counts: CountTable, *axes: int) -> CountTable:
    """Return the counts' sums over these axes, which stay as axes of length 1."""
    return np.asarray(counts.sum(axis=axes, keepdims=True))


class Weighting(ABC):
    """A formula of weights, by which a group and label with few records counts more or less.

    Counts are positive: noisy counts are raised to 1 before.
    """

    @abstractmethod
    def of_counts(self, counts: CountTable) -> CountTable:
        """Return the weights of tables of counts, shape (..., groups, labels), as the counts are."""

    @abstractmethod
    def intervals(self, counts: CountTable, noise: CountsNoise) -> CountTable:
        """Return each weight's interval from one table of noisy counts, shape (groups, labels, 2).

        Guarantees: each interval holds the weight of the true counts, raised to 1 as the noisy counts are,
        with probability at least 95 %.
        [test: tests/statistical/test_weight_intervals.py]
        """

    def relative_errors(self, counts: CountTable) -> CountTable:
        """Return the weights' relative errors, shape (groups, labels), for a variance of 1 in each count.

        Computes: the derivatives of the weights' logarithms by all counts, by central differences. Errors are
        to the first order of noise over counts.
        [test: tests/harness/releases/test_expected_errors.py]
        """
        variance = np.zeros_like(counts)
        for cell in np.ndindex(counts.shape):
            step = np.zeros_like(counts)
            step[cell] = _STEP * counts[cell]
            change = np.log(self.of_counts(counts + step)) - np.log(self.of_counts(counts - step))
            variance += (change / (2 * step[cell])) ** 2
        return np.asarray(np.sqrt(variance))


class OverOneSum(Weighting):
    """N / (n D), for the total N and one of n sums D of counts, each count being in one of them."""

    @abstractmethod
    def divisors(self, counts: CountTable) -> CountTable:
        """Return the sums, shape (..., groups or 1, labels or 1)."""

    def of_counts(self, counts: CountTable) -> CountTable:
        divisors = self.divisors(counts)
        number = divisors.shape[-2] * divisors.shape[-1]
        return np.broadcast_to(sums(counts, -2, -1) / (number * divisors), counts.shape).copy()

    def intervals(self, counts: CountTable, noise: CountsNoise) -> CountTable:
        """Return intervals of (1 + ratio) / n, for the ratio of all other counts to the sum."""
        shape = self.divisors(counts).shape
        places = np.arange(shape[0] * shape[1])
        divisor_of = np.broadcast_to(places.reshape(shape), counts.shape)  # the place of each count's divisor
        own = divisor_of == places[:, np.newaxis, np.newaxis]
        intervals = (1 + ratio_intervals(counts, own, ~own, noise)) / places.size
        return np.broadcast_to(intervals.reshape((*shape, 2)), (*counts.shape, 2)).copy()
