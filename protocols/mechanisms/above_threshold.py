"""How many records of a client count: a cap from a public grid, chosen with differential privacy (π_CAP)."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from protocols.arrays import Floats, Integers
from protocols.circuits.coins import Coin


def caps_up_to(most: int) -> tuple[int, ...]:
    """Return the caps to choose from: powers of the square root of 2, rounded, and `most` itself.

    Guarantees: each is at most twice the one before, and from 6 on at most 1.5 times.
    [test: tests/protocols/test_above_threshold.py]
    Args: most: the largest, >= 1.
    """
    powers = (math.isqrt(1 << 2 + i) + 1 >> 1 for i in range(2 * most.bit_length()))  # rounded 2^(i/2)
    return tuple(sorted({power for power in powers if power < most} | {most}))


def clients_above(sizes: Sequence[int] | Integers, caps: Sequence[int]) -> Integers:
    """Return E_i, the number of clients with more records than the i-th cap. It never rises with i."""
    ordered = np.sort(np.asarray(sizes, dtype=np.int64))
    return (len(ordered) - np.searchsorted(ordered, np.asarray(caps), side="right")).astype(np.int64)


def allowed_above(epsilon: Fraction, counts: int, missing_in: int = 1) -> int:
    """Return c, how many clients should have more records than the best cap.

    Source: Amin et al. 2019, Section 3, for one sum: the best cap is the ceil(1/epsilon)-th largest
    contribution, so that ceil(1/epsilon) - 1 exceed it.
    Computes: with cap τ, noise of mean size τ / epsilon on each of `counts` released numbers, and each record
    beyond the cap missing in `missing_in` of them: counts τ / epsilon + missing_in · sum of max(0, n_k - τ)
    falls with τ as long as more than counts / (epsilon · missing_in) clients exceed it.
    Guarantees: the least τ that at most c clients exceed minimises it.
    [test: tests/protocols/test_above_threshold.py]
    Args: epsilon: of a number that one record moves by 1, divided among a client's records, > 0.
    """
    return math.ceil(Fraction(counts) / (epsilon * missing_in)) - 1


def best_cap(sizes: Sequence[int] | Integers, caps: Sequence[int], above: int) -> int:
    """Return the least cap that at most `above` clients exceed, the last if none is: what noise blurs."""
    fits = np.flatnonzero(clients_above(sizes, caps)[:-1] <= above)
    return caps[int(fits[0])] if len(fits) else caps[-1]


def distribution_of_first_below(
    coins: tuple[Coin, ...], counts: Sequence[int] | Integers, bound: int
) -> Floats:
    """Return the probability of each index that may be opened, the number of counts for none: shape (n + 1,).

    Computes: for every value of X_0, the product over indices; float64.
    Args: coins: of all noise; counts: E_i, in order; bound: c.
    """
    magnitudes = np.ones(1)
    for coin in coins:
        p = float(coin.probability)
        magnitudes = np.concatenate([magnitudes * (1 - p), magnitudes * p])
    mass = np.concatenate([magnitudes[::-1], magnitudes]) / 2  # of -2^k .. 2^k - 1
    lowest, below = -len(magnitudes), np.concatenate([[0.0], np.cumsum(mass)])
    bounds = bound + lowest + np.arange(len(mass))  # c + X_0
    stops = np.array([below[np.clip(bounds - count - lowest + 1, 0, len(mass))] for count in counts])
    goes_on = np.cumprod(np.vstack([np.ones(len(mass)), 1 - stops]), axis=0)
    probabilities: Floats = np.append((mass * goes_on[:-1] * stops).sum(axis=1), (mass * goes_on[-1]).sum())
    return probabilities
