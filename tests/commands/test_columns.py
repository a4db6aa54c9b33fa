"""Columns of another name, from the command line: the result is that of columns with ours."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairshares.harness.inputs.records import ClientRecords
from fairshares.protocols.arrays import Integers
from tests.support.command import call, refused, succeed
from tests.support.running import QUICKEST

ROWS = 40
OURS = {
    "client_id": [*range(ROWS)],
    "group": ["a", "b"] * (ROWS // 2),
    "label": ["no", "no", "yes", "yes"] * (ROWS // 4),
    "score": [row / ROWS for row in range(ROWS)],
    "prediction": ["yes", "no"] * (ROWS // 2),
    "value": [row / ROWS for row in range(ROWS)],
}
THEIRS = {
    "client_id": "who",
    "group": "colour",
    "label": "approved",
    "score": "s",
    "prediction": "p",
    "value": "v",
}
ALIKE = "--client-id who --group colour"
RUNS = {
    "weights": (f"weights {ALIKE} --label approved", "weights"),
    "count": (f"count {ALIKE} --label approved", "count"),
    "cap": (
        f"cap {ALIKE} --label approved --release-epsilon 1 --max-count 5",
        "cap --release-epsilon 1 --max-count 5",
    ),
    "thresholds": (f"thresholds {ALIKE} --label approved --score s", "thresholds"),
    "predictions": (f"confusion {ALIKE} --label approved --prediction p", "confusion"),
    "cut scores": (
        f"confusion {ALIKE} --label approved --score s --threshold 0.5",
        "confusion --threshold 0.5",
    ),
    "gap": (f"gap {ALIKE} --value v --groups a,b --range 0,1", "gap --groups a,b --range 0,1"),
}

FURTHER = f"--epsilon 1 --security {QUICKEST} --population none"


class ReadError(Exception):
    """Ends a run when its records are read."""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    ours = pd.DataFrame(OURS)
    ours.to_csv(tmp_path / "ours.csv", index=False)
    theirs = ours.rename(columns=THEIRS).assign(sex=["f", "m", "m", "f"] * (ROWS // 4))
    theirs.to_csv(tmp_path / "theirs.csv", index=False)
    theirs.to_parquet(tmp_path / "theirs.parquet")
    return tmp_path


def read_by(command: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> ClientRecords:
    """Return the records that a command reads, and end it there."""
    read: list[ClientRecords] = []

    def keep(records: ClientRecords, *_: object) -> None:
        read.append(records)
        raise ReadError

    monkeypatch.setattr(ClientRecords, "check_unit", keep)
    with pytest.raises(ReadError):
        call(*command.split(), *FURTHER.split(), cwd=here)
    return read[0]


def details(records: ClientRecords) -> Integers:
    """Return what records say beside group and label, nothing if they say no more."""
    return np.zeros(0, dtype=np.int64) if records.detail is None else records.detail


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("file", ["theirs.csv", "theirs.parquet"])
def test_named_columns_are_read_as_ours(
    run: str, file: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, plain = RUNS[run]
    found = read_by(f"{named} --records {file}", here, monkeypatch)
    expected = read_by(f"{plain} --records ours.csv", here, monkeypatch)
    assert found.domain == expected.domain
    assert found.client_ids.tolist() == expected.client_ids.tolist()
    assert found.count.tolist() == expected.count.tolist()
    if run != "gap":  # whose values have no cells
        assert found.cell.tolist() == expected.cell.tolist()
    assert np.array_equal(details(found), details(expected))


def test_several_columns_are_crossed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crossed = "weights --records theirs.csv --client-id who --group colour,sex --label approved"
    assert read_by(crossed, here, monkeypatch).domain.groups == ("a & f", "a & m", "b & f", "b & m")


def test_a_run_and_a_plan_take_names_from_a_file_of_options(here: Path) -> None:
    (here / "fairshares.toml").write_text('group = "colour,sex"\nlabel = "approved"\nclient_id = "who"\n')
    run = f"weights --records theirs.csv --epsilon 5 --security {QUICKEST} --population none --out out"
    succeed(*run.split(), cwd=here)
    groups = json.loads((here / "out" / "weights.json").read_text())["groups"]
    assert groups == ["a & f", "a & m", "b & f", "b & m"]
    plan = succeed(
        "weights", "--records", "theirs.csv", "--epsilon", "5", "--plan", "file", "--json", cwd=here
    )
    assert "b & m" in plan


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("weights --records theirs.csv", r"has no column group .* or name it by --group\."),
        ("weights --records theirs.csv --group color", r"no column color \(did you mean colour\?\)"),
        ("weights --records theirs.csv --group p --label p", "column p cannot be both group and label"),
        ("weights --records theirs.csv --group sex,sex", "--group names the column sex twice; keep one"),
        ("weights --shares here --group sex", "--group names a column of --records; give both, or neither"),
        ("weights --plan 100 --label p", "--label names a column of --records; give both, or neither"),
        ("gap --plan 100 --value v", "--value names a column of --records; give both, or neither"),
        ("confusion --records theirs.csv --prediction p --threshold 0.5", "either --prediction, or --score"),
        ("confusion --records theirs.csv --score s", "--score goes with --threshold"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(command: str, said: str, here: Path) -> None:
    assert re.search(said, refused(*command.split(), *FURTHER.split(), cwd=here))
