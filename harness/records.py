"""Clients' records, read from a file and checked against a declared public domain.

Everything here runs at the client (or in a simulation of clients), so messages may name a row, a
column and a value: they appear at the client's own terminal.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import RecordDomainError, RecordsError

if TYPE_CHECKING:  # pandas and pyarrow take a second to load: functions that need them load them
    import pandas as pd

DEFAULT_MAX_COUNT = 2**31
MAX_TOTAL = 2**62  # sums of counts stay below this, so that noise cannot wrap them around

_COLUMNS = ("client_id", "group", "label")


@dataclass(frozen=True)
class RecordDomain:
    """What is public about records: the groups, the labels, how many records a client may have.

    Attributes: groups, labels: as in the file, sorted, at least two of each; max_count: the most
    records of one client; inferred: whether they were read off the records, which makes them public
    without having been declared.
    """

    groups: tuple[str, ...]
    labels: tuple[str, ...]
    max_count: int = DEFAULT_MAX_COUNT
    inferred: bool = False

    def __post_init__(self) -> None:
        for kind, values in (("group", self.groups), ("label", self.labels)):
            if len(values) < 2:
                raise RecordDomainError(
                    f"The domain has {len(values)} {kind}{'s' * (len(values) != 1)} {list(values)}; "
                    f"fairness between groups needs at least two. Declare all with --{kind}s a,b."
                )
            if len(set(values)) != len(values) or "" in values:
                raise RecordDomainError(
                    f"The domain's {kind}s {list(values)} must be distinct and not empty."
                )
        if not 1 <= self.max_count < MAX_TOTAL:
            raise RecordDomainError(f"The maximum count must be between 1 and 2^62, not {self.max_count}.")

    @property
    def cells(self) -> int:
        """How many (group, label) pairs there are."""
        return len(self.groups) * len(self.labels)

    def to_json(self) -> dict[str, Any]:
        return {"groups": list(self.groups), "labels": list(self.labels), "max_count": self.max_count}


def read_domain(path: Path) -> RecordDomain:
    """Read a domain from JSON: `{"groups": [...], "labels": [...], "max_count": n}`, the last optional.

    Raises: RecordDomainError: the file cannot be read, or says something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordDomainError(f"Cannot read the domain file {path}: {error.strerror}.") from None
    except ValueError:
        raise RecordDomainError(f"The domain file {path} is not JSON in UTF-8.") from None
    return domain_from_json(found, str(path))


def domain_from_json(found: Any, where: str) -> RecordDomain:
    """Check a parsed domain. Raises: RecordDomainError: it has another shape; `where` is named."""
    if not isinstance(found, dict) or not {"groups", "labels"} <= set(found) <= {
        "groups",
        "labels",
        "max_count",
    }:
        raise RecordDomainError(f"{where} must have the keys groups, labels and, if wanted, max_count.")
    lists = [found["groups"], found["labels"]]
    max_count = found.get("max_count", DEFAULT_MAX_COUNT)
    if not all(isinstance(values, list) and all(isinstance(v, str) for v in values) for values in lists):
        raise RecordDomainError(f"groups and labels in {where} must be lists of strings.")
    if type(max_count) is not int:
        raise RecordDomainError(f"max_count in {where} must be a whole number.")
    return RecordDomain(tuple(sorted(lists[0])), tuple(sorted(lists[1])), max_count)


@dataclass(frozen=True)
class ClientRecords:
    """Records of M clients, M >= 1: three arrays of equal length, one entry per record.

    Attributes: client: index in [0, M); group, label: indices into the domain; client_ids: shape (M,),
    as in the file. A client may have no record.
    """

    domain: RecordDomain
    client_ids: npt.NDArray[np.str_]
    client: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if not len(self.client) == len(self.group) == len(self.label):
            raise RecordsError("Every record needs a client, a group and a label.")
        if not self.clients:
            raise RecordsError("There are no clients; at least one is needed.")
        most = np.bincount(self.client, minlength=self.clients)
        over = np.flatnonzero(most > self.domain.max_count)
        if len(over):
            raise RecordsError(
                f"Client {str(self.client_ids[over[0]])!r} has {most[over[0]]} records, "
                "over the declared maximum of "
                f"{self.domain.max_count}; leave some out, or declare a larger --max-count at all clients."
            )
        if self.clients * self.domain.max_count >= MAX_TOTAL:
            raise RecordsError(
                f"{self.clients} clients with up to {self.domain.max_count} records each "
                "could overflow the sum; "
                f"declare a --max-count below {MAX_TOTAL // self.clients}."
            )

    @property
    def clients(self) -> int:
        return len(self.client_ids)

    def counts_per_client(self) -> npt.NDArray[np.int64]:
        """Count each client's records per cell: shape (cells, M), cell = group * labels + label."""
        cells = self.domain.cells
        cell = self.group * len(self.domain.labels) + self.label
        flat = np.bincount(self.client * cells + cell, minlength=self.clients * cells)
        return np.ascontiguousarray(flat.reshape(self.clients, cells).T)

    def group_per_client(self) -> npt.NDArray[np.int64]:
        """Return each client's only group, shape (M,). Raises: RecordsError: a client has two."""
        group = np.zeros(self.clients, dtype=np.int64)  # any group will do for a client without records
        group[self.client] = self.group
        mixed = np.flatnonzero(group[self.client] != self.group)
        if len(mixed):
            who = str(self.client_ids[self.client[mixed[0]]])
            raise RecordsError(
                f"Client {who!r} has records of two groups, which the product form cannot "
                "hold; use --input-form split."
            )
        return group


def read_records(
    path: Path,
    domain: RecordDomain | None,
    max_count: int = DEFAULT_MAX_COUNT,
    *,
    may_be_empty: bool = False,
) -> ClientRecords:
    """Read CSV or Parquet with the columns client_id, group, label.

    Args: domain: what was declared; None infers groups and labels from this one file. max_count: for
    an inferred domain. may_be_empty: take a file with a header alone for one client without records.
    Raises: RecordsError: names the file, and the row and value where there is one; RecordDomainError:
    an inferred domain has fewer than two groups or labels.
    """
    frame, rows = _read_table(path)
    if frame.empty and may_be_empty and domain is not None:
        none = np.zeros(0, dtype=np.int64)
        return ClientRecords(domain, np.array([path.stem], dtype=object), none, none, none)
    return records_from_frame(frame, domain, max_count, str(path), rows)


def records_from_frame(
    frame: pd.DataFrame,
    domain: RecordDomain | None,
    max_count: int = DEFAULT_MAX_COUNT,
    where: str = "The records",
    rows: Sequence[int] | None = None,
) -> ClientRecords:
    """Check a table of strings with the columns client_id, group, label; as `read_records` otherwise.

    Args: where: what messages call the table; rows: the numbers that its records go by; 1, 2 ... if None.
    """
    import pandas as pd

    if frame.empty:
        raise RecordsError(f"{where} has no records.")
    rows = range(1, len(frame) + 1) if rows is None else rows
    for name in _COLUMNS:
        missing = np.flatnonzero(frame[name].map(_is_missing).to_numpy(dtype=bool))
        if len(missing):
            raise RecordsError(f"{where}, row {rows[missing[0]]}: column {name} is empty or NaN.")
    if domain is None:
        groups, labels = (tuple(sorted(map(str, frame[name].unique()))) for name in ("group", "label"))
        domain = RecordDomain(groups, labels, max_count, inferred=True)
    indices = {}
    for name, declared in (("group", domain.groups), ("label", domain.labels)):
        index = pd.Index(declared).get_indexer(pd.Index(frame[name]))
        unknown = np.flatnonzero(index < 0)
        if len(unknown):
            raise RecordsError(
                f"{where}, row {rows[unknown[0]]}: {name} "
                f"{str(frame[name].iloc[unknown[0]])!r} is not declared "
                f"(declared: {', '.join(declared)})."
            )
        indices[name] = index.astype(np.int64)
    client, client_ids = pd.factorize(frame["client_id"])
    return ClientRecords(
        domain,
        np.asarray(client_ids, dtype=object),
        client.astype(np.int64),
        indices["group"],
        indices["label"],
    )


def _is_missing(text: str) -> bool:
    return text.strip().lower() in ("", "nan")


def _read_table(path: Path) -> tuple[pd.DataFrame, Sequence[int]]:
    """Return the needed columns as strings, and the numbers that the file's records go by."""
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = _read_parquet(path)
            return frame, range(1, len(frame) + 1)
        return _read_csv(path)
    except OSError as error:
        raise RecordsError(f"Cannot read {path}: {str(error.strerror or error).rstrip('.')}.") from None


def _read_csv(path: Path) -> tuple[pd.DataFrame, Sequence[int]]:
    """Read CSV as a spreadsheet numbers it: the header is row 1, a blank line is a row without a record."""
    import pandas as pd

    columns: tuple[list[str], ...] = tuple([] for _ in _COLUMNS)
    numbers: list[int] = []
    row = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            _check_columns(path, header)
            places = list(zip(columns, map(header.index, _COLUMNS), strict=True))
            for row, values in enumerate(lines, 2):
                if len(values) != len(header):
                    if not "".join(values).strip():
                        continue
                    raise RecordsError(
                        f"{path}, row {row} has {len(values)} values where the header has {len(header)}."
                    )
                numbers.append(row)
                for column, place in places:
                    column.append(values[place])
    except UnicodeDecodeError:
        raise RecordsError(f"{path} is not UTF-8 text; save it as CSV in UTF-8, or as Parquet.") from None
    except csv.Error as error:
        raise RecordsError(f"{path} is not a well-formed CSV file after row {row}: {error}.") from None
    return pd.DataFrame(dict(zip(_COLUMNS, columns, strict=True)), dtype=str), numbers


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet

    try:
        _check_columns(path, pyarrow.parquet.read_schema(path).names)
        frame: pd.DataFrame = pyarrow.parquet.read_table(path, columns=list(_COLUMNS)).to_pandas(
            ignore_metadata=True  # which may make a column an index
        )
    except pyarrow.ArrowInvalid:
        raise RecordsError(f"{path} is not a readable Parquet file.") from None
    return frame.apply(as_names)


def as_names(column: pd.Series) -> pd.Series:
    """Return a column's values as they would stand in a CSV file: 1 for 1.0; missing ones empty."""
    import pandas as pd

    missing = column.isna()
    if pd.api.types.is_float_dtype(column):
        present = column[~missing]
        if (present.abs() < 2**53).all() and (present % 1 == 0).all():
            column = column.astype("Int64")  # whole numbers that a missing value made floats
    return column.astype(str).where(~missing, "")


def _check_columns(path: Path, found: list[str]) -> None:
    if not found:
        raise RecordsError(f"{path} is empty; it needs a header with the columns {', '.join(_COLUMNS)}.")
    missing = [name for name in _COLUMNS if name not in found]
    if len(found) == 1 and any(separator in found[0] for separator in ";\t"):
        raise RecordsError(f"{path} seems to separate columns by semicolons or tabs; save it with commas.")
    if missing:
        raise RecordsError(
            f"{path} has no column {' and no column '.join(missing)}; it needs {', '.join(_COLUMNS)} "
            f"(found: {', '.join(found)})."
        )
    repeated = [name for name in _COLUMNS if found.count(name) > 1]
    if repeated:
        raise RecordsError(f"{path} has the column {repeated[0]} twice; keep one.")
