"""A contribution bound from a public grid, chosen with privacy (π_CAP)."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.circuits.coins import Coins, SymmetricCoins, chance_of_sign, coins_of_magnitude


def caps_up_to(most: int) -> tuple[int, ...]:
    """Return the caps to choose from, rising: powers of the square root of 2, rounded, and `most` itself.

    Guarantees: each is at most twice the one before, and from 6 on at most 1.5 times.
    [test: tests/protocols/test_above_threshold.py]

    Args:
        most: The largest cap, at least 1.
    Returns:
        The caps, from 1 to `most`.
    """
    caps = {most}
    for i in range(2 * most.bit_length()):
        rounded_power = math.isqrt(1 << 2 + i) + 1 >> 1  # 2^(i/2)
        if rounded_power < most:
            caps.add(rounded_power)
    return tuple(sorted(caps))


def clients_above(sizes: Sequence[int] | Integers, caps: Sequence[int]) -> Integers:
    """Return E_i, how many clients have more records than the i-th cap.

    Args:
        sizes: Each client's number of records.
        caps: The caps, rising.
    Returns:
        The numbers, with the shape of the caps.
    """
    ordered = np.sort(np.asarray(sizes, dtype=np.int64))
    return (len(ordered) - np.searchsorted(ordered, np.asarray(caps), side="right")).astype(np.int64)


def allowed_above(epsilon: Fraction, counts: int, missing_in: int = 1) -> int:
    """Return c, how many clients should have more records than the best cap.

    Source: Amin et al. 2019, Section 3, for one sum: ceil(1/epsilon) - 1 clients exceed the best cap.
    Computes: the number at which the error from dropped records and the error from noise balance, as
    docs/explanation/client-unit.md derives it.
    Guarantees: of all caps, the least one that at most c clients exceed has the least error.
    [test: tests/protocols/test_above_threshold.py]

    Args:
        epsilon: The epsilon of a number that a record moves by 1.
        counts: The number of noisy counts.
        missing_in: In how many of them a record is missing that a cap drops.
    Returns:
        c, at least 0.
    """
    return math.ceil(Fraction(counts) / (epsilon * missing_in)) - 1


def best_cap(sizes: Sequence[int] | Integers, caps: Sequence[int], above: int) -> int:
    """Return the least cap that few enough clients exceed.

    Args:
        sizes: Each client's number of records.
        caps: The caps, rising.
        above: How many clients may exceed the cap.
    Returns:
        The cap; the last cap if no other is found.
    """
    fits = np.flatnonzero(clients_above(sizes, caps)[:-1] <= above)
    return caps[int(fits[0])] if len(fits) else caps[-1]


def distribution_of_first_below(coins: Coins, counts: Sequence[int] | Integers, bound: int) -> Floats:
    """Return the probability of each revealed index.

    Args:
        coins: The noise of each count and of the bound.
        counts: E_i of each cap, in order; there are n.
        bound: c.

    Returns:
        Shape (n + 1,), float64. The last probability is that no noisy count is at most the noisy bound.
    """
    magnitudes = np.ones(1)
    for coin in coins_of_magnitude(coins):
        p = float(coin.probability)
        magnitudes = np.concatenate([magnitudes * (1 - p), magnitudes * p])
    one_side = magnitudes * float(chance_of_sign(coins))
    at_zero: list[float] = []
    if isinstance(coins, SymmetricCoins):
        at_zero = [float(1 - coins.nonzero.probability)]
    mass = np.concatenate([one_side[::-1], at_zero, one_side])  # from -2^k on
    lowest = -len(magnitudes)
    below = np.concatenate([[0.0], np.cumsum(mass)])
    bounds = bound + lowest + np.arange(len(mass))  # each value of c + X_0
    stops = np.array([below[np.clip(bounds - count - lowest + 1, 0, len(mass))] for count in counts])
    goes_on = np.cumprod(np.vstack([np.ones(len(mass)), 1 - stops]), axis=0)
    return np.append((mass * goes_on[:-1] * stops).sum(axis=1), (mass * goes_on[-1]).sum())
