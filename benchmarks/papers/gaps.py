"""What Juarez and Korolova publish on measuring gaps under local privacy: Tables 1 and 2, Figures 1 to 4."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("gaps.json")


@cache
def gaps() -> dict[str, Any]:
    """Return what `gaps.json` holds; numbers as printed are text there."""
    found: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return found


def rounds_to(value: float, printed: str) -> bool:
    """Whether a number is what may have been rounded to the printed one."""
    exponent = Decimal(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    half = Fraction(10) ** exponent / 2
    return abs(Fraction(value) - Fraction(printed)) <= half
