"""How much Gaussian noise a number of rounds takes at (epsilon, delta), for Flower's own wrappers."""

import math

from scipy.stats import norm


def delta_of(multiplier: float, epsilon: float) -> float:
    """Return the exact delta of one Gaussian release, whose noise has the multiplier times its sensitivity.

    Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018), theorem 8.
    """
    half = 1 / (2 * multiplier)
    shift = epsilon * multiplier
    return float(norm.cdf(half - shift) - math.exp(epsilon) * norm.cdf(-half - shift))


def multiplier_for(epsilon: float, delta: float, rounds: int) -> float:
    """Return the least noise multiplier of each round; all rounds are as one with a multiplier / √rounds."""
    low, high = 0.01, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        if delta_of(middle, epsilon) > delta:
            low = middle
        else:
            high = middle
    return high * math.sqrt(rounds)
