"""The index that π_CAP opens, from drawn bits: its distribution is the one whose privacy is enumerated.

The circuits themselves, in the clear: a process per index would take hours.
"""

from fractions import Fraction

import numpy as np
import pytest

from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.circuits.first_below import counts_from_each_on, first_below
from fairshares.protocols.circuits.integers import sum_of_bits
from fairshares.protocols.circuits.noise import fair_bits_per_sample, two_complement, two_sided_geometric
from fairshares.protocols.mechanisms.above_threshold import distribution_of_first_below
from tests.support.clear import Lanes, no_check
from tests.support.distribution import DELTA_BITS, hoeffding_bound

RUNS = 100_000
COINS = design_coins(Fraction(1, 3), DELTA_BITS)
# Clients by how many caps they exceed, and how many may exceed one: any index is opened now and then.
CASES = {
    "a few each": ((2, 1, 1, 2, 1), 3),
    "one query": ((4,), 3),
    "all alike": ((0, 0, 0, 5), 5),
    "far above at first": ((40, 3, 0, 1, 0, 0, 0, 2), 4),
}


def opened(exceeding: tuple[int, ...], above: int, seed: int) -> np.ndarray:
    """Return how often each index is opened."""
    rng, lanes = np.random.default_rng(seed), len(exceeding) + 1
    fair = [
        rng.integers(0, 2, (lanes, RUNS), dtype=np.uint8).view(bool)
        for _ in range(fair_bits_per_sample(COINS))
    ]
    noise = sum_of_bits(two_complement(two_sided_geometric(COINS, fair)), Lanes.from_values)
    counts = counts_from_each_on(Lanes, Lanes.from_values(exceeding))
    index = first_below(
        Lanes, no_check, Lanes.from_values(np.repeat(counts[:, np.newaxis], RUNS, axis=1)), above, noise
    )
    return np.bincount(index.ravel(), minlength=lanes) / RUNS


@pytest.mark.parametrize("name", CASES)
def test_indices_follow_the_distribution(name: str) -> None:
    """Wrong with probability 1e-9 at most; those of other noise, or another bound, are two bounds away."""
    exceeding, above = CASES[name]
    counts, bound = np.cumsum(exceeding[::-1])[::-1], hoeffding_bound(RUNS, len(exceeding) + 1)
    distribution = distribution_of_first_below(COINS, counts, above)
    assert np.abs(opened(exceeding, above, 11) - distribution).max() <= bound
    if name == "a few each":
        for epsilon, more in ((Fraction(1, 2), 0), (Fraction(2, 9), 0), (Fraction(1, 3), 1)):
            wrong = distribution_of_first_below(design_coins(epsilon, DELTA_BITS), counts, above + more)
            assert np.abs(wrong - distribution).max() > 2 * bound
