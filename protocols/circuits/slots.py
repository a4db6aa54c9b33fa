"""Counts of clients' slots: secret bits are expanded to indicators of cells.

A slot is a code of `slot_bits` bits: 0 is null, code c is cell c - 1, others are some cell. So any bits are
one record at most, without a check.
"""

from __future__ import annotations

from fairshares.protocols.circuits.coins import Coin
from fairshares.protocols.circuits.counts import REPLICATED, input_columns
from fairshares.protocols.circuits.integers import sum_of_bits
from fairshares.protocols.circuits.noise import flip, xor_of_inputs

# Each lane of a party's input has its own instructions. More lanes are read in a loop, so that programs do
# not grow with the clients. A multiple of 64, a word of the memory.
MOST_LANES = 2048
_WORD = 64


def slot_bits(cells: int) -> int:
    """Return the bits of a slot: a code per cell and one for none.

    Args:
        cells: The number of cells, at least 1.
    Returns:
        The number of bits.
    """
    return cells.bit_length()


def slot_blocks(slots: int, per_lane: int) -> list[tuple[int, int]]:
    """Divide slots into blocks, none left over and none added.

    A party could fill an added slot; MP-SPDZ would read a block of one lane out of order.
    [test: tests/protocols/test_slots.py, tests/programs/test_pi_rw_slots.py]

    Args:
        slots: The number of slots, at least 1.
        per_lane: The number of slots that are counted in one lane, at least 1.
    Returns:
        For each block the slots per lane, and the number of lanes.
    """
    lanes, rest = divmod(slots, per_lane)
    if rest == 1:
        lanes, rest = lanes - 1, rest + per_lane
    if lanes < 2:
        return [(1, slots)]
    full, left = divmod(lanes, MOST_LANES) if per_lane > 1 else (0, lanes)
    if full and left == 1:
        full, left = full - 1, left + MOST_LANES
    blocks = [(per_lane, MOST_LANES)] * full + [(per_lane, left)] * (left > 0)
    return blocks + [(1, rest)] * (rest > 0)


def cell_of_code(code: int, cells: int) -> int:
    """Return the cell that a code stands for.

    Args:
        code: The integer of a slot's bits, in [0, 2^slot_bits).
        cells: The number of cells.
    Returns:
        The cell, from 0 on; -1 for none.
    """
    low = code % (1 << (slot_bits(cells) - 1))
    return (code if low + (1 << (slot_bits(cells) - 1)) <= cells else low) - 1


def cell_indicators(bits, cells: int) -> list:
    """Return, per cell, whether a slot's code stands for it.

    Computes: indicators of the low bits, of which the highest bit splits only as many as it has to.
    Guarantees: one indicator is 1 at most, whatever the bits.
    [test: tests/protocols/test_slots.py]

    Args:
        bits: The secret bits of the code, lowest first.
        cells: The number of cells.
    Returns:
        A secret bit for each cell.
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
    if len(bits) == 1:
        return [~bits[0], bits[0]]
    *low, high = bits
    found = _one_hot(low)
    upper = [one & high for one in found[:-1]]
    upper.append(_xor_all([high, *upper]))
    return [*(one ^ above for one, above in zip(found, upper)), *upper]


def bit_count(bits) -> list:
    """Return how many of several bits are 1, per lane.

    Args:
        bits: The secret bits, each a vector of all lanes.
    Returns:
        The secret bits of the number, lowest first.
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


def counts_of_slots(
    secret_integer,
    bit_vector,
    parties: int,
    slots: int,
    per_lane: int,
    cells: int,
    memory=(),
    path: str = "shares",
):
    """Count, per cell, the slots that stand for it.

    Guarantees: a slot counts in one cell at most, whatever its bits.
    [test: tests/protocols/test_slots.py]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        bit_vector: MP-SPDZ's sbitvec, or a stand-in.
        parties: The number of parties.
        slots: The number of slots.
        per_lane: The number of slots that are counted in one lane.
        cells: The number of cells.
        memory: MP-SPDZ's sbits, for_range and break_point; needed if `per_lane` is above 1.
        path: "shares" if each party inputs XOR shares of all slots' bits, as `slot_blocks` divides them;
            "replicated" if it holds replicated shares of slots as integers.
    Returns:
        Secret counts, shape (cells,).
    """
    total = 0
    names = secret_integer, bit_vector, memory
    for found in _blocks(names, path, parties, slots, per_lane, slot_bits(cells)):
        indicators = [cell_indicators(bits, cells) for bits in found]
        counts = [_total(secret_integer, bit_count(column)) for column in zip(*indicators)]
        total = total + secret_integer.concat(counts)
    return total


def value_bits(steps: int) -> int:
    """Return the bits of v + steps, for v from -steps to steps.

    Args:
        steps: The steps on each side of the center, at least 1.
    Returns:
        The number of bits.
    """
    return (2 * steps).bit_length()


def sums_of_slots(
    secret_integer,
    bit_vector,
    parties: int,
    slots: int,
    per_lane: int,
    groups: int,
    steps: int,
    memory=(),
    path: str = "shares",
):
    """Add up, per group, slots' steps + v, then steps - v.

    A slot is the code of a group, then v + steps; a value above the range counts nowhere.

    Guarantees: a slot counts in one group at most, with a value of the range, whatever its bits.
    [test: tests/protocols/test_others_lies.py]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        bit_vector: MP-SPDZ's sbitvec, or a stand-in.
        parties: The number of parties.
        slots: The number of slots.
        per_lane: The number of slots that are counted in one lane.
        groups: The number of groups.
        steps: The steps on each side of the center.
        memory: As in `counts_of_slots`.
        path: As in `counts_of_slots`.
    Returns:
        Secret sums, shape (2 * groups,), in steps.
    """
    total, width, names = 0, slot_bits(groups), (secret_integer, bit_vector, memory)
    for found in _blocks(names, path, parties, slots, per_lane, width + value_bits(steps)):
        taken = [_in_groups(bits[:width], bits[width:], groups, steps) for bits in found]
        nodes = []
        for group in range(groups):
            size = _total(secret_integer, bit_count([members[group] for members, _ in taken]))
            planes = zip(*(values[group] for _, values in taken))
            counts = [_total(secret_integer, bit_count(list(plane))) for plane in planes]
            from_below = sum(count * (1 << i) for i, count in enumerate(counts))
            nodes += [from_below, size * (2 * steps) - from_below]
        total = total + secret_integer.concat(nodes)
    return total


def _in_groups(code, value, groups: int, steps: int):
    on_the_grid = flip(Coin(2 * steps + 1, len(value)), value)  # value < 2 steps + 1
    members = [one & on_the_grid for one in cell_indicators(code, groups)]
    return members, [[member & bit for bit in value] for member in members]


def _blocks(names, path: str, parties: int, slots: int, per_lane: int, width: int):
    secret_integer, bit_vector, _ = names
    if path == REPLICATED:
        words, lanes = input_columns(secret_integer, parties, slots, path), -(-slots // per_lane)
        starts = range(0, slots, lanes)
        parts = [words.get_vector(start, min(lanes, slots - start)) for start in starts]
        full = [part for part in parts if len(part) == lanes]
        for alike in filter(None, (full, parts[len(full) :])):
            yield [bit_vector(part, width, width).v for part in alike]
        return
    blocks = slot_blocks(slots, per_lane)
    for in_lane, lanes in dict.fromkeys(blocks):
        n_bits, times = in_lane * width, blocks.count((in_lane, lanes))
        if times == 1:
            bits = xor_of_inputs(secret_integer, bit_vector, parties, lanes, n_bits)
        else:
            bits = _read_in_a_loop(names, parties, lanes, n_bits, times)
        yield [bits[j * width : (j + 1) * width] for j in range(in_lane)]


def _read_in_a_loop(names, parties: int, lanes: int, n_bits: int, times: int):
    secret_integer, bit_vector, (sbits, for_range, break_point) = names
    words = lanes // _WORD
    place = sbits.get_type(_WORD).malloc(n_bits * times * words)

    @for_range(times)
    def _(turn):
        for i, bit in enumerate(xor_of_inputs(secret_integer, bit_vector, parties, lanes, n_bits)):
            bit.store_in_mem(place + i * times * words + turn * words)

    break_point()
    every = sbits.get_type(_WORD * words * times)
    return [every.load_mem(place + i * times * words) for i in range(n_bits)]


def _total(secret_integer, planes):
    return sum_of_bits([(plane, 1 << i) for i, plane in enumerate(planes)], secret_integer).sum()


def _xor_all(bits):
    total = bits[0]
    for bit in bits[1:]:
        total = total ^ bit
    return total
