"""Errors of noisy counts that are raised to 1, and quantiles of weighted sums of them.

A noisy count x = n + E of a true count n becomes max(x, 1), which stands for max(n, 1). So its error is
F = max(n + E, 1) - max(n, 1). Quantiles hold whatever the true counts are. [why, with the proofs:
docs/decisions/0085-intervals.md]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.protocols.arrays import Bools, Floats
from fairshares.protocols.noise.added import Distribution, Noise, error_bound, noise_sum, without_ends

CountTable = npt.NDArray[np.float64]

FLOOR = 1.0
FAILURE = float(1 - CONFIDENCE)
BOUNDS_FAILURE = FAILURE / 100  # chance that a true count is below what its noisy count says
MIXED_FAILURE = FAILURE / 20  # chance that a large count is raised, or that one near 0 seems large
_SHARES = (0.5, 0.92)  # least and largest part of a failure for runs in which all small counts are raised
LEAST_END = 0.45 * FAILURE  # the least failure of an interval's end
PLACES = 8192  # points of the grid on which weighted sums are added up
FEW_PLACES = 512  # the same, where a bound may be rough
_CUT = 1e-6  # mass on each side of an error's distribution that is not on the grid
_ROUNDING = 1e-12  # error in mass of the Fourier transforms
_SHORTFALLS = 16  # cells of how far a raised count was below its true count
_LEVELS_OF_BOUNDS = 2.0**0.5  # the factor from one bound on an error to the next, in root mean squares


@dataclass(frozen=True)
class PartOfCounts:
    """Counts whose errors have the same factor in a weighted sum.

    Attributes:
        sure: How many counts are surely not raised, and stand for true counts that are not.
        least: Minus the least error that each count may have if it is raised, for counts that may be raised.
            0 for counts whose true value may be 0.
        raised: How many counts are raised, if all small counts are. They are in neither of the others.
    """

    sure: int
    least: tuple[float, ...] = ()
    raised: int = 0

    @property
    def errors(self) -> list[tuple[int, float]]:
        """The errors that are added up: of how many counts each is, and minus the least if one is raised."""
        errors: list[tuple[int, float]] = [(1, least) for least in self.least]
        if self.sure:
            errors.append((self.sure, np.inf))
        return errors

    @property
    def with_raised(self) -> "PartOfCounts":
        """The same counts, with nothing known of the raised ones."""
        return PartOfCounts(self.sure, tuple(sorted(self.least + (0.0,) * self.raised)))

    def __add__(self, other: "PartOfCounts") -> "PartOfCounts":
        """Return the counts of both."""
        least = tuple(sorted(self.least + other.least))
        return PartOfCounts(self.sure + other.sure, least, self.raised + other.raised)


@dataclass(frozen=True, eq=False)
class CountsNoise:
    """The noise of a table of counts, and what the noisy counts say of errors.

    Attributes:
        of_count: The noise of each count.
        least: Minus the least error of a count if it is raised, by cell; infinite where it surely is not.
        raised: Which counts are raised, by cell.
        small: Which counts are so small that others like them may be raised, by cell.
    """

    of_count: Noise
    least: CountTable
    raised: Bools
    small: Bools

    def parts(self, tables: Sequence[Bools]) -> tuple[PartOfCounts, ...]:
        """Return the counts of each of these tables of cells.

        Where all of their small counts are raised, these are apart from the others.
        """
        apart = self.raised
        if self.is_mixed(tables):
            apart = np.zeros_like(self.raised)
        return tuple(self._part(cells, apart) for cells in tables)

    def is_mixed(self, tables: Sequence[Bools]) -> bool:
        """Return whether some small count in these tables is not raised, so that others may or may not be."""
        return bool((self.small & ~self.raised & np.logical_or.reduce(tables)).any())

    def _part(self, cells: Bools, apart: Bools) -> PartOfCounts:
        least = self.least[cells & ~apart]
        doubtful = np.sort(least[np.isfinite(least)])
        return PartOfCounts(
            sure=int(least.size - doubtful.size),
            least=tuple(doubtful.tolist()),
            raised=int((cells & apart).sum()),
        )


def noise_of(of_count: Noise, counts: CountTable) -> CountsNoise:
    """Return the noise of a table of noisy counts, which are raised to 1.

    A true count is at least the noisy count minus T, where no error exceeds T but with a chance of
    `BOUNDS_FAILURE`. A raised count may stand for any true count from 0 on.
    """
    failure = Fraction(BOUNDS_FAILURE) / counts.size
    furthest = float(error_bound(of_count, 2 * failure))
    raised = counts <= FLOOR
    at_least = np.where(raised, 0.0, counts - furthest)
    error = noise_sum(of_count, 1)
    unit = max(1.0, _root_mean_square(error))
    least = np.maximum(at_least - FLOOR, 0)
    with np.errstate(divide="ignore"):
        levels = np.floor(np.log(least / unit) / np.log(_LEVELS_OF_BOUNDS))
    rounded = np.where(least < 1, 0.0, np.minimum(least, unit * _LEVELS_OF_BOUNDS**levels))
    rounded = np.where(rounded >= error.quantile(_CUT * 2), np.inf, rounded)
    share = raised_share(of_count)
    small = 1 + error.quantile(LEAST_END * share / 2) + error.quantile(MIXED_FAILURE / counts.size)
    return CountsNoise(of_count, rounded, raised, counts <= small)


@dataclass(frozen=True)
class Factors:
    """Ranges of the factors of parts' errors in weighted sums.

    Attributes:
        low: The least factors, shape (rows, parts).
        high: The largest factors, shape (rows, parts).
    """

    low: Floats
    high: Floats

    def __neg__(self) -> "Factors":
        """Return the ranges of the factors with the other sign."""
        return Factors(-self.high, -self.low)


@dataclass(frozen=True)
class Square:
    """The square of a weighted sum of errors, over a divisor.

    Attributes:
        factors: The factors of the parts' errors.
        divisor: Above 0.
    """

    factors: Factors
    divisor: float

    def of_parts(self, parts: Sequence[PartOfCounts]) -> Floats:
        """Return factors c, shape (rows, parts), so that the sum of c E^2 / n^(1/2) bounds the square.

        Computes: for errors E, each the sum of n counts' errors, and positive numbers d, (sum of d |E|)^2 is
        at most (sum of d n^(1/2)) (sum of d E^2 / n^(1/2)), by Cauchy and Schwarz.
        """
        largest = np.maximum(abs(self.factors.low), abs(self.factors.high))
        roots = []
        for part in parts:
            root = part.raised**0.5
            for number, _ in part.errors:
                root += number**0.5
            roots.append(root)
        return np.asarray(largest * (largest @ np.array(roots))[:, np.newaxis] / self.divisor)


@dataclass(frozen=True)
class Shortfalls:
    """How far raised counts may be below their true counts: the least first, which are likeliest.

    Attributes:
        least: The sum of each part's counts, at least, shape (cases, parts).
        most: The sum of each part's counts, at most, shape (cases, parts).
        chances: The largest probability that all counts are raised, by case.
    """

    least: Floats
    most: Floats
    chances: Floats


class WeightedErrors:
    """Bounds on weighted sums of the errors of parts, each row of factors on a grid of its own.

    Computes: for each count and each error E of its noise the largest product of the count's error F and a
    factor in its range, whatever the true count is. These are rounded to the grid, and the masses on it are
    convolved by Fourier transforms. Raised counts that are apart are left out.
    """

    def __init__(
        self,
        of_count: Noise,
        parts: Sequence[PartOfCounts],
        factors: Factors,
        *,
        square: Square | None = None,
        places: int = PLACES,
    ) -> None:
        """Add up the errors.

        Args:
            of_count: The noise of each count.
            parts: The parts.
            factors: The factors of the parts' errors.
            square: A further term of the sum, if there is one.
            places: The points of a grid.
        """
        rows = len(factors.low)
        self._parts = parts
        self._factors = factors
        self._squares = np.zeros((rows, len(parts)))
        if square is not None:
            self._squares = square.of_parts(parts)
        # Each error with its largest products, shape (rows, errors).
        bounded: list[tuple[Distribution, Floats]] = []
        slack = np.zeros(rows)
        for column, part in enumerate(parts):
            low = factors.low[:, column, np.newaxis]
            high = factors.high[:, column, np.newaxis]
            for number, least in part.errors:
                error = _trimmed(of_count, number)
                furthest = abs(error.values) + error.slack
                products = _largest_products(error.values, low, high, least)
                products += self._squares[:, column, np.newaxis] / number**0.5 * furthest**2
                bounded.append((error, products))
                slack += error.slack * np.maximum(abs(low), abs(high))[:, 0]
        width = np.full(rows, 1e-300)
        for _, products in bounded:
            width += np.ptp(products, axis=1)
            # Errors that are all alike have no width, and their places are to be whole numbers of 64 bits.
            width += 1e-9 * abs(products).max(axis=1)
        self._step = width / (places - 2 * len(bounded) - 2)
        self._first = np.zeros(rows)
        waves = np.ones((rows, places // 2 + 1), dtype=np.complex128)
        begin = places * np.arange(rows)[:, np.newaxis]
        for error, products in bounded:
            at = np.rint(products / self._step[:, np.newaxis]).astype(np.int64)
            start = at.min(axis=1)
            at += begin - start[:, np.newaxis]
            on_grid = np.bincount(at.ravel(), np.tile(error.masses, rows), rows * places)
            waves *= np.fft.rfft(on_grid.reshape(rows, places))
            self._first += start
        # From the last place to the first, so that the probability of a place or a later one rises.
        self._at_least = np.cumsum(np.fft.irfft(waves)[:, ::-1], axis=1)
        self._lost = sum(error.lost for error, _ in bounded) + _ROUNDING
        self._slack = slack + len(bounded) * self._step / 2

    def quantiles(self, failures: Floats) -> Floats:
        """Return a quantile of each row's sum for each failure, rounded up, shape (rows, failures).

        It is minus infinity for failures of 1 or more, and infinite where more mass is lost than allowed.

        Args:
            failures: The probabilities for all rows, or a row of them for each.
        """
        of_rows = np.broadcast_to(np.atleast_2d(failures), (len(self._step), np.shape(failures)[-1]))
        allowed = of_rows * (1 - 1e-9) - self._lost
        above = np.stack(
            [
                np.searchsorted(row, most, side="right")
                for row, most in zip(self._at_least, allowed, strict=True)
            ]
        )
        last = self._at_least.shape[1] - 1 - above
        found = (self._first[:, np.newaxis] + last) * self._step[:, np.newaxis] + self._slack[:, np.newaxis]
        found = np.where(allowed > 0, found, np.inf)
        return np.asarray(np.where(of_rows >= 1, -np.inf, found))

    def largest_beside(self, cases: "Shortfalls", failure: float) -> Floats:
        """Return each row's largest quantile beside raised counts that stand for larger ones.

        Both ends together fail with 2 `failure` over the chance of a case. Where raised counts move the sum
        up alone, the other end fails with as much as if they moved nothing, and this one with the rest.

        Args:
            cases: How far the raised counts may be below their true counts.
            failure: The probability that one end fails.
        """
        moving = cases.most > 0
        low = self._factors.low
        high = self._factors.high
        is_up = ((high > 0).astype(int) @ moving.T == 0) & moving.any(axis=1)
        is_both = ((low > 0).astype(int) @ moving.T > 0) & ((high < 0).astype(int) @ moving.T > 0)
        alone = failure / cases.chances[0]
        of_both = failure / cases.chances
        failures = np.where(is_up, 2 * of_both - alone, np.where(is_both, of_both, alone))
        number = np.maximum([part.raised for part in self._parts], 1)
        beside = np.maximum(-low, 0) @ cases.most.T - np.maximum(low, 0) @ cases.least.T
        beside += self._squares / np.sqrt(number) @ (cases.most**2).T
        return np.asarray((self.quantiles(failures) + beside).max(axis=1))


def reaches(
    noise: CountsNoise,
    tables: Sequence[Bools],
    factors: Factors,
    failure: float,
    *,
    square: Square | None = None,
    places: int = PLACES,
) -> Floats:
    """Return, per row of factors, how far the weighted sum of the tables' errors reaches above 0.

    Guarantees: for any true counts the sum is above its run's reach, or below minus the reach of the factors
    with the other sign, with probability at most 2 `failure`, if the noisy counts' bounds hold. This is for
    all runs together: with small counts that are all raised, with some of them raised, and without any.
    [test: tests/harness/reweighing/test_count_errors.py]

    Args:
        noise: The noise of the counts.
        tables: The cells of each part.
        factors: The factors of the parts' errors.
        failure: The probability that the bound fails, from `LEAST_END` to `FAILURE` / 2.
        square: A further term of the sum, if there is one.
        places: The points of a grid. The more there are, the closer the reach is.
    """
    parts = noise.parts(tables)
    sums = WeightedErrors(noise.of_count, parts, factors, square=square, places=places)
    share = raised_share(noise.of_count)
    if noise.is_mixed(tables):
        return np.asarray(sums.quantiles(np.array([failure * (1 - share)]))[:, 0])
    raised = tuple(part.raised for part in parts)
    if not any(raised):
        return np.asarray(sums.quantiles(np.array([failure]))[:, 0])
    cases = _shortfalls(noise.of_count, raised, failure * share)
    return sums.largest_beside(cases, failure * share)


def reaches_in_any_run(
    of_count: Noise, parts: Sequence[PartOfCounts], factors: Factors, failure: float
) -> Floats:
    """Return, per row of factors, a quantile of the weighted sum that takes raised counts as any others."""
    sums = WeightedErrors(of_count, [part.with_raised for part in parts], factors)
    return np.asarray(sums.quantiles(np.array([failure]))[:, 0])


@lru_cache(maxsize=64)
def raised_share(noise: Noise) -> float:
    """Return the part of a failure that is for runs in which all small counts are raised.

    The less likely an empty count is raised, the less these runs need.
    """
    error = noise_sum(noise, 1)
    unmoved = 1 - float(error.above(np.array([FLOOR + error.slack]))[0])
    return min(max(unmoved**2, _SHARES[0]), _SHARES[1])


@lru_cache(maxsize=256)
def _shortfalls(noise: Noise, raised: tuple[int, ...], failure: float) -> Shortfalls:
    """Return how far raised counts may be below their true counts, and how likely these are all raised.

    A true count 1 + m is raised with probability P(E <= -m), and a true count 0 with P(E <= 1).

    Args:
        noise: The noise of each count.
        raised: How many counts of each part are raised.
        failure: Cases are left out in which all counts are raised with at most this probability.
    """
    error = noise_sum(noise, 1)
    width = max(1, int(np.ceil(error.quantile(failure) / _SHORTFALLS)))
    single: dict[int, float] = {}  # the probability by the largest shortfall in a cell
    start = 0
    while True:
        beyond = 1 - start if start == 0 else -start
        chance = float(error.above(np.array([-beyond - error.slack - 1e-6]))[0]) + error.lost
        if chance <= failure:
            break
        single[start + width - 1] = min(chance, 1.0)
        start += width
    cases: dict[tuple[int, ...], float] = {(): 1.0}
    for number in raised:
        of_part = {0: 1.0}
        for _ in range(number):
            of_part = _combined(of_part, single, failure)
        cases = {
            (*case, shortfall): chance * more
            for case, chance in cases.items()
            for shortfall, more in of_part.items()
            if chance * more > failure
        }
    most = np.array(list(cases), dtype=np.float64)
    least = most - (width - 1) * np.array(raised, dtype=np.float64)
    return Shortfalls(least, most, np.array(list(cases.values())))


def _combined(some: dict[int, float], single: dict[int, float], failure: float) -> dict[int, float]:
    """Return the largest probability of each sum of shortfalls, with one more raised count."""
    found: dict[int, float] = {}
    for shortfall, chance in some.items():
        for further, more in single.items():
            if chance * more > failure:
                total = shortfall + further
                found[total] = max(found.get(total, 0.0), chance * more)
    return found


def _largest_products(errors: Floats, low: Floats, high: Floats, least: float) -> Floats:
    """Return bounds on factor times F, for all factors from low to high, by the error E of a count's noise.

    Args:
        errors: E, shape (errors,).
        low: The least factors, shape (rows, 1).
        high: The largest factors, shape (rows, 1).
        least: F is E, or between E and -`least`; infinite if it is E. If it is 0, the true count may be 0.
    """
    up = np.maximum(errors, 0)
    down = np.minimum(errors, 0)
    of_up = high * up
    if least == 0:
        of_up = np.where(high >= 0, of_up, high * np.maximum(up - FLOOR, 0))
    of_down = np.where(low >= 0, low * np.maximum(down, -least), low * down)
    return np.asarray(of_up + of_down)


@lru_cache(maxsize=64)
def _trimmed(noise: Noise, terms: int) -> Distribution:
    """Return the distribution of a sum of errors without its far ends, which count as lost."""
    return without_ends(noise_sum(noise, terms), _CUT)


def _root_mean_square(error: Distribution) -> float:
    return float((error.values**2 @ error.masses) ** 0.5)
