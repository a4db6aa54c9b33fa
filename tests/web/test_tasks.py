"""The client in TypeScript reads the tasks that the project reads, and refuses the others."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fairshares.harness.errors import FairSharesError
from fairshares.harness.releases.registry import REQUESTS
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.uploads.task import Task, task_from_bytes
from fairshares.protocols.spec import REPLICATED
from tests.support.envelopes import CAPPED, made_task
from tests.support.vectors import task_of_vectors
from tests.support.web_client import Refused, WebClient


@pytest.fixture(scope="module")
def base(place: Path) -> Task:
    return made_task(place)


def as_file(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def is_read_by_python(file: bytes) -> bool:
    try:
        _ = task_from_bytes(file, "it").domain
    except FairSharesError:
        return False
    return True


def is_read_here(web: WebClient, file: bytes) -> bool:
    try:
        web.ask("read", file)
    except Refused as error:
        refused = error
    else:
        return True
    said = str(refused)
    assert refused.kind == "TaskError"
    assert said.startswith("This file is not a task of this version: ") and said.endswith(".")
    return False


NAMES = st.sampled_from(
    [["a", "b"], ["b", "a", "ä"], ["😀", "\ue000"], ["a"], ["a", "a"], ["", "b"], [], [1, 2], "ab"]
)
NUMBERS = st.sampled_from(
    [0, 1, 2, 5, 60, 1000, 1001, 4096, 4097, 2**31, 2**62 - 1, 2**62, 2**80, -1, 0.5, 5.0, True]
)
FIELDS = {
    "groups": NAMES,
    "labels": NAMES,
    "max_count": NUMBERS,
    "thresholds": NUMBERS
    | st.lists(st.sampled_from([0, 0.0, 0.25, 0.5, 1, 1.0, 1.5, -0.5, 1e-5]), max_size=4),
    "predictions": st.booleans() | st.just(1),
    "sizes": st.booleans() | st.none(),
    "values": st.fixed_dictionaries(
        {
            "low": st.sampled_from([0, -1.0, 0.5, 1e308, "0"]),
            "high": st.sampled_from([1, 0.5, 1e-310, -1e308]),
        },
        optional={
            "steps": NUMBERS,
            "rounding": st.sampled_from(["random", "nearest", "up", 1]),
            "more": st.just(1),
        },
    ),
    "cap": NUMBERS | st.sampled_from(["weight-one", "one", None]),
    "more": st.just(1),
}


@given(
    domain=st.fixed_dictionaries({}, optional=FIELDS),
    has_usual=st.booleans(),
    form=st.sampled_from(["split", "product", "keys", "slots", "rows"]),
)
def test_domains_are_read_or_refused_alike(
    domain: dict[str, Any], has_usual: bool, form: str, base: Task, web: WebClient
) -> None:
    if has_usual:
        domain = {"groups": ["a", "b"], "labels": ["0", "1"], **domain}
    arithmetic = "xor64" if form == "slots" else "ring64"
    fields = {**json.loads(base.text), "record_domain": domain, "form": form, "arithmetic": arithmetic}
    file = as_file(fields)
    if not is_read_here(web, file):
        if is_without_row(domain, form):
            return
        assert not is_read_by_python(file)
        return
    assert is_read_by_python(file)
    task = task_from_bytes(file, "it")
    assert web.ask("read", file)["columns"] == task.columns


def is_without_row(domain: dict[str, Any], form: str) -> bool:
    """Return whether no release takes such records in a form, though a task's file of them is read."""
    special = [name for name in ("thresholds", "values", "sizes", "cap") if domain.get(name)]
    return (form == "product" and bool(special)) or (form == "keys" and "values" in domain)


CHANGES: list[dict[str, Any]] = [
    {"schema": 2},
    {"schema": "1"},
    {"schema": True},
    {"schema": 1.0},
    {"form": "x"},
    {"arithmetic": "ring32"},
    {"copies": 2},
    {"copies": 0},
    {"copies": 3},
    {"copies": "1"},
    {"least_uploads": 0},
    {"least_uploads": 2**70},
    {"least_uploads": 1.5},
    {"until": "soon"},
    {"until": "2027-02-29"},
    {"until": "2028-02-29"},
    {"until": "20280229"},
    {"until": "0001-01-01"},
    {"admission": "members"},
    {"admission": "urls"},
    {"more": 1},
    {"parties": []},
    {"parties": {}},
    {"policy": []},
    {"security": 1},
]
POLICIES: list[dict[str, Any]] = [
    {"epsilon": "0"},
    {"epsilon": "1.5"},
    {"epsilon": "-1"},
    {"epsilon": "1/0"},
    {"epsilon": "1/2/3"},
    {"epsilon": "1" * 200},
    {"epsilon": "1" * 201},
    {"epsilon": 1},
    {"delta": "0/1"},
    {"delta": "١"},
    {"unit": "client"},
    {"unit": "group"},
    {"tasks": []},
    {"tasks": "weights"},
    {"tasks": ["weights", "weights"]},
    {"more": 1},
]
PARTIES: list[dict[str, Any]] = [
    {"name": ""},
    {"name": "a b"},
    {"name": "a\nb"},
    {"name": "ä😀"},
    {"name": "a\u00a0b"},
    {"name": "a\u202eb"},
    {"name": 1},
    {"address": "https://a.example/"},
    {"address": "https://a.example/b?c=d/"},
    {"address": "https://a.example"},
    {"address": "https:///"},
    {"address": "s3://bucket/"},
    {"address": "gs://bucket/"},
    {"address": "sftp://host/"},
    {"address": "ftp://host/"},
    {"address": "https://ä/"},
    {"address": "https://a.example/\n"},
    {"keys": []},
    {"keys": [{"public": "00" * 32, "until": "2030-01-01"}]},
    {"keys": [{"public": "01" + "00" * 31, "until": "2030-01-01"}]},
    {"keys": [{"public": "09" + "00" * 31, "until": "2030-01-01"}]},
    {"keys": [{"public": "09" + "00" * 31, "until": "2030-1-1"}]},
    {"keys": [{"public": "0A" + "00" * 31, "until": "2030-01-01"}]},
    {"keys": [{"public": "09" + "00" * 31, "until": "2030-01-01"}] * 2},
    {"keys": [{"public": "09" * 33, "until": "2030-01-01"}]},
    {"keys": [{"public": "", "until": "2030-01-01"}]},
    {"keys": [{"public": "09" + "00" * 31, "until": "2030-01-01", "more": 1}]},
    {"signing": ""},
    {"signing": "02" + "00" * 31 + "01"},
    {"signing": "05" + "11" * 32},
    {"more": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_tasks_are_read_or_refused_alike(change: dict[str, Any], base: Task, web: WebClient) -> None:
    check_alike(as_file({**json.loads(base.text), **change}), web)


@pytest.mark.parametrize("change", POLICIES, ids=lambda change: str(change)[:40])
def test_policies_are_read_or_refused_alike(change: dict[str, Any], base: Task, web: WebClient) -> None:
    fields = json.loads(base.text)
    fields["policy"].update(change)
    check_alike(as_file(fields), web)


@pytest.mark.parametrize("change", PARTIES, ids=lambda change: str(change)[:60])
def test_parties_are_read_or_refused_alike(change: dict[str, Any], base: Task, web: WebClient) -> None:
    fields = json.loads(base.text)
    fields["parties"][0].update(change)
    check_alike(as_file(fields), web)


@pytest.mark.parametrize("key", ["schema", "policy", "parties", "record_domain", "until", "copies"])
def test_what_misses_a_key_is_refused(key: str, base: Task, web: WebClient) -> None:
    fields = json.loads(base.text)
    del fields[key]
    file = as_file(fields)
    assert not is_read_here(web, file) and not is_read_by_python(file)


def check_alike(file: bytes, web: WebClient) -> None:
    """Check that a file is a task here if it is one for Python."""
    assert is_read_here(web, file) == is_read_by_python(file)


@given(
    at=st.integers(0, 10**6),
    sign=st.sampled_from(list(' \n",:{}[]0129eE.-\\axuß')),
    removed=st.integers(0, 2),
)
def test_a_file_that_was_changed_is_refused_alike(
    at: int, sign: str, removed: int, base: Task, web: WebClient
) -> None:
    text = base.text.decode()
    at %= len(text)
    file = (text[:at] + sign + text[at + removed :]).encode()
    if is_read_here(web, file):
        assert is_read_by_python(file)
    elif is_read_by_python(file):
        task = task_from_bytes(file, "it")
        is_known = task.security in MODELS and {*task.allowed.tasks} <= {*REQUESTS}
        # Python's reader of hexadecimal digits takes blanks and capitals.
        has_digits = all(re.fullmatch("[0-9a-f]{66}", party.signing) for party in task.parties)
        assert not is_known or not has_digits


@pytest.mark.parametrize(
    "file",
    [b"", b"[]\n", b"{}\n", b"{", b"\xff\n", b"[" * 100_000, b'{"a":1,"a":1}\n', b"1e999\n", b'"\\ud800"\n'],
    ids=lambda file: str(file[:12]),
)
def test_what_is_no_json_is_refused(file: bytes, web: WebClient) -> None:
    assert not is_read_here(web, file) and not is_read_by_python(file)


def instances() -> list[SecurityModel]:
    """Return each model with each number of parties up to 6."""
    return [model.with_parties(n) for model in MODELS.values() for n in range(2, 7) if model.takes(n)]


@pytest.mark.parametrize("model", instances(), ids=lambda model: f"{model.name}-{model.parties}")
@pytest.mark.parametrize("hybrid", [False, True], ids=["x25519", "hybrid"])
def test_what_a_task_means_is_said_alike(
    model: SecurityModel, hybrid: bool, tmp_path: Path, web: WebClient
) -> None:
    path = "replicated" if model.refusal(REPLICATED) is None else "shares"
    task = made_task(tmp_path, "slots", path, model.name, hybrid=hybrid, domain=CAPPED, parties=model.parties)
    told = web.ask("explain", task)
    colluding = model.corruptions + 1
    assert told["readersOfResults"] == colluding
    assert told["readersOfUploads"] == (colluding if task.copies > 1 else model.parties)
    assert told["isHybrid"] == hybrid
    assert told["isActive"] == (model.tolerates == "active")
    assert [party["envelopeBytes"] for party in told["parties"]] == [
        task.envelope_bytes(party) for party in range(model.parties)
    ]
    assert [party["keyId"] for party in told["parties"]] == [party.active.id.hex() for party in task.parties]
    said = " ".join(told["sentences"])
    assert task.name in said and "ε = 4" in said and "of which 3 count" in said


def test_another_models_arithmetic_is_refused(base: Task, web: WebClient) -> None:
    """The project reads such a task, and refuses it before a client shares."""
    file = replace(base, arithmetic="field127").text
    assert not is_read_here(web, file)


def test_a_release_that_is_unknown_is_refused(base: Task, web: WebClient) -> None:
    """A client could not be told what its runs reveal."""
    fields = json.loads(base.text)
    fields["policy"]["tasks"] = ["weights", "medians"]
    assert not is_read_here(web, as_file(fields))


def test_a_task_of_vectors_is_none_that_a_page_takes(web: WebClient, place: Path) -> None:
    """Training takes a program that keeps a record of what it has sealed; a page has records alone."""
    task = task_of_vectors(place / "vectors")
    assert is_read_by_python(task.text) and not is_read_here(web, task.text)
