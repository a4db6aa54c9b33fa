"""The index that π_CAP opens, from drawn bits: its distribution is the one whose privacy is enumerated.

The circuits themselves, in the clear: a process per index would take hours.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from protocols.circuits.coins import design_coins
from protocols.circuits.first_below import counts_from_each_on, first_below
from protocols.circuits.noise import fair_bits_per_sample, to_integer, two_sided_geometric
from protocols.mechanisms.above_threshold import distribution_of_first_below
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
    noise = to_integer(two_sided_geometric(COINS, fair), Lanes.of)
    counts = counts_from_each_on(Lanes, Lanes.of(exceeding))
    index = first_below(
        Lanes, no_check, Lanes.of(np.repeat(counts[:, np.newaxis], RUNS, axis=1)), above, noise
    )
    return np.bincount(index.ravel(), minlength=lanes) / RUNS


def counts_of(exceeding: tuple[int, ...]) -> np.ndarray:
    return np.cumsum(exceeding[::-1])[::-1]


@pytest.mark.parametrize("name", CASES)
def test_indices_follow_the_distribution(name: str) -> None:
    """Wrong with probability 1e-9 at most."""
    exceeding, above = CASES[name]
    distribution = distribution_of_first_below(COINS, counts_of(exceeding), above)
    found = opened(exceeding, above, 11)
    assert np.abs(found - distribution).max() <= hoeffding_bound(RUNS, len(distribution))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda counts, above: distribution_of_first_below(
            design_coins(Fraction(1, 2), DELTA_BITS), counts, above
        ),
        lambda counts, above: distribution_of_first_below(
            design_coins(Fraction(2, 9), DELTA_BITS), counts, above
        ),
        lambda counts, above: distribution_of_first_below(COINS, counts, above + 1),
        lambda counts, above: distribution_of_first_below(COINS, counts[::-1], above),
    ],
    ids=["less noise", "more noise", "another bound", "another order"],
)
def test_another_distribution_is_found_out(wrong: Callable[[np.ndarray, int], np.ndarray]) -> None:
    """Its indices would be told apart for certain: it is further away than two bounds."""
    exceeding, above = CASES["a few each"]
    distribution = distribution_of_first_below(COINS, counts_of(exceeding), above)
    distance = np.abs(wrong(counts_of(exceeding), above) - distribution).max()
    assert distance > 2 * hoeffding_bound(RUNS, len(distribution))
