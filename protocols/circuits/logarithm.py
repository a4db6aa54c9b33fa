"""The piecewise linear logarithm to base 2 in whole numbers, of secret counts."""

from __future__ import annotations


def scale_bits(offset: int, most: int) -> int:
    """Return E, the bits of a shifted count below 2^E: those of `offset + most`.

    The logarithm is in units of 2^-E, so that every step of it is a whole number.
    """
    return (offset + most).bit_length()


def shifted_log(secret_integer, check_point, counts, offset: int, most: int):
    """Return the logarithm of count + offset over 2^o in units of 2^-E, 2^o being the most below `offset`.

    Source: Mitchell 1962, "Computer multiplication and division using binary logarithms": straight lines
    between the powers of 2.
    Computes: g(Y) = 2^(E-o) (Y - 2^o) - sum of 2^(E-i) max(0, Y - 2^i) over o < i < E, Y = count + offset;
    E - 1 - o comparisons per count, all at once, and one multiplication.
    Guarantees: g(Y + 1) - g(Y) is exactly 2^(E-i) for the greatest o <= i < E with 2^i <= Y, and 2^(E-o)
    below; it never rises with Y. Modulo 2^64, where >= 0 is of signed numbers, no step is above 2^(E-o),
    nor is that from 2^63 - 1 to -2^63; in a field only numbers that comparisons are for keep to that.
    [test: tests/protocols/test_logarithm.py, tests/programs/test_pi_count.py]
    Edge cases: beyond `most` the last straight line goes on; so does the first below 0.
    The comparisons' bits are checked before shares of what follows from them are sent.
    [test: tests/programs/test_check_before_opening.py]
    Args: secret_integer, check_point: MP-SPDZ's sint and check_point or what stands for them; counts: a
    secret vector; offset, most: >= 1.
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
