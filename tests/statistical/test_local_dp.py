"""Draws of the local mechanisms against their distributions, and how often intervals hold.

False-alarm rate 10^-9 each: DKW for distributions; for shares of N runs that hold with probability 95 % at
least, Chernoff: below x with probability at most exp(-N KL(x, 0.95)).
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fairshares.protocols.local_dp.estimators import ReportTally, estimate_gaps, estimate_means, tally
from fairshares.protocols.local_dp.exact_privacy import distribution_of_r
from fairshares.protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR, Reports
from fairshares.protocols.noise.exact_sampling import discrete_laplace
from tests.support.distribution import accepted, distance, dkw_bound

N = 20_000
RUNS = 220
ONE = Fraction(1)
SIZES = [500, 1200, 300]
VALUES = np.repeat([0.9, -0.2, 0.4], SIZES) + np.tile([0.1, -0.1], 1000)
GROUPS = np.repeat([0, 1, 2], SIZES)
MEANS = [0.9, -0.2, 0.4]

kinds = pytest.mark.parametrize("kind", [MechanismR, MechanismL])


def laplace_distribution(scale: float) -> dict[int, float]:
    most = int(30 * scale) + 1
    weights = {x: math.exp(-abs(x) / scale) for x in range(-most, most + 1)}
    total = sum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 5), Fraction(2000, 7)])
def test_noise_has_its_distribution_and_no_other_scale(scale: Fraction) -> None:
    samples = discrete_laplace(scale, N).tolist()
    assert distance(samples, laplace_distribution(float(scale))) < dkw_bound(N)
    for factor in (0.7, 1.4):
        assert distance(samples, laplace_distribution(factor * float(scale))) > dkw_bound(N)


@pytest.mark.parametrize(("group", "value"), [(0, 0.5), (2, -1.0)])
def test_reports_have_the_distribution_that_is_audited(group: int, value: float) -> None:
    mechanism = MechanismR.private(3, Fraction(2))
    reports = mechanism.perturb(np.full(N, group), np.full(N, value))
    distribution = {
        4 * said + told: float(p)
        for (said, told), p in distribution_of_r(mechanism, group, Fraction(value)).items()
    }
    assert distance((4 * reports.groups + reports.values).tolist(), distribution) < dkw_bound(N)
    other = MechanismR.with_budgets(3, Fraction(2), Fraction(2))
    distribution = {
        4 * said + told: float(p)
        for (said, told), p in distribution_of_r(other, group, Fraction(value)).items()
    }
    assert distance((4 * reports.groups + reports.values).tolist(), distribution) > dkw_bound(N)


def test_reports_of_m_l() -> None:
    mechanism = MechanismL.private(2, Fraction(4), steps=3)
    reports = mechanism.perturb(np.full(N, 1), np.full(N, 0.5))
    noise, keep = laplace_distribution(float(mechanism.scale)), float(mechanism.grr.keep)
    distribution: dict[int, float] = {}
    for (x, p), (rounded, half) in product(noise.items(), [(1, 0.5), (2, 0.5)]):
        distribution[1000 + rounded + x] = distribution.get(1000 + rounded + x, 0) + keep * p * half
    for x, p in noise.items():
        distribution[x] = distribution.get(x, 0) + (1 - keep) * p
    assert distance((1000 * reports.groups + reports.values).tolist(), distribution) < dkw_bound(N)


def drawn(mechanism: Mechanism, runs: int) -> list[ReportTally]:
    reports = mechanism.perturb(np.tile(GROUPS, runs), np.tile(VALUES, runs))
    return [
        tally(Reports(groups, values), mechanism)
        for groups, values in zip(np.split(reports.groups, runs), np.split(reports.values, runs), strict=True)
    ]


def held(
    tallies: Sequence[ReportTally], claimed: Mechanism, sizes: list[int] | None
) -> tuple[list[float], bool]:
    """Return the share of runs in which each mean and each gap is in its interval; whether any says much."""
    good, says = np.zeros(6), False
    for tallied in tallies:
        means = estimate_means(tallied, claimed, sizes)
        gaps = estimate_gaps(tallied, claimed, sizes)
        truths = [*MEANS, *(MEANS[gap.groups[0]] - MEANS[gap.groups[1]] for gap in gaps)]
        for i, (estimate, truth) in enumerate(zip([*means, *gaps], truths, strict=True)):
            good[i] += estimate.low <= truth <= estimate.high
            says |= estimate.says_something
    return (good / len(tallies)).tolist(), says


@kinds
def test_intervals_hold_as_often_as_they_say(kind: type[MechanismR | MechanismL]) -> None:
    mechanism = kind.private(3, Fraction(4))
    tallies = drawn(mechanism, RUNS)
    for sizes in (SIZES, None):
        shares, says = held(tallies, mechanism, sizes)
        assert min(shares) >= accepted(RUNS) and says


@kinds
def test_intervals_for_less_noise_are_noticed(kind: type[MechanismR | MechanismL]) -> None:
    private, claimed = kind.private(3, ONE), kind.private(3, Fraction(4))
    shares, _ = held(drawn(private, 60), claimed, SIZES)
    assert min(shares) < 0.7
