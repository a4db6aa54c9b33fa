"""Columns of records: which there are, and of which dtypes; results have the same.

Dtypes are called as pandas calls them, which is not loaded for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from harness.errors import RecordDomainError, RecordsError, named
from harness.inputs.column_values import as_text, shown
from harness.system.spelling import similar

if TYPE_CHECKING:
    import pandas as pd

TABLE = "The table"  # what messages call one that is no file
ROLES = (
    "client_id",
    "group",
    "label",
    "score",
    "prediction",
    "value",
)  # of columns; calls take others' names for them
_TRUTH = {"true": True, "false": False}
CATEGORY_OF = "category of "  # the dtype of the categories
_WRITTEN = {
    "int64": re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII),
    "float64": re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?(e[-+]?\d\d?)?", re.ASCII | re.IGNORECASE),
    "bool": re.compile("true|false", re.IGNORECASE),
}
_NAMES = re.compile(  # dtypes of groups and labels
    rf"({CATEGORY_OF})?(u?int(8|16|32|64)|float(16|32|64)?|double|bool(ean)?|str(ing)?|large_string|object|"
    r"datetime64)(\[.*\])?",
    re.IGNORECASE,
)


def dtypes_of(frame: Any, names: Sequence[str]) -> dict[str, str]:
    """Return the columns' dtypes as pandas writes them, `category of` that of the categories."""
    schema, known = frame.collect_schema(), frame.implementation
    natives = frame.to_native().dtypes if known.is_pandas_like() or known.is_dask() else {}
    return {name: _dtype(schema[name], natives.get(name), frame, name) for name in names}


def _dtype(kind: Any, native: Any, frame: Any, name: str) -> str:
    if kind == nw.Object:
        kinds = {
            type(value.item() if isinstance(value, np.generic) else value) for value in frame[name].to_list()
        }
        alike = ("bool", {bool}), ("int64", {int}), ("float64", {int, float}), ("object", {str})
        return next(
            (dtype for dtype, types in alike if kinds - {type(None)} <= types), "objects of several types"
        )
    if kind in (nw.Categorical, nw.Enum):
        return f"{CATEGORY_OF}{native.categories.dtype if hasattr(native, 'categories') else 'str'}"
    if kind == nw.Datetime:
        return f"datetime64[{', '.join(filter(None, (kind.time_unit, kind.time_zone)))}]"
    return str(native or {"Boolean": "bool", "String": "str"}.get(str(kind), str(kind).lower()))


def dtype_of_texts(texts: Sequence[str]) -> str:
    """Return the dtype of a CSV file's column: int64, float64 or bool if all texts are written so, else str.

    A number with a zero in front, as 01, is a text.
    """
    kinds = (dtype for dtype, form in _WRITTEN.items() if texts and all(map(form.fullmatch, texts)))
    return next(kinds, "str")


def as_in_frame(texts: Sequence[str]) -> list[str]:
    """Return a CSV file's column as `as_text` has the column of a frame that was read from it."""
    distinct = [*dict.fromkeys(texts)]
    by_text = dict(zip(distinct, as_text(values_of(distinct, dtype_of_texts(distinct))), strict=True))
    return [by_text[text] for text in texts]


def values_of(names: Sequence[str], dtype: str) -> list[Any]:
    """Return the values that names stand for in a column of this dtype; of datetimes their texts.

    Args: dtype: as pandas writes it, or "category of" that of the categories.
    Raises: ValueError, OverflowError: they stand for none; KeyError: for no truth.
    """
    kind = dtype.removeprefix(CATEGORY_OF).lower().partition("[")[0]
    if kind.startswith("bool"):
        return [_TRUTH[name.lower()] for name in names]
    if kind == "datetime64":
        return [str(datetime.fromisoformat(name)) for name in names]
    read = float if kind.startswith(("float", "double")) else int if "int" in kind else None
    values: list[Any] = [*names] if read is None else np.array([*map(read, names)], dtype=kind).tolist()
    return values


def as_index(names: Sequence[str], dtype: str | None) -> pd.Index:
    """Return the values that names stand for as an index of this dtype. Args: dtype: None: of texts."""
    import pandas as pd

    if dtype is None:
        return pd.Index(names)
    inner = dtype.removeprefix(CATEGORY_OF)
    index: pd.Index = pd.Index(values_of(names, dtype), dtype=inner)
    return index if inner == dtype else index.astype("category")


def check_dtype(dtype: str, names: Sequence[str], where: str) -> None:
    """Refuse a column whose values cannot come back in results. Args: where: of which messages tell.

    Raises: RecordsError: it has no such values; RecordDomainError: not all of the names stand for one.
    """
    if not _NAMES.fullmatch(dtype):
        raise RecordsError(
            f"{where} as {dtype}, which names no groups or labels; make it text, numbers, truth, categories "
            "or datetimes."
        )
    try:
        values_of(names, dtype)
    except (KeyError, ValueError, OverflowError):
        raise RecordDomainError(
            f"{where} as {dtype}, and {', '.join(map(shown, names))} are declared, which are not all of that "
            "type; declare others, or make the column text."
        ) from None


def check_alike(by_file: Iterable[tuple[str, Sequence[str]]], name: str, texts: Sequence[str]) -> None:
    """Refuse a column that has numbers in one CSV file and texts in another.

    Args: by_file: yields each file's name and which texts the column has there; texts: in all of them.
    Raises: RecordsError: names two files.
    """
    if len({dtype_of_texts([text]) for text in texts}) == 1:
        return  # so it is in all of them
    of_types: dict[str, str] = {}
    for path, its_texts in by_file:
        dtype = dtype_of_texts(its_texts)
        example = max(its_texts, key=lambda text: dtype_of_texts([text]) == dtype)
        of_types.setdefault(dtype, f"{path} has the column {name} as {dtype} ({example!r})")
    if len(of_types) > 1:
        raise RecordsError(
            f"{' and '.join([*of_types.values()][:2])}; files that are read together have columns of the "
            f"same types: correct one, or declare all {name}s with {named(f'{name}s', 'a,b')}."
        )


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def present(path: str, header: list[str], names: Sequence[str], optional: str) -> list[str]:
    """Return which of the columns there are: all but an optional one, if that is there in no spelling.

    Raises: RecordsError: others are missing, or one is there twice.
    """
    if _plain(optional) not in map(_plain, header):
        names = [name for name in names if name != optional]
    if not header:
        raise RecordsError(f"{path} is empty; it needs a header with the columns {', '.join(names)}.")
    missing = [name for name in names if name not in header]
    if len(header) == 1 and any(separator in header[0] for separator in ";\t"):
        raise RecordsError(f"{path} seems to separate columns by semicolons or tabs; save it with commas.")
    if missing:
        hints = {
            "client_id": "add it, the same in all rows of one client, or the rows' numbers",
            "prediction": f"rename yours, or give a column score and {named('threshold', 0.5)}",
        }
        by_name = path == TABLE and missing[0] in ROLES
        usual = f"rename yours, or name it by {named(missing[0])}" if by_name else "rename yours"
        without = " and no column ".join(f"{name}{similar(name, header)}" for name in missing)
        raise RecordsError(
            f"{path} has no column {without}; it needs {', '.join(names)} (found: {', '.join(header)}); "
            f"{hints.get(missing[0], usual) if len(missing) == 1 else usual}."
        )
    repeated = [name for name in names if header.count(name) > 1]
    if repeated:
        raise RecordsError(f"{path} has the column {repeated[0]} twice; keep one.")
    return [*names]
