"""Counts of what is in clients' slots: secret bits expanded to an indicator per cell, and those counted.

A slot is a code of `slot_bits` bits: 0 is null, code c is cell c - 1; what is left over stands for some
cell, too, so that any string of bits is one record at most. Nothing has to be checked.
"""

from __future__ import annotations

from protocols.circuits.noise import xor_of_inputs


def slot_bits(cells: int) -> int:
    """Return how many bits a slot takes: there is a code for each cell, and one for none."""
    return cells.bit_length()


def slot_blocks(slots: int, per_lane: int) -> list[tuple[int, int]]:
    """Divide slots into blocks of (slots per lane, lanes), with none left over and none added.

    An empty slot that only filled a lane would be one more that a server could fill.
    """
    lanes, rest = divmod(slots, per_lane)
    return [(per_lane, lanes)] * (lanes > 0) + [(1, rest)] * (rest > 0)


def cell_of_code(code: int, cells: int) -> int:
    """Return the cell that a code stands for, -1 for none: the highest bit tells only what has to be told."""
    low = code % (1 << (slot_bits(cells) - 1))
    return (code if low + (1 << (slot_bits(cells) - 1)) <= cells else low) - 1


def cell_indicators(bits, cells: int) -> list:
    """Return, per cell, whether a slot's code stands for it.

    Computes: an indicator per value of all bits but the highest, which then splits as many of them as there
    have to be; cells + 1 - slot_bits ANDs, one fewer where all are split.
    Guarantees: one indicator is 1 at most, whatever the bits.  [test: tests/unit/test_slots.py]
    Args: bits: `slot_bits(cells)` secret bits, lowest first, with lanes.
    """
    *low, high = bits
    found = _one_hot(low) if low else []
    half = 1 << len(low)
    split = cells + 1 - half  # how many values of the low bits the highest tells apart
    if not low:
        return [high]
    upper = [one & high for one in found[: min(split, half - 1)]]
    if split == half:
        upper.append(_xor_all([high, *upper]))
    rest = [one ^ above for one, above in zip(found, upper)]
    return [*rest[1:], *found[split:], *upper]


def _one_hot(bits) -> list:
    """Return an indicator per value of the bits, lowest value first."""
    if len(bits) == 1:
        return [~bits[0], bits[0]]
    *low, high = bits
    found = _one_hot(low)
    upper = [one & high for one in found[:-1]]
    upper.append(_xor_all([high, *upper]))
    return [*(one ^ above for one, above in zip(found, upper)), *upper]


def bit_count(bits) -> list:
    """Return how many of the bits are 1, lane by lane, as bits, lowest first.

    Computes: full adders, three bits of a weight for one and a carry, until there is one of each weight; a
    pair that is left over takes a half adder. One AND each.
    """
    columns, weight = [list(bits)], 0
    while weight < len(columns):
        column, carries = columns[weight], []
        while len(column) > 1:
            if len(column) == 2:
                a, b = column
                column = [a ^ b]
                carries.append(a & b)
                break
            triples = [column[i : i + 3] for i in range(0, len(column) - 2, 3)]
            column = column[3 * len(triples) :]
            for a, b, c in triples:
                carries.append(a ^ ((a ^ b) & (a ^ c)))
                column.append(a ^ b ^ c)
        columns[weight] = column
        if carries:
            columns.append(carries)
        weight += 1
    return [column[0] for column in columns]


def counts_of_slots(secret_integer, bit_vector, parties: int, slots: int, per_lane: int, cells: int):
    """Count, per cell, the slots that stand for it.

    Computes: per lane in bits; only the bits of a lane's count become integers.
    Args: secret_integer, bit_vector: MP-SPDZ's sint and sbitvec or what stands for them; slots: of all
    clients together, whose bits each party inputs XOR shares of, as `slot_blocks` divides them, slot by
    slot. Returns: secret vector of counts.
    """
    total = 0
    width = slot_bits(cells)
    for in_lane, lanes in slot_blocks(slots, per_lane):
        bits = xor_of_inputs(bit_vector, parties, lanes, in_lane * width)
        found = [cell_indicators(bits[j * width : (j + 1) * width], cells) for j in range(in_lane)]
        counts = [_total(secret_integer, bit_count(column)) for column in zip(*found)]
        total = total + secret_integer.concat(counts)
    return total


def _total(secret_integer, planes):
    return sum(secret_integer(plane) * (1 << i) for i, plane in enumerate(planes)).sum()


def _xor_all(bits):
    total = bits[0]
    for bit in bits[1:]:
        total = total ^ bit
    return total
