"""Random draws with exact probabilities, from the operating system's randomness.

No float decides a draw (Mironov 2012). Its duration depends on the result, which
docs/explanation/local-privacy.md warns of.
"""

import os
from fractions import Fraction

import numpy as np

from fairshares.protocols.arrays import Bools, Floats, Integers, Words

WORD_BITS = 64
MAX_NUMERATOR = 1 << 50  # with such a scale, a sample exceeds 63 bits with probability below e^-4096


def words(n: int) -> Words:
    """Draw uniform words of 64 bits.

    Args:
        n: How many are drawn.
    Returns:
        The words, shape (n,).
    """
    return np.frombuffer(os.urandom(n * WORD_BITS // 8), dtype=np.uint64)


def coins(probability: Fraction, n: int) -> Bools:
    """Toss coins with exactly this probability of True.

    Args:
        probability: The probability, a multiple of 2^-64 from 0 to below 1.
        n: How many are tossed.
    Returns:
        What they show, shape (n,).
    """
    return words(n) < np.uint64(int(probability * (1 << WORD_BITS)))


def round_at_random(x: Floats) -> Integers:
    """Round each value up or down at random, without bias, to within 2^-53.

    Args:
        x: The values, shape (n,).
    Returns:
        Whole numbers, shape (n,).
    """
    low = np.floor(x)
    up = words(len(x)) >> np.uint64(11) < np.round((x - low) * (1 << 53)).astype(np.uint64)
    return low.astype(np.int64) + up


def below(bound: int, n: int) -> Integers:
    """Draw uniform integers below a bound.

    Args:
        bound: The bound, from 1 to 2^62.
        n: How many are drawn.
    Returns:
        Integers in [0, bound), shape (n,).
    """
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
    drawn = np.empty(n, dtype=np.int64)
    todo = np.arange(n)
    while todo.size:
        drawn[todo] = (words(todo.size) & mask).astype(np.int64)
        todo = todo[drawn[todo] >= bound]
    return drawn


def _exponential_coins(numerators: Integers, denominator: int) -> Bools:
    """Toss a coin of probability e^(-u/t) for each numerator u, from 0 to the denominator t.

    Computes: von Neumann's series. Coins of probability u/(t k), for k = 1, 2, …, are tossed until one fails;
    the result is True if k is odd then.
    """
    tossed = np.zeros(len(numerators), dtype=bool)
    alive = np.arange(len(numerators))
    k = 1
    while alive.size:
        hit = below(denominator, alive.size) < numerators[alive]
        hit &= below(k, alive.size) == 0
        tossed[alive[~hit]] = k % 2 == 1
        alive = alive[hit]
        k += 1
    return tossed


def discrete_laplace(scale: Fraction, n: int) -> Integers:
    """Draw samples X with P(X = x) proportional to e^(-|x| / scale), for any integer x.

    Source: Canonne, Kamath and Steinke 2020, section 5.
    Guarantees: exact.
    [test: tests/statistical/test_local_dp.py]

    Args:
        scale: The scale, above 0, with a numerator of at most 2^50.
        n: How many are drawn.
    Returns:
        Samples, shape (n,).
    Raises:
        ValueError: The scale is out of range.
    """
    t = scale.numerator
    s = scale.denominator
    if not 1 <= t <= MAX_NUMERATOR:
        raise ValueError(f"the scale's numerator must be from 1 to 2^50, not {t}")
    noise = np.empty(n, dtype=np.int64)
    todo = np.arange(n)
    while todo.size:
        part = below(t, todo.size)
        kept = _exponential_coins(part, t)
        magnitude = (part + t * _whole_scales(todo.size)) // s
        negative = coins(Fraction(1, 2), todo.size)
        noise[todo] = np.where(negative, -magnitude, magnitude)
        todo = todo[~kept | (negative & (magnitude == 0))]
    return noise


def _whole_scales(n: int) -> Integers:
    """Return n samples of a geometric number: how often a coin of probability 1/e shows heads in a row."""
    tosses = np.zeros(n, dtype=np.int64)
    alive = np.arange(n)
    while alive.size:
        alive = alive[_exponential_coins(np.ones(alive.size, dtype=np.int64), 1)]
        tosses[alive] += 1
    return tosses
