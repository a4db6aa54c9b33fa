"""A histogram as a tree of block counts, for cumulative counts with one epsilon.

A record is in one block of every level. A cumulative count is a sum of few blocks, so its noise grows with
their number only.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache

import numpy as np

from protocols.accounting.calibration import LinearQueries, Neighbors, moves_of, plan_noise
from protocols.accounting.distributed_noise import gaussian_rate
from protocols.arrays import Floats, Integers
from protocols.circuits.coins import exp_bounds
from protocols.noise.added import NoiseDistribution
from protocols.noise.truncated import mean_square_error

MAX_LEVELS = 8


@dataclass(frozen=True)
class CountTree:
    """Blocks of neighboring bins, on several levels, aligned at the highest bin.

    The lowest block of a level holds the rest. Nodes are numbered level by level, bins first, from the lowest
    up.

    Attributes:
        blocks: Bins per block of each level, from 1 up, each a multiple of the one before. (1,) is the flat
            histogram.
    """

    bins: int
    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        pairs = zip(self.blocks, self.blocks[1:], strict=False)
        if self.bins < 1 or self.blocks[:1] != (1,) or self.blocks[-1] > max(1, self.bins):
            raise ValueError(f"blocks {self.blocks} must go from 1 to at most {self.bins} bins")
        if any(large % small or large <= small for small, large in pairs):
            raise ValueError(f"each of the blocks {self.blocks} must be a multiple of the one before")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Blocks of each level."""
        return tuple(-(-self.bins // size) for size in self.blocks)

    @property
    def nodes(self) -> int:
        """Blocks of all levels."""
        return sum(self.counts)

    def block_of(self, level: int) -> Integers:
        """Return each bin's block on a level, shape (bins,)."""
        return _grouped(self.bins, self.blocks[level])

    def release(self, histograms: int) -> LinearQueries:
        """Return the release of this tree for some disjoint histograms.

        Nodes are numbered level by level over all histograms.
        """
        blocks = np.stack([self.block_of(level) for level in range(len(self.blocks))], axis=1)
        first = histograms * np.cumsum([0, *self.counts[:-1]])
        nodes = [first + h * np.array(self.counts) + blocks for h in range(histograms)]
        columns = tuple(tuple(column) for column in np.concatenate(nodes).tolist())
        return LinearQueries(histograms * self.nodes, columns)

    def estimator(self) -> Floats:
        """Return the matrix, shape (bins, nodes), from unbiased nodes to least-squares cumulative counts.

        Source: Hay et al. 2010, for any number of children.
        Computes: row j estimates the records in bins j and above, for noise of equal variance. Going up, each
        node gets its best estimate from below. Going down, a node's difference is shared among its children
        by their variances.
        Guarantees: the least-squares solution; unbiased.  [test: tests/protocols/test_count_tree.py]
        """
        values = np.split(np.eye(self.nodes), np.cumsum(self.counts)[:-1])
        variances = [np.ones(count) for count in self.counts]
        sums: list[Floats] = [values[0]]  # of the children's estimates, per node
        spread = [variances[0]]  # of their variances
        for level in range(1, len(self.blocks)):
            first = np.searchsorted(self._parents(level), np.arange(self.counts[level]))
            sums.append(np.add.reduceat(values[level - 1], first, axis=0))
            spread.append(np.add.reduceat(variances[level - 1], first))
            share = spread[level] / (1 + spread[level])  # of the node's own noisy value
            values[level] = share[:, None] * values[level] + (1 - share)[:, None] * sums[level]
            variances[level] = share
        for level in reversed(range(1, len(self.blocks))):
            parent = self._parents(level)
            share = variances[level - 1] / spread[level][parent]
            values[level - 1] = values[level - 1] + share[:, None] * (values[level] - sums[level])[parent]
        cumulative: Floats = np.cumsum(values[0][::-1], axis=0)[::-1]
        return cumulative

    def _parents(self, level: int) -> Integers:
        """Return the block of this level for each block of the level below."""
        return _grouped(self.counts[level - 1], self.blocks[level] // self.blocks[level - 1])

    def mean_variance(self) -> float:
        """Return the mean variance of the least-squares cumulative counts, for noise of variance 1.

        Computes: a cumulative count is w times the estimate of a block that it ends in, plus an independent
        error of variance r, plus whole blocks.
        Guarantees: that of `estimator`, without the matrix.  [test: tests/protocols/test_count_tree.py]
        """
        blocks = self.blocks

        @cache
        def node(level: int, size: int) -> tuple[float, list[tuple[float, float]]]:
            """Return the variance from below, and (w, r) of each cumulative count in a block."""
            if level == 0:
                return 1.0, [(1.0, 0.0)]
            children = [node(level - 1, part) for part in _parts(size, blocks[level - 1])]
            total = sum(variance for variance, _ in children)
            before, inside = 0.0, []
            for variance, counts in children:
                for w, r in counts:
                    part = before + w * variance
                    inside.append((part / total, before + w * w * variance - part * part / total + r))
                before += variance
            return 1 / (1 + 1 / total), inside

        summed = before = 0.0
        for size in _parts(self.bins, blocks[-1]):
            variance, counts = node(len(blocks) - 1, size)
            summed += sum(before + w * w * variance + r for w, r in counts)
            before += variance
        return summed / self.bins


def _grouped(count: int, size: int) -> Integers:
    """Return the group of each of `count` things, `size` to a group from the last down."""
    from_the_top = np.arange(count)[::-1] // size
    return from_the_top[:1] - from_the_top


def _parts(size: int, part: int) -> list[int]:
    return [part] * (size // part) + [size % part] * (size % part > 0)


@lru_cache(maxsize=64)
def best_tree(
    bins: int,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    distribution: NoiseDistribution | None = None,
) -> CountTree:
    """Choose the tree whose cumulative counts have the least mean square error.

    Computes: for each number of levels a descent over the blocks, until more levels do not help.
    Guarantees: no neighbor (a block's factor one more or less) is better.
    [test: tests/protocols/test_count_tree.py]

    Raises:
        ValueError: No noise fits epsilon and delta.
    """
    best, least = CountTree(bins, (1,)), float("inf")
    for levels in range(1, MAX_LEVELS + 1):
        tree = _descend(bins, levels)
        if tree is None:
            break
        error = tree.mean_variance() * float(node_variance(tree, neighbors, epsilon, delta, distribution))
        if error >= least:
            break
        best, least = tree, error
    return best


def node_variance(
    tree: CountTree,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    distribution: NoiseDistribution | None = None,
) -> Fraction:
    """Return a node's mean square error; for distributed noise nearly, up to a factor.

    Raises:
        ValueError: No noise fits epsilon and delta.
    """
    release = tree.release(1)
    if distribution is None:
        return mean_square_error(plan_noise(release, neighbors, epsilon, delta).coins)
    moves = moves_of(release, neighbors)
    if distribution is NoiseDistribution.GAUSSIAN:
        return Fraction(1 / (2 * gaussian_rate(moves, epsilon, delta)))
    ratio = exp_bounds(epsilon / moves.units)[0]
    return 2 * ratio / (ratio - 1) ** 2


def square_root_error(bins: int, neighbors: Neighbors, epsilon: Fraction, delta: Fraction) -> float:
    """Return the RMS error of cumulative counts by the square-root factorization, in floats, for plans.

    Source: Fichtenberger, Henzinger and Upadhyay 2023; noise: Balle and Wang 2018, theorem 8.
    Computes: the matrix of cumulative sums is R R, R lower triangular with c_k = (2k choose k)/4^k on its
    k-th diagonal. R x gets Gaussian noise; a record moves it by a column of R at most, a replaced one by two.
    [test: tests/protocols/test_count_tree.py]
    """
    squares = np.cumsum(np.cumprod([1.0, *(1 - 1 / (2 * k) for k in range(1, bins))]) ** 2)
    moved = neighbors.cap * math.sqrt((1 + neighbors.are_replaced) * squares[-1])
    low, high = 1e-3, 1e6  # of the standard deviation, for a move of 1
    while high / low > 1 + 1e-9:
        sigma = math.sqrt(low * high)
        ends = [(float(epsilon) * sigma + sign / (2 * sigma)) / math.sqrt(2) for sign in (-1, 1)]
        fits = math.erfc(ends[0]) - math.exp(epsilon) * math.erfc(ends[1]) <= 2 * float(delta)
        low, high = (low, sigma) if fits else (sigma, high)
    return high * moved * math.sqrt(squares.mean())


def _descend(bins: int, levels: int) -> CountTree | None:
    """Return the best blocks for so many levels, if any, by steps from equal factors."""
    largest = max(2, round(bins ** (1 / levels)))
    even = (_tree(bins, (factor,) * (levels - 1)) for factor in range(largest, 1, -1))
    better = tree = next(filter(None, even), None)
    while better:
        tree, error = better, better.mean_variance()
        better = next((other for other in neighbours(tree) if other.mean_variance() < error), None)
    return tree


def neighbours(tree: CountTree) -> list[CountTree]:
    """Return the trees with one factor between two levels one more or less."""
    factors = [large // small for small, large in zip(tree.blocks, tree.blocks[1:], strict=False)]
    changed = [
        tuple(factor + step * (i == j) for j, factor in enumerate(factors))
        for i in range(len(factors))
        for step in (1, -1)
    ]
    return [neighbour for blocks in changed if (neighbour := _tree(tree.bins, blocks)) is not None]


def _tree(bins: int, factors: tuple[int, ...]) -> CountTree | None:
    blocks = tuple(math.prod(factors[:level]) for level in range(len(factors) + 1))
    return CountTree(bins, blocks) if min(factors, default=2) > 1 and blocks[-1] <= bins else None
