"""Group means and gaps from locally private reports: estimates, exact variances, valid intervals.

Source: Juarez and Korolova 2022, Definition 7, Theorem 9, Eqs. 19 and 20, derived again for any number of
groups, in the scale from -1 to 1. Symbols are those of docs/explanation/local-privacy.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from protocols.arrays import Floats, Integers
from protocols.local_dp.randomizers import Mechanism, Reports

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Tally:
    """Number of reports and sum of their values, per reported group."""

    counts: Integers
    sums: Floats

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.counts + other.counts, self.sums + other.sums)

    @property
    def clients(self) -> int:
        """All reports."""
        return int(self.counts.sum())


def tally(reports: Reports, mechanism: Mechanism) -> Tally:
    """Count reports and sum their values, from -1 to 1; raise ValueError for an unknown group."""
    d = mechanism.grr.groups
    if reports.groups.size and not 0 <= reports.groups.min() <= reports.groups.max() < d:
        raise ValueError(f"a report names a group that is none of the declared 0 to {d - 1}")
    sums = np.bincount(reports.groups, reports.values / mechanism.unit, minlength=d)
    return Tally(np.bincount(reports.groups, minlength=d), sums.astype(np.float64))


@dataclass(frozen=True)
class Estimate:
    """A mean of one group, or a gap of two, in the range's unit, with an interval.

    With known group sizes the value is unbiased. An interval that `says_something` excludes a possible value.
    """

    groups: tuple[int, ...]
    value: float
    low: float
    high: float
    says_something: bool = True


def estimate_sizes(totals: Tally, mechanism: Mechanism) -> Floats:
    """Return each group's estimated size, unbiased, shape (d,)."""
    keep, move = _grr(mechanism)
    return np.asarray((totals.counts - move * totals.clients) / (keep - move), dtype=np.float64)


def size_half_width(mechanism: Mechanism, clients: int, failure: float) -> float:
    """Return t with P(|estimated size - size| >= t) <= failure, by Hoeffding's inequality."""
    keep, move = _grr(mechanism)
    return math.sqrt(clients * math.log(2 / failure) / 2) / (keep - move)


def estimate_means(
    totals: Tally,
    mechanism: Mechanism,
    sizes: Sequence[int] | None = None,
    confidence: float = CONFIDENCE,
) -> list[Estimate]:
    """Estimate each group's mean value: sum of reported values / (a c n), n its true or estimated size.

    Sizes that do not add up to the clients raise ValueError.
    Guarantees: each interval holds with at least this confidence; that of a group that may be empty is the
    range.
    [test: tests/statistical/test_local_dp.py]
    """
    return [_in_range(mean, mechanism) for mean in _means(totals, mechanism, sizes, 1 - confidence)]


def estimate_gaps(
    totals: Tally,
    mechanism: Mechanism,
    sizes: Sequence[int] | None = None,
    confidence: float = CONFIDENCE,
) -> list[Estimate]:
    """Estimate mean of A - mean of B for all pairs A < B, signed: absolute values would be biased upwards.

    All else is as for `estimate_means`.
    """
    failure = 1 - confidence
    means = _means(totals, mechanism, sizes, failure / 2)
    gaps = []
    for a, b in combinations(means, 2):
        low, high = a.low - b.high, a.high - b.low
        value = a.value - b.value
        if sizes is not None and sizes[a.groups[0]] and sizes[b.groups[0]]:
            t = half_width(mechanism, sizes, gap_weights(sizes, a.groups[0], b.groups[0]), failure)
            low, high = value - t, value + t
        gaps.append(_in_range(Estimate((*a.groups, *b.groups), value, low, high), mechanism))
    return gaps


def mean_weights(sizes: Sequence[float], group: int) -> Floats:
    """Return the weights that estimate a group's mean."""
    return np.asarray(np.eye(len(sizes))[group] / sizes[group])


def gap_weights(sizes: Sequence[float], a: int, b: int) -> Floats:
    """Return the weights that estimate mean of a - mean of b."""
    return mean_weights(sizes, a) - mean_weights(sizes, b)


def variance(
    mechanism: Mechanism, sizes: Sequence[float], weights: Floats, mean_squares: Sequence[float] | None = None
) -> float:
    """Return the variance of the sum over groups of weight x (sum of the reported values) / (a c).

    One mean with d = 2 gives Eqs. 19 and 20. Two groups' means are uncorrelated (Theorem 9, for any d).
    `mean_squares` are E[v^2] per group, in the scale from -1 to 1; None: the worst.
    Guarantees: exact for M_R; for M_L at most 1/(4 steps^2) per kept client too large.
    [test: tests/protocols/test_local_estimates.py]
    """
    keep, move = _grr(mechanism)
    gain, total = mechanism.gain, 0.0
    worst = float(mechanism.kept_square(1.0) - mechanism.kept_square(0.0) > keep * gain**2)
    all_squares = float(np.sum(weights**2))
    for n, weight, square in zip(sizes, weights, mean_squares or [worst] * len(sizes), strict=True):
        kept = keep * mechanism.kept_square(square) - (keep * gain) ** 2 * square
        total += n * (kept * weight**2 + move * mechanism.moved_square * (all_squares - weight**2))
    return total / (keep * gain) ** 2


def half_width(mechanism: Mechanism, sizes: Sequence[float], weights: Floats, failure: float) -> float:
    """Return t with P(|estimate - truth| >= t) <= failure, whatever the values.

    Computes: Chernoff's bound, min over s > 0 of (Psi(s) + ln(2 / failure)) / s, Psi(s) a bound of the sum
    over clients of ln E[e^(s (T - E[T]))], T a client's contribution.
    Guarantees: for every n, in floating-point arithmetic.
    [test: tests/statistical/test_local_dp.py]
    """
    keep, move = _grr(mechanism)
    slopes = weights / (keep * mechanism.gain)
    most = mechanism.most_exponent / float(np.max(np.abs(slopes)))
    level = math.log(2 / failure)

    def bounds(s: Floats) -> Floats:
        moved = [mechanism.moved_moment(s * slope) - 1 for slope in slopes]
        psi = (
            n * mechanism.worst_exponent(s * slope, move * (sum(moved) - one))
            for n, slope, one in zip(sizes, slopes, moved, strict=True)
        )
        return (sum(psi, np.zeros(len(s))) + level) / s

    guess = min(math.sqrt(2 * level / variance(mechanism, sizes, weights)), most)
    return least_value(bounds, guess / 1e3, most * (1 - 1e-9))


def least_value(function: Callable[[Floats], Floats], low: float, high: float) -> float:
    """Return nearly the least value, between two points above 0, of a function with one valley."""
    for _ in range(4):
        points = np.geomspace(low, high, 25)
        values = function(points)
        at = int(np.argmin(values))
        low, high = points[max(at - 1, 0)], points[min(at + 1, len(points) - 1)]
    return float(values[at])


def least_enough(enough: Callable[[float], bool], start: float = 1.0) -> int:
    """Return a number that is enough, at most 1 % above one that is not, as half of `start` must be."""
    high = start
    while not enough(high):
        high *= 2
    low = high / 2
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.ceil(high)


def _means(
    totals: Tally, mechanism: Mechanism, sizes: Sequence[int] | None, failure: float
) -> list[Estimate]:
    """Return means in the scale from -1 to 1, with uncut intervals.

    Estimated sizes and sums each take half of the failure. The largest size in its interval gives the widest
    bound of the sum.
    """
    groups, clients = mechanism.grr.groups, totals.clients
    if sizes is not None and (len(sizes) != groups or min(sizes) < 0 or sum(sizes) != clients):
        raise ValueError(f"sizes of all {groups} groups must add up to the {clients} clients heard of")
    around, of_sum, listed = 0.0, failure, sizes
    if listed is None:
        around, of_sum = size_half_width(mechanism, clients, failure / 2), failure / 2
        listed = estimate_sizes(totals, mechanism).tolist()
    scale, means = float(mechanism.grr.keep) * mechanism.gain, []
    for g, n in enumerate(listed):
        total = float(totals.sums[g]) / scale
        value, low, high = total / n if n > 0 else math.nan, -math.inf, math.inf
        least, most = n - around, min(n + around, clients)
        if least > 0:
            others = [(clients - most) / (groups - 1)] * groups if sizes is None else list(sizes)
            others[g] = most
            t = half_width(mechanism, others, most * mean_weights(others, g), of_sum)
            low = min((total - t) / least, (total - t) / most)
            high = max((total + t) / least, (total + t) / most)
        means.append(Estimate((g,), value, low, high))
    return means


def _in_range(estimate: Estimate, mechanism: Mechanism) -> Estimate:
    declared, most = mechanism.declared, float(len(estimate.groups))
    shift = declared.center if len(estimate.groups) == 1 else 0.0
    low, high = min(max(estimate.low, -most), most), max(min(estimate.high, most), -most)
    return Estimate(
        estimate.groups,
        shift + declared.radius * estimate.value,
        shift + declared.radius * low,
        shift + declared.radius * high,
        low > -most or high < most,
    )


def _grr(mechanism: Mechanism) -> tuple[float, float]:
    return float(mechanism.grr.keep), float(mechanism.grr.move)
