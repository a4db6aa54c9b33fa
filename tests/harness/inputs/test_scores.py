"""Scores and predictions in records: the grid, the bins, what is refused, what is shared."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.errors import RecordDomainError, RecordsError, ShareError, ThresholdGridError
from fairshares.harness.inputs import shares as sharing
from fairshares.harness.inputs.encoding import columns_of
from fairshares.harness.inputs.record_schema import (
    RecordDomain,
    RecordKind,
    as_grid,
    bins_of,
    domain_from_json,
    even_grid,
    grid_from_json,
    grid_to_json,
)
from fairshares.harness.inputs.records import ClientRecords, ScoreCut, read_records
from fairshares.harness.inputs.shares import in_parts_to_share
from fairshares.harness.request.releases import DeclaredDomain
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.spec import PRODUCT, SPLIT

pytestmark = pytest.mark.usefixtures("in_shell")

PAIRS = RecordDomain(("a", "b"), ("0", "1"), 5)
GRID = (0.0, 0.25, 0.5, 1.0)
SCORED = RecordDomain(("a", "b"), ("0", "1"), 5, kind=RecordKind.SCORE, thresholds=GRID)
ROWS = [("k", "a", "1", "0.25"), ("k", "b", "0", "1"), ("l", "a", "1", "0.2499"), ("k", "a", "1", "0.3")]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return write(tmp_path, ROWS)


def write(directory: Path, rows: Sequence[tuple[str, ...]], column: str = "score") -> Path:
    path = directory / "records.csv"
    path.write_text(f"client_id,group,label,{column}\n" + "".join(",".join(row) + "\n" for row in rows))
    return path


def test_the_default_grid_is_hundredths() -> None:
    """So that a score that is written 0.12 reaches the threshold 0.12."""
    grid = even_grid()
    assert len(grid) == 101
    assert all(threshold == float(f"0.{j:02}") for j, threshold in enumerate(grid[:-1]))
    assert grid[-1] == 1.0 and as_grid([0.5, 1]) == (0.0, 0.5, 1.0)


def test_a_score_is_in_the_bin_of_the_last_threshold_that_it_reaches() -> None:
    scores = np.array([0.0, 0.2499, 0.25, 0.4, 0.5, 0.99, 1.0])
    assert bins_of(scores, GRID).tolist() == [0, 0, 1, 1, 2, 2, 3]
    by_definition = [sum(score >= t for t in GRID) - 1 for score in scores]
    assert bins_of(scores, GRID).tolist() == by_definition


@pytest.mark.parametrize(
    "grid",
    [
        [],
        [0.5, 0.5],
        [0.5, 0.4],
        [-0.1, 0.5],
        [0.5, 1.1],
        [float("nan")],
        [0],
        [j / 5000 for j in range(5000)],
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(grid: list[float]) -> None:
    with pytest.raises(ThresholdGridError, match="grid"):
        as_grid(grid)


@pytest.mark.parametrize("grid", [even_grid(), even_grid(2), GRID, as_grid([0.3])])
def test_grids_as_json(grid: tuple[float, ...]) -> None:
    assert grid_from_json(grid_to_json(grid)) == grid


@pytest.mark.parametrize("found", ["1001", True, 1.5, {"a": 1}, [True], ["0.5"], None])
def test_other_json_is_no_grid(found: JsonValue) -> None:
    with pytest.raises(RecordDomainError, match=r"here is not a domain: .*(`thresholds|null)"):
        domain_from_json({**PAIRS.to_json(), "thresholds": found}, "here")


@pytest.mark.parametrize("domain", [PAIRS, SCORED, PAIRS.with_kind(RecordKind.PREDICTION)])
def test_domains_as_json(domain: RecordDomain) -> None:
    assert domain_from_json(domain.to_json(), "here") == domain


def test_a_domain_has_one_detail() -> None:
    with pytest.raises(RecordDomainError, match="only one of them"):
        domain_from_json({**SCORED.to_json(), "predictions": True}, "here")
    with pytest.raises(RecordDomainError, match="go together"):
        RecordDomain(("a", "b"), ("0", "1"), kind=RecordKind.SCORE)


def test_counts_per_group_label_and_bin(csv: Path) -> None:
    records = read_records(csv, SCORED, kind=RecordKind.SCORE)
    counts = records.counts_per_client().reshape(2, 2, 4, 2)  # group, label, bin, client
    expected = np.zeros((2, 2, 4, 2), dtype=np.int64)
    expected[0, 1, 1, 0] = 2
    expected[1, 0, 3, 0] = 1
    expected[0, 1, 0, 1] = 1
    assert counts.tolist() == expected.tolist()


def test_predictions_from_a_column_or_from_scores(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    from_scores = read_records(path, PAIRS, kind=RecordKind.PREDICTION, cut=ScoreCut(0.25))
    assert (from_scores.cell.tolist(), from_scores.count.tolist()) == ([3, 5, 2], [2, 1, 1])
    other_way = read_records(path, PAIRS, kind=RecordKind.PREDICTION, cut=ScoreCut(0.25, "0"))
    assert (other_way.cell.tolist(), other_way.count.tolist()) == ([2, 4, 3], [2, 1, 1])
    path = write(tmp_path, [(*row[:3], str(i % 2)) for i, row in enumerate(ROWS)], "prediction")
    from_column = read_records(path, PAIRS, kind=RecordKind.PREDICTION)
    assert (from_column.cell.tolist(), from_column.count.tolist()) == ([2, 3, 5, 2], [1, 1, 1, 1])


def test_scores_predict_one_of_two_labels(csv: Path) -> None:
    three = RecordDomain(("a", "b"), ("0", "1", "2"))
    with pytest.raises(RecordsError, match="two labels, not 3"):
        read_records(csv, three, kind=RecordKind.PREDICTION, cut=ScoreCut(0.5))
    with pytest.raises(RecordDomainError, match=r"positive label 'yes' is not declared \(declared: 0, 1\)"):
        read_records(csv, PAIRS, kind=RecordKind.PREDICTION, cut=ScoreCut(0.5, "yes"))


@pytest.mark.parametrize("score", ["1.01", "-0.1", "inf", "high", "0,5", "0_1", "0x1", "", "nan", "NaN"])
def test_a_score_outside_its_range_is_named(tmp_path: Path, score: str) -> None:
    path = write(tmp_path, [*ROWS, ("k", "a", "1", f'"{score}"')])
    with pytest.raises(RecordsError, match=rf"row 6: (score '{score}' is not|column score is empty or NaN)"):
        read_records(path, SCORED, kind=RecordKind.SCORE)


def test_records_without_the_column_are_refused(csv: Path) -> None:
    with pytest.raises(
        RecordsError, match=r"no column prediction; .*\); .* give a column score and --threshold 0.5"
    ):
        read_records(csv, PAIRS, kind=RecordKind.PREDICTION)


def test_parts_are_the_same_records(csv: Path) -> None:
    records = read_records(csv, SCORED, kind=RecordKind.SCORE)
    parts = list(records.in_parts(1))
    assert [part.client_ids.tolist() for part in parts] == [["k"], ["l"]]
    together = np.concatenate([part.counts_per_client() for part in parts], axis=1)
    assert together.tolist() == records.counts_per_client().tolist()
    (whole,) = records.in_parts(2)
    assert whole.counts_per_client().tolist() == together.tolist()


def test_uploads_hold_as_many_clients_as_a_party_takes(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = read_records(csv, SCORED, kind=RecordKind.SCORE)
    for most, parts in ((32, 1), (31, 2), (16, 2)):
        monkeypatch.setattr(sharing, "MAX_VALUES", most)
        assert len(list(in_parts_to_share(records, SPLIT))) == parts


def test_a_row_per_record_where_predictions_are_multiplied(tmp_path: Path) -> None:
    """Indicators of group a, label 0 and prediction 0; how many records there are is then public."""
    rows = [(*row[:3], str(i % 2)) for i, row in enumerate(ROWS)]
    records = read_records(write(tmp_path, rows, "prediction"), PAIRS, kind=RecordKind.PREDICTION)
    assert columns_of(records, PRODUCT).tolist() == [[1, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 1]]


def test_more_thresholds_than_an_upload_holds_are_refused() -> None:
    many = RecordDomain(tuple(map(str, range(2000))), tuple(map(str, range(20))))
    many = many.with_kind(RecordKind.SCORE, even_grid(1001))
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(ShareError, match="fewer thresholds"):
        next(in_parts_to_share(ClientRecords(many, np.array(["k"]), one, one, one, one), SPLIT))


def test_three_labels_on_a_command_line_likewise(tmp_path: Path) -> None:
    rows = [(str(i), "ab"[i % 2], str(i % 3), "0.5") for i in range(6)]
    with pytest.raises(RecordDomainError, match="3 labels") as raised:
        read_records(write(tmp_path, rows), None, kind=RecordKind.SCORE)
    said = re.search(
        r"columns? of scores, (.*), and declare (--groups \S+) and (--labels \S+)\.$", str(raised.value)
    )
    assert said
    scored = write(tmp_path, [(*row, "0.5", "0.5") for row in rows], said[1].replace(", ", ","))
    words = " ".join(said.groups()[1:]).split()
    domain = DeclaredDomain(groups=words[1], labels=words[3]).of_kind(RecordKind.SCORE)
    records = read_records(scored, domain, kind=RecordKind.SCORE)
    assert records.domain.labels == ("0", "1", "2") and len(records.client) == 6
    many = [(str(i), str(i), str(i % 3), "0.5") for i in range(10, 40)]
    with pytest.raises(RecordDomainError, match=r"--groups 10,11,12,13,14,… and"):
        read_records(write(tmp_path, many), None, kind=RecordKind.SCORE)
