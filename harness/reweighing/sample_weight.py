"""A sample weight per row, from weights per group and label."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy.typing as npt
import pandas as pd

from fairshares.harness.errors import RecordsError
from fairshares.harness.inputs.columns import ColumnValues, as_names, one_column
from fairshares.harness.inputs.tables import table_of
from fairshares.harness.system.documents import as_type
from fairshares.harness.system.files import as_path
from fairshares.harness.system.result_files import not_result, read_result, result_path
from fairshares.protocols.arrays import Floats

WeightsTable = Sequence[Sequence[float]] | Floats  # per group (row) and label (column), in the data's order


@dataclass(frozen=True)
class _Weights:
    groups: list[str]
    labels: list[str]
    weights: list[list[float]]


def read_weights(path: Path | str) -> pd.Series:
    """Read the sample weights of a finished run.

    Args:
        path: `weights.json`, or its directory.
    Returns:
        The positive weights by (group, label), both strings.
    Raises:
        ResultFileError: The file cannot be read, or lacks a positive weight for a pair.
    """
    path = result_path(path, "weights.json")
    refusal = not_result(path, "weights.json")
    fields = as_type(_Weights, read_result(path, "weights.json"), refusal, more=True)
    index = pd.MultiIndex.from_product([fields.groups, fields.labels], names=["group", "label"])
    table = [weight for row in fields.weights if len(row) == len(fields.labels) for weight in row]
    if len(table) != len(index) or not index.is_unique or not all(0 < weight < math.inf for weight in table):
        refusal.say("it does not hold a positive weight for each group and label")
    return pd.Series(table, index=index, name="sample_weight")


def sample_weight(weights: pd.Series | Path | str, group: ColumnValues, label: npt.ArrayLike) -> pd.Series:
    """Return each row's weight, for `fit(X, y, sample_weight=...)`.

    Values are matched as in a file: 1, 1.0 and "1" are the same label.

    Args:
        weights: The result of `read_weights`, or the argument of `read_weights`.
        group: Each row's group, shape (n,): a pandas Series, numpy array or list. Or a frame or an array of
            shape (n, k), the columns that the run crossed into groups.
        label: Each row's label, shape (n,): a Series, array or list. Two Series must have one index, which
            the result keeps.
    Returns:
        The weights, shape (n,).
    Raises:
        ResultFileError: The file cannot be read, or lacks a positive weight for a pair.
        RecordsError: Group and label are of different rows, or a pair has no weight.
    """
    if not isinstance(weights, pd.Series):
        weights = read_weights(as_path(weights, "weights"))
    rows = table_of({"group": one_column(group, "group"), "label": label})
    levels = [as_names(weights.index.get_level_values(i).to_series()) for i in (0, 1)]
    by_pair = dict(zip(zip(*levels, strict=True), weights, strict=True))
    pairs = list(zip(as_names(rows.group), as_names(rows.label), strict=True))
    for row, pair in enumerate(pairs):
        if pair not in by_pair:
            raise RecordsError(
                f"Sample {row} has the group {pair[0]!r} and the label {pair[1]!r}, for which there is no "
                "weight; declare both and compute the weights again."
            )
    return pd.Series([by_pair[pair] for pair in pairs], rows.index, dtype=float, name="sample_weight")
