"""Shamir's split for three parties and one corruption, in the one field that this engine uses.

MPyC draws each coefficient by a system call of its own and reduces each share from a matrix product;
that is two fifths of a run. This draws one block and reduces two shares.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.inputs.rings import FIELD

_BYTES = FIELD.value_bytes


def install_fast_splitting() -> None:
    """Have MPyC split by `split` whatever it applies to, and as before all else."""
    import mpyc.thresha

    general: Callable[..., Any] = mpyc.thresha.np_random_split

    def np_random_split(field: Any, secrets: Any, threshold: int, parties: int) -> Any:
        if (field.modulus, threshold, parties) != (FIELD.modulus, 1, 3):
            return general(field, secrets, threshold, parties)
        return split(secrets.value if isinstance(secrets, field.array) else secrets)

    mpyc.thresha.np_random_split = np_random_split


def split(secrets: Any) -> list[Any]:
    """Share each secret by f with f(0) = secret, f(1) uniform, f linear; return f(1), f(2), f(3).

    Guarantees: each single share is uniform but for 2^-127, and independent of the secret: f(1) by
    construction, f(2) and f(3) as 2 and 3 times it plus a constant.
    [test: tests/harness/engines/test_mpyc_splitting.py]
    Args: secrets: object array of field elements, shape (n,). Returns: three object arrays alike.
    """
    p = FIELD.modulus
    raw, integer = os.urandom(_BYTES * len(secrets)), int.from_bytes
    drawn = (integer(raw[at : at + _BYTES], "little") & p for at in range(0, len(raw), _BYTES))
    first = np.fromiter(drawn, object, count=len(secrets))
    first[first == p] = 0
    slope = first - secrets
    second = first + slope
    return [first, second % p, (second + slope) % p]
