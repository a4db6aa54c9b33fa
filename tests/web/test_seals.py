"""What the client in TypeScript seals opens in the project, and its shares are uniform."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairshares.harness.errors import ShareError
from fairshares.harness.inputs.record_schema import Cap, RecordDomain
from fairshares.harness.uploads.envelope import info_of
from fairshares.harness.uploads.opening import OpenedEnvelope, open_envelope
from fairshares.harness.uploads.task import Task, task_from_bytes
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.json_values import JsonFields
from tests.harness.uploads.test_rows_of_the_page import known
from tests.support.distribution import dkw_bound
from tests.support.envelopes import (
    VECTORS,
    changed,
    counts,
    made_task,
    opener,
    resealed,
    revealed,
    unsealed,
    upload,
)
from tests.support.rings import to_integers
from tests.support.sharing import allowing
from tests.support.web_client import Refused, WebClient

# A model for each arithmetic of shares that are no bits, and each way to hold shares: name, path, parties.
HOLDINGS = [
    ("ring", "shares", None),
    ("mpyc", "shares", 5),
    ("semi2k", "shares", 2),
    ("ps-rep-ring", "replicated", None),
    ("rep4-ring", "replicated", None),
]


def opened(task: Task, place: Path, party: int, envelope: bytes) -> OpenedEnvelope | str:
    return open_envelope(task, party, opener(task, party, place).keys, envelope)


def values_in(task: Task, place: Path, envelopes: list[bytes]) -> list[int]:
    """Return the row that an upload's envelopes add up to."""
    parts = []
    for party, envelope in enumerate(envelopes):
        answer = opened(task, place, party, envelope)
        assert isinstance(answer, OpenedEnvelope), answer
        assert len(envelope) == task.envelope_bytes(party)
        parts.append(answer.shares)
    return revealed(task, parts)


@pytest.mark.parametrize("hybrid", [False, True], ids=["x25519", "hybrid"])
@pytest.mark.parametrize(("security", "path", "parties"), HOLDINGS, ids=str)
@pytest.mark.parametrize("form", ["split", "product", "keys", "slots"])
def test_every_kind_of_records_opens(
    *, form: str, security: str, path: str, parties: int | None, hybrid: bool, tmp_path: Path, web: WebClient
) -> None:
    domain = RecordDomain(("a", "b"), ("0", "1"), 9, cap=Cap(1) if form in ("keys", "slots") else None)
    base = made_task(tmp_path, form, path, security, hybrid=hybrid, domain=domain, parties=parties)
    cases = [case for case in known() if case["form"] == form]
    assert cases
    for case in cases:
        task = replace(base, record_domain=JsonFields(case["record_domain"]))
        read = web.ask("read", task)
        lengths = [task.envelope_bytes(party) for party in range(len(task.parties))]
        assert read == {"fingerprint": task.name, "columns": task.columns, "envelopes": lengths}
        ((identity, envelopes),) = web.seal(task, records=case["records"])
        assert values_in(task, tmp_path, envelopes) == case["row"]
        assert {envelope[36:68].hex() for envelope in envelopes} == {identity}


@pytest.fixture(scope="module")
def task(place: Path) -> Task:
    return made_task(place)


def test_both_clients_uploads_are_added_up(task: Task, place: Path, web: WebClient, tmp_path: Path) -> None:
    mine = upload(task, [7, 0, 2**40, 1], tmp_path)
    ((theirs, envelopes),) = web.seal(task, row=[5, 0, 2**52, 2])
    for party, envelope in enumerate(envelopes):
        (tmp_path / f"party-{party}" / f"{theirs}.share").write_bytes(envelope)
    made = counts(task, place, shares=tmp_path)
    assert {*made[0].identities} == {*made[2].identities} == {mine, theirs} and not made[1].unsound
    assert revealed(task, [count.values for count in made]) == [12, 0, 2**40 + 2**52, 3]


def test_bounds_are_those_that_the_client_stated(task: Task, place: Path, web: WebClient) -> None:
    bounds = {"tasks": ["weights"], "epsilon": "1/3", "delta": "1/1099511627776", "unit": "client"}
    ((_, envelopes),) = web.seal(task, row=[1, 2, 3, 4], bounds=bounds)
    expected = allowing(("weights",), "1/3", "1/1099511627776", PrivacyUnit.CLIENT)
    for party, envelope in enumerate(envelopes):
        answer = opened(task, place, party, envelope)
        assert isinstance(answer, OpenedEnvelope) and answer.bounds == expected


def reason_or_elements(answer: Any) -> Any:
    """Return the reason to leave an envelope out, or what is in it, as the bridge says it."""
    return answer if isinstance(answer, str) else [int(element) for element in answer["elements"]]


def asked(web: WebClient, task: Task, party: int, keys: dict[bytes, bytes], envelope: bytes) -> Any:
    held = {key.hex(): secret.hex() for key, secret in keys.items()}
    return reason_or_elements(web.ask("open", task, party=party, keys=held, envelope=envelope.hex()))


def test_known_envelopes_are_opened_or_left_out(web: WebClient) -> None:
    cases = json.loads(VECTORS.read_text())
    assert len(cases) == 15
    for case in cases:
        known_task = task_from_bytes(case["task"].encode(), "the vector")
        keys = {bytes.fromhex(key): bytes.fromhex(secret) for key, secret in case["keys"].items()}
        answer = asked(web, known_task, case["party"], keys, bytes.fromhex(case["envelope"]))
        modulus = known_task.ring.modulus
        expected = case.get("left_out") or [element % modulus for element in case["elements"]]
        assert answer == expected, case["name"]


@given(at=st.integers(0, 10**6), party=st.integers(0, 2))
def test_a_changed_byte_is_left_out_for_the_same_reason(
    task: Task, place: Path, at: int, party: int, web: WebClient
) -> None:
    ((_, envelopes),) = web.seal(task, row=[1, 2, 3, 4])
    keys = dict(opener(task, party, place).keys)
    bad = changed(envelopes[party], at % len(envelopes[party]))
    reason = opened(task, place, party, bad)
    assert isinstance(reason, str)
    assert asked(web, task, party, keys, bad) == reason


@given(at=st.integers(0, 10**6), party=st.integers(0, 2))
def test_what_a_client_seals_otherwise_is_left_out_for_the_same_reason(
    task: Task, place: Path, at: int, party: int, web: WebClient
) -> None:
    ((_, envelopes),) = web.seal(task, row=[1, 2, 3, 4])
    keys = dict(opener(task, party, place).keys)
    bad = resealed(task, party, envelopes[party], place / f"keys-{party}", at)
    reason = opened(task, place, party, bad)
    assert isinstance(reason, str)
    assert asked(web, task, party, keys, bad) == reason


def test_what_python_seals_opens_here(task: Task, place: Path, web: WebClient, tmp_path: Path) -> None:
    identity = upload(task, [7, 0, 2**40, 1], tmp_path)
    total = [0, 0, 0, 0]
    for party in range(3):
        envelope = (tmp_path / f"party-{party}" / f"{identity}.share").read_bytes()
        own = asked(web, task, party, dict(opener(task, party, place).keys), envelope)
        total = [(a + b) % 2**64 for a, b in zip(total, own, strict=True)]
    assert total == [7, 0, 2**40, 1]
    assert asked(web, task, 0, dict(opener(task, 0, place).keys), envelope) != total


# 400 uploads of 50 values: n = 20,000 elements of a component, and a bound of 0.023. Each comparison fails by
# chance with a probability of 10^-9 (Dvoretzky, Kiefer, Wolfowitz).
UPLOADS = 400
LABELS = tuple(str(label) for label in range(25))


@pytest.mark.parametrize(
    ("security", "path", "form"),
    [
        ("ring", "shares", "split"),
        ("mpyc", "shares", "split"),
        ("ring", "shares", "slots"),
        ("ps-rep-ring", "replicated", "split"),
    ],
    ids=["ring64", "field127", "xor64", "replicated"],
)
def test_shares_are_uniform_and_no_two_of_three_depend_on_each_other(
    security: str, path: str, form: str, tmp_path: Path, web: WebClient
) -> None:
    domain = RecordDomain(("a", "b"), LABELS, 100, cap=Cap(50) if form == "slots" else None)
    made = made_task(tmp_path, form, path, security, domain=domain)
    components: list[list[int]] = [[], [], []]
    for _, envelopes in web.seal(made, row=[7] * 50, times=UPLOADS):
        held: dict[int, list[int]] = {}
        for party, envelope in enumerate(envelopes):
            answer = opened(made, tmp_path, party, envelope)
            assert isinstance(answer, OpenedEnvelope)
            elements = to_integers(made.ring, answer.shares)
            for place, (number, _) in enumerate(made.pieces(party)):
                held[number] = elements[50 * place : 50 * (place + 1)]
        for number, elements in held.items():
            components[number] += [element % made.ring.modulus for element in elements]
    pairs = [
        [made_difference(made, a, b) for a, b in zip(components[i], components[j], strict=True)]
        for i, j in combinations(range(3), 2)
    ]
    for elements in [*components, *pairs]:
        assert len(elements) == UPLOADS * 50
        assert distance_from_uniform([element / made.ring.modulus for element in elements]) < dkw_bound(
            len(elements)
        )
        low = [(element % 2**20) / 2**20 for element in elements]
        assert distance_from_uniform(low) < dkw_bound(len(elements)) + 2**-20


def made_difference(task: Task, a: int, b: int) -> int:
    """Return a - b in a task's arithmetic."""
    return a ^ b if task.arithmetic == "xor64" else (a - b) % task.ring.modulus


def distance_from_uniform(samples: list[float]) -> float:
    """Return sup |F_n - F| for the uniform distribution from 0 to 1."""
    drawn = np.sort(samples)
    steps = np.arange(len(drawn) + 1) / len(drawn)
    return float(max(np.abs(steps[1:] - drawn).max(), np.abs(steps[:-1] - drawn).max()))


def test_a_wrong_distribution_is_noticed() -> None:
    uniform = np.random.default_rng(1).random(20_000)
    assert distance_from_uniform(uniform.tolist()) < dkw_bound(20_000)
    for scale in (0.9, 1.1):
        assert distance_from_uniform((uniform * scale).tolist()) > dkw_bound(20_000)


def test_seals_have_the_head_of_their_own_party(task: Task, place: Path, web: WebClient) -> None:
    ((identity, envelopes),) = web.seal(task, row=[1, 2, 3, 4])
    for party, envelope in enumerate(envelopes):
        assert envelope[:68] == b"FSE\x03" + task.digest + bytes.fromhex(identity)
        assert unsealed(task, party, envelope, place / f"keys-{party}")[:192].rstrip() == b"null"
        assert info_of(envelope[:76], party)
    assert opened(task, place, 1, envelopes[0]) == "sealed for a key that this party does not have"


def test_nothing_is_sealed_for_an_expired_key(task: Task, web: WebClient) -> None:
    ended = replace(task, until="2029-06-30")
    web.seal(ended, row=[0] * 4, now="2029-06-30T23:59:59Z")
    with pytest.raises(Refused, match="ended on 2029-06-30") as refused:
        web.seal(ended, row=[0] * 4, now="2029-07-01T00:00:00Z")
    assert refused.value.kind == "TaskError"
    with pytest.raises(ShareError, match="ended on"):
        replace(task, until="2020-01-01").check_open()
