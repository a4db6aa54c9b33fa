"""Share files: what is in them, who may read them, and that no damaged, missing or foreign one is used."""

import errno
import json
import os
import re
import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import RecordsError, ShareError
from harness.inputs.encoding import columns_of, count_columns
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.inputs.rings import FIELD, RING, RINGS, Ring
from harness.inputs.shares.file_format import check_aggregates, extract_values, read_header
from harness.inputs.shares.party import aggregate
from protocols.spec import PRODUCT, SPLIT, InputForm
from tests.support.rings import to_integers
from tests.support.sharing import share

DECLARED = RecordDomain(("a", "b", "c"), ("0", "1"), 90_000)
FORMS = pytest.mark.parametrize("form", [SPLIT, PRODUCT], ids=lambda form: form.name)
EVERY_DOMAIN = pytest.mark.parametrize("domain", RINGS.values(), ids=RINGS)

TAG = b"fairshares:share:2:commitment\n"

# Counts that would be recognised in a message, or in a file that should not hold them.
CELLS = [[70001, 3], [0, 0], [81234, 5]]


def clients(*rows: tuple[str, int, list[int]], declared: RecordDomain = DECLARED) -> ClientRecords:
    """Make records of clients: name, group, and how many of each label."""
    entries = [
        (k, g, y) for k, (_, g, counts) in enumerate(rows) for y, n in enumerate(counts) for _ in range(n)
    ]
    client, group, label = np.array(entries, dtype=np.int64).T
    return ClientRecords(declared, np.array([name for name, _, _ in rows]), client, group, label)


@pytest.fixture(scope="module")
def two() -> ClientRecords:
    return clients(("k", 0, CELLS[0]), ("l", 2, CELLS[2]))


@pytest.fixture(scope="module")
def one() -> ClientRecords:
    return clients(("m", 1, [2, 4]))


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def edit(path: Path, **changes: Any) -> None:
    """Rewrite a share file's header; a change to None takes the key away."""
    header, _, payload = path.read_bytes().partition(b"\n")
    header_fields = {**json.loads(header), **changes}
    kept = {key: value for key, value in header_fields.items() if value is not None}
    path.write_bytes(json.dumps(kept).encode() + b"\n" + payload)


def test_modes_do_not_depend_on_the_umask(two: ClientRecords, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        batch = share(two, SPLIT, RING, 2, tmp_path)
        summary = tmp_path / "aggregate"
        aggregate(0, tmp_path / "party-0", summary)
        extract_values(summary, tmp_path / "values")
    finally:
        os.umask(before)
    share_file = tmp_path / "party-0" / f"{batch}.share"
    assert share_file.parent.stat().st_mode & 0o777 == 0o700
    for path in (share_file, summary, tmp_path / "values"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_header_is_public_and_complete(two: ClientRecords, tmp_path: Path) -> None:
    batch = share(two, SPLIT, FIELD, 3, tmp_path)
    files = [(tmp_path / f"party-{i}" / f"{batch}.share").read_bytes() for i in range(3)]
    payloads = [data.partition(b"\n")[2] for data in files]
    for i, data in enumerate(files):
        first_line = data.partition(b"\n")[0]
        assert json.loads(first_line) == {
            "arithmetic": "field127",
            "batch": batch,
            "batches": 1,
            "clients": 2,
            "content": "seed" if i < 2 else "values",
            "form": "split",
            "kind": "batch",
            "parties": 3,
            "party": i,
            "records": 0,
            "record_domain": {"groups": ["a", "b", "c"], "labels": ["0", "1"], "max_count": 90_000},
            "commitments": [sha256(TAG + payload).hexdigest() for payload in payloads],
            "policy": None,
            "schema": 2,
        }


@FORMS
def test_columns_of_each_form(two: ClientRecords, form: InputForm) -> None:
    columns = columns_of(two, form)
    if form is SPLIT:
        assert count_columns(DECLARED, "split") == 6
        assert columns.tolist() == [[70001, 0], [3, 0], [0, 0], [0, 0], [0, 81234], [0, 5]]
    else:
        assert count_columns(DECLARED, "product") == 4
        assert columns.tolist() == [[1, 0], [0, 0], [70001, 81234], [3, 5]]


def test_a_client_with_two_groups_needs_the_split_form(tmp_path: Path) -> None:
    mixed = ClientRecords(DECLARED, np.array(["k", "l"]), *np.array([[0, 1, 1], [0, 1, 2], [1, 1, 1]]))
    with pytest.raises(
        RecordsError, match=r"^Client 'l' has records of two groups, .*; use --input-form split\.$"
    ):
        share(mixed, PRODUCT, RING, 2, tmp_path / "product")
    assert not (tmp_path / "product").exists()
    share(mixed, SPLIT, RING, 2, tmp_path / "split")


FULL = OSError(errno.ENOSPC, "No space left on device")


def failing_at(call: int, what: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    """Return `what`, but for its call of that number (from 0), which raises."""
    calls = iter(range(1000))

    def maybe(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            raise error
        return what(*args, **kwargs)

    return maybe


@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("step", ["fsync", "rename"])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=repr)
def test_all_files_or_none(
    two: ClientRecords,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: int,
    step: str,
    error: BaseException,
) -> None:
    """The disk fills up, or the user gives up, at each of the steps; an earlier upload stays."""
    earlier = share(two, SPLIT, RING, 3, tmp_path)
    before = files(tmp_path)
    where: Any = os if step == "fsync" else Path
    monkeypatch.setattr(where, step, failing_at(call, getattr(where, step), error))
    expected = ShareError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        share(two, SPLIT, RING, 3, tmp_path)
    assert files(tmp_path) == before == [f"party-{i}/{earlier}.share" for i in range(3)]


@FORMS
@EVERY_DOMAIN
def test_aggregates_of_several_uploads_open_to_the_totals(
    two: ClientRecords, one: ClientRecords, form: InputForm, domain: Ring, tmp_path: Path
) -> None:
    for records in (two, one):
        share(records, form, domain, 3, tmp_path)
    summaries = [aggregate(i, tmp_path / f"party-{i}", tmp_path / f"{i}.aggregate") for i in range(3)]
    assert check_aggregates([tmp_path / f"{i}.aggregate" for i in range(3)]) == summaries[0]
    assert (summaries[0].clients, summaries[0].batches, summaries[0].kind) == (3, 2, "aggregate")
    shares = [
        domain.from_bytes(extract_values(tmp_path / f"{i}.aggregate", tmp_path / f"{i}.values").read_bytes())
        for i in range(3)
    ]
    opened = to_integers(domain, domain.add(domain.add(shares[0], shares[1]), shares[2]))
    if form is SPLIT:
        assert opened == [70001, 3, 2, 4, 81234, 5]
    else:
        blocks = [columns_of(records, form) for records in (two, one)]
        assert opened in [np.hstack(blocks).ravel().tolist(), np.hstack(blocks[::-1]).ravel().tolist()]


def test_uploads_stay_in_step_whatever_their_files_are_called(
    two: ClientRecords, one: ClientRecords, tmp_path: Path
) -> None:
    """Product form: party 1 has renamed what it got, so that its files sort the other way round."""
    for records in (two, one):
        share(records, PRODUCT, RING, 2, tmp_path)
    for name, path in zip("zy", sorted((tmp_path / "party-1").iterdir()), strict=True):
        path.rename(path.with_name(f"{name}.share"))
    paths = [tmp_path / f"{i}.aggregate" for i in range(2)]
    for i, path in enumerate(paths):
        aggregate(i, tmp_path / f"party-{i}", path)
    assert check_aggregates(paths).clients == 3


CHANGED = r"was changed since it was shared; have it sent again"
NOT_A_SHARE = "is not a share file of this version: .*; have it sent again, remove it"
Damage = Callable[[Path], object]


def turn_into_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Damage, str]] = {
    "empty": (lambda p: p.write_bytes(b""), NOT_A_SHARE),
    "text": (lambda p: p.write_text("client_id,group,label\n"), NOT_A_SHARE),
    "a list": (lambda p: p.write_text("[1, 2]\n"), NOT_A_SHARE),
    "deep": (lambda p: p.write_text("[" * 500_000), NOT_A_SHARE),
    "not UTF-8": (lambda p: p.write_bytes(b"\xff" + p.read_bytes()), NOT_A_SHARE),
    "earlier version": (lambda p: edit(p, schema=1), NOT_A_SHARE),
    "other version": (lambda p: edit(p, schema=3), NOT_A_SHARE),
    "unknown key": (lambda p: edit(p, more=1), NOT_A_SHARE),
    "key missing": (lambda p: edit(p, clients=None), NOT_A_SHARE),
    "unknown domain": (lambda p: edit(p, arithmetic="ring32"), NOT_A_SHARE),
    "domain is a list": (lambda p: edit(p, arithmetic=["ring64"]), NOT_A_SHARE),
    "unknown form": (lambda p: edit(p, form="records"), NOT_A_SHARE),
    "unknown content": (lambda p: edit(p, content="zeros"), NOT_A_SHARE),
    "no clients": (lambda p: edit(p, clients=0), NOT_A_SHARE),
    "fewer than no clients": (lambda p: edit(p, clients=-2), NOT_A_SHARE),
    "half a client": (lambda p: edit(p, clients=1.5), NOT_A_SHARE),
    "infinitely many clients": (lambda p: edit(p, clients=float("inf")), NOT_A_SHARE),
    "clients in words": (lambda p: edit(p, clients="2"), NOT_A_SHARE),
    "party in words": (lambda p: edit(p, party="0"), NOT_A_SHARE),
    "two identities in one": (lambda p: edit(p, batch="a\nb"), NOT_A_SHARE),
    "a number for an identity": (lambda p: edit(p, batch=7), NOT_A_SHARE),
    "one group": (lambda p: edit(p, record_domain={"groups": ["a"], "labels": ["0", "1"]}), NOT_A_SHARE),
    "no groups": (lambda p: edit(p, record_domain={}), NOT_A_SHARE),
    "cut off": (lambda p: p.write_bytes(p.read_bytes()[:-1]), r"is damaged: .*; have it sent again"),
    "too long": (lambda p: p.write_bytes(p.read_bytes() + b"\0"), r"is damaged: 49 bytes where 48 belong"),
    "more clients than values": (lambda p: edit(p, clients=3, content="values"), "48 bytes where 160 belong"),
    "other party's": (lambda p: edit(p, party=1), "is not what a client shared for party 0; have it sent"),
    "an aggregate": (lambda p: edit(p, kind="aggregate"), "is not what a client shared for party 0"),
    "another payload": (lambda p: p.write_bytes(p.read_bytes()[:-1] + b"?"), CHANGED),
    "another identity": (lambda p: edit(p, batch="0" * 64), CHANGED),
    "another header": (lambda p: edit(p, records=1), CHANGED),
    "no commitment": (lambda p: edit(p, commitments=[]), NOT_A_SHARE),
    "unreadable": (turn_into_directory, r"Cannot read .*: it is no file"),
    "more clients than there are": (lambda p: edit(p, clients=10**15), "60{15} values, too many for one"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_upload_is_refused(two: ClientRecords, tmp_path: Path, damage: str) -> None:
    batch = share(two, SPLIT, RING, 2, tmp_path)
    change, message = DAMAGES[damage]
    change(tmp_path / "party-0" / f"{batch}.share")
    with pytest.raises(ShareError, match=message) as error:
        aggregate(0, tmp_path / "party-0", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert_silent(error.value, tmp_path)


def assert_silent(error: ShareError, directory: Path) -> None:
    """Assert that a message is short and holds no count, no seed and no share."""
    text = re.sub(r"[0-9a-f]{64}\.share", "", str(error).replace(str(directory), ""))
    assert not re.search(r"7000\d|8123\d|\d{17}|[0-9a-f]{33}", text)
    assert not re.search(r"Error|Traceback|Header\(", text)
    assert len(re.findall(r"\.(?: |$)", text)) in (1, 2)


@pytest.mark.parametrize("other", ["domain", "form", "parties", "arithmetic"])
def test_uploads_that_differ_are_refused(two: ClientRecords, tmp_path: Path, other: str) -> None:
    share(two, SPLIT, RING, 2, tmp_path)
    wider = clients(("n", 0, [1, 1]), declared=RecordDomain(("a", "b", "z"), ("0", "1"), 90_000))
    share(
        wider if other == "domain" else two,
        PRODUCT if other == "form" else SPLIT,
        FIELD if other == "arithmetic" else RING,
        3 if other == "parties" else 2,
        tmp_path,
    )
    with pytest.raises(
        ShareError, match=r"differ in domain, input form or parties; .* leave such uploads out"
    ):
        aggregate(0, tmp_path / "party-0", tmp_path / "out")


def test_no_upload_and_the_same_upload_twice(two: ClientRecords, tmp_path: Path) -> None:
    for missing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ShareError, match=r"holds no share files \(\*\.share\); run `share` first"):
            aggregate(0, missing, tmp_path / "out")
    batch = share(two, SPLIT, RING, 2, tmp_path)
    file = tmp_path / "party-0" / f"{batch}.share"
    (tmp_path / "party-0" / "copy.share").write_bytes(file.read_bytes())
    with pytest.raises(ShareError, match="is the same upload as another file there; remove one"):
        aggregate(0, tmp_path / "party-0", tmp_path / "out")


def test_uploads_that_could_overflow_together_are_refused(tmp_path: Path) -> None:
    """Each client alone is below 2^62; all together they are not."""
    declared = RecordDomain(("a", "b"), ("0", "1"), 2**61)
    for name in "kl":
        share(clients((name, 0, [1, 2]), declared=declared), SPLIT, RING, 2, tmp_path)
    with pytest.raises(
        ShareError, match=r"2 clients .* could overflow; all clients must declare a --max-count below"
    ):
        aggregate(0, tmp_path / "party-0", tmp_path / "out")


@pytest.fixture
def aggregates(two: ClientRecords, one: ClientRecords, tmp_path: Path) -> list[Path]:
    """Two uploads, aggregated by three parties; party 2 can be changed."""
    for records in (two, one):
        share(records, SPLIT, RING, 3, tmp_path)
    paths = [tmp_path / f"{i}.aggregate" for i in range(3)]
    for i, path in enumerate(paths):
        aggregate(i, tmp_path / f"party-{i}", path)
    return paths


MISMATCHES: dict[str, tuple[Callable[[list[Path]], object], str]] = {
    "swapped": (lambda p: p.reverse(), "is not the aggregate of party 0 of 3"),
    "one missing": (lambda p: p.pop(), "is not the aggregate of party 0 of 2"),
    "a batch": (lambda p: edit(p[2], kind="batch", commitments=["0"] * 3), "is not the aggregate of party 2"),
    "other party": (lambda p: edit(p[2], party=1), "is not the aggregate of party 2 of 3"),
    "fewer uploads": (lambda p: edit(p[2], batches=1, clients=2), "Party 2 has 1 uploads of 2 clients"),
    "other clients": (lambda p: edit(p[2], clients=4), "of 4 clients, party 0 has 2 of 3"),
    "other uploads": (lambda p: edit(p[2], batch="0" * 64), "Party 2 has other uploads than party 0"),
    "other domain": (lambda p: edit(p[1], arithmetic="field127"), "Party 1 has other uploads than party 0"),
    "other form": (lambda p: edit(p[1], form="product"), "Party 1 has other uploads than party 0"),
}  # fmt: skip


@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_aggregates_that_do_not_match_name_the_party(aggregates: list[Path], mismatch: str) -> None:
    change, message = MISMATCHES[mismatch]
    change(aggregates)
    with pytest.raises(ShareError, match=message) as error:
        check_aggregates(aggregates)
    assert_silent(error.value, aggregates[0].parent)


def test_a_damaged_aggregate_is_not_fed_into_a_run(aggregates: list[Path]) -> None:
    aggregates[0].write_bytes(aggregates[0].read_bytes()[:-8])
    with pytest.raises(ShareError, match="is damaged: it has 40 bytes of values"):
        extract_values(aggregates[0], aggregates[0].with_suffix(".values"))
    assert not aggregates[0].with_suffix(".values").exists()


def test_a_million_clients(tmp_path: Path) -> None:
    """One upload that stands for 10^6 clients takes some hundred MB, at client and party."""
    m = 10**6
    index = np.arange(m)
    records = ClientRecords(
        RecordDomain(("a", "b"), ("0", "1"), 5), index.astype(str), index, index % 2, index % 3 // 2
    )
    tracemalloc.start()
    share(records, SPLIT, RING, 3, tmp_path)
    aggregate(0, tmp_path / "party-0", tmp_path / "0.aggregate")
    aggregate(2, tmp_path / "party-2", tmp_path / "2.aggregate")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500e6
    assert read_header(tmp_path / "2.aggregate").clients == m
