"""Counts of blocks of neighboring bins."""

from __future__ import annotations


def block_sizes(text: str) -> list[int]:
    """Read the bins per block of each level, as 1.14.182.

    Args:
        text: The numbers, the lowest level first, with points between them.
    Returns:
        The numbers; the first is 1, others are larger.
    """
    sizes = [int(size) for size in text.split(".")]
    assert sizes[0] == 1 and all(size > 1 for size in sizes[1:])
    return sizes


def count_blocks(histograms: int, bins: int, sizes) -> int:
    """Return the number of blocks of all histograms.

    Args:
        histograms: The number of histograms.
        bins: The number of bins of a histogram.
        sizes: The bins per block of each level.
    Returns:
        The number of blocks.
    """
    return histograms * sum(-(-bins // size) for size in sizes)


def block_sums(secret_integer, counts, histograms: int, bins: int, sizes):
    """Add up the bins of each block, without communication.

    Blocks are aligned at the highest bin.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        counts: The secret counts, shape (histograms * bins,), by histogram, lowest bin first.
        histograms: The number of histograms.
        bins: The number of bins of a histogram.
        sizes: The bins per block of each level, of which the first is 1.
    Returns:
        Secret sums by level; each level goes by histogram, lowest block first.
    """
    values = [counts]
    for size in sizes[1:]:
        for first in range(0, histograms * bins, bins):
            lowest = (bins - 1) % size + 1  # bins in the lowest block
            starts = [first, *range(first + lowest, first + bins, size)]
            stops = [*starts[1:], first + bins]
            for start, stop in zip(starts, stops):
                values.append(counts.get_vector(start, stop - start).sum())
    return secret_integer.concat(values)
