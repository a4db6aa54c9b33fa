"""Clients' records, read from a file and checked against a declared public domain.

Everything here runs at the client (or in a simulation of clients), so messages may name a row, a
column and a value: they appear at the client's own terminal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import RecordDomainError, RecordsError
from harness.inputs.contribution_bounds import Cap, cap_from_json
from harness.inputs.scores import Grid, bins_of, even_grid, grid_from_json, grid_to_json, read_scores
from harness.inputs.tables import read_table, refuse_variants
from harness.inputs.values import ValueGrid, read_values, values_from_json

if TYPE_CHECKING:  # pandas and pyarrow take a second to load: functions that need them load them
    import pandas as pd

DEFAULT_MAX_COUNT = 2**31
MAX_TOTAL = 2**62  # sums of counts stay below this, so that noise cannot wrap them around

_COLUMNS = ("client_id", "group", "label")


class RecordKind(StrEnum):
    """What a record holds besides its group and label; also the column's name."""

    NONE = ""
    SCORE = "score"
    PREDICTION = "prediction"
    VALUE = "value"  # of a model's performance; such records have no label
    SIZE = "size"  # how many records a client has, and nothing of any

    @property
    def of_each(self) -> bool:
        """Whether each record holds it."""
        return self not in (RecordKind.NONE, RecordKind.SIZE)

    @property
    def described(self) -> str:
        """As messages say it."""
        return {"": "neither score nor prediction", "size": "their number alone"}.get(self, str(self))


@dataclass(frozen=True)
class RecordDomain:
    """What is public about records: groups, labels, thresholds, how many records a client may have.

    Attributes: groups, labels: as in the file, sorted, at least two of each; max_count: the most
    records of one client; inferred: whether groups and labels were read off the records, which makes
    them public without having been declared; detail: what else a record has; thresholds: the grid for
    scores, from 0 up, empty without scores. Predictions are labels. values: the grid of performance
    values, of which a client has one; then there are no labels. cap: the most that one client contributes,
    where clients are the privacy unit.
    """

    groups: tuple[str, ...]
    labels: tuple[str, ...]
    max_count: int = DEFAULT_MAX_COUNT
    inferred: bool = False
    detail: RecordKind = RecordKind.NONE
    thresholds: Grid = ()
    values: ValueGrid | None = None
    cap: Cap | None = None

    def __post_init__(self) -> None:
        if (self.detail is RecordKind.VALUE) != (self.values is not None):
            raise RecordDomainError(
                "Performance values and their range go together; declare it with --range, for example 0,1."
            )
        if self.values and (self.labels or self.max_count != 1):
            raise RecordDomainError("A client has one performance value, without a label.")
        if self.values and self.cap not in (None, Cap(1)):
            raise RecordDomainError("A client has one performance value: its cap is 1.")
        named = [("group", self.groups), *([] if self.values else [("label", self.labels)])]
        for kind, values in named:
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
            raise RecordDomainError(f"The maximum count must be 1 to 2^62 - 1, not {self.max_count}.")
        if (self.detail is RecordKind.SCORE) != bool(self.thresholds):
            raise RecordDomainError("Scores and thresholds go together: a domain has both or neither.")
        if self.detail is RecordKind.SIZE and self.cap:
            raise RecordDomainError("The domain has a cap: there is no cap to choose; leave the cap out.")

    @property
    def shape(self) -> tuple[int, ...]:
        """How many groups, labels and, if records have more, bins of scores or predictions there are."""
        if self.values:
            return len(self.groups), 2  # a sum of values, and as many times `steps` as there are
        pairs = len(self.groups), len(self.labels)
        if not self.detail.of_each:
            return pairs
        return *pairs, len(self.thresholds if self.detail is RecordKind.SCORE else self.labels)

    @property
    def cells(self) -> int:
        """How many cells a record can be in."""
        return math.prod(self.shape)

    @property
    def max_records_per_unit(self) -> int:
        """How many records come or go with the privacy unit: one, or a client's."""
        return self.cap.slots if self.cap else 1

    @property
    def max_contribution(self) -> int:
        """The largest number that a client adds to a cell."""
        if self.values:
            return self.values.steps
        return self.cap.slots if self.cap else self.max_count

    def with_detail(self, detail: RecordKind) -> RecordDomain:
        """Return the domain of records with this detail; scores have 1001 thresholds unless declared."""
        grid = (self.thresholds or even_grid()) if detail is RecordKind.SCORE else ()
        return replace(self, detail=detail, thresholds=grid)

    def to_json(self) -> dict[str, Any]:
        """Return what `domain_from_json` reads; with the records' detail, if they have one."""
        found: dict[str, Any] = {"groups": list(self.groups), "labels": list(self.labels)}
        found["max_count"] = self.max_count
        if self.detail is RecordKind.SCORE:
            found["thresholds"] = grid_to_json(self.thresholds)
        elif self.values:
            found["values"] = self.values.to_json()
        elif self.detail is RecordKind.PREDICTION:
            found["predictions"] = True
        elif self.detail is RecordKind.SIZE:
            found["sizes"] = True
        if self.cap:
            found["cap"] = self.cap.to_json()
        return found


def read_domain(path: Path) -> RecordDomain:
    """Read a domain from JSON: `{"groups": [...], "labels": [...], "max_count": n, "thresholds": t}`.

    The last two are optional; t is a list, or how many from 0 to 1. Of performance values: `{"groups": [...],
    "values": {"low": x, "high": y, "steps": n}}`, the steps optional. Either may have "cap", for clients; or
    "sizes": true, of which a cap is chosen.

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
    if isinstance(found, dict) and "values" in found:
        found = {"labels": [], "max_count": 1, **found}
    needed = {"groups", "labels"}
    further = {"max_count", "thresholds", "predictions", "sizes", "values", "cap"}
    if not isinstance(found, dict) or not needed <= set(found) <= needed | further:
        raise RecordDomainError(
            f"{where} must have the keys groups, labels and, if wanted, max_count and thresholds."
        )
    lists = [found["groups"], found["labels"]]
    max_count = found.get("max_count", DEFAULT_MAX_COUNT)
    if not all(isinstance(values, list) and all(isinstance(v, str) for v in values) for values in lists):
        raise RecordDomainError(f"groups and labels in {where} must be lists of strings, in double quotes.")
    if type(max_count) is not int:
        raise RecordDomainError(f"max_count in {where} must be a whole number.")
    flags = predictions, sizes = found.get("predictions", False), found.get("sizes", False)
    if not all(type(flag) is bool for flag in flags) or sum((*flags, "thresholds" in found)) > 1:
        raise RecordDomainError(
            f"{where} may have thresholds, or predictions or sizes true or false, and only one of them."
        )
    grid = grid_from_json(found["thresholds"], where) if "thresholds" in found else ()
    detail = RecordKind.PREDICTION if predictions else RecordKind.SIZE if sizes else RecordKind.NONE
    detail = RecordKind.SCORE if grid else detail
    valued = values_from_json(found["values"], where) if "values" in found else None
    if valued and detail:
        raise RecordDomainError(f"{where} may have values, or thresholds, predictions or sizes, not both.")
    detail = RecordKind.VALUE if valued else detail
    groups, labels = (tuple(sorted(values)) for values in lists)
    cap = cap_from_json(found["cap"], where) if "cap" in found else None
    return RecordDomain(groups, labels, max_count, detail=detail, thresholds=grid, values=valued, cap=cap)


@dataclass(frozen=True)
class ClientRecords:
    """Records of M clients, M >= 1: arrays of equal length, one entry per record.

    Attributes: client: index in [0, M); group, label: indices into the domain; client_ids: shape (M,),
    as in the file; detail: the bin of the score, the predicted label's index, or the value's step, where
    the domain has them. A client may have no record.
    """

    domain: RecordDomain
    client_ids: npt.NDArray[np.str_]
    client: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    detail: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not len(self.client) == len(self.group) == len(self.label):
            raise RecordsError("Every record needs a client, a group and a label.")
        found = None if self.detail is None else len(self.detail)
        if found != (len(self.client) if self.domain.detail.of_each else None):
            needed = self.domain.detail if self.domain.detail.of_each else "group and a label, no more"
            raise RecordsError(f"Every record needs a {needed}.")
        if not self.clients:
            raise RecordsError("There are no clients; at least one is needed.")
        most = np.bincount(self.client, minlength=self.clients)
        over = np.flatnonzero(most > self.domain.max_count)
        if len(over) and self.domain.values:
            raise RecordsError(
                f"Client {str(self.client_ids[over[0]])!r} has {most[over[0]]} values; a client has one."
            )
        if len(over):
            raise RecordsError(
                f"Client {str(self.client_ids[over[0]])!r} has {most[over[0]]} records, over the declared "
                f"maximum of {self.domain.max_count}; leave some out, or declare a larger --max-count "
                "at all clients."
            )
        if self.clients * self.domain.max_contribution >= MAX_TOTAL:
            raise RecordsError(
                f"{self.clients} clients with up to {self.domain.max_count} records each could overflow "
                f"the sum; declare a --max-count below {MAX_TOTAL // self.clients}."
            )

    @property
    def clients(self) -> int:
        return len(self.client_ids)

    @property
    def cell(self) -> npt.NDArray[np.int64]:
        """Each record's (group, label[, bin or prediction]) as one index, the last varying fastest."""
        pair = self.group * len(self.domain.labels) + self.label
        return pair if self.detail is None else pair * self.domain.shape[-1] + self.detail

    def counts_per_client(self) -> npt.NDArray[np.int64]:
        """Count each client's records per cell: shape (cells, M)."""
        cells = self.domain.cells
        flat = np.bincount(self.client * cells + self.cell, minlength=self.clients * cells)
        return np.ascontiguousarray(flat.reshape(self.clients, cells).T)

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
    detail: RecordKind = RecordKind.NONE,
    positive_from: float | None = None,
) -> ClientRecords:
    """Read CSV or Parquet with the columns client_id, group, label and, if asked for, score or prediction.

    Performance values: the columns client_id, group and value, a number or a fraction of counts, 17/20.

    Args: domain: what was declared; None infers groups and labels from this one file. max_count: for
    an inferred domain. may_be_empty: take a file with a header alone for one client without records.
    detail: what else to read; positive_from: predictions are made from the column score, the second
    label from this score on.
    Raises: RecordsError: names the file, and the row and value where there is one; RecordDomainError:
    an inferred domain has fewer than two groups or labels.
    """
    frame, rows = read_table(path, _columns(detail, positive_from))
    if frame.empty and may_be_empty and domain is not None:
        none = np.zeros(0, dtype=np.int64)
        client_ids = np.array([path.stem], dtype=object)
        declared = domain.with_detail(detail)
        return ClientRecords(declared, client_ids, none, none, none, none if detail.of_each else None)
    return records_from_frame(frame, domain, max_count, str(path), rows, detail, positive_from)


def records_from_frame(
    frame: pd.DataFrame,
    domain: RecordDomain | None,
    max_count: int = DEFAULT_MAX_COUNT,
    where: str = "The records",
    rows: Sequence[int] | None = None,
    detail: RecordKind = RecordKind.NONE,
    positive_from: float | None = None,
) -> ClientRecords:
    """Check a table of strings with the columns client_id, group, label ...; as `read_records` otherwise.

    Args: where: what messages call the table; rows: the numbers that its records go by; 1, 2 ... if None.
    """
    import pandas as pd

    if frame.empty:
        raise RecordsError(f"{where} has no records: there is no row below the header.")
    rows = range(1, len(frame) + 1) if rows is None else rows
    for name in _columns(detail, positive_from):
        missing = np.flatnonzero(frame[name].map(_is_missing).to_numpy(dtype=bool))
        if len(missing):
            raise RecordsError(f"{where}, row {rows[missing[0]]}: column {name} is empty or NaN.")
    if detail is RecordKind.VALUE and domain is None:
        raise RecordDomainError("Performance values need a declared range: give --groups and --range 0,1.")
    if domain is None:
        groups, labels = (tuple(sorted(map(str, frame[name].unique()))) for name in ("group", "label"))
        for kind, names in (("groups", groups), ("labels", labels)):
            refuse_variants(names, f"{where} has the {kind}")
        domain = RecordDomain(groups, labels, max_count, inferred=True)
    domain = domain.with_detail(detail)
    known = {"group": domain.groups} | ({} if domain.values else {"label": domain.labels})
    if detail is RecordKind.PREDICTION and positive_from is None:
        known["prediction"] = domain.labels
    indices: dict[str, npt.NDArray[np.int64]] = {}
    for name, declared in known.items():
        index = pd.Index(declared).get_indexer(pd.Index(frame[name]))
        unknown = np.flatnonzero(index < 0)
        if len(unknown):
            raise RecordsError(
                f"{where}, row {rows[unknown[0]]}: {name} {str(frame[name].iloc[unknown[0]])!r} "
                f"is not declared (declared: {', '.join(declared)})."
            )
        indices[name] = index.astype(np.int64)
    if positive_from is not None:
        if len(domain.labels) != 2:
            raise RecordsError(
                f"{where}: predictions follow from scores where there are two labels, "
                f"not {len(domain.labels)}; give a column prediction."
            )
        indices["prediction"] = bins_of(read_scores(frame, where, rows), (0.0, positive_from))
    elif domain.values:
        indices["value"] = read_values(frame, where, rows, domain.values)
        indices["label"] = np.zeros(len(frame), dtype=np.int64)
    elif detail is RecordKind.SCORE:
        indices["score"] = bins_of(read_scores(frame, where, rows), domain.thresholds)
    client, client_ids = pd.factorize(frame["client_id"])
    return ClientRecords(
        domain,
        np.asarray(client_ids, dtype=object),
        client.astype(np.int64),
        indices["group"],
        indices["label"],
        indices.get(detail),
    )


def _columns(detail: RecordKind, positive_from: float | None) -> tuple[str, ...]:
    """Return the columns that hold this detail, or the scores from which predictions follow."""
    if detail is RecordKind.VALUE:
        return ("client_id", "group", "value")
    read = detail if positive_from is None else RecordKind.SCORE
    return (*_COLUMNS, str(read)) if read.of_each else _COLUMNS


def _is_missing(text: str) -> bool:
    return text.strip().lower() in ("", "nan")
