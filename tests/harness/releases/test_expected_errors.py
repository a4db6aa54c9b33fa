"""Expected errors, against simulated noise and against the recorded utility of released curves."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.releases import base as errors
from fairshares.harness.reweighing.formulas import REWEIGHINGS, weighting_of
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.noise.added import simulated_noise
from fairshares.protocols.noise.truncated import mean_square_error

Floats = npt.NDArray[np.float64]

COINS = design_coins(Fraction(1), 40)
NOISE = math.sqrt(mean_square_error(COINS))
DRAWS = 20_000
# The root mean square over 20,000 draws has a standard error of 0.5 % if errors are Gaussian, and 0.8 % for
# Laplace's kurtosis of 6; 5 % is more than 6 of them, and the first order itself is off by less than 1 %.
WITHIN = 0.05
COUNTS = np.array([[400.0, 300.0], [250.0, 600.0], [900.0, 200.0]])


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
def test_weights_are_as_far_off_as_simulated(reweighing: str) -> None:
    weighting = weighting_of(reweighing)
    noise = simulated_noise(COINS, np.random.default_rng(1), (DRAWS, *COUNTS.shape))
    relative = weighting.of_counts(COUNTS + noise) / weighting.of_counts(COUNTS) - 1
    simulated = np.sqrt((relative**2).mean(axis=0))
    predicted = NOISE * weighting.relative_errors(COUNTS)
    assert predicted == pytest.approx(simulated, rel=WITHIN)
    assert not np.allclose(1.2 * predicted, simulated, rtol=WITHIN)


def test_a_balanced_weight_of_even_counts_is_off_by_hand() -> None:
    # N = 4 C: ln W = ln N - ln C changes by 1/N - 1/C for its own count, by 1/N for the three others.
    counts = np.full((2, 2), 100.0)
    expected = math.sqrt((1 / 400 - 1 / 100) ** 2 + 3 / 400**2)
    assert weighting_of("balanced").relative_errors(counts) == pytest.approx(np.full((2, 2), expected))


def test_rates_of_predictions_are_as_far_off_as_simulated() -> None:
    rows = np.full((2, 3, 3), 200.0)  # groups, labels, predictions
    noisy = rows + simulated_noise(COINS, np.random.default_rng(2), (DRAWS, *rows.shape))
    simulated = np.sqrt(((noisy / noisy.sum(axis=-1, keepdims=True) - 1 / 3) ** 2).mean(axis=(0, -1)))
    assert NOISE * errors.rate_errors(rows.sum(axis=-1), 3) == pytest.approx(simulated, rel=WITHIN)


def test_means_are_no_further_off_than_simulated_at_the_ends_of_the_range() -> None:
    sizes, steps = np.array([[500.0]]), 10
    noise = simulated_noise(COINS, np.random.default_rng(3), (DRAWS, 2))
    for value, most in ((steps, 1.0), (0, math.sqrt(1 / 2))):
        mean = (500 * value + noise[:, 0]) / (500 * steps + noise[:, 1])
        simulated = math.sqrt((((mean - value / steps) / 2) ** 2).mean())  # the range is 2 wide
        predicted = NOISE * errors.mean_errors(sizes, steps)[0, 0]
        assert simulated == pytest.approx(most * predicted, rel=WITHIN)
