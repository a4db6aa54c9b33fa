"""Exact reading of numbers, and rounding that never flatters privacy or a budget."""

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

_POWER = re.compile(r"(\d{1,3})\^(-?\d{1,3})")
_RATIO = re.compile("[1-9][0-9]{0,399}/[1-9][0-9]{0,399}")  # fractions in messages and files
_LONGEST = 40  # characters of any other number


def exact_number(text: str) -> Fraction | None:
    """Read a number written as `1`, `0.1`, `1/3`, `1e-3` or `2^-40`.

    Args:
        text: The text, which anybody may have written.
    Returns:
        The number, exactly; None if the text is no such number, or is too long to be one.
    """
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
    """Return the least float that is not below a number.

    Args:
        value: The number.
    Returns:
        The float.
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def digits_up(value: Fraction, digits: int) -> str:
    """Return a number in decimal digits, rounded up.

    Args:
        value: The number.
        digits: How many significant digits are written.
    Returns:
        The text, with an exponent where the number is very large or very small.
    """
    return _digits(value, digits, ROUND_CEILING)


def digits_down(value: Fraction, digits: int) -> str:
    """Return a number in decimal digits, rounded down.

    Args:
        value: The number.
        digits: How many significant digits are written.
    Returns:
        The text, with an exponent where the number is very large or very small.
    """
    return _digits(value, digits, ROUND_FLOOR)


def exact_text(value: Fraction) -> str:
    """Return a number exactly, as options take it: 1/5 as 0.2, a third as 1/3.

    Args:
        value: The number.
    Returns:
        The text, which `exact_number` reads as the same number.
    """
    short = f"{float(value):.6g}".replace("e-0", "e-")
    if Fraction(short) == value:
        return short
    return str(value)


def interval_shown(low: float, high: float, decimals: int) -> str:
    """Return an interval rounded outwards, after rounding to the twelfth decimal.

    [test: tests/harness/pipeline/test_manifest.py]

    Args:
        low: The lower end; may be infinite.
        high: The upper end; may be infinite.
        decimals: How many decimals are written.
    Returns:
        Both ends, with a dash between them.
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
