"""Groups of several columns: one name for each combination, the same from every source and every lookup."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from hypothesis import given, strategies as st

import fairshares as fs
from fairshares._run import _source
from fairshares.harness.errors import RecordsError
from fairshares.harness.inputs.columns import BETWEEN, cross, holds_separator, one_column
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import read_records
from fairshares.harness.inputs.tables import Named
from fairshares.harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule

from .test_frames import FRAMES, in_file

ROWS = 24
COLUMNS: dict[str, list[Any]] = {
    "client_id": [*range(ROWS)],
    "colour": ["black", "white"] * (ROWS // 2),
    "sex": ["f", "f", "m"] * (ROWS // 3),
    "site": [1.0, 2.0, 2.0, 1.0] * (ROWS // 4),
    "old": [True, False, False] * (ROWS // 3),
    "label": [0, 1, 1, 1] * (ROWS // 4),
}


def made(kind: str, columns: dict[str, list[Any]], directory: Path) -> Any:
    """Return columns as a frame or a file."""
    if kind not in FRAMES:
        return in_file(columns, directory / f"records.{kind}")
    if kind == "pandas with categories":
        return pd.DataFrame(columns).astype({"colour": "category", "sex": "category", "old": "category"})
    return FRAMES[kind](columns)


@given(st.lists(st.text("& ab", max_size=5), min_size=2, max_size=2))
def test_a_name_has_one_reading(texts: list[str]) -> None:
    if any(map(holds_separator, texts)) or not all(text.strip() for text in texts):
        return
    assert cross([[text] for text in texts])[0].split(BETWEEN) == texts


def test_unlike_rows_have_unlike_names() -> None:
    """All pairs of short texts that may be joined."""
    texts = ["".join(signs) for length in (1, 2, 3) for signs in itertools.product("& a", repeat=length)]
    allowed = [text for text in texts if text.strip() and not holds_separator(text)]
    pairs = [*itertools.product(allowed, repeat=2)]
    assert len(allowed) > 15 and len({*cross([*zip(*pairs, strict=True)])}) == len(pairs)


@pytest.mark.parametrize("kind", [*FRAMES, "csv", "parquet"])
def test_every_source_has_the_same_groups(kind: str, tmp_path: Path) -> None:
    """Text, whole numbers that a missing value made floats, and truth; by hand from the columns."""
    names = ["colour", "site", "old"]
    records = read_records(Named(made(kind, COLUMNS, tmp_path), {"group": names}), None)
    expected = [
        f"{colour} & {site:.0f} & {old}"
        for colour, site, old in zip(*(COLUMNS[name] for name in names), strict=True)
    ]
    groups = records.domain.groups
    assert groups == tuple(sorted({*expected})) and records.columns["group"] == "str"
    by_client = {
        str(records.client_ids[c]): groups[g] for c, g in zip(records.client, records.group, strict=True)
    }
    assert by_client == {str(client): name for client, name in enumerate(expected)}


@pytest.mark.parametrize("kind", [*FRAMES, "csv", "parquet"])
@pytest.mark.parametrize("bad", ["", "a & b", "& b", "a &"])
def test_a_missing_or_ambiguous_value_is_refused_in_every_source(kind: str, bad: str, tmp_path: Path) -> None:
    columns = {**COLUMNS, "sex": [*COLUMNS["sex"][:5], bad, *COLUMNS["sex"][6:]]}
    said = "has ' & ' in a value" if bad else "column group is empty or NaN"
    with pytest.raises(RecordsError, match=said) as raised:
        read_records(Named(made(kind, columns, tmp_path), {"group": ["colour", "sex"]}), None)
    if kind == "csv":
        assert "row 7:" in str(raised.value)


def test_missing_numbers_are_missing_groups() -> None:
    table = pd.DataFrame(COLUMNS)
    table.loc[3, "site"] = np.nan
    with pytest.raises(RecordsError, match="row 3: column group is empty or NaN; fill it in"):
        read_records(Named(table, {"group": ["colour", "site"]}), None)
    assert cross([["a", "b", "c", "d"], [1.0, None, np.nan, pd.NA]]) == ["a & 1", "", "", ""]


def test_a_column_that_names_no_groups_is_refused_by_its_own_name() -> None:
    table = polars.DataFrame({**COLUMNS, "sex": [[1]] * ROWS})
    with pytest.raises(RecordsError, match=r"has the column sex as list.*names no groups"):
        read_records(Named(table, {"group": ["colour", "sex"]}), None)


def test_values_that_look_like_one_are_asked_about_by_column(tmp_path: Path) -> None:
    table = pd.DataFrame({**COLUMNS, "sex": ["f", "F", "m"] * (ROWS // 3)})
    with pytest.raises(fs.RecordDomainError, match="'F' and 'f', which look like one"):
        read_records(Named(table, {"group": ["colour", "sex"]}), None)
    for name, values in (("one", [1, 2]), ("two", ["m", "f"])):
        rows = {"client_id": [name] * 2, "colour": ["black", "white"], "sex": values, "label": [0, 1]}
        in_file(rows, tmp_path / f"{name}.csv")
    with pytest.raises(RecordsError, match="same types: correct one"):
        read_records(Named(tmp_path, {"group": ["colour", "sex"]}), None)


def test_declared_groups_are_of_crossed_columns(tmp_path: Path) -> None:
    domain = RecordDomain(("black & 1", "black & 2", "white & 1", "white & 2"), ("0", "1"))
    for kind in ("csv", "pandas", "duckdb"):
        source = Named(made(kind, COLUMNS, tmp_path), {"group": ["colour", "site"]})
        assert len(read_records(source, domain).client) == ROWS
    with pytest.raises(RecordsError, match="group 'white & 2' is not declared"):
        read_records(source, RecordDomain(domain.groups[:3], ("0", "1")))


def test_rows_outside_are_left_out_where_clients_share(tmp_path: Path) -> None:
    columns = {**COLUMNS, "sex": ["f & m", "", *COLUMNS["sex"][2:]]}
    domain = RecordDomain(
        tuple(f"{colour} & {sex}" for colour in ("black", "white") for sex in "fm"), ("0", "1")
    )
    said: list[str] = []
    source = Named(made("csv", columns, tmp_path), {"group": ["colour", "sex"]})
    records = read_records(source, domain, say=said.append)
    assert len(records.client) == ROWS - 2 and records.clients == ROWS and len(said) == 2


def test_a_call_takes_names_frames_and_arrays_of_columns() -> None:
    table = pd.DataFrame(COLUMNS, index=range(100, 100 + ROWS))
    both = ["colour", "sex"]
    expected = read_records(_source(table, {"group": both}), None)
    given: tuple[Any, ...] = (
        tuple(both),
        table[both],
        table[both].to_numpy(),
        table[both].to_numpy().tolist(),
    )
    for group in given:
        records = read_records(_source(table, {"group": group}), None)
        assert records.domain == expected.domain and records.cell.tolist() == expected.cell.tolist()
    arrays = {"group": polars.DataFrame(COLUMNS)[both], "label": COLUMNS["label"]}
    of_one_each = read_records(_source(None, arrays), None).domain  # without a column client_id
    assert of_one_each == replace(expected.domain, max_count=1)
    alone = read_records(_source(table, {"group": table[["sex"]]}), None)
    assert alone.domain.groups == ("f", "m")


def test_one_column_is_a_name_in_a_list_or_values_in_rows() -> None:
    """For each role, in a frame and in a file, as for several columns that make a group."""
    table = pd.DataFrame(COLUMNS)
    expected = read_records(_source(table, {"group": "sex", "label": "old"}), None)
    in_rows = {"group": table[["sex"]].to_numpy(), "label": [[value] for value in COLUMNS["old"]]}
    given: tuple[dict[str, Any], ...] = (
        {"group": ["sex"], "label": ["old"], "client_id": ["client_id"]},
        {"group": table[["sex"]], "label": table[["old"]]},
        {**in_rows, "client_id": table[["client_id"]].to_numpy()},
    )
    for columns in given:
        records = read_records(_source(table, columns), None)
        assert records.domain == expected.domain and records.cell.tolist() == expected.cell.tolist()
    with pytest.raises(RecordsError, match="no column sexx"):
        read_records(_source(table, {"group": ["sexx"]}), None)
    with pytest.raises(RecordsError, match="one value per row each"):
        read_records(_source(table, {"label": table[["old", "label"]]}), None)


def test_a_list_of_texts_is_names_or_values() -> None:
    """Values where as many as rows, unless all are names of columns."""
    table = pd.DataFrame(
        {"client_id": [0, 1], "label": [0, 1], "colour": ["black", "white"], "sex": ["f", "m"]}
    )
    assert read_records(_source(table, {"group": ["a", "b"]}), None).domain.groups == ("a", "b")
    crossed = read_records(_source(table, {"group": ["colour", "sex"]}), None)
    assert crossed.domain.groups == ("black & f", "white & m")
    for group, said in (
        (["colour", "sexx", "client_id"], "no column sexx .did you mean sex"),
        (["sex", "sex", "sex"], "group= names the column sex twice"),
        (["colour", "label"], "The column label cannot be both group and label"),
    ):
        with pytest.raises(RecordsError, match=said), fs.harness.errors.naming(fs.harness.errors.PYTHON):
            read_records(_source(table, {"group": group}), None)


def test_lookups_join_columns_as_the_run_did(tmp_path: Path) -> None:
    table = pd.DataFrame(COLUMNS)
    for names in (["colour", "sex"], ["colour", "site"], ["sex", "old"]):
        r = fs.weights(
            table, group=names, epsilon=20, security="mpyc", population="none", ledger=tmp_path / "l"
        )
        by_name = [
            r.weights[pair] for pair in zip(cross([*table[names].to_numpy().T]), table.label, strict=True)
        ]
        few = table[names].head(1)  # by itself, with a site that is a whole number
        for group in (table[names], table[names].to_numpy(), polars.from_pandas(table)[names]):
            assert r.sample_weight(group, COLUMNS["label"]).tolist() == by_name
        assert r.sample_weight(few, table.label.head(1)).tolist() == by_name[:1]
        assert fs.sample_weight(r.weights, table[names], table.label).tolist() == by_name


def test_the_predictor_takes_the_columns() -> None:
    rules = {"black & 1": ThresholdRule((0.2,)), "white & 1": ThresholdRule((0.8,))}
    predictor = GroupThresholdPredictor(rules)
    table = pd.DataFrame({"colour": ["black", "white"], "site": [1.0, 1.0]})
    for groups in (table, table.to_numpy(), table.to_numpy().tolist(), polars.from_pandas(table)):
        assert predictor.predict([0.5, 0.5], sensitive_features=groups).tolist() == [1, 0]
    with pytest.raises(fs.UnseenGroupError, match="'black & 2'"):
        predictor.predict([0.5, 0.5], sensitive_features=table.assign(site=2))
    with pytest.raises(RecordsError, match="same index"):
        predictor.predict(pd.Series([0.5, 0.5], index=[7, 8]), sensitive_features=table)


@pytest.mark.parametrize("bad", ["a & b", "& b"])
def test_values_that_read_two_ways_are_refused_in_arrays(bad: str) -> None:
    with pytest.raises(RecordsError, match=r"sex has the value .* in row 1"):
        one_column([["a", "b"], ["a", bad]], "sex")
