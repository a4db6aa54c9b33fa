"""Theorem 14: what one client moves does not depend on what others send, whatever that is.

Circuits run on all that others can send in a small ring, for every client that is there or not. π_COUNT is
the exception, which `test_logarithm.py` has.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.protocols.circuits.counts import column_totals, confusion_by_product, counts_by_product
from fairshares.protocols.circuits.first_below import counts_from_each_on
from fairshares.protocols.circuits.slots import counts_of_slots, slot_bits, sums_of_slots, value_bits
from tests.support.clear import PartyInputs, wrapped

Integers = npt.NDArray[np.int64]
BITS = 3
RING = wrapped(BITS)
CELLS, GROUPS, STEPS = 3, 2, 2


def all_of(choices: int, places: int) -> Integers:
    """Return all that may be sent, shape (places, runs)."""
    return np.array(list(product(range(choices), repeat=places)), dtype=np.int64).T


def slots(words: Integers, width: int) -> PartyInputs:
    """Return the bits of slots, of the only party. Args: words: shape (slots, runs)."""
    return PartyInputs([[(words >> i & 1).astype(bool) for i in range(width)]])


def counts(columns: Integers, clients: int) -> Any:
    return counts_by_product(RING, RING(columns), clients, 2, 2)


def confusion(columns: Integers, records: int) -> Any:
    return confusion_by_product(RING, RING(columns), records, 2, 2)


def totals(columns: Integers, clients: int) -> Any:
    return column_totals(RING, RING(columns), clients, 3)


@pytest.mark.parametrize("circuit", [counts, confusion, totals], ids=lambda circuit: circuit.__name__)
def test_numbers_of_others_move_what_is_opened_and_not_what_a_client_moves(
    circuit: Callable[[Integers, int], Any],
) -> None:
    """Three values of each of two clients: all that the other sends modulo 8, indicators of 5 included."""
    theirs, silent = all_of(1 << BITS, 3), []
    for mine in product((0, 1), repeat=3):
        sent, gone = (np.stack([np.broadcast_to(np.array(one)[:, None], theirs.shape), theirs], axis=1)
                      for one in (mine, (0, 0, 0)))  # fmt: skip
        there, left = (circuit(numbers.reshape(6, -1), 2).values for numbers in (sent, gone))
        moved = (there - left) % (1 << BITS)
        assert (moved == moved[:, :1]).all()  # the first run: the other sends zeros
        silent.append(moved[:, 0].tolist())
        assert (left != left[:, :1]).any()
    assert len({tuple(values) for values in silent}) > 3


def counted(words: Integers) -> Any:
    return counts_of_slots(RING, slots(words, slot_bits(CELLS)), 1, len(words), 1, CELLS)


def summed(words: Integers) -> Any:
    width = slot_bits(GROUPS) + value_bits(STEPS)
    return sums_of_slots(RING, slots(words, width), 1, len(words), 1, GROUPS, STEPS)


@pytest.mark.parametrize(
    ("circuit", "width"),
    [(counted, slot_bits(CELLS)), (summed, slot_bits(GROUPS) + value_bits(STEPS))],
    ids=["counts", "sums"],
)
def test_words_of_others_likewise(circuit: Callable[[Integers], Any], width: int) -> None:
    """A client's slot, two of others, of any bits."""
    theirs = all_of(1 << width, 2)
    for mine in range(1 << width):
        there, left = (
            circuit(np.concatenate([np.full((1, theirs.shape[1]), word), theirs])).values
            for word in (mine, 0)
        )
        moved = (there - left) % (1 << BITS)
        assert (moved == moved[:, :1]).all()


@pytest.mark.parametrize("queries", [1, 2, 3, 5, 6])
def test_any_two_codes_exceed_caps_of_which_one_has_all_that_the_other_has(queries: int) -> None:
    """Theorem 12: also where a party flips bits of a slot, all E_i move the same way, by 1."""
    width = slot_bits(queries)
    codes = np.arange(1 << width)
    exceeded = []
    for word in codes.tolist():
        buckets = counts_of_slots(RING, slots(np.array([[word], [0]]), width), 1, 2, 1, queries)
        exceeded.append(counts_from_each_on(RING, buckets).values[:, 0].tolist())
    for sent, mask in product(codes.tolist(), repeat=2):
        moves = [a - b for a, b in zip(exceeded[sent ^ mask], exceeded[mask], strict=True)]
        assert set(moves) <= {0, 1} or set(moves) <= {0, -1}
    assert exceeded[0] == [0] * queries and exceeded[queries] == [1] * queries
