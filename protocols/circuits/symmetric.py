"""The symmetric discrete Laplace as a circuit, with its coins and their exact privacy check.

Source: the two-sided geometric mechanism (Ghosh, Roughgarden and Sundararajan 2009), truncated; bits of the
magnitude as in `circuits.noise`. Runs inside MP-SPDZ's compiler, so it imports the standard library only.

    precondition   the fair bits are independent and uniform
    sample         z <- flip(zero), G <- sum of 2^i flip(coin_i), s <- a fair bit
                   X = 0 if z, else G + 1 if s = 0, else -(G + 1)
    postcondition  P(0) = z; P(x) = (1 - z)/2 P(G = |x| - 1) for 1 <= |x| <= 2^k

Proof of privacy, for counts that differ by 1. P(x+1)/P(x) for x >= 1 is P(G = n+1)/P(G = n), which the odds
of the coins bound as they do for the default noise. Around 0 it is r = (1 - z) P(G = 0)/(2z), or 1/r. The
supports differ in one atom on either side, of mass (1 - z)/2 P(G = 2^k - 1) = delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from protocols.circuits.coins import (
    Coin,
    design_coins,
    edge_mass as default_edge_mass,
    exp_bounds,
    worst_ratio as default_worst_ratio,
)
from protocols.circuits.noise import flip, to_integer, xor_of_inputs

_MOST_FLIPS = 160  # fair bits of the coin for zero
_ZERO_OVERHEAD = Fraction(102, 100)  # of the mass outside zero, relative to the least that is private


@dataclass(frozen=True)
class SymmetricCoins:
    """What one sample takes. zero: shows 1 where the sample is 0; magnitude: the bits of G, lowest first."""

    zero: Coin
    magnitude: tuple[Coin, ...]


def zero_ratio(coins: SymmetricCoins) -> Fraction:
    """Return P(1)/P(0) = P(-1)/P(0), exactly."""
    return _mass_of_no_one(coins.magnitude) / (2 * coins.zero.odds)


def worst_ratio(coins: SymmetricCoins) -> Fraction:
    """Return e^(realised epsilon) for sensitivity 1, exactly: over all neighbouring atoms, both ways.

    [test: tests/protocols/test_symmetric.py]
    """
    ratio = zero_ratio(coins)
    return max(default_worst_ratio(coins.magnitude), ratio, 1 / ratio)


def edge_mass(coins: SymmetricCoins) -> Fraction:
    """Return the mass of the outermost atom on one side: delta for sensitivity 1, exactly."""
    return (1 - coins.zero.probability) * default_edge_mass(coins.magnitude)


def check(coins: SymmetricCoins, epsilon: Fraction, delta_bits: int) -> None:
    """Assert that the coins' sampler is (epsilon, 2^-delta_bits)-DP for sensitivity 1.

    Raises: ValueError: it is not, or the enclosure of e^epsilon is too coarse to say.
    """
    if not coins.magnitude or worst_ratio(coins) > exp_bounds(epsilon)[0]:
        raise ValueError(f"the coins exceed epsilon = {epsilon}")
    if edge_mass(coins) > Fraction(1, 1 << delta_bits):
        raise ValueError(f"the coins exceed delta = 2^-{delta_bits}")


def design_symmetric_coins(epsilon: Fraction, delta_bits: int) -> SymmetricCoins:
    """Find coins that are private: the default noise's for G, and the shortest good one for zero.

    Computes: zero may have odds from e^-epsilon to e^epsilon times P(G = 0)/2; of these coins, the one
    with the fewest fair bits that leaves at most 1.02 times the least mass outside zero.
    Guarantees: the result passes `check`; its mean square error is at most 1.05 times that of the
    untruncated discrete Laplace at the same epsilon.  [test: tests/protocols/test_symmetric.py]
    Args, Raises: as `design_coins`.
    """
    magnitude = design_coins(epsilon, delta_bits)
    ratio, half = exp_bounds(epsilon)[0], _mass_of_no_one(magnitude) / 2
    least, most = (odds / (1 + odds) for odds in (half / ratio, half * ratio))
    least = max(least, 1 - _ZERO_OVERHEAD * (1 - most))
    for bits in range(1, _MOST_FLIPS + 1):
        numerator = (most.numerator << bits) // most.denominator
        if numerator % 2 and Fraction(numerator, 1 << bits) >= least:
            coins = SymmetricCoins(Coin(numerator, bits), magnitude)
            check(coins, epsilon, delta_bits)
            return coins
    raise ValueError(f"no coin of at most {_MOST_FLIPS} fair bits for zero at epsilon = {float(epsilon):g}")


def fair_bits_per_symmetric_sample(coins: SymmetricCoins) -> int:
    """Return how many fair bits one sample takes: the sign, zero's and the magnitude's."""
    return 1 + coins.zero.bits + sum(coin.bits for coin in coins.magnitude)


def symmetric_noise(secret_integer, bit_vector, parties: int, lanes: int, epsilon: str, delta_bits: str):
    """Make samples as `noise.default_noise` does, of the symmetric law; arguments and guarantees as there."""
    coins = design_symmetric_coins(Fraction(epsilon), int(delta_bits))
    fair = xor_of_inputs(bit_vector, parties, lanes, fair_bits_per_symmetric_sample(coins))
    return symmetric_integer(symmetric_geometric(coins, fair), secret_integer)


def symmetric_geometric(coins: SymmetricCoins, fair) -> list:
    """Map fair bits to the bits of one sample per lane, in the form that `symmetric_integer` reads.

    Computes: H = G or, where z, 0; T = H if s = 0, -1-H if s = 1, by complement; X = T + c, c one bit:
    not z where s = 0, z where s = 1. One AND per bit of G beyond the flips.
    Guarantees: the law above.  [test: tests/protocols/test_symmetric.py, by full enumeration]
    Args: fair: `fair_bits_per_symmetric_sample(coins)` bits: the sign, zero's, the magnitude's.
    Returns: T's len(magnitude) + 1 two's complement bits, lowest first, and c.
    """
    sign, used = fair[0], 1 + coins.zero.bits
    nonzero = ~flip(coins.zero, fair[1:used])
    bits = []
    for coin in coins.magnitude:
        bits.append((flip(coin, fair[used : used + coin.bits]) & nonzero) ^ sign)
        used += coin.bits
    assert used == len(fair)
    return [*bits, sign, nonzero ^ sign]


def symmetric_integer(bits, secret_integer):
    """Convert the bits of `symmetric_geometric` to one secret integer per lane."""
    return to_integer(bits[:-1], secret_integer) + secret_integer(bits[-1])


def _mass_of_no_one(coins: tuple[Coin, ...]) -> Fraction:
    """Return P(G = 0)."""
    return prod((1 - coin.probability for coin in coins), start=Fraction(1))
