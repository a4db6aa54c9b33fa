"""Intervals of ratios of sums of noisy counts, and of shares.

Intervals of ratios are of true counts raised to 1, as noisy counts are. [why:
docs/decisions/0085-intervals.md]
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from fairshares.harness.reweighing.count_errors import (
    BOUNDS_FAILURE,
    FAILURE,
    FEW_PLACES,
    FLOOR,
    MIXED_FAILURE,
    PLACES,
    CountsNoise,
    CountTable,
    Factors,
    reaches,
    reaches_in_any_run,
)
from fairshares.protocols.arrays import Bools, Floats
from fairshares.protocols.noise.added import Distribution, Noise, noise_sum

CAP_FAILURE = FAILURE / 100  # chance that the bound on a ratio with an unknown divisor fails
_BETWEEN = 1 / 200  # part of a failure, per side, for ratios between two points of the grid
_MAIN = FAILURE - BOUNDS_FAILURE - MIXED_FAILURE - CAP_FAILURE
_GROWTH = 1 + 1 / 128  # the factor from one point of the grid of ratios to the next
_TINY = 1e-12
_BLOCK = 64  # points of the grid of ratios that are computed together
_STEPS = 3  # towards an end of a quotient's interval
_HALVINGS = 10  # the same, where steps do not converge
_NARROW = 0.01  # first cell beyond an end, over the quotient; the next ones are twice as wide each
_FURTHEST = 40  # cells at most


class Form(Protocol):
    """The error of e - w a, for a quotient w of true values."""

    def near(self, quotient: float, /) -> float:
        """Return how far the error reaches at a quotient, approximately."""

    def reach(self, low: Floats, high: Floats, /, *, fine: bool) -> Floats:
        """Return how far the error reaches at most, for quotients between each low and high.

        `fine` takes longer, and finds closer bounds.
        """


@dataclass(frozen=True)
class Quotient:
    """A quotient w of true values, by a noisy dividend e and a noisy divisor a: e - w a is an error.

    Attributes:
        dividend: e.
        divisor: a > 0.
    """

    dividend: float
    divisor: float

    def largest(self, form: Form, most: float) -> float:
        """Return a bound on all quotients w up to `most` with e - w a >= -reach.

        Computes: an approximate end. Every quotient beyond it is in a cell, which is excluded by the cell's
        reach, or gives a further end.
        """
        estimate = self.dividend / self.divisor
        most = max(most, estimate)
        end = estimate
        for _ in range(_STEPS):
            end = min(max(estimate, (self.dividend + form.near(end)) / self.divisor), most)
        beyond = end + _NARROW * end * (np.exp2(np.arange(_FURTHEST, dtype=np.float64)) - 1)
        edges = np.append(beyond[beyond < most], most)
        return self._furthest(form, edges, end, sign=1)

    def _least_possible(self, form: Form, least: float) -> float:
        """Return about the least quotient from `least` on that is possible, by halving."""
        possible = self.dividend / self.divisor
        excluded = least
        for _ in range(_HALVINGS):
            middle = (excluded + possible) / 2
            if self.dividend - middle * self.divisor <= form.near(middle):
                possible = middle
            else:
                excluded = middle
        return possible

    def least(self, form: Form, least: float) -> float:
        """Return a bound on all quotients w from `least` on with e - w a <= reach, as `largest`."""
        estimate = self.dividend / self.divisor
        least = min(least, estimate)
        end = estimate
        before = estimate
        for _ in range(_STEPS):
            before = end
            end = max(min(estimate, (self.dividend - form.near(end)) / self.divisor), least)
        if abs(end - before) > _NARROW * before:  # a reach that grows fast with the quotient
            end = self._least_possible(form, least)
        shares = 1 - _NARROW * (np.exp2(np.arange(_FURTHEST, dtype=np.float64)) - 1)
        beyond = end * shares
        edges = np.append(beyond[beyond > least], least)
        return self._furthest(form, edges, end, sign=-1)

    def _furthest(self, form: Form, edges: Floats, end: float, *, sign: int) -> float:
        """Return the furthest quotient in some cell that its reach does not exclude, `end` if there is none.

        Args:
            form: Tells how far the error reaches.
            edges: The cells' edges, from `end` on outwards. A single one is the answer.
            end: The approximate end.
            sign: 1 if the cells are of larger quotients one after the other, -1 if of smaller ones.
        """
        near = edges[:-1]
        far = edges[1:]
        if not near.size:
            return float(edges[0])
        for fine in (False, True):
            reach = form.reach(np.minimum(near, far), np.maximum(near, far), fine=fine)
            ends = (self.dividend + sign * reach) / self.divisor
            possible = sign * ends >= sign * near
            if not possible.any():
                return end
            near = near[possible]
            far = far[possible]
        return float(sign * np.minimum(sign * far, sign * ends[possible]).max())


def ratio_intervals(counts: CountTable, own: Bools, others: Bools, noise: CountsNoise) -> CountTable:
    """Return intervals of ratios B/A, each of two sums of raised true counts, shape (ratios, 2).

    Computes: for each true ratio r, the noisy sums have b - r a = F_B - r F_A, with the errors of the sums.
    Guarantees: each holds its ratio with probability at least 95 %.
    [test: tests/harness/reweighing/test_weight_intervals.py]

    Args:
        counts: The noisy counts, raised to 1, shape (groups, labels).
        own: The cells that the sum A is of, shape (ratios, groups, labels).
        others: The cells that the sum B is of, of the same shape. No cell is in both sums of a ratio.
        noise: The noise of the counts.
    """
    intervals = np.empty((len(own), 2))
    for place, tables in enumerate(zip(own, others, strict=True)):
        dividend = float(counts[tables[1]].sum())
        quotient = Quotient(dividend, float(counts[tables[0]].sum()))
        below = _Difference(noise, tables, sign=-1)
        most = (dividend + below.of_dividend()) / (tables[0].sum() * FLOOR)
        least = quotient.least(_Difference(noise, tables, sign=1), 0.0)
        intervals[place] = least, quotient.largest(below, most)
    return intervals


@dataclass(frozen=True)
class _Difference:
    """How far F_B - r F_A is above or below 0, for the errors F of two sums, and their ratio r.

    Attributes:
        noise: The noise of the counts.
        tables: The cells of the sums A and B.
        sign: 1 for above, -1 for below.
    """

    noise: CountsNoise
    tables: tuple[Bools, Bools]
    sign: int

    def of_dividend(self) -> float:
        """Return how far F_B is above or below 0 at most, but with probability `CAP_FAILURE`."""
        parts = self.noise.parts(self.tables)[1:]
        factor = np.array([[float(self.sign)]])
        return float(reaches_in_any_run(self.noise.of_count, parts, Factors(factor, factor), CAP_FAILURE)[0])

    def near(self, quotient: float, /) -> float:
        """Return how far it reaches for a ratio."""
        at = np.array([quotient])
        return float(self.reach(at, at, fine=True)[0])

    def reach(self, low: Floats, high: Floats, /, *, fine: bool) -> Floats:
        """Return how far it reaches at most, for each range of ratios."""
        ones = np.ones(low.size)
        factors = Factors(np.stack([-high, ones], axis=-1), np.stack([-low, ones], axis=-1))
        places = PLACES if fine else FEW_PLACES
        return reaches(
            self.noise, self.tables, factors if self.sign > 0 else -factors, _MAIN / 2, places=places
        )


@dataclass(frozen=True)
class _Sums:
    """Two sums of counts, A and B, by the noise of each count and the numbers of counts."""

    of_count: Noise
    terms: int
    other_terms: int

    @property
    def error(self) -> Distribution:
        """The error of A."""
        return noise_sum(self.of_count, self.terms)

    @property
    def other_error(self) -> Distribution:
        """The error of B."""
        return noise_sum(self.of_count, self.other_terms)


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

    The larger sum is the divisor of a ratio. The share's interval follows from the ratio's interval. Where
    the larger sum may be 0, the share's interval is [0, 1].
    Guarantees: each holds its share with probability at least 1 - failure.
    [test: tests/statistical/test_intervals.py]
    """
    of_a, of_b = terms
    intervals = np.tile([0.0, 1.0], (*a.shape, 1))
    above_noise = a > noise_sum(noise, of_a).quantile(_main(failure) / 2)
    certain = above_noise & (a >= b)
    if certain.any():
        share = _shares_of_larger(a[certain], b[certain], _Sums(noise, of_a, of_b), failure)
        intervals[certain] = share
    above_noise = b > noise_sum(noise, of_b).quantile(_main(failure) / 2)
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
    """Return the block of the grid that a ratio is in; for 0 the block of a tiny ratio.

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
