"""Sample weights and their intervals, computed in the clear from differentially private counts.

An interval holds the weight of the true counts raised to 1, as noisy counts are. Raising moves no two counts
apart, so the error F of a raised noisy count lies between 0 and its noise E = X + 1/2. If all counts are
surely too large to be raised, F = E. Otherwise E's positive part bounds F.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from harness.inputs.record_schema import RecordDomain, scale_of
from harness.postprocessing.noisy_counts import NoisyCounts
from protocols.noise.added import Distribution, Noise as NoiseOfCount, error_bound, noise_sum

Table = npt.NDArray[np.float64]

BALANCED, LABEL, KAMIRAN_CALDERS = "balanced", "label", "kamiran-calders"
CONFIDENCE = Fraction(95, 100)
FLOOR = 1.0
_FAILURE = float(1 - CONFIDENCE)
_RAISED = _FAILURE / 100  # chance that any count is raised although it is taken as surely not raised
_CAP = _FAILURE / 100  # chance that the bound on a ratio with an unknown divisor fails
_BETWEEN = 1 / 200  # part of a failure, per side, for ratios between two points of the grid
_OUTSIDE = _FAILURE / 120  # chance that one of seven sums is beyond one end of its range
_CELLS = 24  # that the range of a count of a Kamiran-Calders weight is cut into
DIFFERENCE_FAILURE = _FAILURE * 24 / 25  # of a difference of means; the means' bounds get the rest
_RARE = _FAILURE / 200  # chance that one of the bounds fails that a difference of means relies on
_MEANS, _RATIOS = 3, 6  # cells of each of two means, and points of the grid of their sizes' ratios
_PLACES = 4096  # points of the grid on which weighted sums are added up
_ROUNDING = 1e-12  # error in mass of the Fourier transforms
_GROWTH = 1 + 1 / 128  # from one point of the grid of ratios to the next
_LARGEST = 500.0  # exponent; larger ones overflow and bound nothing
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
    furthest = float(error_bound(one, Fraction(_RAISED) / cells))
    return Noise(one, cells, least <= 2 * furthest + 1)


def ratio_interval(
    ratio: Table, own: Table, terms: int, most: Table, noise: Noise, *, failure: float = _FAILURE
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
    one: Table, other: Table, terms: tuple[int, int], noise: NoiseOfCount, failure: float = _FAILURE
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
    apart = _quantiles_of_sums([distribution] * 4, np.tile(per_size, (1, 2)), _RARE / 2).item()
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
        sums = _quantiles_of_sums([distribution] * 4, np.stack(factors, axis=-1).reshape(-1, 4), main)
        above = ratios[1:]
        q = sums.reshape(x.shape).max(axis=(1, 2)) + moved[i] + above * moved[k] + between[k]
        ends = np.minimum(q + (above - 1) * furthest[k], (q + (above - 1) * furthest[i]) / ratios[:-1])
        bound = max(bound, float(ends.max()))
    return bound


def _quantiles_of_sums(distributions: Sequence[Distribution], factors: Table, failure: float) -> Table:
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


def count_intervals(counts: Table, reweighing: str, one: NoiseOfCount) -> Table:
    """Return each weight's interval from noisy counts raised to 1, shape (groups, labels, 2).

    Guarantees: each holds its weight with probability at least 95 %.
    [test: tests/statistical/test_weight_intervals.py]
    """
    noise = noise_of(one, counts.size, float(counts.min()))
    if reweighing == KAMIRAN_CALDERS:
        return _kamiran_calders(counts, noise)
    divisors = {BALANCED: counts, LABEL: _sum(counts, -2)}[reweighing]
    sums, terms = divisors.ravel(), counts.size // divisors.size
    others = counts.sum() - sums
    most = (others + noise.sum(counts.size - terms).quantile(_CAP)) / terms
    intervals = (1 + ratio_interval(others / sums, sums, terms, most, noise)) * terms / counts.size
    return np.broadcast_to(intervals.reshape((*divisors.shape, 2)), (*counts.shape, 2)).copy()


def _kamiran_calders(counts: Table, noise: Noise) -> Table:
    """Return an interval of W = R L/(N a) for each count a, with its row sum R, column sum L and total N.

    Computes: with F the error of each sum and S = F_R/R + F_L/L - F_N/N - F_a/a, the logarithm of the noisy
    over the true weight is S + d(N) + d(a) - d(R) - d(L), d(v) = x - ln(1 + x) for v's relative error x. S is
    within an exact quantile. A box of all sums bounds d, and the change of S when its factors have noisy
    sums. Cells of a's range bound F_a and d(a).
    """
    groups, labels = counts.shape
    sums = counts.sum(axis=1, keepdims=True), counts.sum(axis=0, keepdims=True), counts.sum()
    counts, row, column, total = (x[..., np.newaxis] for x in np.broadcast_arrays(counts, *sums))
    rest = total - row - column + counts
    values = [counts, row - counts, column - counts, rest, row, column, total]
    terms = [1, labels - 1, groups - 1, (labels - 1) * (groups - 1), labels, groups, counts.size]
    reaches = [noise.sum(n).quantile(_OUTSIDE) for n in terms]
    low = [np.maximum(value - t, n * FLOOR) for value, t, n in zip(values, reaches, terms, strict=True)]
    high = [value + t for value, t in zip(values, reaches, strict=True)]
    edges = low[0] * (high[0] / low[0]) ** (np.arange(_CELLS + 1) / _CELLS)
    start, end = edges[..., :-1], edges[..., 1:]
    lowest, highest = _boxed_weights([start, *low[1:4]], [end, *high[1:4]])

    inverse, radius = (1 / start + 1 / end) / 2, (1 / start - 1 / end) / 2
    factors = np.broadcast_arrays(
        *(1 / row + 1 / column - 1 / total - inverse, 1 / row - 1 / total, 1 / column - 1 / total, 1 / total)
    )
    half = (_FAILURE - _RAISED) / 2 - len(terms) * _OUTSIDE
    of_cells = np.abs(np.stack(factors, axis=-1)).reshape(-1, 4)
    linear = _quantiles_of_sums([noise.sum(n) for n in terms[:4]], of_cells, half).reshape(inverse.shape)
    linear = linear + radius * np.maximum(counts - start, end - counts)
    bends = []
    for i in (4, 5, 6):  # R, L, N
        linear = linear + reaches[i] * (1 / low[i] - 1 / values[i])
        bends.append(np.maximum(_bend(values[i] / low[i] - 1), _bend(values[i] / high[i] - 1)))
    most = np.maximum(_bend(counts / start - 1), _bend(counts / end - 1))
    least = _bend(counts / np.clip(counts, start, end) - 1)
    weight = row * column / (total * counts)
    lowest = np.maximum(lowest, weight * np.exp(-linear - bends[2] - most))
    exponents = np.minimum(linear + bends[0] + bends[1] - least, _LARGEST)
    highest = np.minimum(highest, weight * np.exp(exponents))
    is_possible = lowest <= highest
    return np.stack(
        [
            np.where(is_possible, lowest, np.inf).min(axis=-1),
            np.where(is_possible, highest, 0).max(axis=-1),
        ],
        axis=-1,
    )


def _bend(x: Table) -> Table:
    return x - np.log1p(x)


def _boxed_weights(low: Sequence[Table], high: Sequence[Table]) -> tuple[Table, Table]:

    def weight(own: Table, row: Table, column: Table, rest: Table) -> Table:
        return (own + row) * (own + column) / ((own + row + column + rest) * own)

    # The weight grows with the others of row and column, and falls with the rest. In its own count it falls
    # until rest own^2 = row column (2 own + row + column + rest), then rises.
    (own_low, row_low, column_low, rest_low), (own_high, row_high, column_high, rest_high) = low[:4], high[:4]
    product = row_low * column_low
    root = product**2 + rest_high * product * (row_low + column_low + rest_high)
    turn = np.clip((product + np.sqrt(root)) / rest_high, own_low, own_high)
    lowest = weight(turn, row_low, column_low, rest_high)
    ends = [weight(end, row_high, column_high, rest_low) for end in (own_low, own_high)]
    return lowest, np.maximum(*ends)


@dataclass(frozen=True)
class GroupWeights:
    """A sample weight per (group, label), and tables of that shape.

    `noisy_counts` are before the floor. Each `interval` has probability at least `confidence` by itself.
    """

    domain: RecordDomain
    noisy_counts: Table
    floored: npt.NDArray[np.bool_]
    weights: Table
    interval: Table
    reweighing: str
    confidence: Fraction = CONFIDENCE

    @property
    def unit(self) -> int:
        """The count of a client: 1, or the scale of clients that weigh 1."""
        return scale_of(self.domain.cap)


# Of positive counts, shape (..., groups, labels).
_FORMULAS: dict[str, Callable[[Table], Table]] = {
    BALANCED: lambda c: _sum(c, -2, -1) / (c.shape[-2] * c.shape[-1] * c),
    LABEL: lambda c: 0 * c + _sum(c, -2, -1) / (c.shape[-1] * _sum(c, -2)),
    KAMIRAN_CALDERS: lambda c: _sum(c, -1) * _sum(c, -2) / (_sum(c, -2, -1) * c),
}


def _sum(counts: Table, *axes: int) -> Table:
    return np.asarray(counts.sum(axis=axes, keepdims=True))


def weights_of_counts(counts: Table, reweighing: str) -> Table:
    """Return the weights of noisy counts, shape (..., groups, labels)."""
    return _FORMULAS[reweighing](np.maximum(counts, FLOOR))


def group_weights(reweighing: str, noisy: NoisyCounts) -> GroupWeights:
    """Weigh each group and label by a formula of docs/how-to/reweighing.md.

    Source: PrivFairFL, Protocol 2, lines 14-20, and section 4.1, for 2 groups and 2 labels, without the
    floor; Kamiran and Calders 2012.
    Guarantees: each interval holds the weight of the true counts, floored likewise, with probability at least
    95 %.
    [test: tests/statistical/test_weight_intervals.py]
    """
    return GroupWeights(
        domain=noisy.domain,
        noisy_counts=noisy.table,
        floored=noisy.table < FLOOR,
        weights=weights_of_counts(noisy.table, reweighing),
        interval=count_intervals(np.maximum(noisy.table, FLOOR), reweighing, noisy.noise),
        reweighing=reweighing,
    )


REWEIGHINGS: dict[str, Callable[[NoisyCounts], GroupWeights]] = {
    name: partial(group_weights, name) for name in _FORMULAS
}
