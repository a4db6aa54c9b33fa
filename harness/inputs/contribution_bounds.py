"""What a client contributes where clients are the privacy unit: a fixed number of slots, some of them empty.

Everything here runs at the client; its randomness is the operating system's.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.errors import RecordDomainError
from protocols.arrays import Integers
from protocols.mechanisms.above_threshold import caps_up_to

MAX_CAP = 1000
WEIGHT_ONE = "weight-one"
AUTO = "auto"  # a cap that π_CAP chooses
WEIGHT_SLOTS = 60  # 1 to 6 records, and 10, 12, 15, 20, 30, 60, share them out exactly


@dataclass(frozen=True)
class Cap:
    """The most that one client contributes; public, the same for all.

    Attributes: slots: how many each client fills or leaves empty, each with one record; weight_one: whether
    a client fills them all, each of its records as many as any other, so that it weighs 1 in all.
    """

    slots: int
    weight_one: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= MAX_CAP:
            raise RecordDomainError(f"A cap is 1 to {MAX_CAP} records of a client, not {self.slots}.")

    @property
    def scale(self) -> int:
        """How many slots are one client's, or one record's, worth in a count."""
        return self.slots if self.weight_one else 1

    @property
    def described(self) -> str:
        """What manifests say of it, as public."""
        if self.weight_one:
            return f"each client's records weigh 1 together, in steps of 1/{self.slots}"
        if self.slots == 1:
            return "cap: one record of a client is counted at most"
        return f"cap: {self.slots} records of a client are counted at most"

    @property
    def name(self) -> str:
        """How it is typed."""
        return str(self.to_json())

    def to_json(self) -> int | str:
        """Return what `cap_from_json` reads."""
        return WEIGHT_ONE if self.weight_one else self.slots

    def choose(self, client: Integers, cell: Integers, clients: int) -> Integers:
        """Return what is in each slot: shape (slots, clients), a cell, or -1 for nothing.

        Computes: a cap: all records of a client or, if it has more than slots, a uniformly random choice of
        as many. Weight one, with n records in the order of their cells and u uniform below n: slot j
        holds record floor((j n + u) / slots), so that a record holds slots / n of them on average, exactly,
        and a cell's share is off by less than one slot. Nothing of a client without records.
        Guarantees: no client fills more than its slots.
        [test: tests/harness/inputs/test_contribution_bounds.py]
        Args: client, cell: of each record.
        """
        drawn = np.frombuffer(os.urandom(8 * len(client)), dtype=np.uint64)
        order = np.lexsort((cell if self.weight_one else drawn, client))
        counts = np.bincount(client, minlength=clients)
        first = np.cumsum(counts) - counts
        slot = np.arange(self.slots)[:, np.newaxis]
        if self.weight_one:
            start = np.frombuffer(os.urandom(8 * clients), dtype=np.uint64)  # uniform but for n / 2^64
            start = (start % np.maximum(counts, 1).astype(np.uint64)).astype(np.int64)
            place, filled = (
                (slot * counts + start) // self.slots,
                np.broadcast_to(counts > 0, (self.slots, clients)),
            )
        else:
            place, filled = np.broadcast_to(slot, (self.slots, clients)), slot < counts
        chosen: Integers = np.full((self.slots, clients), -1, dtype=np.int64)
        chosen[filled] = cell[order][(first + place)[filled]]
        return chosen


def scale_of(cap: Cap | None) -> int:
    """Return how much of a count is one client's worth where clients weigh 1 in all, else one record's."""
    return cap.scale if cap else 1


def caps_to_choose_from(max_count: int) -> tuple[int, ...]:
    """Return the public grid of caps for clients with at most so many records; the last holds for all."""
    return caps_up_to(min(max_count, MAX_CAP))


def cap_from_json(declared: Any, where: str) -> Cap:
    """Check a parsed cap. Raises: RecordDomainError: it is neither a number nor weight-one."""
    if declared == WEIGHT_ONE:
        return Cap(WEIGHT_SLOTS, weight_one=True)
    if type(declared) is not int:
        raise RecordDomainError(f"cap in {where} must be a whole number, or {WEIGHT_ONE!r}.")
    return Cap(declared)
