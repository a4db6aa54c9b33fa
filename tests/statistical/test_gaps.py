"""Intervals of means and gaps hold the truth as often as they say, over the noise.

N runs a case, noise from its probability mass function. If an interval holds with probability 95 %, the share
that does is below x with probability at most exp(-N KL(x, 0.95)) (Chernoff), 10^-9 for the x used here.
"""

from fractions import Fraction

import numpy as np
import pytest

from harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from harness.releases.gaps import CONFIDENCE, gaps
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_noise,
    sums_and_sizes,
)
from protocols.noise.added import simulated_noise
from tests.support.distribution import accepted

N = 400
STEPS = 20
DOMAIN = RecordDomain(("a", "b", "c"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, STEPS))
SIZES = (300, 90, 6)


def plan(epsilon: Fraction) -> NoisePlan:
    relation = NeighboringRelation.REPLACE_ONE
    return plan_noise(sums_and_sizes(3, STEPS), Neighbors(relation), epsilon, Fraction(1, 2**40))


def shares(noise: NoisePlan, claimed: NoisePlan) -> np.ndarray:
    """Return the share of runs in which each mean, and each gap, is in its interval."""
    rng = np.random.default_rng(5)
    values = [rng.beta(a, b, n) for (a, b), n in zip(((8, 1), (2, 3), (1, 9)), SIZES, strict=True)]
    means = [float(each.mean()) for each in values]
    assert DOMAIN.values is not None
    truth = [x for each in values for x in (DOMAIN.values.nearest(each).sum(), STEPS * len(each))]
    covered = np.zeros(6)
    for opened in np.array(truth) + simulated_noise(noise.coins, rng, (N, 6)):
        estimated = gaps(opened, DOMAIN, claimed)
        wanted = [*means, *(means[a] - means[b] for a, b in estimated.gaps)]
        each = zip([*estimated.means, *estimated.gaps.values()], wanted, strict=True)
        covered += [one.low <= value <= one.high for one, value in each]
    return covered / N


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(6)])
def test_intervals_hold_as_often_as_they_say(epsilon: Fraction) -> None:
    assert shares(plan(epsilon), plan(epsilon)).min() >= accepted(N, float(CONFIDENCE))


def test_intervals_for_less_noise_are_noticed() -> None:
    assert shares(plan(Fraction(1, 2)), plan(Fraction(4))).min() < 0.7
