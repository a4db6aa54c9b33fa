"""Rounds upper bounds up, so that what is shown of a guarantee is never better than the guarantee."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction


def float_up(value: Fraction) -> float:
    """Return the least float that is not below value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def digits_up(value: Fraction, digits: int) -> str:
    """Return value with so many significant digits, rounded up: 0.99700211 as 0.9971 for 4."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{rounded:g}" if abs(rounded.adjusted()) < 5 else f"{rounded:e}"
