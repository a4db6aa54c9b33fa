"""Tables of strings from CSV and Parquet files and from pandas, with what people know their rows by."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import RecordDomainError, RecordsError, named
from harness.inputs.record_schema import as_names

if TYPE_CHECKING:  # pandas and pyarrow take a second to load: functions that need them load them
    import pandas as pd


Columns = Mapping[str, Sequence[str]]  # by name, of equal lengths
TABLE = "The table"  # what messages call one that is no file


def read_table(
    source: Path | pd.DataFrame, names: Sequence[str], say: Callable[[str], None] | None = None
) -> tuple[Columns, Sequence[Any]]:
    """Return the named columns as strings, and what the records go by: a file's numbers, a table's index.

    Args: say: a row with too few values, or too many, is left out and said by this; None: it is refused.
    Raises: RecordsError: the file cannot be read, or lacks a column.
    """
    if not isinstance(source, Path):
        _check_columns(TABLE, list(map(str, source.columns)), names)
        return _columns(source[list(names)].apply(as_names)), source.index.tolist()
    path = source
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = _read_parquet(path, names)
            return _columns(frame), range(1, len(frame) + 1)
        return _read_csv(path, names, say)
    except IsADirectoryError:
        raise RecordsError(f"{path} is a directory; name the CSV or Parquet file in it.") from None
    except OSError as error:
        raise RecordsError(f"Cannot read {path}: {str(error.strerror or error).rstrip('.')}.") from None


def _read_csv(
    path: Path, names: Sequence[str], say: Callable[[str], None] | None
) -> tuple[Columns, Sequence[int]]:
    """Read CSV as a spreadsheet numbers it: the header is row 1, a blank line is a row without a record."""
    columns: tuple[list[str], ...] = tuple([] for _ in names)
    numbers: list[int] = []
    row = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            _check_columns(path, header, names)
            places = list(zip(columns, map(header.index, names), strict=True))
            for row, values in enumerate(lines, 2):
                if len(values) != len(header):
                    if not "".join(values).strip():
                        continue
                    fault = f"{path}, row {row} has {len(values)} values where the header has {len(header)}"
                    if say is None:
                        raise RecordsError(
                            f"{fault}; put a value with a comma in it between quotation marks."
                        )
                    say(f"{fault}; left out.")
                    continue
                numbers.append(row)
                for column, place in places:
                    column.append(values[place])
    except UnicodeDecodeError:
        raise RecordsError(f"{path} is not UTF-8 text; save it as CSV in UTF-8, or as Parquet.") from None
    except csv.Error as error:
        raise RecordsError(
            f"{path} is not a well-formed CSV file after row {row}: {error}; a value with a comma or "
            "a line break in it begins and ends with a quotation mark."
        ) from None
    return dict(zip(names, columns, strict=True)), numbers


def _columns(frame: pd.DataFrame) -> Columns:
    return {str(name): frame[name].tolist() for name in frame}


def _read_parquet(path: Path, names: Sequence[str]) -> pd.DataFrame:
    import pyarrow.parquet

    try:
        _check_columns(path, pyarrow.parquet.read_schema(path).names, names)
        frame: pd.DataFrame = pyarrow.parquet.read_table(path, columns=list(names)).to_pandas(
            ignore_metadata=True  # which may make a column an index
        )
    except pyarrow.ArrowInvalid:
        raise RecordsError(f"{path} is not a readable Parquet file.") from None
    return frame.apply(as_names)


def table_of(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return columns as one table, with their index if they have one.

    Args: columns: by name: pandas Series of one index, numpy arrays or lists, of shape (n,) each.
    Raises: RecordsError: they do not belong to the same rows.
    """
    import numpy as np
    import pandas as pd

    indices = [each.index for each in columns.values() if isinstance(each, pd.Series)]
    names = " and ".join(filter(None, (", ".join([*columns][:-1]), [*columns][-1])))
    if any(not indices[0].equals(index) for index in indices):
        raise RecordsError(f"{names} must have the same index: they belong to the same rows.")
    shapes = [np.shape(each) for each in columns.values()]
    if len({*shapes}) > 1 or len(shapes[0]) != 1:
        raise RecordsError(
            f"{names} must have one value per row each; their shapes are {', '.join(map(str, shapes))}."
        )
    table = pd.DataFrame({name: pd.Series(each).reset_index(drop=True) for name, each in columns.items()})
    return table.set_index(indices[0]) if indices else table


def _check_columns(path: Path | str, header: list[str], names: Sequence[str]) -> None:
    if not header:
        raise RecordsError(f"{path} is empty; it needs a header with the columns {', '.join(names)}.")
    missing = [name for name in names if name not in header]
    if len(header) == 1 and any(separator in header[0] for separator in ";\t"):
        raise RecordsError(f"{path} seems to separate columns by semicolons or tabs; save it with commas.")
    if missing:
        cased = [name for name in missing if any(name == other.strip().lower() for other in header)]
        so = "; write them exactly so, in small letters, without blanks" if cased else ""
        hints = {
            "client_id": "; number the rows if each is of another client",
            "prediction": f"; by {named('threshold', 0.5)} it follows from a column score",
        }
        hint = "" if so or len(missing) > 1 else hints.get(missing[0], "")
        raise RecordsError(
            f"{path} has no column {' and no column '.join(missing)}; it needs {', '.join(names)} "
            f"(found: {', '.join(header)}{so}){hint}."
        )
    repeated = [name for name in names if header.count(name) > 1]
    if repeated:
        raise RecordsError(f"{path} has the column {repeated[0]} twice; keep one.")


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
