"""Calls take any frame: what comes back is in the caller's types, and columns may have any name."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import fairshares as fs
from fairshares._run import _source
from fairshares.harness.inputs.columns import TABLE
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from fairshares.harness.inputs.records import read_records
from fairshares.harness.privacy.ledger.entries import Ledger

ROWS = 200
COLUMNS: dict[str, list[Any]] = {
    "branch": [f"c{i}" for i in range(ROWS)],
    "group": ["a", "b"] * (ROWS // 2),
    "label": [i // 2 % 2 for i in range(ROWS)],
    "score": [(i // 2 % 2 + i / ROWS) / 2 for i in range(ROWS)],
}

NO_RANGES: Any = ["score"]


def lazy(columns: dict[str, list[Any]]) -> Any:
    return duckdb.connect().from_arrow(pa.table(columns))


FRAMES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "pyarrow": pa.table,
    "polars": polars.DataFrame,
    "polars, lazy": polars.LazyFrame,
    "duckdb": lazy,
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_source_is_the_same_records_whatever_the_frame(frame: str) -> None:
    table = FRAMES[frame](COLUMNS)
    source = _source(table, {"client_id": "branch", "group": None, "label": None, "score": None})
    records = read_records(source, None, kind=RecordKind.SCORE)
    types = records.columns["group"], records.columns["label"]
    assert types == ("str", "int64") and records.domain.labels == ("0", "1")
    expected = read_records(
        pd.DataFrame(COLUMNS).rename(columns={"branch": "client_id"}), None, kind=RecordKind.SCORE
    )
    assert records.client_ids.tolist() == expected.client_ids.tolist()
    assert records.counts_per_client().tolist() == expected.counts_per_client().tolist()
    alone = read_records(_source(table, {}), None)
    assert alone.clients == ROWS and alone.counts_per_client().sum(axis=1).tolist() == [50] * 4
    with pytest.raises(fs.RecordsError, match=rf"^{TABLE} has no column shop; it needs .*found: branch, "):
        read_records(_source(table, {"client_id": "shop"}), None)


def test_arrays_beside_a_frame(tmp_path: Path) -> None:
    """Of a lazy frame there are no rows that they could belong to."""
    beside = {"client_id": COLUMNS["branch"], "group": None, "label": None}
    records = read_records(_source(polars.DataFrame(COLUMNS), beside), None)
    assert records.client_ids.tolist() == sorted(COLUMNS["branch"])
    with pytest.raises(
        fs.RecordsError, match=r" or a lazy frame have no order: name the column that is client_id\.$"
    ):
        _source(lazy(COLUMNS), beside)


def test_columns_of_a_file_have_other_names(tmp_path: Path) -> None:
    """Also where it has a column of our name, which is another one."""
    table = pd.DataFrame({**COLUMNS, "race": COLUMNS["group"]}).assign(group="x")
    table.to_csv(tmp_path / "my.csv", index=False)
    named = {"client_id": "branch", "group": "race", "label": None}
    for records in (table, tmp_path / "my.csv"):
        as_read = read_records(_source(records, named), None)
        assert as_read.domain.groups == ("a", "b") and as_read.counts_per_client().sum() == ROWS
    with pytest.raises(fs.RecordsError, match=r"my\.csv, row 2: group 'a' is not declared"):
        read_records(_source(tmp_path / "my.csv", named), RecordDomain(("b", "c"), ("0", "1")))


@pytest.mark.parametrize("frame", [*FRAMES, "file"])
@pytest.mark.parametrize(
    ("renamed", "said"),
    [
        ({"group": "Group"}, "has no column group (did you mean Group?); it needs "),
        (
            {"group": "grp", "label": "LABEL"},
            "group (did you mean grp?) and no column label (did you mean LABEL?); ",
        ),
        (
            {"group": "race"},
            "has no column group; it needs client_id, group, label (found: client_id, race, label",
        ),
    ],
)
def test_a_column_that_is_named_otherwise_is_listed(
    frame: str, renamed: dict[str, str], said: str, tmp_path: Path
) -> None:
    columns = {
        renamed.get(name, name): values
        for name, values in {"client_id": COLUMNS["branch"], **COLUMNS}.items()
    }
    columns.pop("branch")
    pd.DataFrame(columns).to_csv(tmp_path / "my.csv", index=False)
    records = tmp_path / "my.csv" if frame == "file" else FRAMES[frame](columns)
    with pytest.raises(fs.RecordsError) as refusal:
        fs.weights(records, epsilon=1, security="mpyc")
    assert said in str(refusal.value)
    assert "or name it by group=" in str(refusal.value)


def test_two_columns_of_one_name() -> None:
    rows = [["k", "a", 0, 0], ["l", "b", 1, 1]]
    twice = pd.DataFrame(rows, columns=["client_id", "group", "label", "label"])
    for records in (
        twice,
        pa.Table.from_arrays([*map(pa.array, zip(*rows, strict=True))], names=[*twice.columns]),
    ):
        for group in (None, ["a", "b"]):
            with pytest.raises(fs.RecordsError, match=rf"^{TABLE} has the column label twice; keep one\.$"):
                fs.weights(records, epsilon=1, security="mpyc", group=group)


def test_calls_on_a_lazy_frame() -> None:
    r = fs.weights(lazy(COLUMNS), client_id="branch", epsilon=20, security="mpyc")
    assert r.weights.index.tolist() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    plan = fs.plan(from_records=lazy({"client_id": COLUMNS["branch"], **COLUMNS}), epsilon=1, security="mpyc")
    assert plan.models.index.tolist() == ["mpyc"]


def test_training_takes_the_rows_of_a_frame() -> None:
    table = polars.DataFrame({"client_id": COLUMNS["branch"], **COLUMNS})
    declared = {"score": {"low": 0, "high": 1}}
    r = fs.train(table, features=declared, epsilon=5, rounds=2, security="mpyc")
    assert r.model.classes_.tolist() == [0, 1]


def test_truth_is_a_value_of_a_gap() -> None:
    table = pd.DataFrame(
        {"client_id": range(ROWS), "group": COLUMNS["group"], "value": [True, False, True, True] * 50}
    )
    domain = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0, 1, 10))
    for values in (
        table,
        table.astype({"value": object}),
        pa.table(table),
        table.assign(value=table.value.astype(str)),
    ):
        records = read_records(_source(values, {}), domain, kind=RecordKind.VALUE)
        assert records.detail is not None and records.detail.sum() == 10 * (150 - 50)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda df: fs.weights(df, epsilon=1, groups="a,b"),
            "groups= is a list of names, as ['a', 'b']; got 'a,b'.",
        ),
        (lambda df: fs.weights(df[df.group == "a"], epsilon=1), 'Declare all with groups=["a", "b"].'),
        (
            lambda df: fs.confusion(df, epsilon=1, prediction="label", score="score", threshold=0.5),
            "Give either prediction=, or score= and threshold=, which make predictions.",
        ),
        (
            lambda df: fs.confusion(df, epsilon=1, prediction="label", score="score"),
            "Give either prediction=, or score= and threshold=, which make predictions.",
        ),
        (
            lambda df: fs.gap(df, epsilon=1, value="score", groups=["a", "b"], range=(0, 5e-324)),
            "The range from 0 to 4.94066e-324 is too narrow for 1000 steps on each side of its center",
        ),
        (
            lambda df: fs.gap(
                df, epsilon=1, value="score", groups=["a", "b"], range=(0, 1), noise="distributed"
            ),
            "beyond 65536; more ε, or fewer steps=, needs less.",
        ),
        (
            lambda df: fs.weights(
                df,
                client_id=range(len(df)),
                epsilon=1e-5,
                privacy_unit="client",
                cap=3,
                max_count=3,
                noise="distributed",
            ),
            "beyond 65536; more ε, or a smaller cap, needs less.",
        ),
        (
            lambda df: fs.weights(df, epsilon=1e-5, noise="distributed"),
            "beyond 65536; more ε needs less.",
        ),
        (
            lambda df: fs.gap(df, epsilon=1, value="score", groups=["a", "b"], range=(1, 0)),
            "as range=[0, 1]; got",
        ),
        (
            lambda df: fs.weights(df, epsilon=1, population="p", budget="x"),
            "as budget=3 or budget=[3, 1e-6], and",
        ),
        (
            lambda df: fs.train(df, features=NO_RANGES, epsilon=1),
            "features= says the range or the categories of each column",
        ),
    ],
)
def test_a_mistake_in_python_is_answered_in_python(call: Callable[[pd.DataFrame], Any], said: str) -> None:
    with pytest.raises(fs.FairSharesError) as refusal:
        call(pd.DataFrame(COLUMNS))
    assert said in str(refusal.value)


def test_numbers_of_arrays_declare_features_and_domains() -> None:
    """As they come out of frames: the ends of a range, and the groups of a domain."""
    df, polars_frame = pd.DataFrame(COLUMNS), polars.DataFrame(COLUMNS)
    features = {"score": {"low": df.score.min(), "high": np.int64(1)}}
    declared = {"groups": polars_frame["group"].unique(), "labels": df.label.unique()}
    said: Any = {"epsilon": 20, "rounds": 1, "security": "mpyc", "client_id": "branch", "domain": declared}
    assert fs.train(df, features=features, **said).model.classes_.tolist() == [0, 1]


def test_a_column_is_one_thing() -> None:
    frame = pd.DataFrame({"client_id": ["1", "2"], "group": ["a", "b"], "label": [0, 1]})
    with pytest.raises(fs.RecordsError, match="The column group cannot be both"):
        fs.weights(frame, label="group", epsilon=1, security="mpyc")


@pytest.mark.parametrize(
    "groups",
    [{"a", "b"}, frozenset({"a", "b"}), dict.fromkeys("ab").keys(), {0: "a", 1: "b"}.values(), iter("ab")],
    ids=["set", "frozenset", "keys", "values", "iterator"],
)
def test_groups_are_any_collection_of_names(groups: Any) -> None:
    frame = pd.DataFrame({"client_id": range(8), "group": ["a", "b"] * 4, "label": [0, 0, 1, 1] * 2})
    result = fs.weights(
        frame, epsilon=20, groups=groups, labels=range(2), security="mpyc", noise="distributed"
    )
    assert result.weights.index.tolist() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert result.manifest["privacy"]["noise"] == "distributed"


HALVES: dict[str, Callable[[list[float]], Any]] = {
    "pandas": lambda label: pd.DataFrame({"label": np.array(label, dtype=np.float16)}),
    "polars": lambda label: polars.DataFrame({"label": label}, schema={"label": polars.Float16}),
    "arrow": lambda label: pa.table({"label": pa.array(np.array(label, dtype=np.float16))}),
}


@pytest.mark.parametrize("made", HALVES)
def test_labels_that_results_could_not_repeat_cost_nothing(made: str, tmp_path: Path) -> None:
    """As pandas has no index of half-precision numbers: ε was spent, and nothing could be read."""
    label = HALVES[made]([0.0, 0.0, 1.0, 1.0] * 5)["label"]
    columns = {"client_id": range(20), "group": ["a", "b"] * 10, "label": label}
    said: Any = {
        "epsilon": 1,
        "population": "people",
        "budget": 1,
        "ledger": tmp_path / "l",
        "security": "mpyc",
    }
    with pytest.raises(fs.RecordsError, match=r"as (float16|halffloat), by which pandas neither groups nor"):
        fs.weights(**columns, **said)
    with pytest.raises(fs.RecordsError, match=r"column client_id as (float16|halffloat), by"):
        fs.weights(**{**columns, "client_id": label, "label": [0, 1] * 10}, **said)
    assert not any(population.charges for population in Ledger(tmp_path / "l").populations())


@pytest.mark.parametrize("first", [2**62, 2**63, 2**64 - 2])
def test_integers_of_64_bits_are_groups_and_longer_ones_are_not(first: int) -> None:
    """As Python's own, in a column of objects."""
    groups = pd.Series([first, first + 1] * 20, dtype=object)
    columns: Any = {"group": groups, "label": [0, 0, 1, 1] * 10, "epsilon": 20, "security": "mpyc"}
    result = fs.weights(**columns)
    assert [group for group, label in result.weights.index if label] == [first, first + 1]
    assert result.sample_weight(groups, columns["label"]).shape == (40,)
    with pytest.raises(fs.RecordsError, match="as integers of more than 64 bits, which names no groups"):
        fs.weights(**{**columns, "group": groups * 2**60})


@pytest.mark.parametrize("values", [["hi", "lo", "mid"], [0, 1, 2]])
@pytest.mark.parametrize("is_file", [False, True])
def test_three_labels_are_answered_by_what_works(values: list[Any], is_file: bool, tmp_path: Path) -> None:
    """Both ways out, as the message has them: the second try succeeds."""
    said: dict[str, Any] = {"epsilon": 20, "security": "mpyc", "population": "none", "thresholds": [0.5]}
    df = pd.DataFrame({"group": ["a", "b"] * 150, "label": values * 100, "score": np.linspace(0, 1, 300)})

    def written(table: pd.DataFrame) -> pd.DataFrame | Path:
        table.to_csv(tmp_path / "three.csv", index=False)
        return tmp_path / "three.csv" if is_file else table

    more = {"positive_label": values[0]} if is_file else {}
    with pytest.raises(fs.RecordDomainError) as raised:
        fs.thresholds(written(df), **more, **said)
    message = str(raised.value)
    two = re.search(r"as label == (\S+) does, with positive_label=(\S+)\. ", message)
    several = re.search(r"scores, (.*), and declare groups=(.*) and labels=(.*)\.$", message)
    assert two and several
    halves = written(df.assign(label=df.label == ast.literal_eval(two[1])))
    r = fs.thresholds(halves, positive_label=ast.literal_eval(two[2]), **said)
    assert list(r.rules) == ["a", "b"]
    scored = written(df.assign(**dict.fromkeys(several[1].split(", "), df.score)).drop(columns="score"))
    with pytest.raises(fs.RecordsError, match=r"such as score_.*, declare groups= and labels="):
        fs.thresholds(scored, **more, **said)
    declared = {"groups": ast.literal_eval(several[2]), "labels": ast.literal_eval(several[3])}
    assert list(fs.thresholds(scored, **declared, **more, **said).rules) == ["a", "b"]
