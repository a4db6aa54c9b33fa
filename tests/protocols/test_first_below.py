"""Where noisy counts first fall to a noisy bound, as a circuit in the clear."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from fairshares.protocols import reference
from fairshares.protocols.circuits.first_below import counts_from_each_on, first_below
from tests.support.clear import Lanes, no_check


def found(sizes: Sequence[int], caps: Sequence[int], above: int, noise: Sequence[int]) -> int:
    """What the circuit finds from clients' codes."""
    exceeded = [sum(size > cap for cap in caps[:-1]) for size in sizes]
    counts = Lanes.from_values([exceeded.count(i) for i in range(1, len(caps))])
    return int(
        first_below(
            Lanes, no_check, counts_from_each_on(Lanes, counts), above, Lanes.from_values(noise)
        ).item()
    )


def test_first_below_for_all_small_noise() -> None:
    """Ties, none below, the first below, and a later one that is below after one that is not."""
    sizes, caps, seen = [0, 0, 1, 2, 2, 3, 5, 5, 9], (1, 2, 4, 6), set()
    for noise in itertools.product((-4, -3, -1, 0, 1, 2), repeat=len(caps)):
        seen.add(expected := reference.first_below(sizes, caps, 2, noise))
        assert found(sizes, caps, 2, noise) == expected
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize("queries", [1, 2, 5, 8, 20])
def test_first_below_for_large_noise(queries: int) -> None:
    rng, caps, seen = np.random.default_rng(queries), range(1, queries + 2), set()
    for _ in range(200):
        sizes = rng.geometric(3 / (queries + 3), 50) - 1
        noise = rng.geometric(0.1, queries + 1) * rng.choice([-1, 1], queries + 1)
        above = int(rng.integers(0, 20))
        seen.add(expected := reference.first_below(sizes.tolist(), caps, above, noise.tolist()))
        assert found(sizes.tolist(), caps, above, noise.tolist()) == expected
    assert {0, queries} <= seen
