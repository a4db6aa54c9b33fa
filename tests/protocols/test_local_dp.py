"""The local baseline: its epsilon by enumeration, and its simulation against clients one by one."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from benchmarks.studies.utility.curves import LocalMechanism, cumulative, design_local
from protocols.circuits.coins import exp_bounds
from protocols.local_dp.randomizers import Grr
from protocols.mechanisms.count_tree import CountTree
from protocols.noise.truncated import log_upper_bound

SMALL = [(2, CountTree(2, (1,))), (3, CountTree(2, (1,))), (2, CountTree(2, (1, 2)))]
DEVIATIONS = 8  # standard errors that a simulated mean may be off


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
            each = [
                likelihood * (response.keep if group == reported else response.move)
                for likelihood, (group, _, _) in zip(likelihoods, records, strict=True)
            ]
            worst = max(worst, max(each) / min(each))
    return worst


@pytest.mark.parametrize(("groups", "tree"), SMALL)
def test_epsilon_is_that_of_the_enumerated_outputs(groups: int, tree: CountTree) -> None:
    mechanism = LocalMechanism(Grr(groups, Fraction(3, 4)), tree, ratio=Fraction(1, 2))
    worst = worst_ratio(mechanism)
    odds = Fraction(3, 4) / (Fraction(1, 4) / (groups - 1))
    assert worst == odds * 2 ** (2 * len(tree.blocks))
    assert mechanism.epsilon == log_upper_bound(worst)


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(20), Fraction(50)])
def test_design_spends_epsilon_and_no_more(groups: int, epsilon: Fraction) -> None:
    trees = (CountTree(21, (1,)), CountTree(21, (1, 7)))
    mechanism = design_local(groups, trees, 10_000, epsilon)
    ratio = mechanism.response.odds / mechanism.ratio ** (2 * len(mechanism.tree.blocks))
    assert ratio <= exp_bounds(epsilon)[1]
    assert Fraction(999, 1000) * epsilon < mechanism.epsilon <= epsilon + Fraction(1, 10**12)
    other = replace(mechanism, tree=trees[mechanism.tree == trees[0]])
    assert mechanism.mean_square_error(10_000) <= design_local(
        groups, (other.tree,), 10_000, epsilon
    ).mean_square_error(10_000)


def test_predicted_error_is_the_simulated_one() -> None:
    """Four cells of one size, scores spread evenly: n = 400, within a tenth; right on average."""
    mechanism = LocalMechanism(Grr(2, Fraction(3, 4)), CountTree(10, (1, 5)), ratio=Fraction(9, 10))
    histogram = np.full((2, 2, 10), 25)
    found = mechanism.estimate(np.broadcast_to(histogram, (400, *histogram.shape)), np.random.default_rng(2))
    errors = found[..., :-1] - cumulative(histogram)[..., :-1]
    assert (errors**2).mean() == pytest.approx(mechanism.mean_square_error(1000), rel=0.1)
    assert (abs(errors.mean(axis=0)) < DEVIATIONS * errors.std(axis=0) / 20).all()
