"""Garbage costs no more than uploads do, is counted, and takes nothing from anybody's upload."""

import hashlib
import io
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from unittest.mock import patch

import numpy as np
import pytest
from distributed import LocalCluster
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from fairshares.harness.pipeline.cluster import on_cluster
from fairshares.harness.system.stores import File
from fairshares.harness.uploads import counting, envelope_files, task as task_module
from fairshares.harness.uploads.client import seal_upload
from fairshares.harness.uploads.counting import CountedPart, Opener, UploadCount, _Later
from fairshares.harness.uploads.envelope import HEAD_BYTES
from fairshares.harness.uploads.envelope_files import LeftOut
from fairshares.harness.uploads.identities import Identities
from fairshares.harness.uploads.lists import common_uploads
from fairshares.harness.uploads.opening import open_envelope
from fairshares.harness.uploads.reasons import (
    CHANGED,
    OTHER_KEY,
    OTHER_TASK,
    TOO_LARGE,
    UNCOVERED,
    UNOPENED,
    UNREADABLE,
    WRONG_SIZE,
)
from fairshares.harness.uploads.task import Task
from tests.support.envelopes import FileOfBytes, counts, made_task, opener, resealed, revealed, upload
from tests.support.servers import HOST

PARTIES = 3


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return made_task(tmp_path)


def sealed(task: Task, number: int = 0) -> tuple[bytes, list[bytes]]:
    """Return the identity of upload `number`, which counts 2^number, and its envelopes."""
    identity, envelopes = seal_upload(task, np.array([1 << number, 0, 0, 0]), None)
    return bytes.fromhex(identity), envelopes


def poisoned(envelope: bytes, identity: bytes | None = None) -> bytes:
    """Return an envelope that nothing opens, and that claims this or a made-up identity."""
    claimed = os.urandom(32) if identity is None else identity
    return envelope[:36] + claimed + envelope[68:HEAD_BYTES] + os.urandom(len(envelope) - HEAD_BYTES)


class Work:
    """What a count did: envelopes that it opened, merges of parts, and batches."""

    def __init__(self) -> None:
        self.opened = self.merged = self.batches = 0

    def counted(self, count: UploadCount, place: Path) -> UploadCount:
        """Count a place's uploads, and the work."""
        together, call = Opener.together, Opener.__call__

        def opening(*arguments: Any) -> Any:
            self.opened += 1
            return open_envelope(*arguments)

        def merging(own: Opener, *parts: CountedPart) -> CountedPart:
            self.merged += 1
            return together(own, *parts)

        def calling(own: Opener, *arguments: Any) -> Any:
            self.batches += 1
            return call(own, *arguments)

        with (
            patch.object(counting, "open_envelope", opening),
            patch.object(Opener, "together", merging),
            patch.object(Opener, "__call__", calling),
        ):
            count.add(place, 0)
        return count


@pytest.mark.parametrize("victim", ["first", "last", "absent"])
@pytest.mark.parametrize("files", [1, 400])
def test_repeated_identities_are_no_more_work_than_distinct_ones(
    victim: str, files: int, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is opened once at most, in as many batches, and merges nothing."""
    monkeypatch.setattr(counting, "_AT_ONCE", 8)
    identity, (envelope, *_) = sealed(task)
    done = {}
    for kind, claimed in (("distinct", None), ("repeated", identity)):
        bad = [poisoned(envelope, claimed) for _ in range(400)]
        all_of_them = {"first": [envelope, *bad], "last": [*bad, envelope], "absent": bad}[victim]
        work, count = Work(), UploadCount(opener(task, 0, tmp_path))
        per_file = -(-len(all_of_them) // files)
        contents = [b"".join(all_of_them[i : i + per_file]) for i in range(0, len(all_of_them), per_file)]
        with served(contents):
            work.counted(count, tmp_path)
        assert [*count.identities] == ([identity.hex()] if victim != "absent" else [])
        assert work.opened <= 401 and work.merged <= 2 and work.batches <= 2 * (401 // 8) + 2
        done[kind] = work
    assert done["repeated"].opened <= done["distinct"].opened
    assert done["repeated"].merged <= done["distinct"].merged


@contextmanager
def served(contents: Sequence[bytes], read: Callable[[bytes], BinaryIO] = io.BytesIO) -> Iterator[None]:
    """Have files with these contents be all that a place holds, in this order."""

    def files_in(place: object, suffix: str, *, fetch: bool = True) -> Iterator[File]:
        for number, content in enumerate(contents):
            yield FileOfBytes(f"{number}{suffix}", len(content), content, read)

    with patch.object(envelope_files, "files_in", files_in):
        yield


class Watched(io.BytesIO):
    """A file that adds up the bytes that are read of it."""

    bytes_read = 0

    def read(self, size: int | None = -1) -> bytes:
        part = super().read(size)
        Watched.bytes_read += len(part)
        return part


def bytes_read(task: Task, place: Path, content: bytes) -> tuple[int, UploadCount]:
    """Count a file; return how many bytes of it were read."""
    Watched.bytes_read, count = 0, UploadCount(opener(task, 0, place))
    with served([content], Watched):
        count.add(place, 0)
    return Watched.bytes_read, count


def test_nothing_is_read_behind_a_head_of_something_else(task: Task, tmp_path: Path) -> None:
    _, (envelope, other, _) = sealed(task)
    size, many = task.envelope_bytes(0), 4 * 2**20 // task.envelope_bytes(0)
    for content, reason in (
        (many * bytes(size), UNREADABLE),
        (many * (envelope[:4] + bytes(size - 4)), OTHER_TASK),
        (many * (other[:HEAD_BYTES] + bytes(size - HEAD_BYTES)), OTHER_KEY),
    ):
        read, count = bytes_read(task, tmp_path, content)
        assert read == many * HEAD_BYTES
        assert {why: len(names) for why, names in count.unsound.items()} == {reason: 1}


def test_nothing_is_read_of_a_file_that_is_too_large(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "MOST_ENVELOPES", 3)
    envelopes = [sealed(task, number)[1][0] for number in range(4)]
    read, count = bytes_read(task, tmp_path, b"".join(envelopes[:3]))
    assert len(count.identities) == 3 and count.unsound == {} and read
    for content in (b"".join(envelopes), b"".join(envelopes[:3]) + b"\0"):
        read, count = bytes_read(task, tmp_path, content)
        assert len(count.identities) == read == 0
        assert {why: len(names) for why, names in count.unsound.items()} == {TOO_LARGE: 1}


def test_a_file_that_grows_or_is_cut_while_it_is_read(task: Task, tmp_path: Path) -> None:
    """No more of it is read than was listed, and what is missing is said."""
    envelopes = [sealed(task, number)[1][0] for number in range(3)]
    whole = b"".join(envelopes[:2])
    for now, sound, reasons in (
        (b"".join(envelopes), 2, {}),
        (whole[:-1], 1, {WRONG_SIZE: 1}),
        (envelopes[0] + envelopes[1][:9], 1, {WRONG_SIZE: 1}),
        (envelopes[0], 1, {WRONG_SIZE: 1}),
    ):
        count = UploadCount(opener(task, 0, tmp_path))
        with served([whole], lambda _, now=now: io.BytesIO(now)):  # type: ignore[misc]
            count.add(tmp_path, 0)
        assert len(count.identities) == sound
        assert {why: len(names) for why, names in count.unsound.items()} == reasons


def test_batches_of_large_envelopes_are_small(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_BYTES_AT_ONCE", 3 * task.envelope_bytes(0))
    work = Work()
    with served([b"".join(sealed(task, number)[1][0] for number in range(7))]):
        count = work.counted(UploadCount(opener(task, 0, tmp_path)), tmp_path)
    assert len(count.identities) == 7 and work.batches == 3


def test_garbage_files_are_counted_not_their_kinds(task: Task, tmp_path: Path) -> None:
    size, own = task.envelope_bytes(0), tmp_path / "shares" / "party-0"
    identity = bytes.fromhex(upload(task, [1, 0, 0, 0], tmp_path / "shares"))
    envelope = (own / f"{identity.hex()}.share").read_bytes()
    absent = os.urandom(32)
    kinds = {
        "zeros": bytes(size),
        "empty": b"",
        "text": b"client_id,group,label\n",
        "poison": poisoned(envelope, absent),
        "task": envelope[:4] + bytes(size - 4),
        "victim's": poisoned(envelope, identity),
        "replay": envelope,
    }
    for kind, content in kinds.items():
        for number in range(50):
            (own / f"{kind} {number}.share").write_bytes(content)
    made = counts(task, tmp_path)
    assert {why: len(names) for why, names in made[0].unsound.items()} == {
        UNREADABLE: 50,
        WRONG_SIZE: 100,
        UNOPENED: 50,
        OTHER_TASK: 50,
    }
    assert made[0].repeated == 100
    agreement = common_uploads([count.report() for count in made])
    assert agreement.accepted == {identity.hex()}
    assert agreement.left_out == {UNREADABLE: 50, WRONG_SIZE: 100, UNOPENED: 50, OTHER_TASK: 50}


def test_an_upload_that_its_client_sent_again_is_left_out_once() -> None:
    """Files of an upload that a policy excludes are one upload, whatever else claims its identity."""
    left_out, name = LeftOut(), bytes([7] * 32)
    for number in range(3):
        left_out.add_envelope(UNOPENED, name, bytes([number] * 32))
        left_out.add_envelope(UNCOVERED, name, bytes([number] * 32))
    listed = left_out.listed(Identities.from_names([]))
    assert set(listed[UNCOVERED]) == {name.hex()}
    assert set(listed[UNOPENED]) == {(bytes([number] * 32)).hex() for number in range(3)}


# The rule, with any interleaving of honest uploads and garbage at each party, against a naive second
# implementation, which knows what each envelope is from who made it.


@lru_cache(maxsize=1)
def made() -> tuple[TemporaryDirectory[str], Path, Task]:
    temporary = TemporaryDirectory()
    return temporary, Path(temporary.name), made_task(Path(temporary.name))


KINDS = (
    *("replay", "poison", "poison of nobody", "zeros", "other task", "other key", "changed"),
    *("cut", "extended", "zeros cut"),
)
HONEST = 4
Chunk = tuple[str, bytes, bytes]  # why it is left out, the identity that it claims, and its bytes


def chunk(kind: str, own: bytes, name: bytes, broken: tuple[bytes, bytes]) -> list[Chunk]:
    """Return what a kind puts into one file. Args: own, name: a victim's envelope and identity."""
    size = len(own)
    made_of: dict[str, list[Chunk]] = {
        "replay": [("", name, own)],
        "poison": [(UNOPENED, name, poisoned(own, name))],
        "poison of nobody": [(UNOPENED, bytes([9] * 32), poisoned(own, bytes([9] * 32)))],
        "zeros": [(UNREADABLE, b"", bytes(size))],
        "other task": [(OTHER_TASK, name, own[:4] + bytes(32) + own[36:])],
        "other key": [(OTHER_KEY, name, own[:68] + bytes(8) + own[76:])],
        "changed": [(CHANGED, broken[0], broken[1])],
        "cut": [(WRONG_SIZE, b"", own[:-1])],
        "extended": [("", name, own), (WRONG_SIZE, b"", b"\0")],
        "zeros cut": [(UNREADABLE, b"", bytes(size)), (WRONG_SIZE, b"", bytes(5))],
    }
    return made_of[kind]


def expected(files: Sequence[Sequence[Chunk]], honest: set[bytes]) -> tuple[dict[str, int], int]:
    """Return by reason how many files are left out, and how many envelopes repeat counted uploads."""
    claims: dict[bytes, set[tuple[str, int]]] = defaultdict(set)
    whole: dict[int, str] = {}
    seen: Counter[bytes] = Counter()
    for number, chunks in enumerate(files):
        for reason, name, _ in chunks:
            if name in honest:
                seen[name] += 1
            elif name:
                claims[name].add((reason, number))
            elif reason:
                whole[number] = min(whole.get(number, reason), reason)
    numbers: Counter[str] = Counter(whole.values())
    for files_by_reason in claims.values():
        numbers.update(reason for reason, _ in files_by_reason)
    return dict(numbers), sum(seen.values()) - len(seen)


@dataclass(frozen=True)
class Late:
    """Opens batches only when their results are asked for, with so many of them waiting."""

    most_waiting: int
    opener: Opener | None = None

    @contextmanager
    def opening(self, opener: Opener) -> Iterator["Late"]:
        yield replace(self, opener=opener)

    def start(self, envelopes: bytes, apart: bool) -> _Later:
        assert self.opener is not None
        return _Later(self.opener, envelopes, apart)


SCHEDULES = settings(deadline=None, suppress_health_check=list(HealthCheck))


@given(st.data())
@settings(SCHEDULES, max_examples=40, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
def test_each_honest_client_counts_once_whatever_claims_to_be_it(data: st.DataObject) -> None:
    check_interleaving(data)


@given(st.data())
@settings(SCHEDULES, max_examples=3000)
def test_each_honest_client_counts_once_in_many_interleavings(data: st.DataObject) -> None:
    check_interleaving(data)


def check_interleaving(data: st.DataObject) -> None:
    """Draw what each party's files hold, and compare all parties' counts with the naive rule."""
    _, place, task = made()
    uploads = [sealed(task, number) for number in range(HONEST)]
    honest, (broken, sent) = {name for name, _ in uploads}, sealed(task, 40)
    reports, numbers = [], []
    batch, waiting = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 3))
    held: list[list[bytes]] = []
    with patch.object(counting, "_AT_ONCE", batch), patch.object(counting, "opening_here", Late):
        for party in range(PARTIES):
            changed = broken, resealed(task, party, sent[party], place / f"keys-{party}", -1)
            pieces = [[("", name, envelopes[party])] for name, envelopes in uploads]
            for kind, victim in data.draw(
                st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, HONEST - 1)), max_size=25)
            ):
                name, envelopes = uploads[victim]
                pieces.append(chunk(kind, envelopes[party], name, changed))
            files: list[list[Chunk]] = []
            for piece in data.draw(st.permutations(pieces)):
                whole = all(len(content) == len(uploads[0][1][party]) for _, _, content in piece)
                if files and whole and data.draw(st.booleans()):
                    files[-1] = piece + files[-1]  # before the end of that file, which may be cut
                else:
                    files.append(piece)
            held.append([b"".join(content for _, _, content in file) for file in files])
            with TemporaryDirectory() as temporary, served(held[-1]):
                checkpoint = Path(temporary) / "partial"
                with patch.object(counting, "_CHECKPOINT_S", data.draw(st.sampled_from([0.0, 1e9]))):
                    count = UploadCount(opener(task, party, place), None, checkpoint)
                    count.add(place, waiting)
                again = UploadCount(opener(task, party, place), None, checkpoint)
                again.add(place, waiting)
            assert {bytes.fromhex(name) for name in count.identities} == honest
            assert not count._claims and not again.gone
            left_out, repeated = expected(files, honest)
            for one in (count, again):
                assert {why: len(names) for why, names in one.unsound.items()} == left_out
                assert one.repeated == repeated
            assert np.array_equal(count.values, again.values)
            reports.append(count.report())
            numbers.append(count)
        agreement = common_uploads(reports)
        assert agreement.accepted == {name.hex() for name in honest}
        assert revealed(task, [count.values for count in numbers]) == [2**HONEST - 1, 0, 0, 0]
        for party, contents in enumerate(held):
            final = UploadCount(opener(task, party, place), agreement.accepted)
            with served(contents):
                final.add(place, waiting)
            assert np.array_equal(final.values, numbers[party].values)


def test_processes_and_a_cluster_count_among_garbage_as_one_process_does(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_AT_ONCE", 4)
    place, chosen = tmp_path / "uploads", random.Random(1)
    place.mkdir()
    uploads = [sealed(task, number) for number in range(12)]
    pieces = [envelopes[0] for _, envelopes in uploads]
    for name, envelopes in uploads:
        pieces += [poisoned(envelopes[0], name) for _ in range(9)] + [envelopes[0]]
    pieces += [bytes(len(pieces[0]))] * 9 + [poisoned(pieces[0]) for _ in range(9)]
    chosen.shuffle(pieces)
    for number in range(0, len(pieces), 7):
        (place / f"{number}.share").write_bytes(b"".join(pieces[number : number + 7]))
    one, two, three = (UploadCount(opener(task, 0, tmp_path)) for _ in range(3))
    one.add(place, 0)
    two.add(place, 2)
    with LocalCluster(2, threads_per_worker=1, dashboard_address=f"{HOST}:0", host=HOST) as cluster:
        three.add(place, opened_by=on_cluster(cluster.scheduler_address))
    assert set(one.identities) == {name.hex() for name, _ in uploads} and one.repeated == 120
    for other in (two, three):
        assert other.identities == one.identities and np.array_equal(other.values, one.values)
        assert other.unsound == one.unsound and other.repeated == one.repeated


def test_a_files_name_is_none_of_its_uploads(task: Task, tmp_path: Path) -> None:
    """Garbage under the name of somebody's upload is listed by that name, which the upload takes from it."""
    identity, (envelope, *_) = sealed(task)
    (tmp_path / f"{identity.hex()}.share").write_bytes(b"garbage")
    count = UploadCount(opener(task, 0, tmp_path))
    count.add(tmp_path)
    assert {why: set(names) for why, names in count.unsound.items()} == {WRONG_SIZE: {identity.hex()}}
    (tmp_path / "other.share").write_bytes(envelope + b"garbage")
    count = UploadCount(opener(task, 0, tmp_path))
    count.add(tmp_path)
    assert {why: set(names) for why, names in count.unsound.items()} == {
        WRONG_SIZE: {identity.hex(), hashlib.sha256(b"other").hexdigest()}
    }
    assert [*count.identities] == [identity.hex()]
