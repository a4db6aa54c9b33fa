"""A table's rows are records, or left out, for the reasons that `share --check` has."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fairshares.harness.inputs.encoding import as_upload
from fairshares.harness.inputs.record_schema import domain_from_json
from fairshares.harness.inputs.records import read_records
from fairshares.harness.uploads.task import Task
from fairshares.protocols.json_values import JsonFields
from fairshares.protocols.spec import INPUT_FORMS
from tests.support.envelopes import made_task
from tests.support.web_client import Refused, WebClient

NAMES = {"groups": ["a", "1", "Straße"], "labels": ["0", "1"]}
KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "score": {"thresholds": 5},
    "prediction": {"predictions": True},
    "value": {"values": {"low": -1, "high": 2}},
}
CELLS = st.sampled_from(
    ["a", " a", "A", "a\u200b", "1", "1.0", "+1e0", "01", "b", "STRASSE", "Straße", "0", "-0", "", " ", "NaN"]
)
DETAILS = st.sampled_from(
    ["0", "1", "0.5", ".5", "1.", "1e-1", "-0.1", "61", "", "nan", "x", "1_0", "3/4", "1/0", "true", "inf"]
)
USED = {
    "none": ("group", "label"),
    "score": ("group", "label", "score"),
    "prediction": ("group", "label", "prediction"),
    "value": ("group", "value"),
}
FAULTS = {
    "cells": r"has \d+ values where the header has",
    "empty": "is empty or NaN",
    "undeclared": "is not declared",
    "score": "is not a number from 0 to 1",
    "value": "is not a number or a fraction",
}


@pytest.fixture(scope="module")
def base(place: Path) -> Task:
    return made_task(place)


def task_for(base: Task, kind: str, **more: Any) -> Task:
    """Return a task for records of a kind, whose clients may have many."""
    domain = {**NAMES, **KINDS[kind], "max_count": 1 if kind == "value" else 1000, **more}
    if kind == "value":
        del domain["labels"]
    return replace(base, record_domain=JsonFields(domain))


def columns_for(kind: str) -> dict[str, Any]:
    """Return the columns of a table of `text_of`, as the client takes their names."""
    columns: dict[str, Any] = {name: name for name in USED[kind] if name != "score"}
    if "score" in USED[kind]:
        columns["scores"] = ["score"]
    return columns


def text_of(rows: Sequence[tuple[str, ...]], kind: str, separator: str = ",", *, own: bool = False) -> str:
    """Return a table. Args: own: whether it has the column client_id, for `share`."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow((*(("client_id",) if own else ()), *USED[kind]))
    writer.writerows((*(("c",) if own else ()), *row) for row in rows)
    return text.getvalue()


def said_by_share(file: Path, task: Task) -> tuple[list[int], dict[tuple[str, str], tuple[int, int, str]]]:
    """Return a file's counts; by fault and column the first row, the number of rows, and what is meant."""
    said: list[str] = []
    domain = domain_from_json(task.record_domain, "the task")
    read = read_records(file, domain, kind=domain.kind, say=said.append)
    faults: dict[tuple[str, str], tuple[int, int, str]] = {}
    for message in said:
        (fault,) = [name for name, pattern in FAULTS.items() if re.search(pattern, message)]
        row = re.search(r"row (\d+)", message)
        assert row is not None
        more = re.search(r"with ([\d,]+) more\.$", message)
        column = re.search(r"row \d+: (?:column )?(\w+) ", message)
        meant = re.search(r"set it apart from '(.*?)':", message)
        faults[fault, column[1] if column else ""] = (
            int(row[1]),
            1 + (int(more[1].replace(",", "")) if more else 0),
            meant[1] if meant else "",
        )
    counts = [] if domain.values else read.counts_per_client().sum(axis=1).tolist()
    return counts, faults


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(data=st.data())
def test_rows_are_left_out_as_share_leaves_them_out(
    kind: str, data: st.DataObject, base: Task, web: WebClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cells = [CELLS if name in ("group", "label", "prediction") else DETAILS for name in USED[kind]]
    most = 1 if kind == "value" else 12
    rows = data.draw(st.lists(st.tuples(*cells), min_size=1, max_size=most))
    task = task_for(base, kind)
    file = tmp_path_factory.mktemp("table") / "my.csv"
    file.write_text(text_of(rows, kind, own=True))
    counts, faults = said_by_share(file, task)
    separator = data.draw(st.sampled_from(",;\t"))
    answer = web.ask("table", task, text=text_of(rows, kind, separator), columns=columns_for(kind))
    told = {(left["fault"], left["column"]): left["rows"] for left in answer["leftOut"]}
    assert told == {fault: number for fault, (_, number, _) in faults.items()}
    assert len(answer["records"]) == len(rows) - sum(told.values())
    if counts and answer["records"]:
        (row,) = web.ask("count", task, records=answer["records"])
        assert row == counts


def test_the_first_row_of_each_fault_is_named(base: Task, web: WebClient, tmp_path: Path) -> None:
    rows = ["a,0,0.5", " a,0,0.5", "a,,0.5", "A,0,0.5", "b,1,61", "b,1,nan", "b,1.0,1", "b,1"]
    task = task_for(base, "score", groups=["a", "b"])
    (tmp_path / "my.csv").write_text(
        "\n".join(["client_id,group,label,score", *(f"c,{row}" for row in rows)])
    )
    _, faults = said_by_share(tmp_path / "my.csv", task)
    table = "\n".join(["group,label,score", *rows])
    answer = web.ask("table", task, text=table, columns=columns_for("score"))
    told = {}
    for left in answer["leftOut"]:
        told[left["fault"], left["column"]] = (left["row"], left["rows"], left["meant"])
    assert told == faults
    assert faults["undeclared", "group"] == (3, 2, "a") and len(faults) == 6


def test_tables_as_spreadsheets_write_them(base: Task, web: WebClient) -> None:
    task = task_for(base, "none")
    text = '\ufeff"my ""group""";label\r\n"a";"0"\r\n\r\n"Straße";1\r\na;1;2\r\n'
    answer = web.ask("table", task, text=text, columns={"group": 'my "group"', "label": "label"})
    assert answer["records"] == [{"group": "a", "label": "0"}, {"group": "Straße", "label": "1"}]
    (left,) = answer["leftOut"]
    assert (left["fault"], left["rows"]) == ("cells", 1)
    quoted = web.ask("table", task, text='group,label\n"a\nb",0\n', columns=columns_for("none"))
    assert [left["value"] for left in quoted["leftOut"]] == ["a\nb"]


@pytest.mark.parametrize(
    ("text", "columns", "says"),
    [
        ("", {}, "The table is empty"),
        ("group,label\n\n", {}, "no row below the header"),
        ('group,label\n"a,0\n', {}, "never closed"),
        ("group,label\na,0\n", {"group": "sex"}, "no column 'sex' for the group .found: group, label"),
        ("group,group,label\na,a,0\n", {}, "the column 'group' twice"),
        ("group,label\na,0\n", {"label": "group"}, "One column has two meanings"),
    ],
)
def test_tables_that_are_none(
    *, text: str, columns: dict[str, str], says: str, base: Task, web: WebClient
) -> None:
    with pytest.raises(Refused, match=says):
        web.ask("table", task_for(base, "none"), text=text, columns={**columns_for("none"), **columns})


def test_more_rows_than_a_client_may_have_are_drawn_at_random(base: Task, web: WebClient) -> None:
    """Each of ten choices of two rows occurs in 200 draws, but with probability 10 * 0.9^200 < 10^-8."""
    task = task_for(base, "none", max_count=2, labels=["0", "1", "2", "3", "4"])
    rows = [("a", str(label)) for label in range(5)]
    seen = set()
    for _ in range(200):
        answer = web.ask("table", task, text=text_of(rows, "none"), columns=columns_for("none"))
        assert [(left["fault"], left["rows"]) for left in answer["leftOut"]] == [("too many", 3)]
        seen.add(tuple(record["label"] for record in answer["records"]))
    assert len(seen) == 10


def test_a_second_group_is_left_out_where_a_client_has_one(
    base: Task, web: WebClient, tmp_path: Path
) -> None:
    task = replace(task_for(base, "none"), form="product")
    rows = [("1", "0"), ("a", "1"), ("a", "0"), ("1", "1"), ("Straße", "1")]
    answer = web.ask("table", task, text=text_of(rows, "none"), columns=columns_for("none"))
    (tmp_path / "my.csv").write_text(text_of(rows, "none", own=True))
    domain = domain_from_json(task.record_domain, "the task")
    read = read_records(tmp_path / "my.csv", domain, say=print)
    held = as_upload(read, INPUT_FORMS["product"], print)
    groups = {domain.groups[group] for group in held.group}
    assert {record["group"] for record in answer["records"]} == groups and len(groups) == 1
    assert [(left["fault"], left["rows"]) for left in answer["leftOut"]] == [("second group", 3)]
