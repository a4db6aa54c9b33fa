"""Intervals of groups' means and of their differences, from noisy sums of distances from either end.

On the scale on which the range of values is from -1 to 1, a group of true size s and mean m has the sums
s (1 + m)/2 and s (1 - m)/2, which are revealed with independent, symmetric errors E and E'. Sums and sizes
are in steps. [why, with the proof: docs/decisions/0085-intervals.md]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.noise.added import Noise, mean_square_error, noise_sum

FAILURE = 0.05  # of each interval
_RARE = FAILURE / 200  # chance that one end of a group's window is wrong: of its size, or of its mean
_MOVED = 1e-4  # chance that a direction's noise moves further than assumed from one row to the next
_MAIN = FAILURE / 2 - 4 * _RARE  # for each end of a difference: a pair has eight ends of windows
_ROWS = 128  # rows of a table from direction 0 to 1
_FURTHEST = 2  # direction; an upper end beyond it is as good as none
_PLACES = 4096  # points of the grid on which a row's noise is added up
_TINY = 1e-7  # survival at places that the bound with rounding does not look at
_TILTS = np.geomspace(0.3, 3, 48)  # over the root mean square of one sum's noise
_DISTANCES = 512  # points of the grid of a mean's distance from its interval
_REACH = 2.5  # from 0 to the last of these points, in distances from the first one to 0
_CUT = 1  # how far a mean's interval may go beyond the range, in quantiles at the range's end
_LEVELS = np.geomspace(0.01, 0.08, 64)  # failures of one end of a single mean's interval
_RATIO = 2.0 ** (1 / 8)  # from one ratio of sizes to the next
_TOGETHER = 256  # cells of ratios that are computed together
_RATIOS = 48  # of such factors, to either side of 1
_COARSEST = 1 / 16  # standard deviations of rounding are rounded up to a power of 2 times this one
_FAR = 4.0  # standard deviations


@dataclass(frozen=True)
class Sums:
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
    def mirrored(self) -> "Sums":
        """The sums of the values with their signs changed."""
        return Sums(self.from_above, self.from_below)


class Table:
    """Survival functions of the noise Z(u) = (1 + u) E' - (1 - u) E, with random rounding, by direction u.

    Row k is for all directions whose absolute value is within half a row of k / 128, up to 2. It is an upper
    bound of P(Z(u) > t + `slack`) - `_MOVED`, at the places `first` + i `step` of t.
    """

    def __init__(self, noise: Noise, rounding: float) -> None:
        """Compute the table; `rounding` is a bound on the standard deviation of rounding, 0 for none.

        Rounding is sub-Gaussian: E exp(x R) <= exp(x^2 rounding^2 / 2) for each x.
        """
        self._quantiles: dict[float, Floats] = {}  # by failure
        self._missed: dict[float, Floats] = {}
        law = noise_sum(noise, 1)
        directions = np.arange(_ROWS * _FURTHEST + 1) / _ROWS
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
        points = self.first[:, np.newaxis] + self.step[:, np.newaxis] * place
        with np.errstate(divide="ignore"):
            before = np.concatenate([np.zeros((len(points), 1)), np.log(self.survival[:, :-1])], axis=1)
        before[before < np.log(_TINY)] = -np.inf  # at most the survival at any point from the last place on
        tilted = np.full(bound.shape, np.inf)
        for tilt in _TILTS / scale:
            most = (before + tilt * points).max(axis=1, keepdims=True)
            tilted = np.minimum(tilted, most + (tilt * rounding) ** 2 / 2 - tilt * points)
        bound = np.minimum(np.minimum(bound, np.exp(np.minimum(tilted, 0)) + _TINY), 1.0)
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
        least = _CUT * self.quantiles(FAILURE / 2)[_ROWS]
        return np.linspace(-least, _REACH * least, _DISTANCES)

    def missed(self, failure: float) -> Floats:
        """Return bounds on P(Z(u) > q(u) + z), q(u) the quantile of `failure`; shape (rows, distances)."""
        if failure not in self._missed:
            self._missed[failure] = self.missed_by(failure, self.distances)
        return self._missed[failure]

    def missed_by(self, failure: float, distances: Floats) -> Floats:
        """Return what `missed` does, for other distances z."""
        points = self.quantiles(failure)[:, np.newaxis] + distances
        place = np.floor((points - self.first[:, np.newaxis]) / self.step[:, np.newaxis])
        place = np.clip(place, -1, _PLACES - 1).astype(np.int64)
        found = np.take_along_axis(self.survival, np.maximum(place, 0), axis=1)
        return np.asarray(np.minimum(np.where(place < 0, 1.0, found) + _MOVED, 1.0))


@lru_cache(maxsize=4)
def table_of(noise: Noise, power: int | None) -> Table:
    """Return the table of a noise and of rounding by 2^power / 16 of its root mean square, None for none."""
    if power is None:
        return Table(noise, 0.0)
    return Table(noise, _COARSEST * 2.0**power * float(mean_square_error(noise)) ** 0.5)


def _power(clients: float, noise: Noise) -> int:
    """Return the least power of `table_of` that is enough for so many clients' random rounding.

    A client's rounding is within a step and has the mean 0. A mean's direction has it twice, so the standard
    deviation is bounded by the root of the number of clients (Hoeffding).
    """
    share = (clients / float(mean_square_error(noise))) ** 0.5
    return max(0, int(np.ceil(np.log2(share / _COARSEST))))


def upper_end(sums: Sums, table: Table, failure: float) -> float:
    """Return the largest u from -1 on that a group's mean may have by its sums, or infinity.

    Computes: a true mean u has from_below - from_above - u size = -Z(u). Means for which this is below -q(u)
    are not possible, with the quantile q of `failure`.
    Guarantees: the mean is larger with probability at most `failure` + `_MOVED`.
    """
    rows = np.arange(-_ROWS, _ROWS * _FURTHEST + 1)
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


class Group:
    """What the noisy sums of a group say of its mean."""

    def __init__(self, sums: Sums, noise: Noise, steps: int, *, rounded: bool) -> None:
        """Find the group's window.

        Args:
            sums: The group's noisy sums, in steps.
            noise: The noise of each sum.
            steps: Steps on each side of the range's center.
            rounded: Whether clients round their values at random.
        """
        self.sums = sums
        self._missed: dict[float, Floats] = {}  # by failure
        reach = noise_sum(noise, 2).quantile(_RARE)
        largest = max(sums.size + reach, 2.0 * steps)
        least = max(sums.size - reach, 2.0 * steps)
        powers: list[int | None] = [None]
        if rounded:
            powers = list(range(_power(least / (2 * steps), noise), _power(largest / (2 * steps), noise) + 1))
        self.table = table_of(noise, powers[-1])
        self._others = [table_of(noise, power) for power in powers[:-1]]  # of less rounding
        low, high = self.interval(_RARE - _MOVED)
        self.window = Window((least, largest), (max(low, -1.0), min(high, 1.0)))

    def interval(self, failure: float) -> tuple[float, float]:
        """Return the ends of the mean's interval, each wrong with probability `failure` + `_MOVED`."""
        low = -upper_end(self.sums.mirrored, self.table, failure)
        return low, upper_end(self.sums, self.table, failure)

    def ends(self, failure: float) -> tuple[float, float]:
        """Return the ends of the interval for differences: not far beyond the range."""
        most = 1 - self.table.distances[0] / self.window.size[0]
        low, high = self.interval(failure)
        return max(low, -most), min(high, most)

    def missed(self, failure: float) -> Floats:
        """Return bounds on the probability that the mean misses an end by more than each distance.

        Distances are times the size. Each end may be cut, as `ends` cuts it.
        """
        if failure not in self._missed:
            self._missed[failure] = self._worst_missed(failure)
        return self._missed[failure]

    def _worst_missed(self, failure: float) -> Floats:
        distances = self.table.distances
        missed = self.table.missed(failure)
        for table in self._others:
            missed = np.maximum(missed, table.missed_by(failure, distances))
        least = self.window.size[0]
        inside = self._rows(distances[-1] / least, furthest=1.0)
        outside = self._rows(-distances[0] / least, furthest=_FURTHEST)
        beyond = missed[inside].max(axis=0)
        worst = np.asarray(missed[outside].max(axis=0), dtype=np.float64)
        worst[distances >= 0] = beyond[distances >= 0]
        return np.asarray(np.minimum.accumulate(worst), dtype=np.float64)

    def _rows(self, more: float, furthest: float) -> Integers:
        """Return the rows of directions within `more` of a possible mean, up to `furthest`."""
        low = max(self.window.mean[0] - more, -furthest)
        high = min(self.window.mean[1] + more, furthest)
        most = max(abs(low), abs(high))
        least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        last = min(int(np.ceil(most * _ROWS)), _ROWS * _FURTHEST)
        return np.arange(int(np.floor(least * _ROWS)), last + 1)


def mean_interval(group: Group) -> tuple[float, float]:
    """Return the interval of a group's mean, cut to the range."""
    low, high = group.interval((FAILURE - _RARE) / 2 - _MOVED)  # the largest size may be wrong
    return max(low, -1.0), min(high, 1.0)


def difference_intervals(
    groups: Sequence[Group], pairs: Sequence[tuple[int, int]]
) -> list[tuple[float, float]]:
    """Return the intervals of differences of means, the first group's minus the second's."""
    levels = _levels(groups, pairs)
    intervals = []
    for (i, k), level in zip(pairs, levels, strict=True):
        low, high = groups[i].ends(_LEVELS[level])
        other_low, other_high = groups[k].ends(_LEVELS[level])
        intervals.append((low - other_high, high - other_low))
    return intervals


def _levels(groups: Sequence[Group], pairs: Sequence[tuple[int, int]]) -> Integers:
    """Return, by pair, the place of the largest failure of single means at which a difference still holds."""
    cells = [_cells(groups[i].window, groups[k].window) for i, k in pairs]
    pair = np.repeat(np.arange(len(pairs)), [len(of_pair) for of_pair in cells])
    low, high = np.concatenate(cells).T
    firsts = np.array([i for i, _ in pairs])
    seconds = np.array([k for _, k in pairs])
    least = np.zeros(len(pairs), dtype=np.int64)
    most = np.full(len(pairs), _LEVELS.size - 1)
    while (least < most).any():
        middle = (least + most + 1) // 2
        fits = np.ones(len(pairs), dtype=bool)
        for level in np.unique(middle[least < most]):
            chosen = (middle == level) & (least < most)
            of_cells = chosen[pair]
            missed = np.stack([group.missed(_LEVELS[level]) for group in groups])
            bound = _failures(
                [group.table.distances for group in groups],
                missed,
                (firsts[pair[of_cells]], seconds[pair[of_cells]]),
                (low[of_cells], high[of_cells]),
            )
            np.logical_and.at(fits, pair[of_cells], bound <= _MAIN)
        least = np.where(fits & (least < most), middle, least)
        most = np.where(~fits, middle - 1, most)
    return least


def _cells(window: Window, other: Window) -> Floats:
    """Return cells, low and high, that cover the possible ratios of two groups' sizes."""
    least = window.size[0] / other.size[1]
    largest = window.size[1] / other.size[0]
    powers = np.log(np.array([least, largest])) / np.log(_RATIO)
    first, last = np.clip(np.floor(powers).astype(np.int64), -_RATIOS, _RATIOS)
    edges = _RATIO ** np.arange(first, last + 2, dtype=np.float64)
    edges[0] = min(edges[0], least)
    edges[-1] = max(edges[-1], largest)
    return np.stack([np.maximum(edges[:-1], least), np.minimum(edges[1:], largest)], axis=1)


def _failures(
    distances: Sequence[Floats],
    missed: Floats,
    groups: tuple[Integers, Integers],
    ratios: tuple[Floats, Floats],
) -> Floats:
    """Return bounds on the probability that two groups' distances, over their sizes, add up to more than 0.

    Args:
        distances: The grid of distances, by group.
        missed: The probability of a larger distance, shape (groups, distances).
        groups: The first and the second group of each cell.
        ratios: The ends of the ratios of the first group's size to the second's.
    """
    first, second = groups
    grids = np.stack(distances)
    masses = np.empty_like(missed)
    masses[:, 1:] = -np.diff(missed, axis=1)
    masses[:, 1] += 1 - missed[:, 0]
    masses[:, 0] = 0.0
    low, high = (ends[:, np.newaxis] for ends in ratios)
    steps = (grids[:, -1] - grids[:, 0]) / (_DISTANCES - 1)
    total = np.empty(first.size)
    for start in range(0, first.size, _TOGETHER):
        part = slice(start, start + _TOGETHER)
        distance = grids[second[part]]
        needed = -distance * np.where(distance > 0, high[part], low[part])
        one = first[part, np.newaxis]
        at = np.floor((needed - grids[one, 0]) / steps[one]).astype(np.int64)
        found = np.where(at < 0, 1.0, missed[one, np.clip(at, 0, _DISTANCES - 1)])
        total[part] = (masses[second[part]] * found).sum(axis=1) + missed[second[part], -1]
    return total
