"""Arithmetic on masks modulo 2^64: `fairshares.protocols.circuits.clients` in numpy."""

import numpy as np
import numpy.typing as npt

from fairshares.harness.inputs.rings import RING

Words = npt.NDArray[np.uint64]

SEED_BYTES = 32
WORD_BYTES = 8


def subsets(seed: bytes, values: int, checks: int) -> Words:
    """Stretch a client's seed to a word below 2^checks per value, whose bit j puts the value in subset j."""
    return RING.expand(seed, values)[:, 0] >> np.uint64(64 - checks)


def subset_sums(masks: Words, chosen: Words, parts: int, checks: int) -> Words:
    """Add up each part's masks over each subset: shape (checks, parts)."""
    masks, chosen = masks.reshape(parts, -1), chosen.reshape(parts, -1)
    of_each = (masks * (chosen >> np.uint64(j) & np.uint64(1)) for j in range(checks))  # one at a time
    return np.stack([words.sum(axis=1, dtype=np.uint64) for words in of_each])


def low_words(packed: bytes, width: int) -> Words:
    """Read the low 64 bits of a virtual machine's little-endian elements."""
    low = np.frombuffer(packed, dtype=np.uint8).reshape(-1, width)[:, :WORD_BYTES]
    return np.ascontiguousarray(low).view("<u8")[:, 0].astype(np.uint64)


def widen(words: Words, width: int) -> bytes:
    """Write words as a virtual machine's little-endian elements."""
    rows = np.zeros((len(words), width), dtype=np.uint8)
    rows[:, :WORD_BYTES] = words.astype("<u8")[:, np.newaxis].view(np.uint8)
    return rows.tobytes()


def to_bytes(words: Words) -> bytes:
    """Write words as 8 little-endian bytes each."""
    return words.astype("<u8").tobytes()


def from_bytes(packed: bytes) -> Words:
    """Read words."""
    return np.frombuffer(packed, dtype="<u8").astype(np.uint64)
