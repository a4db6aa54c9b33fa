"""The releases that the utility benchmark compares: what they open, their epsilon, their exact error."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from benchmarks.studies.utility.curves import (
    DELTA,
    FLAT,
    LOCAL,
    METHODS,
    PER_THRESHOLD,
    TREE,
    LocalMechanism,
    computed,
    curves_of,
    release_for,
)
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, even_grid
from fairshares.harness.releases.thresholds.statistic import noisy_curves
from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors
from fairshares.protocols.circuits.coins import MAX_EPSILON
from fairshares.protocols.local_dp.randomizers import Grr
from fairshares.protocols.mechanisms.count_tree import CountTree, best_tree
from fairshares.protocols.noise.added import simulated_noise
from fairshares.protocols.noise.truncated import guarantee, log_upper_bound

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
BINS = 21


@pytest.mark.parametrize(("relation", "values"), [(ADD, BINS), (REPLACE, 2 * BINS)])
def test_epsilon_per_threshold_adds_up_to_the_total(relation: NeighboringRelation, values: int) -> None:
    plan = computed(PER_THRESHOLD, BINS, Fraction(1), relation).plan
    assert plan.changed == values and plan.exact == guarantee(plan.coins, values)
    assert Fraction(99, 100) < plan.exact.epsilon <= 1 and plan.exact.delta <= DELTA


@pytest.mark.parametrize("flat", [False, True])
def test_computed_is_what_opened_nodes_lead_to(flat: bool) -> None:
    """The same noise, added to the block counts of the histogram and then estimated from."""
    release = computed(FLAT if flat else TREE, BINS, Fraction(1), ADD)
    histogram = np.random.default_rng(1).integers(0, 50, (2, 2, BINS))
    estimated = release.estimate(histogram[np.newaxis], np.random.default_rng(7))[0]

    noise = simulated_noise(release.noise.node, np.random.default_rng(7), (1, 2, 2, release.plan.nodes))[0]
    tree = CountTree(BINS, (1,)) if flat else best_tree(BINS, Neighbors(ADD), Fraction(1), DELTA)
    linear = tree.release(1)
    nodes = np.zeros((2, 2, linear.nodes))
    for score, column in enumerate(linear.columns):
        nodes[..., list(column)] += histogram[..., score, np.newaxis]
    levels = np.split(nodes + noise, np.cumsum(tree.counts)[:-1], axis=-1)
    opened = np.concatenate([level.ravel() for level in levels])
    domain = RecordDomain(("a", "b"), ("0", "1"), thresholds=even_grid(BINS), kind=RecordKind.SCORE)
    expected = noisy_curves(opened, domain, "1", tree, release.noise.node).curves
    curves = curves_of(domain.groups, np.array(domain.thresholds), estimated)
    for name in ("tp", "fp", "positives", "negatives"):
        np.testing.assert_allclose(getattr(curves, name), getattr(expected, name), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_no_release_spends_more_than_it_was_given(method: str) -> None:
    for epsilon in (Fraction(1, 4), Fraction(50)):
        spent = release_for(method, BINS, 3, records=1000, epsilon=epsilon, relation=REPLACE).guarantee
        assert spent.epsilon <= (epsilon if method == LOCAL else min(epsilon, MAX_EPSILON))


SMALL = [(2, CountTree(2, (1,))), (3, CountTree(2, (1,))), (2, CountTree(2, (1, 2)))]


def worst_ratio(mechanism: LocalMechanism) -> Fraction:
    """Return the largest ratio of probabilities of one output under two records, by enumeration.

    An output is a reported group and a count per label and node. Noise of one more step away changes no
    ratio, so counts from -1 to 2 show all there are.
    """
    tree, response, worst = mechanism.tree, mechanism.response, Fraction(0)
    nodes = [
        np.concatenate([tree.block_of(level) + sum(tree.counts[:level]) for level in range(len(tree.blocks))])
        .reshape(len(tree.blocks), tree.bins)[:, score]
        .tolist()
        for score in range(tree.bins)
    ]
    records = list(product(range(response.groups), range(2), range(tree.bins)))
    for output in product(range(-1, 3), repeat=2 * tree.nodes):
        likelihoods = []
        for _, label, score in records:
            counted = {label * tree.nodes + node for node in nodes[score]}
            distance = sum(abs(value - (place in counted)) for place, value in enumerate(output))
            likelihoods.append(mechanism.ratio**distance)  # times a factor that all records share
        for reported in range(response.groups):
            chances = [
                likelihood * (response.keep if group == reported else response.move)
                for likelihood, (group, _, _) in zip(likelihoods, records, strict=True)
            ]
            worst = max(worst, max(chances) / min(chances))
    return worst


@pytest.mark.parametrize(("groups", "tree"), SMALL)
def test_epsilon_is_that_of_the_enumerated_outputs(groups: int, tree: CountTree) -> None:
    mechanism = LocalMechanism(Grr(groups, Fraction(3, 4)), tree, ratio=Fraction(1, 2))
    worst = worst_ratio(mechanism)
    assert worst == Fraction(3, 4) / (Fraction(1, 4) / (groups - 1)) * 2 ** (2 * len(tree.blocks))
    assert mechanism.epsilon == log_upper_bound(worst)
