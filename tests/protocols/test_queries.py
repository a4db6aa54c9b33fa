"""The releases that the utility benchmark compares: what they open, their epsilon, their exact error."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.studies.utility.curves import (
    DELTA,
    FLAT,
    LOCAL,
    METHODS,
    PER_THRESHOLD,
    TREE,
    computed,
    curves_of,
    release_for,
)
from harness.inputs.record_schema import RecordDomain, RecordKind, even_grid
from harness.releases.score_curves import noisy_curves
from protocols.accounting.calibration import NeighboringRelation, Neighbors
from protocols.circuits.coins import MAX_EPSILON
from protocols.guarantee import compose
from protocols.mechanisms.count_tree import CountTree, best_tree
from protocols.noise.added import mean_square_error, simulated_noise
from protocols.noise.truncated import guarantee
from protocols.published_baselines import each_threshold

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
BINS = 21


def per_threshold_values(histogram: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many are at or above each threshold, then how many are below it."""
    above = [histogram[t:].sum() for t in range(len(histogram))]
    return np.array([*above, *(histogram.sum() - count for count in above)])


@pytest.mark.parametrize(("relation", "values"), [(ADD, BINS), (REPLACE, 2 * BINS)])
def test_epsilon_per_threshold_adds_up_to_the_total(relation: NeighboringRelation, values: int) -> None:
    plan = computed(PER_THRESHOLD, BINS, Fraction(1), relation).plan
    assert plan.changed == values
    assert plan.exact == guarantee(plan.coins, values)
    assert Fraction(99, 100) < plan.exact.epsilon <= 1
    added = compose([guarantee(plan.coins)] * values)
    assert plan.exact.epsilon <= added.epsilon <= plan.exact.epsilon + Fraction(values, 10**12)
    assert plan.exact.delta == added.delta <= DELTA


def test_a_record_changes_one_count_at_each_threshold() -> None:
    release, empty = each_threshold(1, BINS), np.zeros(BINS, dtype=np.int64)
    for score, column in enumerate(release.columns):
        one = empty.copy()
        one[score] = 1
        assert sorted(column) == np.flatnonzero(per_threshold_values(one)).tolist()
        assert len(column) == BINS


def test_per_threshold_counts_are_fitted_by_least_squares() -> None:
    """Unknown: the counts at or above each threshold, and the total. Known: these, and total less these."""
    rows = np.block([[np.eye(BINS), np.zeros((BINS, 1))], [-np.eye(BINS), np.ones((BINS, 1))]])
    found = computed(PER_THRESHOLD, BINS, Fraction(1), ADD).noise.linear
    np.testing.assert_allclose(found, np.linalg.pinv(rows), atol=1e-12)


@pytest.mark.parametrize("flat", [False, True])
def test_computed_is_what_opened_nodes_lead_to(flat: bool) -> None:
    """The same noise, added to the block counts of the histogram and then estimated from."""
    release = computed(FLAT if flat else TREE, BINS, Fraction(1), ADD)
    histogram = np.random.default_rng(1).integers(0, 50, (2, 2, BINS))
    found = release.estimate(histogram[np.newaxis], np.random.default_rng(7))[0]

    noise = simulated_noise(release.noise.node, np.random.default_rng(7), (1, 2, 2, release.plan.nodes))[0]
    tree = computed_tree(flat)
    linear = tree.release(1)
    nodes = np.zeros((2, 2, linear.nodes))
    for score, column in enumerate(linear.columns):
        nodes[..., list(column)] += histogram[..., score, np.newaxis]
    levels = np.split(nodes + noise, np.cumsum(tree.counts)[:-1], axis=-1)
    opened = np.concatenate([level.ravel() for level in levels])
    domain = RecordDomain(("a", "b"), ("0", "1"), thresholds=even_grid(BINS), kind=RecordKind.SCORE)
    expected = noisy_curves(opened, domain, "1", tree, release.noise.node).curves
    curves = curves_of(domain.groups, np.array(domain.thresholds), found)
    for name in ("tp", "fp", "positives", "negatives"):
        np.testing.assert_allclose(getattr(curves, name), getattr(expected, name), atol=1e-9)


def computed_tree(flat: bool) -> CountTree:
    return CountTree(BINS, (1,)) if flat else best_tree(BINS, Neighbors(ADD), Fraction(1), DELTA)


@pytest.mark.parametrize(
    ("method", "records", "n"), [(TREE, 11.0, 25), (FLAT, 32.7, 25), (PER_THRESHOLD, 1001.5, 4)]
)
def test_error_at_a_thousand_thresholds_and_epsilon_one(method: str, records: float, n: int) -> None:
    """Exact root mean square error of the 1001 cumulative counts, and the simulated one; total epsilon 1.

    n repetitions of four histograms each; within 8 standard errors, and the 5 % that `records` may be off.
    """
    release = computed(method, 1001, Fraction(1), ADD)
    square = float(mean_square_error(release.noise.node))
    assert np.sqrt(square * (release.noise.linear[:-1] ** 2).sum(axis=1).mean()) == pytest.approx(
        records, rel=0.05 if method == TREE else 0.01
    )
    none = np.zeros((n, 2, 2, 1001), dtype=np.int64)
    errors = release.estimate(none, np.random.default_rng(3))[..., :-1]
    squares = (errors**2).mean(axis=-1).ravel()
    assert abs(squares.mean() - records**2) < 8 * squares.std() / np.sqrt(4 * n) + 0.1 * records**2


@pytest.mark.parametrize("method", METHODS)
def test_no_release_spends_more_than_it_was_given(method: str) -> None:
    for epsilon in (Fraction(1, 4), Fraction(50)):
        found = release_for(method, BINS, 3, 1000, epsilon, REPLACE).guarantee
        assert found.epsilon <= (epsilon if method == LOCAL else min(epsilon, MAX_EPSILON))
