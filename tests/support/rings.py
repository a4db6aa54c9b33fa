"""Elements of rings as the integers that they stand for."""

import numpy as np

from fairshares.harness.inputs.rings import Ring
from fairshares.protocols.arrays import Words


def to_integers(domain: Ring, a: Words) -> list[int]:
    """Return signed integers, flattened, each in [-modulus/2, modulus/2)."""
    values = [
        sum(int(word) << 64 * i for i, word in enumerate(element)) for element in a.reshape(-1, domain.words)
    ]
    return [v - domain.modulus if 2 * v >= domain.modulus else v for v in values]


def total_of(parts: list[bytes], ring: Ring) -> list[int]:
    """Return the sums of shares that stand in bytes, one for each value."""
    return to_integers(ring, ring.total(np.stack([ring.from_bytes(part) for part in parts], axis=-2)))
