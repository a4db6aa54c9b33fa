"""Uploads that are not sound at every party are left out by all alike, whatever a client sends to whom."""

import hashlib
import json
import os
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fairshares.harness.engines.execution import ValueFiles
from fairshares.harness.errors import ShareError
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.sources import PartyInputs, SharesSource
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.uploads.counting import UploadCount
from fairshares.harness.uploads.lists import (
    UploadReport,
    _read_list,
    common_uploads,
    read_lists,
    write_uploads,
)
from fairshares.harness.uploads.policy import ClientPolicies
from fairshares.harness.uploads.reasons import CHANGED, NOT_THE_SAME, SAYS, UNCOVERED, UNREADABLE, WRONG_SIZE
from fairshares.harness.uploads.signatures import kind_of, signature_of
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.spec import KEYS, SLOTS, SPLIT, InputForm
from tests.support.envelopes import counts, left_out, made_task, opener, revealed
from tests.support.misbehaving import MISBEHAVIOURS, copy_under_another_name, misbehave
from tests.support.requests import request_of
from tests.support.sharing import ALL, AllAdmitted, allowing, context, share, trial

RING = MODELS["ring"]
PARTIES = 3
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 10, cap=Cap(4))


def client(*cells: int, domain: RecordDomain = DOMAIN) -> ClientRecords:
    """Return one client's records, by their cells; of no score, where they have one."""
    cell = np.array(cells, dtype=np.int64)
    detail = 0 * cell if domain.kind.of_each else None
    return ClientRecords(domain, np.array(["c"], dtype=object), 0 * cell, cell // 2, cell % 2, detail)


def described(
    shares: Path, work: Path, form: InputForm = SPLIT, model: SecurityModel = RING
) -> tuple[PartyInputs, list[bytes]]:
    """Return what a run takes of these uploads: what is public, and what each party is fed."""
    work.mkdir()
    run = context(request_of(model, form, Fraction(1), Fraction(1, 2**40)), work)
    inputs = SharesSource(shares).describe(run)
    values = SharesSource(shares).deliver(run, inputs, None).values
    assert isinstance(values, ValueFiles)
    return inputs, [path.read_bytes() for path in values.files]


@pytest.mark.parametrize(
    ("model", "form", "party"),
    [
        ("semi2k", SLOTS, 0),
        ("ring", SPLIT, 1),
        ("ring", SLOTS, None),
        ("rep4-ring", SLOTS, 3),
        ("mpyc", SPLIT, None),
        ("ring", KEYS, None),
    ],
)
def test_honest_clients_are_fed_the_same_whatever_others_upload(
    model: str, form: InputForm, party: int | None, tmp_path: Path
) -> None:
    """All ways to misbehave, one client each, towards one party, or alike towards all."""
    chosen, shares = MODELS[model], tmp_path / "shares"
    domain = DOMAIN.with_kind(RecordKind.SCORE) if form is KEYS else DOMAIN
    for cells in ((0, 0, 3), (1,)):
        share(client(*cells, domain=domain), form, chosen, shares)
    alone, expected = described(shares, tmp_path / "alone", form, chosen)
    why: Counter[str] = Counter()
    for what in MISBEHAVIOURS.values():
        reason = what.at_all if party is None else what.at_one
        bad = share(client(2, 2, 2, 2, domain=domain), form, chosen, shares)
        misbehave(
            what.change, shares, bad, range(chosen.parties) if party is None else range(party, party + 1)
        )
        named = party is not None and reason != NOT_THE_SAME
        why[reason + (SAYS.format(party=party) if named else "")] += bool(reason)
    among, values = described(shares, tmp_path / "among", form, chosen)
    assert (tuple(among.batches), values) == (tuple(alone.batches), expected)
    assert among.excluded == +why and len(+why) > 5


@pytest.mark.parametrize("party", [0, 2])
def test_who_knows_an_uploads_identity_cannot_have_it_left_out(party: int, tmp_path: Path) -> None:
    """Neither by a copy, nor by what is no envelope under the upload's own name, beside it."""
    shares = tmp_path / "shares"
    victim = share(client(1), SPLIT, RING, shares)
    copy_under_another_name(shares, victim, party)
    (shares / f"party-{party}" / f"{victim}.share").write_bytes(b"garbage")
    inputs, _ = described(shares, tmp_path / "work")
    assert (tuple(inputs.batches), inputs.excluded) == ((victim,), {})


def test_nothing_is_left(tmp_path: Path) -> None:
    for party in range(PARTIES):
        (tmp_path / f"party-{party}").mkdir()
    trial(DOMAIN, SPLIT, RING, tmp_path)
    with pytest.raises(ShareError, match="No upload is sound at every party: there is none"):
        described(tmp_path, tmp_path / "1")
    bad = share(client(0), SPLIT, RING, tmp_path)
    misbehave(lambda file: file.write_bytes(b"?"), tmp_path, bad, range(PARTIES))
    with pytest.raises(ShareError, match=f"No upload is sound at every party: 1 {WRONG_SIZE}"):
        described(tmp_path, tmp_path / "2")


def test_what_is_no_directory_of_uploads_is_named(tmp_path: Path) -> None:
    with pytest.raises(ShareError, match=r"holds no shares: there is neither party-0\.aggregate"):
        described(tmp_path, tmp_path / "1")
    share(client(0), SPLIT, RING, tmp_path)
    with pytest.raises(ShareError, match=r"shared for model ring, .*would be of model sy-rep-ring"):
        described(tmp_path, tmp_path / "2", model=MODELS["sy-rep-ring"])
    with pytest.raises(ShareError, match=r"as split in additive shares; .* as slots in additive"):
        described(tmp_path, tmp_path / "3", SLOTS)
    (tmp_path / "party-1").rename(tmp_path / "lost")
    with pytest.raises(ShareError, match=r"Cannot read .*party-1"):
        described(tmp_path, tmp_path / "4")


A, B, C, D, E = (letter * 64 for letter in "abcde")
TASK = "0" * 64


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_all_parties_take_the_same_whoever_computes_it(shift: int) -> None:
    """The sets of uploads do not depend on the order; of differing reasons that of party 0 is given."""
    reports = [
        UploadReport(0, TASK, frozenset({A, B, E}), {WRONG_SIZE: {D}, UNREADABLE: {C}}),
        UploadReport(1, TASK, frozenset({A, B, D, C}), {}),
        UploadReport(2, TASK, frozenset({A, B, E, C}), {UNREADABLE: {D}}),
    ]
    agreement = common_uploads([*reports[shift:], *reports[:shift]])
    assert agreement.accepted == {A, B}
    first = {0: WRONG_SIZE, 1: UNREADABLE, 2: UNREADABLE}[shift]
    assert agreement.left_out == {
        first: 1,
        NOT_THE_SAME: 1,  # as party 1 does not have it
        UNREADABLE + SAYS.format(party=0): 1,
    }


def test_lists_of_different_tasks_do_not_go_together() -> None:
    reports = [UploadReport(i, str(i > 1) * 64, frozenset({A}), {}) for i in range(3)]
    with pytest.raises(ShareError, match=r"Party 2 lists uploads of task True.*, party 0 of False"):
        common_uploads(reports)


def test_a_name_that_is_no_text_is_listed(tmp_path: Path) -> None:
    """Or a client could end all runs by a file's name."""
    share(client(0), SPLIT, RING, tmp_path)
    Path(os.fsdecode(os.fsencode(tmp_path / "party-0") + b"/\xff.share")).write_bytes(b"?")
    task = trial(DOMAIN, SPLIT, RING, tmp_path)
    count = UploadCount(opener(task, 0, tmp_path))
    count.add(tmp_path / "party-0")
    write_uploads(count.report(), tmp_path / "party-0.uploads")
    assert _read_list(tmp_path / "party-0.uploads") == count.report()
    assert left_out(count.unsound) == {hashlib.sha256(b"\xff").hexdigest(): WRONG_SIZE}


LIST = {"schema": 3, "party": 0, "task": TASK, "sound": 2, "unsound": {}}


@pytest.mark.parametrize(
    "change",
    [
        *("", "[]", "{}", json.dumps({**LIST, "schema": 2}), json.dumps({**LIST, "party": "0"})),
        json.dumps({**LIST, "unsound": {"as its client has the record 7": 0}}) + f"\n{A} {B}\n\n",
        json.dumps({**LIST, "sound": {"a": 1}}),
        *(f"{json.dumps(LIST)}\n{listed}" for listed in ("x", A[1:], f"{B} {A}\n", f"{A} {A}\n", "é")),
        *(f"{json.dumps(LIST)}\n{A} {B}{end}" for end in (f"\n{C}\n", f" {C}\n", "\n\n")),
        *(json.dumps({**LIST, "sound": number}) + f"\n{A} {B}\n" for number in (-1, 1, 3, 10**20)),
        json.dumps({**LIST, "more": 1}) + f"\n{A} {B}\n",
    ],
)
def test_damaged_lists_are_refused(change: str, tmp_path: Path) -> None:
    (tmp_path / "party-0.uploads").write_text(change)
    with pytest.raises(ShareError, match="is not a party's list"):
        read_lists(tmp_path, made_task(tmp_path))


def test_a_list_of_each_party_of_one_task_is_needed(tmp_path: Path) -> None:
    task = made_task(tmp_path)

    def write(party: int, *sound: str, of: str = task.name) -> None:
        key = task.signer(party, tmp_path / f"keys-{party}")
        write_uploads(UploadReport(party, of, frozenset(sound), {}), tmp_path / f"party-{party}.uploads", key)

    for party in (1, 2):
        write(party, A)
        with pytest.raises(ShareError, match="one list of uploads of each of the task's parties"):
            read_lists(tmp_path, task)
    write(0, B)
    with pytest.raises(ShareError, match="No upload is sound at every party: 2 not the same"):
        read_lists(tmp_path, task)
    write(0, A)
    assert read_lists(tmp_path, task).accepted == {A}
    for party in range(PARTIES):
        write(party, A, of=TASK)
    with pytest.raises(ShareError, match=f"holds lists of task 0000000000000000, not {task.name[:16]}"):
        read_lists(tmp_path, task)


@pytest.mark.parametrize("who", ["nobody", "another party", "a stranger"])
def test_a_list_that_its_party_did_not_sign_is_refused(who: str, tmp_path: Path) -> None:
    """Whoever carries lists can neither make one nor change one, nor pass one party's off as another's."""
    task = made_task(tmp_path)
    keys = [task.signer(party, tmp_path / f"keys-{party}") for party in range(PARTIES)]
    reports = [
        UploadReport(i, task.name, frozenset({A, B}), {CHANGED: frozenset({C})}) for i in range(PARTIES)
    ]
    for report, key in zip(reports, keys, strict=True):
        write_uploads(report, tmp_path / f"party-{report.party}.uploads", key)
    assert read_lists(tmp_path, task).accepted == {A, B}
    own = tmp_path / "party-1.uploads"
    text = own.read_text()
    fields = json.loads(text.splitlines()[0])
    stranger = ec.generate_private_key(ec.SECP256R1())
    signature = {
        "nobody": "",
        "another party": signature_of(keys[0], kind_of(UploadReport), reports[1].digest),
        "a stranger": signature_of(stranger, kind_of(UploadReport), reports[1].digest),
    }
    for change, *names in (
        ({"signature": signature[who]}, f"{A} {B}", C),
        ({"sound": 1}, A, C),
        ({"sound": 3, "unsound": {}}, f"{A} {B} {C}"),
        ({"unsound": {}}, f"{A} {B}"),
        ({"unsound": {UNCOVERED: 1}}, f"{A} {B}", C),
        ({}, f"{A} {C}", B),
    ):
        own.write_text("\n".join([json.dumps({**fields, **change}), *names, ""]))
        with pytest.raises(ShareError, match="Party 1, party 1, did not sign the list"):
            read_lists(tmp_path, task)
    own.write_text(text)
    assert read_lists(tmp_path, task).accepted == {A, B}
    with pytest.raises(ShareError, match="signs by another key than party 0"):
        task.signer(0, tmp_path / "keys-1")


ALLOWS = allowing(("weights",), "1", "1/2", PrivacyUnit.RECORD)


class LeavingOut(AllAdmitted):
    """Says of these uploads that their policies do not cover the run, and keeps what it was asked."""

    def __init__(self, uploads: list[str]) -> None:
        self._uploads = uploads
        self.asked: list[object] = []

    def uncovered(self, domain: RecordDomain, policies: ClientPolicies) -> list[str]:
        self.asked.append((domain, {upload: policies.of(upload) for upload in policies.uploads}))
        return self._uploads


@pytest.mark.parametrize("form", [SLOTS, SPLIT], ids=lambda form: form.name)
def test_whose_policy_does_not_cover_a_run_is_left_out(form: InputForm, tmp_path: Path) -> None:
    """Who asks is told the domain that uploads are of, and what each client allows: no more than the task."""
    shares = tmp_path / "shares"
    free = [share(client(i + 1), form, RING, shares) for i in range(2)]
    kept = share(client(0), form, RING, shares, ALLOWS)
    gone = [share(client(3), form, RING, shares, ALLOWS) for _ in range(2)]
    lax = share(client(0), form, RING, shares, allowing(("weights", "other"), "2000", "1"))
    leaving_out = LeavingOut(gone)
    release = request_of(RING, form, Fraction(1), Fraction(1, 2**40))
    (tmp_path / "work").mkdir()
    inputs = SharesSource(shares).describe(context(release, tmp_path / "work", leaving_out))
    allowed = {**dict.fromkeys(free, ALL), kept: ALLOWS, lax: allowing(("weights",), "1000", "1")}
    assert leaving_out.asked == [(DOMAIN, {**allowed, **dict.fromkeys(gone, ALLOWS)})]
    assert inputs.policies is not None
    counted = {upload: inputs.policies.of(upload) for upload in inputs.policies.uploads}
    assert (inputs.excluded, counted) == ({UNCOVERED: 2}, allowed)
    task = trial(DOMAIN, form, RING, shares)
    made = counts(task, shares, allowed, shares)
    if form is SPLIT:
        assert revealed(task, [count.values for count in made]) == [2, 1, 1, 0]
    (tmp_path / "none").mkdir()
    run = context(release, tmp_path / "none", LeavingOut([*free, kept, lax, *gone]))
    with pytest.raises(ShareError, match=f"No upload is sound at every party: 6 {UNCOVERED}"):
        SharesSource(shares).describe(run)


def test_a_host_says_whose_policy_does_not_cover_a_run() -> None:
    reports = [UploadReport(i, TASK, frozenset({A, B, C}), {}) for i in range(PARTIES)]
    reports[1] = reports[1].without([A, D])
    agreement = common_uploads(reports)
    assert agreement.accepted == {B, C}
    assert agreement.left_out == {UNCOVERED + SAYS.format(party=1): 1}  # which the others would not say
