"""The best decision rules under a fairness constraint, as geometry: knows no noise and no thresholds.

Two kinds of constraint, each within a tolerance: one rate is alike in all groups (`*_one_rate`), or
both are (`*_two_rates`). Two kinds of rule: any point of each group's upper convex hull, or below it
(`mixed_*`, by randomisation), or one of each group's given points (`pure_*`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ROUNDING = 1e-12  # rates that differ by less are the same rate, computed twice


def upper_hull(x: Floats, y: Floats) -> Integers:
    """Return the indices of the upper convex hull's corners, from the smallest x to the largest.

    Computes: one scan from the left that keeps right turns only. Of points with one x the highest
    counts. No three corners are on a line.
    Args: x, y: (n,), n >= 1, finite, in any order.
    """
    kept: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for i in np.lexsort((y, x)).tolist():
        while kept and (
            xs[kept[-1]] == xs[i]
            or (
                len(kept) > 1
                and (ys[kept[-1]] - ys[kept[-2]]) * (xs[i] - xs[kept[-2]])
                <= (ys[i] - ys[kept[-2]]) * (xs[kept[-1]] - xs[kept[-2]])
            )
        ):
            kept.pop()
        kept.append(i)
    return np.array(kept, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Hull:
    """The upper convex hull of points (x, y) of [0, 1] x R, with x reaching from 0 to 1.

    Attributes: corners: indices of points; x, y: their coordinates, x strictly increasing.
    """

    corners: Integers
    x: Floats
    y: Floats

    @classmethod
    def over(cls, x: Floats, y: Floats) -> Hull:
        """Return the hull of these points. Args: x, y: (n,), in any order; x from 0 to 1, both among them."""
        corners = upper_hull(x, y)
        return cls(corners, x[corners], y[corners])

    def at(self, x: Floats | float) -> Floats:
        """Return the hull's height above x."""
        return np.asarray(np.interp(x, self.x, self.y))

    def first_reach(self, y: Floats) -> Floats:
        """Return the least x where a hull that never falls reaches y, or its maximum if it does not."""
        rising = np.concatenate([[True], np.diff(self.y) > 0])
        return np.asarray(np.interp(y, self.y[rising], self.x[rising]))

    def peak(self, value: Floats) -> float:
        """Return the x of the corner with the largest value; value: one for each corner."""
        return float(self.x[np.argmax(value)])

    def mix(self, x: float) -> list[tuple[int, float]]:
        """Return the points, at most two, and the shares of each that make the hull's point above x."""
        right = int(np.clip(np.searchsorted(self.x, x), 1, len(self.x) - 1))
        share = (x - self.x[right - 1]) / (self.x[right] - self.x[right - 1])
        share = float(snapped(np.asarray(share)))
        pairs = [(int(self.corners[right - 1]), 1 - share), (int(self.corners[right]), share)]
        return [(point, part) for point, part in pairs if part]


def mixed_one_rate(hulls: Sequence[Hull], tolerance: float) -> Floats:
    """Return each group's x, all within the tolerance, that makes the sum of the hulls' heights largest.

    Computes: F(c) = sum of each hull's best height in [c, c + tolerance] is concave and piecewise
    linear; its corners are among the hulls' corners, and those less the tolerance, and all are tried.
    Of equally good ones the closest together are taken. Returns: (k,).
    """
    corners = np.unique(np.concatenate([hull.x for hull in hulls]))
    starts = np.unique(np.clip(np.concatenate([corners, corners - tolerance]), 0, 1 - tolerance))
    chosen = np.array([np.clip(hull.peak(hull.y), starts, starts + tolerance) for hull in hulls])
    value = sum(hull.at(x) for hull, x in zip(hulls, chosen, strict=True))
    return chosen[:, _best(np.asarray(value), np.ptp(chosen, axis=0))]


def mixed_two_rates(
    hulls: Sequence[Hull], gain: Floats, loss: Floats, tolerance: float
) -> tuple[Floats, Floats]:
    """Return each group's x and y, on or below its hull, that make the sum of gain y - loss x largest.

    The x of any two groups differ by the tolerance at most, and so do the y.
    Computes: for a window [a, a + tolerance] x [b, b + tolerance] every group's best point has a
    closed form, and the sum over groups is concave in (a, b); a and b are narrowed down by dividing
    the interval around the best of evenly spaced values, until it is as small as rounding.
    Guarantees: the constraint holds exactly, whatever the search's precision.
    Args: hulls: of ROC points, from (0, y0) to (1, 1), never falling; gain, loss: (k,), not negative.
    Returns: two of shape (k,).
    """
    peaks = [hull.peak(g * hull.y - c * hull.x) for hull, g, c in zip(hulls, gain, loss, strict=True)]

    def best_points(a: Floats, b: Floats) -> tuple[Floats, Floats]:
        xs, ys = [], []
        for hull, peak in zip(hulls, peaks, strict=True):
            ceiling = np.minimum(b + tolerance, 1.0)
            x = np.clip(
                peak,
                np.maximum(a, hull.first_reach(b)),
                np.minimum(a + tolerance, hull.first_reach(ceiling)),
            )
            below = ceiling <= hull.at(a)  # the window's top left corner is below the hull
            x = np.where(below, a, x)
            xs.append(x)
            ys.append(np.minimum(hull.at(x), ceiling))
        return np.array(xs), np.array(ys)

    def value(a: Floats, b: Floats) -> Floats:
        x, y = best_points(a, b)
        return np.asarray(np.tensordot(gain, y, 1) - np.tensordot(loss, x, 1))

    def best_b(a: Floats) -> Floats:
        highest = np.min([hull.at(np.minimum(a + tolerance, 1.0)) for hull in hulls], axis=0)
        return _maximise(lambda b: value(np.broadcast_to(a, b.shape), b), np.zeros_like(a), highest)

    a = _maximise(lambda a: value(a, best_b(a)), np.zeros(1), np.full(1, 1 - tolerance))
    x, y = best_points(a, best_b(a))
    return x[:, 0], y[:, 0]


def snapped(shares: Floats) -> Floats:
    """Return shares within [0, 1], those within 10^-9 of an end on it: nobody draws so rarely."""
    return np.where(shares < 1e-9, 0.0, np.where(shares > 1 - 1e-9, 1.0, shares))


def pure_one_rate(points: Sequence[tuple[Floats, Floats]], tolerance: float) -> Integers | None:
    """Return each group's point, all x within the tolerance, that makes the sum of y largest.

    Computes: for each window [x, x + tolerance] that begins at some point, each group's best in it by
    a range-maximum table: O(P log P) for P points in all.
    Args: points: per group x and y; x sorted. Returns: (k,) indices; None if there are none.
    """
    starts = np.unique(np.concatenate([x for x, _ in points]))
    ranges = [_window(x, starts, tolerance) for x, _ in points]
    best = np.array([_RangeMaximum(y).index(*window) for (_, y), window in zip(points, ranges, strict=True)])
    value = np.asarray(sum(_values(y, index) for (_, y), index in zip(points, best, strict=True)))
    if not np.isfinite(value).any():
        return None
    spread = np.ptp([x[index] for (x, _), index in zip(points, best, strict=True)], axis=0)
    return best[:, _best(value, spread)]


def pure_two_rates(
    points: Sequence[tuple[Floats, Floats]], gain: Floats, loss: Floats, tolerance: float
) -> Integers | None:
    """Return each group's point such that the sum of gain y - loss x is largest.

    The x of any two groups differ by the tolerance at most, and so do the y.
    Computes: windows as in `pure_one_rate`, in both rates. Along a ROC curve both rates rise together,
    so that a window holds consecutive points. Windows of x are tried in the order of what they could
    give at best, until none could beat the best found.
    Args: points: per group x and y, both sorted. Returns: (k,) indices; None if there are none.
    """
    groups = [
        _Curve(x, y, _RangeMaximum(g * y - c * x)) for (x, y), g, c in zip(points, gain, loss, strict=True)
    ]
    starts = np.unique(np.concatenate([x for x, _ in points]))
    windows = _narrowed(
        groups, np.array([_window(group.x, starts, tolerance) for group in groups]), tolerance
    )
    at_best = np.sum(
        [
            _values(group.table.values, group.table.index(*window))
            for group, window in zip(groups, windows, strict=True)
        ],
        axis=0,
    )
    best, chosen = -np.inf, None
    for i in np.argsort(-at_best, kind="stable").tolist():
        if at_best[i] <= best + ROUNDING:
            break
        found = [(group, *windows[g, :, i].tolist()) for g, group in enumerate(groups)]
        bottoms = np.unique(np.concatenate([group.y[low : high + 1] for group, low, high in found]))
        indices = []
        for group, low, high in found:
            first, last = _window(group.y, bottoms, tolerance)
            indices.append(group.table.index(np.maximum(first, low), np.minimum(last, high)))
        value = np.asarray(
            sum(_values(group.table.values, index) for group, index in zip(groups, indices, strict=True))
        )
        if value.max() > best + ROUNDING:
            best, chosen = float(value.max()), np.array(indices)[:, np.argmax(value)]
    return chosen


@dataclass(frozen=True, eq=False)
class _Curve:
    x: Floats
    y: Floats
    table: _RangeMaximum


def _narrowed(groups: Sequence[_Curve], windows: Integers, tolerance: float) -> Integers:
    """Leave out of windows of x the points whose y another group cannot come near in the same window.

    Args, Returns: windows: first and last index, shape (k, 2, windows).
    """
    reached = [
        (group.y[np.minimum(first, len(group.y) - 1)], group.y[last])
        for group, (first, last) in zip(groups, windows, strict=True)
    ]
    floor = np.max([low for low, _ in reached], axis=0) - tolerance
    ceiling = np.min([high for _, high in reached], axis=0) + tolerance
    narrowed = []
    for group, (first, last) in zip(groups, windows, strict=True):
        low = np.searchsorted(group.y, floor - ROUNDING, side="left")
        high = np.searchsorted(group.y, ceiling + ROUNDING, side="right") - 1
        narrowed.append((np.maximum(first, low), np.minimum(last, high)))
    return np.array(narrowed)


class _RangeMaximum:
    """Answers where the largest of values[low..high] is, for many ranges at once."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        levels = [np.arange(len(values))]  # level j, place i: where the largest of values[i..i + 2^j - 1] is
        while 2 ** len(levels) <= len(values):
            step = 2 ** (len(levels) - 1)
            longer = levels[-1].copy()
            longer[:-step] = self._larger(levels[-1][:-step], levels[-1][step:])
            levels.append(longer)
        self._levels = np.array(levels)

    def _larger(self, i: Integers, j: Integers) -> Integers:
        return np.where(self.values[j] > self.values[i], j, i)

    def index(self, low: Integers, high: Integers) -> Integers:
        """Return the indices, -1 where low > high; low, high: same shape, inclusive."""
        empty = low > high
        low, high = np.where(empty, 0, low), np.where(empty, 0, high)
        level = np.frexp(high - low + 1)[1] - 1  # floor of the logarithm
        found = self._larger(self._levels[level, low], self._levels[level, high + 1 - 2**level])
        return np.where(empty, -1, found)


def _window(values: Floats, starts: Floats, width: float) -> tuple[Integers, Integers]:
    """Return the first and the last index of sorted values in [start, start + width]."""
    low = np.searchsorted(values, starts - ROUNDING, side="left")
    return low, np.searchsorted(values, starts + width + ROUNDING, side="right") - 1


def _values(values: Floats, index: Integers) -> Floats:
    """Return values[index], and minus infinity for -1."""
    return np.where(index < 0, -np.inf, values[index])


def _best(value: Floats, spread: Floats) -> int:
    """Return where the value is largest; among such, where the spread is smallest."""
    return int(np.argmin(np.where(value >= value.max() - ROUNDING, spread, np.inf)))


def _maximise(
    function: Callable[[Floats], Floats], low: Floats, high: Floats, points: int = 33, rounds: int = 11
) -> Floats:
    """Return where a concave function is largest between low and high, for many functions at once.

    Args: function: maps (points, *s) to values of that shape, where low and high have shape s.
    """
    steps = np.linspace(0, 1, points).reshape(-1, *[1] * low.ndim)
    middle = low
    for _ in range(rounds):
        at = low + (high - low) * steps
        best = np.argmax(function(at), axis=0)[np.newaxis]
        low = np.take_along_axis(at, np.maximum(best - 1, 0), 0)[0]
        high = np.take_along_axis(at, np.minimum(best + 1, points - 1), 0)[0]
        middle = np.take_along_axis(at, best, 0)[0]
    return middle
