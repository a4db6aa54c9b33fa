"""The client in TypeScript counts records as the project does, or refuses them."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from fairshares.harness.inputs.encoding import columns_of, shared_over
from fairshares.harness.inputs.rings import RING
from fairshares.harness.uploads.task import Task
from fairshares.protocols.json_values import JsonFields
from fairshares.protocols.spec import INPUT_FORMS
from tests.harness.uploads.test_rows_of_the_page import Record, as_records, clients, known
from tests.support.envelopes import made_task
from tests.support.web_client import Refused, WebClient


@pytest.fixture(scope="module")
def base(place: Path) -> Task:
    return made_task(place)


def task_for(base: Task, domain: dict[str, Any], form: str) -> Task:
    """Return a task for records of a domain, in a form."""
    arithmetic = shared_over(INPUT_FORMS[form], RING).name
    return replace(base, record_domain=JsonFields(domain), form=form, arithmetic=arithmetic)


@pytest.mark.parametrize("case", known(), ids=lambda case: f"{case['what']}-{case['form']}")
def test_known_rows(case: dict[str, Any], base: Task, web: WebClient) -> None:
    task = task_for(base, case["record_domain"], case["form"])
    assert web.ask("count", task, records=case["records"]) == [case["row"]]


def is_outside(domain: dict[str, Any], record: Record) -> bool:
    """Return whether a record has a performance value outside of the domain's range."""
    if "values" not in domain:
        return False
    return not domain["values"]["low"] <= Fraction(record["value"]) <= domain["values"]["high"]


@given(client=clients())
def test_rows_of_random_clients(
    client: tuple[dict[str, Any], str, list[Record]], base: Task, web: WebClient
) -> None:
    fields, form, records = client
    task = task_for(base, fields, form)
    if any(is_outside(fields, record) for record in records):  # Python refuses it as it reads the record
        with pytest.raises(Refused, match="is not a number or a fraction from"):
            web.ask("count", task, records=records)
        return
    (row,) = web.ask("count", task, records=records)
    if not records and "thresholds" in fields:
        assert row == [0] * task.columns
        return
    _, held = as_records(fields, records)
    assert row == columns_of(held, INPUT_FORMS[form])[:, 0].tolist()


def test_more_records_than_the_domain_allows_are_refused(base: Task, web: WebClient) -> None:
    task = task_for(base, {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 1}, "split")
    with pytest.raises(Refused, match="2 records, and a client of this task has at most 1") as refused:
        web.ask("count", task, records=[{"group": "a", "label": "1"}] * 2)
    assert refused.value.kind == "RecordsError"
