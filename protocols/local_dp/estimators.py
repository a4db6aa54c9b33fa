"""Group means and gaps from locally private reports: estimates, their variances, and valid intervals.

Source: Juarez and Korolova 2022, Definition 7, Theorem 9, Eqs. 19 and 20, derived again for any number of
groups, in the scale from -1 to 1. Symbols are as in docs/explanation/local-privacy.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.local_dp.randomizers import Mechanism, Reports

CONFIDENCE = 0.95


@dataclass(frozen=True)
class ReportTally:
    """All reports, added up by reported group.

    Attributes:
        counts: The number of reports, shape (d,).
        sums: The sum of the reported values, in the scale from -1 to 1, shape (d,).
    """

    counts: Integers
    sums: Floats

    def __add__(self, other: "ReportTally") -> "ReportTally":
        return ReportTally(self.counts + other.counts, self.sums + other.sums)

    @property
    def clients(self) -> int:
        """The number of clients: each sends one report."""
        return int(self.counts.sum())


def tally(reports: Reports, mechanism: Mechanism) -> ReportTally:
    """Count reports and sum their values.

    Args:
        reports: The clients' reports.
        mechanism: The mechanism that the clients reported by.
    Returns:
        Counts and sums by group, the sums in the scale from -1 to 1.
    Raises:
        ValueError: A report is of an unknown group.
    """
    d = mechanism.grr.groups
    if reports.groups.size and not 0 <= reports.groups.min() <= reports.groups.max() < d:
        raise ValueError(f"a report names a group that is none of the declared 0 to {d - 1}")
    sums = np.bincount(reports.groups, reports.values / mechanism.unit, minlength=d)
    return ReportTally(np.bincount(reports.groups, minlength=d), sums.astype(np.float64))


@dataclass(frozen=True)
class Estimate:
    """The mean of a group, or the gap of two groups' means, with an interval, in the declared range's unit.

    With known group sizes the value is unbiased.

    Attributes:
        groups: The number of the group, or of both groups.
        value: The estimate.
        low: The lower end of the interval.
        high: The upper end of the interval.
        says_something: Whether the interval excludes a value that is possible.
    """

    groups: tuple[int, ...]
    value: float
    low: float
    high: float
    says_something: bool = True


def estimate_sizes(totals: ReportTally, mechanism: Mechanism) -> Floats:
    """Return each group's estimated size, unbiased.

    Args:
        totals: All reports, added up.
        mechanism: The mechanism that the clients reported by.
    Returns:
        Numbers of clients, shape (d,); some may be negative.
    """
    keep, move = _grr(mechanism)
    return np.asarray((totals.counts - move * totals.clients) / (keep - move), dtype=np.float64)


def size_half_width(mechanism: Mechanism, clients: int, failure: float) -> float:
    """Return t with P(|estimated size - size| >= t) <= failure, by Hoeffding's inequality.

    Args:
        mechanism: The mechanism that the clients reported by.
        clients: The number of clients.
        failure: The probability that the interval fails, above 0 and below 1.
    Returns:
        t, in clients.
    """
    keep, move = _grr(mechanism)
    return math.sqrt(clients * math.log(2 / failure) / 2) / (keep - move)


def estimate_means(
    totals: ReportTally,
    mechanism: Mechanism,
    sizes: Sequence[int] | None = None,
    confidence: float = CONFIDENCE,
) -> list[Estimate]:
    """Estimate each group's mean value.

    Computes: the sum of reported values over a c n, where n is the group's true or estimated size.
    Guarantees: each interval holds with at least this confidence. For a group that may be empty, the interval
    is the whole declared range.
    [test: tests/statistical/test_local_dp.py]

    Args:
        totals: All reports, added up.
        mechanism: The mechanism that the clients reported by.
        sizes: The number of clients of each group, if they are known; else they are estimated.
        confidence: The confidence of each interval, above 0 and below 1.
    Returns:
        The means, in the declared range's unit, in the order of the groups.
    Raises:
        ValueError: The sizes do not add up to the number of clients.
    """
    return [_in_range(mean, mechanism) for mean in _means(totals, mechanism, sizes, 1 - confidence)]


def estimate_gaps(
    totals: ReportTally,
    mechanism: Mechanism,
    sizes: Sequence[int] | None = None,
    confidence: float = CONFIDENCE,
) -> list[Estimate]:
    """Estimate mean of A - mean of B for all pairs of groups A < B.

    Gaps have signs, because absolute values would be biased upwards.

    Guarantees: as `estimate_means`.

    Args: as in `estimate_means`.
    Returns:
        The gaps, in the declared range's unit.
    Raises: as in `estimate_means`.
    """
    failure = 1 - confidence
    means = _means(totals, mechanism, sizes, failure / 2)
    gaps = []
    for a, b in combinations(means, 2):
        low = a.low - b.high
        high = a.high - b.low
        value = a.value - b.value
        if sizes is not None and sizes[a.groups[0]] and sizes[b.groups[0]]:
            t = half_width(mechanism, sizes, gap_weights(sizes, a.groups[0], b.groups[0]), failure)
            low = value - t
            high = value + t
        gaps.append(_in_range(Estimate((*a.groups, *b.groups), value, low, high), mechanism))
    return gaps


def mean_weights(sizes: Sequence[float], group: int) -> Floats:
    """Return the weights that estimate a group's mean.

    Args:
        sizes: The number of clients of each group, above 0 for this group.
        group: The group's number.
    Returns:
        A weight for each group, shape (d,).
    """
    return np.asarray(np.eye(len(sizes))[group] / sizes[group])


def gap_weights(sizes: Sequence[float], a: int, b: int) -> Floats:
    """Return the weights that estimate mean of a - mean of b.

    Args:
        sizes: The number of clients of each group, above 0 for both groups.
        a: The first group's number.
        b: The second group's number.
    Returns:
        A weight for each group, shape (d,).
    """
    return mean_weights(sizes, a) - mean_weights(sizes, b)


def variance(
    mechanism: Mechanism, sizes: Sequence[float], weights: Floats, mean_squares: Sequence[float] | None = None
) -> float:
    """Return the variance of the sum over groups of weight x (sum of the reported values) / (a c).

    For one mean and d = 2 these are Eqs. 19 and 20. Two groups' means are uncorrelated (Theorem 9, for any
    d).

    Guarantees: exact for M_R; for M_L at most 1/(4 steps^2) per kept client too large.
    [test: tests/protocols/test_local_estimates.py]

    Args:
        mechanism: The mechanism that the clients report by.
        sizes: The number of clients of each group.
        weights: The weight of each group, as from `mean_weights` or `gap_weights`.
        mean_squares: E[v^2] of each group, in the scale from -1 to 1; None for the worst.
    Returns:
        The variance, in the scale from -1 to 1.
    """
    keep, move = _grr(mechanism)
    gain = mechanism.gain
    total = 0.0
    worst = float(mechanism.kept_square(1.0) - mechanism.kept_square(0.0) > keep * gain**2)
    all_squares = float(np.sum(weights**2))
    for n, weight, square in zip(sizes, weights, mean_squares or [worst] * len(sizes), strict=True):
        kept = keep * mechanism.kept_square(square) - (keep * gain) ** 2 * square
        total += n * (kept * weight**2 + move * mechanism.moved_square * (all_squares - weight**2))
    return total / (keep * gain) ** 2


def half_width(mechanism: Mechanism, sizes: Sequence[float], weights: Floats, failure: float) -> float:
    """Return t with P(|estimate - truth| >= t) <= failure, whatever the values.

    Computes: Chernoff's bound, the minimum over s > 0 of (Psi(s) + ln(2 / failure)) / s. Psi(s) is a bound of
    the sum over clients of ln E[e^(s (T - E[T]))], where T is a client's contribution.
    Guarantees: holds for every number of clients, up to floating-point rounding.
    [test: tests/statistical/test_local_dp.py]

    Args:
        mechanism: The mechanism that the clients report by.
        sizes: The number of clients of each group.
        weights: The weight of each group, as from `mean_weights` or `gap_weights`.
        failure: The probability that the interval fails, above 0 and below 1.
    Returns:
        t, in the scale from -1 to 1.
    """
    keep, move = _grr(mechanism)
    slopes = weights / (keep * mechanism.gain)
    most = mechanism.most_exponent / float(np.max(np.abs(slopes)))
    level = math.log(2 / failure)

    def bounds(s: Floats) -> Floats:
        moved = [mechanism.moved_moment(s * slope) - 1 for slope in slopes]
        psi = (
            n * mechanism.worst_exponent(s * slope, move * (sum(moved) - moved_to_group))
            for n, slope, moved_to_group in zip(sizes, slopes, moved, strict=True)
        )
        return (sum(psi, np.zeros(len(s))) + level) / s

    guess = min(math.sqrt(2 * level / variance(mechanism, sizes, weights)), most)
    return least_value(bounds, guess / 1e3, most * (1 - 1e-9))


def least_value(function: Callable[[Floats], Floats], low: float, high: float) -> float:
    """Return nearly the least value of a function with one valley, between two points.

    Args:
        function: The function, of an array of points.
        low: The lower point, above 0.
        high: The upper point.
    Returns:
        The value, never below the least.
    """
    for _ in range(4):
        points = np.geomspace(low, high, 25)
        values = function(points)
        at = int(np.argmin(values))
        low = points[max(at - 1, 0)]
        high = points[min(at + 1, len(points) - 1)]
    return float(values[at])


def _means(
    totals: ReportTally, mechanism: Mechanism, sizes: Sequence[int] | None, failure: float
) -> list[Estimate]:
    """Return means in the scale from -1 to 1, with uncut intervals.

    If sizes are estimated, an interval of the size and an interval of the sum of values each fail with half
    of the probability. The largest size in its interval gives the widest bound of the sum.
    """
    groups = mechanism.grr.groups
    clients = totals.clients
    if sizes is not None and (len(sizes) != groups or min(sizes) < 0 or sum(sizes) != clients):
        raise ValueError(f"sizes of all {groups} groups must add up to the {clients} clients heard of")
    listed: Sequence[float]
    if sizes is None:
        size_error = size_half_width(mechanism, clients, failure / 2)
        failure_of_sum = failure / 2
        listed = estimate_sizes(totals, mechanism).tolist()
    else:
        size_error = 0.0
        failure_of_sum = failure
        listed = sizes
    scale = float(mechanism.grr.keep) * mechanism.gain
    means = []
    for group, size in enumerate(listed):
        total = float(totals.sums[group]) / scale
        value = total / size if size > 0 else math.nan
        low = -math.inf
        high = math.inf
        least = size - size_error
        most = min(size + size_error, clients)
        if least > 0:
            all_sizes: list[float]
            if sizes is None:
                all_sizes = [(clients - most) / (groups - 1)] * groups
            else:
                all_sizes = list(sizes)
            all_sizes[group] = most
            t = half_width(mechanism, all_sizes, most * mean_weights(all_sizes, group), failure_of_sum)
            low = min((total - t) / least, (total - t) / most)
            high = max((total + t) / least, (total + t) / most)
        means.append(Estimate((group,), value, low, high))
    return means


def _in_range(estimate: Estimate, mechanism: Mechanism) -> Estimate:
    """Return an estimate in the declared range's unit, its interval cut to possible values."""
    declared = mechanism.declared
    is_mean = len(estimate.groups) == 1
    most = 1.0 if is_mean else 2.0  # the largest possible value in the scale from -1 to 1
    shift = declared.center if is_mean else 0.0
    low = min(max(estimate.low, -most), most)
    high = max(min(estimate.high, most), -most)
    return Estimate(
        groups=estimate.groups,
        value=shift + declared.radius * estimate.value,
        low=shift + declared.radius * low,
        high=shift + declared.radius * high,
        says_something=low > -most or high < most,
    )


def _grr(mechanism: Mechanism) -> tuple[float, float]:
    """Return the probabilities that a client's group is kept, and that it moves to a given other group."""
    return float(mechanism.grr.keep), float(mechanism.grr.move)
