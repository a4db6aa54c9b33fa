"""π_GAP of clients' slots opens the same known integers in every model, whatever clients send."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from harness.engines.registry import engine_of
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid
from harness.inputs.records import ClientRecords
from harness.inputs.rings import XOR
from harness.inputs.shares.client import split_into_shares
from harness.security_models import SecurityModel
from protocols import reference
from protocols.circuits.slots import cell_of_code, slot_bits, value_bits
from protocols.spec import PI_GAP_SLOTS
from tests.support.running import model_parameters, opened_less_noise

EPSILON, DELTA_BITS = "1", 40
GROUPS, STEPS = 3, 5  # 2 bits for a group, 4 for v + 5, of which 11 to 15 stand for nothing


def moves(words: Sequence[int], groups: int = GROUPS, steps: int = STEPS) -> list[int]:
    """Return sums and scaled sizes of groups, by what a slot's lowest bits mean."""
    group, value = [], []
    for word in words:
        cell = cell_of_code(word & ((1 << slot_bits(groups)) - 1), groups)
        v = ((word >> slot_bits(groups)) & ((1 << value_bits(steps)) - 1)) - steps
        if cell >= 0 and v <= steps:
            group.append(cell)
            value.append(v)
    return reference.sums_and_sizes(group, value, groups, steps)


def honest(group: npt.NDArray[np.int64], value: npt.NDArray[np.int64]) -> list[int]:
    """Return the words that clients send, one each; the last has no value."""
    names = tuple("abc")
    domain = RecordDomain(names, (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, STEPS), cap=Cap(1))
    client = np.arange(len(group))
    ids = np.arange(len(group) + 1).astype(str)
    records = ClientRecords(domain, ids, client, group, np.zeros_like(group), value)
    (words,) = columns_of(records, next(iter(PI_GAP_SLOTS.input_forms.values()))).tolist()
    found: list[int] = words
    return found


@pytest.mark.parametrize("steps", [1, 3, STEPS, 1000])
def test_whatever_a_client_sends_it_moves_one_sum_and_one_size(steps: int) -> None:
    """All strings of bits of a slot, or a thousand of them; never beyond the grid."""
    width = slot_bits(GROUPS) + value_bits(steps)
    for word in range(0, 1 << width, 1 if width < 10 else 37):
        pairs = np.array(moves([word], steps=steps)).reshape(GROUPS, 2)
        moved = np.abs(pairs[np.flatnonzero(pairs[:, 1])])
        assert len(moved) <= 1 and (moved <= steps).all()
        assert not pairs[pairs[:, 1] == 0].any()


@pytest.mark.parametrize("model", model_parameters())
def test_opens_the_oracles_integers(model: SecurityModel, tmp_path: Path) -> None:
    """60 honest clients, one without a value; every string of 6 bits, and words with more of them.

    A server changes its share of three slots: another group, another value, and a client that had none.
    """
    form = next(iter(PI_GAP_SLOTS.input_forms.values()))
    assert engine_of(model).supports(PI_GAP_SLOTS, model, form) is None
    rng = np.random.default_rng(3)
    group, value = rng.integers(0, 3, 60), rng.integers(-STEPS, STEPS + 1, 60)
    sent = honest(group, value)
    assert sent[-1] == 0
    truth = reference.sums_and_sizes(group.tolist(), value.tolist(), GROUPS, STEPS)
    assert moves(sent) == truth
    words = [*sent, *range(64), -1, 2**62 + 1, -(2**40)]
    flipped = {58: 0b11, 59: 0b1100, 60: 0b1110}
    expected = moves([word ^ flipped.get(at, 0) for at, word in enumerate(words)])
    assert all(moves([words[at]]) != moves([words[at] ^ mask]) for at, mask in flipped.items())

    split = split_into_shares(XOR.encode(np.array(words)), XOR, model.parties)
    shares = [share.ravel() for _, share in split]
    for at, mask in flipped.items():
        shares[1][at] ^= np.uint64(mask)
    size = (len(words), model.slots_per_lane, GROUPS, STEPS)
    arguments = (model.parties, *size, EPSILON, DELTA_BITS)
    found = opened_less_noise(PI_GAP_SLOTS, arguments, len(expected), model, tmp_path, words=shares)
    assert found == expected
