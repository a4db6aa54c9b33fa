"""Simulated clients against the real ones, three at a time: the distribution of all that a collector hears.

N runs; Pearson's statistic over the outcomes, those that are expected less than 20 times counted as one.
False-alarm rate 10^-9 each by the chi-square distribution, to which Pearson's statistic comes near at such
counts.
"""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from benchmarks.studies.local_simulation import (
    ClientValues,
    Simulable,
    Simulated,
    simulate,
)
from fairshares.protocols.local_dp.estimators import tally
from fairshares.protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR, Reports
from tests.support.populations import population_of

N = 20_000
FALSE_ALARM = 1e-9
RARE = 20
GROUPS, VALUES = np.array([0, 0, 2]), np.array([0.5, 0.5, -0.25])
APART = ClientValues(
    (np.array([0.5, 0.5]), np.zeros(0), np.array([-0.25])),
    (np.ones(2, int), np.zeros(0, int), np.ones(1, int)),
)
TOGETHER = population_of(GROUPS, VALUES, 3)
R, L = MechanismR.private(3, Fraction(2)), MechanismL.private(3, Fraction(4), steps=1)

populations = pytest.mark.parametrize("population", [TOGETHER, APART])
Outcomes = Counter[tuple[float, ...]]


def simulated(mechanism: Simulable, population: ClientValues) -> Outcomes:
    (of_mechanism,) = simulate([mechanism], population, N, np.random.default_rng(7))
    assert of_mechanism.sizes.tolist() == [2, 0, 1] and of_mechanism.means[[0, 2]].tolist() == [0.5, -0.25]
    return outcomes(of_mechanism)


def outcomes(simulated: Simulated) -> Outcomes:
    return Counter(map(tuple, np.concatenate([simulated.counts, simulated.sums], axis=1).tolist()))


def heard(mechanism: Mechanism) -> Outcomes:
    """Return what the real clients say in N runs."""
    reports = mechanism.perturb(np.tile(GROUPS, N), np.tile(VALUES, N))
    runs = zip(reports.groups.reshape(N, 3), reports.values.reshape(N, 3), strict=True)
    tallies = (tally(Reports(groups, values), mechanism) for groups, values in runs)
    return Counter((*map(float, tallied.counts), *tallied.sums.tolist()) for tallied in tallies)


def agree(one: Outcomes, other: Outcomes) -> bool:
    common = [outcome for outcome in {*one, *other} if one[outcome] + other[outcome] >= 2 * RARE]
    table = np.array([[counts[outcome] for outcome in common] for counts in (one, other)], dtype=np.float64)
    table = np.concatenate([table, N - table.sum(axis=1, keepdims=True)], axis=1)
    both = np.maximum(table.sum(axis=0), 1)
    return bool((((table[0] - table[1]) ** 2) / both).sum() < chi2.isf(FALSE_ALARM, len(common)))


@populations
@pytest.mark.parametrize(
    ("mechanism", "other"),
    [(R, MechanismR.private(3, Fraction(3))), (L, MechanismL.private(3, Fraction(5), steps=1))],
)
def test_simulated_clients_say_what_real_ones_do(
    mechanism: Mechanism, other: Mechanism, population: ClientValues
) -> None:
    of_clients = heard(mechanism)
    assert agree(of_clients, simulated(mechanism, population))
    assert not agree(of_clients, simulated(other, population))
