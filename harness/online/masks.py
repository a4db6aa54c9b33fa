"""Arithmetic on masks modulo 2^64: `fairshares.protocols.circuits.clients` in numpy."""

import numpy as np

from fairshares.harness.inputs.rings import RING
from fairshares.protocols.arrays import Words

SEED_BYTES = 32
WORD_BYTES = 8


def subsets(seed: bytes, values: int, checks: int) -> Words:
    """Stretch a client's seed to a word for each of its values, below 2^checks.

    Bit j of the word says whether the value is in subset j.
    """
    words = RING.expand(seed, values)[:, 0]
    return words >> np.uint64(8 * WORD_BYTES - checks)


def subset_sums(masks: Words, chosen: Words, parts: int, checks: int) -> Words:
    """Return the sum of each part's masks over each subset, of shape (checks, parts).

    Args:
        masks: The masks of all parts, one after the other.
        chosen: A word for each mask, whose bit j puts the mask in subset j, as `subsets` returns them.
        parts: The number of parts, which have equal lengths.
        checks: The number of subsets.
    """
    masks_by_part = masks.reshape(parts, -1)
    chosen_by_part = chosen.reshape(parts, -1)
    sums: list[Words] = []
    for subset in range(checks):
        is_in_subset = chosen_by_part >> np.uint64(subset) & np.uint64(1)
        sums.append((masks_by_part * is_in_subset).sum(axis=1, dtype=np.uint64))
    return np.stack(sums)


def low_words(packed: bytes, width: int) -> Words:
    """Return the low 64 bits of a virtual machine's elements: little-endian numbers of `width` bytes."""
    low = np.frombuffer(packed, dtype=np.uint8).reshape(-1, width)[:, :WORD_BYTES]
    return np.ascontiguousarray(low).view("<u8")[:, 0].astype(np.uint64)


def widen(words: Words, width: int) -> bytes:
    """Return words as a virtual machine's elements: little-endian numbers of `width` bytes."""
    rows = np.zeros((len(words), width), dtype=np.uint8)
    rows[:, :WORD_BYTES] = words.astype("<u8")[:, np.newaxis].view(np.uint8)
    return rows.tobytes()


def to_bytes(words: Words) -> bytes:
    """Return words as bytes, 8 for each, little-endian."""
    return words.astype("<u8").tobytes()


def from_bytes(packed: bytes) -> Words:
    """Return the words in bytes that `to_bytes` made."""
    return np.frombuffer(packed, dtype="<u8").astype(np.uint64)
