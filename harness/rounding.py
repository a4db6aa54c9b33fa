"""Rounds what is spent up and what is left down: nothing that is shown is better than what holds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction


def float_up(value: Fraction) -> float:
    """Return the least float that is not below value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def digits_up(value: Fraction, digits: int) -> str:
    """Return value with so many significant digits, rounded up: 0.99700211 as 0.9971 for 4."""
    return _digits(value, digits, ROUND_CEILING)


def digits_down(value: Fraction, digits: int) -> str:
    """Return value with so many significant digits, rounded down: 0.99709 as 0.9970 for 4."""
    return _digits(value, digits, ROUND_FLOOR)


def _digits(value: Fraction, digits: int, rounding: str) -> str:
    context = Context(prec=digits, rounding=rounding)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{rounded:g}" if abs(rounded.adjusted()) < 5 else f"{rounded:e}"
