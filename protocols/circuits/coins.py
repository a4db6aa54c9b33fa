"""Coins for the default noise: dyadic, cheap, checked in exact rationals.

Floats only rank candidates, by + - * /, so that every Python derives the same coins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

MIN_EPSILON = Fraction(1, 10**7)
MAX_EPSILON = Fraction(20)
MAX_COINS = 30
MIN_DELTA_BITS, MAX_DELTA_BITS = 20, 128

_GRID_BITS = 256  # dyadic grid for e^x, far finer than any coin
_MAX_FLIPS = 160  # fair bits of one coin
_FRONTIER = 24  # partial designs per level of the search
_CANDIDATES = 16  # ways to make one coin in the search
_NEVER = 1e-40  # odds too small to change an error, whose weights are 2^60 at most
_NOISE_OVERHEAD = 1.02  # allowed mean square error, relative to the ideal sampler's


@dataclass(frozen=True)
class Coin:
    """A coin that shows 1 with probability `numerator / 2**bits`."""

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


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose e^x, 0 <= x <= 64, between rationals (lower, upper), relatively less than 2^-100 apart."""
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


def worst_ratio(coins: tuple[Coin, ...]) -> Fraction:
    """Return e^epsilon of the sampler for sensitivity 1, exactly: docs/explanation/noise.md, theorem 1.

    [test: tests/protocols/test_truncated_noise.py]
    """
    worst, below = Fraction(1), Fraction(1)
    for coin in coins:
        ratio = coin.odds / below
        worst = max(worst, ratio, 1 / ratio)
        below *= coin.odds
    return worst


def edge_mass(coins: tuple[Coin, ...]) -> Fraction:
    """Return the outermost atom's mass: the exact delta for sensitivity 1."""
    return prod((coin.probability for coin in coins), start=Fraction(1, 2))


def check(coins: tuple[Coin, ...], epsilon: Fraction, delta_bits: int) -> None:
    """Raise ValueError unless the coins' noise is surely (epsilon, 2^-delta_bits)-DP for sensitivity 1."""
    if not coins or worst_ratio(coins) > exp_bounds(epsilon)[0]:
        raise ValueError(f"the coins exceed epsilon = {epsilon}")
    if edge_mass(coins) > Fraction(1, 1 << delta_bits):
        raise ValueError(f"the coins exceed delta = 2^-{delta_bits}")


@lru_cache(maxsize=64)
def design_coins(epsilon: Fraction, delta_bits: int) -> tuple[Coin, ...]:
    """Find the coins with the fewest AND gates that are private and accurate, lowest first, at most 30.

    Source: truncated geometric bits (Dwork et al. 2006, "Our data, ourselves"); the ratios and the dyadic
    search are ours.
    Computes: a frontier search. Coin t must have odds >= e^-epsilon times the product of the odds below it.
    Guarantees: the result passes `check`; its mean square error is at most 1.02 times that of the ideal,
    untruncated sampler. epsilon is per unit of sensitivity, in [10^-7, 20], delta_bits in [20, 128].

    Raises:
        ValueError: A parameter is out of range, or 30 coins do not reach them.
    [test: tests/protocols/test_coins.py]
    """
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise ValueError(f"epsilon per unit must be between 10^-7 and 20, not {float(epsilon):g}")
    if not MIN_DELTA_BITS <= delta_bits <= MAX_DELTA_BITS:
        raise ValueError(f"delta must be between 2^-{MAX_DELTA_BITS} and 2^-{MIN_DELTA_BITS}")
    low, high = exp_bounds(epsilon)
    q_up, ratio_max = 1 / low, low
    q = float(1 / high)
    mse_max = _NOISE_OVERHEAD * (q * (1 + q) / ((1 - q) * (1 - q)) + q / (1 - q) + 0.25)

    states = [_Partial((), 0, Fraction(1), 1, 0.0, 0.0, 1.0)]
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
    """The lowest coins of a design, with sums and products over them."""

    coins: tuple[Coin, ...]
    gates: int
    odds: Fraction
    edge: int
    mean: float
    variance: float
    below: float

    def then(self, coin: Coin) -> _Partial:
        weight, odds = float(1 << len(self.coins)), coin.numerator / ((1 << coin.bits) - coin.numerator)
        p = odds / (1 + odds)
        return _Partial(
            (*self.coins, coin),
            self.gates + coin.bits - 1,
            self.odds * coin.odds,
            self.edge * coin.numerator,
            self.mean + weight * p,
            self.variance + weight * weight * p * (1 - p),
            self.below * odds,
        )

    def error_if_ideal_above(self, q: float) -> float:
        mean, variance, below = self.mean, self.variance, self.below
        weight = float(1 << len(self.coins))
        for _ in range(len(self.coins), MAX_COINS + 1):
            odds = q * below
            if odds < _NEVER:
                break
            p = odds / (1 + odds)
            mean += weight * p
            variance += weight * weight * p * (1 - p)
            weight, below = 2 * weight, odds * below
        return variance + (mean + 0.5) * (mean + 0.5)


def _candidates(odds_min: Fraction, odds_max: Fraction) -> Iterator[Coin]:
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
