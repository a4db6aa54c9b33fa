"""Share files of version 2 are as docs/reference/share-files.md says: known answers, and a second reader."""

import hashlib
import json
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import ShareError
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.inputs.rings import RINGS
from harness.inputs.shares.file_format import (
    ClientPolicy,
    check_aggregates,
    extract_values,
    read_header,
    read_uploads,
)
from harness.inputs.shares.party import CHANGED, MISDIRECTED, UNREADABLE, WRONG_SIZE, aggregate, uploads_at
from protocols.accounting.calibration import PrivacyUnit
from protocols.spec import PRODUCT, REPLICATED, SHARES, SPLIT, InputForm, InputPath
from tests.support.rings import to_integers
from tests.support.share_files import VECTORS, identity, line, opened, vectors
from tests.support.sharing import allowing, share

FOUND = json.loads(VECTORS.read_text(encoding="utf-8"))
REASONS = {"changed": CHANGED, "unreadable": UNREADABLE, "size": WRONG_SIZE, "misdirected": MISDIRECTED}
POLICIES = [
    allowing(("weights", "gap"), "3", "1/8", PrivacyUnit.RECORD),
    allowing(("gap",), "20", "1/16", PrivacyUnit.CLIENT),
]


def content(file: dict[str, str]) -> bytes:
    return file["line"].encode() + b"\n" + bytes.fromhex(file["following"])


def lay_out(files: list[bytes], shares: Path) -> str:
    """Write an upload's files where parties look for them; return its identity."""
    batch = str(json.loads(files[0].partition(b"\n")[0])["batch"])
    for i, content_of in enumerate(files):
        (shares / f"party-{i}").mkdir(parents=True, exist_ok=True)
        (shares / f"party-{i}" / f"{batch}.share").write_bytes(content_of)
    return batch


def added_up(shares: Path, scratch: Path, parties: int) -> list[int]:
    """Return what the parties' aggregates open to."""
    scratch.mkdir(exist_ok=True)
    paths = [scratch / f"{i}.aggregate" for i in range(parties)]
    for i, path in enumerate(paths):
        aggregate(i, shares / f"party-{i}", path)
    common = check_aggregates(paths)
    shares_of: dict[int, Any] = {}
    for i, path in enumerate(paths):
        held = common.domain.from_bytes(extract_values(path, scratch / f"{i}.values").read_bytes())
        shares_of |= zip(read_header(path).held, np.split(held, common.copies), strict=True)
    return to_integers(common.domain, reduce(common.domain.add, shares_of.values()))


def test_the_vectors_are_those_that_the_specification_gives() -> None:
    assert vectors() == FOUND and FOUND["specification"] == "docs/reference/share-files.md"
    assert {vector["refused"] for vector in FOUND["bad"]} == set(REASONS)


@pytest.mark.parametrize("vector", FOUND["sound"], ids=lambda vector: vector["name"])
def test_a_sound_upload_is_taken_and_opens_to_the_known_values(
    vector: dict[str, Any], tmp_path: Path
) -> None:
    files = [content(each) for each in vector["files"]]
    assert opened(files) == vector["opened"]
    batch = lay_out(files, tmp_path)
    for i in range(len(files)):
        report = uploads_at(i, tmp_path / f"party-{i}")
        assert [each.partition(":")[0] for each in report.sound] == [batch] and not report.unsound
        policy = json.loads(files[i].partition(b"\n")[0])["policy"]
        assert list(report.policies) == ([batch] if policy else [])
    assert added_up(tmp_path, tmp_path, len(files)) == vector["opened"]


@pytest.mark.parametrize("vector", FOUND["bad"], ids=lambda vector: vector["name"])
def test_a_bad_file_is_refused_for_its_reason(vector: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / f"{json.loads(vector['line'])['batch']}.share"
    path.write_bytes(content(vector))
    report = uploads_at(vector["party"], tmp_path)
    assert not report.sound and report.unsound == {path.stem: REASONS[vector["refused"]]}
    with pytest.raises(ShareError):
        aggregate(vector["party"], tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", [SPLIT, PRODUCT], ids=lambda form: form.name)
@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize(
    ("arithmetic", "path"),
    [*((name, SHARES) for name in RINGS), ("ring64", REPLICATED)],
    ids=lambda value: getattr(value, "name", value),
)
def test_another_implementation_reads_what_is_written(
    arithmetic: str, path: InputPath, parties: int, form: InputForm, tmp_path: Path
) -> None:
    declared = RecordDomain(("a", "ß"), ("0", "1"), 10)
    client, group, label = np.array([[0, 0, 0, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 0, 0]])
    records = ClientRecords(declared, np.array(["k", "l"]), client, group, label)
    batch = share(records, form.by(path), RINGS[arithmetic], parties, tmp_path, POLICIES[0])
    files = [(tmp_path / f"party-{i}" / f"{batch}.share").read_bytes() for i in range(parties)]
    assert opened(files) == columns_of(records, form).ravel().tolist()


def one(shares: Path, policy: ClientPolicy | None = None) -> str:
    zero = np.array([0])
    records = ClientRecords(RecordDomain(("a", "b"), ("0", "1"), 9), np.array(["k"]), zero, zero, zero)
    return share(records, SPLIT, RINGS["ring64"], 3, shares, policy)


def test_who_gives_it_another_salt_has_another_upload(tmp_path: Path) -> None:
    """To make its file fit again a party has to change the identity, which others see."""
    shares, batch = tmp_path / "shares", one(tmp_path / "shares")
    path = shares / "party-0" / f"{batch}.share"
    first, _, following = path.read_bytes().partition(b"\n")
    header, following = json.loads(first), bytes(16) + following[16:]
    header["commitments"][0] = hashlib.sha256(b"fairshares:share:2:commitment\n" + following).hexdigest()
    header["batch"] = identity(header)
    path.unlink()
    path.with_name(f"{header['batch']}.share").write_bytes(line(header).encode() + b"\n" + following)
    reports = [uploads_at(i, shares / f"party-{i}") for i in range(3)]
    assert set(reports[0].sound).isdisjoint(reports[1].sound) and reports[1].sound == reports[2].sound


def test_an_aggregate_of_other_policies_is_of_other_uploads(tmp_path: Path) -> None:
    one(tmp_path, POLICIES[0])
    paths = [tmp_path / f"{i}.aggregate" for i in range(3)]
    for i, path in enumerate(paths):
        aggregate(i, tmp_path / f"party-{i}", path)
    paths[1].write_bytes(paths[1].read_bytes().replace(b'"epsilon": "3"', b'"epsilon": "9"'))
    with pytest.raises(ShareError, match="Party 1 has other uploads than party 0"):
        check_aggregates(paths)


def test_no_digest_of_a_payload_or_a_sum_leaves_a_host(tmp_path: Path) -> None:
    """Of what is sent on, all that looks like a digest is one of what is public, or of a salted payload.

    A payload's or a sum's own would be a test for guesses: what others know leaves a client's count.
    """
    batches = sorted(one(tmp_path / "shares", policy) for policy in (None, POLICIES[0]))
    for i in range(3):
        own = tmp_path / "shares" / f"party-{i}"
        aggregate(i, own, path := tmp_path / f"{i}.aggregate")
        head = b"".join(path.read_bytes().splitlines(keepends=True)[:2]).decode()
        sent_on = head + json.dumps(uploads_at(i, own).to_json())
        headers = [json.loads((own / f"{batch}.share").read_bytes().partition(b"\n")[0]) for batch in batches]
        listed = read_uploads(path)
        public = {
            *(identity(header) for header in headers),
            *(hashlib.sha256("\n".join(order).encode()).hexdigest() for order in (listed, listed[::-1])),
            *(
                hashlib.sha256(json.dumps(header_of["record_domain"], sort_keys=True).encode()).hexdigest()
                for header_of in headers
            ),
        }
        words = {word for word in sent_on.replace(":", '"').replace(" ", '"').split('"') if len(word) > 20}
        digests = {word for word in words if set(word) <= set("0123456789abcdef")}
        assert digests == public - {hashlib.sha256("\n".join(listed[::-1]).encode()).hexdigest()}
        for header in headers:
            following = (own / f"{header['batch']}.share").read_bytes().partition(b"\n")[2]
            assert hashlib.sha256(following[16:]).hexdigest() not in header["commitments"]
