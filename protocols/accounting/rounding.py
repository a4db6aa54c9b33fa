"""Exact reading of numbers, and rounding that never flatters privacy or a budget."""

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

_POWER = re.compile(r"(\d{1,3})\^(-?\d{1,3})")
_RATIO = re.compile("[1-9][0-9]{0,399}/[1-9][0-9]{0,399}")  # fractions in messages and files
_LONGEST = 40  # characters of any other number


def exact_number(text: str) -> Fraction | None:
    """Return a number written as `1`, `0.1`, `1/3`, `1e-3` or `2^-40`, exactly; else None."""
    power = _POWER.fullmatch(text.strip())
    if power:
        base = int(power[1])
        exponent = int(power[2])
        if base == 0:
            return None
        return Fraction(base) ** exponent
    too_long = len(text) > _LONGEST and not _RATIO.fullmatch(text)
    if too_long or "_" in text or re.search(r"[eE][+-]?\d{4}", text):
        return None
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def float_up(value: Fraction) -> float:
    """Return the least float that is not below value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def digits_up(value: Fraction, digits: int) -> str:
    """Return value with `digits` significant digits, rounded up."""
    return _digits(value, digits, ROUND_CEILING)


def digits_down(value: Fraction, digits: int) -> str:
    """Return value with `digits` significant digits, rounded down."""
    return _digits(value, digits, ROUND_FLOOR)


def exact_text(value: Fraction) -> str:
    """Return value exactly, as options take it: 1/5 as 0.2, a third as 1/3."""
    short = f"{float(value):.6g}".replace("e-0", "e-")
    if Fraction(short) == value:
        return short
    return str(value)


def interval_shown(low: float, high: float, decimals: int) -> str:
    """Return an interval rounded outwards, after rounding to the twelfth decimal.

    [test: tests/harness/pipeline/test_manifest.py]
    """
    return f"{_end(low, decimals, ROUND_FLOOR)} – {_end(high, decimals, ROUND_CEILING)}"


def _end(value: float, decimals: int, rounding: str) -> str:
    if not math.isfinite(value):
        return f"{value}"
    exact = Decimal(str(round(float(value), 12)))
    rounded = exact.quantize(Decimal(1).scaleb(-decimals), rounding)
    return f"{rounded + 0:,f}"  # adding 0 turns -0.000 into 0.000


def _digits(value: Fraction, digits: int, rounding: str) -> str:
    context = Context(prec=digits, rounding=rounding)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{rounded:g}" if abs(rounded.adjusted()) < 5 else f"{rounded:e}"
