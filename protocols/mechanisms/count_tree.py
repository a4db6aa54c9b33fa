"""A histogram as a tree of block counts: each cumulative count is the sum of few blocks."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from fairshares.protocols.accounting.calibration import LinearQueries, Neighbors, moves_of, plan_noise
from fairshares.protocols.accounting.distributed_noise import gaussian_rate
from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.circuits.coins import NoiseFamily, exp_bounds
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.noise.truncated import mean_square_error

MAX_LEVELS = 8


@dataclass(frozen=True)
class CountTree:
    """Blocks of neighboring bins, on several levels, aligned at the highest bin.

    Nodes are blocks, numbered level by level, from the lowest up.

    Args:
        bins: The number of bins.
        blocks: For each level, from the lowest up, how many bins a block has. The first is 1, and each is a
            multiple of the number before.
    Raises:
        ValueError: The blocks are no such numbers.
    """

    bins: int
    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        pairs = zip(self.blocks, self.blocks[1:], strict=False)
        nested = all(large % small == 0 and large > small for small, large in pairs)
        if self.bins < 1 or self.blocks[:1] != (1,) or self.blocks[-1] > max(1, self.bins) or not nested:
            raise ValueError(
                f"blocks {self.blocks} must go from 1 to at most {self.bins} bins, each a multiple of the "
                "one before"
            )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of blocks on each level."""
        return tuple(-(-self.bins // size) for size in self.blocks)

    @property
    def nodes(self) -> int:
        """The number of blocks on all levels together."""
        return sum(self.counts)

    def block_of(self, level: int) -> Integers:
        """Return each bin's block on a level.

        Args:
            level: The level, 0 for the bins themselves.
        Returns:
            Numbers of blocks within the level, shape (bins,).
        """
        from_the_top = np.arange(self.bins)[::-1] // self.blocks[level]
        return from_the_top[:1] - from_the_top

    def release(self, histograms: int) -> LinearQueries:
        """Return the release of this tree for several histograms, numbered level by level over all.

        Args:
            histograms: The number of histograms.
        Returns:
            Queries with a node for each block of each histogram, and a cell for each bin.
        """
        blocks = np.stack([self.block_of(level) for level in range(len(self.blocks))], axis=1)
        first = histograms * np.cumsum([0, *self.counts[:-1]])
        nodes = [first + h * np.array(self.counts) + blocks for h in range(histograms)]
        return LinearQueries(histograms * self.nodes, tuple(map(tuple, np.concatenate(nodes).tolist())))

    def estimator(self) -> Floats:
        """Return the matrix, shape (bins, nodes), from unbiased nodes to least-squares cumulative counts.

        Source: Hay et al. 2010, for any number of children.
        Computes: row j estimates the number of records in bins j and above. The covariance of the bins
        alone is the identity, and each block above them reduces it (Sherman and Morrison).
        Guarantees: the least-squares solution, which is unbiased.
        [test: tests/protocols/test_count_tree.py]
        """
        covariance = np.eye(self.bins)
        starts = [np.unique(self.block_of(level), return_index=True)[1] for level in range(len(self.blocks))]
        for first in starts[1:]:
            for block in map(slice, first, [*first[1:], self.bins]):
                with_block = covariance[block, block].sum(axis=1)
                covariance[block, block] -= np.outer(with_block, with_block) / (1 + with_block.sum())
        nodes = np.concatenate([np.add.reduceat(covariance, first, axis=1) for first in starts], axis=1)
        return np.asarray(np.cumsum(nodes[::-1], axis=0)[::-1])

    def mean_variance(self) -> float:
        """Return the mean variance of the least-squares cumulative counts, for noise of variance 1.

        Guarantees: equal to the variance of `estimator`, without its matrix.
        [test: tests/protocols/test_count_tree.py]
        """
        return float(_variances(self.blocks, self.bins)[1].mean())


@lru_cache(maxsize=128)
def _variances(blocks: tuple[int, ...], bins: int) -> tuple[Floats, Floats]:
    """Return each cumulative count's covariance with the sum of all bins, and its variance.

    Computes: as `estimator`, block by block from the top, for these many bins with these block sizes.
    """
    smaller = blocks[:-1]
    size = blocks[-1]
    if not smaller:
        counted_bins = np.arange(1.0, bins + 1)
        return counted_bins, counted_bins
    whole_blocks, rest = divmod(bins, size)
    parts = [size] * whole_blocks
    if rest:
        parts.append(rest)
    covariances = []
    variances = []
    before = 0.0  # the variance of all blocks so far
    for part in parts:
        with_block, variance = _variances(smaller, part)
        shared = with_block / (1 + with_block[-1])
        covariances.append(before + shared)
        variances.append(before + variance - with_block * shared)
        before += shared[-1]
    return np.concatenate(covariances), np.concatenate(variances)


@lru_cache(maxsize=64)
def best_tree(
    bins: int,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    distribution: NoiseDistribution | None = None,
    *,
    family: NoiseFamily | None = None,
) -> CountTree:
    """Choose the tree whose cumulative counts have the least mean square error.

    Computes: for each number of levels a descent over the blocks, until more levels do not help.
    Guarantees: no neighbor, in which one block's factor is larger or smaller by 1, is better.
    [test: tests/protocols/test_count_tree.py]

    Args:
        bins: The number of bins.
        neighbors: Whom the noise protects.
        epsilon: The epsilon of the whole tree, above 0.
        delta: The delta of the whole tree, above 0 and below 1.
        distribution: The distribution of distributed noise; None for joint noise.
        family: The family of joint noise; None: the one for a node's epsilon.
    Returns:
        The tree.
    Raises:
        ValueError: No noise reaches epsilon and delta, whatever the tree.
    """
    best = CountTree(bins, (1,))
    least = float("inf")
    for levels in range(1, MAX_LEVELS + 1):
        tree = _descend(bins, levels)
        if tree is None:
            break
        variance = node_variance(tree, neighbors, epsilon, delta, distribution, family=family)
        error = tree.mean_variance() * float(variance)
        if error >= least:
            break
        best = tree
        least = error
    return best


def node_variance(
    tree: CountTree,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    distribution: NoiseDistribution | None = None,
    *,
    family: NoiseFamily | None = None,
) -> Fraction:
    """Return a node's mean square error.

    Guarantees: exact for joint noise; nearly exact for distributed noise.

    Args:
        tree: The tree.
        neighbors: Whom the noise protects.
        epsilon: The epsilon of the whole tree, above 0.
        delta: The delta of the whole tree, above 0 and below 1.
        distribution: The distribution of distributed noise; None for joint noise.
        family: The family of joint noise; None: the one for a node's epsilon.
    Returns:
        The mean square error, in squared records.
    Raises:
        ValueError: No noise reaches epsilon and delta.
    """
    release = tree.release(1)
    if distribution is None:
        return mean_square_error(plan_noise(release, neighbors, epsilon, delta, family).coins)
    moves = moves_of(release, neighbors)
    if distribution is NoiseDistribution.GAUSSIAN:
        return Fraction(1 / (2 * gaussian_rate(moves.squares, epsilon, delta)))
    ratio = exp_bounds(epsilon / moves.units)[0]
    return 2 * ratio / (ratio - 1) ** 2


def square_root_error(bins: int, neighbors: Neighbors, epsilon: Fraction, delta: Fraction) -> float:
    """Return the RMS error of cumulative counts by the square-root factorization, in floats, for plans.

    Source: Fichtenberger, Henzinger and Upadhyay 2023; noise: Balle and Wang 2018, theorem 8.
    Computes: R x gets Gaussian noise. R R is the matrix of cumulative sums, and R has (2k choose k)/4^k on
    its k-th diagonal. A record that comes or goes moves R x by one column at most, a replaced record by two.
    [test: tests/protocols/test_count_tree.py]

    Args:
        bins: The number of bins.
        neighbors: Whom the noise protects.
        epsilon: The epsilon, above 0.
        delta: The delta, above 0 and below 1.
    Returns:
        The error, in records.
    """
    factors = [1.0]  # the factor of each diagonal, over the diagonal before
    for k in range(1, bins):
        factors.append(1 - 1 / (2 * k))
    squares = np.cumsum(np.cumprod(factors) ** 2)
    moved = neighbors.cap * math.sqrt((1 + neighbors.are_replaced) * squares[-1])
    sigma = math.sqrt(1 / (2 * gaussian_rate(1, epsilon, delta)))  # the standard deviation for a move of 1
    return sigma * moved * math.sqrt(squares.mean())


def _descend(bins: int, levels: int) -> CountTree | None:
    """Return a tree with so many levels, to which no neighbor is better; None if there are too few bins."""
    tree = _even_tree(bins, levels)
    better = tree
    while better:
        tree = better
        error = tree.mean_variance()
        better = next((other for other in trees_beside(tree) if other.mean_variance() < error), None)
    return tree


def _even_tree(bins: int, levels: int) -> CountTree | None:
    """Return the tree that has one factor between all its levels, as large as fits, if any."""
    largest = max(2, round(bins ** (1 / levels)))
    for factor in range(largest, 1, -1):
        tree = _tree(bins, (factor,) * (levels - 1))
        if tree:
            return tree
    return None


def trees_beside(tree: CountTree) -> list[CountTree]:
    """Return the trees that have one factor between two levels larger or smaller by 1.

    Args:
        tree: The tree.
    Returns:
        Those of its neighbors that are trees.
    """
    factors = [large // small for small, large in zip(tree.blocks, tree.blocks[1:], strict=False)]
    trees = []
    for level in range(len(factors)):
        for step in (1, -1):
            changed = list(factors)
            changed[level] += step
            neighbor = _tree(tree.bins, tuple(changed))
            if neighbor is not None:
                trees.append(neighbor)
    return trees


def _tree(bins: int, factors: tuple[int, ...]) -> CountTree | None:
    """Return the tree with these factors between its levels, if it is one."""
    blocks = tuple(math.prod(factors[:level]) for level in range(len(factors) + 1))
    if min(factors, default=2) > 1 and blocks[-1] <= bins:
        return CountTree(bins, blocks)
    return None
