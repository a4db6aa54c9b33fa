"""Calls take any frame: what comes back is in the caller's types, and columns may have any name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import fairshares as fs
from fairshares._run import _of_clients_alone, _source, _values_in
from harness.inputs.record_schema import RecordKind
from harness.inputs.records import read_records
from harness.inputs.tables import TABLE

ROWS = 200
COLUMNS: dict[str, list[Any]] = {
    "branch": [f"c{i}" for i in range(ROWS)],
    "group": ["a", "b"] * (ROWS // 2),
    "label": [i // 2 % 2 for i in range(ROWS)],
    "score": [(i // 2 % 2 + i / ROWS) / 2 for i in range(ROWS)],
}


def lazy(columns: dict[str, list[Any]]) -> Any:
    return duckdb.connect().from_arrow(pa.table(columns))


def polars(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars", reason="Polars is not installed").DataFrame(columns)


FRAMES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "pyarrow": pa.table,
    "polars": polars,
    "polars, lazy": lambda columns: polars(columns).lazy(),
    "duckdb": lazy,
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_source_is_the_same_records_whatever_the_frame(frame: str) -> None:
    table = FRAMES[frame](COLUMNS)
    source = _source(table, {"client_id": "branch", "group": None, "label": None, "score": None})
    assert _values_in(source, {}) == {"group": {"a": "a", "b": "b"}, "label": {"0": 0, "1": 1}}
    records = read_records(source, None, kind=RecordKind.SCORE)
    expected = read_records(
        pd.DataFrame(COLUMNS).rename(columns={"branch": "client_id"}), None, kind=RecordKind.SCORE
    )
    assert records.client_ids.tolist() == expected.client_ids.tolist()
    assert records.counts_per_client().tolist() == expected.counts_per_client().tolist()
    alone = read_records(_of_clients_alone(_source(table, {}), {}), None)
    assert alone.clients == ROWS and alone.counts_per_client().sum(axis=1).tolist() == [50] * 4
    with pytest.raises(
        fs.RecordsError, match=rf"^{TABLE} has no column shop, the value of client_id= \(found: branch, "
    ):
        _source(table, {"client_id": "shop"})


def test_arrays_beside_a_frame(tmp_path: Path) -> None:
    """Of a lazy frame there are no rows that they could belong to."""
    beside = {"client_id": COLUMNS["branch"], "group": None, "label": None}
    records = read_records(_source(polars(COLUMNS), beside), None)
    assert records.client_ids.tolist() == sorted(COLUMNS["branch"])
    with pytest.raises(
        fs.RecordsError, match=r"^A lazy frame's rows have no order: name the column that is client_id\.$"
    ):
        _source(lazy(COLUMNS), beside)


def test_calls_on_a_lazy_frame() -> None:
    r = fs.weights(lazy(COLUMNS), client_id="branch", epsilon=20, security="mpyc")
    assert r.weights.index.tolist() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    plan = fs.plan(from_records=lazy({"client_id": COLUMNS["branch"], **COLUMNS}), epsilon=1, security="mpyc")
    assert plan.models.index.tolist() == ["mpyc"]


def test_training_takes_the_rows_of_a_frame() -> None:
    table = polars({"client_id": COLUMNS["branch"], **COLUMNS})
    declared = {"score": {"low": 0, "high": 1}}
    r = fs.train(table, features=declared, epsilon=20, rounds=2, security="mpyc")
    assert r.model.classes_.tolist() == [0, 1]
