"""What is shared in each input form, as a table of integers: columns, and a row per client or record."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.records import ClientRecords, Detail, RecordDomain
from protocols.spec import KEYS, PRODUCT, SCORES, SPLIT, InputForm

Table = npt.NDArray[np.int64]


def is_per_record(domain: RecordDomain, form: str) -> bool:
    """Return whether there is a row per record, not per client: then how many there are is public."""
    return form in (KEYS.name, SCORES.name) or (form == PRODUCT.name and domain.detail is Detail.PREDICTION)


def count_columns(domain: RecordDomain, form: str) -> int:
    """Return how many values a row has.

    `split`: a count per cell; of performance values, for each group, the client's value and as many steps as
    a value has on either side, 0 and 0 unless it is in the group. `product` (the papers' form): an indicator
    per group but the last, then a count per cell of one group; of predictions, per record: an indicator per
    group, label and predicted label, but for the last of each. `keys`: per record, its cell. `scores`: per
    record, an indicator per group and label, but for the last of each, and the score's bin.
    """
    if form == KEYS.name:
        return 1
    if form == SCORES.name:
        return len(domain.groups) + len(domain.labels) - 1
    if form == SPLIT.name:
        return domain.cells
    if is_per_record(domain, form):
        return sum(size - 1 for size in domain.shape)
    return len(domain.groups) - 1 + domain.cells // len(domain.groups)


def count_rows(records: ClientRecords, form: str) -> int:
    """Return how many rows these records have."""
    return len(records.client) if is_per_record(records.domain, form) else records.clients


def columns_of(records: ClientRecords, form: InputForm) -> Table:
    """Return what is shared: shape (columns, rows).

    Raises: RecordsError: product form and a client with two groups.
    """
    domain = records.domain
    if domain.values:
        table = np.zeros((domain.cells, records.clients), dtype=np.int64)
        assert records.detail is not None
        table[2 * records.group, records.client] = records.detail
        table[2 * records.group + 1, records.client] = domain.values.steps
        return table
    if form.name == SPLIT.name:
        return records.counts_per_client()
    if form.name == KEYS.name:
        return records.cell[np.newaxis]
    if form.name == SCORES.name:
        assert records.detail is not None
        groups, labels, _ = domain.shape
        indicators = _indicators(records.group, groups), _indicators(records.label, labels)
        return np.concatenate([*indicators, records.detail[np.newaxis]])
    assert form.name == PRODUCT.name
    if is_per_record(domain, form.name):
        assert records.detail is not None
        each = zip((records.group, records.label, records.detail), domain.shape, strict=True)
        return np.concatenate([_indicators(index, size) for index, size in each])
    counts = records.counts_per_client().reshape(len(domain.groups), -1, records.clients)
    return np.concatenate([_indicators(records.group_per_client(), len(domain.groups)), counts.sum(axis=0)])


def _indicators(index: Table, size: int) -> Table:
    """Return, for each value but the last, which rows have it."""
    found: Table = (index == np.arange(size - 1)[:, np.newaxis]).astype(np.int64)
    return found
