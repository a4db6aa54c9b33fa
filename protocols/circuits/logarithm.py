"""The piecewise linear logarithm to base 2 of secret counts."""

from __future__ import annotations


def scale_bits(offset: int, most: int) -> int:
    """Return E, for which steps in units of 2^-E are whole.

    Args:
        offset: The public number that is added to a count, at least 1.
        most: The largest count.
    Returns:
        E.
    """
    return (offset + most).bit_length()


def shifted_log(secret_integer, check_point, counts, offset: int, most: int):
    """Return log2(count + offset) - o in units of 2^-E, o the whole part of log2(offset).

    Source: Mitchell 1962, "Computer multiplication and division using binary logarithms": straight lines
    between the powers of 2, the last of which goes on beyond `most`, the first below 0.
    Computes: g(Y) = 2^(E-o) (Y - 2^o) - sum of 2^(E-i) max(0, Y - 2^i) over o < i < E, Y = count + offset, by
    one comparison for each i, all at once, and one multiplication.
    Guarantees: g(Y + 1) - g(Y) never rises with Y. Modulo 2^64 no step is above 2^(E-o), not even from 2^63 -
    1 to -2^63; in a field that holds only for numbers that comparisons are for.
    [test: tests/protocols/test_logarithm.py, tests/programs/test_pi_count.py]
    Comparisons' bits are checked before shares of anything that depends on them are sent.
    [test: tests/programs/test_check_before_opening.py]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        check_point: MP-SPDZ's function that ends the run if a share was tampered with, or a stand-in.
        counts: The secret counts, shape (n,).
        offset: The public number that is added to a count, at least 1.
        most: The largest count.
    Returns:
        The secret logarithms, shape (n,).
    """
    bits, lowest = scale_bits(offset, most), offset.bit_length() - 1
    lanes, powers = len(counts), range(lowest + 1, bits)
    shifted = counts + offset
    line = (shifted - (1 << lowest)) * (1 << (bits - lowest))
    if not powers:
        return line
    reached = secret_integer.concat([shifted - (1 << i) for i in powers]) >= 0
    check_point()
    reached = [reached.get_vector(j * lanes, lanes) for j in range(len(powers))]
    slope = sum(one * (1 << (bits - i)) for i, one in zip(powers, reached))
    return line - shifted * slope + sum(reached) * (1 << bits)
