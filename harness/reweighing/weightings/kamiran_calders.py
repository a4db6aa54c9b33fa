"""`kamiran-calders`: group and label are independent in the weighted records."""

from collections.abc import Sequence
from itertools import pairwise

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
    PartOfCounts,
    Square,
    reaches,
    reaches_in_any_run,
)
from fairshares.harness.reweighing.intervals import Quotient
from fairshares.harness.reweighing.weighting import Weighting, sums
from fairshares.protocols.arrays import Floats

_OUTSIDE = 2.5e-4  # chance that a share, the total, or the count itself is beyond one end of its range
_MAIN = FAILURE - BOUNDS_FAILURE - MIXED_FAILURE - 7 * _OUTSIDE
_ROUNDS = 4  # rounds of narrowing a share's range
_WIDEST = 0.04  # cell of a share, over the share and over the rest
_FINE = 6  # cells of each share, at most
_COARSE = 2
_LEAST_PLACES = 2048  # places of a grid, where there are many cells


class KamiranCalders(Weighting):
    """C(s) C(y) / (N C(s, y)), for counts C and their total N.

    Source: Kamiran and Calders 2012.
    """

    def of_counts(self, counts: CountTable) -> CountTable:
        return sums(counts, -1) * sums(counts, -2) / (sums(counts, -2, -1) * counts)

    def intervals(self, counts: CountTable, noise: CountsNoise) -> CountTable:
        """Return an interval of W = R L/(N a) for each count a, with its row sum R, column sum L and total N.

        Computes: with the shares p = R/N and q = L/N of the true sums, p L + q R - p q N - W a is 0. So of
        the noisy sums it is the same form of their errors, exactly. Its factors are known but for p and q,
        which are in ranges. At the noisy shares it differs by the product of the shares' errors times the
        noisy total. Each end has its own reach.
        """
        weights = self.of_counts(counts)
        intervals = np.empty((*counts.shape, 2))
        for group, label in np.ndindex(counts.shape):
            intervals[group, label] = _SumsOfWeight(counts, noise, group, label).interval()
        # Where noise is surely 0, the ends are the weight but for rounding.
        intervals[..., 0] = np.minimum(intervals[..., 0], weights)
        intervals[..., 1] = np.maximum(intervals[..., 1], weights)
        return intervals


class _SumsOfWeight:
    """The noisy sums that a weight is made of.

    Attributes:
        noise: The noise of the counts.
        tables: The cells of the count itself, the others of its row, the others of its column, and the rest.
        parts: The counts of these.
        own: The noisy count.
        row: The noisy row sum of the count.
        column: The noisy column sum of the count.
        total: The noisy total.
    """

    def __init__(self, counts: CountTable, noise: CountsNoise, group: int, label: int) -> None:
        """Add up the counts."""
        own = np.zeros(counts.shape, dtype=bool)
        row = own.copy()
        column = own.copy()
        own[group, label] = True
        row[group] = True
        column[:, label] = True
        self.noise = noise
        self.tables = (own, row & ~own, column & ~own, ~row & ~column)
        self.parts = noise.parts(self.tables)
        self.own = float(counts[group, label])
        self.row = float(counts[row].sum())
        self.column = float(counts[column].sum())
        self.total = float(counts.sum())

    def interval(self) -> tuple[float, float]:
        """Return the ends of the weight's interval."""
        own, of_row, of_column, rest = self.parts
        of_count = self.noise.of_count
        share = self._range_of_share(self.row, own + of_row, of_column + rest)
        other = self._range_of_share(self.column, own + of_column, of_row + rest)
        ones = np.ones((1, 4))
        (below,) = reaches_in_any_run(of_count, self.parts, Factors(-ones, -ones), _OUTSIDE).tolist()
        (above,) = reaches_in_any_run(of_count, self.parts, Factors(ones, ones), _OUTSIDE).tolist()
        divisor = max(self.total - above - below, self.tables[0].size * FLOOR)
        quotient = Quotient(self.row * self.column / self.total, self.own)
        least, most = self._box(share, other, self.total + below)
        return (
            quotient.least(_Form(self, share, other, divisor, sign=1), least),
            quotient.largest(_Form(self, share, other, divisor, sign=-1), most),
        )

    def _box(
        self, share: tuple[float, float], other: tuple[float, float], total: float
    ) -> tuple[float, float]:
        """Return the least weight, above 0, and the largest, by the ranges of single sums.

        Args:
            share: The range of R/N.
            other: The range of L/N.
            total: The largest true total.
        """
        own, of_row, of_column, _ = (table.sum() for table in self.tables)
        ones = np.ones((1, 1))
        (missing,) = reaches_in_any_run(
            self.noise.of_count, self.parts[:1], Factors(-ones, -ones), _OUTSIDE
        ).tolist()
        row = max(share[0], (own + of_row) * FLOOR / total)
        column = max(other[0], (own + of_column) * FLOOR / total)
        cells = self.tables[0].size * FLOOR
        return row * column * cells / (self.own + missing), share[1] * other[1] * total / FLOOR

    def _range_of_share(
        self, part: float, inside: PartOfCounts, outside: PartOfCounts
    ) -> tuple[float, float]:
        """Return the range of a share of the total, by the noisy sum of its counts.

        Computes: for a share p, the noisy sums have part - p total = (1 - p) F - p F', with the errors of the
        counts inside and outside. Its reach is for all p in the range that is known so far, at first [0, 1].
        """
        low = 0.0
        high = 1.0
        for _ in range(_ROUNDS):
            least = np.array([[1 - high, -high], [low - 1, low]])
            most = np.array([[1 - low, -low], [high - 1, high]])
            down, up = reaches_in_any_run(
                self.noise.of_count, (inside, outside), Factors(least, most), _OUTSIDE
            )
            low = max(low, (part - down) / self.total)
            high = min(high, (part + up) / self.total)
        return low, high


class _Form:
    """How far R L/N - W a of noisy sums is above or below 0, at most."""

    def __init__(
        self,
        sums: _SumsOfWeight,
        share: tuple[float, float],
        other: tuple[float, float],
        divisor: float,
        *,
        sign: int,
    ) -> None:
        """Take what is known of the sums.

        Args:
            sums: The noisy sums.
            share: The range of R/N.
            other: The range of L/N.
            divisor: The noisy total is not below this, and was not likely to be.
            sign: 1 for above, -1 for below.
        """
        self._sums = sums
        self._divisor = divisor
        self._sign = sign
        center = sum(share) / 2, sum(other) / 2
        self._center = np.array([[center[0], center[0], center[1], center[1]]])
        self._coarse = _cells(share, other, _COARSE)
        self._fine = _cells(share, other, _FINE)

    def near(self, quotient: float, /) -> float:
        """Return how far it reaches for a weight, for the shares in the middle of their ranges."""
        at = np.array([quotient])
        return float(self._reach(at, at, self._center, PLACES)[0])

    def reach(self, low: Floats, high: Floats, /, *, fine: bool) -> Floats:
        """Return how far it reaches at most, for each range of weights."""
        if fine:
            return self._reach(low, high, self._fine, max(PLACES // len(self._fine), _LEAST_PLACES))
        return self._reach(low, high, self._coarse, FEW_PLACES)

    def _reach(self, low: Floats, high: Floats, cells: Floats, places: int) -> Floats:
        """Return how far it reaches at most, for each range of weights and all cells of shares.

        Computes: the form H = p F_L + q F_R - p q F_N - W F_a, for the shares p and q and the errors F, plus
        A B / n, for A = F_R - p F_N, B = F_L - q F_N and the noisy total n. 4 A B is at most (A + B)^2, and
        at least -(A - B)^2.
        """
        p_low, p_high, q_low, q_high = cells.T
        shape = low.size, len(cells)
        own = 1 - (1 - p_low) * (1 - q_low) - high[:, np.newaxis]
        own_most = 1 - (1 - p_high) * (1 - q_high) - low[:, np.newaxis]
        of_parts = [own, q_low * (1 - p_high), p_low * (1 - q_high), -p_high * q_high]
        of_parts_most = [own_most, q_high * (1 - p_low), p_high * (1 - q_low), -p_low * q_low]
        factors = Factors(_rows(of_parts, shape), _rows(of_parts_most, shape))
        if self._sign > 0:
            sum_low = p_low + q_low
            sum_high = p_high + q_high
            squared = [2 - sum_high, 1 - sum_high, 1 - sum_high, -sum_high]
            squared_most = [2 - sum_low, 1 - sum_low, 1 - sum_low, -sum_low]
        else:
            across = q_low - p_high
            across_most = q_high - p_low
            squared = [across, across + 1, across - 1, across]
            squared_most = [across_most, across_most + 1, across_most - 1, across_most]
        square = Square(Factors(_rows(squared, shape), _rows(squared_most, shape)), 4 * self._divisor)
        found = reaches(
            self._sums.noise,
            self._sums.tables,
            factors if self._sign > 0 else -factors,
            _MAIN / 2,
            square=square,
            places=places,
        )
        return np.asarray(found.reshape(shape).max(axis=1))


def _rows(of_parts: Sequence[Floats], shape: tuple[int, int]) -> Floats:
    """Return factors of parts as rows, shape (rows, parts)."""
    return np.stack([np.broadcast_to(of_part, shape).ravel() for of_part in of_parts], axis=-1)


def _cells(share: tuple[float, float], other: tuple[float, float], most: int) -> Floats:
    """Return cells that cover two ranges of shares: low and high of each, shape (cells, 4).

    There are `most` of each share at most.
    """
    edges = _edges(*share, most)
    others = _edges(*other, most)
    cells = [(*cell, *other_cell) for cell in pairwise(edges) for other_cell in pairwise(others)]
    return np.array(cells)


def _edges(low: float, high: float, most: int) -> Floats:
    narrow = max(min(high, 1 - low), 1e-300)
    number = min(max(1, int(np.ceil((high - low) / (_WIDEST * narrow)))), most)
    return np.linspace(low, high, number + 1)


WEIGHTING = KamiranCalders()
