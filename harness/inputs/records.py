"""Clients' records, read from a file and checked against a declared public domain.

Everything here runs at the client (or in a simulation of clients), so messages may name a row, a
column and a value: they appear at the client's own terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import RecordDomainError, RecordsError, named
from harness.inputs.record_schema import (
    DEFAULT_MAX_COUNT,
    MAX_TOTAL,
    Grid,
    RecordDomain,
    RecordKind,
    ValueGrid,
    bins_of,
    shown,
)
from harness.inputs.tables import TABLE, Columns, alike, read_table, refuse_variants

if TYPE_CHECKING:  # pandas and pyarrow take a second to load: functions that need them load them
    import pandas as pd

MOST_INFERRED = 50  # groups, or labels, that are taken for such without being declared
Say = Callable[[str], None]
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.ASCII | re.IGNORECASE)
_COLUMNS = ("client_id", "group", "label")


@dataclass(frozen=True)
class ClientRecords:
    """Records of M clients, M >= 1: arrays of equal length, one entry per record.

    Attributes: client: index in [0, M); group, label: indices into the domain; client_ids: shape (M,),
    as in the file; detail: the bin of the score, the predicted label's index, or the value's step, where
    the domain has them; with several scores a row of bins, by label. A client may have no record.
    """

    domain: RecordDomain
    client_ids: npt.NDArray[np.str_]
    client: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    detail: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        most = np.bincount(self.client, minlength=self.clients)
        over = np.flatnonzero(most > self.domain.max_count)
        if len(over) and self.domain.values:
            raise RecordsError(
                f"Client {str(self.client_ids[over[0]])!r} has {most[over[0]]} values; a client has one."
            )
        if len(over):
            raise RecordsError(
                f"Client {str(self.client_ids[over[0]])!r} has {most[over[0]]} records, over the declared "
                f"maximum of {self.domain.max_count}; leave some out, or declare a larger "
                f"{named('max_count')} at all clients."
            )
        if self.clients * self.domain.max_contribution >= MAX_TOTAL:
            raise RecordsError(
                f"{self.clients} clients with up to {self.domain.max_count} records each could overflow "
                f"the sum; declare a {named('max_count')} below {MAX_TOTAL // self.clients}."
            )

    @property
    def clients(self) -> int:
        """How many clients there are, those without a record among them."""
        return len(self.client_ids)

    @property
    def cell(self) -> npt.NDArray[np.int64]:
        """Each record's (group, label[, bin or prediction]) as one index, the last varying fastest.

        With several scores a row for each: the score and group as one, whether the label is the score's, bin.
        """
        if (scores := self.domain.score_columns) > 1:
            assert self.detail is not None
            number = np.arange(scores)[:, np.newaxis]
            pair = (number * len(self.domain.groups) + self.group) * 2 + (self.label == number)
            cells: npt.NDArray[np.int64] = pair * self.domain.shape[-1] + self.detail.reshape(-1, scores).T
            return cells
        pair = self.group * len(self.domain.labels) + self.label
        return pair if self.detail is None else pair * self.domain.shape[-1] + self.detail

    def counts_per_client(self) -> npt.NDArray[np.int64]:
        """Count each client's records per cell: shape (cells, M)."""
        cells = self.domain.cells
        flat = np.bincount(np.ravel(self.cell * self.clients + self.client), minlength=self.clients * cells)
        return flat.reshape(cells, self.clients)

    def in_parts(self, clients: int) -> Iterator[ClientRecords]:
        """Yield the same records in parts of at most so many clients, for what grows with clients."""
        if clients >= self.clients:
            yield self
            return
        order = np.argsort(self.client, kind="stable")
        starts = range(0, self.clients, clients)
        edges = np.searchsorted(self.client[order], [*starts, self.clients])
        for i, start in enumerate(starts):
            rows = order[edges[i] : edges[i + 1]]
            yield ClientRecords(
                self.domain,
                self.client_ids[start : start + clients],
                self.client[rows] - start,
                self.group[rows],
                self.label[rows],
                None if self.detail is None else self.detail[rows],
            )

    def at_most(self, most: npt.NDArray[np.int64]) -> ClientRecords:
        """Return at most so many records of each client, a random choice of them. Args: most: shape (M,)."""
        return self._kept(~_beyond(self.client, most, np.ones(len(self.client), dtype=bool)))

    def _kept(self, kept: npt.NDArray[np.bool_]) -> ClientRecords:
        """Return some of the records, of all clients. Args: kept: shape (n,)."""
        return replace(
            self,
            client=self.client[kept],
            group=self.group[kept],
            label=self.label[kept],
            detail=None if self.detail is None else self.detail[kept],
        )

    def of_one_group(self, say: Say) -> ClientRecords:
        """Return the records of each client's first group; say how many are left out."""
        first = np.zeros(self.clients, dtype=np.int64)
        first[self.client[::-1]] = self.group[::-1]
        kept = first[self.client] == self.group
        if not kept.all():
            say(
                f"{(~kept).sum():,} records of a client's second group are left out; "
                f"{named('input_form', 'split')} has them."
            )
        return self._kept(kept)

    def group_per_client(self) -> npt.NDArray[np.int64]:
        """Return each client's only group, shape (M,). Raises: RecordsError: a client has two."""
        group = np.zeros(self.clients, dtype=np.int64)  # any group will do for a client without records
        group[self.client] = self.group
        mixed = np.flatnonzero(group[self.client] != self.group)
        if len(mixed):
            who = str(self.client_ids[self.client[mixed[0]]])
            raise RecordsError(
                f"Client {who!r} has records of two groups, which the product form cannot "
                f"hold; use {named('input_form', 'split')}."
            )
        return group


@dataclass(frozen=True)
class ScoreCut:
    """How predictions follow from scores: from the threshold on, the positive label, else the other.

    Attributes: threshold: from 0 to 1; label: the positive one, the last in order if empty; typed: the
    threshold as its user gave it.
    """

    threshold: float
    label: str = ""
    typed: str = ""

    def positive_in(self, domain: RecordDomain, where: str = "The records") -> int:
        """Return the positive label's index.

        Raises: RecordsError: there are not two labels; RecordDomainError: this is none of them.
        """
        if len(domain.labels) != 2:
            raise RecordsError(
                f"{where}: predictions follow from scores where there are two labels, "
                f"not {len(domain.labels)}; give a column prediction."
            )
        return domain.positive(self.label)


def read_records(
    source: Path | pd.DataFrame,
    domain: RecordDomain | None,
    max_count: int = DEFAULT_MAX_COUNT,
    *,
    may_be_empty: bool = False,
    kind: RecordKind = RecordKind.NONE,
    cut: ScoreCut | None = None,
    say: Say | None = None,
    grid: Grid = (),
) -> ClientRecords:
    """Read CSV, Parquet or a table with client_id, group, label and, if asked for, score or prediction.

    Performance values: the columns client_id, group and value, a number or a fraction of counts, 17/20.

    Args: source: a file's path, or a table, whose values are taken as they would stand in a file; domain:
    what was declared; None infers groups and labels from this source. max_count: for an inferred domain.
    may_be_empty: take a file with a header alone for one client without records. kind: what else to read;
    cut: predictions are made by it from the column score. say: what is no record of the domain is left out
    and said by this, a sentence each; None: it is refused. grid: of scores, if the domain has none.
    Raises: RecordsError: names the file, and the row (a table's by its index) and value where there is one;
    RecordDomainError: an inferred domain has fewer than two groups or labels.
    """
    frame, rows = read_table(source, _columns(kind, cut, domain), say)
    if not rows and may_be_empty and domain is not None and isinstance(source, Path):
        none = np.zeros(0, dtype=np.int64)
        client_ids = np.array([source.stem], dtype=object)
        declared = domain.with_kind(kind)
        return ClientRecords(declared, client_ids, none, none, none, none if kind.of_each else None)
    where = str(source) if isinstance(source, Path) else TABLE
    return records_from_frame(frame, domain, max_count, where, rows, kind, cut, say, grid)


def records_from_frame(
    frame: Columns | pd.DataFrame,
    domain: RecordDomain | None,
    max_count: int = DEFAULT_MAX_COUNT,
    where: str = "The records",
    rows: Sequence[Any] | None = None,
    kind: RecordKind = RecordKind.NONE,
    cut: ScoreCut | None = None,
    say: Say | None = None,
    grid: Grid = (),
) -> ClientRecords:
    """Check a table of strings with the columns client_id, group, label ...; as `read_records` otherwise.

    Guarantees: with `say`, a client's values decide neither whether this returns nor how many clients it
    returns: who is named in client_id is there.  [test: tests/harness/inputs/test_uploaded_records.py]
    Args: where: what messages call the table; rows: the numbers that its records go by; 1, 2 ... if None.
    """
    columns = {name: list(frame[name]) for name in _columns(kind, cut, domain)}
    size = len(columns["client_id"])
    if not size:
        raise RecordsError(f"{where} has no records: there is no row below the header.")
    check = _Check(where, range(1, size + 1) if rows is None else rows, say)
    missing = {
        name: [value.strip().lower() in ("", "nan") for value in column] for name, column in columns.items()
    }
    for name, rows_without in missing.items():
        check(rows_without, f"column {name} is empty or NaN", "fill it in, or leave the row out")
    if kind is RecordKind.VALUE and domain is None:
        raise RecordDomainError(
            f"Performance values need a declared range: give {named('groups')} and {named('range', '0,1')}."
        )
    if domain is None:
        groups, labels = (tuple(sorted(set(map(str, columns[name])))) for name in ("group", "label"))
        for what, names in (("groups", groups), ("labels", labels)):
            if len(names) > MOST_INFERRED:
                raise RecordDomainError(
                    f"{where} has {len(names):,} different {what}, as an ID of rows would have; put the "
                    f"{what} in the column {what.removesuffix('s')}, or declare all of them with "
                    f"{named('domain')}."
                )
            refuse_variants(names, f"{where} has the {what}")
        domain = RecordDomain(groups, labels, max_count, inferred=True)
        if domain.with_kind(kind).score_columns > 1 and cut is None:
            raise RecordDomainError(
                f"{where} has {len(labels)} labels, and each needs scores of its own: declare them with "
                f"{named('labels')}, and give columns {', '.join(score_names(labels))}."
            )
    domain = domain.with_kind(kind, grid)
    known = {"group": domain.groups} | ({} if domain.values else {"label": domain.labels})
    if kind is RecordKind.PREDICTION and cut is None:
        known["prediction"] = domain.labels
    indices: dict[str, npt.NDArray[np.int64]] = {}
    for name, declared in known.items():
        places = {value: place for place, value in enumerate(declared)}
        indices[name] = np.array([places.get(value, -1) for value in columns[name]], dtype=np.int64)
        fault = f"is not declared (declared: {', '.join(map(shown, declared))})"
        mend = "declare it, or correct the row"
        check(indices[name] < 0, f"{name} {{}} {fault}", mend, columns[name], declared)
    if cut is not None:
        positive = cut.positive_in(domain, where)
        above = bins_of(_scores(columns, check, "score"), (0.0, cut.threshold))
        indices["prediction"] = above if positive else 1 - above
    elif domain.values:
        indices["value"] = domain.values.nearest(_values(columns, domain.values, check))
        indices["label"] = np.zeros(size, dtype=np.int64)
    elif kind is RecordKind.SCORE:
        scores = [_scores(columns, check, name) for name in columns if name not in _COLUMNS]
        indices["score"] = bins_of(np.stack(scores, axis=-1), domain.thresholds)
        indices["score"] = indices["score"][:, 0] if len(scores) == 1 else indices["score"]
    numbers: dict[str, int] = {}  # of clients, in the order of their first records
    each = zip(columns["client_id"], missing["client_id"], strict=True)
    client = np.array([-1 if without else numbers.setdefault(who, len(numbers)) for who, without in each])
    if say is not None:
        most = domain.max_count
        fault = (
            f"its client has more records than the maximum of {most}, of which as many are drawn at random"
        )
        check(_beyond(client, most, check.kept), fault, "")
    return ClientRecords(
        domain,
        np.asarray([*numbers] or [where], dtype=object),
        client.astype(np.int64)[check.kept],
        indices["group"][check.kept],
        indices["label"][check.kept],
        indices[kind][check.kept] if kind in indices else None,
    )


class _Check:
    """Keeps the rows that are records of the domain; of others, refuses the first or says what is left out.

    Attributes: kept: of each row, whether it is a record.
    """

    def __init__(self, where: str, rows: Sequence[Any], say: Say | None) -> None:
        self._where, self._rows, self._say = where, rows, say
        self.kept = np.ones(len(rows), dtype=bool)

    def __call__(
        self,
        wrong: npt.ArrayLike,
        fault: str,
        mend: str,
        column: Sequence[str] = (),
        known: Sequence[str] = (),
    ) -> None:
        """Leave rows out, or refuse them.

        Args: fault: in it {} stands for the value in the column; mend: what to do; known: right values.
        """
        rows = np.flatnonzero(np.asarray(wrong, dtype=bool) & self.kept)
        if not len(rows):
            return
        value = str(column[rows[0]]) if column else ""
        same = alike(value, known)
        message = f"{self._where}, row {self._rows[rows[0]]}: {fault.replace('{}', repr(value), 1)}"
        if self._say is None:
            more = f", and so in {len(rows) - 1:,} more" if len(rows) > 1 else ""
            raise RecordsError(f"{message}{more}{same or f'; {mend}'}.")
        message += same
        more = f", with {len(rows) - 1:,} more" if len(rows) > 1 else ""
        self._say(f"{message}; left out{more}.")
        self.kept[rows] = False


def _beyond(
    client: npt.NDArray[np.int64], most: int | npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return which rows are beyond so many of a client's, if those that are kept are drawn at random.

    Args: most: of every client, or of each, shape (M,).
    """
    rows = np.flatnonzero(kept)
    drawn = np.frombuffer(os.urandom(8 * len(rows)), dtype=np.uint64)
    order = np.lexsort((drawn, client[rows]))
    counts = np.bincount(client[rows])
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    beyond = np.zeros(len(kept), dtype=bool)
    each = most if isinstance(most, int) else most[client[rows][order]]
    beyond[rows[order[rank >= each]]] = True
    return beyond


def score_names(labels: Sequence[str]) -> list[str]:
    """Return the columns of scores of more than two labels."""
    return [f"score_{label}" for label in labels]


def _columns(kind: RecordKind, cut: ScoreCut | None, domain: RecordDomain | None) -> tuple[str, ...]:
    """Return the columns that hold what these records do, or the scores from which predictions follow."""
    if kind is RecordKind.VALUE:
        return ("client_id", "group", "value")
    if domain and cut is None and domain.with_kind(kind).score_columns > 1:
        return (*_COLUMNS, *score_names(domain.labels))
    read = kind if cut is None else RecordKind.SCORE
    return (*_COLUMNS, str(read)) if read.of_each else _COLUMNS


def _numbers(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return what texts stand for, NaN where one is no number; Python's own reading would take 1_0 for 10."""
    return np.array([float(text) if _NUMBER.fullmatch(text) else np.nan for text in texts], dtype=np.float64)


def _scores(columns: Columns, check: _Check, name: str) -> npt.NDArray[np.float64]:
    """Return the numbers in a column of scores; they have to be from 0 to 1."""
    scores = _numbers(columns[name])
    wrong = ~((scores >= 0) & (scores <= 1))  # NaN is neither
    mend = "correct the row; 61 % is 0.61"
    check(wrong, f"{name} {{}} is not a number from 0 to 1", mend, columns[name])
    return np.where(wrong, 0, scores)


def _values(columns: Columns, grid: ValueGrid, check: _Check) -> npt.NDArray[np.float64]:
    """Return the column's numbers, or fractions of counts as 17/20; they have to be in the range."""
    parts = [text.partition("/") for text in columns["value"]]
    top = _numbers([above for above, _, _ in parts])
    bottom = _numbers([below if slash else "1" for _, slash, below in parts])
    with np.errstate(divide="ignore", invalid="ignore"):
        values: npt.NDArray[np.float64] = top / bottom
    wrong = ~((values >= grid.low) & (values <= grid.high))  # NaN is neither
    where = f"from {grid.low:g} to {grid.high:g}, the declared range"
    mend = f"correct the row, or declare another {named('range')}"
    check(wrong, f"value {{}} is not a number or a fraction {where}", mend, columns["value"])
    return np.where(wrong, grid.low, values)
