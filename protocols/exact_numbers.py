"""Exact numbers in files that others may have made."""

import re
from fractions import Fraction

MAX_DIGITS = 4300  # digits of a numerator or denominator in a file; Python reads no longer integers
_SHOWN = 20  # characters of a text that is no number
_STATED = re.compile(f"[0-9]{{1,{MAX_DIGITS}}}(/[1-9][0-9]{{0,{MAX_DIGITS - 1}}})?")


def stated_number(text: object) -> Fraction:
    """Return a number as files state it exactly, `str` of a Fraction that is not negative.

    Guarantees: time and memory are small whatever the text is; exponents, for example `1e400000000`, are no
    part of what files have.
    [test: tests/harness/system/test_hostile_files.py]

    Args:
        text: What a file holds in the number's place.
    Returns:
        The number, exactly.
    Raises:
        ValueError: The text is something else, or has more than `MAX_DIGITS` digits above or below the line.
    """
    if not isinstance(text, str) or not _STATED.fullmatch(text):
        shown = repr(text[:_SHOWN]) if isinstance(text, str) else type(text).__name__
        raise ValueError(f"{shown} is no exact number of at most {MAX_DIGITS} digits, such as '355/113'")
    return Fraction(text)
