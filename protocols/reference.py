"""Clear-text oracles of the protocols, written without their circuits."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fairshares.protocols.arrays import Integers


def counts(group: Integers, label: Integers, groups: int, labels: int) -> Integers:
    """Count records per group and label.

    Args:
        group: Each record's group, in [0, groups), shape (records,).
        label: Each record's label, in [0, labels), shape (records,).
        groups: The number of groups.
        labels: The number of labels.
    Returns:
        Numbers of records, shape (groups, labels).
    """
    return _table((group, label), (groups, labels))


def confusion(group: Integers, label: Integers, prediction: Integers, groups: int, labels: int) -> Integers:
    """Count records per group, label and predicted label.

    Args:
        group: Each record's group, in [0, groups), shape (records,).
        label: Each record's label, in [0, labels), shape (records,).
        prediction: Each record's predicted label, in [0, labels), shape (records,).
        groups: The number of groups.
        labels: The number of labels.
    Returns:
        Numbers of records, shape (groups, labels, labels).
    """
    return _table((group, label, prediction), (groups, labels, labels))


def block_counts(
    pair: Integers, score: Sequence[float], pairs: int, thresholds: Sequence[float], sizes: Sequence[int]
) -> list[int]:
    """Count records per block of score bins.

    Args:
        pair: Each record's pair of group and label, in [0, pairs).
        score: Each record's score.
        pairs: The number of pairs.
        thresholds: The lower ends of the bins, rising.
        sizes: For each level, the number of thresholds in a block, counted from the end.
    Returns:
        Numbers of records, by level, then by pair, then from the lowest scores up.
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
    Returns:
        The noise.
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
    Returns:
        The noise.
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

    Args:
        sizes: Each client's number of records.
        caps: The caps, rising.
        above: How many clients may exceed the cap.
        noise: The noise of `above`, then the noise of each cap's count except the last.
    Returns:
        The index of that cap; the index of the last cap if no other is found.
    """
    for i, cap in enumerate(caps[:-1]):
        if sum(size > cap for size in sizes) + noise[1 + i] <= above + noise[0]:
            return i
    return len(caps) - 1


def sums_from_ends(group: Sequence[int], value: Sequence[int], groups: int, steps: int) -> list[int]:
    """Return each group's summed distances from the lower and the upper end of the range.

    Args:
        group: Each client's group, in [0, groups).
        value: Each client's value in steps from the center, from -steps to steps.
        groups: The number of groups.
        steps: The steps on each side of the center.
    Returns:
        For each group the sum from the lower end, then the sum from the upper end, both in steps.
    """
    sums = []
    for wanted in range(groups):
        members = [v for g, v in zip(group, value, strict=True) if g == wanted]
        sums.append(sum(steps + v for v in members))
        sums.append(sum(steps - v for v in members))
    return sums


def shifted_log(count: int, offset: int, most: int) -> int:
    """Return log2(count + offset) - o in units of 2^-E, with straight lines between powers of 2.

    Args:
        count: The number of records, at least 0.
        offset: The public number that is added to the count, at least 1.
        most: The largest count for which the lines follow the powers of 2.
    Returns:
        The logarithm less o, the whole part of log2(offset); E is the number of bits of offset + most.
    """
    bits = (offset + most).bit_length()
    power = min((count + offset).bit_length(), bits) - 1
    return (power - offset.bit_length() << bits) + (count + offset << bits - power)
