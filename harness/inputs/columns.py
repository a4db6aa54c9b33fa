"""Columns of records and their dtypes, by pandas' names."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from fairshares.harness.errors import RecordDomainError, RecordsError, named, refuse
from fairshares.harness.inputs.record_schema import shown
from fairshares.harness.system.spelling import similar

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.stable.v2.typing import IntoDataFrame, IntoFrame, IntoLazyFrame, IntoSeries
    from pandas.api.typing.aliases import DtypeObj

Frame: TypeAlias = "nw.DataFrame[IntoDataFrame] | nw.LazyFrame[IntoLazyFrame]"
"""A frame by narwhals, over anybody's."""

TypedName: TypeAlias = bool | int | float | str
"""A group's or label's name, as a column of a known dtype has it."""

T = TypeVar("T")

ColumnValues: TypeAlias = "Hashable | npt.ArrayLike | IntoFrame | IntoSeries"
"""What a caller gives as a column: its values, a row each, or what has none and is refused."""

TypedNames: TypeAlias = "npt.NDArray[np.bool_ | np.int64 | np.float64 | np.str_ | np.object_]"
"""Groups or labels as an array, of the dtype that their column has."""

TABLE = "The table"  # the name of a frame in messages
COLUMN_ROLES = (
    "client_id",
    "group",
    "label",
    "score",
    "prediction",
    "value",
)  # calls map columns of other names to these
_TRUTH = {"true": True, "false": False}
_INVISIBLE = ("Cf", "Cc")  # Unicode's categories of signs without width, marks of direction, and controls
_BLANK = re.compile(  # other signs for which nothing is shown, as Unicode has it, and blank letters
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
CATEGORY_OF = "category of "  # precedes the categories' dtype
ORDERED = "ordered "  # precedes that, where the categories have an order
_WRITTEN = {
    "int64": re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII),
    "float64": re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?(e[-+]?\d\d?)?", re.ASCII | re.IGNORECASE),
    "bool": re.compile("true|false", re.IGNORECASE),
}
_NAMES = re.compile(  # dtypes of groups and labels
    rf"(({ORDERED})?{CATEGORY_OF})?(u?int(8|16|32|64)|float(16|32|64)?|double|bool(ean)?|str(ing)?|large_string|object|"
    r"datetime64)(\[.*\])?",
    re.IGNORECASE,
)


_HALF = re.compile("float16|halffloat", re.IGNORECASE)
BETWEEN = " & "  # stands between the values of several columns, in the name of the group that they make
UNJOINED = "write that value otherwise, for example with and"


def dtypes_of(frame: Frame, names: Sequence[str]) -> dict[str, str]:
    """Return dtypes as pandas writes them, after "category of", or "ordered category of", for categories."""
    schema = frame.collect_schema()
    native = frame.to_native()
    known = frame.implementation
    natives: Mapping[str, DtypeObj] = {}
    if (known.is_pandas_like() or known.is_dask()) and hasattr(native, "dtypes"):
        natives = native.dtypes
    return {name: _dtype(schema[name], natives.get(name), frame, name) for name in names}


def _dtype(kind: nw.dtypes.DType, native: DtypeObj | None, frame: Frame, name: str) -> str:
    if kind == nw.Object:
        kinds = {
            type(value.item() if isinstance(value, np.generic) else value) for value in frame[name].to_list()
        }
        kinds -= {type(None)}
        if kinds == {int}:
            return _dtype_of_integers([value for value in frame[name].to_list() if value is not None])
        alike = ("bool", {bool}), ("float64", {int, float}), ("object", {str})
        for dtype, types in alike:
            if kinds <= types:
                return dtype
        if len(kinds) > 1:
            return "objects of several types"
        return f"objects of the type {kinds.pop().__name__}"
    if kind in (nw.Categorical, nw.Enum):
        categories = getattr(native, "categories", None)
        ordered = ORDERED if kind == nw.Enum else ""
        return f"{ordered}{CATEGORY_OF}{'str' if categories is None else categories.dtype}"
    if isinstance(kind, nw.Datetime):
        return f"datetime64[{', '.join(filter(None, (kind.time_unit, kind.time_zone)))}]"
    return str(native or {"Boolean": "bool", "String": "str"}.get(str(kind), str(kind).lower()))


def _dtype_of_integers(values: Sequence[int]) -> str:
    """Return the dtype of Python's integers, or a description if no dtype has them."""
    if all(-(2**63) <= value < 2**63 for value in values):
        return "int64"
    if all(0 <= value < 2**64 for value in values):
        return "uint64"
    return "integers of more than 64 bits"


def orders_of(frame: Frame, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the categories, in order, of those columns whose categories have an order."""
    schema = frame.collect_schema()
    kinds = {name: schema[name] for name in names}
    return {name: as_text(kind.categories) for name, kind in kinds.items() if isinstance(kind, nw.Enum)}


def in_order_of(names: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    """Return names in an order that has all of them, or else as they are."""
    if not {*names} <= {*order}:
        return tuple(names)
    return tuple(sorted(names, key=order.index))


def _of_categories(dtype: str) -> str:
    """Return the dtype of the categories, or of a column's own values."""
    return dtype.removeprefix(ORDERED).removeprefix(CATEGORY_OF)


def dtype_of_texts(texts: Sequence[str]) -> str:
    """Return a CSV column's dtype: int64, float64 or bool if all texts have that form, else str.

    01 and the like are str.
    """
    return next(
        (dtype for dtype, form in _WRITTEN.items() if texts and all(map(form.fullmatch, texts))), "str"
    )


def texts_as_in_frames(texts: Sequence[str]) -> tuple[list[str], str]:
    """Return a CSV column's texts as a frame would have them, a 1.0 as 1, and the column's dtype."""
    distinct = [*dict.fromkeys(texts)]
    dtype = dtype_of_texts(distinct)
    in_frame = dict(zip(distinct, as_text(values_of(distinct, dtype)), strict=True))
    return [in_frame[text] for text in texts], dtype


def values_of(names: Sequence[str], dtype: str) -> Sequence[TypedName]:
    """Return the values of names in a column of a dtype; datetimes stay texts.

    Raises ValueError, OverflowError or KeyError for others.
    """
    kind = _of_categories(dtype).lower().partition("[")[0]
    if kind.startswith("bool"):
        return [_TRUTH[name.lower()] for name in names]
    if kind == "datetime64":
        return [str(datetime.fromisoformat(name)) for name in names]
    if kind.startswith(("float", "double")):
        floats: list[float] = np.array([float(name) for name in names], dtype=kind).tolist()
        return floats
    if "int" in kind:
        integers: list[int] = np.array([int(name) for name in names], dtype=kind).tolist()
        return integers
    return [*names]


def as_index(names: Sequence[str], dtype: str | None) -> pd.Index[TypedName]:
    """Return the values of names as an index; without a dtype, the names."""
    import pandas as pd

    if dtype is None:
        return pd.Index(names)
    inner = _of_categories(dtype)
    index: pd.Index[TypedName] = pd.Index(np.array(values_of(names, dtype), dtype=object), dtype=inner)
    if dtype.startswith(ORDERED):
        return index.astype(pd.CategoricalDtype(index, ordered=True))
    return index if inner == dtype else index.astype("category")


def refuse_half(dtype: str, where: str) -> None:
    """Raise RecordsError for numbers of half precision, by which pandas neither groups nor indexes."""
    if _HALF.search(dtype):
        raise RecordsError(
            f"{where} as {dtype}, by which pandas neither groups nor makes an index; make it float32."
        )


def check_dtype(dtype: str, names: Sequence[str], where: str) -> None:
    """Raise RecordsError or RecordDomainError for a column whose values results could not repeat."""
    if not _NAMES.fullmatch(dtype):
        instead = (
            "text, integers of 64 bits, floating-point numbers, truth, categories of these, or datetimes"
        )
        raise RecordsError(f"{where} as {dtype}, which names no groups or labels; make it {instead}.")
    refuse_half(dtype, where)
    try:
        values_of(names, dtype)
    except (KeyError, ValueError, OverflowError):
        raise RecordDomainError(
            f"{where} as {dtype}, and {', '.join(map(shown, names))} are declared, which are not all of that "
            "type; declare others, or make the column text."
        ) from None


def check_alike(by_file: Iterable[tuple[str, Sequence[str]]], name: str, texts: Sequence[str]) -> None:
    """Raise RecordsError for a column that is numbers in one CSV file and text in another."""
    if len({dtype_of_texts([text]) for text in texts}) == 1:
        return  # every file has this type
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


@dataclass(frozen=True)
class WantedColumns:
    """The columns that are to be read of a source, by the source's names.

    Attributes:
        names: The columns.
        optional: The one among them that may be missing; None for none.
        can_be_named: Whether a caller can name another column in the place of each. A message on a missing
            column then says so.
    """

    names: tuple[str, ...]
    optional: str | None = None
    can_be_named: bool = False

    def present_in(self, path: str, header: Sequence[str]) -> list[str]:
        """Return the columns that a source has.

        Args:
            path: The source in messages.
            header: The names of its columns.

        Raises:
            RecordsError: There is no header, a column is there twice, or one that is not optional is missing.
        """
        names = list(self.names)
        if self.optional is not None and _plain(self.optional) not in map(_plain, header):
            names = [name for name in names if name != self.optional]
        refuse(
            RecordsError,
            (not header, f"{path} is empty; it needs a header with the columns {', '.join(names)}."),
            (
                len(header) == 1 and any(separator in header[0] for separator in ";\t"),
                f"{path} seems to separate columns by semicolons or tabs; save it with commas.",
            ),
        )
        missing = [name for name in names if name not in header]
        if missing:
            without = " and no column ".join(f"{name}{similar(name, header)}" for name in missing)
            raise RecordsError(
                f"{path} has no column {without}; it needs {', '.join(names)} (found: {', '.join(header)}); "
                f"{self._way_out(missing, header)}."
            )
        repeated = [name for name in names if header.count(name) > 1]
        if repeated:
            raise RecordsError(f"{path} has the column {repeated[0]} twice; keep one.")
        return names

    def _way_out(self, missing: Sequence[str], header: Sequence[str]) -> str:
        """Return the remedy for missing columns, as the end of a sentence."""
        if len(missing) > 1 and all(name.startswith("score_") for name in missing):
            return "for two labels one column, score, is enough"
        of_labels = [name for name in header if name.startswith("score_")]
        if missing == ["client_id"]:
            return "add it, the same in all rows of one client, or the rows' numbers"
        if missing == ["prediction"]:
            return f"rename yours, or give a column score and {named('threshold', 0.5)}"
        if missing == ["score"] and of_labels:
            return (
                f"if each label has its own, such as {of_labels[0]}, declare {named('groups')} and "
                f"{named('labels')}"
            )
        if self.can_be_named and missing[0] in COLUMN_ROLES:
            return f"rename yours, or name it by {named(missing[0])}"
        return "rename yours"


_MISSING = ("None", "nan", "NaN", "<NA>", "NaT")  # the texts of Python, numpy and pandas for a missing value


def as_text(values: Sequence[Hashable]) -> list[str]:
    """Return values as texts of a CSV file, "" for a missing one.

    Floats that are all whole become integers: missing values made them floats.
    """
    floats = [value for value in values if isinstance(value, float) and not math.isnan(value)]
    are_whole = all(abs(value) < 2**53 and value % 1 == 0 for value in floats)

    def text(value: Hashable) -> str:
        if are_whole and isinstance(value, float) and not math.isnan(value):
            return str(int(value))
        return str(value) if isinstance(value, str) or str(value) not in _MISSING else ""

    return [*map(text, values)]


def is_empty(text: str) -> bool:
    """Return whether a text stands for a missing value."""
    return text.strip().lower() in ("", "nan")


def holds_separator(text: str) -> bool:
    """Return whether a value's text could be taken for the values of two columns, or for a part of them."""
    return BETWEEN in f" {text} "


def cross(columns: Sequence[Sequence[Hashable]]) -> list[str]:
    """Return the name of each row's group, from its values in several columns, as "black & f".

    A missing value in any column makes the group a missing value, "". Each value is read by itself, so that
    a row has the same name in a part of a table.
    Guarantees: unlike texts make unlike names, unless `holds_separator` is true of one.
    [test: tests/harness/inputs/test_crossed_columns.py]
    """
    texts = []
    for column in columns:
        texts.append([as_text([value])[0] for value in column])
    names = []
    for row in zip(*texts, strict=True):
        names.append("" if any(map(is_empty, row)) else BETWEEN.join(row))
    return names


def values_alone(given: T) -> T | IntoSeries | npt.NDArray[np.object_]:
    """Return values of shape (n, 1), a row each, as values of shape (n,), and others as they are."""
    known = nw.from_native(given, pass_through=True)
    if isinstance(known, nw.DataFrame | nw.LazyFrame):
        if len(known.collect_schema().names()) != 1:
            return given
        frame = known.collect() if isinstance(known, nw.LazyFrame) else known
        alone: IntoSeries = frame[:, 0].to_native()
        return alone
    if not isinstance(given, list | tuple | np.ndarray) or not len(given) or np.ndim(given[0]) != 1:
        return given
    if np.asarray(given, dtype=object).shape != (len(given), 1):
        return given
    return np.asarray(given)[:, 0]


def one_column(given: T, what: str) -> T | IntoSeries | list[str] | npt.NDArray[np.object_]:
    """Return the values of several columns as one, by `cross`; values of a single column as they are.

    Args:
        given: Values of shape (n,), or a frame or an array of shape (n, k), k >= 1.
        what: Begins messages.
    Raises:
        RecordsError: `holds_separator` is true of a value.
    """
    import pandas as pd

    alone = values_alone(given)
    if alone is not given:
        return alone
    known = nw.from_native(given, pass_through=True)
    if isinstance(known, nw.DataFrame | nw.LazyFrame):
        frame = known.collect() if isinstance(known, nw.LazyFrame) else known
        columns = [frame[:, place].to_list() for place in range(frame.shape[1])]
        return pd.Series(_crossed(columns, what), index=nw.maybe_get_index(frame), dtype=str)
    if not isinstance(given, list | tuple | np.ndarray) or not len(given) or np.ndim(given[0]) != 1:
        return given
    rows = np.asarray(given, dtype=object)
    if rows.ndim != 2:
        return given  # its rows differ in length, which whoever reads it says
    return _crossed(rows.T.tolist(), what)


def _crossed(columns: Sequence[Sequence[Hashable]], what: str) -> list[str]:
    """Return `cross` of values in memory, or raise RecordsError."""
    for column in columns:
        for row, value in enumerate(column):
            if holds_separator(str(value)):
                raise RecordsError(
                    f"{what} has the value {value!r} in row {row}, counted from 0, and {BETWEEN!r} stands "
                    f"between the values of several columns; {UNJOINED}."
                )
    return cross(columns)


def as_names(column: pd.Series[TypedName]) -> pd.Series[str]:
    """Return a column of the texts of `as_text`."""
    import pandas as pd

    return pd.Series(as_text(column.tolist()), index=column.index, name=column.name, dtype=str)


def refuse_variants(names: Sequence[str], what: str) -> None:
    """Raise RecordDomainError for names that differ only in blanks, case, Unicode form or a number's form."""
    by_plain_name: dict[Decimal | str, str] = {}
    for name in names:
        other = by_plain_name.setdefault(_folded(name), name)
        if other != name:
            raise RecordDomainError(
                f"{what} {other!r} and {name!r}, which look like one; write them alike, or declare both "
                f"with {named('domain')}."
            )


def alike(name: str, declared: Sequence[str]) -> str:
    """Return a message's end on a similar declared name, if any."""
    for other in declared:
        if _folded(other) == _folded(name):
            return f"; only blanks, case or Unicode form set it apart from {other!r}: write them alike"
    return ""


def _folded(name: str) -> Decimal | str:
    """Return the number that a name writes, else its text without what a reader can't see or tell apart."""
    try:
        number = Decimal(name)
    except InvalidOperation:
        number = Decimal("nan")
    if number.is_finite():
        return number
    visible = "".join(sign for sign in name if sign.isspace() or not _is_invisible(sign))
    return " ".join(unicodedata.normalize("NFKC", visible).split()).casefold()


def _is_invisible(sign: str) -> bool:
    return unicodedata.category(sign) in _INVISIBLE or _BLANK.match(sign) is not None
