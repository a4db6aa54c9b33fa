"""Plain integers in place of secret vectors, for circuits in the clear."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt


def no_check() -> None:
    """Stand for check_point where nobody tampers."""


class Lanes(np.ndarray):
    """Lanes along the first axis; further ones hold runs of their own, done at once."""

    @staticmethod
    def from_values(values: Any) -> "Lanes":
        return np.asarray(values, dtype=np.int64).view(Lanes)

    @staticmethod
    def concat(parts: "Sequence[Lanes]") -> "Lanes":
        return Lanes.from_values(np.concatenate(parts))

    def get_vector(self, base: int, size: int) -> "Lanes":
        assert 0 <= base < base + size <= len(self)
        return Lanes.from_values(self[base : base + size])

    def sum(self) -> "Lanes":  # type: ignore[override]
        return Lanes.from_values(np.add.reduce(self, axis=0, keepdims=True))


@cache
def wrapped(bits: int) -> type[Any]:
    """Return lanes of integers modulo 2^bits, of which >= and > take signed ones; axes as of `Lanes`."""
    size = 1 << bits

    class Wrapped:
        def __init__(self, values: Any) -> None:
            self.values = (np.asarray(values, dtype=np.int64) + size // 2) % size - size // 2

        @staticmethod
        def concat(parts: "Sequence[Wrapped]") -> "Wrapped":
            return Wrapped(np.concatenate([part.values for part in parts]))

        @staticmethod
        def dot_product(one: "Wrapped", other: "Wrapped") -> "Wrapped":
            return (one * other).sum()

        def get_vector(self, base: int, lanes: int) -> "Wrapped":
            assert 0 <= base < base + lanes <= len(self)
            return Wrapped(self.values[base : base + lanes])

        def sum(self) -> "Wrapped":
            return Wrapped(self.values.sum(axis=0, keepdims=True))

        def __len__(self) -> int:
            return len(self.values)

        def __add__(self, other: Any) -> "Wrapped":
            return Wrapped(self.values + (other.values if isinstance(other, Wrapped) else other))

        __radd__ = __add__

        def __mul__(self, other: Any) -> "Wrapped":
            return Wrapped(self.values * (other.values if isinstance(other, Wrapped) else other))

        def __sub__(self, other: Any) -> "Wrapped":
            return self + other * -1

        def __ge__(self, bound: int) -> "Wrapped":
            return Wrapped(self.values >= bound)

    return Wrapped


class CountedBits:
    """Bits in lanes, or none: how many ANDs they take all together, and how deep these lie."""

    ands = 0

    def __init__(self, lanes: Any = None, depth: int = 0) -> None:
        self.lanes, self.depth = np.zeros(0, dtype=bool) if lanes is None else lanes, depth

    def __and__(self, other: "CountedBits") -> "CountedBits":
        CountedBits.ands += 1
        return CountedBits(self.lanes & other.lanes, max(self.depth, other.depth) + 1)

    def __xor__(self, other: "CountedBits") -> "CountedBits":
        return CountedBits(self.lanes ^ other.lanes, max(self.depth, other.depth))

    def __invert__(self) -> "CountedBits":
        return CountedBits(~self.lanes, self.depth)


class PartyInputs:
    """Stands in for sbitvec: each party's private bits are rows of an array."""

    def __init__(self, parties: Iterable[Iterable[npt.NDArray[np.bool_]]]) -> None:
        self.queues = [list(bits) for bits in parties]

    def get_type(self, width: int) -> "PartyInputs":
        assert 1 <= width <= 63
        self.width = width
        return self

    def get_input_from(self, party: int, size: int) -> Any:
        queue = self.queues[party]
        bits, self.queues[party] = queue[: self.width], queue[self.width :]
        assert len(bits) == self.width and {len(lanes) for lanes in bits} == {size}

        class Columns:
            v = bits

        return Columns
