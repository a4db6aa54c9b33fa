"""Compares samples with an exact distribution; false-alarm rates hold for every n and distribution."""

from collections.abc import Sequence
from fractions import Fraction
from math import log, sqrt

import numpy as np

from fairshares.protocols.circuits.coins import NoiseFamily, design_noise
from fairshares.protocols.noise.added import Noise, Several, Single
from fairshares.protocols.noise.truncated import probability_mass

FALSE_ALARM = 1e-9  # of each bound below
DELTA_BITS = 40


Distribution = dict[int, float]  # probability of every value


def noise_distribution(epsilon: Fraction, family: NoiseFamily | None = None) -> Distribution:
    """Return the probability of every value of joint noise at this epsilon."""
    return {x: float(p) for x, p in probability_mass(design_noise(epsilon, DELTA_BITS, family)).items()}


def singles(noise: Noise) -> tuple[Single, ...]:
    """Return the independent noises of a sum."""
    if isinstance(noise, Several):
        return noise.each
    return (noise,)


def dkw_bound(n: int) -> float:
    """Return t with P(sup |F_n - F| > t) <= 1e-9 (Dvoretzky, Kiefer, Wolfowitz; Massart's constant)."""
    return sqrt(log(2 / FALSE_ALARM) / (2 * n))


def hoeffding_bound(n: int, bounds: int = 1) -> float:
    """Return t with P(|mean - p| > t) <= 1e-9 for n independent values in [0, 1]; for all of `bounds`."""
    return sqrt(log(2 * bounds / FALSE_ALARM) / (2 * n))


def accepted(n: int, confidence: float = 0.95) -> float:
    """Return a share x: of n intervals that hold at this confidence, fewer than x n do with probability 1e-9.

    By Chernoff, n KL(x, confidence) = ln 10^9.
    """
    low, high = 0.5, confidence
    for _ in range(60):
        x = (low + high) / 2
        divergence = x * log(x / confidence) + (1 - x) * log((1 - x) / (1 - confidence))
        low, high = (x, high) if n * divergence > log(1 / FALSE_ALARM) else (low, x)
    return low


def distance(samples: Sequence[int], distribution: Distribution) -> float:
    """Return sup |F_n - F| over all integers."""
    drawn = np.sort(samples)
    points = np.union1d(drawn, list(distribution))
    empirical = np.searchsorted(drawn, points, side="right") / len(drawn)
    return float(np.abs(empirical - _cdf(distribution, points)).max())


def distance_between(one: Distribution, other: Distribution) -> float:
    """Return sup |F - G| over all integers."""
    points = np.union1d(list(one), list(other))
    return float(np.abs(_cdf(one, points) - _cdf(other, points)).max())


def _cdf(distribution: Distribution, points: np.ndarray) -> np.ndarray:
    support = np.array(sorted(distribution))
    below = np.concatenate([[0.0], np.cumsum([distribution[int(x)] for x in support])])
    return below[np.searchsorted(support, points, side="right")]
