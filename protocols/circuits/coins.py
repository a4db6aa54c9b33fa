"""Coins for joint noise: dyadic, cheap, checked in exact rationals.

Floats only rank candidates, by + - * /, so that every Python derives the same coins.

A magnitude G has k bits, each of them a coin. There are two families of noise X:

- *signed*: X is G or -1 - G, equally likely; its mean is -1/2.
- *symmetric*: X is 0 unless a further coin shows 1, and then 1 + G or -1 - G, equally likely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Tuple, Union

MIN_EPSILON = Fraction(1, 10**7)
MAX_EPSILON = Fraction(20)
MAX_COINS = 30
MIN_DELTA_BITS, MAX_DELTA_BITS = 20, 128

_GRID_BITS = 256  # dyadic grid for e^x, far finer than any coin
_MAX_FLIPS = 160  # fair bits of one coin
_FRONTIER = 24  # partial designs per level of the search
_CANDIDATES = 16  # ways to make one coin in the search
_NEVER = 1e-40  # odds too small to change an error, whose weights are 2^60 at most
_NOISE_OVERHEAD = 1.02  # allowed mean square error of signed noise, relative to the ideal sampler's
_SYMMETRIC_OVERHEAD = 1.1  # allowed mean square error of symmetric noise, relative to discrete Laplace noise
MOST_SIGNED = Fraction(115, 100)  # the largest epsilon for which signed noise is chosen


@dataclass(frozen=True)
class Coin:
    """A coin that shows 1 with probability `numerator / 2**bits`.

    Attributes:
        numerator: An odd number above 0 and below 2^bits.
        bits: How many fair bits a toss takes, at least 1.
    Raises:
        ValueError: A number is out of range.
    """

    numerator: int
    bits: int

    def __post_init__(self) -> None:
        if not 0 < self.numerator < 1 << self.bits or self.numerator % 2 == 0:
            raise ValueError(
                f"coin {self.numerator}/2^{self.bits} is not a probability in (0, 1) in lowest terms"
            )

    @property
    def probability(self) -> Fraction:
        """P(1), exactly."""
        return Fraction(self.numerator, 1 << self.bits)

    @property
    def odds(self) -> Fraction:
        """P(1) / P(0), exactly."""
        return Fraction(self.numerator, (1 << self.bits) - self.numerator)


@dataclass(frozen=True)
class SymmetricCoins:
    """The coins of symmetric noise.

    Attributes:
        magnitude: The coin of each bit of G, lowest first.
        nonzero: The coin that shows 1 if the noise is not 0.
    """

    magnitude: tuple[Coin, ...]
    nonzero: Coin


Coins = Union[Tuple[Coin, ...], SymmetricCoins]
"""The coins of joint noise; a tuple has those of signed noise, the coin of each bit of G, lowest first."""


class NoiseFamily(Enum):
    """The form of joint noise, which its coins make."""

    SIGNED = "signed"
    SYMMETRIC = "symmetric"


def family_for(epsilon: Fraction) -> NoiseFamily:
    """Return the family of a value with this epsilon.

    Signed noise takes fewer AND gates. Up to `MOST_SIGNED` its error (RMS) is at most 1.10 times that of
    discrete Laplace noise.  [test: tests/protocols/test_coins.py]

    Args:
        epsilon: The epsilon of a value that moves by 1.
    Returns:
        Signed noise up to `MOST_SIGNED`, else symmetric noise.
    """
    if epsilon <= MOST_SIGNED:
        return NoiseFamily.SIGNED
    return NoiseFamily.SYMMETRIC


def family_of(coins: Coins) -> NoiseFamily:
    """Return the family of the noise that these coins make.

    Args:
        coins: The coins.
    Returns:
        The family.
    """
    if isinstance(coins, SymmetricCoins):
        return NoiseFamily.SYMMETRIC
    return NoiseFamily.SIGNED


def coins_of_magnitude(coins: Coins) -> tuple[Coin, ...]:
    """Return the coin of each bit of the magnitude G, lowest first.

    Args:
        coins: The coins of joint noise.
    Returns:
        The coins, without the coin for zero.
    """
    if isinstance(coins, SymmetricCoins):
        return coins.magnitude
    return coins


def chance_of_sign(coins: Coins) -> Fraction:
    """Return the probability of either sign: P(X = 1 + G) of symmetric noise, P(X = G) of signed noise.

    Args:
        coins: The coins of joint noise.
    Returns:
        The probability, exactly; 1/2 for signed noise.
    """
    if isinstance(coins, SymmetricCoins):
        return coins.nonzero.probability / 2
    return Fraction(1, 2)


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose e^x between rationals.

    Args:
        x: The exponent, from 0 to 64.
    Returns:
        A lower and an upper bound, relatively less than 2^-100 apart.
    Raises:
        ValueError: The exponent is out of range.
    """
    if not 0 <= x <= 64:
        raise ValueError(f"exp_bounds takes 0 <= x <= 64, not {x}")
    one = 1 << _GRID_BITS
    low = high = low_term = high_term = one
    n = 0
    while n < 2 * x or high_term > 1:
        n += 1
        low_term = low_term * x.numerator // (x.denominator * n)
        high_term = -(-high_term * x.numerator // (x.denominator * n))
        low += low_term
        high += high_term
    return Fraction(low, one), Fraction(high + high_term, one)


def worst_ratio(coins: Coins) -> Fraction:
    """Return e^epsilon of the sampler for sensitivity 1, exactly: docs/explanation/noise.md, theorem 1.

    [test: tests/protocols/test_truncated_noise.py, tests/protocols/test_symmetric_noise.py]

    Args:
        coins: The coins of joint noise.
    Returns:
        The largest ratio of the probabilities of neighboring values.
    """
    worst = Fraction(1)
    below = Fraction(1)
    none_shown = Fraction(1)  # P(G = 0)
    for coin in coins_of_magnitude(coins):
        ratio = coin.odds / below
        worst = max(worst, ratio, 1 / ratio)
        below *= coin.odds
        none_shown *= 1 - coin.probability
    if isinstance(coins, SymmetricCoins):
        at_zero = (1 - coins.nonzero.probability) / (chance_of_sign(coins) * none_shown)
        worst = max(worst, at_zero, 1 / at_zero)
    return worst


def edge_mass(coins: Coins) -> Fraction:
    """Return the outermost atom's mass: the exact delta for sensitivity 1.

    Args:
        coins: The coins of joint noise.
    Returns:
        The mass.
    """
    return prod((coin.probability for coin in coins_of_magnitude(coins)), start=chance_of_sign(coins))


def check(coins: Coins, epsilon: Fraction, delta_bits: int) -> None:
    """Check that noise is surely (epsilon, 2^-delta_bits)-DP for sensitivity 1.

    Args:
        coins: The coins of the noise.
        epsilon: The epsilon, from 0 to 64.
        delta_bits: The bits of delta.
    Raises:
        ValueError: The coins exceed epsilon or delta.
    """
    if not coins_of_magnitude(coins) or worst_ratio(coins) > exp_bounds(epsilon)[0]:
        raise ValueError(f"the coins exceed epsilon = {epsilon}")
    if edge_mass(coins) > Fraction(1, 1 << delta_bits):
        raise ValueError(f"the coins exceed delta = 2^-{delta_bits}")


def _check_range(epsilon: Fraction, delta_bits: int) -> None:
    """Raise ValueError if a parameter of a design is out of range."""
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise ValueError(f"epsilon per unit must be between 10^-7 and 20, not {float(epsilon):g}")
    if not MIN_DELTA_BITS <= delta_bits <= MAX_DELTA_BITS:
        raise ValueError(f"delta must be between 2^-{MAX_DELTA_BITS} and 2^-{MIN_DELTA_BITS}")


def design_noise(epsilon: Fraction, delta_bits: int, family: NoiseFamily | None = None) -> Coins:
    """Find the coins of joint noise.

    Guarantees: as `design_coins` and `design_symmetric_coins`.

    Args:
        epsilon: The epsilon of a value that moves by 1, from 10^-7 to 20.
        delta_bits: The delta of such a value is at most 2^-delta_bits, from 20 to 128 bits.
        family: The family of the noise; None: the one for this epsilon.
    Returns:
        The coins.
    Raises:
        ValueError: A parameter is out of range, or 30 coins do not reach them.
    """
    if (family or family_for(epsilon)) is NoiseFamily.SIGNED:
        return design_coins(epsilon, delta_bits)
    return design_symmetric_coins(epsilon, delta_bits)


@lru_cache(maxsize=64)
def design_coins(epsilon: Fraction, delta_bits: int) -> tuple[Coin, ...]:
    """Find the coins of signed noise with the fewest AND gates that are private and accurate, at most 30.

    Source: truncated geometric bits (Dwork et al. 2006, "Our data, ourselves"); the ratios and the dyadic
    search are ours.
    Computes: a frontier search. Coin t must have odds >= e^-epsilon times the product of the odds below it.
    Guarantees: the result passes `check`; its mean square error is at most 1.02 times that of the ideal,
    untruncated sampler.
    [test: tests/protocols/test_coins.py]

    Args:
        epsilon: The epsilon per unit of sensitivity, from 10^-7 to 20.
        delta_bits: The delta per unit is at most 2^-delta_bits, from 20 to 128 bits.
    Returns:
        The coin of each bit of the magnitude, lowest first.
    Raises:
        ValueError: A parameter is out of range, or 30 coins do not reach them.
    """
    _check_range(epsilon, delta_bits)
    low, high = exp_bounds(epsilon)
    q_up, ratio_max = 1 / low, low
    q = float(1 / high)
    mse_max = _NOISE_OVERHEAD * (q * (1 + q) / ((1 - q) * (1 - q)) + q / (1 - q) + 0.25)

    states = [_NO_COINS]
    best: _Partial | None = None
    for _ in range(MAX_COINS):
        grown: list[_Partial] = []
        for state in states:
            for coin in _candidates(q_up * state.odds, ratio_max * state.odds):
                if best is not None and state.gates + coin.bits > best.gates:
                    break  # the others cost more
                if (more := state.then(coin)).error_if_ideal_above(q) <= mse_max:
                    grown.append(more)
        grown.sort(key=lambda s: (s.gates, s.odds))
        for state in grown:
            edge_bits = 1 + state.gates + len(state.coins)
            if state.edge << delta_bits <= 1 << edge_bits and (best is None or state.gates < best.gates):
                best = state
        states = _pareto([s for s in grown if best is None or s.gates < best.gates])
        if not states:
            break
    if best is None:
        raise ValueError(
            f"no coins with at most {MAX_COINS} bits reach epsilon = {float(epsilon):g} "
            f"at delta = 2^-{delta_bits}"
        )
    check(best.coins, epsilon, delta_bits)
    return best.coins


@dataclass(frozen=True)
class _Partial:
    """The lowest coins of a design, with sums and products over them.

    Attributes:
        coins: The coins.
        gates: The number of their AND gates.
        odds: The product of their odds.
        edge: The product of their numerators, of P(1).
        none: The product of the numerators of P(0).
        mean: The mean of their part of G.
        variance: The variance of their part of G.
        below: The product of their odds, as a float.
        none_chance: P(their part of G is 0).
    """

    coins: tuple[Coin, ...] = ()
    gates: int = 0
    odds: Fraction = Fraction(1)
    edge: int = 1
    none: int = 1
    mean: float = 0.0
    variance: float = 0.0
    below: float = 1.0
    none_chance: float = 1.0

    @property
    def flips(self) -> int:
        """The fair bits of all coins: `edge` and `none` are in units of 2^-this."""
        return self.gates + len(self.coins)

    def then(self, coin: Coin) -> _Partial:
        """Return the design with a further coin, for the next higher bit."""
        weight = float(1 << len(self.coins))
        odds = coin.numerator / ((1 << coin.bits) - coin.numerator)
        p = odds / (1 + odds)
        return _Partial(
            coins=(*self.coins, coin),
            gates=self.gates + coin.bits - 1,
            odds=self.odds * coin.odds,
            edge=self.edge * coin.numerator,
            none=self.none * ((1 << coin.bits) - coin.numerator),
            mean=self.mean + weight * p,
            variance=self.variance + weight * weight * p * (1 - p),
            below=self.below * odds,
            none_chance=self.none_chance * (1 - p),
        )

    def with_ideal_above(self, q: float) -> tuple[float, float, float]:
        """Return mean and variance of G, and P(G = 0), if all further coins are ideal for the ratio q."""
        mean = self.mean
        variance = self.variance
        below = self.below
        none = self.none_chance
        weight = float(1 << len(self.coins))
        for _ in range(len(self.coins), MAX_COINS + 1):
            odds = q * below
            if odds < _NEVER:
                break
            p = odds / (1 + odds)
            mean += weight * p
            variance += weight * weight * p * (1 - p)
            none *= 1 - p
            weight *= 2
            below *= odds
        return mean, variance, none

    def error_if_ideal_above(self, q: float) -> float:
        """Return E[(G + 1/2)^2] if all further coins are ideal."""
        mean, variance, _ = self.with_ideal_above(q)
        return variance + (mean + 0.5) * (mean + 0.5)

    def symmetric_error_if_ideal_above(self, q: float) -> float:
        """Return the mean square of symmetric noise if all further coins, and the coin of zero, are ideal."""
        mean, variance, none = self.with_ideal_above(q)
        nonzero = 2 / (2 + none / q)
        return nonzero * (variance + (mean + 1) * (mean + 1))


_NO_COINS = _Partial()


@lru_cache(maxsize=64)
def design_symmetric_coins(epsilon: Fraction, delta_bits: int) -> SymmetricCoins:
    """Find the coins of symmetric noise with few AND gates that are private and accurate, at most 30 of G.

    Computes: the search of `design_coins`. The coin of zero comes last, and has the least odds with which 0
    is at most e^epsilon times as likely as 1.
    Guarantees: the result passes `check`; its mean square error is at most 1.1 times that of discrete Laplace
    noise.
    [test: tests/protocols/test_symmetric_noise.py]

    Args:
        epsilon: The epsilon per unit of sensitivity, from 10^-7 to 20.
        delta_bits: The delta per unit is at most 2^-delta_bits, from 20 to 128 bits.
    Returns:
        The coins.
    Raises:
        ValueError: A parameter is out of range, or 30 coins do not reach them.
    """
    _check_range(epsilon, delta_bits)
    low, high = exp_bounds(epsilon)
    q = float(1 / high)
    mse_max = _SYMMETRIC_OVERHEAD * 2 * q / ((1 - q) * (1 - q))
    states = [_NO_COINS]
    best: SymmetricCoins | None = None
    fewest = 0
    for _ in range(MAX_COINS):
        grown: list[_Partial] = []
        for state in states:
            for coin in _few_candidates(state.odds / low, low * state.odds):
                more = state.then(coin)
                if best is not None and _masked_gates(more) >= fewest:
                    break  # the others cost more
                if more.symmetric_error_if_ideal_above(q) <= mse_max:
                    grown.append(more)
        grown.sort(key=lambda s: (s.gates, s.odds))
        for state in grown:
            nonzero = _coin_of_zero(state, low, delta_bits, mse_max)
            if nonzero is None:
                continue
            gates = _masked_gates(state) + nonzero.bits - 1
            if best is None or gates < fewest:
                best = SymmetricCoins(state.coins, nonzero)
                fewest = gates
        states = _pareto([s for s in grown if best is None or _masked_gates(s) < fewest])
        if not states:
            break
    if best is None:
        raise ValueError(
            f"no coins with at most {MAX_COINS} bits reach epsilon = {float(epsilon):g} "
            f"at delta = 2^-{delta_bits}"
        )
    check(best, epsilon, delta_bits)
    return best


def _masked_gates(state: _Partial) -> int:
    """Return the AND gates of the magnitude's coins, and of masking each bit where the noise is 0."""
    return state.gates + len(state.coins)


def _coin_of_zero(state: _Partial, ratio: Fraction, delta_bits: int, mse_max: float) -> Coin | None:
    """Return the shortest coin that shows 1 if noise with this magnitude is not 0; None if none fits.

    Args:
        state: The coins of the magnitude.
        ratio: The most by which probabilities of neighboring values differ.
        delta_bits: The outermost value's mass is at most 2^-this.
        mse_max: The largest mean square error.
    """
    none = Fraction(state.none, 1 << state.flips)
    p_min = 2 / (2 + ratio * none)
    p_max = 2 / (2 + none / ratio)
    square = state.variance + (state.mean + 1) * (state.mean + 1)
    if float(p_min) * square > mse_max or p_min * state.edge * (1 << delta_bits) > 2 << state.flips:
        return None
    for bits in range(1, _MAX_FLIPS + 1):
        numerator = -(-(p_min.numerator << bits) // p_min.denominator)
        if numerator % 2 == 0 or numerator >= 1 << bits:
            continue  # a shorter coin is the same, or it always shows 1
        coin = Coin(numerator, bits)
        edge = coin.probability * Fraction(state.edge, 2 << state.flips)
        is_accurate = float(coin.probability) * square <= mse_max
        if coin.probability <= p_max and is_accurate and edge <= Fraction(1, 1 << delta_bits):
            return coin
    return None


def _few_candidates(odds_min: Fraction, odds_max: Fraction) -> Iterator[Coin]:
    """Yield the coins with odds in this range that are closer to the least than all shorter ones.

    They end at the first that is within 1/1024 of the least, if it is the 16th or later.
    """
    p_min = odds_min / (1 + odds_min)
    for place, coin in enumerate(_candidates(odds_min, odds_max), 1):
        yield coin
        if place >= _CANDIDATES and 1024 * coin.probability < 1025 * p_min:
            break


def _candidates(odds_min: Fraction, odds_max: Fraction) -> Iterator[Coin]:
    """Yield the coins with odds in this range that are closer to the least than all shorter ones.

    They end at the 16th if it is within 1/1024 of the least, and else go on to 160 fair bits. Version 1.0
    designed signed noise with this list, and a chain that it began needs the same coins again.
    """
    p_min, p_max = odds_min / (1 + odds_min), odds_max / (1 + odds_max)
    many, closest = 0, Coin(1, 1)
    for bits in range(1, _MAX_FLIPS + 1):
        numerator = -(-(p_min.numerator << bits) // p_min.denominator)
        if many:
            closer = numerator < closest.numerator << bits - closest.bits
        else:
            closer = numerator * p_max.denominator <= p_max.numerator << bits
        if closer and numerator < 1 << bits:
            many, closest = many + 1, Coin(numerator, bits)
            yield closest
            if many == _CANDIDATES and 1024 * numerator * p_min.denominator < 1025 * p_min.numerator << bits:
                break


def _pareto(states: list[_Partial]) -> list[_Partial]:
    kept: list[_Partial] = []
    for state in states:
        if not kept or state.odds < kept[-1].odds:
            kept.append(state)
        if len(kept) == _FRONTIER:
            break
    return kept
