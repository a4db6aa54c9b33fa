"""The tree release: least squares against a dense solve, its exact error, the choice of blocks."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors
from fairshares.protocols.mechanisms.count_tree import (
    CountTree,
    best_tree,
    node_variance,
    square_root_error,
    trees_beside,
)

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
DELTA = Fraction(1, 2**40)


@st.composite
def trees(draw: st.DrawFn) -> CountTree:
    bins, blocks = draw(st.integers(1, 60)), [1]
    for factor in draw(st.lists(st.integers(2, 7), max_size=4)):
        if blocks[-1] * factor <= bins:
            blocks.append(blocks[-1] * factor)
    return CountTree(bins, tuple(blocks))


def blocks_of(tree: CountTree) -> npt.NDArray[np.float64]:
    """Return which bins each node counts, shape (nodes, bins), by counting down from the highest bin."""
    rows = []
    for size in tree.blocks:
        level = []
        for stop in range(tree.bins, 0, -size):
            row = np.zeros(tree.bins)
            row[max(0, stop - size) : stop] = 1
            level.append(row)
        rows += level[::-1]
    return np.array(rows)


def cumulative(bins: int) -> npt.NDArray[np.float64]:
    """Return the matrix that maps bin counts to how many are in each bin and above."""
    return np.triu(np.ones((bins, bins)))


@given(trees())
def test_estimator_is_the_dense_least_squares_solution(tree: CountTree) -> None:
    dense = cumulative(tree.bins) @ np.linalg.pinv(blocks_of(tree))
    np.testing.assert_allclose(tree.estimator(), dense, atol=1e-9)


@given(trees())
def test_mean_variance_is_that_of_the_estimator(tree: CountTree) -> None:
    exact = (tree.estimator() ** 2).sum(axis=1).mean()
    assert tree.mean_variance() == pytest.approx(exact, rel=1e-9)


@given(trees(), st.integers(1, 3))
def test_a_record_is_in_one_node_of_each_level(tree: CountTree, histograms: int) -> None:
    release = tree.release(histograms)
    assert release.nodes == histograms * tree.nodes
    assert max(map(len, release.columns)) == len(tree.blocks)
    # Level by level, histogram by histogram within a level.
    levels = np.split(blocks_of(tree), np.cumsum(tree.counts)[:-1])
    whole = np.concatenate([np.kron(np.eye(histograms), level) for level in levels])
    for cell, column in enumerate(release.columns):
        assert sorted(column) == np.flatnonzero(whole[:, cell]).tolist()


def test_flat_and_two_levels_by_hand() -> None:
    """Three bins, blocks of two from the top: nodes are bins 0, 1, 2, block {0}, block {1, 2}."""
    assert CountTree(3, (1,)).estimator().tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    tree = CountTree(3, (1, 2))
    assert tree.counts == (3, 2)
    assert tree.block_of(1).tolist() == [0, 1, 1]
    # {1, 2} is estimated from its node (variance 1) and its bins' sum (variance 2): 2/3 and 1/3. What it
    # differs by from the bins' sum is split evenly between them.
    expected = [
        [1 / 2, 1 / 3, 1 / 3, 1 / 2, 2 / 3],
        [0, 1 / 3, 1 / 3, 0, 2 / 3],
        [0, -1 / 3, 2 / 3, 0, 1 / 3],
    ]
    np.testing.assert_allclose(tree.estimator(), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("bins", "blocks"),
    [(0, (1,)), (5, ()), (5, (2,)), (5, (1, 1)), (5, (1, 6)), (9, (1, 2, 3)), (9, (1, 4, 2))],
)
def test_blocks_that_do_not_nest_are_refused(bins: int, blocks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="blocks"):
        CountTree(bins, blocks)


def rms_error(tree: CountTree, epsilon: Fraction, relation: NeighboringRelation = ADD) -> float:
    variance = float(node_variance(tree, Neighbors(relation), epsilon, DELTA))
    return float(np.sqrt((tree.estimator() ** 2).sum(axis=1).mean() * variance))


@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(20)])
@pytest.mark.parametrize("bins", [2, 50, 101, 1001])
def test_no_neighbour_of_the_best_tree_is_better(
    bins: int, epsilon: Fraction, relation: NeighboringRelation
) -> None:
    tree = best_tree(bins, Neighbors(relation), epsilon, DELTA)
    assert all(other.mean_variance() >= tree.mean_variance() for other in trees_beside(tree))
    assert rms_error(tree, epsilon, relation) <= rms_error(CountTree(bins, (1,)), epsilon, relation)


def square_root(bins: int) -> npt.NDArray[np.float64]:
    """Return the triangular root of the matrix of cumulative sums, diagonal by diagonal, from its square."""
    first = np.ones(bins)
    for k in range(1, bins):
        first[k] = (1 - first[1:k] @ first[k - 1 : 0 : -1]) / 2
    return sum((first[k] * np.eye(bins, k=k) for k in range(bins)), np.zeros((bins, bins)))


@pytest.mark.parametrize(("relation", "cap"), [(ADD, 1), (REPLACE, 1), (NeighboringRelation.ZERO_OUT_ONE, 3)])
@pytest.mark.parametrize("delta", [DELTA, Fraction(1, 10**5)])
def test_the_square_root_s_error_is_that_of_its_matrices(
    relation: NeighboringRelation, cap: int, delta: Fraction
) -> None:
    """With the moves of all records, of two histograms, and the noise's delta by integration."""
    bins, epsilon = 40, 1.0
    root = square_root(bins)
    np.testing.assert_allclose(root @ root, cumulative(bins), atol=1e-12)
    both = np.kron(np.eye(2), root)
    moves = [cap * column for column in both.T]
    if relation is REPLACE:
        moves = [one - other for one in both.T for other in both.T]
    furthest = max(float(np.linalg.norm(move)) for move in moves)
    error = square_root_error(bins, Neighbors(relation, cap), Fraction(epsilon), delta)
    sigma = error / np.sqrt((root**2).sum(axis=1).mean()) / furthest  # for a move of 1
    x = np.linspace(0.5 - 12 * sigma, 0.5 + 12 * sigma, 400_001)  # the rest is lighter than 10^-30
    p, q = (np.exp(-(((x - mean) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi)) for mean in (1, 0))
    lost = float(np.maximum(p - np.exp(epsilon) * q, 0).sum() * (x[1] - x[0]))
    assert lost == pytest.approx(float(delta), rel=1e-4)
