"""The best decision rules under a fairness constraint, as geometry.

One rate is alike in all groups (`*_one_rate`), or both are (`*_two_rates`), within a tolerance. Rules are
points on or below a group's upper convex hull (`mixed_*`), or given points (`pure_*`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from protocols.arrays import Floats, Integers

ROUNDING = 1e-12  # rates that differ by less are the same rate, computed twice


@dataclass(frozen=True, eq=False)
class Hull:
    """The upper convex hull of points, x from 0 to 1: its corners' indices and coordinates."""

    corners: Integers
    x: Floats
    y: Floats

    @classmethod
    def over(cls, x: Floats, y: Floats) -> "Hull":
        """Return the hull of points in any order."""
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
        right = int(np.clip(np.searchsorted(self.x, x), 1, len(self.x) - 1))
        share = float(snapped((x - self.x[right - 1]) / (self.x[right] - self.x[right - 1])))
        pairs = zip(self.corners[right - 1 : right + 1].tolist(), (1 - share, share), strict=True)
        return [(point, part) for point, part in pairs if part]


def mixed_one_rate(hulls: Sequence[Hull], tolerance: float) -> Floats:
    """Return each group's x, all within the tolerance, that maximizes the sum of the hulls' heights.

    The best sum in [c, c + tolerance] is concave and piecewise linear in c.
    """
    corners = np.unique(np.concatenate([hull.x for hull in hulls]))
    starts = np.unique(np.clip(np.concatenate([corners, corners - tolerance]), 0, 1 - tolerance))
    chosen = np.array([np.clip(hull.x[np.argmax(hull.y)], starts, starts + tolerance) for hull in hulls])
    value = sum(hull.at(x) for hull, x in zip(hulls, chosen, strict=True))
    return chosen[:, _best(np.asarray(value), np.ptp(chosen, axis=0))]


def mixed_two_rates(
    hulls: Sequence[Hull], gain: Floats, loss: Floats, tolerance: float
) -> tuple[Floats, Floats]:
    """Return each group's x and y, within the tolerance, that maximize the sum of gain y - loss x.

    Hulls are of ROC points, from (0, y0) to (1, 1), never falling; gain and loss are not negative. In a
    window each group's best point has a closed form, and their sum is concave in the window's corner.
    """
    peaks = [hull.x[np.argmax(g * hull.y - c * hull.x)] for hull, g, c in zip(hulls, gain, loss, strict=True)]

    def best_points(a: Floats, b: Floats) -> tuple[Floats, Floats]:
        xs, ceiling = [], np.minimum(b + tolerance, 1.0)
        for hull, peak in zip(hulls, peaks, strict=True):
            least = np.maximum(a, hull.first_reach(b))
            x = np.clip(peak, least, np.minimum(a + tolerance, hull.first_reach(ceiling)))
            xs.append(np.where(ceiling <= hull.at(a), a, x))  # the window's top left corner is below the hull
        return np.array(xs), np.array(
            [np.minimum(hull.at(x), ceiling) for hull, x in zip(hulls, xs, strict=True)]
        )

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
    """Return shares within [0, 1], those within 10^-9 of an end on it."""
    return np.where(shares < 1e-9, 0.0, np.where(shares > 1 - 1e-9, 1.0, shares))


def pure_one_rate(points: Sequence[tuple[Floats, Floats]], tolerance: float) -> Integers | None:
    """Return the points with the largest sum of y, one per group and all x within the tolerance, if any.

    `points` are each group's sorted x, and its y.
    """
    starts = np.unique(np.concatenate([x for x, _ in points]))
    best = np.array([_largest(y, *_window(x, starts, tolerance)) for x, y in points])
    value = _total([y for _, y in points], best)
    if not np.isfinite(value).any():
        return None
    spread = np.ptp([x[index] for (x, _), index in zip(points, best, strict=True)], axis=0)
    return best[:, _best(value, spread)]


def pure_two_rates(
    points: Sequence[tuple[Floats, Floats]], gain: Floats, loss: Floats, tolerance: float
) -> Integers | None:
    """Return the points with the largest sum of gain y - loss x, one per group, within the tolerance, if any.

    `points` are each group's x and y, both sorted.
    """
    ys = [y for _, y in points]
    values = [g * y - c * x for (x, y), g, c in zip(points, gain, loss, strict=True)]
    starts = np.unique(np.concatenate([x for x, _ in points]))
    windows = _narrowed(ys, np.array([_window(x, starts, tolerance) for x, _ in points]), tolerance)
    at_best = _total(values, [_largest(v, *window) for v, window in zip(values, windows, strict=True)])
    best, chosen = -np.inf, None
    for i in np.argsort(-at_best, kind="stable").tolist():
        if at_best[i] <= best + ROUNDING:
            break
        ends = windows[..., i].tolist()
        bottoms = np.unique(np.concatenate([y[a : b + 1] for y, (a, b) in zip(ys, ends, strict=True)]))
        indices = []
        for y, worth, (low, high) in zip(ys, values, ends, strict=True):
            first, last = _window(y, bottoms, tolerance)
            indices.append(_largest(worth, np.maximum(first, low), np.minimum(last, high)))
        value = _total(values, indices)
        if value.max() > best + ROUNDING:
            best, chosen = float(value.max()), np.array(indices)[:, np.argmax(value)]
    return chosen


def _narrowed(ys: Sequence[Floats], windows: Integers, tolerance: float) -> Integers:
    """Leave out of windows of x the points whose y is near no other group's."""
    lows = [y[np.minimum(first, len(y) - 1)] for y, (first, _) in zip(ys, windows, strict=True)]
    highs = [y[last] for y, (_, last) in zip(ys, windows, strict=True)]
    floor, ceiling = np.max(lows, axis=0) - tolerance, np.min(highs, axis=0) + tolerance
    low = [np.searchsorted(y, floor - ROUNDING, side="left") for y in ys]
    high = [np.searchsorted(y, ceiling + ROUNDING, side="right") - 1 for y in ys]
    return np.stack([np.maximum(windows[:, 0], low), np.minimum(windows[:, 1], high)], axis=1)


def _largest(values: Floats, low: Integers, high: Integers) -> Integers:
    """Return the first index of the largest of values[low..high], for many ranges, or -1."""
    order = np.lexsort((-np.arange(len(values)), values))
    rank = np.append(np.argsort(order), -1)  # with an end for ranges that go up to the last value
    best = np.maximum.reduceat(rank, np.column_stack([low, high + 1]).ravel())[::2]
    return np.where(low > high, -1, order[best])


def _window(values: Floats, starts: Floats, width: float) -> tuple[Integers, Integers]:
    low = np.searchsorted(values, starts - ROUNDING, side="left")
    return low, np.searchsorted(values, starts + width + ROUNDING, side="right") - 1


def _total(values: Sequence[Floats], indices: Sequence[Integers] | Integers) -> Floats:
    """Return the sum of each group's values at its indices; minus infinity for -1."""
    pairs = zip(values, indices, strict=True)
    return np.asarray(sum(np.where(index < 0, -np.inf, of_group[index]) for of_group, index in pairs))


def _best(value: Floats, spread: Floats) -> int:
    return int(np.argmin(np.where(value >= value.max() - ROUNDING, spread, np.inf)))


def _maximise(
    function: Callable[[Floats], Floats], low: Floats, high: Floats, points: int = 33, rounds: int = 11
) -> Floats:
    """Return where concave functions are largest."""
    steps = np.linspace(0, 1, points).reshape(-1, *[1] * low.ndim)
    middle = low
    for _ in range(rounds):
        at = low + (high - low) * steps
        best = np.argmax(function(at), axis=0)[np.newaxis]
        low = np.take_along_axis(at, np.maximum(best - 1, 0), 0)[0]
        high = np.take_along_axis(at, np.minimum(best + 1, points - 1), 0)[0]
        middle = np.take_along_axis(at, best, 0)[0]
    return middle
