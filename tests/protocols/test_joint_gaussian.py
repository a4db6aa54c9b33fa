"""Joint Gaussian noise: what its circuit computes of fair bits, and that its table is what comes out."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from fairshares.protocols.circuits.gaussian import JointGaussian, gaussian, refinements
from tests.support.running import gaussian_of

COARSE = [(Fraction(1, 2), 3, 1), (Fraction(1, 32), 11, 3), (Fraction(3, 77), 20, 10)]


def as_integers(bits: np.ndarray) -> np.ndarray:
    return bits.astype(np.int64)


@pytest.mark.parametrize(("rate", "steps", "levels"), COARSE)
def test_the_circuit_does_what_it_says(rate: Fraction, steps: int, levels: int) -> None:
    noise = JointGaussian(rate, steps, levels)
    fair = np.random.default_rng(1).random((noise.bits, 4000)) < 0.5
    made = gaussian(noise, [*fair], as_integers)
    assert made.tolist() == gaussian_of(noise, fair)
    assert np.abs(made).max() <= noise.largest


def test_the_coarse_sample_has_its_distribution() -> None:
    """All words and signs: exactly as often as the table of an unrefined sample says."""
    noise = JointGaussian(Fraction(1, 2), 1, 1)
    (coin,) = noise.coins
    word = coin.bits
    numbers = np.arange(1 << word + 1)
    fair = [numbers >> i & 1 == 1 for i in range(word + 1)]
    zeros = [np.zeros(numbers.size, dtype=bool)] * sum(refinements(1))
    made = Counter(gaussian(noise, [*fair, *zeros], as_integers).tolist())
    above = coin.numerator
    least = -2 * 2 + 1 - sum(refinements(1)) // 2  # twice T = -2, less the mean
    assert made == {
        least: above, least + 2: (1 << word) - above, least + 4: (1 << word) - above, least + 6: above
    }  # fmt: skip


@pytest.mark.parametrize(("rate", "steps", "levels"), COARSE[:2])
def test_the_table_is_the_distribution_of_its_parts(rate: Fraction, steps: int, levels: int) -> None:
    noise = JointGaussian(rate, steps, levels)
    chances = [1.0, *(float(coin.probability) for coin in noise.coins), 0.0]
    half = -np.diff(chances) / 2
    law = np.zeros(((2 * steps + 1) << levels) + 1)
    law[:: 1 << levels] = [*half[::-1], *half]
    for i, bits in enumerate(refinements(levels), 1):
        weights = np.zeros((bits << levels - i) + 1)
        weights[:: 1 << levels - i] = [math.comb(bits, k) / 2**bits for k in range(bits + 1)]
        law = np.convolve(law, weights)
    table = np.array([float(Fraction(mass, 1 << noise.bits)) for mass in noise.weights])
    assert sum(noise.weights) == 1 << noise.bits and table.size == law.size == 2 * noise.largest + 1
    np.testing.assert_allclose(table, law, rtol=1e-9, atol=1e-300)


def test_probabilities_of_the_coarse_sample_are_near_gaussian() -> None:
    coins = JointGaussian(Fraction(1, 32), 28, 1).coins
    masses = [math.exp(-((k + 0.5) ** 2) / 32) for k in range(29)]
    for k, coin in enumerate(coins, 1):
        ideal = math.fsum(masses[k:]) / math.fsum(masses)
        assert 0 <= 1 - float(coin.probability) / ideal < 2**-13
        assert coin.numerator.bit_length() <= 15
