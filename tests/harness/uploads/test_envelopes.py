"""Envelopes: opened they add up to the values; changed, exchanged or equivocal, they are left out."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairshares.harness.errors import RecordDomainError, ShareError
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid
from fairshares.harness.uploads import keys as sealing_keys
from fairshares.harness.uploads.client import seal_upload
from fairshares.harness.uploads.envelope import info_of
from fairshares.harness.uploads.keys import SealingKey, SealingParty, secrets_in, unseal
from fairshares.harness.uploads.opening import OpenedEnvelope, open_envelope
from fairshares.harness.uploads.policy import ClientPolicy
from fairshares.harness.uploads.reasons import CHANGED, OTHER_KEY, OTHER_TASK, UNOPENED, UNREADABLE
from fairshares.harness.uploads.task import Task, task_from_bytes
from tests.conftest import PROJECT
from tests.support.envelopes import (
    DOMAIN,
    FORMS,
    VECTORS,
    changed,
    counts,
    made_task,
    opener,
    revealed,
    upload,
)
from tests.support.rings import to_integers
from tests.support.sharing import allowing

VALUES = [7, 0, 2**40, 1]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("task")


@pytest.fixture(scope="module")
def task(place: Path) -> Task:
    return made_task(place)


def opened(task: Task, place: Path, party: int, envelope: bytes) -> OpenedEnvelope | str:
    return open_envelope(task, party, opener(task, party, place).keys, envelope)


@pytest.mark.parametrize("hybrid", [False, True], ids=["x25519", "hybrid"])
@pytest.mark.parametrize(("form", "path", "security", "domain"), FORMS, ids=lambda part: str(part)[:11])
def test_shares_add_up_and_lengths_follow_from_the_task(
    *, form: str, path: str, security: str, domain: Any, hybrid: bool, tmp_path: Path
) -> None:
    task = made_task(tmp_path, form, path, security, hybrid=hybrid, domain=domain)
    values = [3] * task.columns
    identity, envelopes = seal_upload(task, np.array(values), None)
    _, others = seal_upload(task, np.zeros(task.columns, dtype=np.int64), allowing(("count",), "1/3", "1/7"))
    lengths = [task.envelope_bytes(party) for party in range(len(task.parties))]
    assert [*map(len, envelopes)] == [*map(len, others)] == lengths
    parts = [opened(task, tmp_path, party, envelope) for party, envelope in enumerate(envelopes)]
    assert revealed(task, [part.shares for part in parts if isinstance(part, OpenedEnvelope)]) == values
    assert {envelope[36:68].hex() for envelope in envelopes} == {identity}


@given(at=st.integers(0, 10**6), party=st.integers(0, 2))
def test_no_changed_byte_goes_unnoticed(task: Task, place: Path, at: int, party: int) -> None:
    envelope = seal_upload(task, np.array(VALUES), None)[1][party]
    at %= len(envelope)
    fault = opened(task, place, party, changed(envelope, at))
    regions = ((4, UNREADABLE), (36, OTHER_TASK), (68, UNOPENED), (76, OTHER_KEY), (len(envelope), UNOPENED))
    assert fault == next(expected for end, expected in regions if at < end)


def test_nothing_is_exchanged(task: Task, place: Path, tmp_path: Path) -> None:
    (_, mine), (_, yours) = (seal_upload(task, np.array(VALUES), None) for _ in range(2))
    other = made_task(tmp_path)
    assert opened(other, tmp_path, 0, mine[0]) == OTHER_TASK
    assert opened(task, place, 1, mine[0]) == OTHER_KEY
    # One key for two parties, and the head of one upload before the seal of another.
    assert open_envelope(task, 1, opener(task, 0, place).keys, mine[0]) == UNOPENED
    assert opened(task, place, 0, yours[0][:76] + mine[0][76:]) == UNOPENED
    assert opened(replace(task, until="2999-01-01"), place, 0, mine[0]) == OTHER_TASK


@pytest.mark.parametrize("part", ["bounds", "own", "other's"])
def test_a_client_cannot_equivocate(part: str, task: Task, place: Path) -> None:
    """What parties open under one identity is the same bounds and components, whatever a client seals."""
    envelope = seal_upload(task, np.array(VALUES), None)[1][0]
    head, key = envelope[:76], task.parties[0].keys[0]
    info = info_of(head, 0)
    secret = opener(task, 0, place).keys[key.id]
    plain = unseal(secret, envelope[76:], info)
    assert plain is not None
    at = {"bounds": 191, "own": len(plain) - 1, "other's": 192 + 32}[part]
    assert opened(task, place, 0, head + key.seal(changed(plain, at), info)) == CHANGED


@pytest.mark.parametrize("stated", [b"[]", b"{", b'{"tasks": [1]}', b"", b'{"epsilon": "1", "delta": "0"}'])
def test_bounds_that_are_none_are_left_out(stated: bytes, task: Task, place: Path) -> None:
    with patch("json.dumps", return_value=stated.decode()):
        _, envelopes = seal_upload(task, np.array(VALUES), None)
    assert opened(task, place, 0, envelopes[0]) == UNREADABLE


def test_bounds_are_in_the_seal(task: Task, place: Path) -> None:
    bounds: ClientPolicy = allowing(("weights",), "1/3", "1/1099511627776")
    _, envelopes = seal_upload(task, np.array(VALUES), bounds)
    assert [opened(task, place, i, envelope).bounds for i, envelope in enumerate(envelopes)] == [bounds] * 3  # type: ignore[union-attr]
    assert all(b"weights" not in envelope for envelope in envelopes)
    with pytest.raises(ShareError, match="too much room"):
        seal_upload(task, np.array(VALUES), allowing(("weights",), f"1/{10**150 + 1}", "1/2"))


def test_known_answers() -> None:
    cases = json.loads(VECTORS.read_text())
    assert len(cases) == 15
    for case in cases:
        task = task_from_bytes(case["task"].encode(), "the vector")
        assert task.digest == hashlib.sha256(case["task"].encode()).digest()
        keys = {bytes.fromhex(key): bytes.fromhex(secret) for key, secret in case["keys"].items()}
        envelope = bytes.fromhex(case["envelope"])
        answer = open_envelope(task, case["party"], keys, envelope)
        if "left_out" in case:
            assert answer == case["left_out"], case["name"]
        else:
            assert isinstance(answer, OpenedEnvelope) and envelope[36:68].hex() == case["identity"], case[
                "name"
            ]
            assert to_integers(task.ring, answer.shares) == case["elements"]
            assert len(envelope) == task.envelope_bytes(case["party"])


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
def test_a_client_in_another_language(task: Task, place: Path, tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    file.write_bytes(task.text)
    shares = place / "shares"
    program = str(PROJECT / "tests" / "fixtures" / "envelope.mjs")
    subprocess.run(["node", program, file, "5,0,1099511627776,2", shares], check=True, timeout=60)
    mine = upload(task, VALUES, shares)
    made = counts(task, place)
    assert len(made[0].identities) == 2 and made[0].identities == made[2].identities
    assert mine in made[0].identities and not made[1].unsound
    expected = [a + b for a, b in zip(VALUES, [5, 0, 2**40, 2], strict=True)]
    assert revealed(task, [count.values for count in made]) == expected


def at(day: str) -> Any:
    """Put the clock of keys and tasks to a day."""
    return patch.object(sealing_keys, "today", return_value=day)


def test_keys_follow_each_other_and_nothing_is_lost(tmp_path: Path) -> None:
    """Uploads to an expired key are opened as long as its party keeps it; a thief's key opens those only."""
    task = made_task(tmp_path)
    first = task.parties[0]
    rotated = first
    for day in ("2030-06-30", "2030-12-31"):
        rotated = rotated.with_new_key(tmp_path / "keys-0", day, hybrid=False)
    rotated = replace(rotated, keys=rotated.keys[1:])
    task = replace(task, parties=[rotated, *task.parties[1:]])
    early, late = rotated.keys
    with at("2030-06-30"):
        assert rotated.states() == {early: "active", late: "pending"}
        before = seal_upload(task, np.array(VALUES), None)[1][0]
    with at("2030-07-01"):
        assert rotated.states() == {early: "expired", late: "active"}
        after = seal_upload(task, np.array(VALUES), None)[1][0]
    with at("2031-01-01"), pytest.raises(ShareError, match="by this machine's clock"):
        seal_upload(task, np.array(VALUES), None)
    both = secrets_in(tmp_path / "keys-0")
    assert all(
        isinstance(open_envelope(task, 0, both, envelope), OpenedEnvelope) for envelope in (before, after)
    )
    stolen = {early.id: both[early.id]}
    assert isinstance(open_envelope(task, 0, stolen, before), OpenedEnvelope)
    assert open_envelope(task, 0, stolen, after) == OTHER_KEY
    clock = chain(["2030-06-30"] * 7, repeat("2030-07-01"))  # a key ends while many clients share
    with patch.object(sealing_keys, "today", side_effect=clock):
        names = {upload(task, VALUES, tmp_path / "shares") for _ in range(20)}
    used = [path.read_bytes()[68:76] for path in (tmp_path / "shares" / "party-0").iterdir()]
    assert {*used} == both.keys() - {key.id for key in first.keys}
    assert all({*count.identities} == names for count in counts(task, tmp_path))


@pytest.mark.parametrize(
    ("public", "until"), [("00", "2030-01-01"), ("zz" * 32, "2030-01-01"), ("00" * 32, "2030-1-1")]
)
def test_what_is_no_key_is_refused(public: str, until: str) -> None:
    with pytest.raises(ShareError):
        SealingKey(public, until)


@pytest.mark.parametrize("address", ["http://a/", "https://a", "ftp://a/", "https://a b/"])
def test_addresses_are_https(address: str) -> None:
    with pytest.raises(ShareError, match="https"):
        SealingParty("a", address, [])


def test_a_task_is_its_bytes(task: Task, tmp_path: Path) -> None:
    assert task_from_bytes(task.text, "it") == task
    fields = json.loads(task.text)
    with pytest.raises(ShareError, match="was changed"):
        task_from_bytes(json.dumps(fields).encode(), "it")
    for change in ({"schema": 2}, {"least_uploads": 0}, {"copies": 3}, {"until": "soon"}, {"form": "x"}):
        text = json.dumps({**fields, **change}, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        with pytest.raises(ShareError, match="no task"):
            task_from_bytes(text, "it")


@pytest.mark.parametrize(
    ("form", "domain"),
    [
        ("product", RecordDomain(("a", "b"), ("0", "1"), 10, cap=Cap(3))),
        ("product", RecordDomain(("a", "b"), ("0", "1"), 10, kind=RecordKind.SCORE, thresholds=(0.0, 0.5))),
        ("keys", RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, 10))),
    ],
)
def test_a_task_of_a_form_that_cannot_hold_its_records_is_refused(
    form: str, domain: RecordDomain, task: Task
) -> None:
    """When the task is read, before a client counts anything."""
    with pytest.raises(RecordDomainError, match=f"The input form {form} "):
        replace(task, form=form, record_domain=domain.to_json())


@pytest.mark.parametrize("change", [str.upper, lambda text: f"{text[:2]} {text[2:]}"])
def test_a_signing_key_that_is_written_otherwise_is_refused(change: Callable[[str], str], task: Task) -> None:
    """One key has one text."""
    (party, *_) = task.parties
    with pytest.raises(ShareError, match="The signing key of party 0 is none of this version"):
        replace(party, signing=change(party.signing))


def test_a_task_refuses_what_would_tell_of_a_client(tmp_path: Path, task: Task) -> None:
    scores = DOMAIN.with_kind(RecordKind.SCORE)
    with pytest.raises(ShareError, match="how many records"):
        replace(task, form="keys", record_domain=scores.to_json())
    hybrid = made_task(tmp_path, hybrid=True)
    with pytest.raises(ShareError, match="of one kind"):
        replace(task, parties=[*task.parties[:2], hybrid.parties[2]])
    with pytest.raises(ShareError, match="at least"):
        replace(task, least_uploads=3).check_count(2)
    with pytest.raises(ShareError, match="overflow"):
        task.check_count(2**22)
    with (
        patch("fairshares.harness.uploads.task.today", return_value="9999-99"),
        pytest.raises(ShareError, match="ended"),
    ):
        task.check_open()


@pytest.mark.parametrize("name", ["tls.key", "0011223344556677.key"])
def test_a_file_that_is_no_key_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"-----BEGIN PRIVATE KEY-----")
    with pytest.raises(ShareError, match=rf"{name} is no key that"):
        secrets_in(tmp_path)


def test_a_key_to_which_nothing_can_be_sealed_is_refused() -> None:
    with pytest.raises(ShareError, match="A sealing key of 32 bytes"):
        SealingKey("00" * 32, "2027-12-31")
