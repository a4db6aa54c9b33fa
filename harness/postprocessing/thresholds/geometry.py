"""The best decision rules under a fairness constraint, as geometry.

Within a tolerance, groups are alike in one rate (`*_one_rate`), or in both (`*_two_rates`). A group's rule is
a point on or below its upper convex hull (`mixed_*`), or one of its given points (`pure_*`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairshares.protocols.arrays import Floats, Integers

ROUNDING = 1e-12  # rates that differ by less are taken for the same rate, computed in two ways


@dataclass(frozen=True, eq=False)
class Hull:
    """The upper convex hull of points whose x are from 0 to 1.

    Args:
        corners: The indices of those points that are its corners, from left to right.
        x: The corners' x.
        y: The corners' y.
    """

    corners: Integers
    x: Floats
    y: Floats

    @classmethod
    def over(cls, x: Floats, y: Floats) -> "Hull":
        """Return the hull of points in any order."""
        kept: list[int] = []
        xs = x.tolist()
        ys = y.tolist()

        def is_covered(last: int, new: int) -> bool:
            """Return whether the last kept point is no corner if a point to the right is new."""
            if xs[last] == xs[new]:
                return True
            if len(kept) < 2:
                return False
            before = kept[-2]
            return bool(
                (ys[last] - ys[before]) * (xs[new] - xs[before])
                <= (ys[new] - ys[before]) * (xs[last] - xs[before])
            )

        for point in np.lexsort((y, x)).tolist():
            while kept and is_covered(kept[-1], point):
                kept.pop()
            kept.append(point)
        return cls(np.array(kept, dtype=np.int64), x[kept], y[kept])

    def at(self, x: Floats | float) -> Floats:
        """Return the hull's height above x."""
        return np.asarray(np.interp(x, self.x, self.y))

    def first_reach(self, y: Floats) -> Floats:
        """Return the least x at which a never falling hull reaches y, or its maximum."""
        rising = np.concatenate([[True], np.diff(self.y) > 0])
        return np.asarray(np.interp(y, self.y[rising], self.x[rising]))

    def mix(self, x: float) -> list[tuple[int, float]]:
        """Return at most two points, with shares, that mix to the hull's point above x."""
        if len(self.x) == 1:
            return [(int(self.corners[0]), 1.0)]
        right = int(np.clip(np.searchsorted(self.x, x), 1, len(self.x) - 1))
        share = float(snapped((x - self.x[right - 1]) / (self.x[right] - self.x[right - 1])))
        pairs = zip(self.corners[right - 1 : right + 1].tolist(), (1 - share, share), strict=True)
        return [(point, part) for point, part in pairs if part]


def mixed_one_rate(hulls: Sequence[Hull], tolerance: float) -> Floats:
    """Return each group's x such that the sum of the hulls' heights is largest.

    Computes: all x lie in some [c, c + tolerance]. The largest sum there is concave and piecewise linear in
    c, so that it is enough to try each c at which a corner enters or leaves.

    Args:
        hulls: Some x is in all of them.
        tolerance: The most by which two groups may differ in x.
    """
    corners = np.unique(np.concatenate([hull.x for hull in hulls]))
    # A window has some x of each hull.
    first = max(0.0, max(float(hull.x[0]) for hull in hulls) - tolerance)
    last = min(1 - tolerance, min(float(hull.x[-1]) for hull in hulls))
    starts = np.unique(np.clip(np.concatenate([corners, corners - tolerance]), first, last))
    # The highest x of a hull, moved into a window that has some x of it, stays on the hull.
    chosen = np.array([np.clip(hull.x[np.argmax(hull.y)], starts, starts + tolerance) for hull in hulls])
    value = sum(hull.at(x) for hull, x in zip(hulls, chosen, strict=True))
    return chosen[:, _best(np.asarray(value), np.ptp(chosen, axis=0))]


def mixed_one_ratio(hulls: Sequence[Hull], tolerance: float) -> Floats:
    """Return each group's x, none far below another, such that the sum of the hulls' heights is largest.

    Computes: all x lie in some [(1 - tolerance) c, c]. The heights are concave, and the x that a c allows
    form a cone, so that the largest sum is concave and piecewise linear in c. It is enough to try each c at
    which a corner enters or leaves.

    Args:
        hulls: The hulls, each from x = 0 to x = 1.
        tolerance: The least x is at least 1 - tolerance times the largest.
    """
    corners = np.unique(np.concatenate([hull.x for hull in hulls]))
    tops = corners
    if tolerance < 1:
        tops = np.unique(np.minimum(np.concatenate([corners, corners / (1 - tolerance)]), 1.0))
    at_best = [np.clip(hull.x[np.argmax(hull.y)], (1 - tolerance) * tops, tops) for hull in hulls]
    chosen = np.array(at_best)
    value = sum(hull.at(x) for hull, x in zip(hulls, chosen, strict=True))
    return chosen[:, _best(np.asarray(value), np.ptp(chosen, axis=0))]


def mixed_two_rates(
    hulls: Sequence[Hull], gain: Floats, loss: Floats, tolerance: float
) -> tuple[Floats, Floats]:
    """Return each group's x and y such that the sum of gain y - loss x is largest.

    Computes: all points lie in some window, whose sides are the tolerance and whose lower left corner is
    (a, b). In a window each group's best point has a closed form. Their sum is concave in the corner.

    Args:
        hulls: The hull of each group's ROC points, from (0, y0) to (1, 1), never falling.
        gain: The gain of each group, not negative.
        loss: The loss of each group, not negative.
        tolerance: The most by which two groups may differ in x, and in y.
    """
    peaks = []
    for hull, group_gain, group_loss in zip(hulls, gain, loss, strict=True):
        peaks.append(hull.x[np.argmax(group_gain * hull.y - group_loss * hull.x)])

    def best_points(a: Floats, b: Floats) -> tuple[Floats, Floats]:
        ceiling = np.minimum(b + tolerance, 1.0)
        xs = []
        ys = []
        for hull, peak in zip(hulls, peaks, strict=True):
            least = np.maximum(a, hull.first_reach(b))
            on_hull = np.clip(peak, least, np.minimum(a + tolerance, hull.first_reach(ceiling)))
            is_corner_below_hull = ceiling <= hull.at(a)  # the window's upper left corner
            x = np.where(is_corner_below_hull, a, on_hull)
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
    """Return shares held within [0, 1]; a share within 10^-9 of an end becomes that end."""
    return np.where(shares < 1e-9, 0.0, np.where(shares > 1 - 1e-9, 1.0, shares))


def pure_one_rate(
    points: Sequence[tuple[Floats, Floats]], tolerance: float, *, relative: bool = False
) -> Integers | None:
    """Return each group's point, such that all x are within the tolerance and the sum of y is largest.

    Args:
        points: Each group's x, rising, and its y.
        tolerance: The most by which two groups may differ in x; or, if relative, how far the least x may fall
            short of the largest, as a share of it.
        relative: Whether the tolerance is a share.

    Returns:
        The index of each group's point; None if no points are within the tolerance.
    """
    starts = np.unique(np.concatenate([x for x, _ in points]))
    ends = starts + tolerance
    if relative:
        ends = starts / (1 - tolerance) if tolerance < 1 else np.ones_like(starts)
    best = np.array([_largest(y, *_window(x, starts, ends)) for x, y in points])
    value = _total([y for _, y in points], best)
    if not np.isfinite(value).any():
        return None
    spread = np.ptp([x[index] for (x, _), index in zip(points, best, strict=True)], axis=0)
    return best[:, _best(value, spread)]


def pure_two_rates(
    points: Sequence[tuple[Floats, Floats]], gain: Floats, loss: Floats, tolerance: float
) -> Integers | None:
    """Return each group's point, all within the tolerance, such that the sum of gain y - loss x is largest.

    Computes: for each window of x, a bound of the sum without regard to y; then, for windows in the order of
    their bounds, the largest sum over all windows of y, until no further bound exceeds the best sum so far.

    Args:
        points: Each group's x and y, both rising.
        gain: The gain of each group.
        loss: The loss of each group.
        tolerance: The most by which two groups may differ in x, and in y.

    Returns:
        The index of each group's point; None if no points are within the tolerance.
    """
    ys = [y for _, y in points]
    values = [
        group_gain * y - group_loss * x
        for (x, y), group_gain, group_loss in zip(points, gain, loss, strict=True)
    ]
    starts = np.unique(np.concatenate([x for x, _ in points]))
    windows_of_x = np.array([_window(x, starts, starts + tolerance) for x, _ in points])
    windows = _narrowed(ys, windows_of_x, tolerance)
    best_in_windows = [
        _largest(group_values, low, high) for group_values, (low, high) in zip(values, windows, strict=True)
    ]
    bounds = _total(values, best_in_windows)
    best = -np.inf
    chosen = None
    for window in np.argsort(-bounds, kind="stable").tolist():
        if bounds[window] <= best + ROUNDING:
            break
        ends = windows[..., window].tolist()
        ys_in_window = [y[low : high + 1] for y, (low, high) in zip(ys, ends, strict=True)]
        bottoms = np.unique(np.concatenate(ys_in_window))
        indices = []
        for y, group_values, (low, high) in zip(ys, values, ends, strict=True):
            first, last = _window(y, bottoms, bottoms + tolerance)
            indices.append(_largest(group_values, np.maximum(first, low), np.minimum(last, high)))
        sums = _total(values, indices)
        if sums.max() > best + ROUNDING:
            best = float(sums.max())
            chosen = np.array(indices)[:, np.argmax(sums)]
    return chosen


def _narrowed(ys: Sequence[Floats], windows: Integers, tolerance: float) -> Integers:
    """Leave out of windows of x the points at either end whose y is not near every other group's."""
    lows = [y[np.minimum(first, len(y) - 1)] for y, (first, _) in zip(ys, windows, strict=True)]
    highs = [y[last] for y, (_, last) in zip(ys, windows, strict=True)]
    floor = np.max(lows, axis=0) - tolerance
    ceiling = np.min(highs, axis=0) + tolerance
    low = [np.searchsorted(y, floor - ROUNDING, side="left") for y in ys]
    high = [np.searchsorted(y, ceiling + ROUNDING, side="right") - 1 for y in ys]
    return np.stack([np.maximum(windows[:, 0], low), np.minimum(windows[:, 1], high)], axis=1)


def _largest(values: Floats, low: Integers, high: Integers) -> Integers:
    """Return, for each range low..high, the first index of its largest value; -1 for an empty range."""
    order = np.lexsort((-np.arange(len(values)), values))
    rank = np.append(np.argsort(order), -1)  # with an end for ranges that go up to the last value
    best = np.maximum.reduceat(rank, np.column_stack([low, high + 1]).ravel())[::2]
    return np.where(low > high, -1, order[best])


def _window(values: Floats, starts: Floats, ends: Floats) -> tuple[Integers, Integers]:
    """Return the first and the last index of rising values in each [start, end]."""
    first = np.searchsorted(values, starts - ROUNDING, side="left")
    last = np.searchsorted(values, ends + ROUNDING, side="right") - 1
    return first, last


def _total(values: Sequence[Floats], indices: Sequence[Integers] | Integers) -> Floats:
    """Return the sum of each group's values at its indices; minus infinity for -1."""
    pairs = zip(values, indices, strict=True)
    at_indices = [np.where(index < 0, -np.inf, group_values[index]) for group_values, index in pairs]
    return np.asarray(sum(at_indices))


def _best(value: Floats, spread: Floats) -> int:
    """Return the index of the largest value; among equal ones, of the least spread."""
    return int(np.argmin(np.where(value >= value.max() - ROUNDING, spread, np.inf)))


def _maximise(
    function: Callable[[Floats], Floats], low: Floats, high: Floats, points: int = 33, rounds: int = 11
) -> Floats:
    """Return the points where concave functions are largest, by a grid that gets finer each round.

    Args:
        function: Many functions at once, each along the first axis.
        low: The place where each interval begins.
        high: The place where each interval ends.
        points: The number of points of the grid.
        rounds: How often the grid gets finer.
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
