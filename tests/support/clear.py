"""Plain integers in place of secret vectors, for circuits in the clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Lanes(np.ndarray):
    """Lanes along the first axis; further ones hold runs of their own, done at once."""

    @staticmethod
    def of(values: Any) -> Lanes:
        return np.asarray(values, dtype=np.int64).view(Lanes)

    @staticmethod
    def concat(parts: Sequence[Lanes]) -> Lanes:
        return Lanes.of(np.concatenate(parts))

    def get_vector(self, base: int, size: int) -> Lanes:
        assert 0 <= base < base + size <= len(self)
        return Lanes.of(self[base : base + size])

    def sum(self) -> Lanes:  # type: ignore[override]
        return Lanes.of(np.add.reduce(self, axis=0, keepdims=True))
