"""Records where they are: the same counts from every frame and file; one sentence where an engine fails."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dask.dataframe
import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

from fairshares.harness.errors import RecordDomainError, RecordsError
from fairshares.harness.inputs import tables
from fairshares.harness.inputs.columns import as_index
from fairshares.harness.inputs.record_schema import (
    RecordDomain,
    RecordKind,
    ValueGrid,
    as_grid,
    bins_of,
    even_grid,
)
from fairshares.harness.inputs.records import ScoreCut, read_records, read_singly
from fairshares.harness.inputs.tables import MISSING, WRONG, Named, table_at

Frame = Callable[[dict[str, list[Any]]], Any]
COLUMNS = ("client_id", "group", "label", "score")
UNEVEN = as_grid([0.1, 0.29, 0.3, 0.75])


def _polars(columns: dict[str, list[Any]]) -> Any:
    return polars.DataFrame(columns)


def _duckdb(columns: dict[str, list[Any]]) -> Any:
    return duckdb.connect().from_arrow(pa.table(columns))


def _dask(columns: dict[str, list[Any]]) -> Any:
    return dask.dataframe.from_pandas(pd.DataFrame(columns), npartitions=2)


def _pyspark(columns: dict[str, list[Any]]) -> Any:
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    session = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", 1)
        .getOrCreate()
    )
    return session.createDataFrame(list(zip(*columns.values(), strict=True)), list(columns))


FRAMES: dict[str, Frame] = {
    "pandas": pd.DataFrame,
    "pandas with nullable types": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas with categories": lambda columns: pd.DataFrame(columns).astype(
        {"group": pd.CategoricalDtype(["c", "b", "a"]), "label": "category"}
    ),
    "pandas with objects": lambda columns: pd.DataFrame(columns).astype(object),
    "pyarrow": pa.table,
    "polars": _polars,
    "polars, lazy": lambda columns: _polars(columns).lazy(),
    "duckdb": _duckdb,
    "dask": _dask,
    "pyspark": _pyspark,
}


WITHOUT_CATEGORIES = [name for name in FRAMES if name != "pandas with categories"]


def made_up(rows: int) -> dict[str, list[Any]]:
    """Return records with scores at thresholds, right below and above them, and anywhere."""
    rng = np.random.default_rng(7)
    at = rng.choice(np.array([*even_grid(), *even_grid(101), 0.29, 0.57, 1.0]), rows)
    scores = rng.choice(
        np.stack([at, np.nextafter(at, 0), np.nextafter(at, 1), rng.random(rows)]).T.ravel(), rows
    )
    return {
        "client_id": rng.integers(1, 6, rows).tolist(),
        "group": rng.choice(["a", "b"], rows).tolist(),
        "label": rng.integers(0, 2, rows).tolist(),
        "score": scores.tolist(),
    }


@pytest.mark.parametrize("name", [name for name in WITHOUT_CATEGORIES if name != "pandas with objects"])
def test_scores_of_single_precision_are_counted_as_a_file_has_them(name: str, tmp_path: Path) -> None:
    """Of half of the hundredths the nearest float32 is below, and would be counted one bin too low."""
    hundredths = [f"{number / 100:.2f}" for number in range(101)]
    columns: Any = {"group": ["a"] * 101, "score": np.array(hundredths, dtype=np.float32)}
    frame = FRAMES[name](columns)
    path = tmp_path / "records.csv"
    path.write_text("\n".join(["group,score", *(f"a,{text}" for text in hundredths)]))
    grid = even_grid(101)
    as_written = table_at(path, ["group", "score"]).counted(["group"], ["score"], grid)
    counted = table_at(frame, ["group", "score"]).counted(["group"], ["score"], grid)
    assert sorted(counted.bins[:, 0]) == sorted(as_written.bins[:, 0]) == list(range(101))


def by_hand(columns: dict[str, list[Any]], grid: Sequence[float]) -> list[list[int]]:
    """Count by the definition of a bin: how many thresholds a score reaches, but for the first."""
    counts = np.zeros((2 * 2 * len(grid), 5), dtype=np.int64)
    for client, group, label, score in zip(*columns.values(), strict=True):
        cell = ("ab".index(group) * 2 + label) * len(grid) + sum(score >= threshold for threshold in grid) - 1
        counts[cell, client - 1] += 1
    return counts.tolist()


@pytest.mark.parametrize("frame", FRAMES)
def test_every_frame_gives_the_same_counts(frame: str) -> None:
    """Bit for bit: client names, and entries in their order, too."""
    columns = made_up(300)
    table = FRAMES[frame](columns)
    for grid in (even_grid(), even_grid(101), UNEVEN):
        domain = RecordDomain(("a", "b"), ("0", "1"), kind=RecordKind.SCORE, thresholds=grid)
        records = read_records(table, domain, kind=RecordKind.SCORE)
        assert records.client_ids.tolist() == ["1", "2", "3", "4", "5"]
        assert records.counts_per_client().tolist() == by_hand(columns, grid)
        assert np.lexsort((records.cell, records.client)).tolist() == list(range(len(records.cell)))
    inferred = read_records(table, None, kind=RecordKind.PREDICTION, cut=ScoreCut(0.57))
    assert inferred.domain.groups == ("a", "b") and inferred.domain.labels == ("0", "1")
    assert inferred.counts_per_client().tolist() == by_hand(columns, (0.0, 0.57))


@pytest.mark.parametrize("frame", [*FRAMES, "csv", "parquet"])
def test_every_release_reads_the_same(frame: str, tmp_path: Path) -> None:
    """Weights, count, cap and plans; thresholds; confusion; gap; training: with and without clients.

    What follows depends on the source by these fields alone.
    """
    columns = made_up(60)
    columns |= {"prediction": columns["label"][::-1], "value": columns["score"]}
    for names in ([*columns], [name for name in columns if name != "client_id"]):
        some = {name: columns[name] for name in names}
        made = (
            in_file(some, tmp_path / f"{len(names)}.{frame}") if frame not in FRAMES else FRAMES[frame](some)
        )
        for kind in (RecordKind.NONE, *(kind for kind in RecordKind if kind.of_each)):
            declared = None
            if kind is RecordKind.VALUE:
                grid = ValueGrid(0, 1, 10)
                declared = RecordDomain(("a", "b"), (), 1, kind=kind, values=grid)
                some = {**some, **({"client_id": [*range(60)]} if "client_id" in some else {})}
                made = in_file(some, tmp_path / f"v.{frame}") if frame not in FRAMES else FRAMES[frame](some)
            records, expected = (read_records(of, declared, kind=kind) for of in (made, pd.DataFrame(some)))
            assert records.domain == expected.domain
            for field in ("client_ids", "client", "cell", "count"):
                assert getattr(records, field).tolist() == getattr(expected, field).tolist()
            for column, found in (("group", records.domain.groups), ("label", records.domain.labels)):
                if column in records.columns:
                    values = as_index(found, records.columns[column]).tolist()
                    assert values == sorted({*columns[column]}) and type(values[0]) is type(
                        columns[column][0]
                    )
    if frame not in ("polars, lazy", "duckdb", "dask", "pyspark", "csv", "parquet"):
        one, other = (read_singly(of, ["score"], None) for of in (made, pd.DataFrame(some)))
        assert one[0].cell.tolist() == other[0].cell.tolist() and one[1].texts == other[1].texts


def _enum(columns: dict[str, list[Any]]) -> Any:
    return _polars(columns).with_columns(polars.col("label").cast(polars.Enum(["c", "b", "a"])))


IN_ORDER: dict[str, Frame] = {
    "pandas": lambda columns: pd.DataFrame(columns).astype(
        {"label": pd.CategoricalDtype(["c", "b", "a"], ordered=True)}
    ),
    "polars": _enum,
    "polars, lazy": lambda columns: _enum(columns).lazy(),
    "duckdb": lambda columns: _duckdb(columns).project(
        "client_id, \"group\", label::ENUM('c', 'b', 'a') AS label"
    ),
}


@pytest.mark.parametrize("frame", IN_ORDER)
@pytest.mark.parametrize("declared", [False, True])
def test_categories_with_an_order_keep_it(frame: str, declared: bool) -> None:
    """Those that occur, or that are declared; other names, and categories without an order, are sorted."""
    columns: dict[str, list[Any]] = {
        "client_id": [1, 2, 3],
        "group": ["y", "x", "x"],
        "label": ["a", "c", "a"],
    }
    domain = RecordDomain(("x", "y"), ("a", "c")) if declared else None
    records = read_records(Named(IN_ORDER[frame](columns), {"label": "label"}), domain)
    assert records.domain.labels == ("c", "a") and records.domain.positive(None) == 1
    assert records.domain.groups == ("x", "y") and records.label.tolist() == [1, 0, 1]
    assert records.columns["label"] == "ordered category of str"
    assert as_index(("c", "a"), records.columns["label"]).max() == "a"
    training, _ = read_singly(IN_ORDER[frame](columns), [], domain)
    assert training.domain == records.domain


def test_scores_of_categories_with_an_order_stay_with_their_labels() -> None:
    """A column of scores per label: the first reaches the bin of its own score, whatever the order."""
    label = pd.Categorical(["c", "b", "a"], ["c", "b", "a"], ordered=True)
    scores = {"score_a": [0.1] * 3, "score_b": [0.5] * 3, "score_c": [0.9] * 3}
    table = pd.DataFrame({"client_id": [1, 2, 3], "group": ["x", "y", "x"], "label": label, **scores})
    domain = RecordDomain(("x", "y"), ("a", "b", "c"))
    records = read_records(table, domain, kind=RecordKind.SCORE)
    assert records.domain.labels == ("c", "b", "a") and records.detail is not None
    assert records.detail.tolist() == [[90, 50, 10]] * 3


def in_file(columns: dict[str, list[Any]], path: Path) -> Path:
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("named", ["", "*.{}", "p?rt *"])
def test_files_of_a_directory_count_together(suffix: str, named: str, tmp_path: Path) -> None:
    columns = made_up(300)
    for part in range(3):
        some = {name: values[part::3] for name, values in columns.items()}
        in_file(some, tmp_path / f"part [{part}]'s.{suffix}")
    (tmp_path / "_SUCCESS").touch()
    domain = RecordDomain(("a", "b"), ("0", "1"), kind=RecordKind.SCORE, thresholds=even_grid())
    records = read_records(tmp_path / named.format(suffix), domain, kind=RecordKind.SCORE)
    assert records.counts_per_client().tolist() == by_hand(columns, even_grid())
    in_file({**columns, "group": ["c"] * 300}, tmp_path / f"part [1]'s.{suffix}")
    row = 1 + (suffix == "csv")
    with pytest.raises(
        RecordsError, match=rf"^{tmp_path}/part \[1\]'s.{suffix}, row {row}: group 'c' is not declared"
    ):
        read_records(tmp_path / named.format(suffix), domain, kind=RecordKind.SCORE)


@pytest.mark.parametrize("frame", WITHOUT_CATEGORIES)
def test_bins_are_found_by_comparing(frame: str) -> None:
    """At every threshold and its neighbors, where a product, or a reciprocal, rounds to the wrong side."""
    for count in (2, 8, 1001, 1097):
        grid = even_grid(count)
        scores = [float(near) for at in grid for near in (np.nextafter(at, -1), at, np.nextafter(at, 2))][
            1:-1
        ]
        table = table_at(FRAMES[frame]({"row": list(range(len(scores))), "score": scores}), ["row", "score"])
        counted = table.counted(["row"], ["score"], grid)
        bin_of = dict(zip(map(int, counted.texts["row"]), counted.bins[:, 0].tolist(), strict=True))
        assert [bin_of[row] for row in range(len(scores))] == bins_of(np.array(scores), grid).tolist()


@pytest.mark.parametrize("frame", WITHOUT_CATEGORIES)
def test_what_is_no_score_is_told_from_none(frame: str) -> None:
    texts = ["0.5", "61 %", " 1e-1 ", "1_0", "", "nan", ".25", "1.", "0,5", "-0.1", "inf", "٠"]
    numbers = [0.5, 1.5, -0.1, float("nan"), 1.0]
    for scores, bins in (
        (texts, [1, WRONG, 1, WRONG, MISSING, MISSING, 1, 2, WRONG, WRONG, WRONG, WRONG]),
        (numbers, [1, WRONG, WRONG, MISSING, 2]),
    ):
        columns: dict[str, list[Any]] = {"group": list(range(len(scores))), "label": scores}
        table = table_at(FRAMES[frame](columns), ["group", "label"])
        counted = table.counted(["group"], ["label"], (0.0, 0.1, 1.0))
        by_row = dict(zip(map(int, counted.texts["group"]), counted.bins[:, 0].tolist(), strict=True))
        assert [by_row[row] for row in range(len(scores))] == bins


BAD: dict[str, tuple[dict[str, list[Any]], str]] = {
    "null group": ({"group": ["a", None]}, "column group is empty or NaN; fill it in"),
    "null label among integers": ({"label": [1, None]}, "column label is empty or NaN; fill it in"),
    "null client": ({"client_id": [None, 1]}, "column client_id is empty or NaN; fill it in"),
    "null score": ({"score": [0.5, None]}, "column score is empty or NaN; fill it in"),
    "undeclared": ({"group": ["a", "A"]}, "group 'A' is not declared (declared: a, b); only blanks"),
    "percent": ({"score": [0.5, 61.5]}, "score '61.5' is not a number from 0 to 1"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("frame", WITHOUT_CATEGORIES)
def test_bad_values_in_every_frame(frame: str, bad: str) -> None:
    """A row is named where frames have rows."""
    changed, message = BAD[bad]
    usual: dict[str, list[Any]] = {
        "client_id": [1, 2],
        "group": ["a", "b"],
        "label": [0, 1],
        "score": [0.5, 0.5],
    }
    columns = usual | changed
    domain = RecordDomain(("a", "b"), ("0", "1"), kind=RecordKind.SCORE, thresholds=even_grid())
    with pytest.raises(RecordsError) as error:
        read_records(FRAMES[frame](columns), domain, kind=RecordKind.SCORE)
    row = 0 if "client" in bad else 1
    has_rows = {"pandas": f", row {row}", "pyarrow": f", row {row + 1}", "polars": f", row {row + 1}"}
    place = "" if frame.endswith("lazy") else has_rows.get(frame.split()[0], "")
    assert str(error.value).startswith(f"The table{place}: {message}")


def test_a_lazy_frame_whose_engine_fails_half_way(tmp_path: Path) -> None:
    """The message says what the engine says, in one sentence."""
    row = "CASE WHEN i < 500000 THEN 'a' ELSE error('disk 7 is gone') END"
    lazy = duckdb.connect().sql(
        f'SELECT i % 9 AS client_id, {row} AS "group", i % 2 AS label FROM range(600000) t(i)'
    )
    with pytest.raises(RecordsError, match=r"^Cannot read the table: disk 7 is gone\.$"):
        read_records(lazy, None)
    file = in_file(made_up(20_000), tmp_path / "records.parquet")
    file.write_bytes(file.read_bytes()[:4000] + bytes(4000) + file.read_bytes()[8000:])
    with pytest.raises(RecordsError, match=rf"^Cannot read {file}: [^.\n]*\.$"):
        read_records(file, None)


def test_a_column_of_another_type_in_the_second_file(tmp_path: Path) -> None:
    """Which an engine would take for the first file's: a score of 0.7 for 1."""
    columns = made_up(20)
    in_file({**columns, "score": [1] * 20}, tmp_path / "1.parquet")
    in_file(columns, tmp_path / "2.parquet")
    with pytest.raises(
        RecordsError, match=r"/2\.parquet has the column score as DOUBLE where .*/1\.parquet has BIGINT; "
    ):
        read_records(tmp_path, None, kind=RecordKind.SCORE)
    without = {name: values for name, values in columns.items() if name != "client_id"}
    for lacking, other, message in (
        ("1", "2", r"/2\.parquet has the column client_id as BIGINT where .*/1\.parquet has none; files "),
        ("2", "1", r'column "client_id" was read .*/1\.parquet", but could not be found in .*/2\.parquet"'),
    ):
        in_file(without, tmp_path / f"{lacking}.parquet")
        in_file(columns, tmp_path / f"{other}.parquet")
        with pytest.raises(RecordsError, match=message):
            read_records(tmp_path, None)
    for path in tmp_path.iterdir():
        path.unlink()
    in_file(columns, tmp_path / "1.csv")
    for text, said in (
        ("", "is empty; it needs a header"),
        ("group;label\n", "seems to separate columns by"),
    ):
        (tmp_path / "2.csv").write_text(text)
        with pytest.raises(RecordsError, match=rf"/2\.csv {said}"):
            read_records(tmp_path, None)
    in_file({name: columns[name] for name in reversed(columns)}, tmp_path / "2.csv")
    with pytest.raises(RecordsError, match=r"/2\.csv has the columns score, label, group, client_id where "):
        read_records(tmp_path, None, kind=RecordKind.SCORE)
    in_file(columns, tmp_path / "3.parquet")
    with pytest.raises(RecordsError, match=r" is a directory that holds both CSV and Parquet files; "):
        read_records(tmp_path, None)


def test_a_frame_with_a_million_groups() -> None:
    table = pa.table(
        {"client_id": np.zeros(10**6, dtype=int), "group": np.arange(10**6), "label": np.zeros(10**6)}
    )
    with pytest.raises(
        RecordDomainError, match=r"^The table has 1,000,000 different groups, as an ID of rows would"
    ):
        read_records(table, None)


@pytest.mark.parametrize("name", ["s3://bucket/records.parquet", "s3://bucket/*.csv"])
def test_a_bucket_that_may_not_be_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed unasked; where the extension is, the message is what the bucket answers."""
    with pytest.raises(
        RecordsError, match=r"^Cannot read s3://bucket/[^ ]+: that takes .*INSTALL httpfs.* once\.$"
    ):
        read_records(Path(name), None)
    engine = duckdb.connect()
    answer = Mock(
        side_effect=duckdb.HTTPException("HTTP Error: HTTP GET error on 'b.com' (HTTP 403)\n\nMore: x. y")
    )
    monkeypatch.setattr(tables, "_engine", lambda: Mock(cursor=lambda: Mock(wraps=engine, sql=answer)))
    with pytest.raises(RecordsError) as error:
        read_records(Path(name), None)
    assert str(error.value) == (
        f"Cannot read {name}: HTTP GET error on 'b.com' (HTTP 403); give DuckDB a persistent secret that may "
        "read it."
    )


def test_a_file_at_an_address(tmp_path: Path) -> None:
    """As in a bucket: its header is read by the engine, too, and its rows have no numbers."""
    columns = made_up(50)
    for suffix in ("csv", "parquet"):
        file = in_file(columns, tmp_path / f"records.{suffix}")
        here, there = (read_records(path, None) for path in (file, Path(f"file://localhost{file}")))
        assert here.counts_per_client().tolist() == there.counts_per_client().tolist()
        with pytest.raises(RecordsError, match=rf"^file://localhost{file}.*: label '1' is not declared"):
            read_records(Path(f"file://localhost{file}"), RecordDomain(("a", "b"), ("0", "2")))


def test_rows_by_which_nobody_is_counted_twice() -> None:
    """A frame's columns of one name, no frame, a column that differs in case."""
    frame = pd.DataFrame([[1, "a", "b", 0]], columns=["client_id", "group", "group", "label"])
    with pytest.raises(RecordsError, match=r"^The table has the column group twice; keep one\.$"):
        read_records(frame, None)
    no_frame: Any = [1, 2]
    with pytest.raises(RecordsError, match=r"^Records are a data frame .*, not list\.$"):
        read_records(no_frame, None)
    with pytest.raises(
        RecordsError, match=r"^The table has no column group \(did you mean Group\?\); .*, Group, label\)"
    ):
        read_records(_duckdb({"client_id": [1], "Group": ["a"], "label": [0]}), None)
