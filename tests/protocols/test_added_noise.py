"""Errors of whichever noise, one by one and added up, against exact distributions: never below, and near."""

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.noise import added, truncated
from fairshares.protocols.noise.added import (
    DistributedNoise,
    NoiseDistribution,
    noise_sum,
)
from tests.support.distribution import singles

LAPLACE, GAUSSIAN = NoiseDistribution
COINS = design_coins(Fraction(1, 2), 40)
FINE = design_coins(Fraction(1, 100), 40)  # 12 coins, more than the grid's bits
SMALL = DistributedNoise(LAPLACE, Fraction(1, 2), 60, 2, 1)
LARGE = DistributedNoise(GAUSSIAN, Fraction(1, 2 * 400**2), 2500, 3, 2)
SEVERAL = added.Several((COINS, design_coins(Fraction(1), 40), COINS, SMALL))
FAILURES = [0.3, 0.025, 0.001, 1e-6]


def distribution(noise: added.Noise) -> tuple[Floats, Floats]:
    """Return the errors that a noise makes, in order, and the mass of each."""
    parts = [
        [mass / (1 << 128 * one.parties) for mass in one.summed(one.parties)]
        if isinstance(one, DistributedNoise)
        else [float(mass) for mass in truncated.probability_mass(one).values()]
        for one in singles(noise)
    ]
    masses: Floats = reduce(np.convolve, map(np.array, parts))
    values = np.arange(added.smallest(noise), added.largest(noise) + 1, dtype=np.float64)
    assert values.size == masses.size
    return values + added.offset(noise), masses


@pytest.mark.parametrize("noise", [SMALL, COINS, SEVERAL])
def test_errors(noise: added.Noise) -> None:
    errors, masses = distribution(noise)
    assert abs(masses @ errors) < 1e-9 and masses.sum() == pytest.approx(1)
    assert masses @ errors**2 == pytest.approx(float(added.mean_square_error(noise)))
    beyond = float(added.error_bound(noise, Fraction(1, 20)))
    assert masses[abs(errors) > beyond].sum() <= 1 / 20 < masses[abs(errors) > beyond - 3].sum()


@pytest.mark.parametrize(
    ("noise", "factor"),
    [(FINE, 0), *((noise, factor) for noise in (SMALL, COINS, SEVERAL) for factor in (0, 1))],
)
def test_sums_of_two(noise: added.Noise, factor: int) -> None:
    """Nothing is rounded where the grid tells all values apart. Args: factor: of the second."""
    errors, masses = distribution(noise)
    sums = np.add.outer(errors, factor * errors if factor else [0.0]).ravel()
    both = np.multiply.outer(masses, masses if factor else [1.0]).ravel()
    total = noise_sum(noise, 1 + factor)
    for failure in FAILURES:
        t = total.quantile(failure)
        least = both[sums > t].sum()
        assert least <= failure * (1 + 1e-9) < both[sums > t - 3 * max(total.slack, 1)].sum()
        assert total.slack <= np.ptp(sums) / 500
    assert noise_sum(COINS, 2).slack == 0


def test_sums_of_large_errors() -> None:
    errors, masses = distribution(LARGE)
    exact = np.bincount(np.arange(masses.size), masses)
    beyond = np.concatenate([np.cumsum(np.convolve(exact, exact)[::-1])[::-1][1:], [0.0]])
    for failure in (0.2, 0.01, 1e-6):
        least = int(np.argmax(beyond <= failure)) + 2 * int(errors[0])
        quantile = noise_sum(LARGE, 2).quantile(failure)
        assert least <= quantile <= least + 2 * (2 * LARGE.largest / 2048 + 1)
