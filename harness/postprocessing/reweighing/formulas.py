"""From differentially private statistics to sample weights and their intervals, in the clear: costs no ε.

Each interval holds its true weight, exactly from the noise's distribution. The truth is the weight of the
true counts C, raised to 1 as noisy ones are. Raising is monotone and moves no two counts apart, so the error
F of a raised noisy count lies between 0 and its noise E = X + 1/2. Two distributions bound sums of F: where
every count is surely too large to be raised, F = E; else the positive parts of E, which bound F on either
side. "Surely" costs a part of the failure, and so does every other bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from harness.inputs.record_schema import RecordDomain, scale_of
from harness.postprocessing.noisy_counts import NoisyCounts
from protocols.noise.added import Distribution, Noise as NoiseOfCount, error_bound, noise_sum

Table = npt.NDArray[np.float64]

BALANCED, LABEL, KAMIRAN_CALDERS = "balanced", "label", "kamiran-calders"
CONFIDENCE = Fraction(95, 100)
FLOOR = 1.0
_FAILURE = float(1 - CONFIDENCE)
_RAISED = _FAILURE / 100  # of "surely not raised", all counts together
_CAP = _FAILURE / 100  # of the bound on a ratio whose divisor could be anything
_BETWEEN = 1 / 200  # of a failure: of what happens between two points of the grid of ratios, on either side
_OUTSIDE = _FAILURE / 120  # of each end of each of seven sums, beyond which nothing is approximated
_CELLS = 24  # of what a count of a Kamiran-Calders weight may be
DIFFERENCE_FAILURE = _FAILURE * 24 / 25  # of a difference of means; the rest is that of the means' bounds
_RARE = _FAILURE / 200  # of each bound that a difference of means takes for granted
_MEANS, _RATIOS = 3, 6  # cells of each of two means, and points of the grid of their sizes' ratios
_PLACES = 4096  # of the grid on which many weighted sums are added up
_ROUNDING = 1e-12  # mass by which Fourier transforms may be off
_GROWTH = 1 + 1 / 128  # of the grid of ratios
_LARGEST = 500.0  # of an exponent that says something
_BLOCK = 64  # points of that grid that are computed together


@dataclass(frozen=True)
class Noise:
    """The noise of a release's counts.

    Attributes: one: of each count; cells: how many counts; raised: whether some may be.
    """

    one: NoiseOfCount
    cells: int
    raised: bool

    def sum(self, terms: int) -> Distribution:
        """Return the distribution that bounds the error of a sum of raised noisy counts, on either side."""
        return noise_sum(self.one, terms, positive=self.raised)


def noise_of(one: NoiseOfCount, cells: int, least: float) -> Noise:
    """Return the noise of counts of which the least noisy one is `least`, or more.

    Computes: |E| <= T for all counts but for a failure; then a noisy count above 2 T + 1 stands for one
    above T + 1, which no noise within T can bring to where it is raised. If all are, F = E for all.
    """
    furthest = float(error_bound(one, Fraction(_RAISED) / cells))
    return Noise(one, cells, least <= 2 * furthest + 1)


def ratio_interval(
    ratio: Table, own: Table, terms: int, most: Table, noise: Noise, failure: float = _FAILURE
) -> Table:
    """Return, per weight, an interval of B/A, where A and B are true counts added up, raised.

    Computes: for each true ratio r = B/A, b - r a = F_B - r F_A for the noisy sums a and b, which is
    within q(r) of 0, the exact quantile of that sum of independent noises (Fieller's region). q between
    two points r < s of a grid is at most q(r) + (s - r) t, t a quantile of F_A.
    Guarantees: holds B/A with probability at least 1 - failure, of which a fiftieth is left to what else may
    have been taken for granted.  [test: tests/harness/postprocessing/test_weight_intervals.py]
    Args: ratio: b/a; own: a; terms: how many counts A adds up; most: no ratio is above this.
    Returns: shape (weights, 2).
    """
    main = _main(failure)
    distribution, others = noise.sum(terms), noise.sum(noise.cells - terms)
    t, u = distribution.quantile(main / 2), others.quantile(main / 2)
    # Where any q(r) <= u + r t leaves it: what no r can be, or could not be seen to be wrong.
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
    """Return, for each pair of noisy sums a and b, an interval of A/(A + B), A and B the true sums >= 0.

    Computes: the interval of the ratio of the smaller to the larger noisy sum; 0 to 1 where that may be 0.
    Guarantees: each holds its share with probability at least 1 - failure.
    [test: tests/statistical/test_intervals.py]
    Args: terms: how many counts each sum adds up; noise: of a count. Returns: of their shape, and 2 ends.
    """
    intervals = np.tile([0.0, 1.0], (*one.shape, 1))
    both = Noise(noise, sum(terms), raised=False)
    for turned, (own, rest, counts) in enumerate(((one, other, terms[0]), (other, one, terms[1]))):
        certain = (own > both.sum(counts).quantile(_main(failure) / 2)) & ((other > one) == turned)
        if certain.any():
            divisor = own[certain]
            ratio, most = np.maximum(rest[certain], 0) / divisor, np.full(divisor.shape, np.inf)
            share = 1 / (1 + ratio_interval(ratio, divisor, counts, most, both, failure))
            intervals[certain] = 1 - share if turned else share[:, ::-1]
    return intervals


def difference_bound(
    noise: NoiseOfCount, estimates: Sequence[float] | Table, sizes: Sequence[float] | Table, means: Table
) -> float:
    """Return how far the difference of two groups' noisy means may be off.

    Computes: means are (a - b)/(a + b) of noisy sums, off by d = ((1 - m) E - (1 + m) E')/(a + b), m the true
    mean. So with x the noisy over the true size of the second group, over the same of the first, d_1 - x d_2
    is a sum of independent noises, within an exact quantile q of 0. |1 - 1/x| is a noise, too, whose factors
    x >= 1 shrinks: a symmetric variable that shrinks is between itself and its mirror image, so that tails
    grow twofold at most. For each such x, and with groups exchanged, d_1 - d_2 is at most the smaller of q +
    (x - 1) |d_2| and (q + (x - 1) |d_1|)/x. q is worked out for the middles of cells of means and for a grid
    of x; what is between them moves each sum by a rare noise at most.
    Guarantees: with probability at least 1 - `DIFFERENCE_FAILURE`, where true means are within `means`.
    [test: tests/statistical/test_gaps.py]
    Args: noise: of a, and of b; estimates: noisy means, not cut to the range; sizes: a + b, above 0; means:
    shape (2, 2), low and high.
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
    """Return, per row of factors, what the sum of independent variables times these is rarely above.

    Computes: a row on one grid, by Fourier transforms; the rounding to the grid is added.
    Args: factors: at least 0, shape (sums, distributions); failure: how rarely. Returns: shape (sums,).
    """
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
    """Return the part of a failure that is left for one side of a region of ratios."""
    return failure * (0.98 / 2 - _BETWEEN)


def _grid(noise: Noise, terms: int, failure: float, start: float, end: float) -> tuple[Table, Table]:
    """Return growing ratios from start to end, and a bound of q between each and the next.

    Computes: powers of `_GROWTH`, so that blocks of them are kept for other weights; before them 0, if
    that is the start.
    """
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
    """Return, for each ratio r of a block, a t with P(F_B + r F_A > t) <= failure. Computes: bisection."""
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
    """Return an interval of each weight, from noisy counts.

    Guarantees: each holds its weight with probability at least 95 %, whatever the true counts >= 0 are.
    [test: tests/statistical/test_weight_intervals.py]
    Args: counts: noisy, raised to at least 1, shape (k, m). Returns: shape (k, m, 2).
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
    """Return an interval of W = R L/(N a) for each count a, of its row R, its column L, and all, N.

    Computes: with F the error of each sum and S = F_R/R + F_L/L - F_N/N - F_a/a, ln of the noisy weight
    over the true one is S + d(N) + d(a) - d(R) - d(L), d(v) = x - ln(1 + x) for the relative error x of v.
    S is a sum of independent noises, within an exact quantile of 0. In a box that holds a, its row's and its
    column's others, the rest, R, L and N all at once, what changes in S if noisy sums take the place of true
    ones among its factors is bounded, and so is d. The range of a is cut into cells: within one, F_a is known
    nearly, and so is d(a). A cell leaves the weights that both the box and S leave; the interval is of those
    that any cell leaves.
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
    """Return the extremes of Kamiran-Calders weights over ranges of a, its row's, its column's, the rest."""

    def weight(own: Table, row: Table, column: Table, rest: Table) -> Table:
        return (own + row) * (own + column) / ((own + row + column + rest) * own)

    # Grows with the others of row and column, falls with the rest. In its own count it falls to where
    # rest own^2 = row column (2 own + row + column + rest), then rises.
    (own_low, row_low, column_low, rest_low), (own_high, row_high, column_high, rest_high) = low[:4], high[:4]
    product = row_low * column_low
    root = product**2 + rest_high * product * (row_low + column_low + rest_high)
    turn = np.clip((product + np.sqrt(root)) / rest_high, own_low, own_high)
    lowest = weight(turn, row_low, column_low, rest_high)
    ends = [weight(end, row_high, column_high, rest_low) for end in (own_low, own_high)]
    return lowest, np.maximum(*ends)


@dataclass(frozen=True)
class GroupWeights:
    """A sample weight per (group, label); all tables have shape (groups, labels).

    Attributes: noisy_counts: before the floor; floored: where the floor was used; interval: shape
    (groups, labels, 2), each holds its weight of the true counts with probability `confidence`, over the
    noise, at least; confidence is one of each, not of all together.
    """

    domain: RecordDomain
    noisy_counts: Table
    floored: NDArray[np.bool_]
    weights: Table
    interval: Table
    reweighing: str
    confidence: Fraction = CONFIDENCE

    @property
    def unit(self) -> int:
        """How much a count is where clients weigh 1 in all: what one client adds; else 1."""
        return scale_of(self.domain.cap)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `weights.json` but for the privacy statement."""
        return {
            "groups": list(self.domain.groups),
            "labels": list(self.domain.labels),
            "noisy_counts": (self.noisy_counts / self.unit).tolist(),
            "floor": FLOOR / self.unit,
            "floored": self.floored.tolist(),
            "weights": self.weights.tolist(),
            "weights_interval": self.interval.tolist(),
            "confidence": float(self.confidence),
            "reweighing": self.reweighing,
        }


# Of positive counts, shape (..., groups, labels).
_FORMULAS: dict[str, Callable[[Table], Table]] = {
    BALANCED: lambda c: _sum(c, -2, -1) / (c.shape[-2] * c.shape[-1] * c),
    LABEL: lambda c: 0 * c + _sum(c, -2, -1) / (c.shape[-1] * _sum(c, -2)),
    KAMIRAN_CALDERS: lambda c: _sum(c, -1) * _sum(c, -2) / (_sum(c, -2, -1) * c),
}


def _sum(counts: Table, *axes: int) -> Table:
    return np.asarray(counts.sum(axis=axes, keepdims=True))


def weights_of_counts(counts: Table, reweighing: str) -> Table:
    """Return a scheme's weights of noisy counts: shape (..., groups, labels), for as many tables."""
    return _FORMULAS[reweighing](np.maximum(counts, FLOOR))


def group_weights(reweighing: str, noisy: NoisyCounts) -> GroupWeights:
    """Weigh each group and label by a scheme.

    Computes: with c = max(noisy count, 1), N = sum of c, k groups and m labels: `balanced` weighs every pair
    equally, W(s, y) = N / (k m c(s, y)); `label` every label, whatever the group, W(s, y) = N / (m c(y));
    `kamiran-calders` has group and label independent, W(s, y) = c(s) c(y) / (N c(s, y)).
    Source: PrivFairFL, Protocol 2, lines 14-20, and section 4.1, for its 2 groups and 2 labels; the floor is
    ours, as noisy counts may be zero or negative there. Kamiran and Calders 2012, "Data preprocessing
    techniques for classification without discrimination".
    Guarantees: each interval holds the weight of the true counts (floored likewise) with probability at
    least 95 %; that of Kamiran and Calders' more, for pairs with less than about 100/epsilon records.
    [test: tests/statistical/test_weight_intervals.py]
    Edge cases: a pair that nobody has gets a count near 0, so a large weight that applies to nobody.
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
