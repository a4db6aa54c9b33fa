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


def test_joint_noise_is_as_it_was() -> None:
    assert added.mean_square_error(COINS) == truncated.mean_square_error(COINS)
    assert added.error_bound(COINS, Fraction(1, 20)) == truncated.error_bound(COINS, Fraction(1, 20))
    assert (added.smallest(COINS), added.largest(COINS)) == (-(1 << len(COINS)), (1 << len(COINS)) - 1)
    assert added.offset(COINS) == 0.5


def test_distributed_noise_is_right_on_average_as_it_is() -> None:
    assert added.offset(SMALL) == 0 and added.largest(SMALL) == -added.smallest(SMALL) == 120
    assert added.mean_square_error(SMALL) == SMALL.mean_square_error
    assert added.error_bound(SMALL, Fraction(1, 20)) == SMALL.error_bound(Fraction(1, 20))


@pytest.mark.parametrize("own", [SMALL, LARGE])
@pytest.mark.parametrize("positive", [False, True])
def test_sums_of_errors(own: DistributedNoise, positive: bool) -> None:
    """Quantiles of a sum of two are never below those of the exact distribution, and near them."""
    exact = np.array([mass / (1 << 128 * own.parties) for mass in own.summed(own.parties)])
    if positive:
        exact = np.concatenate(
            [np.zeros(own.largest), [exact[: own.largest + 1].sum()], exact[own.largest + 1 :]]
        )
    both = np.convolve(exact, exact)
    beyond = np.concatenate([np.cumsum(both[::-1])[::-1][1:], [0.0]])
    for failure in (0.2, 0.01, 1e-6):
        least = int(np.argmax(beyond <= failure)) - 2 * own.largest
        found = added.noise_sum(own, 2, positive).quantile(failure)
        assert least <= found <= least + 2 * (2 * own.largest / 2048 + 1)


def distribution(noise: added.Noise) -> tuple[int, Floats]:
    """Return the least value of a noise, and the mass of each value from there on."""
    if isinstance(noise, DistributedNoise):
        return -noise.largest, np.array(
            [mass / (1 << 128 * noise.parties) for mass in noise.summed(noise.parties)]
        )
    assert not isinstance(noise, added.Several)
    return -(1 << len(noise)), np.array([float(mass) for mass in truncated.probability_mass(noise).values()])


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("terms", [1, 2])
def test_errors_of_several_values_that_are_added_up(terms: int, positive: bool) -> None:
    """Against the exact distribution, value by value."""
    distributions = [distribution(each) for each in SEVERAL.each]
    start, masses = (
        sum(first for first, _ in distributions),
        reduce(np.convolve, [mass for _, mass in distributions]),
    )
    assert (added.smallest(SEVERAL), added.largest(SEVERAL)) == (start, start + len(masses) - 1)
    errors = start + np.arange(len(masses)) + added.offset(SEVERAL)
    assert abs(masses @ errors) < 1e-9
    assert masses @ errors**2 == pytest.approx(float(added.mean_square_error(SEVERAL)))
    if positive:
        errors, masses = (
            np.append(0, errors[errors > 0]),
            np.append(masses[errors <= 0].sum(), masses[errors > 0]),
        )
    pairs = np.add.outer(errors, errors if terms == 2 else [0]).ravel()
    both = np.multiply.outer(masses, masses if terms == 2 else [1]).ravel()
    order = np.argsort(-pairs)
    for failure in (0.2, 0.01, 1e-6):
        least = pairs[order][np.searchsorted(np.cumsum(both[order]), failure)]
        assert least <= added.noise_sum(SEVERAL, terms, positive).quantile(failure) <= least + 3
    if terms == 1 and not positive:
        beyond = float(added.error_bound(SEVERAL, Fraction(1, 20)))
        assert masses[abs(errors) > beyond].sum() <= 1 / 20 < masses[abs(errors) > beyond - 3].sum()


@pytest.mark.parametrize("noise", [SMALL, COINS, SEVERAL])
def test_simulated_noise(noise: added.Noise) -> None:
    """The mean square of 10^5, whose standard error is at most 1%, within six of these."""
    drawn = added.simulated_noise(noise, np.random.default_rng(1), (100, 1000))
    assert drawn.shape == (100, 1000)
    assert abs((drawn**2).mean() / float(added.mean_square_error(noise)) - 1) < 0.06
