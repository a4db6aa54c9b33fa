"""From weights per group and label to what training takes: a sample weight per row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import RecordDomainError, RecordsError
from harness.inputs.column_values import as_names, shown
from harness.inputs.tables import table_of
from harness.system.documents import as_type
from harness.system.result_files import not_result, read_result, result_path

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
WeightsTable = Sequence[Sequence[float]] | Floats
"""Weights per group (row) and label (column), in the data set's order."""


@dataclass(frozen=True)
class _Weights:
    """What is read of the file."""

    groups: list[str]
    labels: list[str]
    weights: list[list[float]]


def read_weights(path: Path | str) -> pd.Series:
    """Return the weights of a finished run, by group and label.

    Args: path: `weights.json`, or the directory that it is in.
    Returns: positive weights, indexed by (group, label), both strings, as declared; shape (k * m,).
    Raises: ResultFileError: the file cannot be read, or does not hold a positive weight for each pair.
    """
    path = result_path(path, "weights.json")
    refusal = not_result(path, "weights.json")
    fields = as_type(_Weights, read_result(path, "weights.json"), refusal, more=True)
    index = pd.MultiIndex.from_product([fields.groups, fields.labels], names=["group", "label"])
    table = [weight for row in fields.weights if len(row) == len(fields.labels) for weight in row]
    if len(table) != len(index) or not index.is_unique or not all(0 < weight < math.inf for weight in table):
        refusal.say("it does not hold a positive weight for each group and label")
    return pd.Series(table, index=index, name="sample_weight")


def sample_weight(weights: pd.Series | Path | str, group: npt.ArrayLike, label: npt.ArrayLike) -> pd.Series:
    """Return each row's weight, to be passed to `fit(X, y, sample_weight=...)`.

    Edge cases: values are matched as they stand in a file, so that 1, 1.0 and "1" are the same label.
    Args: weights: what `read_weights` gave, or what it takes; group, label: of each row, shape (rows,), as
    pandas Series of one index, numpy arrays or lists.
    Returns: shape (rows,), with that index, else 0, 1, 2 ...
    Raises: ResultFileError; RecordsError: group and label are not of the same rows, or a row's has no weight.
    """
    if not isinstance(weights, pd.Series):
        weights = read_weights(weights)
    rows, table = table_of({"group": group, "label": label}), weights.unstack()
    groups, labels, *of_rows = map(as_names, (*_levels(table), rows.group, rows.label))
    of_each_row = look_up_weights(table.to_numpy(), tuple(groups), tuple(labels), *of_rows)
    return pd.Series(of_each_row, index=rows.index, name="sample_weight")


def _levels(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    return table.index.to_series(), table.columns.to_series()


def look_up_weights(
    weights: WeightsTable,
    groups: Sequence[str],
    labels: Sequence[str],
    sensitive_feature: npt.ArrayLike,
    y: npt.ArrayLike,
) -> Floats:
    """Look up each sample's weight, for scikit-learn's `sample_weight`.

    Args: weights: (k, m), finite and not negative; groups, labels: the names of its rows and columns;
    sensitive_feature, y: (n,), compared as strings. Returns: (n,).
    Raises: RecordDomainError: the table holds a value that is no weight;
    RecordsError: a sample's group or label is not in the table.
    """
    table = np.asarray(weights, dtype=np.float64)
    if not (np.isfinite(table) & (table >= 0)).all():
        raise RecordDomainError("Every weight must be a finite number that is not negative.")
    row, column = _positions("group", groups, sensitive_feature), _positions("label", labels, y)
    if len(row) != len(column):
        raise RecordsError(
            f"There are {len(row)} groups but {len(column)} labels; each sample needs one of each."
        )
    return np.asarray(table[row, column], dtype=np.float64)


def _positions(kind: str, declared: Sequence[str], values: npt.ArrayLike) -> Indices:
    names = np.asarray(values).astype(str)
    at = pd.Index(list(declared)).get_indexer(pd.Index(names))
    if len(unknown := np.flatnonzero(at < 0)):
        raise RecordsError(
            f"Sample {unknown[0]} has the {kind} {str(names[unknown[0]])!r}, for which there is no weight; "
            f"declare it (declared: {', '.join(map(shown, declared))}) and compute the weights again."
        )
    return at.astype(np.int64)
