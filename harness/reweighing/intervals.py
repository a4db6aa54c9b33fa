"""Intervals of ratios of sums of noisy counts, and of shares.

Intervals of ratios are of true counts raised to 1, as noisy counts are. Raising moves no two counts apart, so
the error F of a raised noisy count lies between 0 and its error E without raising. A count that is surely too
large to be raised has F = E. The positive part of E bounds F of any other count. A sum has the errors of its
own counts. [why: docs/decisions/0085-intervals.md]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fairshares.protocols.arrays import Bools
from fairshares.protocols.noise.added import (
    Distribution,
    Noise,
    error_bound,
    partly_positive_sum,
)

CountTable = npt.NDArray[np.float64]

CONFIDENCE = Fraction(95, 100)
FLOOR = 1.0
FAILURE = float(1 - CONFIDENCE)
RAISED_FAILURE = FAILURE / 100  # chance that any count is raised although it is taken as surely not raised
CAP_FAILURE = FAILURE / 100  # chance that the bound on a ratio with an unknown divisor fails
_BETWEEN = 1 / 200  # part of a failure, per side, for ratios between two points of the grid
_PLACES = 4096  # points of the grid on which weighted sums are added up
_RARELY_RAISED = 1e-4  # chance that a count is raised that is taken with all larger ones
_COUNTS = 64  # cells of smaller ones
FINE_PLACES = 16384  # the same, of sums beside a count that is raised
_ROUNDING = 1e-12  # error in mass of the Fourier transforms
_GROWTH = 1 + 1 / 128  # from one point of the grid of ratios to the next
_TINY = 1e-12
_BLOCK = 64  # points of the grid of ratios that are computed together


@dataclass(frozen=True)
class Terms:
    """How many counts are in a sum.

    Attributes:
        sure: The counts that are surely not raised.
        doubtful: The counts that may be raised.
    """

    sure: int
    doubtful: int = 0

    @property
    def number(self) -> int:
        """How many counts there are in all."""
        return self.sure + self.doubtful


@dataclass(frozen=True, eq=False)
class CountsNoise:
    """The noise of a table of counts.

    Attributes:
        of_count: The noise of each count.
        doubtful: Whether a count may be raised to the floor, by cell.
    """

    of_count: Noise
    doubtful: Bools

    def terms(self, cells: Bools) -> Terms:
        """Return how many counts are in the sum of these cells, a table of the shape of `doubtful`."""
        doubtful = int((self.doubtful & cells).sum())
        return Terms(int(cells.sum()) - doubtful, doubtful)


def error_of_sum(noise: Noise, terms: Terms) -> Distribution:
    """Return a two-sided bound on the error of a sum of raised noisy counts, each with this noise."""
    return partly_positive_sum(noise, terms.sure, terms.doubtful)


def noise_of(of_count: Noise, counts: CountTable) -> CountsNoise:
    """Return the noise of a table of noisy counts.

    If |E| <= T for all counts, a noisy count above 2 T + 1 stands for a true count above T + 1, which is not
    raised. All other counts are doubtful. Some of them are never raised. A doubtful count makes intervals
    wider, so it does no harm that the noise has a say in which counts are doubtful.
    """
    furthest = float(error_bound(of_count, Fraction(RAISED_FAILURE) / counts.size))
    return CountsNoise(of_count, counts <= 2 * furthest + 1)


def ratio_intervals(counts: CountTable, own: Bools, others: Bools, noise: CountsNoise) -> CountTable:
    """Return intervals of ratios B/A, each of two sums of raised true counts, shape (ratios, 2).

    Guarantees: each holds its ratio with probability at least 95 %.
    [test: tests/harness/reweighing/test_weight_intervals.py]

    Args:
        counts: The noisy counts, raised to 1, shape (groups, labels).
        own: Which cells the sum A is of, shape (ratios, groups, labels).
        others: Which cells the sum B is of, likewise. No cell is in both sums of a ratio.
        noise: The noise of the counts.
    """
    a = (own * counts).sum(axis=(1, 2))
    b = (others * counts).sum(axis=(1, 2))
    alike: dict[tuple[Terms, Terms], list[int]] = {}  # places of ratios whose sums have the same errors
    for place, cells in enumerate(zip(own, others, strict=True)):
        alike.setdefault((noise.terms(cells[0]), noise.terms(cells[1])), []).append(place)
    intervals = np.empty((len(own), 2))
    for (terms, other_terms), places in alike.items():
        largest = b[places] + error_of_sum(noise.of_count, other_terms).quantile(CAP_FAILURE)
        sums = _Sums(noise.of_count, terms, other_terms)
        most = largest / (terms.number * FLOOR)
        intervals[places] = _ratio_intervals(b[places] / a[places], a[places], sums, most, FAILURE)
    return intervals


@dataclass(frozen=True)
class _Sums:
    """Two sums of counts, A and B, by the noise of each count and the numbers of counts."""

    of_count: Noise
    terms: Terms
    other_terms: Terms

    @property
    def error(self) -> Distribution:
        """A bound on the error of A."""
        return error_of_sum(self.of_count, self.terms)

    @property
    def other_error(self) -> Distribution:
        """A bound on the error of B."""
        return error_of_sum(self.of_count, self.other_terms)


def _ratio_intervals(
    ratio: CountTable, own: CountTable, sums: _Sums, most: CountTable, failure: float
) -> CountTable:
    """Return, for each noisy ratio b/a, an interval of the ratio B/A, shape (ratios, 2).

    `ratio` is b/a, `own` is a, and `most` bounds each ratio.
    Computes: Fieller's region. For each true ratio r, the noisy sums have b - r a = F_B - r F_A, within the
    exact quantile q(r) of that sum. Between points r < s of a grid, q is at most q(r) + (s - r) t, with t a
    quantile of F_A.
    Guarantees: holds B/A with probability at least 1 - failure.
    """
    main = _main(failure)
    t = sums.error.quantile(main / 2)
    u = sums.other_error.quantile(main / 2)
    # q(r) <= u + r t for all r, so that no ratio outside start and end is possible.
    start = np.maximum(0, (ratio * own - u) / (own + t))
    with np.errstate(divide="ignore"):
        end = np.where(own > t, (ratio * own + u) / np.maximum(own - t, 0), np.inf)
    end = np.maximum(np.minimum(end, most), ratio)
    grid, q = _grid(sums, main, float(start.min()), float(end.max()))
    half_width = q / own[:, np.newaxis]
    lower = np.maximum(grid[:-1], ratio[:, np.newaxis] - half_width)
    upper = np.minimum(grid[1:], ratio[:, np.newaxis] + half_width)
    is_possible = lower <= upper
    least = np.where(is_possible, lower, np.inf).min(axis=1)
    largest = np.where(is_possible, upper, 0).max(axis=1)
    return np.stack([np.clip(least, 0, ratio), np.clip(largest, ratio, end)], axis=-1)


def share_intervals(
    a: CountTable, b: CountTable, terms: tuple[int, int], noise: Noise, failure: float = FAILURE
) -> CountTable:
    """Return, for each pair of noisy sums a and b of `terms` counts, an interval of the true A/(A + B).

    The larger sum is the divisor of a ratio, from whose interval that of the share follows. Where the larger
    sum may be 0, the interval is [0, 1].
    Guarantees: each holds its share with probability at least 1 - failure.
    [test: tests/statistical/test_intervals.py]
    """
    of_a = Terms(terms[0])
    of_b = Terms(terms[1])
    intervals = np.tile([0.0, 1.0], (*a.shape, 1))
    above_noise = a > error_of_sum(noise, of_a).quantile(_main(failure) / 2)
    certain = above_noise & (a >= b)
    if certain.any():
        share = _shares_of_larger(a[certain], b[certain], _Sums(noise, of_a, of_b), failure)
        intervals[certain] = share
    above_noise = b > error_of_sum(noise, of_b).quantile(_main(failure) / 2)
    certain = above_noise & (b > a)
    if certain.any():
        share = _shares_of_larger(b[certain], a[certain], _Sums(noise, of_b, of_a), failure)
        intervals[certain] = 1 - share[:, ::-1]
    return intervals


def _shares_of_larger(larger: CountTable, smaller: CountTable, sums: _Sums, failure: float) -> CountTable:
    """Return intervals of the shares of larger sums; shape (sums, 2)."""
    ratio = np.maximum(smaller, 0) / larger
    unbounded = np.full(larger.shape, np.inf)
    ratios = _ratio_intervals(ratio, larger, sums, unbounded, failure)
    return (1 / (1 + ratios))[:, ::-1]


class WeightedSums:
    """The distributions of weighted sums of independent errors, each row of weights on a grid of its own.

    Computes: values are rounded to the grid, and the masses on it are convolved by Fourier transforms.
    """

    def __init__(
        self, distributions: Sequence[Distribution], factors: CountTable, places: int = _PLACES
    ) -> None:
        """Add up the errors.

        Args:
            distributions: The errors' distributions.
            factors: Weights >= 0, shape (rows, errors).
            places: The points of a grid.
        """
        widths = [distribution.step * distribution.masses.size for distribution in distributions]
        self._steps = factors @ widths / (places - 2 * len(widths))
        self._first = np.zeros(len(factors))  # the place on its grid where a row's sum begins
        waves = np.ones((len(factors), places // 2 + 1), dtype=np.complex128)
        for distribution, column in zip(distributions, factors.T, strict=True):
            at = np.rint((column / self._steps)[:, np.newaxis] * distribution.values).astype(np.int64)
            waves *= np.fft.rfft([np.bincount(row - row[0], distribution.masses, places) for row in at])
            self._first += at[:, 0]
        self._beyond = np.cumsum(np.fft.irfft(waves)[:, ::-1], axis=1)[:, ::-1]  # at a place or above
        self._lost = sum(distribution.lost for distribution in distributions)
        slacks = [distribution.slack for distribution in distributions]
        self._slack = len(widths) * self._steps / 2 + factors @ slacks

    def quantiles(self, failure: float | CountTable) -> CountTable:
        """Return a quantile of each row's sum, rounded up; infinite where more mass is lost than allowed.

        `failure` is for all rows, or one for each.
        """
        allowed = np.broadcast_to(failure, self._steps.shape) * (1 - 1e-9) - self._lost - _ROUNDING
        places = self._beyond.shape[1]
        last = places - 1 - np.argmax((self._beyond > allowed[:, np.newaxis])[:, ::-1], axis=1)
        found = (self._first + last) * self._steps + self._slack
        return np.where(allowed > 0, found, np.inf)

    def above(self, points: CountTable) -> CountTable:
        """Return bounds on the probability that each row's sum is above its points, shape (rows, points)."""
        places = self._beyond.shape[1]
        at = np.floor((points - self._slack[:, np.newaxis]) / self._steps[:, np.newaxis])
        at = (at - self._first[:, np.newaxis]).astype(np.int64)
        found = np.take_along_axis(self._beyond, np.clip(at, 0, places - 1), axis=1)
        bounded = np.where(at >= places, 0.0, np.where(at < 0, 1.0, found))
        return np.asarray(np.minimum(bounded + self._lost + _ROUNDING, 1.0))


def quantiles_of_sums(
    distributions: Sequence[Distribution], factors: CountTable, failure: float
) -> CountTable:
    """Return, per row of factors >= 0, a quantile of the weighted sum, rounded up."""
    return WeightedSums(distributions, factors).quantiles(failure)


def quantiles_beside_raised(
    others: WeightedSums, raised: Distribution, factors: CountTable, reach: CountTable, failure: float
) -> CountTable:
    """Return quantiles z of sums of other errors, for the side that a raised count cannot move a weight to.

    A doubtful count has the true value n, is raised to 1 if its noise E is 1 - n or less, and then its error
    is at most 0. With S the sum of all other errors, c the factor and F the count's error, an interval with
    the reach z on that side if the count is raised, and else Q, and with Q on the other side, is missed with
    probability P(raised) P(S > z) + P(not raised, S + c F > Q) + P(S + c F < -Q).

    Computes: the largest P(S > z) for which this is at most `failure` for all n. Nothing is assumed of n.

    Args:
        others: The sums S, symmetric; a row for each reach.
        raised: The distribution of E, symmetric.
        factors: c, shape (rows,).
        reach: Q, likewise.
        failure: That of both ends.
    """
    errors = raised.values
    masses = raised.masses
    chance = np.full(len(factors), np.inf)
    edge = np.ceil(raised.quantile(_RARELY_RAISED))
    spread = max(1.0, np.ceil(edge / _COUNTS))  # at a large epsilon a raised count has hardly any error
    fewest = np.arange(0, edge + spread, spread)
    most_of = np.append(fewest[1:] - 1, np.inf)
    for least, most in [(-1.0, -1.0), *zip(fewest.tolist(), most_of.tolist(), strict=True)]:
        # The true count is 1 + least to 1 + most, or 0.
        floor = 1.0 if least < 0 else -most
        moved = np.maximum(errors, floor) - max(0.0, floor)
        is_raised = errors - raised.slack <= (1.0 if least < 0 else -least)
        not_raised = errors + raised.slack > floor
        up = others.above(reach[:, np.newaxis] - factors[:, np.newaxis] * (moved + raised.slack))
        down = others.above(reach[:, np.newaxis] + factors[:, np.newaxis] * (moved - raised.slack))
        rest = (up * not_raised + down) @ masses + 2 * raised.lost
        raised_mass = masses[is_raised].sum() + raised.lost
        if raised_mass > 0:
            chance = np.minimum(chance, (failure - rest) / raised_mass)
    return np.where(chance > 0, others.quantiles(np.clip(chance, 0, 1)), np.inf)


def _main(failure: float) -> float:
    """Return the part of a failure, per side, that is for ratios on the grid."""
    return failure * (0.98 / 2 - _BETWEEN)


def _grid(sums: _Sums, failure: float, start: float, end: float) -> tuple[CountTable, CountTable]:
    """Return points of the grid of ratios that cover start to end, and a bound on q from each to the next."""
    first = start if start > 0 else min(end, 1.0) * 1e-6
    first_block = _block_of(first)
    last_block = _block_of(end)
    powers = np.arange(first_block * _BLOCK, (last_block + 1) * _BLOCK + 1)
    grid = _GROWTH ** powers.astype(np.float64)
    blocks = range(first_block, last_block + 1)
    q = np.concatenate([_quantiles(sums, failure, block) for block in blocks])
    if start == 0:
        grid = np.concatenate([[0.0], grid])
        q = np.concatenate([[sums.other_error.quantile(failure)], q])
    return grid, q + np.diff(grid) * sums.error.quantile(_BETWEEN * failure / (0.98 / 2 - _BETWEEN))


def _block_of(ratio: float) -> int:
    """Return the block of the grid that a ratio is in; that of a tiny ratio for 0.

    At a large epsilon the errors' quantiles may be 0, and the largest possible ratio with them.
    """
    return int(np.floor(np.log(max(ratio, _TINY)) / np.log(_GROWTH))) // _BLOCK


@lru_cache(maxsize=4096)
def _quantiles(sums: _Sums, failure: float, block: int) -> CountTable:
    """Return, for each ratio r of a block, a t with P(F_B + r F_A > t) <= failure."""
    distribution = sums.error
    others = sums.other_error
    ratios = _GROWTH ** np.arange(block * _BLOCK, (block + 1) * _BLOCK, dtype=np.float64)
    allowed = failure * (1 - 1e-9) - distribution.lost - others.lost
    low = np.zeros(ratios.size)
    high = others.quantile(failure / 2) + ratios * distribution.quantile(failure / 2)
    steps = ratios[:, np.newaxis] * distribution.values
    for _ in range(16):
        middle = (low + high) / 2
        fits = others.above(middle[:, np.newaxis] - steps) @ distribution.masses <= allowed
        low = np.where(fits, low, middle)
        high = np.where(fits, middle, high)
    return high + others.slack + ratios * distribution.slack
