"""What clients share bit by bit, a word per slot: the parties' shares of it, and what it counts."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fairshares.harness.inputs.rings import XOR
from fairshares.harness.inputs.shares import split_into_shares
from fairshares.protocols.circuits.slots import cell_of_code, slot_bits


def shares_of_words(
    words: npt.ArrayLike, parties: int, flipped: Mapping[int, int]
) -> list[npt.NDArray[np.uint64]]:
    """Return each party's words as sharing makes them, in party 1's some bits of some slots flipped."""
    split = split_into_shares(XOR.encode(np.ravel(words).astype(np.int64)), XOR, parties)
    shares = [share.ravel() for _, share in split]
    for slot, bits in flipped.items():
        shares[1][slot] ^= np.uint64(bits)
    return shares


def changed(words: npt.ArrayLike, flipped: Mapping[int, int]) -> list[int]:
    """Return the words that these shares make."""
    return [word ^ flipped.get(slot, 0) for slot, word in enumerate(np.ravel(words).tolist())]


def cells_of_words(words: Sequence[int], cells: int) -> list[int]:
    """Return the cell of each word, by its lowest bits alone; -1: none."""
    return [cell_of_code(word & ((1 << slot_bits(cells)) - 1), cells) for word in words]


def counted(words: Sequence[int], cells: int) -> list[int]:
    """Return how many words are of each cell."""
    numbers = cells_of_words(words, cells)
    return [numbers.count(cell) for cell in range(cells)]
