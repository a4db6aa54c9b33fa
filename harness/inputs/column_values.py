"""Column values as names and texts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.errors import RecordDomainError, named

if TYPE_CHECKING:
    import pandas as pd

_MISSING = ("None", "nan", "NaN", "<NA>", "NaT")  # what Python, numpy and pandas call a missing value


def as_text(values: Sequence[Any]) -> list[str]:
    """Return values as a CSV file has them, with nothing for a missing one.

    Whole floats become integers if all floats are whole, as missing values make floats of integers.
    """
    floats = [value for value in values if isinstance(value, float) and not math.isnan(value)]
    are_whole = all(abs(value) < 2**53 and value % 1 == 0 for value in floats)

    def text(value: Any) -> str:
        if are_whole and isinstance(value, float) and not math.isnan(value):
            return str(int(value))
        return str(value) if isinstance(value, str) or str(value) not in _MISSING else ""

    return [*map(text, values)]


def as_names(column: pd.Series) -> pd.Series:
    """Return a column as `as_text` writes it."""
    import pandas as pd

    return pd.Series(as_text(column.tolist()), index=column.index, name=column.name, dtype=str)


def shown(name: str) -> str:
    """Quote a name that a list could split in two."""
    return repr(name) if "," in name or name != name.strip() else name


def refuse_variants(names: Sequence[str], what: str) -> None:
    """Refuse names that differ only in blanks, case, Unicode form or the spelling of a number.

    Raises:
        RecordDomainError: The message begins with `what` and gives both names.
    """
    by_plain_name: dict[object, str] = {}
    for name in names:
        other = by_plain_name.setdefault(_plain(name), name)
        if other != name:
            raise RecordDomainError(
                f"{what} {other!r} and {name!r}, which look like one; write them alike, or declare both "
                f"with {named('domain')}."
            )


def alike(name: str, declared: Sequence[str]) -> str:
    """Return a message's end that points to a similar declared name, if any."""
    same = [other for other in declared if _plain(other) == _plain(name)]
    return (
        f"; only blanks, case or Unicode form set it apart from {same[0]!r}: write them alike" if same else ""
    )


def _plain(name: str) -> object:
    try:
        return float(name)
    except ValueError:
        return " ".join(unicodedata.normalize("NFKC", name).split()).casefold()
