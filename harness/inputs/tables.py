"""Records in frames that narwhals knows, and in CSV and Parquet files of any size.

A source's own engine counts the records; for files, DuckDB does.
"""

from __future__ import annotations

import csv
import glob
import re
import tempfile
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from fairshares.harness.errors import RecordsError, named, refuse
from fairshares.harness.inputs.columns import (
    TABLE,
    ColumnValues,
    Frame,
    WantedColumns,
    as_text,
    check_dtype,
    cross,
    dtypes_of,
    orders_of,
    refuse_half,
    texts_as_in_frames,
)
from fairshares.harness.inputs.record_schema import Grid, even_grid
from fairshares.harness.system.progress import Say

if TYPE_CHECKING:  # pandas and duckdb take a second to load, so functions import them
    import duckdb
    import pandas as pd
    from narwhals.stable.v2.typing import IntoDataFrame, IntoFrame, IntoLazyFrame

_PARQUET = (".parquet", ".pq")
_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$".replace("(", "(?:")
# Bins of empty scores, and of others that are no number in [0, 1].
MISSING = -2
WRONG = -1
_BLOCK = 1 << 20  # bytes of a file that are looked at together
_ROWS_AT_ONCE = 10**5  # rows of a Parquet file that are read at once
_NO_UTF8 = "{} is not UTF-8 text; save it as CSV in UTF-8, or as Parquet."
_NO_CSV = (
    "{} is not a well-formed CSV file after row {}; a value with a comma or a line break in it begins and "
    "ends with a quotation mark."
)


LazyRows: TypeAlias = "nw.LazyFrame[IntoLazyFrame]"
"""Rows that somebody's engine reads when they are collected."""


@dataclass(frozen=True)
class Counted:
    """Counts of records, a line per combination of values.

    Attributes:
        values: Each line's values by column, as the source has them; of several columns that make a group,
            its name; of scores that are no number in [0, 1], one of the line's.
        records: The number of records in each line, shape (n,).
        bins: Score bins, `WRONG` or `MISSING`, shape (n, score columns).
        parts: The texts of each column of a group of several columns, as a frame would have them, by the
            group's name.
    """

    values: Mapping[str, Sequence[Hashable]]
    records: npt.NDArray[np.int64]
    bins: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    parts: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    @cached_property
    def texts(self) -> Mapping[str, Sequence[str]]:
        """The values as texts of a CSV file."""
        texts = {name: as_text(values) for name, values in self.values.items()}
        texts.update((name, cross(parts)) for name, parts in self.parts.items())
        return texts


class SourceRows:
    """Words of messages for rows at their source. This class is of rows without an order, in no file."""

    def in_order(self, name: str) -> Iterator[tuple[str, Hashable]]:  # noqa: ARG002
        """Yield each row's name, and its value in a column; nothing if rows have no order."""
        return iter(())

    def report_faults(self, say: Say | None) -> None:
        """Report the malformed rows that were left out so far; without `say`, RecordsError for the first."""

    def by_file(self, name: str) -> Iterable[tuple[str, list[str]]]:  # noqa: ARG002
        """Return each CSV file's name, and a column's texts there; nothing for rows of other files."""
        return ()


UNORDERED = SourceRows()


@dataclass(frozen=True)
class RecordTable:
    """Records at their source.

    Attributes:
        where: The source's name in messages.
        dtypes: The dtype of each column, as pandas writes it; "" for a CSV file's texts.
        at_source: The rows at their source, as messages name them.
        crossed: The columns of `frame` whose values together name a group, by the column of that name.
        orders: The categories, in order, of columns whose categories have an order.
    """

    where: str
    frame: LazyRows
    dtypes: Mapping[str, str]
    at_source: SourceRows = UNORDERED
    crossed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def counted(
        self, names: Sequence[str], scores: Sequence[str] = (), grid: Grid = (), say: Say | None = None
    ) -> Counted:
        """Count the records of each combination of values, with scores as bins.

        Args:
            names: The columns whose values are combined.
            scores: The columns of scores, of which bins are combined.
            grid: The scores at which the bins begin.
            say: A function that is told of malformed rows, which are left out; None refuses them.

        Raises:
            RecordsError: The source cannot be read, or has a malformed row.
        """
        for name in names:
            refuse_half(self.dtypes[name], f"{self.where} has the column {name}")
        columns = self._columns_of(names)
        frame = self.frame.select(*columns, *scores)
        binned = [f"bin of {name}" for name in scores]
        for name, bin_name in zip(scores, binned, strict=True):
            frame = _with_bins(frame, name, grid, bin_name)
            frame = frame.with_columns(nw.when(nw.col(bin_name) < 0).then(nw.col(name)).alias(name))
        shown = [nw.col(name).min() for name in scores]
        counts = frame.group_by(*columns, *binned).agg(nw.len().alias("records"), *shown)
        values = self._collected(counts, say)
        records = values.pop("records")
        bins = [values.pop(name) for name in binned]
        by_line = np.array(bins, dtype=np.int64).reshape(len(binned), len(records)).T
        return self._crossed(values, np.array(records, dtype=np.int64), by_line)

    def rows(self, names: Sequence[str], say: Say | None = None) -> Counted:
        """Return a line per record; malformed rows are left out and told to `say`, or refused without it."""
        columns = self._columns_of(names)
        values = self._collected(self.frame.select(*columns), say)
        rows = len(values[columns[0]])
        no_bins = np.zeros((0, 0), dtype=np.int64)
        return self._crossed(values, np.ones(rows, dtype=np.int64), no_bins)

    def columns(self, name: str) -> Sequence[str]:
        """Return the columns of the frame that one of ours is read from."""
        return self.crossed.get(name, [name])

    def _columns_of(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the frame that several of ours are read from."""
        return [*chain.from_iterable(map(self.columns, names))]

    def _crossed(
        self,
        values: Mapping[str, list[Hashable]],
        records: npt.NDArray[np.int64],
        bins: npt.NDArray[np.int64],
    ) -> Counted:
        """Return lines of the frame's columns, with groups of several columns as one.

        Args:
            values: Each line's values, by the frame's columns.
            records: As in `Counted`.
            bins: As in `Counted`.
        """
        crossed = {*self._columns_of([*self.crossed])}
        of_lines = {name: column for name, column in values.items() if name not in crossed}
        parts: dict[str, list[list[str]]] = {}
        for name, columns in self.crossed.items():
            read = [values[column] for column in columns]
            of_lines[name] = [*cross(read)]
            texts = [as_text(part) for part in read]
            if self.dtypes[name] == "":
                texts = [texts_as_in_frames(part)[0] for part in texts]
            parts[name] = texts
        return Counted(of_lines, records, bins, parts)

    def first(self, name: str, wrong: Sequence[Hashable]) -> tuple[str, str]:
        """Return the first row's name, or else the table's, with one of these values, and the value."""
        texts = {as_text([value])[0] for value in wrong}
        for place, value in self.at_source.in_order(name):
            if (text := as_text([value])[0]) in texts:
                return place, text
        return self.where, min(texts)

    def _collected(self, frame: LazyRows, say: Say | None) -> dict[str, list[Hashable]]:
        try:
            if (relation := _in_duckdb(frame)) is not None:  # without an Arrow table between
                rows = relation.fetchall()
                values = {}
                for place, name in enumerate(relation.columns):
                    values[name] = [row[place] for row in rows]
            else:
                values = frame.collect().to_dict(as_series=False)
        except Exception as error:  # noqa: BLE001  engines have no class in common
            raise _unreadable(self.where.replace(TABLE, TABLE.lower()), error) from None
        self.at_source.report_faults(say)
        return values


def _lazy(relation: duckdb.DuckDBPyRelation) -> LazyRows:
    """Return narwhals' view of a relation of DuckDB."""
    frame: LazyRows = nw.from_native(relation)
    return frame


def _in_duckdb(frame: Frame) -> duckdb.DuckDBPyRelation | None:
    """Return DuckDB's own view of a frame, or None of another engine's."""
    if not frame.implementation.is_duckdb():
        return None
    import duckdb

    relation = frame.to_native()
    assert isinstance(relation, duckdb.DuckDBPyRelation)
    return relation


def _unreadable(where: str, error: Exception) -> RecordsError:
    message = str(getattr(error, "strerror", None) or error).strip()
    text = re.sub(r"^(?:\w+ )*\w*(?:Error|Exception): ", "", message)
    brief = re.split(r"\.?\s*\n|\. ", text)[0].rstrip(".") or type(error).__name__
    if extension := re.search(r"INSTALL (\w+)", text):
        brief = f'that takes an extension of DuckDB: duckdb.sql("INSTALL {extension[1]}") in Python, once'
    elif re.search("HTTP 40[13]", brief):
        brief += "; give DuckDB a persistent secret that may read it"
    return RecordsError(f"Cannot read {where}: {brief}.")


def _with_bins(frame: LazyRows, name: str, grid: Grid, bin_name: str) -> LazyRows:
    """Add a column of a score's bins.

    For even thresholds a product guesses the bin, and comparisons correct it by up to one.
    [test: tests/harness/inputs/test_frames.py]
    """
    score = nw.col(name)
    if frame.collect_schema()[name] == nw.String:
        missing = score.is_null() | score.str.strip_chars().str.to_lowercase().is_in(["", "nan"])
        frame = _with_number_of_text(frame, name)
    else:
        number = score.cast(nw.Float64)
        if frame.collect_schema()[name] == nw.Float32:
            number = score.cast(nw.String).cast(nw.Float64)  # the shortest text of each, as a file has it
        missing = score.is_null() | score.cast(nw.Float64).is_nan()
        frame = frame.with_columns(number=number)
    score = nw.col("number")
    inside = nw.col("inside")
    steps = len(grid) - 1
    frame = frame.with_columns(inside=((score >= 0) & (score <= 1)).fill_null(False))
    if grid == even_grid(len(grid)):
        product = nw.when(inside).then(score * steps).otherwise(0.0)
        frame = frame.with_columns(guess=product.floor().cast(nw.Float64))
        guess = nw.col("guess")
        by = guess * 0 + steps  # a column, since Polars would multiply by 1 / steps, a rounded number
        too_low = score >= (guess + 1) / by
        too_high = score < guess / by
        place = guess.cast(nw.Int64) + too_low.cast(nw.Int64) - too_high.cast(nw.Int64)
    else:
        place = _by_halves(score, grid, 0, len(grid))
    outside = nw.when(missing.fill_null(False)).then(nw.lit(MISSING)).otherwise(nw.lit(WRONG))
    frame = frame.with_columns(nw.when(inside).then(place).otherwise(outside).cast(nw.Int64).alias(bin_name))
    return frame.drop("number", "inside", "guess", strict=False)  # the next score has its own


def _with_number_of_text(frame: LazyRows, name: str) -> LazyRows:
    """Add a text's number, or null; DuckDB's own SQL is fastest."""
    if (relation := _in_duckdb(frame)) is not None:
        column = _quoted(name)
        number = f"CASE WHEN contains({column}, '_') THEN NULL ELSE TRY_CAST({column} AS DOUBLE) END"
        return _lazy(relation.project(f"*, {number} AS number"))
    text = nw.col(name).str.strip_chars()
    return frame.with_columns(number=nw.when(text.str.contains(_NUMBER)).then(text).cast(nw.Float64))


def _by_halves(score: nw.Expr, grid: Grid, low: int, high: int) -> nw.Expr:
    if high - low == 1:
        return nw.lit(low)
    middle = (low + high) // 2
    upper = _by_halves(score, grid, middle, high)
    lower = _by_halves(score, grid, low, middle)
    return nw.when(score >= grid[middle]).then(upper).otherwise(lower)


@dataclass(frozen=True)
class Named:
    """Records whose columns have other names; `names` maps ours to theirs.

    Several columns in place of one are crossed: each combination of their values is a value (see `cross`).
    """

    records: TabularRecords
    names: Mapping[str, str | Sequence[str]]


def with_names(records: TabularRecords, names: Mapping[str, str | Sequence[str]]) -> Named:
    """Return records whose columns have other names; RecordsError if a column has two roles, or one twice."""
    group = names.get("group", "group")
    label = names.get("label", "label")
    groups = [group] if isinstance(group, str) else group
    if label in groups:
        raise RecordsError(f"The column {label} cannot be both group and label.")
    for name in groups:
        if groups.count(name) > 1:
            raise RecordsError(f"{named('group')} names the column {name} twice; keep one.")
    return Named(records, names)


TabularRecords: TypeAlias = "Path | IntoFrame | Named | None"
"""What `table_at` reads; it refuses None, as calls have where shares take the records' place."""


def table_at(source: TabularRecords, names: Sequence[str], optional: str | None = None) -> RecordTable:
    """Return records as a table with these columns, of which one may be missing.

    Only headers and schemas are read.

    Args:
        source: A path, directory or glob of CSV or Parquet files, a frame that narwhals knows, or either of
            them as `Named`.
        names: The columns.
        optional: The column that may be missing; None for none.

    Raises:
        RecordsError: The source is none, cannot be read, or lacks a column.
    """
    return _table(source, WantedColumns(tuple(names), optional))


def _table(source: TabularRecords, wanted: WantedColumns) -> RecordTable:
    """Return records as a table with the wanted columns; raises as `table_at`."""
    if isinstance(source, Named):
        return _renamed(source, wanted)
    if not isinstance(source, Path):
        return _of_frame(source, wanted)
    import duckdb

    where = re.sub(r"^(\w+):/+", r"\1://", str(source))
    try:
        files = _files(source, where)
        if Path(files[0]).suffix.lower() in _PARQUET:
            return _of_parquet(where, files, wanted)
        return _of_csv(where, files, wanted)
    except (OSError, duckdb.Error) as error:
        raise _unreadable(where, error) from None


def _renamed(source: Named, wanted: WantedColumns) -> RecordTable:
    """Return records as a table under our names of the columns."""
    theirs: dict[str, list[str]] = {}
    for name in wanted.names:
        given = source.names.get(name, name)
        theirs[name] = [given] if isinstance(given, str) else [*given]
    each_once = dict.fromkeys(chain.from_iterable(theirs.values()))
    optional = wanted.optional
    if optional in source.names:  # whoever names a column has it
        optional = None
    table = _table(source.records, WantedColumns(tuple(each_once), optional, can_be_named=True))
    read: dict[str, str] = {}  # the source's names of the columns of our frame
    dtypes: dict[str, str] = {}
    crossed: dict[str, list[str]] = {}
    for name, columns in theirs.items():
        if len(columns) > 1:
            crossed[name] = [f"{name} {place}" for place in range(len(columns))]
            read.update(zip(crossed[name], columns, strict=True))
            dtypes[name] = _dtype_of_crossed(table, columns)
        elif columns[0] in table.crossed:  # of records that are named twice
            inner = table.crossed[columns[0]]
            crossed[name] = [f"{name} {place}" for place in range(len(inner))]
            read.update(zip(crossed[name], inner, strict=True))
            dtypes[name] = table.dtypes[columns[0]]
        elif columns[0] in table.dtypes:
            read[name] = columns[0]
            dtypes[name] = table.dtypes[columns[0]]

    return replace(
        table,
        frame=table.frame.select(**{name: nw.col(column) for name, column in read.items()}),
        dtypes=dtypes,
        at_source=_RenamedRows(table, read, crossed),
        crossed=crossed,
        orders={name: table.orders[column] for name, column in read.items() if column in table.orders},
    )


@dataclass(frozen=True)
class _RenamedRows(SourceRows):
    """Rows of a table under our names of the columns.

    Attributes:
        table: The table, which is kept as long as these rows are: its end closes copies of files.
        theirs: The source's name of each column.
        crossed: The columns whose values together name a group, by the column of that name.
    """

    table: RecordTable
    theirs: Mapping[str, str]
    crossed: Mapping[str, Sequence[str]]

    def in_order(self, name: str) -> Iterator[tuple[str, Hashable]]:
        at_source = self.table.at_source
        if name not in self.crossed:
            yield from at_source.in_order(self.theirs[name])
            return
        columns = [at_source.in_order(self.theirs[part]) for part in self.crossed[name]]
        for parts in zip(*columns, strict=True):
            yield parts[0][0], cross([[value] for _, value in parts])[0]

    def report_faults(self, say: Say | None) -> None:
        self.table.at_source.report_faults(say)

    def by_file(self, name: str) -> Iterable[tuple[str, list[str]]]:
        return self.table.at_source.by_file(self.theirs[name])


def _dtype_of_crossed(table: RecordTable, columns: Sequence[str]) -> str:
    """Return the dtype of a group of several columns: text, "" of a CSV file.

    Raises:
        RecordsError: A column's values name no groups.
    """
    for column in columns:
        if table.dtypes[column]:
            check_dtype(table.dtypes[column], (), f"{table.where} has the column {column}")
    return "str" if any(table.dtypes[column] for column in columns) else ""


def _files(path: Path, where: str) -> list[str]:
    if not path.is_dir():
        parent = Path(path.anchor)
        matching = parent.glob(str(path.relative_to(parent))) if not path.exists() else ()
        return sorted(map(str, matching)) or [where]
    files = sorted(str(file) for file in path.rglob("*") if file.suffix.lower() in (".csv", *_PARQUET))
    if len({Path(file).suffix.lower() == ".csv" for file in files}) != 1:
        fault = f"both CSV and Parquet files; name {path}/*.csv, say" if files else "no CSV or Parquet file"
        raise RecordsError(f"{path} is a directory that holds {fault}.")
    return files


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """Return DuckDB, kept from writing files and installing extensions."""
    import duckdb

    return duckdb.connect(config={"temp_directory": "", "autoinstall_known_extensions": False})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql(files: Sequence[str]) -> str:
    names = [(file if "://" in file else glob.escape(file)).replace("'", "''") for file in files]
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def _of_csv(where: str, files: Sequence[str], wanted: WantedColumns) -> RecordTable:
    """Read CSV; rows are numbered as in a spreadsheet, from the header on."""
    csv_files = _CsvFiles(where, files, wanted)
    dtypes = dict.fromkeys(csv_files.names, "")
    table = RecordTable(where, csv_files.frame(), dtypes, csv_files)
    # The engine, and the rows' methods, may read pipes' copies again as long as the table is there.
    weakref.finalize(table, csv_files.close)
    return table


class _CsvFiles(SourceRows):
    """CSV files that are read together, with one header.

    Attributes:
        names: The columns that are read.
    """

    def __init__(self, where: str, files: Sequence[str], wanted: WantedColumns) -> None:
        """Read the headers; raise RecordsError if a column is missing, or the files differ."""
        self._copies = [_kept_for_later(file) for file in files]
        self._paths = [
            f"/dev/fd/{copy.fileno()}" if copy else file
            for file, copy in zip(files, self._copies, strict=True)
        ]
        self._shown = dict(zip(self._paths, files, strict=True))
        self._connection = _engine().cursor()
        self._header = _header(self._connection, where, self._paths[0])
        self.names = wanted.present_in(where, self._header)
        for path in self._paths[1:]:
            self._check_header(path, wanted)
        self._columns = [f"c{place}" for place in range(len(self._header))]
        # An empty text is not null, since DuckDB would accept a superfluous empty value in a row.
        self._rows = (
            f"read_csv({_sql(self._paths)}, columns={dict.fromkeys(self._columns, 'VARCHAR')}, header=true, "
            "nullstr='\x01', delim=',', quote='\"', escape='\"', auto_detect=false, "
            "strict_mode=true, store_rejects=true, compression='none'"
        )

    def _check_header(self, path: str, wanted: WantedColumns) -> None:
        """Raise RecordsError unless a file has the header of the first one."""
        header = _header(self._connection, path, path)
        if header == self._header:
            return
        wanted.present_in(self._shown[path], header)  # raises with a better sentence, if a column is missing
        raise RecordsError(
            f"{path} has the columns {', '.join(header)} where {self._paths[0]} has "
            f"{', '.join(self._header)}; files that are read together have the same, in the same order."
        )

    def close(self) -> None:
        """Close the copies of pipes."""
        for copy in self._copies:
            if copy is not None:
                copy.close()

    def frame(self) -> LazyRows:
        """Return the rows, as texts."""
        columns = {name: nw.col(self._column(name)) for name in self.names}
        return _lazy(self._connection.sql(f"SELECT * FROM {self._rows})")).select(**columns)

    def _column(self, name: str) -> str:
        return self._columns[self._header.index(name)]

    def report_faults(self, say: Say | None) -> None:
        rejected = self._connection.sql(
            "SELECT DISTINCT file_path, line, csv_line, error_type FROM reject_errors JOIN reject_scans "
            r"USING (scan_id, file_id) WHERE coalesce(regexp_matches(csv_line, '\S'), true) ORDER BY ALL"
        ).fetchall()
        for path, row, text, kind in rejected:
            file = self._shown[path]
            if kind == "INVALID ENCODING":
                raise RecordsError(_NO_UTF8.format(file))
            if kind not in ("MISSING COLUMNS", "TOO MANY COLUMNS"):
                raise RecordsError(_NO_CSV.format(file, row - 1))
            values = next(csv.reader([text]))
            fault = f"{file}, row {row} has {len(values)} values where the header has {len(self._header)}"
            if say is None:
                raise RecordsError(f"{fault}; put a value with a comma in it between quotation marks.")
            say(f"{fault}; left out.")

    def in_order(self, name: str) -> Iterator[tuple[str, Hashable]]:
        place = self._header.index(name)
        for path in self._paths:
            with suppress(FileNotFoundError), Path(path).open(encoding="utf-8-sig", newline="") as file:
                for row, values in enumerate(csv.reader(file), 1):
                    if row > 1 and len(values) == len(self._header):
                        yield f"{self._shown[path]}, row {row}", values[place]

    def by_file(self, name: str) -> Iterator[tuple[str, list[str]]]:
        texts = f"list(DISTINCT {self._column(name)})"
        found = self._connection.sql(f"SELECT filename, {texts} FROM {self._rows}, filename=true) GROUP BY 1")
        by_path = dict(found.fetchall())
        return ((self._shown[path], by_path[path]) for path in self._paths if path in by_path)


def _kept_for_later(file: str) -> IO[bytes] | None:
    """Return an unnamed copy of what DuckDB could not read where it is; None for any other file.

    A pipe can be read once only, and is read twice. A file in which several kinds of line ends are mixed, as
    editors of different systems leave it, is one that DuckDB refuses; the copy has one kind.
    """
    path = Path(file)
    if not path.exists() or (path.is_file() and not _has_mixed_line_ends(path)):
        return None
    copy = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it

    with path.open("rb") as once:
        copy.writelines(_with_line_feeds(_blocks(once)))
    copy.flush()
    return copy


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file's bytes from where it is read on, in blocks."""
    while block := file.read(_BLOCK):
        yield block


def _has_mixed_line_ends(path: Path) -> bool:
    """Return whether a file has line ends of more than one of the kinds CR LF, LF and CR."""
    both = 0
    returns = 0
    feeds = 0
    last = b""
    with path.open("rb") as file:
        for block in _blocks(file):
            if b"\r" in block or last == b"\r":
                both += block.count(b"\r\n") + (last == b"\r" and block.startswith(b"\n"))
                returns += block.count(b"\r")
                feeds += block.count(b"\n")
            elif b"\n" in block:
                feeds += 1  # that there is one is enough, as no CR can belong to it
            last = block[-1:]
    kinds = [both, returns - both, feeds - both]
    return sum(1 for number in kinds if number) > 1


def _with_line_feeds(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a CSV file's bytes with LF for each end of a line, but those between quotation marks."""
    is_quoted = False
    has_open_return = False  # the last byte was a CR, for which an LF was yielded
    for block in blocks:
        for place, part in enumerate(block.split(b'"')):
            if place:
                is_quoted = not is_quoted
                has_open_return = False
                yield b'"'
            if is_quoted or not part:
                yield part
                continue
            if has_open_return and part.startswith(b"\n"):
                part = part[1:]
            has_open_return = part.endswith(b"\r")
            yield part.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _header(connection: duckdb.DuckDBPyConnection, where: str, path: str) -> list[str]:
    try:
        if "://" not in path:
            with Path(path).open(encoding="utf-8-sig", newline="") as file:
                return next(csv.reader(file, strict=True), [])
        lines = connection.sql(
            f"SELECT * FROM read_csv({_sql([path])}, columns={{'line': 'VARCHAR'}}, header=false, "
            "delim='\x01', quote='', escape='', auto_detect=false, compression='none') LIMIT 1"
        ).fetchall()
        return next(csv.reader(lines[0] if lines else ()), [])
    except UnicodeDecodeError:
        raise RecordsError(_NO_UTF8.format(where)) from None
    except csv.Error:
        raise RecordsError(_NO_CSV.format(where, 0)) from None


def _of_parquet(where: str, files: Sequence[str], wanted: WantedColumns) -> RecordTable:
    connection = _engine().cursor()
    schema = connection.sql(
        f"SELECT file_name, name, duckdb_type FROM parquet_schema({_sql(files)})"
    ).fetchall()
    header = [name for file, name, _ in schema if file == schema[0][0]][1:]
    names = wanted.present_in(where, header)
    absent = set[str]() if wanted.optional is None else {wanted.optional} - {*names}
    kinds = dict.fromkeys(absent, (schema[0][0], "none"))
    for file, name, kind in schema:
        first, same = kinds.setdefault(name, (file, kind))
        if name in (*names, *absent) and kind != same:
            raise RecordsError(
                f"{file} has the column {name} as {kind} where {first} has {same}; files that are read "
                "together have columns of the same types."
            )
    frame = _lazy(connection.sql(f"SELECT * FROM read_parquet({_sql(files)})"))
    return RecordTable(where, frame, dtypes_of(frame, names), _ParquetRows(connection, files))


@dataclass(frozen=True)
class _ParquetRows(SourceRows):
    """Rows of Parquet files, in the order of the files."""

    connection: duckdb.DuckDBPyConnection
    files: Sequence[str]

    def in_order(self, name: str) -> Iterator[tuple[str, Hashable]]:
        column = _quoted(name)
        cursor = self.connection.cursor()
        for file in self.files:
            cursor.execute(f"SELECT {column} FROM read_parquet({_sql([file])})")
            number = 0
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                for (value,) in rows:
                    number += 1
                    yield f"{file}, row {number}", value


def frame_of(source: IntoFrame | None) -> Frame:
    """Return narwhals' view of a frame, or raise RecordsError."""
    try:
        frame = nw.from_native(source, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        repeated = " and ".join(re.findall(r"'(.*)' \d+ times", str(error)))
        raise RecordsError(f"{TABLE} has the column {repeated} twice; keep one.") from None
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise RecordsError(
            f"Records are a data frame that narwhals knows, as of pandas, Polars or DuckDB, or the path of a "
            f"file, not {type(source).__name__}."
        )
    return frame


def _of_frame(source: IntoFrame | None, wanted: WantedColumns) -> RecordTable:
    frame = frame_of(source)
    header = [str(name) for name in frame.collect_schema().names()]
    names = wanted.present_in(TABLE, header)
    dtypes = dtypes_of(frame, names)
    orders = orders_of(frame, names)
    if isinstance(frame, nw.LazyFrame):
        return RecordTable(TABLE, frame, dtypes, orders=orders)
    index = nw.maybe_get_index(frame)
    rows = range(1, len(frame) + 1) if index is None else index.tolist()
    frame = nw.maybe_reset_index(frame.select(*names))
    frame = frame.with_columns(
        *(
            nw.new_series(name, as_text(frame[name].to_list()), nw.String, backend=frame.implementation)
            for name in names
            if frame.schema[name] == nw.Object
        )
    )
    return RecordTable(TABLE, frame.lazy(), dtypes, _FrameRows(frame, rows), orders=orders)


@dataclass(frozen=True)
class _FrameRows(SourceRows):
    """Rows of a data frame.

    Attributes:
        frame: The frame, with the columns that are read.
        names: Each row's name: that in the index, or its number from 1.
    """

    frame: nw.DataFrame[IntoDataFrame]
    names: Sequence[Hashable]

    def in_order(self, name: str) -> Iterator[tuple[str, Hashable]]:
        for row, value in zip(self.names, self.frame[name].to_list(), strict=True):
            yield f"{TABLE}, row {row}", value


def table_of(columns: Mapping[str, ColumnValues]) -> pd.DataFrame:
    """Return columns as one table, or raise RecordsError if their rows differ."""
    import pandas as pd

    indices = [column.index for column in columns.values() if isinstance(column, pd.Series)]
    names = " and ".join(filter(None, (", ".join([*columns][:-1]), [*columns][-1])))
    shapes = [np.asarray(column).shape for column in columns.values()]
    refuse(
        RecordsError,
        (
            any(not indices[0].equals(index) for index in indices),
            f"{names} must have the same index: they belong to the same rows.",
        ),
        (
            len({*shapes}) > 1 or len(shapes[0]) != 1,
            f"{names} must have one value per row each; their shapes are {', '.join(map(str, shapes))}.",
        ),
    )
    table = pd.DataFrame({name: pd.Series(column).reset_index(drop=True) for name, column in columns.items()})
    return table.set_index(indices[0]) if indices else table
