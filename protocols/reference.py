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
        starts = [thresholds[i] for i in range(len(thresholds) - size, 0, -size)]
        edges = [float("-inf"), *reversed(starts), float("inf")]
        for wanted in range(pairs):
            for low, high in pairwise(edges):
                counted.append(sum(p == wanted and low <= s < high for p, s in zip(pair, score, strict=True)))
    return counted


def _table(indices: tuple[Integers, ...], shape: tuple[int, ...]) -> Integers:
    table = np.zeros(shape, dtype=np.int64)
    np.add.at(table, indices, 1)
    return table


def noise_of_bits(coins: Sequence[tuple[int, int]], bits: Sequence[int]) -> int:
    """Return the noise of fair bits, the sign, then each coin's, for (numerator, bits), lowest first."""
    stream = iter(bits)
    sign = next(stream)
    magnitude = 0
    for i, (numerator, width) in enumerate(coins):
        word = sum(next(stream) << j for j in range(width))
        magnitude += (word < numerator) << i
    return -1 - magnitude if sign else magnitude


def gaussian_of_bits(coins: Sequence[tuple[int, int]], added: Sequence[int], bits: Sequence[int]) -> int:
    """Return the joint Gaussian noise of fair bits: the sign, the word, lowest first, and those to add.

    `coins` are (numerator, bits) of each probability, `added` numbers of bits added at each doubling.
    """
    width = max(of_coin for _, of_coin in coins)
    word = sum(bit << i for i, bit in enumerate(bits[1 : 1 + width]))
    below = sum(word >> width - of_coin < numerator for numerator, of_coin in coins)
    sample, twice_mean, stream = -1 - below if bits[0] else below, -1, iter(bits[1 + width :])
    for n in added:
        sample = 2 * sample + sum(next(stream) for _ in range(n))
        twice_mean = 2 * twice_mean + n
    return sample - twice_mean // 2


def first_below(sizes: Sequence[int], caps: Sequence[int], above: int, noise: Sequence[int]) -> int:
    """Return how many caps come before the first that few enough clients exceed.

    `noise` is that of `above`, then of each cap's count.
    """
    for i, cap in enumerate(caps[:-1]):
        if sum(size > cap for size in sizes) + noise[1 + i] <= above + noise[0]:
            return i
    return len(caps) - 1


def sums_from_ends(group: Sequence[int], value: Sequence[int], groups: int, steps: int) -> list[int]:
    """Return, per group, summed distances from the lower and the upper end of the range."""
    members = [[v for g, v in zip(group, value, strict=True) if g == s] for s in range(groups)]
    return [sum(steps + sign * v for v in of_group) for of_group in members for sign in (1, -1)]


def shifted_log(count: int, offset: int, most: int) -> int:
    """Return log2(count + offset) - o in units of 2^-E, in straight lines between powers of 2."""
    bits = (offset + most).bit_length()
    power = min((count + offset).bit_length(), bits) - 1
    return (power - offset.bit_length() << bits) + (count + offset << bits - power)
