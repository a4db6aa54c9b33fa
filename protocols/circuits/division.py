"""Exact integer division of secret integers that are given as bits: long division in a large radix.

Bits are anything with & ^ ~ that holds n lanes, as in `circuits.noise`. A number is a list of them,
lowest first; None stands for a bit that is 0 in every lane, and costs nothing. Logarithmic depth: carries
and borrows are parallel prefixes.
"""

from __future__ import annotations


def quotient(numerator, divisor, fraction_bits: int, smallest: int, radix_bits: int) -> list:
    """Return the bits of floor(2^fraction_bits numerator / divisor), exactly.

    Computes: long division, radix_bits bits of the quotient a step. A step appends as many bits of the
    numerator (zeros after its last) to the rest r and subtracts from it all multiples t d, t < radix, at
    once; the digit is the largest t whose subtraction borrows nothing, and its difference the new rest.
    Guarantees: exact for every numerator >= 0 and every divisor >= smallest, by induction over the
    steps: they keep numerator' = quotient d + r and 0 <= r < d, where numerator' is what has been appended.
    Both hold at first: the quotient is 0 and r < 2^k <= smallest <= d, k bits. And if r < d, then
    2^j r + (appended bits) < 2^j d, so that one digit below 2^j leaves a rest in [0, d), and so few bits
    of it can be other than 0 that no more than d's are kept.  [test: tests/protocols/test_division.py]
    Edge cases: a divisor below `smallest` makes a wrong quotient, of as many bits.
    Args: smallest: public, >= 1; radix_bits: bits of a digit; larger is fewer rounds and more ANDs.
    Returns: fraction_bits + len(numerator) - floor(log2 smallest) bits.
    """
    known = smallest.bit_length() - 1
    left = [None] * fraction_bits + list(numerator)
    rest = left[len(left) - known :]
    left = left[: len(left) - known]
    radix_bits = min(radix_bits, len(left), len(divisor))
    times = _multiples(list(divisor), radix_bits)
    found: list = []
    while left:
        bits = len(left) % radix_bits or radix_bits
        rest = left[-bits:] + rest
        left = left[:-bits]
        digit, rest = _divide_once(rest, times[: 1 << bits], bits)
        found = digit + found
    return found


def add(a, b) -> list:
    """Return the bits of a + b, one more than the longer has."""
    low = _zeros_below(b)
    if low:
        return [*_padded(a, low)[:low], *add(a[low:], b[low:])]
    pairs = _pairs(a, b)
    carries = _prefix([_and(x, y) for x, y in pairs], [_xor(x, y) for x, y in pairs])
    return [_xor(_xor(x, y), carry) for (x, y), carry in zip(pairs, [None, *carries])] + carries[-1:]


def subtract(a, b):
    """Return the bits of a - b, modulo 2^(their width), and the bit [a < b]; b is not 0 throughout."""
    low = _zeros_below(b)
    if low:
        difference, less = subtract(a[low:], b[low:])
        return [*_padded(a, low)[:low], *difference], less
    pairs = _pairs(a, b)
    other = [_xor(x, y) for x, y in pairs]
    # Equal bits pass a borrow on; None in `_prefix`, which two zeros make, is what always does.
    same = [None if bit is None else ~bit for bit in other]
    borrows = _prefix([_and_not(y, x) for x, y in pairs], same)
    return [_xor(bit, borrow) for bit, borrow in zip(other, [None, *borrows])], borrows[-1]


def _divide_once(rest, times, digit_bits: int):
    """Return one digit's bits and the new rest. Args: times: the multiples of the divisor, by factor."""
    differences, less = zip(*(subtract(rest, multiple) for multiple in times[1:]))
    # Differences borrow from some factor on: which one is the digit is where that changes.
    is_digit = [less[0], *(one ^ next_one for one, next_one in zip(less, less[1:])), ~less[-1]]
    digit = [_xor_all([is_digit[t] for t in range(len(times)) if t >> i & 1]) for i in range(digit_bits)]
    candidates = [rest, *differences]
    width = min(len(rest), len(times[1]))
    chosen = [
        _xor_all([_and(chosen, bits[i]) for chosen, bits in zip(is_digit, candidates)]) for i in range(width)
    ]
    return digit, chosen


def _multiples(number, radix_bits: int) -> list:
    """Return t times the number for t < 2^radix_bits, as bits."""
    times = [[], number]
    for t in range(2, 1 << radix_bits):
        if t % 2 == 0:
            times.append([None, *times[t // 2]])
        elif t & (t + 1) == 0 and t > 3:  # 2^i - 1: one subtraction, not a chain of additions
            times.append(subtract([None] * t.bit_length() + number, number)[0])
        else:
            high = 1 << t.bit_length() - 1
            times.append(add(times[t - high], [None] * (t.bit_length() - 1) + number))
    return times


def _prefix(generate, propagate) -> list:
    """Return, per position, whether it or one below generates and all between propagate (Sklansky).

    Args: generate: None never does; propagate: None always does.
    """
    generate, propagate = list(generate), list(propagate)
    step = 1
    while step < len(generate):
        for i in range(len(generate)):
            if i & step:
                j = i // step * step - 1
                # Exclusive: what generates does not propagate.
                passed = generate[j] if propagate[i] is None else _and(propagate[i], generate[j])
                generate[i] = _xor(generate[i], passed)
                if j >= step:
                    propagate[i] = _always_and(propagate[i], propagate[j])
        step *= 2
    return generate


def _zeros_below(number) -> int:
    return next(i for i, bit in enumerate(number) if bit is not None)


def _pairs(a, b) -> list:
    width = max(len(a), len(b))
    return list(zip(_padded(a, width), _padded(b, width)))


def _padded(bits, width: int) -> list:
    return [*bits, *[None] * (width - len(bits))]


def _and(x, y):
    return None if x is None or y is None else x & y


def _always_and(x, y):
    """Return x and y, where None is a bit that is 1."""
    if x is None or y is None:
        return y if x is None else x
    return x & y


def _and_not(x, y):
    """Return x and not y."""
    return x if x is None or y is None else x & ~y


def _xor(x, y):
    if x is None or y is None:
        return x if y is None else y
    return x ^ y


def _xor_all(bits):
    total = None
    for bit in bits:
        total = _xor(total, bit)
    return total
