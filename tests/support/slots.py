"""Runs of programs that count clients' slots: what clients may send, and what the parties should open."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.inputs.rings import XOR
from harness.inputs.shares.client import split_into_shares
from harness.security_models import SecurityModel
from protocols.circuits.slots import cell_of_code, slot_bits
from protocols.spec import PI_RW_SLOTS, ProtocolSpec
from tests.support.running import opened_less_noise

EPSILON, DELTA_BITS = "1/3", 40
CAP = 4
Words = npt.NDArray[np.int64]

# Codes of 2 groups and 2 labels take 3 bits, with predictions 4. Words have 64; the rest is not used.
UPLOADS: dict[str, list[int]] = {
    "honest": [1, 2, 2, 4],
    "honest, one record": [3, 0, 0, 0],
    "honest, no record": [0, 0, 0, 0],
    "all ones": [-1, -1, -1, -1],
    "codes of no cell": [5, 6, 7, 7],
    "one cell, in all slots": [4, 4, 4, 4],
    "large values": [2**62 + 1, -(2**40), 8, 16],
    "random": np.random.default_rng(4).integers(-(2**63), 2**63 - 1, CAP).tolist(),
}


@dataclass(frozen=True)
class Case:
    """What clients send, slot by slot, and which bits of which slots one server flips in its shares."""

    words: Sequence[Sequence[int]]
    groups: int = 2
    labels: int = 2
    flipped: dict[tuple[int, int], int] = field(default_factory=dict)
    spec: ProtocolSpec = PI_RW_SLOTS

    @property
    def cells(self) -> int:
        """How many there are: with predictions, of each label and prediction."""
        return self.groups * (self.labels if self.spec is PI_RW_SLOTS else self.labels**2)

    def shares(self, parties: int) -> list[npt.NDArray[np.uint64]]:
        """Return each party's words, a slot's after the other's, as sharing makes them."""
        words = XOR.encode(np.array(self.words, dtype=np.int64))
        shares = [share.ravel() for _, share in split_into_shares(words, XOR, parties)]
        for (client, slot), bits in self.flipped.items():
            shares[1][client * CAP + slot] ^= np.uint64(bits)
        return shares

    def counts(self) -> list[int]:
        """Return the count of each cell: of codes after what the server flipped, the lowest bits alone."""
        found = [0] * self.cells
        for client, slots in enumerate(self.words):
            for slot, word in enumerate(slots):
                code = (word ^ self.flipped.get((client, slot), 0)) & ((1 << slot_bits(self.cells)) - 1)
                if (cell := cell_of_code(code, self.cells)) >= 0:
                    found[cell] += 1
        return found


def opened(case: Case, model: SecurityModel, directory: Path) -> list[int]:
    """Return what a run opens, less the noise that its bits make."""
    size = (np.size(case.words), model.slots_per_lane, case.groups, case.labels)
    arguments = (model.parties, *size, EPSILON, DELTA_BITS)
    words = case.shares(model.parties)
    return opened_less_noise(case.spec, arguments, case.cells, model, directory, words=words)
