"""Values of a column as names and texts: what a table's own types stand for in files and messages."""

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
    """Return a column's values as they would stand in a CSV file: 1 for 1.0; missing ones empty.

    Floats are whole numbers if all of the column's are: a missing value makes floats of them.
    """
    floats = [value for value in values if isinstance(value, float) and not math.isnan(value)]
    are_whole = all(abs(value) < 2**53 and value % 1 == 0 for value in floats)

    def text(value: Any) -> str:
        if are_whole and isinstance(value, float) and not math.isnan(value):
            return str(int(value))
        return str(value) if isinstance(value, str) or str(value) not in _MISSING else ""

    return [*map(text, values)]


def as_names(column: pd.Series) -> pd.Series:
    """Return a column of names: its values as `as_text` has them."""
    import pandas as pd

    return pd.Series(as_text(column.tolist()), index=column.index, name=column.name, dtype=str)


def shown(name: str) -> str:
    """Return a name as it stands in a list of names: quoted where it could be taken for two."""
    return repr(name) if "," in name or name != name.strip() else name


def refuse_variants(names: Sequence[str], what: str) -> None:
    """Refuse names that differ in blanks, case, Unicode form or how a number is written: most often one.

    Args: what: how the message calls them. Raises: RecordDomainError: names the two.
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
    """Say, for the end of a message, which declared name looks like this one; nothing if none does."""
    same = [other for other in declared if _plain(other) == _plain(name)]
    return (
        f"; only blanks, case or Unicode form set it apart from {same[0]!r}: write them alike" if same else ""
    )


def _plain(name: str) -> object:
    try:
        return float(name)
    except ValueError:
        return " ".join(unicodedata.normalize("NFKC", name).split()).casefold()
