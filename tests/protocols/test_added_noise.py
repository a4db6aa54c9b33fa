"""Errors of whichever noise: distributed noise's by enumeration, joint noise's as ever."""

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from protocols.arrays import Floats
from protocols.circuits.coins import design_coins
from protocols.noise import added, truncated
from protocols.noise.added import DistributedNoise, NoiseDistribution

LAPLACE, GAUSSIAN = NoiseDistribution
COINS = design_coins(Fraction(1, 2), 40)
SMALL = DistributedNoise(LAPLACE, Fraction(1, 2), 60, 2, 1)
LARGE = DistributedNoise(GAUSSIAN, Fraction(1, 2 * 400**2), 2500, 3, 2)
SEVERAL = added.Several((COINS, design_coins(Fraction(1), 40), COINS, SMALL))


def distribution(noise: added.Noise) -> tuple[int, Floats]:
    """Return the least value of a noise, and the mass of each value from there on."""
    if isinstance(noise, DistributedNoise):
        return -noise.largest, np.array(
            [mass / (1 << 128 * noise.parties) for mass in noise.summed(noise.parties)]
        )
    assert not isinstance(noise, added.Several)
    return -(1 << len(noise)), np.array([float(mass) for mass in truncated.probability_mass(noise).values()])


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("noise", [SMALL, COINS, SEVERAL])
@pytest.mark.parametrize("terms", [1, 2])
def test_errors(terms: int, noise: added.Noise, positive: bool) -> None:
    """Of values, and of several that are added up, against the exact distribution, value by value."""
    distributions = [
        distribution(each) for each in (noise.each if isinstance(noise, added.Several) else (noise,))
    ]
    start = sum(first for first, _ in distributions)
    masses = reduce(np.convolve, [mass for _, mass in distributions])
    assert (added.smallest(noise), added.largest(noise)) == (start, start + len(masses) - 1)
    errors = start + np.arange(len(masses)) + added.offset(noise)
    assert abs(masses @ errors) < 1e-9
    assert masses @ errors**2 == pytest.approx(float(added.mean_square_error(noise)))
    if terms == 1 and not positive:
        beyond = float(added.error_bound(noise, Fraction(1, 20)))
        assert masses[abs(errors) > beyond].sum() <= 1 / 20 < masses[abs(errors) > beyond - 3].sum()
    off = np.maximum(errors, 0) if positive else errors
    pairs = np.add.outer(off, off if terms == 2 else [0]).ravel()
    both = np.multiply.outer(masses, masses if terms == 2 else [1]).ravel()
    order = np.argsort(-pairs)
    for failure in (0.2, 0.01, 1e-6):
        least = pairs[order][np.searchsorted(np.cumsum(both[order]), failure)]
        assert least <= added.noise_sum(noise, terms, positive).quantile(failure) <= least + 3


@pytest.mark.parametrize("positive", [False, True])
def test_sums_of_large_errors(positive: bool) -> None:
    """Quantiles of a sum of two are never below those of the exact distribution, and near them."""
    start, masses = distribution(LARGE)
    exact = np.bincount(np.maximum(np.arange(masses.size), -start * positive), masses)
    both = np.convolve(exact, exact)
    beyond = np.concatenate([np.cumsum(both[::-1])[::-1][1:], [0.0]])
    for failure in (0.2, 0.01, 1e-6):
        least = int(np.argmax(beyond <= failure)) + 2 * start
        found = added.noise_sum(LARGE, 2, positive).quantile(failure)
        assert least <= found <= least + 2 * (2 * LARGE.largest / 2048 + 1)


@pytest.mark.parametrize("noise", [SMALL, COINS, SEVERAL])
def test_simulated_noise(noise: added.Noise) -> None:
    """The mean square of 10^5, whose standard error is at most 1%, within six of these."""
    drawn = added.simulated_noise(noise, np.random.default_rng(1), (100, 1000))
    assert drawn.shape == (100, 1000)
    assert abs((drawn**2).mean() / float(added.mean_square_error(noise)) - 1) < 0.06
