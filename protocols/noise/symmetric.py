"""What the symmetric discrete Laplace noise is, exactly: its distribution, its privacy, its error."""

from __future__ import annotations

from fractions import Fraction

from protocols.circuits.symmetric import SymmetricCoins, edge_mass, worst_ratio
from protocols.noise.truncated import (
    Guarantee,
    log_upper_bound,
    magnitude_below,
    magnitude_moments,
    probability_mass as default_probability_mass,
)


def guarantee(coins: SymmetricCoins) -> Guarantee:
    """Return what one count is protected by, exactly, for sensitivity 1."""
    return Guarantee(log_upper_bound(worst_ratio(coins)), edge_mass(coins))


def probability_mass(coins: SymmetricCoins) -> dict[int, Fraction]:
    """Return the mass of every atom, exactly. Raises: ValueError: more than 12 coins of the magnitude."""
    outside = 1 - coins.zero.probability
    one_side = {n: mass for n, mass in default_probability_mass(coins.magnitude).items() if n >= 0}
    masses = {0: coins.zero.probability}
    masses |= {n + 1: outside * mass for n, mass in one_side.items()}
    masses |= {-1 - n: outside * mass for n, mass in one_side.items()}
    return dict(sorted(masses.items()))


def cumulative(coins: SymmetricCoins, x: int) -> Fraction:
    """Return P(X <= x), exactly, for any number of coins."""
    half = (1 - coins.zero.probability) / 2
    if x < 0:
        return half * (1 - magnitude_below(coins.magnitude, -1 - x))
    return 1 - half * (1 - magnitude_below(coins.magnitude, x))


def mean_square_error(coins: SymmetricCoins) -> Fraction:
    """Return E[X^2]; the mean is 0."""
    mean, square = magnitude_moments(coins.magnitude)
    return (1 - coins.zero.probability) * (square + 2 * mean + 1)


def largest_noise(coins: SymmetricCoins) -> int:
    """Return the largest value; the smallest is its negative."""
    return 1 << len(coins.magnitude)
