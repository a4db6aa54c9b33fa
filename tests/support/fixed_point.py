"""MP-SPDZ's fixed point, 16 of 31 bits behind the point: all values that random rounding may lead to.

Numbers are integers in units of 2^-16. A product is rounded down or, if it is inexact, up: whichever happens.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

ONE = 1 << 16
_WIDTH = 31
# The rational approximation of log2 on [1/2, 1]: Hart et al., "Computer Approximations", LOG2 2524.
_NUMERATOR = (-2.05466671951, -8.8626599391, 6.10585199015, 4.81147460989)
_DENOMINATOR = (0.353553425277, 4.54517087629, 6.42784209029, 1.0)

Rounded = Callable[[int, int], int]
"""Divides by 2 to a power, and rounds."""


def outcomes(compute: Callable[[Rounded], int]) -> frozenset[int]:
    """Return what a computation may give, whichever way each of its roundings goes."""
    values = set[int]()
    todo: list[tuple[int, ...]] = [()]
    while todo:
        ways = todo.pop()
        taken: list[int] = []

        def rounded(value: int, bits: int, ways: tuple[int, ...] = ways, taken: list[int] = taken) -> int:
            floor, rest = divmod(value, 1 << bits)
            if not rest:
                return floor
            known = len(taken) < len(ways)
            if not known:
                todo.append((*taken, 1))
            taken.append(ways[len(taken)] if known else 0)
            return floor + taken[-1]

        values.add(compute(rounded))
    return frozenset(values)


def products(a: int, b: int) -> frozenset[int]:
    """Return what a * b may be."""
    return outcomes(lambda rounded: rounded(a * b, 16))


@cache
def quotients(a: int, b: int) -> frozenset[int]:
    """Return what a / b may be, 0 for b = 0: Goldschmidt's iteration (Catrina and Saxena 2010)."""
    scale = (1 << _WIDTH - abs(b).bit_length()) * ((b > 0) - (b < 0))

    def divide(rounded: Rounded) -> int:
        inverse = rounded((int(2.9142 * 2**_WIDTH) - 2 * b * scale) * scale, 2 * (_WIDTH - 16))
        error, quotient = ONE**2 - b * inverse, rounded(a * inverse, 16)
        for _ in range(3):
            quotient = rounded(quotient * (ONE**2 + error), 32)
            error = rounded(error * error, 32)
        return rounded(quotient * (ONE**2 + error), 32)

    return outcomes(divide)


@cache
def logarithms(x: int) -> frozenset[int]:
    """Return what ln(x) may be; of 0 it is that of a mantissa of 0, about -4.03."""
    mantissa = (x << _WIDTH - 1 - x.bit_length()) >> _WIDTH - 1 - 16
    exponent = (x.bit_length() - 16 if x else 0) * ONE
    return frozenset(
        logarithm
        for a in _cubic(_NUMERATOR, mantissa)
        for b in _cubic(_DENOMINATOR, mantissa)
        for binary in quotients(a, b)
        for logarithm in products(binary + exponent, _fixed(math.log(2)))
    )


def laplace(u: int, epsilon: str) -> frozenset[int]:
    """Return what the noise of a draw u from -2^15 to 2^15 - 1 may be: -b sgn(u) ln(1 - 2|u|)."""
    factor = -_fixed(float(1 / Fraction(epsilon))) * (1 if u >= 0 else -1)
    logs = logarithms(ONE - 2 * abs(u))
    return frozenset(x for log in logs for x in products(log, factor))


def _cubic(coefficients: tuple[float, ...], x: int) -> frozenset[int]:
    """Return what a polynomial of degree 3 may be; powers are rounded one by one, their combination once."""

    def evaluate(rounded: Rounded) -> int:
        square = rounded(x * x, 16)
        powers = (x, square, rounded(square * x, 16))
        terms = (_fixed(c) * power for c, power in zip(coefficients[1:], powers, strict=True))
        return rounded(sum(terms), 16) + _fixed(coefficients[0])

    return outcomes(evaluate)


def _fixed(constant: float) -> int:
    return round(constant * ONE)
