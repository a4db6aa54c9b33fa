"""What clients and fronts compute on masks: visible sums, and how often a changed mask goes unnoticed."""

import itertools
import secrets

import numpy as np
import pytest

from fairshares.harness.errors import MaskError
from fairshares.harness.online import masks
from fairshares.harness.online.client import check_masks
from fairshares.protocols.arrays import Words
from fairshares.protocols.circuits.clients import CHECKS

HALF = 2**63


def words(*values: int) -> Words:
    return np.array([value % 2**64 for value in values], dtype=np.uint64)


def test_subset_sums_of_two_parts() -> None:
    chosen = words(0b11, 0b01, 0b10, 0b00)
    sums = masks.subset_sums(words(1, 10, 100, 1000), chosen, 2, CHECKS)
    assert sums[0].tolist() == [11, 0] and sums[1].tolist() == [1, 100]
    assert sums.shape == (CHECKS, 2) and not sums[2:].any()


def test_sums_wrap_around() -> None:
    assert masks.subset_sums(words(HALF, HALF + 5), words(1, 1), 1, CHECKS)[0].tolist() == [5]


def test_subsets_use_the_whole_seed_and_every_bit() -> None:
    """A bit of 10 000 words is within 300 of half of them but for 1e-7 (Hoeffding, 40 bits together)."""
    seed = bytes(range(32))
    subsets = masks.subsets(seed, 10_000, CHECKS)
    assert subsets.max() < 2**CHECKS
    ones = [int((subsets >> np.uint64(j) & np.uint64(1)).sum()) for j in range(CHECKS)]
    assert all(abs(one - 5000) < 300 for one in ones)
    for i in range(32):
        other = bytearray(seed)
        other[i] ^= 1
        assert (masks.subsets(bytes(other), 10, CHECKS) != subsets[:10]).any()


@pytest.mark.parametrize("width", [8, 13, 16])
def test_elements_of_virtual_machines(width: int) -> None:
    values = words(1, 2**64 - 1, 2**40)
    packed = masks.widen(values, width)
    assert len(packed) == 3 * width and packed[:width] == b"\1" + bytes(width - 1)
    assert masks.low_words(packed, width).tolist() == values.tolist()
    high = b"".join(packed[i * width : i * width + 8] + b"\xff" * (width - 8) for i in range(3))
    assert masks.low_words(high, width).tolist() == values.tolist()


@pytest.mark.parametrize("change", [1, HALF, HALF // 2, 2**64 - 1])
@pytest.mark.parametrize("changed", [(1, 0, 0), (1, 1, 0), (1, 1, 1), (2, 1, 0)])
def test_at_most_half_of_all_subsets_miss_a_change(change: int, changed: tuple[int, ...]) -> None:
    """All 8 subsets of 3 masks, whatever the party adds to the offset: the sums that are off by as much.

    One product per mask would be worse: (r + 2^63) b = r b modulo 2^64 for every even b, and a party that
    changes a client's value by 2^63 opens the parity of what it is multiplied with. MP-SPDZ's clients check
    one (`ExternalIO/Client.hpp`, lines 102 and 163; `client.py`, line 109), by a protocol for fields (eprint
    2015/1006). In `ps-rep-ring` 19 of 40 such clients noticed nothing. With shares of 104 or 128 bits the
    check fails with 2^-41 or 2^-65. Mend: subset sums.
    """
    change_of_masks = words(*(change * factor for factor in changed))
    subsets = [sum(1 << j for j in range(8) if j >> i & 1) for i in range(3)]  # subset j is bits of j
    off = masks.subset_sums(change_of_masks, words(*subsets), 1, 8)[:, 0].tolist()
    assert len(set(off)) > 1 and max(off.count(by) for by in off) <= 4


def opened_by_honest_parties(own: Words, offsets: Words, seed: bytes, parts: int) -> bytes:
    count = len(offsets) // parts
    sums = masks.subset_sums(own, masks.subsets(seed, len(own), count), parts, count)
    return masks.to_bytes(sums.reshape(-1) + offsets)


def test_a_client_accepts_what_fits_and_nothing_else() -> None:
    """A wrong acceptance has probability 2^-40 in each of the tampered cases."""
    rng = np.random.default_rng(5)
    own = rng.integers(0, 2**64, 6, dtype=np.uint64)
    offsets = rng.integers(0, 2**64, CHECKS * 2, dtype=np.uint64)
    seed = secrets.token_bytes(masks.SEED_BYTES)
    opened = opened_by_honest_parties(own, offsets, seed, 2)
    check_masks(4, own, offsets, seed, parts=2, opened=[opened] * 3)
    for at, by in itertools.product(range(6), (1, HALF)):
        changed = own.copy()
        changed[at : at + 1] += np.uint64(by)
        with pytest.raises(MaskError, match=r"Client 4: .* one of them cheats.* not sent"):
            check_masks(4, changed, offsets, seed, parts=2, opened=[opened] * 3)
    other = bytes([opened[0] ^ 1]) + opened[1:]
    for lies in ([other, opened, opened], [opened, opened, other], [other] * 3):
        with pytest.raises(MaskError):
            check_masks(4, own, offsets, seed, parts=2, opened=lies)
