"""Intervals of ratios of sums of noisy counts, of shares, and of differences of means.

Those of ratios are of true counts raised to 1, as noisy counts are. Raising moves no two counts apart, so
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
_MEANS, _RATIOS = 3, 6  # cells of each of two means, and points of the grid of their sizes' ratios
_PLACES = 4096  # points of the grid on which weighted sums are added up
_ROUNDING = 1e-12  # error in mass of the Fourier transforms
_GROWTH = 1 + 1 / 128  # from one point of the grid of ratios to the next
_BLOCK = 64  # points of the grid of ratios that are computed together


@dataclass(frozen=True)
class Noise:
    """The noise of a release's counts, any of which may be `raised` to the floor."""

    one: NoiseOfCount
    cells: int
    raised: bool

    def sum(self, terms: int) -> Distribution:
        """Return a two-sided bound on the error of a sum of raised noisy counts."""
        return noise_sum(self.one, terms, positive=self.raised)


def noise_of(one: NoiseOfCount, cells: int, least: float) -> Noise:
    """Return the noise of counts, the smallest noisy one at least `least`.

    If |E| <= T for all counts, a noisy count above 2 T + 1 stands for a true one above T + 1.
    """
    furthest = float(error_bound(one, Fraction(RAISED_FAILURE) / cells))
    return Noise(one, cells, least <= 2 * furthest + 1)


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
    distribution, others = noise.sum(terms), noise.sum(noise.cells - terms)
    t, u = distribution.quantile(main / 2), others.quantile(main / 2)
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
    interval = np.stack(
        [np.where(is_possible, lower, np.inf).min(axis=1), np.where(is_possible, upper, 0).max(axis=1)],
        axis=-1,
    )
    return np.stack([np.clip(interval[:, 0], 0, ratio), np.clip(interval[:, 1], ratio, end)], axis=-1)


def share_intervals(
    one: Table, other: Table, terms: tuple[int, int], noise: NoiseOfCount, failure: float = FAILURE
) -> Table:
    """Return, for each pair of noisy sums a and b of `terms` counts, an interval of the true A/(A + B).

    Guarantees: each holds its share with probability at least 1 - failure.
    [test: tests/statistical/test_intervals.py]
    """
    intervals = np.tile([0.0, 1.0], (*one.shape, 1))
    both = Noise(noise, sum(terms), raised=False)
    for turned, (own, rest, counts) in enumerate(((one, other, terms[0]), (other, one, terms[1]))):
        certain = (own > both.sum(counts).quantile(_main(failure) / 2)) & ((other > one) == turned)
        if certain.any():
            divisor = own[certain]
            ratio, most = np.maximum(rest[certain], 0) / divisor, np.full(divisor.shape, np.inf)
            share = 1 / (1 + ratio_interval(ratio, divisor, counts, most, both, failure=failure))
            intervals[certain] = 1 - share if turned else share[:, ::-1]
    return intervals


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
    distribution, per_size = noise_sum(noise, 1), 1 / np.array(sizes)
    apart = quantiles_of_sums([distribution] * 4, np.tile(per_size, (1, 2)), _RARE / 2).item()
    if apart >= 1:
        return np.inf
    ratios = np.linspace(1, 1 / (1 - apart), _RATIOS)
    furthest = np.abs(means - np.array(estimates)[:, np.newaxis]).max(axis=1)
    radii = (means[:, 1] - means[:, 0]) / (2 * _MEANS)
    middles = means[:, :1] + radii[:, np.newaxis] * np.arange(1, 2 * _MEANS, 2)
    moved = noise_sum(noise, 2).quantile(_RARE) * radii * per_size
    between = (ratios[1] - 1) * 2 * distribution.quantile(_RARE / 2) * per_size
    main, bound = DIFFERENCE_FAILURE / 2 - 4 * _RARE, 0.0
    for i, k in ((0, 1), (1, 0)):
        x, one, other = np.meshgrid(ratios[1:], middles[i], middles[k], indexing="ij")
        factors = [
            *((1 - one) * per_size[i], (1 + one) * per_size[i]),
            *(x * (1 - other) * per_size[k], x * (1 + other) * per_size[k]),
        ]
        sums = quantiles_of_sums([distribution] * 4, np.stack(factors, axis=-1).reshape(-1, 4), main)
        above = ratios[1:]
        q = sums.reshape(x.shape).max(axis=(1, 2)) + moved[i] + above * moved[k] + between[k]
        ends = np.minimum(q + (above - 1) * furthest[k], (q + (above - 1) * furthest[i]) / ratios[:-1])
        bound = max(bound, float(ends.max()))
    return bound


def quantiles_of_sums(distributions: Sequence[Distribution], factors: Table, failure: float) -> Table:
    """Return, per row of factors >= 0, a quantile of the weighted sum, rounded up."""
    widths = [one.step * one.masses.size for one in distributions]
    steps = factors @ widths / (_PLACES - 2 * len(widths))
    first, waves = np.zeros(len(factors)), np.ones((len(factors), _PLACES // 2 + 1), dtype=np.complex128)
    for one, column in zip(distributions, factors.T, strict=True):
        places = np.rint((column / steps)[:, np.newaxis] * one.values).astype(np.int64)
        waves *= np.fft.rfft([np.bincount(row - row[0], one.masses, _PLACES) for row in places])
        first += places[:, 0]
    beyond = np.cumsum(np.fft.irfft(waves)[:, ::-1], axis=1)[:, ::-1]  # at a place or above
    allowed = failure * (1 - 1e-9) - sum(one.lost for one in distributions) - _ROUNDING
    last = _PLACES - 1 - np.argmax((beyond > allowed)[:, ::-1], axis=1)
    slack = len(widths) * steps / 2 + factors @ [one.slack for one in distributions]
    return np.asarray((first + last) * steps + slack)


def _main(failure: float) -> float:
    return failure * (0.98 / 2 - _BETWEEN)


def _grid(noise: Noise, terms: int, failure: float, start: float, end: float) -> tuple[Table, Table]:
    first = start if start > 0 else min(end, 1.0) * 1e-6
    blocks = [int(np.floor(np.log(r) / np.log(_GROWTH))) // _BLOCK for r in (first, end)]
    powers = np.arange(blocks[0] * _BLOCK, (blocks[1] + 1) * _BLOCK + 1)
    grid = _GROWTH ** powers.astype(np.float64)
    q = np.concatenate([_quantiles(noise, terms, failure, i) for i in range(blocks[0], blocks[1] + 1)])
    if start == 0:
        grid = np.concatenate([[0.0], grid])
        q = np.concatenate([[noise.sum(noise.cells - terms).quantile(failure)], q])
    return grid, q + np.diff(grid) * noise.sum(terms).quantile(_BETWEEN * failure / (0.98 / 2 - _BETWEEN))


@lru_cache(maxsize=4096)
def _quantiles(noise: Noise, terms: int, failure: float, block: int) -> Table:
    """Return, for each ratio r of a block, a t with P(F_B + r F_A > t) <= failure."""
    distribution, others = noise.sum(terms), noise.sum(noise.cells - terms)
    ratios = _GROWTH ** np.arange(block * _BLOCK, (block + 1) * _BLOCK, dtype=np.float64)
    allowed = failure * (1 - 1e-9) - distribution.lost - others.lost
    low = np.zeros(ratios.size)
    high = others.quantile(failure / 2) + ratios * distribution.quantile(failure / 2)
    steps = ratios[:, np.newaxis] * distribution.values
    for _ in range(16):
        middle = (low + high) / 2
        fits = others.above(middle[:, np.newaxis] - steps) @ distribution.masses <= allowed
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return high + others.slack + ratios * distribution.slack
