"""The sorting network on stand-ins for MP-SPDZ's bits: it counts keys, by as many ANDs as plans say."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.forecast.operation_counts import usage_of_keys
from fairshares.protocols.circuits.sorting import WORD, MarkerRanks

Bits = npt.NDArray[np.bool_]


class Machine:
    """Memory of words of secret bits, and a count of the ANDs that they took."""

    def __init__(self) -> None:
        self.memory: Bits = np.zeros((0, WORD), dtype=bool)
        self.ands = 0

    def get_type(self, lanes: int) -> type[Any]:
        """Return a type of so many secret bits, in whole words."""
        machine, words = self, -(-lanes // WORD)

        class Lanes:
            def __init__(self, bits: Bits | None = None) -> None:
                self.bits = np.zeros((words, WORD), dtype=bool) if bits is None else bits

            @staticmethod
            def malloc(size: int) -> int:
                first = len(machine.memory)
                machine.memory = np.concatenate([machine.memory, np.zeros((size, WORD), dtype=bool)])
                return first

            @staticmethod
            def load_mem(address: int) -> "Lanes":
                return Lanes(machine.memory[address : address + words].copy())

            def store_in_mem(self, address: int) -> None:
                machine.memory[address : address + len(self.bits)] = self.bits

            def load_int(self, value: int) -> None:
                self.bits = np.array([[value >> i & 1 for i in range(WORD)]], dtype=bool)

            def __and__(self, other: "Lanes") -> "Lanes":
                machine.ands += self.bits.size
                return Lanes(self.bits & other.bits)

            def __xor__(self, other: "Lanes") -> "Lanes":
                return Lanes(self.bits ^ other.bits)

            def __invert__(self) -> "Lanes":
                return Lanes(~self.bits)

        return Lanes

    def trans(self, rows: Sequence[Any]) -> list[Any]:
        """Return a matrix's columns, as words."""
        kind = self.get_type(WORD)
        return [kind(column[np.newaxis]) for column in np.concatenate([row.bits for row in rows]).T]


class Vector(np.ndarray[Any, np.dtype[np.int64]]):
    """Stands for a vector of sint."""

    def get_vector(self, first: int, size: int) -> npt.NDArray[np.int64]:
        return self[first : first + size]


def secret_integer(values: Any) -> Vector:
    return np.asarray(getattr(values, "bits", values)).astype(np.int64).ravel().view(Vector)


class Numbers:
    """Stands for regint."""

    inc = staticmethod(np.arange)


def for_range(*bounds: int) -> Callable[[Callable[[int], None]], None]:
    def loop(body: Callable[[int], None]) -> None:
        for i in range(*bounds):
            body(i)

    return loop


def if_(condition: bool) -> Callable[[Callable[[], None]], None]:
    return lambda body: body() if condition else None


# The fewest places, 2^12; more; a word of keys left unfilled; more cells than a word; as many as it takes.
@pytest.mark.parametrize(("records", "cells"), [(64, 12), (100, 70), (4100, 130), (9000, 404)])
def test_keys_are_counted_by_as_many_ands_as_planned(records: int, cells: int) -> None:
    rng, machine = np.random.default_rng(records), Machine()
    ranks = MarkerRanks((machine, Numbers, for_range, if_, lambda: None), records, cells)
    keys = rng.integers(0, 1 << ranks.key_bits, records)  # of cells, and of none
    padded = np.concatenate([keys, np.full(ranks.missing, ranks.no_key)])
    lanes = machine.get_type(len(padded))
    planes = [lanes((padded >> bit & 1).astype(bool).reshape(-1, WORD)) for bit in range(ranks.key_bits)]
    below = ranks.of(planes, secret_integer)
    assert below.tolist() == [int((keys < marker).sum()) for marker in range(1, cells + 1)]

    used = usage_of_keys({"groups": "1", "labels": "1", "bins": str(cells), "records": str(records)}, 2)
    assert used.decomposed == len(padded) * ranks.key_bits
    assert used.ands == machine.ands + 3 * used.decomposed  # what comes before: integers are cut into bits
    assert used.dabits == ranks.place_bits * WORD * (cells // WORD + 1)
