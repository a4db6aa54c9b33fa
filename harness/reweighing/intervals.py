"""Intervals of ratios of sums of noisy counts, of shares, and of differences of means.

Intervals of ratios are of true counts raised to 1, as noisy counts are. Raising moves no two counts apart, so
the error F of a raised noisy count lies between 0 and its noise E = X + 1/2. If all counts are surely too
large to be raised, F = E. Otherwise E's positive part bounds F.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fairshares.protocols.noise.added import Distribution, Noise as NoiseOfCount, error_bound, noise_sum

Table = npt.NDArray[np.float64]

CONFIDENCE = Fraction(95, 100)
FLOOR = 1.0
FAILURE = float(1 - CONFIDENCE)
RAISED_FAILURE = FAILURE / 100  # chance that any count is raised although it is taken as surely not raised
CAP_FAILURE = FAILURE / 100  # chance that the bound on a ratio with an unknown divisor fails
_BETWEEN = 1 / 200  # part of a failure, per side, for ratios between two points of the grid
DIFFERENCE_FAILURE = FAILURE * 24 / 25  # of a difference of means; the means' bounds get the rest
_RARE = FAILURE / 200  # chance that one of the bounds fails that a difference of means relies on
_MEANS = 3  # cells that the range of each of two means is cut into
_RATIOS = 6  # points of the grid of ratios of their sizes
_PLACES = 4096  # points of the grid on which weighted sums are added up
_ROUNDING = 1e-12  # error in mass of the Fourier transforms
_GROWTH = 1 + 1 / 128  # from one point of the grid of ratios to the next
_TINY = 1e-12
_BLOCK = 64  # points of the grid of ratios that are computed together


@dataclass(frozen=True)
class Noise:
    """The noise of a release's counts.

    Attributes:
        of_count: The noise of each count.
        cells: The number of counts.
        raised: Whether any of them may be raised to the floor.
    """

    of_count: NoiseOfCount
    cells: int
    raised: bool

    def sum(self, terms: int) -> Distribution:
        """Return a two-sided bound on the error of a sum of raised noisy counts."""
        return noise_sum(self.of_count, terms, positive=self.raised)


def noise_of(of_count: NoiseOfCount, cells: int, least: float) -> Noise:
    """Return the noise of counts of which the smallest noisy count is at least `least`.

    If |E| <= T for all counts, a noisy count above 2 T + 1 stands for a true count above T + 1.
    """
    furthest = float(error_bound(of_count, Fraction(RAISED_FAILURE) / cells))
    return Noise(of_count, cells, raised=least <= 2 * furthest + 1)


def ratio_interval(
    ratio: Table, own: Table, terms: int, most: Table, noise: Noise, *, failure: float = FAILURE
) -> Table:
    """Return, per weight, an interval of the ratio B/A of two sums of raised true counts, shape (weights, 2).

    `ratio` is b/a, `own` is a, a sum of `terms` counts, and `most` bounds each ratio.
    Computes: Fieller's region. For each true ratio r, the noisy sums have b - r a = F_B - r F_A, within the
    exact quantile q(r) of that sum. Between points r < s of a grid, q is at most q(r) + (s - r) t, with t a
    quantile of F_A.
    Guarantees: holds B/A with probability at least 1 - failure.
    [test: tests/harness/reweighing/test_weight_intervals.py]
    """
    main = _main(failure)
    t = noise.sum(terms).quantile(main / 2)
    u = noise.sum(noise.cells - terms).quantile(main / 2)
    # q(r) <= u + r t for all r, so that no ratio outside start and end is possible.
    start = np.maximum(0, (ratio * own - u) / (own + t))
    with np.errstate(divide="ignore"):
        end = np.where(own > t, (ratio * own + u) / np.maximum(own - t, 0), np.inf)
    end = np.maximum(np.minimum(end, most), ratio)
    grid, q = _grid(noise, terms, main, float(start.min()), float(end.max()))
    half_width = q / own[:, np.newaxis]
    lower = np.maximum(grid[:-1], ratio[:, np.newaxis] - half_width)
    upper = np.minimum(grid[1:], ratio[:, np.newaxis] + half_width)
    is_possible = lower <= upper
    least = np.where(is_possible, lower, np.inf).min(axis=1)
    largest = np.where(is_possible, upper, 0).max(axis=1)
    return np.stack([np.clip(least, 0, ratio), np.clip(largest, ratio, end)], axis=-1)


def share_intervals(
    a: Table, b: Table, terms: tuple[int, int], noise: NoiseOfCount, failure: float = FAILURE
) -> Table:
    """Return, for each pair of noisy sums a and b of `terms` counts, an interval of the true A/(A + B).

    The larger sum is the divisor of a ratio, from whose interval that of the share follows. Where the larger
    sum may be 0, the interval is [0, 1].
    Guarantees: each holds its share with probability at least 1 - failure.
    [test: tests/statistical/test_intervals.py]
    """
    terms_of_a, terms_of_b = terms
    both = Noise(noise, terms_of_a + terms_of_b, raised=False)
    intervals = np.tile([0.0, 1.0], (*a.shape, 1))
    above_noise = a > both.sum(terms_of_a).quantile(_main(failure) / 2)
    certain = above_noise & (a >= b)
    if certain.any():
        share = _shares_of_larger(a[certain], b[certain], terms_of_a, both, failure)
        intervals[certain] = share
    above_noise = b > both.sum(terms_of_b).quantile(_main(failure) / 2)
    certain = above_noise & (b > a)
    if certain.any():
        share = _shares_of_larger(b[certain], a[certain], terms_of_b, both, failure)
        intervals[certain] = 1 - share[:, ::-1]
    return intervals


def _shares_of_larger(larger: Table, smaller: Table, terms: int, noise: Noise, failure: float) -> Table:
    """Return intervals of the shares of larger sums, of `terms` counts each; shape (sums, 2)."""
    ratio = np.maximum(smaller, 0) / larger
    unbounded = np.full(larger.shape, np.inf)
    ratios = ratio_interval(ratio, larger, terms, unbounded, noise, failure=failure)
    return (1 / (1 + ratios))[:, ::-1]


def difference_bound(
    noise: NoiseOfCount, estimates: Sequence[float] | Table, sizes: Sequence[float] | Table, means: Table
) -> float:
    """Return a bound on the error of the difference of two groups' noisy means, m = (a - b)/(a + b).

    Computes: a mean's error is d = ((1 - m) E - (1 + m) E')/(a + b), m the true mean. With x the second
    group's ratio of noisy to true size over the first's, d_1 - x d_2 is a sum of independent noises, within
    its exact quantile q. |1 - 1/x| has a like bound, with tails at most doubled. So d_1 - d_2 is at most q +
    (x - 1) |d_2| and (q + (x - 1) |d_1|)/x, and likewise with the groups exchanged. Between points of a grid
    of x and means, q moves by a rare noise.
    Guarantees: with probability at least 1 - `DIFFERENCE_FAILURE` if the true means are within `means`, shape
    (2, 2), low and high.  [test: tests/statistical/test_gaps.py]
    """
    distribution = noise_sum(noise, 1)
    per_size = 1 / np.array(sizes)
    apart = quantiles_of_sums([distribution] * 4, np.tile(per_size, (1, 2)), _RARE / 2).item()
    if apart >= 1:
        return np.inf
    ratios = np.linspace(1, 1 / (1 - apart), _RATIOS)
    furthest = np.abs(means - np.array(estimates)[:, np.newaxis]).max(axis=1)
    radii = (means[:, 1] - means[:, 0]) / (2 * _MEANS)
    middles = means[:, :1] + radii[:, np.newaxis] * np.arange(1, 2 * _MEANS, 2)
    moved = noise_sum(noise, 2).quantile(_RARE) * radii * per_size
    between = (ratios[1] - 1) * 2 * distribution.quantile(_RARE / 2) * per_size
    main = DIFFERENCE_FAILURE / 2 - 4 * _RARE
    bound = 0.0
    for i, k in ((0, 1), (1, 0)):
        x, mean, other_mean = np.meshgrid(ratios[1:], middles[i], middles[k], indexing="ij")
        factors = [
            (1 - mean) * per_size[i],
            (1 + mean) * per_size[i],
            x * (1 - other_mean) * per_size[k],
            x * (1 + other_mean) * per_size[k],
        ]
        sums = quantiles_of_sums([distribution] * 4, np.stack(factors, axis=-1).reshape(-1, 4), main)
        above = ratios[1:]
        q = sums.reshape(x.shape).max(axis=(1, 2)) + moved[i] + above * moved[k] + between[k]
        ends = np.minimum(q + (above - 1) * furthest[k], (q + (above - 1) * furthest[i]) / ratios[:-1])
        bound = max(bound, float(ends.max()))
    return bound


def quantiles_of_sums(distributions: Sequence[Distribution], factors: Table, failure: float) -> Table:
    """Return, per row of factors >= 0, a quantile of the weighted sum, rounded up.

    Computes: each row's values are rounded to a grid of its own, and the masses on it are convolved by
    Fourier transforms.
    """
    widths = [distribution.step * distribution.masses.size for distribution in distributions]
    steps = factors @ widths / (_PLACES - 2 * len(widths))
    first = np.zeros(len(factors))  # the place on its grid where a row's sum begins
    waves = np.ones((len(factors), _PLACES // 2 + 1), dtype=np.complex128)
    for distribution, column in zip(distributions, factors.T, strict=True):
        places = np.rint((column / steps)[:, np.newaxis] * distribution.values).astype(np.int64)
        waves *= np.fft.rfft([np.bincount(row - row[0], distribution.masses, _PLACES) for row in places])
        first += places[:, 0]
    beyond = np.cumsum(np.fft.irfft(waves)[:, ::-1], axis=1)[:, ::-1]  # at a place or above
    lost = sum(distribution.lost for distribution in distributions)
    allowed = failure * (1 - 1e-9) - lost - _ROUNDING
    last = _PLACES - 1 - np.argmax((beyond > allowed)[:, ::-1], axis=1)
    slack = len(widths) * steps / 2 + factors @ [distribution.slack for distribution in distributions]
    return np.asarray((first + last) * steps + slack)


def _main(failure: float) -> float:
    """Return the part of a failure, per side, that is for ratios on the grid."""
    return failure * (0.98 / 2 - _BETWEEN)


def _grid(noise: Noise, terms: int, failure: float, start: float, end: float) -> tuple[Table, Table]:
    """Return points of the grid of ratios that cover start to end, and a bound on q from each to the next."""
    first = start if start > 0 else min(end, 1.0) * 1e-6
    first_block = _block_of(first)
    last_block = _block_of(end)
    powers = np.arange(first_block * _BLOCK, (last_block + 1) * _BLOCK + 1)
    grid = _GROWTH ** powers.astype(np.float64)
    blocks = range(first_block, last_block + 1)
    q = np.concatenate([_quantiles(noise, terms, failure, block) for block in blocks])
    if start == 0:
        grid = np.concatenate([[0.0], grid])
        q = np.concatenate([[noise.sum(noise.cells - terms).quantile(failure)], q])
    return grid, q + np.diff(grid) * noise.sum(terms).quantile(_BETWEEN * failure / (0.98 / 2 - _BETWEEN))


def _block_of(ratio: float) -> int:
    """Return the block of the grid that a ratio is in; that of a tiny ratio for 0.

    At a large epsilon the errors' quantiles may be 0, and the largest possible ratio with them.
    """
    return int(np.floor(np.log(max(ratio, _TINY)) / np.log(_GROWTH))) // _BLOCK


@lru_cache(maxsize=4096)
def _quantiles(noise: Noise, terms: int, failure: float, block: int) -> Table:
    """Return, for each ratio r of a block, a t with P(F_B + r F_A > t) <= failure."""
    distribution = noise.sum(terms)
    others = noise.sum(noise.cells - terms)
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
