"""Intervals of means and gaps hold the truth as often as they say, over the noise.

N runs a case, noise from its probability mass function. If an interval holds with probability 95 %, the share
that does is below x with probability at most exp(-N KL(x, 0.95)) (Chernoff), 10^-9 for the x used here.
"""

from fractions import Fraction

import numpy as np
import pytest

from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from fairshares.harness.releases.gap.statistic import CONFIDENCE, gaps
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_noise,
    sums_from_ends,
)
from fairshares.protocols.noise.added import simulated_noise
from tests.support.distribution import accepted

N = 400
STEPS = 20
DOMAIN = RecordDomain(("a", "b", "c"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, STEPS))
SIZES = (300, 90, 6)


def plan(epsilon: Fraction) -> NoisePlan:
    relation = NeighboringRelation.REPLACE_ONE
    return plan_noise(sums_from_ends(3, STEPS), Neighbors(relation), epsilon, Fraction(1, 2**40))


def shares(noise: NoisePlan, claimed: NoisePlan) -> np.ndarray:
    """Return the share of runs in which each mean, and each gap, is in its interval."""
    rng = np.random.default_rng(5)
    values = [rng.beta(a, b, n) for (a, b), n in zip(((8, 1), (2, 3), (1, 9)), SIZES, strict=True)]
    means = [float(of_group.mean()) for of_group in values]
    assert DOMAIN.values is not None
    steps = [DOMAIN.values.nearest(of_group) for of_group in values]
    truth = [x for of_group in steps for x in ((STEPS + of_group).sum(), (STEPS - of_group).sum())]
    covered = np.zeros(6)
    for opened in np.array(truth) + simulated_noise(noise.coins, rng, (N, 6)):
        estimated = gaps(opened, DOMAIN, claimed)
        wanted = [*means, *(means[a] - means[b] for a, b in estimated.gaps)]
        pairs = zip([*estimated.means, *estimated.gaps.values()], wanted, strict=True)
        covered += [one.low <= value <= one.high for one, value in pairs]
    return covered / N


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(6)])
def test_intervals_hold_as_often_as_they_say(epsilon: Fraction) -> None:
    assert shares(plan(epsilon), plan(epsilon)).min() >= accepted(N, float(CONFIDENCE))


@pytest.mark.parametrize(
    ("clients", "epsilon", "most"),
    [(1000, Fraction(3), 1.1), (10_000, Fraction(1), 1.07), (300, Fraction(3), 1.16)],
)
def test_half_widths_are_near_the_true_errors(clients: int, epsilon: Fraction, most: float) -> None:
    """Against the 95 % quantile of 40,000 simulated errors; of means within 1.1 at all sizes."""
    domain = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(-1.0, 1.0, 100))
    noise = plan_noise(
        sums_from_ends(2, 100), Neighbors(NeighboringRelation.REPLACE_ONE), epsilon, Fraction(1, 2**40)
    )
    truth = 100.0 * clients * np.array([1.6, 0.4, 0.8, 1.2])
    runs = truth + simulated_noise(noise.coins, np.random.default_rng(6), (40_000, 4))
    means = (runs[:, ::2] - runs[:, 1::2]) / (runs[:, ::2] + runs[:, 1::2])
    errors = [np.quantile(abs(means[:, 0] - 0.6), 0.95), np.quantile(abs(means @ [1, -1] - 0.8), 0.95)]
    widths = []
    for opened in runs[:15]:
        result = gaps(opened, domain, noise)
        for interval in (result.means[0], *result.gaps.values()):
            widths.append((interval.high - interval.low) / 2)
    mean, gap = np.median(np.array(widths).reshape(-1, 2), axis=0) - [0.005, 0.01]  # of rounding to the grid
    assert 0.98 < mean / errors[0] < 1.1 and 0.98 < gap / errors[1] < most


def test_intervals_for_less_noise_are_noticed() -> None:
    assert shares(plan(Fraction(1, 2)), plan(Fraction(4))).min() < 0.7
