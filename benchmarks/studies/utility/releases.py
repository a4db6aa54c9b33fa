"""Ways to release the groups' score curves, each simulated in the clear: what it opens, and its epsilon."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from benchmarks.studies.arrays import Floats, Integers
from benchmarks.studies.local_simulation import summed_geometric
from benchmarks.studies.utility.curves import cumulative
from harness.postprocessing.curves import CurveNoise
from harness.releases.score_curves import curve_map
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_noise,
    plan_own_noise,
)
from protocols.circuits.coins import MAX_EPSILON, exp_bounds
from protocols.guarantee import Guarantee
from protocols.local_dp import randomizers
from protocols.local_dp.randomizers import Grr
from protocols.mechanisms.count_tree import CountTree, best_tree
from protocols.noise.added import NoiseLaw, simulated_noise
from protocols.noise.truncated import log_upper_bound
from protocols.published_baselines import each_threshold

DELTA = Fraction(1, 2**40)
NOISE_FREE, TREE, FLAT, PER_THRESHOLD, LOCAL = "noise-free", "tree", "flat", "per-threshold", "local"
OWN_TREE = (
    "own-noise"  # the tree with noise of the parties' own, of three parties, one of whom may be corrupt
)
METHODS = (TREE, FLAT, PER_THRESHOLD, LOCAL, OWN_TREE)


@dataclass(frozen=True)
class LocalMechanism:
    """What a client with one record does: randomised response on its group, noise on its own counts.

    Source: the baseline of PrivFairFL (section 5, question 3) after Abay et al. 2020, for score curves:
    a client publishes its group by randomised response and its noisy local counts. Those are per label
    and block of score bins, on the levels of `tree`, with two-sided geometric noise.
    Computes: the group is reported by generalised randomised response; noise x has probability in
    proportion to ratio^|x|. Another record moves 2 counts a level by 1.
    Guarantees: what a client publishes is ln(response.odds / ratio^(2 levels))-LDP, for any two records,
    of other groups too, and no less.  [test: tests/protocols/test_local_dp.py]
    """

    response: Grr
    tree: CountTree
    ratio: Fraction

    @property
    def epsilon(self) -> Fraction:
        """Return the exact guarantee, rounded up to a multiple of 10^-12."""
        return log_upper_bound(self.response.odds / self.ratio ** (2 * len(self.tree.blocks)))

    @property
    def guarantee(self) -> Guarantee:
        """For one client's record in place of another: `epsilon`, and no δ."""
        return Guarantee(self.epsilon, Fraction(0))

    def reported(self) -> Floats:
        """Return the probability of each reported group (column) for each true one (row)."""
        keep, move = float(self.response.keep), float(self.response.move)
        return np.where(np.eye(self.response.groups, dtype=bool), keep, move)

    def estimate(self, histograms: Integers, rng: np.random.Generator) -> Floats:
        """Simulate all clients and estimate the cumulative counts without bias.

        Computes: per reported group the sum of what its clients published, then the inverse of
        `reported`, and least squares over the tree. The sum of n clients' noise on a count is drawn at
        once, as the difference of two negative binomial variables, which is its exact distribution.
        Args: histograms: shape (repetitions, k, 2, T); every record is a client's.
        Returns: shape (repetitions, k, 2, T + 1), last the totals.
        """
        probabilities = self.reported()
        told = [rng.multinomial(histograms[:, g], probabilities[g]) for g in range(self.response.groups)]
        seen = np.moveaxis(np.sum(told, axis=0), -1, 1)
        clients = seen.sum(axis=(2, 3), keepdims=True)
        odds = float(self.ratio / (1 - self.ratio))
        each = np.broadcast_to(clients, (*seen.shape[:3], self.tree.nodes))
        noise = summed_geometric(each, odds, rng) - summed_geometric(each, odds, rng)
        published = cumulative(seen) + noise @ curve_map(self.tree).T
        return np.asarray(np.einsum("rg,nrlt->nglt", np.linalg.inv(probabilities), published))

    def mean_square_error(self, records: int) -> float:
        """Predict the mean square error of a cumulative count, for groups and labels of one size."""
        ratio, inverse = float(self.ratio), np.linalg.inv(self.reported())
        square = float((inverse**2).mean(axis=0).mean())  # of a client's factor in one group's estimate
        noise = records * square * 2 * ratio / (1 - ratio) ** 2 * self.tree.mean_variance()
        return noise + records / 4 * (square - 1 / self.response.groups)


def design_local(
    groups: int, trees: tuple[CountTree, ...], records: int, epsilon: Fraction
) -> LocalMechanism:
    """Return the mechanism for one epsilon with the least predicted error: of the trees and of the split.

    Guarantees: at most epsilon, by exact bounds of the exponentials.
    [test: tests/protocols/test_local_dp.py]
    Args: epsilon: of all that a client publishes, at most 64.
    """
    found = []
    for tree in trees:
        for twentieths in range(1, 20):  # of epsilon, for the group
            of_group = min(epsilon * twentieths / 20, randomizers.MAX_EPSILON)
            inverse, _ = exp_bounds((epsilon - of_group) / (2 * len(tree.blocks)))
            found.append(LocalMechanism(Grr.private(groups, of_group), tree, 1 / inverse))
    return min(found, key=lambda mechanism: mechanism.mean_square_error(records))


@dataclass(frozen=True)
class NoiseFree:
    """The exact counts: no release that protects anybody, but what all others are measured against."""

    guarantee = None

    def estimate(self, histograms: Integers, _rng: np.random.Generator) -> Floats:
        """Return the exact counts and totals, shape (repetitions, k, 2, T + 1)."""
        return cumulative(histograms)


@dataclass(frozen=True, eq=False)
class Computed:
    """A release whose noise the parties make in the computation, from the default coins, or draw themselves.

    Computes: exact counts + linear @ noise of mean 0. That is what comes of opening the noisy nodes and
    estimating from them, as estimators are linear and unbiased.  [test: tests/protocols/test_queries.py]
    """

    noise: CurveNoise
    plan: NoisePlan

    @property
    def guarantee(self) -> Guarantee:
        """That of the noise, exactly."""
        return self.plan.exact

    def estimate(self, histograms: Integers, rng: np.random.Generator) -> Floats:
        """Return the exact counts and totals plus simulated noise, shaped as by `NoiseFree`."""
        nodes = simulated_noise(self.noise.node, rng, (*histograms.shape[:3], self.plan.nodes))
        return np.asarray(cumulative(histograms) + nodes @ self.noise.linear.T)


Release = LocalMechanism | NoiseFree | Computed


def release_for(
    method: str, bins: int, groups: int, records: int, epsilon: Fraction, relation: NeighboringRelation
) -> Release:
    """Return a method's release with this total epsilon.

    Args: relation: of the methods whose noise is made in the computation; those take at most
    epsilon = 20, as the commands do. Records and groups shape the local mechanism only.
    """
    if method == NOISE_FREE:
        return NoiseFree()
    if method == LOCAL:
        tree = best_tree(bins, Neighbors(NeighboringRelation.REPLACE_ONE), Fraction(1), DELTA)
        return design_local(groups, (CountTree(bins, (1,)), tree), records, epsilon)
    return computed(method, bins, min(epsilon, MAX_EPSILON), relation)


@lru_cache(maxsize=64)
def computed(method: str, bins: int, epsilon: Fraction, relation: NeighboringRelation) -> Computed:
    """Return a release by tree, flat or per-threshold counts, or by the tree with the parties' own noise.

    Groups and labels are disjoint, so their number changes nothing of a histogram's noise.
    """
    neighbors = Neighbors(relation)
    if method == PER_THRESHOLD:
        release, linear = each_threshold(1, bins), _least_squares_per_threshold(bins)
    else:
        law = NoiseLaw.LAPLACE if method == OWN_TREE else None
        tree = CountTree(bins, (1,)) if method == FLAT else best_tree(bins, neighbors, epsilon, DELTA, law)
        release, linear = tree.release(1), curve_map(tree)
    asked = (release, neighbors, epsilon, DELTA)
    if method == OWN_TREE:
        plan = plan_own_noise(*asked, NoiseLaw.LAPLACE, 3, 1)  # one of three parties may be corrupt
    else:
        plan = plan_noise(*asked)
    return Computed(CurveNoise(linear, plan.noise), plan)


def _least_squares_per_threshold(bins: int) -> Floats:
    """Return the matrix from both counts at every threshold to the nearest counts that have one total.

    Computes: the total is the mean of the sums; a count is the mean of its own value and the total less
    the other's. Kinder than the published protocol, which uses each value as it is.
    """
    total = np.full((1, 2 * bins), 1 / bins)
    above = (np.concatenate([np.eye(bins), -np.eye(bins)], axis=1) + total) / 2
    return np.concatenate([above, total])
