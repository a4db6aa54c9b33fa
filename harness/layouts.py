"""What is shared in each input form, as a table of integers: columns, and a row per client or record."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.records import ClientRecords, RecordDomain
from protocols.spec import PRODUCT, SPLIT, InputForm

Table = npt.NDArray[np.int64]


def count_columns(domain: RecordDomain, form: str) -> int:
    """Return how many values a row has.

    `split`: a count per cell. `product` (the papers' form): an indicator per group but the last, then a
    count per cell of one group.
    """
    if form == SPLIT.name:
        return domain.cells
    return len(domain.groups) - 1 + domain.cells // len(domain.groups)


def columns_of(records: ClientRecords, form: InputForm) -> Table:
    """Return what is shared: shape (columns, rows).

    Raises: RecordsError: product form and a client with two groups.
    """
    counts = records.counts_per_client()
    if form.name == SPLIT.name:
        return counts
    assert form.name == PRODUCT.name
    group = records.group_per_client()
    indicators = group == np.arange(len(records.domain.groups) - 1)[:, np.newaxis]
    of_one_group = counts.reshape(len(records.domain.groups), -1, records.clients).sum(axis=0)
    return np.concatenate([indicators.astype(np.int64), of_one_group])
