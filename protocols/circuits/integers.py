"""Secret bits that become secret integers: each by itself, or a sum of them under a mask.

MP-SPDZ turns a bit into an integer by a daBit, a random bit that is shared in both ways. Where all parties
but one may collude it makes them of each party's bits by products of integers, which is most of what such
parties send. From three parties on a mask costs less: each party draws a number of 64 bits, and the mask is
their sum modulo 2^64. The mask is an integer at once, and each party knows the bits of its own number.
Adders of AND gates add the numbers and all bits of a sum. The result is opened, and the sum is the opened
number less the mask.

Source: masks of edaBits (Escudero et al. 2020), here of the parties' own and without a check, as in MP-SPDZ's
splitting of shares. Counts and measurements: docs/decisions/0091-any-number-of-parties.md.
"""

from __future__ import annotations

from fairshares.protocols.circuits.machine import parties_that_mask

MASK_BITS = 64  # the bits of a secret integer in a ring


def sum_of_bits(terms, secret_integer):
    """Return the sum of bits by weights in each lane, as secret integers.

    Guarantees: a mask is uniform for all who lack one party's number, and so is what is opened.
    [test: tests/protocols/test_integers.py, tests/programs/test_every_program_by_other_numbers.py]
    Reveals: nothing.

    Args:
        terms: Pairs of a secret bit of each lane and its weight, a whole number that may be negative.
        secret_integer: MP-SPDZ's sint, or a stand-in.
    Returns:
        The secret sums, a lane each.
    """
    parties = parties_that_mask(secret_integer)
    if parties:
        return _under_a_mask(terms, secret_integer, parties)
    return sum(secret_integer(bit) * weight for bit, weight in terms)


def _under_a_mask(terms, secret_integer, parties: int):
    (first, _), *_ = terms
    mask = secret_integer.get_random(size=first.n)
    columns = mask.split_to_n_summands(MASK_BITS, parties)
    constant = add_to_columns(columns, terms)
    opened = 0
    for place, bit in enumerate(sum_of_columns(columns)):
        opened = opened + (bit.reveal().to_regint_by_bit() << place)
    return secret_integer(opened) - mask + constant


def add_to_columns(columns, terms) -> int:
    """Add weighted bits to columns.

    Computes: a bit b of weight -w is (1 - b) w - w.

    Args:
        columns: Lists of bits, which get the bits; each bit of column i has the weight 2^i.
        terms: Pairs of a secret bit and its weight, a whole number that may be negative.
    Returns:
        The number that is to be added to the columns' sum.
    """
    constant = 0
    for bit, weight in terms:
        if weight < 0:
            constant += weight
            bit = ~bit
        for place in range(abs(weight).bit_length()):
            if abs(weight) >> place & 1:
                columns[place].append(bit)
    return constant


def sum_of_columns(columns) -> list:
    """Add up bits of several weights.

    Columns become shorter by adders of three or two bits, each an AND, all columns at once in steps of about
    two thirds, until none has more than two bits. What does not fit into the columns is dropped.

    Source: Dadda 1965, "Some schemes for parallel multipliers".
    [test: tests/protocols/test_integers.py]

    Args:
        columns: Lists of secret bits; each bit of column i has the weight 2^i.
    Returns:
        The bits of the sum modulo 2^n, lowest first, for n columns.
    """
    heights = [2]
    while heights[-1] < max(map(len, columns)):
        heights.append(heights[-1] * 3 // 2)
    for height in reversed(heights[:-1]):
        columns = _not_higher(columns, height)
    return _sum_of_two(columns)


def _not_higher(columns, height: int) -> list:
    """Return columns of at most so many bits with the same sum; carries out of the last one are dropped."""
    lower: list = []
    carries: list = []  # into the next column
    for column in columns:
        is_last = len(lower) == len(columns) - 1
        left = [*column, *carries]
        carries = []
        while len(left) > height:
            if len(left) == height + 1:
                a, b, *left = left
                left.append(a ^ b)
                if not is_last:
                    carries.append(a & b)
            else:
                a, b, c, *left = left
                left.append(a ^ b ^ c)
                if not is_last:
                    carries.append(a ^ ((a ^ b) & (a ^ c)))
        lower.append(left)
    return lower


def _sum_of_two(columns) -> list:
    """Add up columns of one or two bits each, with carries in logarithmic depth.

    Source: Brent and Kung 1982, "A regular layout for parallel adders".
    """
    halves = []
    # For a span of columns that ends at a column: the carry that leaves it if none comes in, None for 0; and
    # whether one that comes in leaves it, None if the span begins at column 0, into which none comes.
    carries: list = []
    passed: list = []
    for column in columns:
        half = column[0]
        carry = None
        if len(column) == 2:
            half = column[0] ^ column[1]
            carry = column[0] & column[1]
        halves.append(half)
        carries.append(carry)
        passed.append(half)
    passed[0] = None

    def join(end: int, end_before: int) -> None:
        """Make the span that ends at `end` one with the span before it."""
        if carries[end_before] is not None:
            carry = passed[end] & carries[end_before]
            carries[end] = carry if carries[end] is None else carry ^ carries[end]
        passed[end] = None if passed[end_before] is None else passed[end] & passed[end_before]

    last = len(columns) - 1  # whose carry is dropped
    span = 1
    while 2 * span <= last:
        for end in range(2 * span - 1, last, 2 * span):
            join(end, end - span)
        span *= 2
    while span > 1:
        span //= 2
        for end in range(3 * span - 1, last, 2 * span):
            join(end, end - span)
    total = [halves[0]]
    for half, carry in zip(halves[1:], carries):
        total.append(half if carry is None else half ^ carry)
    return total
