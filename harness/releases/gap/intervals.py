"""Intervals of groups' means and of their differences, from noisy sums of distances from either end.

On the scale on which the range of values is from -1 to 1, a group of true size s and mean m has the sums
s (1 + m)/2 and s (1 - m)/2, which are revealed with independent, symmetric errors E and E'. Sums and sizes
are in steps. [why, with the proof: docs/decisions/0085-intervals.md]
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from fairshares.protocols.arrays import Floats
from fairshares.protocols.noise.added import Noise, mean_square_error, noise_sum

FAILURE = 0.05  # the failure of each interval
_RARE = FAILURE / 200  # chance that one end of a group's window is wrong: of its size, or of its mean
_MOVED = 1e-4  # chance that a direction's noise moves further than assumed from one row to the next
_MAIN = FAILURE - 8 * _RARE  # the failure for both ends of a difference: a pair has eight ends of windows
_ROWS = 256  # rows of a table from direction 0 to 1
_LAST_ROW = 320  # an upper end beyond its direction is as good as none
_PLACES = 4096  # points of the grid on which a row's noise is added up
_NEARLY_ALL = 0.9  # survival at places from which on it looks
_TINY = 1e-6  # survival at places that the bound with rounding does not look at
_TILTS = np.geomspace(0.4, 2.5, 80)  # over the root mean square of one sum's noise
_DISTANCES = 640  # points of the grid of a mean's distance from its interval
_REACH = 1.8  # the reach from 0 to the last of these points, in distances from the first one to 0
_BEYOND = 0.26  # how far a mean's interval may go beyond the range, in quantiles at the range's end
_MOST_BEYOND = 0.14  # the same, as a share of the range's half
# Edges of cells of means near the range's ends: distances from the end, in such quantiles.
_FROM_END = np.array([0.05, 0.1, 0.15, 0.21, 0.28, 0.38, 0.52, 0.72, 1])
_WIDEST = 1 / 16  # cell of means elsewhere, if the mean is known to 6 such cells
_MEANS = 6  # cells elsewhere
_WIDEST_SIZE = 1.04  # the largest size in a cell over the least, if the size is known to 4 such cells
_SIZES = 8  # cells
_BLOCK = 16  # rows that are looked at together where there are many
_BAND = 128  # distances that are looked at in the same directions
LEVELS = np.geomspace(0.01, 0.1, 128)  # failures of one end of a single mean's interval; more are narrower
_COARSEST = 1 / 16  # standard deviations of rounding are rounded up to a power of 2 times this one
_FAR = 4.0  # standard deviations
_FURTHER = 6.0  # standard deviations beyond which rounding is not looked at


@dataclass(frozen=True)
class GroupSums:
    """A group's noisy sums, in steps.

    Attributes:
        from_below: The sum of distances from the lower end of the range.
        from_above: The sum of distances from the upper end.
    """

    from_below: float
    from_above: float

    @property
    def size(self) -> float:
        """The noisy size."""
        return self.from_below + self.from_above

    @property
    def mirrored(self) -> "GroupSums":
        """The sums of the values with their signs changed."""
        return GroupSums(self.from_above, self.from_below)


class SurvivalTable:
    """Survival functions of the noise Z(u) = (1 + u) E' - (1 - u) E, with random rounding, by direction u.

    Row k is for all directions whose absolute value is within half a row of k / 256, up to 1.25. It is
    an upper bound of P(Z(u) > t + `slack`) - `_MOVED`, at the places `first` + i `step` of t.
    """

    def __init__(self, noise: Noise, rounding: float) -> None:
        """Compute the table; `rounding` is a bound on the standard deviation of rounding, 0 for none.

        Rounding is sub-Gaussian: E exp(x R) <= exp(x^2 rounding^2 / 2) for each x.
        """
        self._quantiles: dict[float, Floats] = {}  # quantiles by failure
        self._missed: dict[float, Floats] = {}
        law = noise_sum(noise, 1)
        directions = np.arange(_LAST_ROW + 1) / _ROWS
        factors = np.stack([1 + directions, np.abs(1 - directions)], axis=1)
        width = law.step * law.masses.size
        self.step = (factors.sum(axis=1) * width + 2 * _FAR * rounding) / (_PLACES - 4)
        waves = np.ones((directions.size, _PLACES // 2 + 1), dtype=np.complex128)
        starts = np.zeros(directions.size)
        for column in factors.T:
            places = np.rint((column / self.step)[:, np.newaxis] * law.values).astype(np.int64)
            of_rows = [np.bincount(row - row[0], law.masses, _PLACES) for row in places]
            waves *= np.fft.rfft(of_rows)
            starts += places[:, 0]
        self.first = starts * self.step
        masses = np.maximum(np.fft.irfft(waves), 0)
        at_least = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1]
        beyond = np.concatenate([at_least[:, 1:], np.zeros((directions.size, 1))], axis=1)
        self.survival = np.minimum(beyond + 2 * law.lost + 1e-12, 1.0)
        moved = noise_sum(noise, 2).quantile(_MOVED) / (2 * _ROWS)
        self.slack = self.step + factors.sum(axis=1) * law.slack + moved
        if rounding:
            self._round(rounding, float(mean_square_error(noise)) ** 0.5)

    def _round(self, rounding: float, scale: float) -> None:
        """Add the noise of rounding to each row.

        Computes: with survival S and M(x) = max_w S(w) exp(x w), S(t - R) <= M(x) exp(x R - x t), so the sum
        exceeds t with probability at most M(x) exp(x^2 rounding^2 / 2 - x t), for each x > 0. It also is at
        most the probability that Z exceeds t - 4 rounding, plus that R exceeds 4 rounding.
        """
        place = np.arange(_PLACES)
        far = np.ceil(_FAR * rounding / self.step).astype(np.int64)[:, np.newaxis]
        shifted = np.take_along_axis(self.survival, np.maximum(place - far, 0), axis=1)
        bound = np.where(place < far, 1.0, shifted + np.exp(-(_FAR**2) / 2))
        first = (self.survival > _NEARLY_ALL).sum(axis=1)
        last = (self.survival > _TINY).sum(axis=1) + np.ceil(_FURTHER * rounding / self.step).astype(np.int64)
        looked_at = first[:, np.newaxis] + np.arange((last - first).max() + 1)
        looked_at = np.clip(looked_at, 1, _PLACES - 1)
        points = self.first[:, np.newaxis] + self.step[:, np.newaxis] * looked_at
        with np.errstate(divide="ignore"):
            # The survival at any point from the place before on, and at any point below the first one.
            before = np.log(np.take_along_axis(self.survival, looked_at - 1, axis=1))
        before[before < np.log(_TINY)] = -np.inf
        before[:, 0] = 0.0
        tilted = np.full(points.shape, np.inf)
        for tilt in _TILTS / scale:
            most = (before + tilt * points).max(axis=1, keepdims=True)
            tilted = np.minimum(tilted, most + (tilt * rounding) ** 2 / 2 - tilt * points)
        tilted = np.minimum(np.exp(np.minimum(tilted, 0)) + _TINY, 1.0)
        tilted = np.minimum(tilted, np.take_along_axis(bound, looked_at, axis=1))
        np.put_along_axis(bound, looked_at, tilted, axis=1)
        self.survival = np.minimum.accumulate(bound, axis=1)

    def quantiles(self, failure: float) -> Floats:
        """Return, by row, the first place t at which the survival is at most `failure`."""
        if failure not in self._quantiles:
            fits = self.survival <= failure
            found = self.first + np.argmax(fits, axis=1) * self.step
            self._quantiles[failure] = np.where(fits.any(axis=1), found, np.inf)
        return self._quantiles[failure]

    @cached_property
    def distances(self) -> Floats:
        """The grid of distances between a mean and its interval, times the size."""
        return np.linspace(-self.at_end, _REACH * self.at_end, _DISTANCES)

    @cached_property
    def at_end(self) -> float:
        """The quantile of a mean at the range's end, times the size."""
        return float(self.quantiles(FAILURE / 2)[_ROWS])

    def missed(self, failure: float) -> Floats:
        """Return bounds on P(Z(u) > q(u) + z), q(u) the quantile of `failure`; shape (rows, distances)."""
        if failure not in self._missed:
            self._missed[failure] = self.missed_by(failure, self.distances)
        return self._missed[failure]

    def missed_by(self, failure: float, distances: Floats) -> Floats:
        """Return the same as `missed`, for other distances z."""
        points = self.quantiles(failure)[:, np.newaxis] + distances
        place = np.floor((points - self.first[:, np.newaxis]) / self.step[:, np.newaxis])
        place = np.clip(place, -1, _PLACES - 1).astype(np.int64)
        found = np.take_along_axis(self.survival, np.maximum(place, 0), axis=1)
        return np.asarray(np.minimum(np.where(place < 0, 1.0, found) + _MOVED, 1.0))


@lru_cache(maxsize=4)
def table_of(noise: Noise, power: int | None) -> SurvivalTable:
    """Return the table of a noise and of rounding by 2^power / 16 of its root mean square, None for none."""
    if power is None:
        return SurvivalTable(noise, 0.0)
    return SurvivalTable(noise, _COARSEST * 2.0**power * float(mean_square_error(noise)) ** 0.5)


def _power(clients: float, noise: Noise) -> int:
    """Return the least power of `table_of` that is enough for so many clients' random rounding.

    A client's rounding is within a step and has the mean 0. A mean's direction has it twice, so the standard
    deviation is bounded by the root of the number of clients (Hoeffding).
    """
    share = (clients / float(mean_square_error(noise))) ** 0.5
    return max(0, int(np.ceil(np.log2(share / _COARSEST))))


def upper_end(sums: GroupSums, table: SurvivalTable, failure: float) -> float:
    """Return the largest u from -1 on that a group's mean may have by its sums, or infinity.

    Computes: a true mean u has from_below - from_above - u size = -Z(u). Means for which this is below -q(u)
    are not possible, with the quantile q of `failure`.
    Guarantees: the mean is larger with probability at most `failure` + `_MOVED`.
    """
    rows = np.arange(-_ROWS, _LAST_ROW + 1)
    reach = table.quantiles(failure)[np.abs(rows)] + table.slack[np.abs(rows)]
    low = (rows - 0.5) / _ROWS
    high = (rows + 0.5) / _ROWS
    difference = sums.from_below - sums.from_above
    if sums.size > 0:
        ends = np.minimum(high, (difference + reach) / sums.size)
        possible = ends >= low
    else:
        ends = high
        possible = difference - high * sums.size >= -reach
    if not possible.any():
        return -1.0
    if possible[-1] and ends[-1] >= high[-1]:
        return float("inf")
    return max(-1.0, float(ends[possible].max()))


@dataclass(frozen=True)
class Window:
    """Sizes and means that a group may have, by its sums: wrong with probability 4 `_RARE` at most.

    Attributes:
        size: The least and the largest size, in steps.
        mean: The least and the largest mean.
    """

    size: tuple[float, float]
    mean: tuple[float, float]


class Largest:
    """The largest values of a table by direction, in ranges of directions."""

    def __init__(self, table: Floats) -> None:
        """Prepare a table, shape (rows, distances)."""
        self._table = table
        self._blocks = np.maximum.reduceat(table, np.arange(0, len(table), _BLOCK), axis=0)
        self._found: dict[tuple[int, int, int], Floats] = {}  # by first and last block, and first distance

    def most(self, low: float, high: float, start: int) -> Floats:
        """Return bounds on the largest values of all directions from low to high, for a band of distances.

        No direction is beyond the table. Where there are many rows, whole blocks of them are looked at.
        """
        furthest = max(abs(low), abs(high))
        nearest = 0.0
        if low > 0 or high < 0:
            nearest = min(abs(low), abs(high))
        last = min(math.ceil(furthest * _ROWS), len(self._table) - 1)
        first = min(math.floor(nearest * _ROWS), last)
        end = start + _BAND
        if last - first <= 2 * _BLOCK:
            return np.asarray(self._table[first : last + 1, start:end].max(axis=0))
        blocks = (first // _BLOCK, last // _BLOCK, start)
        if blocks not in self._found:
            self._found[blocks] = self._blocks[blocks[0] : blocks[1] + 1, start:end].max(axis=0)
        return self._found[blocks]


class Group:
    """The possible means of a group, by its noisy sums.

    Attributes:
        near_zero: Whether the group may be empty, so that nothing is said of differences from its mean.
        sizes: Cells that cover the possible sizes, low and high, shape (sizes, 2).
        means: Cells that cover the possible means, low and high, shape (means, 2).
    """

    def __init__(self, sums: GroupSums, noise: Noise, steps: int, *, rounded: bool) -> None:
        """Find the group's window.

        A size so small that the group seems empty with probability 1 - `_MAIN` needs no further interval.

        Args:
            sums: The group's noisy sums, in steps.
            noise: The noise of each sum.
            steps: Steps on each side of the range's center.
            rounded: Whether clients round their values at random.
        """
        self.sums = sums
        self._missed: dict[float, tuple[Floats, Floats]] = {}  # values by failure
        client = 2.0 * steps
        of_size = noise_sum(noise, 2)
        reach = of_size.quantile(_RARE)
        seems_empty = client + of_size.quantile(FAILURE / 2)
        self.near_zero = bool(sums.size < seems_empty)
        self._of_size = of_size
        self._seems_empty = seems_empty
        largest = max(sums.size + reach, client)
        least = max(sums.size - reach, client)
        powers: list[int | None] = [None]
        if rounded:
            powers = list(range(_power(least / client, noise), _power(largest / client, noise) + 1))
        self.table = table_of(noise, powers[-1])
        self._others = [table_of(noise, power) for power in powers[:-1]]  # tables of less rounding
        low, high = self.interval(_RARE - _MOVED)
        least = min(max(least, seems_empty - of_size.quantile(_MAIN) - 1.0), largest)
        self.window = Window((least, largest), (max(low, -1.0), min(high, 1.0)))
        self.sizes = self._cells_of_sizes()
        self.means = self._cells_of_means()

    def interval(self, failure: float) -> tuple[float, float]:
        """Return the ends of the mean's interval, each wrong with probability `failure` + `_MOVED`."""
        low = -upper_end(self.sums.mirrored, self.table, failure)
        return low, upper_end(self.sums, self.table, failure)

    def ends(self, failure: float) -> tuple[float, float]:
        """Return the ends of the interval for differences: not far beyond the range."""
        least = self.window.size[0]
        most = 1 + _beyond(self.table.at_end, least) / least
        low, high = self.interval(failure)
        return max(low, -most), min(high, most)

    def missed(self, failure: float) -> tuple[Floats, Floats]:
        """Return bounds on the probability that the ends of `ends` miss the mean by more than each distance.

        The upper end may be below the mean, and the lower end above. Distances are times the size.

        Returns:
            The bounds for the upper end, and the bounds for the lower end, each of shape (sizes, means,
            distances).
        """
        if failure not in self._missed:
            of_rows = self.table.missed(failure)
            for table in self._others:
                of_rows = np.maximum(of_rows, table.missed_by(failure, self.table.distances))
            rows = Largest(of_rows)
            upper = self._missed_above(rows, self.means)
            lower = self._missed_above(rows, -self.means[:, ::-1])
            self._missed[failure] = upper, lower
        return self._missed[failure]

    def _cells_of_sizes(self) -> Floats:
        least, largest = self.window.size
        number = int(np.ceil(np.log(largest / least) / np.log(_WIDEST_SIZE)))
        number = min(max(number, 1), _SIZES)
        return _cells(least * (largest / least) ** (np.arange(number + 1) / number))

    def _cells_of_means(self) -> Floats:
        """Return cells that are narrow near the range's ends, where the intervals are cut."""
        least, largest = self.window.size
        low, high = self.window.mean
        width = max(_WIDEST, (high - low) / _MEANS)
        near = 1 - _FROM_END * self.table.at_end / (least * largest) ** 0.5
        near = near[near > 0]
        evenly = np.arange(low, high, width)
        last = near.min(initial=1.0)
        edges = np.concatenate([-near, evenly[abs(evenly) < last], near])
        edges = np.unique(edges[(low < edges) & (edges < high)])
        return _cells(np.concatenate([[low], edges, [max(low, high)]]))

    def _missed_above(self, rows: "Largest", means: Floats) -> Floats:
        """Return bounds on the probability that the upper end is below the mean by more, by distance.

        The group does not seem empty, either, which is unlikely for a small size.

        Args:
            rows: Bounds by the table's row, and by distance.
            means: Cells of means, low and high, shape (means, 2).

        Returns:
            Shape (sizes, means, distances).
        """
        distances = self.table.distances
        missed = np.empty((len(self.sizes), len(means), _DISTANCES))
        for start in range(0, _DISTANCES, _BAND):
            end = start + _BAND
            moved = distances[[start, end - 1]] / self.sizes[:, :, np.newaxis]
            low = means[:, 0] - moved.max(axis=(1, 2))[:, np.newaxis]
            high = means[:, 1] - moved.min(axis=(1, 2))[:, np.newaxis]
            for size, mean in np.ndindex(low.shape):
                within = rows.most(float(low[size, mean]), float(high[size, mean]), start)
                missed[size, mean, start:end] = within
        missed[..., 0] = 1.0  # distances below the grid count as at its second point
        missed = np.minimum.accumulate(missed, axis=-1)
        at_end = min(table.at_end for table in [self.table, *self._others])
        for i, (least, largest) in enumerate(self.sizes.tolist()):
            surely = -_beyond(at_end, least) - least * (1 - means[:, 1:])
            never = largest * (1 + means[:, 1:])
            missed[i] = np.where(distances < surely, 1.0, np.where(distances >= never, 0.0, missed[i]))
            missed[i] = np.minimum(missed[i], self._not_near_zero(largest))
        return missed

    def _not_near_zero(self, size: float) -> float:
        """Return a bound on the probability that a group of this size at most seems not to be empty."""
        least = self._seems_empty - size - self._of_size.slack
        return float(self._of_size.above(np.array([least - 1.0]))[0]) + self._of_size.lost


def _beyond(at_end: float, size: float) -> float:
    """Return how far an end may be beyond the range, times the size, if it is the least possible one."""
    return min(_BEYOND * at_end, _MOST_BEYOND * size)


def _cells(edges: Floats) -> Floats:
    """Return the cells between edges, low and high."""
    return np.stack([edges[:-1], edges[1:]], axis=1)


def mean_interval(group: Group) -> tuple[float, float]:
    """Return the interval of a group's mean, cut to the range."""
    low, high = group.interval((FAILURE - _RARE) / 2 - _MOVED)  # the largest size may be wrong
    return max(low, -1.0), min(high, 1.0)


def difference_intervals(
    groups: Sequence[Group], pairs: Sequence[tuple[int, int]]
) -> list[tuple[float, float]]:
    """Return the intervals of differences of means, the first group's minus the second's.

    A difference from a group that may be empty has no ends.
    """
    intervals = []
    for i, k in pairs:
        if groups[i].near_zero or groups[k].near_zero:
            intervals.append((-np.inf, np.inf))
            continue
        level = LEVELS[_level(groups[i], groups[k])]
        low, high = groups[i].ends(level)
        other_low, other_high = groups[k].ends(level)
        intervals.append((low - other_high, high - other_low))
    return intervals


def _level(group: Group, other: Group) -> int:
    """Return the place of the largest failure of single means at which their difference still holds."""
    least = 0
    most = LEVELS.size - 1
    while least < most:
        middle = (least + most + 1) // 2
        if difference_holds(group, other, LEVELS[middle]):
            least = middle
        else:
            most = middle - 1
    return least


def difference_holds(group: Group, other: Group, failure: float) -> bool:
    """Return whether a difference is outside its interval with probability `_MAIN` at most.

    This is for all possible sizes and means. The interval is made of single means' ends, each wrong with
    probability `failure`.
    """
    upper, lower = group.missed(failure)
    other_upper, other_lower = (_Masses(missed) for missed in other.missed(failure))
    grids = group.table.distances, other.table.distances
    for i, size in enumerate(group.sizes):
        for k, other_size in enumerate(other.sizes):
            ratios = size[0] / other_size[1], size[1] / other_size[0]
            above = _beyond_zero(grids, upper[i], other_lower.of_size(k), ratios)
            below = _beyond_zero(grids, lower[i], other_upper.of_size(k), ratios)
            if (above + below).max() > _MAIN:
                return False
    return True


class _Masses:
    """Bounds on the distribution of distances, as masses at the points of the grid.

    Attributes:
        masses: Shape (sizes, means, distances).
        beyond: The mass beyond the grid, shape (sizes, means).
    """

    def __init__(self, missed: Floats) -> None:
        """Take the probabilities of larger distances, shape (sizes, means, distances)."""
        self.masses = np.zeros_like(missed)
        self.masses[..., 1:] = -np.diff(missed, axis=-1)
        self.beyond = missed[..., -1]

    def of_size(self, size: int) -> tuple[Floats, Floats]:
        """Return the masses of a cell of sizes, shape (means, distances), and those beyond the grid."""
        return self.masses[size], self.beyond[size]


def _beyond_zero(
    distances: tuple[Floats, Floats],
    missed: Floats,
    others: tuple[Floats, Floats],
    ratios: tuple[float, float],
) -> Floats:
    """Return bounds on the probability that two groups' distances, over their sizes, add up to more than 0.

    Neither group seems empty.

    Args:
        distances: The grid of distances of each group, times its size.
        missed: The probability of a larger distance in the first group, shape (means, distances). Its first
            value is for all distances below the grid, too.
        others: The masses of the second group at its grid's points, and beyond them.
        ratios: The least and the largest ratio of the first group's size to the second group's size.

    Returns:
        Shape (means of the first group, means of the second).
    """
    first, second = distances
    masses, beyond = others
    needed = -second * np.where(second > 0, ratios[1], ratios[0])
    at = np.floor((needed - first[0]) / (first[1] - first[0])).astype(np.int64)
    found = missed[:, np.clip(at, 0, _DISTANCES - 1)]
    return np.asarray(found @ masses.T + beyond)
