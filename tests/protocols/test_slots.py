"""Slots: every code is one cell or none, bits are counted right, and parties' integers are the slots'."""

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.inputs.encoding import input_bits
from fairshares.protocols.circuits.noise import input_widths
from fairshares.protocols.circuits.slots import (
    MOST_LANES,
    bit_count,
    cell_indicators,
    cell_of_code,
    slot_bits,
    slot_blocks,
)
from tests.support.clear import CountedBits

Bits = npt.NDArray[np.bool_]


@pytest.mark.parametrize("cells", [*range(1, 34), 100])
def test_every_code_is_one_cell_or_none(cells: int) -> None:
    """All strings of bits; null, and each cell, have the code that clients send."""
    width = slot_bits(cells)
    codes = np.arange(1 << width)
    CountedBits.ands = 0
    computed = cell_indicators([CountedBits((codes >> i & 1).astype(bool)) for i in range(width)], cells)
    assert CountedBits.ands == cells + 1 - width - (cells + 1 == 1 << width)
    indicators = np.array([indicator.lanes for indicator in computed])
    assert indicators.shape == (cells, len(codes))
    assert (indicators.sum(axis=0) <= 1).all()
    assert not indicators[:, 0].any()
    assert (indicators[:, 1 : cells + 1] == np.eye(cells, dtype=bool)).all()
    for code in codes.tolist():
        assert np.flatnonzero(indicators[:, code]).tolist() == [
            cell for cell in [cell_of_code(code, cells)] if cell >= 0
        ]


@pytest.mark.parametrize(
    ("bits", "ands", "planes"), [(1, 0, 1), (2, 1, 2), (3, 1, 2), (10, 8, 4), (63, 57, 6)]
)
def test_bits_are_counted(bits: int, ands: int, planes: int) -> None:
    rng = np.random.default_rng(bits)
    lanes = np.concatenate([rng.random((bits, 200)) < rng.random(200), np.eye(bits, bits + 1, 1) > 0], axis=1)
    lanes[:, 0], lanes[:, 1] = True, False
    CountedBits.ands = 0
    counted = bit_count([CountedBits(row) for row in lanes])
    assert (CountedBits.ands, len(counted)) == (ands, planes)
    assert (sum(plane.lanes.astype(int) << i for i, plane in enumerate(counted)) == lanes.sum(axis=0)).all()


@pytest.mark.parametrize(("slots", "per_lane"), [(1, 63), (62, 63), (63, 63), (200, 63), (7, 1), (1000, 15)])
@pytest.mark.parametrize("cells", [4, 6, 100])
def test_blocks_hold_each_slot_once_and_none_more(slots: int, per_lane: int, cells: int) -> None:
    """Else a server could fill what is left of a lane. Bits above a code's are not taken."""
    width = slot_bits(cells)
    words = np.random.default_rng(slots).integers(0, 2**63, slots).astype(np.uint64)
    integers = iter(map(int, input_bits(words.tobytes(), width, per_lane).split()))
    read: list[int] = []
    for in_lane, lanes in slot_blocks(slots, per_lane):
        columns = []
        for size in input_widths(in_lane * width):
            block = [next(integers) for _ in range(lanes)]
            assert all(integer < 1 << size for integer in block)
            columns += [[integer >> i & 1 for integer in block] for i in range(size)]
        for lane in range(lanes):
            bits = [column[lane] for column in columns]
            read += [
                sum(bit << i for i, bit in enumerate(bits[j : j + width])) for j in range(0, len(bits), width)
            ]
    assert next(integers, None) is None
    assert read == (words & np.uint64((1 << width) - 1)).tolist()


@pytest.mark.parametrize(
    ("lanes", "rest", "blocks"),
    [
        (MOST_LANES, 0, [MOST_LANES]),
        (MOST_LANES + 1, 5, [MOST_LANES + 1, 5]),
        (2 * MOST_LANES + 3, 1, [MOST_LANES] * 2 + [2, 64]),
        (2 * MOST_LANES + 2, 1, [MOST_LANES, MOST_LANES + 1, 64]),
        (3 * MOST_LANES, 2, [MOST_LANES] * 3 + [2]),
        (3 * MOST_LANES + 1, 0, [MOST_LANES] * 2 + [MOST_LANES + 1]),
    ],
)
def test_many_lanes_are_blocks_that_are_alike(lanes: int, rest: int, blocks: list[int]) -> None:
    laid_out = slot_blocks(63 * lanes + rest, 63)
    assert [size for _, size in laid_out] == blocks
    assert [in_lane for in_lane, _ in laid_out] == [63] * (len(blocks) - (rest > 0)) + [1] * (rest > 0)
    assert slot_blocks(10**6, 1) == [(1, 10**6)]  # an engine without memory of bits
