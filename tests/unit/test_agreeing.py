"""Uploads that are not sound at every party are left out by all alike, whatever a client sends to whom."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.agreeing import UploadsAt, agreed_uploads, read_lists, uploads_at, write_uploads
from harness.contributions import Cap
from harness.domain import XOR
from harness.errors import ShareError
from harness.feeding import aggregate_all
from harness.models import MODELS
from harness.records import ClientRecords, RecordDomain
from harness.sharing import check_aggregates, extract_values, share
from protocols.spec import SLOTS

PARTIES = 3
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), cap=Cap(4))


def client(*cells: int, domain: RecordDomain = DOMAIN) -> ClientRecords:
    """Return one client's records, by their cells."""
    cell = np.array(cells, dtype=np.int64)
    return ClientRecords(domain, np.array(["c"], dtype=object), 0 * cell, cell // 2, cell % 2)


def longer(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"12345678")


def shorter(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def twice(file: Path) -> None:
    shutil.copy(file, file.with_name("again.share"))


def missing(file: Path) -> None:
    file.unlink()


def no_header(file: Path) -> None:
    file.write_bytes(b"\n" + file.read_bytes())


def for_another_party(file: Path) -> None:
    shutil.copy(file.parent.parent / "party-1" / file.name, file)


def of_two_clients(file: Path) -> None:
    """As long as it says: a seed makes any number of words."""
    first, values = file.read_bytes().split(b"\n", 1)
    header = json.loads(first)
    more = values if header["content"] == "values" else b""
    file.write_bytes(json.dumps({**header, "clients": 2}).encode() + b"\n" + values + more)


MISBEHAVIOURS = (longer, shorter, twice, missing, no_header, for_another_party, of_two_clients)


def counted(aggregates: list[Path], directory: Path) -> list[int]:
    """Return the codes that the parties' aggregates share, sorted."""
    values = [extract_values(path, directory / f"values-{i}") for i, path in enumerate(aggregates)]
    shares = np.stack([XOR.from_bytes(path.read_bytes()) for path in values], axis=-2)
    return sorted(XOR.to_integers(XOR.total(shares)))


@pytest.mark.parametrize("party", [0, 2])
@pytest.mark.parametrize("misbehave", MISBEHAVIOURS, ids=lambda each: each.__name__)
def test_others_stay_and_the_upload_is_out_everywhere(misbehave: object, party: int, tmp_path: Path) -> None:
    assert callable(misbehave)
    shares = tmp_path / "shares"
    for cells in ((0, 0, 3), (1,)):
        share(client(*cells), SLOTS, XOR, PARTIES, shares)
    bad = share(client(2, 2, 2, 2), SLOTS, XOR, PARTIES, shares)
    misbehave(shares / f"party-{party}" / f"{bad}.share")
    aggregates, excluded = aggregate_all(shares, MODELS["ring"], tmp_path, excluding=True)
    assert excluded == 1
    header = check_aggregates(aggregates)
    assert (header.batches, header.clients) == (2, 2)
    assert counted(aggregates, tmp_path) == [0, 0, 0, 0, 1, 1, 2, 4]


@pytest.mark.parametrize("excluding", [False, True])
def test_two_that_claim_two_clients_at_other_parties_shift_nobodys_slots(
    excluding: bool, tmp_path: Path
) -> None:
    """All parties have uploads of as many clients; what is between the two would be put together wrongly."""
    shares = tmp_path / "shares"
    for batch, parties in (("0" * 32, [0]), ("f" * 32, [1, 2])):
        made = share(client(2), SLOTS, XOR, PARTIES, shares)
        for i in range(PARTIES):
            file = shares / f"party-{i}" / f"{made}.share"
            file.write_bytes(file.read_bytes().replace(made.encode(), batch.encode()))
            if i in parties:
                of_two_clients(file)
    for _ in range(3):
        share(client(0, 0), SLOTS, XOR, PARTIES, shares)
    aggregates, excluded = aggregate_all(shares, MODELS["ring"], tmp_path, excluding=excluding)
    if not excluding:
        with pytest.raises(ShareError, match="Party 1 has other uploads than party 0"):
            check_aggregates(aggregates)
        return
    assert (excluded, check_aggregates(aggregates).clients) == (2, 3)
    assert counted(aggregates, tmp_path) == [0] * 6 + [1] * 6


def test_too_many_slots_are_another_domain(tmp_path: Path) -> None:
    """A client that says so everywhere is out by the declared domain, else the run says that they differ."""
    sound = share(client(0), SLOTS, XOR, PARTIES, tmp_path)
    more = RecordDomain(("a", "b"), ("0", "1"), cap=Cap(40))
    bad = share(client(*[0] * 40, domain=more), SLOTS, XOR, PARTIES, tmp_path)
    found = uploads_at(1, tmp_path / "party-1", DOMAIN)
    assert found.seen == {sound, bad} and set(found.sound) == {f"{sound}:1:0"} and found.foreign == 1
    assert uploads_at(1, tmp_path / "party-1").foreign == 0
    with pytest.raises(ShareError, match="differ in domain"):
        aggregate_all(tmp_path, MODELS["ring"], tmp_path, excluding=True)


def test_lists_on_file_are_what_all_agree_on(tmp_path: Path) -> None:
    sound = [{name: Path(name) for name in names} for names in ("ab", "bc")]
    found = [UploadsAt(i, frozenset("abc"), each) for i, each in enumerate(sound)]
    for each in found:
        write_uploads(each, tmp_path / f"party-{each.party}.uploads")
    assert read_lists(tmp_path) == frozenset("b") == agreed_uploads([each.sound for each in found])
    assert found[0].of(frozenset("b")) == [Path("b")]
    with pytest.raises(ShareError, match="Party 1 has not all uploads"):
        found[1].of(frozenset("ab"))


@pytest.mark.parametrize(
    "change", ["", "[]", json.dumps({"schema": 1, "party": 0}), json.dumps({"schema": 2})]
)
def test_damaged_lists_are_refused(change: str, tmp_path: Path) -> None:
    (tmp_path / "party-0.uploads").write_text(change)
    with pytest.raises(ShareError, match="is not a party's list"):
        read_lists(tmp_path)


def test_a_list_of_each_party_is_needed(tmp_path: Path) -> None:
    write_uploads(UploadsAt(1, frozenset("a"), {"a": Path()}), tmp_path / "party-1.uploads")
    with pytest.raises(ShareError, match="one list of uploads per party"):
        read_lists(tmp_path)
    write_uploads(UploadsAt(0, frozenset("b"), {"b": Path()}), tmp_path / "party-0.uploads")
    with pytest.raises(ShareError, match="No upload is sound at every party"):
        read_lists(tmp_path)
