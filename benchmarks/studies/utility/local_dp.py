"""The baseline without servers: every client randomises its own record before it leaves the client."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from benchmarks.studies.local_simulation import summed_geometric
from benchmarks.studies.utility.populations import cumulative
from protocols.circuits.coins import exp_bounds
from protocols.local_dp.randomizers import MAX_EPSILON, Grr
from protocols.mechanisms.count_tree import CountTree
from protocols.noise.truncated import log_upper_bound

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SHARES = tuple(Fraction(part, 20) for part in range(1, 20))  # of epsilon that the group may get


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

    def reported(self) -> Floats:
        """Return the probability of each reported group (column) for each true one (row)."""
        same = np.eye(self.response.groups, dtype=bool)
        return np.where(same, float(self.response.keep), float(self.response.move))

    def estimate(self, histograms: Integers, rng: np.random.Generator) -> Floats:
        """Simulate all clients and estimate the cumulative counts without bias.

        Computes: per reported group the sum of what its clients published, then the inverse of
        `reported`, and least squares over the tree. The sum of n clients' noise on a count is drawn at
        once, as the difference of two negative binomial variables, which is its exact distribution.
        Args: histograms: shape (repetitions, k, 2, T); every record is a client's.
        Returns: shape (repetitions, k, 2, T + 1), last the totals.
        """
        probabilities = self.reported()
        seen = sum(
            np.moveaxis(rng.multinomial(histograms[:, g], probabilities[g]), -1, 1)
            for g in range(self.response.groups)
        )
        seen = np.asarray(seen)
        clients = seen.sum(axis=(2, 3))[:, :, np.newaxis, np.newaxis]
        shape = (*seen.shape[:3], self.tree.nodes)
        odds, each = float(self.ratio / (1 - self.ratio)), np.broadcast_to(clients, shape)
        noise = summed_geometric(each, odds, rng) - summed_geometric(each, odds, rng)
        estimator = self.tree.estimator()
        linear = np.concatenate([estimator, estimator[:1]])
        published = cumulative(seen) + noise @ linear.T
        found: Floats = np.einsum("rg,nrlt->nglt", np.linalg.inv(probabilities), published)
        return found

    def mean_square_error(self, records: int) -> float:
        """Predict the mean square error of a cumulative count, for groups and labels of one size."""
        inverse = np.linalg.inv(self.reported())
        square = float((inverse**2).mean(axis=0).mean())  # of a client's factor in one group's estimate
        ratio = float(self.ratio)
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
        for share in _SHARES:
            of_group = min(epsilon * share, MAX_EPSILON)
            inverse, _ = exp_bounds((epsilon - of_group) / (2 * len(tree.blocks)))
            found.append(LocalMechanism(Grr.private(groups, of_group), tree, 1 / inverse))
    return min(found, key=lambda mechanism: mechanism.mean_square_error(records))
