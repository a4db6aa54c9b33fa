"""Clear-text oracles of the protocols, written without their circuits."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fairshares.protocols.arrays import Integers


def counts(group: Integers, label: Integers, groups: int, labels: int) -> Integers:
    """Count records from indices of shape (records,): shape (groups, labels)."""
    return _table((group, label), (groups, labels))


def confusion(group: Integers, label: Integers, prediction: Integers, groups: int, labels: int) -> Integers:
    """Count records from indices of shape (records,): shape (groups, labels, predicted labels)."""
    return _table((group, label, prediction), (groups, labels, labels))


def block_counts(
    pair: Integers, score: Sequence[float], pairs: int, thresholds: Sequence[float], sizes: Sequence[int]
) -> list[int]:
    """Count records per block of score bins: by level, pair, and from the lowest scores up.

    `sizes` are thresholds per block of each level, counted from the end.
    """
    counted = []
    for size in sizes:
        edges = [float("inf")]
        for i in range(len(thresholds) - size, 0, -size):
            edges.append(thresholds[i])
        edges.append(float("-inf"))
        edges.reverse()
        for wanted in range(pairs):
            for low, high in pairwise(edges):
                counted.append(sum(p == wanted and low <= s < high for p, s in zip(pair, score, strict=True)))
    return counted


def _table(indices: tuple[Integers, ...], shape: tuple[int, ...]) -> Integers:
    """Count records by their indices, an array for each axis of the table."""
    table = np.zeros(shape, dtype=np.int64)
    np.add.at(table, indices, 1)
    return table


def noise_of_bits(
    coins: Sequence[tuple[int, int]], bits: Sequence[int], nonzero: tuple[int, int] | None = None
) -> int:
    """Return the joint noise that is made of fair bits.

    Args:
        coins: The numerator and the number of bits of the probability of each bit of the magnitude.
        bits: The sign, then the bits of each coin's word, lowest first; the coin for zero comes last.
        nonzero: The coin for zero of symmetric noise, which shows 1 if the noise is not 0; None of signed
            noise.
    """
    stream = iter(bits)
    sign = next(stream)
    magnitude = 0
    for i, (numerator, width) in enumerate(coins):
        word = sum(next(stream) << j for j in range(width))
        if word < numerator:
            magnitude += 1 << i
    if nonzero is None:
        if sign:
            return -1 - magnitude
        return magnitude
    numerator, width = nonzero
    word = sum(next(stream) << j for j in range(width))
    if word >= numerator:
        return 0
    if sign:
        return -1 - magnitude
    return magnitude + 1


def gaussian_of_bits(coins: Sequence[tuple[int, int]], added: Sequence[int], bits: Sequence[int]) -> int:
    """Return the joint Gaussian noise that is made of fair bits.

    Args:
        coins: The numerator and the number of bits of each coin's probability.
        added: How many bits are added at each doubling.
        bits: The sign, the bits of the word, lowest first, then the bits to add.
    """
    width = max(coin_bits for _, coin_bits in coins)
    sign = bits[0]
    word = sum(bit << i for i, bit in enumerate(bits[1 : 1 + width]))
    to_add = iter(bits[1 + width :])
    below = sum(word >> width - coin_bits < numerator for numerator, coin_bits in coins)
    sample = -1 - below if sign else below
    twice_mean = -1
    for n in added:
        sample = 2 * sample + sum(next(to_add) for _ in range(n))
        twice_mean = 2 * twice_mean + n
    return sample - twice_mean // 2


def first_below(sizes: Sequence[int], caps: Sequence[int], above: int, noise: Sequence[int]) -> int:
    """Return how many caps come before the first cap that few enough clients exceed.

    `noise` is the noise of `above`, then the noise of each cap's count.
    """
    for i, cap in enumerate(caps[:-1]):
        if sum(size > cap for size in sizes) + noise[1 + i] <= above + noise[0]:
            return i
    return len(caps) - 1


def sums_from_ends(group: Sequence[int], value: Sequence[int], groups: int, steps: int) -> list[int]:
    """Return, per group, summed distances from the lower and the upper end of the range."""
    sums = []
    for wanted in range(groups):
        members = [v for g, v in zip(group, value, strict=True) if g == wanted]
        sums.append(sum(steps + v for v in members))
        sums.append(sum(steps - v for v in members))
    return sums


def shifted_log(count: int, offset: int, most: int) -> int:
    """Return log2(count + offset) - o in units of 2^-E, with straight lines between powers of 2."""
    bits = (offset + most).bit_length()
    power = min((count + offset).bit_length(), bits) - 1
    return (power - offset.bit_length() << bits) + (count + offset << bits - power)
