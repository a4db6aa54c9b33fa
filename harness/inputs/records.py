"""Clients' records, read at the client, so messages may name rows and values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from fairshares.harness.errors import OptionError, RecordDomainError, RecordsError, named
from fairshares.harness.inputs.columns import (
    BETWEEN,
    UNJOINED,
    alike,
    as_text,
    check_alike,
    check_dtype,
    dtype_of_texts,
    holds_separator,
    in_order_of,
    is_empty,
    refuse_variants,
    texts_as_in_frames,
    values_of,
)
from fairshares.harness.inputs.record_schema import (
    DEFAULT_MAX_COUNT,
    MAX_TOTAL,
    Cap,
    Grid,
    RecordDomain,
    RecordKind,
    ValueGrid,
    even_grid,
    most_of_own_records,
    shown,
)
from fairshares.harness.inputs.tables import MISSING, Counted, RecordTable, TabularRecords, table_at
from fairshares.harness.system.progress import Say
from fairshares.protocols.arrays import Bools, Floats, Integers

MOST_INFERRED = 50  # groups, or labels, that need no declaration
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.ASCII | re.IGNORECASE)
_COLUMNS = ("client_id", "group", "label")
_NAMED = ("group", "label", "prediction")
_TRUTH = {"true": "1", "false": "0"}
_GROUPS_SHOWN = 5  # groups in a message that shows how to declare them
_ONE = np.ones((), dtype=np.int64)


@dataclass(frozen=True)
class ClientRecords:
    """Records of M >= 1 clients, as arrays with an entry per set of equal records; a client may have none.

    Attributes:
        client_ids: Names, shape (M,), indexed by `client`.
        detail: Score bins, predicted labels or steps of values; with several scores, shape (n, labels).
        count: Number of records in each entry.
        columns: Dtypes of client_id, group and label, if known.
    """

    domain: RecordDomain
    client_ids: npt.NDArray[np.str_]
    client: Integers
    group: Integers
    label: Integers
    detail: Integers | None = None
    count: Integers = field(default_factory=lambda: _ONE)
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", np.broadcast_to(self.count, self.client.shape))
        most = self.sizes
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
        """Number of clients, including those without records."""
        return len(self.client_ids)

    @property
    def each_is_client(self) -> bool:
        """Whether each record is a client, for lack of a column client_id."""
        return bool(self.columns) and "client_id" not in self.columns

    @property
    def sizes(self) -> Integers:
        """Number of records of each client, shape (M,)."""
        return _added_up(self.client, self.count, self.clients)

    @property
    def singly(self) -> ClientRecords:
        """The same records with an entry each."""
        return self._kept(np.repeat(np.arange(len(self.client)), self.count), count=_ONE)

    @property
    def cell(self) -> Integers:
        """Each record's (group, label[, detail]) as one index; the last part varies fastest.

        With several scores, shape (scores, n): (score, group), whether the label is the score's, and bin.
        """
        if (scores := self.domain.score_columns) > 1:
            assert self.detail is not None
            number = np.arange(scores)[:, np.newaxis]
            pair = (number * len(self.domain.groups) + self.group) * 2 + (self.label == number)
            return np.asarray(pair * self.domain.shape[-1] + self.detail.reshape(-1, scores).T)
        pair = self.group * len(self.domain.labels) + self.label
        return pair if self.detail is None else pair * self.domain.shape[-1] + self.detail

    def counts_per_client(self) -> Integers:
        """Count each client's records per cell, shape (cells, M)."""
        cells = self.domain.cells
        return _added_up(self.cell * self.clients + self.client, self.count, self.clients * cells).reshape(
            cells, self.clients
        )

    def in_parts(self, clients: int) -> Iterator[ClientRecords]:
        """Yield the records in parts of so many clients."""
        if clients >= self.clients:
            yield self
            return
        order = np.argsort(self.client, kind="stable")
        starts = range(0, self.clients, clients)
        edges = np.searchsorted(self.client[order], [*starts, self.clients])
        for i, start in enumerate(starts):
            rows = order[edges[i] : edges[i + 1]]
            yield self._kept(
                rows, client_ids=self.client_ids[start : start + clients], client=self.client[rows] - start
            )

    def in_order(self) -> ClientRecords:
        """Return the records sorted by client and cell, or by cell if records are clients."""
        if self.each_is_client:
            return self._kept(np.lexsort(np.atleast_2d(self.cell)), client=self.client)
        return self._kept(np.lexsort((*np.atleast_2d(self.cell), self.client)))

    def at_most(self, most: Integers) -> ClientRecords:
        """Return a random choice of at most `most` records, shape (M,), per client."""
        count = _drawn(self.client, self.count, most)
        return self._kept(count > 0, count=count[count > 0])

    def _kept(
        self,
        kept: Integers | Bools,
        *,
        client_ids: npt.NDArray[np.str_] | None = None,
        client: Integers | None = None,
        count: Integers | None = None,
    ) -> ClientRecords:
        """Return some entries, by their places or a truth each; arrays that are given stand as they are."""
        return replace(
            self,
            client_ids=self.client_ids if client_ids is None else client_ids,
            client=self.client[kept] if client is None else client,
            group=self.group[kept],
            label=self.label[kept],
            detail=None if self.detail is None else self.detail[kept],
            count=self.count[kept] if count is None else count,
        )

    def check_unit(self, unit: str, cap: Cap | int | str | None) -> None:
        """Raise OptionError if records are clients, and clients are to be protected."""
        if self.each_is_client and (unit == "client" or cap):
            raise OptionError(
                "Without a column client_id each record is a client of its own, so none has several to be "
                f"protected together; add it, or leave out {named('privacy_unit')} and {named('cap')}."
            )

    def of_one_group(self, say: Say) -> ClientRecords:
        """Return each client's largest group, the first if equal, and report the rest."""
        sizes = self.counts_per_client().reshape(len(self.domain.groups), -1, self.clients).sum(axis=1)
        kept = sizes.argmax(axis=0)[self.client] == self.group
        if not kept.all():
            say(
                f"{self.count[~kept].sum():,} records of a client's second group are left out; "
                f"{named('input_form', 'split')} has them."
            )
        return self._kept(kept)

    def group_per_client(self) -> Integers:
        """Return each client's group, shape (M,), or raise RecordsError if one has two."""
        group = np.zeros(self.clients, dtype=np.int64)  # 0 for a client without records
        group[self.client] = self.group
        mixed = np.flatnonzero(group[self.client] != self.group)
        if len(mixed):
            raise RecordsError(
                f"Client {str(self.client_ids[self.client[mixed[0]]])!r} has records of two groups, which "
                f"the product form cannot hold; use {named('input_form', 'split')}."
            )
        return group


@dataclass(frozen=True)
class ScoreCut:
    """Predicts the positive label from a threshold on: `label`, or the last one if that is None."""

    threshold: float
    label: str | None = None

    def positive_in(self, domain: RecordDomain, where: str = "The records") -> int:
        """Return the positive label's index; raise RecordsError unless there are two labels."""
        if len(domain.labels) != 2:
            raise RecordsError(
                f"{where}: predictions follow from scores where there are two labels, "
                f"not {len(domain.labels)}; give a column prediction."
            )
        return domain.positive(self.label)

    def described(self, domain: RecordDomain) -> str:
        """Say which scores predict which label."""
        positive = self.positive_in(domain)
        return (
            f"Score ≥ {as_text([self.threshold])[0]} predicts: {domain.labels[positive]}; else: "
            f"{domain.labels[1 - positive]}."
        )


def read_records(
    source: TabularRecords,
    domain: RecordDomain | None,
    max_count: int = DEFAULT_MAX_COUNT,
    *,
    kind: RecordKind = RecordKind.NONE,
    cut: ScoreCut | None = None,
    say: Say | None = None,
    grid: Grid = (),
) -> ClientRecords:
    """Read, check and count records, with the same result for all kinds of sources.

    docs/how-to/records.md has the columns. Without a domain, groups and labels are inferred, and `max_count`
    holds. Invalid rows are refused, or with `say` left out and reported; client_id is then required, and an
    empty source is one client without records.

    Raises RecordsError, which names the source and row, or RecordDomainError.
    [test: tests/harness/inputs/test_frames.py]
    """
    names = _columns(kind, cut, domain)
    table = table_at(source, names, None if say else "client_id")
    if domain is not None and say is None:
        domain = _in_order_of(table, domain)
        names = _columns(kind, cut, domain)
    thresholds: Grid = ()
    if kind is RecordKind.SCORE:
        thresholds = grid or even_grid()
        if domain is not None and domain.thresholds:
            thresholds = domain.thresholds
    elif cut is not None:
        thresholds = (0.0, cut.threshold)
    scores: Sequence[str] = ()
    if thresholds:
        scores = [name for name in names if name not in _COLUMNS]
    others = [name for name in table.dtypes if name not in scores]
    counted = table.counted(others, scores, thresholds, say)
    return as_records(table, counted, domain, max_count, kind=kind, cut=cut, say=say, grid=grid).in_order()


def read_singly(
    source: TabularRecords,
    more: Sequence[str],
    domain: RecordDomain | None,
    max_count: int = DEFAULT_MAX_COUNT,
) -> tuple[ClientRecords, Counted]:
    """Return records, an entry each, and their values, in the source's order."""
    table = table_at(source, [*_COLUMNS, *more], "client_id")
    if domain is not None:
        domain = _in_order_of(table, domain)
    rows = table.rows([*table.dtypes])
    return as_records(table, rows, domain, max_count), rows


@dataclass(frozen=True)
class OwnRecords:
    """One client's records that are in a domain, in the source's order; n of them, which may be none.

    Attributes:
        group: The place of each record's group in the domain, shape (n,).
        label: The place of each record's label in the domain, shape (n,).
        texts: Their values as texts of a CSV file, by column.
        clients: The number of names in a column client_id, 1 without it.
    """

    group: Integers
    label: Integers
    texts: Mapping[str, Sequence[str]]
    clients: int


def read_own(source: TabularRecords, more: Sequence[str], domain: RecordDomain, say: Say) -> OwnRecords:
    """Return one client's records with more columns, and say which are left out, as they are not in a domain.

    Guarantees: no value in `group`, `label` or `more` decides whether this returns, whatever the domain is.
    [test: tests/harness/training/test_client_round.py]

    Raises RecordsError for a source that cannot be read, or lacks a column.
    """
    table = table_at(source, [*_COLUMNS, *more], "client_id")
    counted = table.rows([*table.dtypes], say)
    texts = counted.texts
    check = _Check(table, counted, say)
    lines = _Lines(table, counted, texts=_Texts(texts, dict(table.dtypes)), bins={}, check=check)
    lines.check_filled(("group", "label"))
    group = lines.places("group", domain.groups)
    label = lines.places("label", domain.labels)
    kept = np.flatnonzero(check.kept)
    texts_kept: dict[str, list[str]] = {}
    for name, column in texts.items():
        texts_kept[name] = [column[line] for line in kept.tolist()]
    clients = {name for name in texts.get("client_id", ()) if not is_empty(name)}
    return OwnRecords(group[kept], label[kept], texts_kept, len(clients) or 1)


def as_records(
    table: RecordTable,
    counted: Counted,
    domain: RecordDomain | None,
    max_count: int = DEFAULT_MAX_COUNT,
    *,
    kind: RecordKind = RecordKind.NONE,
    cut: ScoreCut | None = None,
    say: Say | None = None,
    grid: Grid = (),
) -> ClientRecords:
    """Return an entry for each of a table's counted lines; parameters as for `read_records`.

    Guarantees: with `say`, all names in client_id are clients, and no other value changes their number or
    whether this returns.  [test: tests/harness/uploads/test_uploaded_records.py]
    """
    if not len(counted.records) and say is None:
        raise RecordsError(f"{table.where} has no records: there is no row below the header.")
    read = [name for name in _columns(kind, cut, domain) if name in table.dtypes]
    score_names_read = read[-counted.bins.shape[1] :]
    lines = _Lines(
        table,
        counted,
        texts=_Texts(counted.texts, dict(table.dtypes)),
        bins=dict(zip(score_names_read, counted.bins.T, strict=False)),
        check=_Check(table, counted, say),
    )
    lines.check_filled(read)
    if domain is None:
        lines = lines.with_names_as_in_frames(kind)
        domain = _inferred_domain(table, lines.texts, max_count, kind, cut)
    domain = domain.with_kind(kind, grid)
    declared = _declared_names(domain, kind, cut)
    places = {name: lines.places(name, names) for name, names in declared.items()}
    types = {} if say else lines.types(declared)
    detail = lines.detail(domain, kind, cut, places.get("prediction"))
    lines.check_scores()
    no_labels = np.zeros(len(counted.records), dtype=np.int64)  # the labels of performance values
    pairs = _Pairs(places["group"], places.get("label", no_labels), detail)
    if "client_id" not in lines.texts.columns:
        return _each_of_its_own(domain, counted, pairs, types)
    return _by_client(domain, lines, pairs, types, say=say)


@dataclass(frozen=True)
class _Texts:
    """The texts of the counted lines, by column, and the columns' types; "" for texts of a CSV file."""

    columns: Mapping[str, Sequence[str]]
    dtypes: Mapping[str, str]

    def as_in_frames(self) -> _Texts:
        """Return the names of groups and labels as a frame would have them: a CSV file's 1.0 as 1."""
        columns = dict(self.columns)
        dtypes = dict(self.dtypes)
        for name in self.columns:
            if name not in _NAMED or dtypes[name] != "":
                continue
            columns[name], dtypes[name] = texts_as_in_frames(columns[name])
        return _Texts(columns, dtypes)


@dataclass(frozen=True)
class _Lines:
    """A table's counted lines, which become records step by step. Each step checks what it reads.

    A line is refused, or reported, for the first fault that is found. So the order of the steps in
    `as_records` decides which fault of a line a user is told.

    Attributes:
        table: The table.
        counted: The table's lines.
        texts: The lines' texts by column.
        bins: The bins of each column of scores.
        check: Refuses the lines that are no records, or leaves them out.
    """

    table: RecordTable
    counted: Counted
    texts: _Texts
    bins: Mapping[str, Integers]
    check: _Check

    def check_filled(self, read: Sequence[str]) -> None:
        """Check that each line has a value in each column that is read."""
        for name in read:
            if name in self.bins:
                empty: npt.ArrayLike = self.bins[name] == MISSING
            else:
                empty = [is_empty(text) for text in self.texts.columns[name]]
            no_value = _LineFault(
                name, "is empty or NaN", "fill it in, or leave the row out", names_value=False
            )
            self.check.refuse(empty, no_value)
        for name, parts in self.counted.parts.items():
            joined = np.zeros(len(parts[0]), dtype=np.bool_)
            for part in parts:
                joined |= np.array([holds_separator(text) for text in part])
            what = f"has {BETWEEN!r} in a value, which stands between those of several columns"
            self.check.refuse(joined, _LineFault(name, what, UNJOINED))

    def with_names_as_in_frames(self, kind: RecordKind) -> _Lines:
        """Return the lines with groups and labels that need no declaration, as a frame would have them.

        Raises RecordDomainError for groups or labels that are too many, or too similar, to be meant.
        """
        if kind is RecordKind.VALUE:
            raise RecordDomainError(
                f"Performance values need a declared range: give {named('groups')} and "
                f"{named('range', '0,1')}."
            )
        where = self.table.where
        for name in ("group", "label"):
            inferred = sorted(set(self.texts.columns[name]))
            if len(inferred) > MOST_INFERRED:
                raise RecordDomainError(
                    f"{where} has {len(inferred):,} different {name}s, as an ID of rows would have; put "
                    f"the {name}s in the column {name}, or declare all of them with {named('domain')}."
                )
            for part, texts in zip(self.table.columns(name), self._parts(name), strict=True):
                inferred = sorted(set(texts))
                refuse_variants(inferred, f"{where} has the {name}s")
                check_alike(self.table.at_source.by_file(part), name, inferred)
        return replace(self, texts=self.texts.as_in_frames())

    def _parts(self, name: str) -> Sequence[Sequence[str]]:
        """Return the texts of each column that a group's or label's name is read from."""
        return self.counted.parts.get(name, [self.texts.columns[name]])

    def places(self, name: str, declared: Sequence[str]) -> Integers:
        """Return the place of each line's text among a column's declared names; -1 for another text."""
        places = {text: place for place, text in enumerate(declared)}
        found = np.array([places.get(text, -1) for text in self.texts.columns[name]], dtype=np.int64)
        what = f"is not declared (declared: {', '.join(map(shown, declared))})"
        mend = "declare it, or correct the row"
        self.check.refuse(found < 0, _LineFault(name, what, mend, tuple(declared)))
        return found

    def types(self, declared: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the columns' types.

        Args:
            declared: The names that the groups and labels have to be.
        Raises:
            RecordsError: A column's values are not of the type that the declared names look like.
        """
        types: dict[str, str] = {}
        for name in _COLUMNS:
            if name not in self.table.dtypes:
                continue
            types[name] = self.texts.dtypes[name] or dtype_of_texts(declared.get(name, ()))
            if name in declared:
                check_dtype(types[name], declared[name], f"{self.table.where} has the column {name}")
        return types

    def detail(
        self, domain: RecordDomain, kind: RecordKind, cut: ScoreCut | None, predicted: Integers | None
    ) -> Integers | None:
        """Return a record's value beside group and label, as `ClientRecords.detail`; None without one.

        Args:
            domain: The facts about the records.
            kind: The kind of the records.
            cut: The scores from which on a label is predicted.
            predicted: The place of each line's predicted label, where a column names it.
        """
        if cut is not None:
            above = self.counted.bins[:, 0]
            return above if cut.positive_in(domain, self.table.where) else 1 - above
        if domain.values:
            return domain.values.rounded(self._values(domain.values))
        if kind is RecordKind.SCORE:
            return self.counted.bins[:, 0] if domain.score_columns == 1 else self.counted.bins
        return predicted

    def check_scores(self) -> None:
        """Check that each score is a number from 0 to 1."""
        for name, bins in self.bins.items():
            what = "is not a number from 0 to 1"
            self.check.refuse(bins < 0, _LineFault(name, what, "correct the row; 61 % is 0.61"))

    def _values(self, grid: ValueGrid) -> Floats:
        """Return each line's performance value, a number or a fraction; the lowest one for another text."""
        parts = [_TRUTH.get(text.lower(), text).partition("/") for text in self.texts.columns["value"]]
        top = _numbers([above for above, _, _ in parts])
        bottom = _numbers([below if slash else "1" for _, slash, below in parts])
        with np.errstate(divide="ignore", invalid="ignore"):
            values: Floats = top / bottom
        wrong = ~((values >= grid.low) & (values <= grid.high))  # NaN is neither
        what = f"is not a number or a fraction from {grid.low:g} to {grid.high:g}, the declared range"
        mend = f"correct the row, or declare another {named('range')}"
        self.check.refuse(wrong, _LineFault("value", what, mend))
        return np.where(wrong, grid.low, values)


@dataclass(frozen=True)
class _Pairs:
    """Each line's places in a domain: shapes (lines,), and (lines, …) of `detail`, if records have any."""

    group: Integers
    label: Integers
    detail: Integers | None

    def at(self, lines: Integers) -> _Pairs:
        """Return the texts of some lines."""
        detail = None if self.detail is None else self.detail[lines]
        return _Pairs(self.group[lines], self.label[lines], detail)


def _in_order_of(table: RecordTable, domain: RecordDomain) -> RecordDomain:
    """Return the domain with groups and labels in the order of their categories, where these have one."""
    groups = in_order_of(domain.groups, table.orders.get("group", ()))
    labels = in_order_of(domain.labels, table.orders.get("label", ()))
    return replace(domain, groups=groups, labels=labels)


def _inferred_domain(
    table: RecordTable, texts: _Texts, max_count: int, kind: RecordKind, cut: ScoreCut | None
) -> RecordDomain:
    """Return the domain of the groups and labels that occur; RecordDomainError if scores need more."""
    where = table.where
    groups = in_order_of(sorted(set(texts.columns["group"])), table.orders.get("group", ()))
    labels = in_order_of(sorted(set(texts.columns["label"])), table.orders.get("label", ()))
    domain = RecordDomain(groups, labels, max_count, inferred=True)
    if domain.with_kind(kind).score_columns > 1 and cut is None:
        positive = values_of(labels, texts.dtypes["label"])[-1]
        most = list(groups[:_GROUPS_SHOWN])
        if len(groups) > _GROUPS_SHOWN:
            most.append("…")
        raise RecordDomainError(
            f"{where} has {len(labels)} labels ({', '.join(map(shown, labels))}), and a score speaks for one "
            f"of two. Either make them two, as label == {positive!r} does, with "
            f"{named('positive_label', 'True')}. Or give each label a column of scores, "
            f"{', '.join(score_names(labels))}, and declare {named('groups', ','.join(most))} and "
            f"{named('labels', ','.join(labels))}."
        )
    return domain


def _declared_names(
    domain: RecordDomain, kind: RecordKind, cut: ScoreCut | None
) -> dict[str, tuple[str, ...]]:
    """Return the names that each column may hold, by column."""
    declared = {"group": domain.groups}
    if not domain.values:
        declared["label"] = domain.labels
    if kind is RecordKind.PREDICTION and cut is None:
        declared["prediction"] = domain.labels
    return declared


def _each_of_its_own(
    domain: RecordDomain, counted: Counted, pairs: _Pairs, types: dict[str, str]
) -> ClientRecords:
    """Return records of which each is a client's own; undeclared, the most of a client is therefore 1."""
    domain = replace(domain, max_count=most_of_own_records(domain.max_count))
    of_record = pairs.at(np.repeat(np.arange(len(counted.records)), counted.records))
    client = np.arange(len(of_record.group))
    return ClientRecords(
        domain,
        client.astype(str),
        client,
        of_record.group,
        of_record.label,
        of_record.detail,
        columns=types,
    )


def _by_client(
    domain: RecordDomain, lines: _Lines, pairs: _Pairs, types: dict[str, str], *, say: Say | None
) -> ClientRecords:
    """Return each client's records; with `say`, as many as it may have, drawn at random from too many."""
    where = lines.table.where
    texts = lines.texts.columns["client_id"]
    is_valid = lines.check.kept
    names = sorted({name for name in texts if not is_empty(name)})
    places = {name: place for place, name in enumerate(names)}
    client = np.array([places.get(name, -1) for name in texts], dtype=np.int64)[is_valid]
    records = lines.counted.records[is_valid]
    if say is not None and (_added_up(client, records, len(names)) > domain.max_count).any():
        drawn = _drawn(client, records, np.full(len(names), domain.max_count))
        say(
            f"{where}: a client has more records than the maximum of {domain.max_count}, of which as many "
            f"are drawn at random; {(records - drawn).sum():,} left out."
        )
        records = drawn
    counts = records > 0
    of_line = pairs.at(np.flatnonzero(is_valid)[counts])
    return ClientRecords(
        domain,
        np.asarray(names or [where], dtype=object),
        client[counts],
        of_line.group,
        of_line.label,
        of_line.detail,
        records[counts],
        types,
    )


@dataclass(frozen=True)
class _LineFault:
    """Why some lines are no records, for messages.

    Attributes:
        column: The column whose values are at fault.
        what: The kind of fault, as the end of a sentence whose subject is the column's name, with a value.
        mend: The way out, as a sentence.
        known: Names that the values could be meant for.
        names_value: Whether a message names the value.
    """

    column: str
    what: str
    mend: str
    known: tuple[str, ...] = ()
    names_value: bool = True

    def said_of(self, value: str) -> str:
        """Return the sentence about a line with this value, without its end."""
        if self.names_value:
            return f"{self.column} {value!r} {self.what}"
        return f"column {self.column} {self.what}"


class _Check:
    """Marks the lines that are valid records, and refuses or reports the others, each for its first fault.

    Attributes:
        kept: Whether each line is valid by all that has been looked at so far, shape (lines,).
    """

    def __init__(self, table: RecordTable, counted: Counted, say: Say | None) -> None:
        self._table = table
        self._counted = counted
        self._say = say
        self.kept = np.ones(len(counted.records), dtype=bool)

    def refuse(self, wrong: npt.ArrayLike, fault: _LineFault) -> None:
        """Leave lines out for a fault, and report the first of them; without `say` raise RecordsError.

        Args:
            wrong: Whether each line has the fault, shape (lines,).
            fault: The sentence on the fault.
        """
        lines = np.flatnonzero(np.asarray(wrong, dtype=bool) & self.kept)
        if not len(lines):
            return
        values = self._counted.values[fault.column]
        place, value = self._table.first(fault.column, [values[line] for line in lines.tolist()])
        others = self._counted.records[lines].sum() - 1
        same = alike(value, fault.known)
        message = f"{place}: {fault.said_of(value)}"
        if self._say is None:
            more = f", and so in {others:,} more" if others else ""
            way_out = same or f"; {fault.mend}"
            raise RecordsError(f"{message}{more}{way_out}.")
        more = f", with {others:,} more" if others else ""
        self._say(f"{message}{same}; left out{more}.")
        self.kept[lines] = False


def _added_up(place: Integers, count: Integers, size: int) -> Integers:
    sums = np.zeros(size, dtype=np.int64)
    # Equal shapes, as NumPy 2.4 reads past the end of counts that it has to repeat.
    np.add.at(sums, np.ravel(place), np.ravel(np.broadcast_to(count, place.shape)))
    return sums


def _drawn(client: Integers, count: Integers, most: Integers) -> Integers:
    """Return each line's number of records in a random choice of `most` per client."""
    line = np.repeat(np.arange(len(client)), count)
    order = np.lexsort((np.frombuffer(os.urandom(8 * len(line)), dtype=np.uint64), client[line]))
    counts = np.bincount(client[line])
    rank = np.arange(len(line)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = order[rank < most[client[line[order]]]]
    return np.bincount(line[kept], minlength=len(client))


def score_names(labels: Sequence[str]) -> list[str]:
    """Return the score columns of more than two labels."""
    return [f"score_{label}" for label in labels]


def _columns(kind: RecordKind, cut: ScoreCut | None, domain: RecordDomain | None) -> tuple[str, ...]:
    if kind is RecordKind.VALUE:
        return ("client_id", "group", "value")
    if domain and cut is None and domain.with_kind(kind).score_columns > 1:
        return (*_COLUMNS, *score_names(domain.labels))
    read = kind if cut is None else RecordKind.SCORE
    return (*_COLUMNS, str(read)) if read.of_each else _COLUMNS


def _numbers(texts: Sequence[str]) -> Floats:
    """Return numbers, or NaN; float() would take 1_0 for 10."""
    return np.array([float(text) if _NUMBER.fullmatch(text) else np.nan for text in texts], dtype=np.float64)
