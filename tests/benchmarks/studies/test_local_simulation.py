"""Simulated clients: the library's estimates, in bounded memory."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.local_simulation import Population, simulate
from protocols.local_dp.estimators import Tally, estimate_gaps, estimate_means
from protocols.local_dp.randomizers import MechanismL, MechanismR, ValueRange
from tests.support.populations import population_of

RATES = ValueRange(0, 1)
R, L = MechanismR.private(3, Fraction(4), RATES), MechanismL.private(3, Fraction(4), RATES)
MEGABYTE = 1 << 20


def test_estimates_are_those_of_the_library() -> None:
    population = Population(
        (np.array([0.5, 0.9]), np.array([0.1]), np.array([0.6])),
        (np.array([7, 8]) * 1000, np.array([9000]), np.array([8000])),
    )
    for found in simulate([R, L], population, 2, np.random.default_rng(1)):
        truth = [each.tolist() for each in (found.sizes, found.means)]
        assert truth == [[15_000, 9000, 8000], pytest.approx([(3.5 + 7.2) / 15, 0.1, 0.6])]
        for run in (0, 1):
            tally, sizes = Tally(found.counts[run], found.sums[run]), found.sizes.tolist()
            assert tally.clients == 32_000
            means = [each.value for each in estimate_means(tally, found.mechanism, sizes)]
            assert found.estimated_means()[run] == pytest.approx(means)
            for gap in estimate_gaps(tally, found.mechanism, sizes):
                assert found.estimated_gaps(*gap.groups)[run] == pytest.approx(gap.value)


def test_a_thousand_million_clients_take_little_memory() -> None:
    """Where they share tuples, nothing grows with their number."""
    shared = Population(
        tuple(np.full(1, 0.5) for _ in range(3)), tuple(np.full(1, n) for n in (5 * 10**8, 4 * 10**8, 10**8))
    )
    tracemalloc.start()
    for found in simulate([R, L], shared, 10, np.random.default_rng(2)):
        assert found.counts.sum(axis=1).tolist() == [10**9] * 10
    assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    tracemalloc.stop()


def test_values_outside_the_declared_range() -> None:
    with pytest.raises(ValueError, match="outside the declared range"):
        simulate([R], population_of([0, 1, 2], [0.5, 1.5, 0], 3), 1, np.random.default_rng(1))
