"""What a client shares, written from docs/reference/share-files.md alone, is what the project shares.

`row` below reads the page and imports nothing of the project. It is compared with the encodings on the known
rows that the page names, and on random domains and records.
"""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairshares.harness.inputs.encoding import columns_of, count_columns
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, bins_of, domain_from_json
from fairshares.harness.inputs.records import ClientRecords
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.spec import INPUT_FORMS
from tests.conftest import PROJECT

ROWS = PROJECT / "tests" / "fixtures" / "rows.json"
Record = dict[str, Any]


def cells_of(domain: dict[str, Any], record: Record) -> list[int]:
    """Return a record's cells, as the page numbers them."""
    groups = sorted(domain["groups"])
    labels = sorted(domain["labels"])
    group = groups.index(record["group"])
    label = labels.index(record["label"])
    if domain.get("predictions"):
        return [(group * len(labels) + label) * len(labels) + labels.index(record["prediction"])]
    if "thresholds" not in domain:
        return [group * len(labels) + label]
    given = domain["thresholds"]
    thresholds = [j / (given - 1) for j in range(given)] if isinstance(given, int) else list(given)
    if thresholds[0] != 0:
        thresholds.insert(0, 0)
    details = [sum(score >= one for one in thresholds) - 1 for score in record["scores"]]
    size = len(thresholds)
    if len(labels) == 2:
        return [(group * 2 + label) * size + details[0]]
    return [
        ((k * len(groups) + group) * 2 + (label == k)) * size + detail for k, detail in enumerate(details)
    ]


def number_of_cells(domain: dict[str, Any]) -> int:
    """Return the number of cells, as the page counts them."""
    groups = len(domain["groups"])
    labels = len(domain["labels"])
    if domain.get("predictions"):
        return groups * labels * labels
    if "thresholds" not in domain:
        return groups * labels
    given = domain["thresholds"]
    details = given if isinstance(given, int) else len(given) + (given[0] != 0)
    return labels * groups * 2 * details if labels > 2 else groups * 2 * details


def row(domain: dict[str, Any], form: str, records: list[Record]) -> list[int]:
    """Return a client's row where nothing in it is random."""
    groups = sorted(domain["groups"])
    if domain.get("sizes"):
        most = min(domain["max_count"], 1000)
        powers = {round(2 ** (i / 2)) for i in range(40)}
        bounds = sorted({most} | {power for power in powers if power < most})
        return [sum(bound < len(records) for bound in bounds[:-1])]
    if "values" in domain:
        grid = domain["values"]
        steps = grid.get("steps", 1000)
        numbers = [0] * (2 * len(groups)) if form == "split" else [0]
        for record in records:
            group = groups.index(record["group"])
            low = Fraction(grid["low"])
            high = Fraction(grid["high"])
            value = min(max(Fraction(record["value"]), low), high)
            d = round(steps * (value - (low + high) / 2) / ((high - low) / 2))  # to the even one of two
            if form == "split":
                numbers[2 * group : 2 * group + 2] = [steps + d, steps - d]
            else:
                numbers = [group + 1 + (steps + d) * 2 ** len(f"{len(groups):b}")]
        return numbers
    cells = [cell for record in records for cell in cells_of(domain, record)]
    if form == "split":
        counts = [0] * number_of_cells(domain)
        for cell in cells:
            counts[cell] += 1
        return counts
    if form == "product":
        labels = sorted(domain["labels"])
        own_group = records[0]["group"] if records else groups[0]
        own = [int(own_group == group) for group in groups[:-1]]
        return [*own, *(sum(r["label"] == y for r in records) for y in labels)]
    (cell,) = cells  # of the one slot of a cap of 1
    return [cell] if form == "keys" else [cell + 1]


def as_records(fields: dict[str, Any], records: list[Record]) -> tuple[RecordDomain, ClientRecords]:
    """Return a client's records as the project holds them."""
    domain = domain_from_json(fields, "the test")
    detail = None
    if domain.kind is RecordKind.SCORE:
        assert domain.thresholds
        scores = np.array([record["scores"] for record in records], dtype=float)
        detail = bins_of(scores if domain.score_columns > 1 else scores[:, 0], domain.thresholds)
    elif domain.kind is RecordKind.PREDICTION:
        detail = np.array([domain.labels.index(record["prediction"]) for record in records], dtype=np.int64)
    elif domain.values:
        detail = domain.values.rounded(
            np.array([float(Fraction(record["value"])) for record in records], dtype=float)
        )
    held = ClientRecords(
        domain,
        np.array(["me"]),
        np.zeros(len(records), dtype=np.int64),
        np.array([domain.groups.index(record["group"]) for record in records], dtype=np.int64),
        np.array(
            [domain.labels.index(record["label"]) if domain.labels else 0 for record in records],
            dtype=np.int64,
        ),
        detail,
    )
    return domain, held


def known() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(ROWS.read_text())
    return rows


@pytest.mark.parametrize("case", known(), ids=lambda case: f"{case['what']}-{case['form']}")
def test_known_rows(case: dict[str, Any]) -> None:
    domain, held = as_records(case["record_domain"], case["records"])
    assert row(case["record_domain"], case["form"], case["records"]) == case["row"]
    assert columns_of(held, INPUT_FORMS[case["form"]])[:, 0].tolist() == case["row"]
    assert count_columns(domain, case["form"]) == len(case["row"])


def test_known_rows_have_every_form_and_every_kind() -> None:
    assert {case["form"] for case in known()} == INPUT_FORMS.keys()
    kinds = {domain_from_json(case["record_domain"], "the test").kind for case in known()}
    assert kinds == set(RecordKind) - {RecordKind.VECTOR}  # vectors are rounded at random


NAMES = st.lists(
    st.sampled_from(["b", "a", "Z", "ä", "\ue000", "😀", "10", "9"]), min_size=2, max_size=4, unique=True
)
KINDS = ("", "thresholds", "predictions", "sizes", "values")


@st.composite
def clients(draw: st.DrawFn) -> tuple[dict[str, Any], str, list[Record]]:
    """Draw a domain, a form that tasks of its kind may have, and a client's records."""
    kind = draw(st.sampled_from(KINDS))
    form = draw(
        st.sampled_from(
            {"": ["split", "product", "keys", "slots"], "sizes": ["slots"]}.get(kind, ["split", "slots"])
        )
    )
    groups = draw(NAMES)
    labels = draw(NAMES)
    domain: dict[str, JsonValue] = {"groups": groups, "labels": labels, "max_count": 40}
    if kind == "thresholds":
        form = "split"
        even = st.integers(2, 11)
        stated = st.sampled_from([[0.5], [0.0, 0.25, 0.5], [0.125, 1.0]])
        domain["thresholds"] = draw(even | stated)
    elif kind == "values":
        grid = draw(st.sampled_from([{"low": -1.0, "high": 1.0}, {"low": 0.0, "high": 4.0, "steps": 8}]))
        labels = []
        domain = {"groups": groups, "values": grid}
        if form == "slots":
            domain["cap"] = 1
    elif kind:
        domain[kind] = True
    one_slot = form in ("keys", "slots") and kind in ("", "predictions")
    if one_slot:
        domain["cap"] = 1
    most = 1 if one_slot or kind == "values" else 6
    size = draw(st.integers(1 if one_slot else 0, most))
    records: list[Record] = []
    for _ in range(size):
        record: Record = {
            "group": draw(
                st.sampled_from(groups if form != "product" or not records else [records[0]["group"]])
            )
        }
        if labels:
            record["label"] = draw(st.sampled_from(labels))
        if kind == "thresholds":
            number = len(labels) if len(labels) > 2 else 1
            record["scores"] = [draw(st.integers(0, 64)) / 64 for _ in range(number)]
        elif kind == "predictions":
            record["prediction"] = draw(st.sampled_from(labels))
        elif kind == "values":
            record["value"] = draw(st.sampled_from(["-2", "-0.5", "0", "0.25", "0.75", "1", "3.25", "9"]))
        records.append(record)
    return domain, form, records


@given(clients())
def test_rows_of_random_clients(client: tuple[dict[str, Any], str, list[Record]]) -> None:
    fields, form, records = client
    if not records and "thresholds" in fields:
        return
    domain, held = as_records(fields, records)
    expected = row(fields, form, records)
    assert columns_of(held, INPUT_FORMS[form])[:, 0].tolist() == expected
    assert count_columns(domain, form) == len(expected)
