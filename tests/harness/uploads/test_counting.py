"""Parties count every upload that all can open once, none twice and none half, whatever servers and kills do.

Measurements are unique: upload i counts 2^i, so that a sum tells which uploads are in it.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import LocalCluster

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import ShareError
from fairshares.harness.pipeline.cluster import on_cluster
from fairshares.harness.uploads import counting
from fairshares.harness.uploads.aggregates import check_aggregates, extract_values, read_uploads
from fairshares.harness.uploads.client import seal_upload
from fairshares.harness.uploads.counting import (
    Opener,
    RepeatedEnvelope,
    SoundEnvelope,
    UnsoundEnvelope,
    UploadCount,
    kept_count,
)
from fairshares.harness.uploads.envelope import identity_in
from fairshares.harness.uploads.lists import common_uploads, read_lists, write_uploads
from fairshares.harness.uploads.opening import open_envelope
from fairshares.harness.uploads.reasons import OTHER_KEY, UNCOVERED, UNOPENED, UNREADABLE, WRONG_SIZE
from fairshares.harness.uploads.task import Task
from tests.support.envelopes import (
    CAPPED,
    DOMAIN,
    changed,
    counts,
    left_out,
    made_task,
    name_of,
    opener,
    revealed,
    upload,
)
from tests.support.rings import to_integers
from tests.support.running import until
from tests.support.servers import HOST
from tests.support.sharing import allowing
from tests.support.ssh import answers


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return made_task(tmp_path)


def uploaded(task: Task, shares: Path, how_many: int) -> list[str]:
    """Write so many uploads; return their identities."""
    return [upload(task, [1 << i, 0, 1, 0], shares) for i in range(how_many)]


def sums(task: Task, made: list[UploadCount]) -> list[int]:
    """Return what all parties' counts stand for, by column."""
    return revealed(task, [count.values for count in made])


def test_a_run_takes_what_parties_wrote(task: Task, tmp_path: Path) -> None:
    names = uploaded(task, tmp_path / "shares", 6)
    files = [tmp_path / f"party-{party}.aggregate" for party in range(3)]
    made = counts(task, tmp_path)
    headers = [count.write(file, {}) for count, file in zip(made, files, strict=True)]
    assert check_aggregates(files).uploads == 6 and headers[0].policy == task.policy
    assert read_uploads(files[0]) == set(names)
    parts = [
        task.ring.from_bytes(extract_values(file, file.with_suffix(".values")).read_bytes()) for file in files
    ]
    assert revealed(task, parts) == [63, 0, 6, 0]


@pytest.mark.parametrize(("form", "security"), [("split", "ring"), ("split", "shamir"), ("slots", "semi2k")])
def test_uploads_that_other_parties_leave_out_are_taken_from_the_sum(
    form: str, security: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same comes out as by counting anew, and the accepted uploads are opened once."""
    domain = CAPPED if form == "slots" else DOMAIN
    made = made_task(tmp_path, form, security=security, domain=domain)
    columns = made.columns
    names = sorted(upload(made, [i % 2] * columns, tmp_path / "shares") for i in range(7))
    opened: list[bytes] = []

    def noting(task: Task, party: int, keys: Mapping[bytes, bytes], envelope: bytes) -> Any:
        opened.append(identity_in(envelope))
        return open_envelope(task, party, keys, envelope)

    monkeypatch.setattr("fairshares.harness.uploads.counting.open_envelope", noting)
    for party in range(len(made.parties)):
        place = tmp_path / "shares" / f"party-{party}"
        count = UploadCount(opener(made, party, tmp_path))
        count.add(place)
        accepted = names[:2] + names[3:]
        anew = UploadCount(opener(made, party, tmp_path), accepted)
        anew.add(place)
        opened.clear()
        kept = count.kept(accepted, place)
        assert kept is not None
        assert [name.hex() for name in opened] == ([names[2]] if form == "split" else [])
        assert [*kept.identities] == [*anew.identities] == accepted
        assert np.array_equal(kept.values, anew.values) and kept.policies == anew.policies
        if form == "split":
            assert count.kept(names[:3], place) is None  # as it is cheaper to count these anew
            (place / f"{names[2]}.share").unlink()
            assert count.kept(accepted, place) is None


def test_what_was_listed_is_added_up_without_being_opened_again(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless an upload is missing by now, or the policy is another; nothing opened is in the kept file."""
    names = sorted(uploaded(task, tmp_path / "shares", 7))
    place, kept = tmp_path / "shares" / "party-2", tmp_path / "kept.count"
    own = opener(task, 2, tmp_path)
    listed = UploadCount(own)
    listed.add(place)
    listed.keep(kept)
    assert [*listed.identities] == names
    values = listed.values
    assert task.ring.to_bytes(values) not in kept.read_bytes()
    opened: list[bytes] = []

    def noting(task: Task, party: int, keys: Mapping[bytes, bytes], envelope: bytes) -> Any:
        opened.append(identity_in(envelope))
        return open_envelope(task, party, keys, envelope)

    monkeypatch.setattr("fairshares.harness.uploads.counting.open_envelope", noting)
    for accepted, again in ((names, []), (names[1:], [names[0]])):
        opened.clear()
        count = kept_count(own, place, kept, accepted)
        assert count is not None and [*count.identities] == accepted
        assert [name.hex() for name in opened] == again
        anew = UploadCount(own, accepted)
        anew.add(place)
        assert np.array_equal(count.values, anew.values)
    assert kept_count(replace(own, policy=task.allowed), place, kept, names) is None
    assert kept_count(own, place, tmp_path / "none", names) is None
    assert kept_count(own, place, kept, [*names, "0" * 64]) is None
    (place / f"{names[3]}.share").unlink()
    assert kept_count(own, place, kept, names) is None
    assert kept_count(own, place, kept, names[4:]) is None  # as it cannot be taken out of the sum
    rest = UploadCount(own)
    rest.add(place)
    rest.keep(kept)
    made = kept_count(own, place, kept, rest.identities)
    assert made is not None
    made.write(tmp_path / "party-2.aggregate", {})
    assert not kept.exists()


def test_rows_stand_in_the_order_of_identities(tmp_path: Path) -> None:
    task = made_task(tmp_path, "slots", domain=CAPPED)
    rows = {upload(task, [i + 1, 0, i], tmp_path / "shares"): [i + 1, 0, i] for i in range(4)}
    files = [tmp_path / f"party-{party}.aggregate" for party in range(3)]
    for count, file in zip(counts(task, tmp_path), files, strict=True):
        count.write(file, {})
    parts = [
        task.ring.from_bytes(extract_values(file, file.with_suffix(".values")).read_bytes()) for file in files
    ]
    total = task.ring.total(np.stack(parts, axis=1))
    table = np.reshape(to_integers(task.ring, total), (3, 4)).T.tolist()
    assert table == [rows[identity] for identity in sorted(rows)]


def test_processes_count_as_one_does(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded(task, tmp_path / "shares", 12)
    monkeypatch.setattr(counting, "_AT_ONCE", 2)
    one, two = (UploadCount(opener(task, 0, tmp_path)) for _ in range(2))
    for count, processes in ((one, 0), (two, 2)):
        count.add(tmp_path / "shares" / "party-0", processes)
    assert one.identities == two.identities and len(one.identities) == 12
    assert np.array_equal(one.values, two.values)


class Dying(Opener):
    """Opens a batch in a process that is killed, as where memory ends."""

    def __call__(self, envelopes: bytes, apart: bool = False) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_said(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is counted twice or half: the count goes on from its checkpoint."""
    uploaded(task, tmp_path / "shares", 12)
    monkeypatch.setattr(counting, "_AT_ONCE", 2)
    monkeypatch.setattr(counting, "_CHECKPOINT_S", 0)
    own, place, partial = opener(task, 0, tmp_path), tmp_path / "shares" / "party-0", tmp_path / "partial"
    some = tmp_path / "some"
    some.mkdir()
    for path in sorted(place.iterdir())[:6]:
        (some / path.name).write_bytes(path.read_bytes())
    UploadCount(own, None, partial).add(some, 2)
    with pytest.raises(ShareError, match="go on by the same command"):
        UploadCount(Dying(own.task, own.party, own.keys), None, partial).add(place, 2)
    count = UploadCount(own, None, partial)
    assert len(count.identities) == 6
    count.add(place, 2)
    assert np.array_equal(count.values, counts(task, tmp_path)[0].values)


def test_servers_drop_repeat_reorder_bundle_and_swap(task: Task, tmp_path: Path) -> None:
    shares = tmp_path / "shares"
    names = uploaded(task, shares, 8)
    paths = [[shares / f"party-{i}" / f"{name}.share" for name in names] for i in range(3)]
    paths[0][0].unlink()  # dropped
    (shares / "party-1" / "again.share").write_bytes(paths[1][1].read_bytes())  # repeated
    envelopes = [path.read_bytes() for path in paths[2]]
    for path in paths[2]:
        path.unlink()
    random.Random(1).shuffle(envelopes)
    bundle = b"".join([*envelopes, changed(envelopes[0], 100), envelopes[3][:-1]])
    (shares / "party-2" / "bundle.share").write_bytes(bundle)  # reordered, in one file that is cut
    swapped = [paths[party][2].read_bytes() for party in (0, 1)]
    for party, envelope in enumerate(reversed(swapped)):
        paths[party][2].write_bytes(envelope)
    paths[0][3].write_bytes(b"garbage")
    os.mkfifo(shares / "party-0" / "pipe.share")
    (shares / "party-0" / "link.share").symlink_to(paths[1][4])
    made = counts(task, tmp_path)
    assert left_out(made[0].unsound) == {
        names[2]: OTHER_KEY,
        names[3]: WRONG_SIZE,
        name_of("pipe"): UNREADABLE,
        name_of("link"): UNREADABLE,
    }
    assert left_out(made[2].unsound) == {name_of("bundle"): WRONG_SIZE}
    for party, count in enumerate(made):
        key = task.signer(party, tmp_path / f"keys-{party}")
        write_uploads(count.report(), tmp_path / f"party-{party}.uploads", key)
    agreement = read_lists(tmp_path, task)
    assert agreement.accepted == {*names} - {names[0], names[2], names[3]}
    again = counts(task, tmp_path, agreement.accepted)
    assert sums(task, again) == [2**8 - 1 - 2**0 - 2**2 - 2**3, 0, 5, 0]


@pytest.mark.parametrize("first", [True, False])
def test_bytes_that_claim_an_identity_take_nothing_from_it(first: bool, task: Task, tmp_path: Path) -> None:
    own = tmp_path / "shares" / "party-0"
    (name,) = uploaded(task, tmp_path / "shares", 1)
    envelope = (own / f"{name}.share").read_bytes()
    bad = changed(envelope, 200)
    (own / f"{name}.share").write_bytes(
        b"".join([bad, envelope, bad] if first else [envelope, bad, envelope])
    )
    made = counts(task, tmp_path)
    assert [*made[0].identities] == [name] and sums(task, made) == [1, 0, 1, 0]
    assert left_out(made[0].unsound) in ({}, {name: UNOPENED})
    assert common_uploads([count.report() for count in made]).accepted == {name}


def test_what_a_client_does_not_allow_is_left_out_everywhere(task: Task, tmp_path: Path) -> None:
    names = {}
    for epsilon in ("1", "2"):
        identity, envelopes = seal_upload(
            task, np.array([1, 0, 0, 0]), allowing(("weights",), epsilon, "1/2")
        )
        names[epsilon] = identity
        (tmp_path / f"{epsilon}.share").write_bytes(envelopes[0])
    count = UploadCount(replace(opener(task, 0, tmp_path), policy=allowing(("weights",), "3/2", "1/1048576")))
    count.add(tmp_path)
    assert [*count.identities] == [names["2"]] and left_out(count.unsound) == {names["1"]: UNCOVERED}
    for policy in (task.allowed, allowing(("count",), "1", "1/1048576")):
        count = UploadCount(replace(opener(task, 0, tmp_path), policy=policy))
        count.add(tmp_path)
        assert not count.identities


def test_too_few_uploads_write_nothing(task: Task, tmp_path: Path) -> None:
    task = replace(task, least_uploads=3)
    names = uploaded(task, tmp_path / "shares", 2)
    count = counts(task, tmp_path)[0]
    with pytest.raises(ShareError, match="3 at least"):
        count.write(tmp_path / "out", {})
    gone = counts(task, tmp_path, {names[0], bytes(32).hex()})[0]
    with pytest.raises(ShareError, match="no longer has all"):
        gone.write(tmp_path / "out", {})
    assert not (tmp_path / "out").exists()
    with pytest.raises(ShareError, match="Cannot read"):
        count.add(tmp_path / "nowhere")


def test_a_checkpoint_is_sealed_and_of_one_count(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_CHECKPOINT_S", 0)
    names = uploaded(task, tmp_path / "shares", 3)
    own, checkpoint = opener(task, 0, tmp_path), tmp_path / "partial"
    count = UploadCount(own, None, checkpoint)
    count.add(tmp_path / "shares" / "party-0")
    assert bytes.fromhex(names[0]) not in checkpoint.read_bytes()
    assert UploadCount(own, None, checkpoint).identities == count.identities
    for other in (
        UploadCount(own, {bytes(32).hex()}, checkpoint),
        UploadCount(replace(own, policy=allowing(("weights",), "1", "1/9")), None, checkpoint),
    ):
        assert not other.identities and not other.values.any()
    checkpoint.write_bytes(changed(checkpoint.read_bytes(), 50))
    assert not UploadCount(own, None, checkpoint).identities


@pytest.mark.parametrize("uploads", [0, 1, 3])
def test_rows_are_taken_up_from_a_checkpoint(
    uploads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_CHECKPOINT_S", 0)
    task = made_task(tmp_path, "slots", domain=CAPPED)
    for i in range(uploads):
        upload(task, [i, 1, 0], tmp_path / "shares")
    upload(task, [0, 0, 0], tmp_path / "shares")
    bad = next((tmp_path / "shares" / "party-0").iterdir())
    bad.write_bytes(changed(bad.read_bytes(), 100))
    own, checkpoint = opener(task, 0, tmp_path), tmp_path / "partial"
    count = UploadCount(own, None, checkpoint)
    count.add(tmp_path / "shares" / "party-0")
    again = UploadCount(own, None, checkpoint)
    assert again.identities == count.identities and len(again.identities) == uploads
    assert np.array_equal(again.values, count.values)


@pytest.fixture
def cluster(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Yield two workers, for 40 uploads, two at a time; a worker that is silent for three seconds is lost."""
    uploaded(task, tmp_path / "shares", 40)
    monkeypatch.setattr(counting, "_AT_ONCE", 2)
    settings = {"scheduler.worker-ttl": "3s", "comm.timeouts.connect": "3s", "comm.retry.count": 0}
    with (
        dask.config.set({f"distributed.{name}": value for name, value in settings.items()}),
        LocalCluster(2, threads_per_worker=1, dashboard_address=f"{HOST}:0", host=HOST) as made,
    ):
        yield made


def do_midway(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Have something done once, when the first uploads have come back and are kept."""
    original = UploadCount._save

    def save(self: UploadCount) -> None:
        original(self)
        monkeypatch.setattr(UploadCount, "_save", original)
        action()

    monkeypatch.setattr(UploadCount, "_save", save)
    monkeypatch.setattr(counting, "_CHECKPOINT_S", 0)


@pytest.mark.parametrize("befalls", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "stands still"])
def test_a_cluster_counts_as_one_process_does(
    befalls: signal.Signals,
    cluster: LocalCluster,
    task: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker dies, or stands still, with what it was given; the other one takes that over."""
    place, pid = tmp_path / "shares" / "party-0", next(iter(cluster.workers.values())).pid
    one, two = (UploadCount(opener(task, 0, tmp_path)) for _ in range(2))
    one.add(place, 0)
    do_midway(monkeypatch, lambda: os.kill(pid, befalls))
    two.add(place, opened_by=on_cluster(cluster.scheduler_address))
    assert one.identities == two.identities and len(one.identities) == 40
    assert np.array_equal(one.values, two.values)


@contextmanager
def scheduler(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a scheduler that has a worker."""
    where = ["--host", HOST, "--port", f"{port}", "--dashboard-address", f"{HOST}:0"]
    work = [f"tcp://{HOST}:{port}", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    started = [
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.{name}", *words], stderr=subprocess.DEVNULL)
        for name, words in (("dask_scheduler", where), ("dask_worker", work))
    ]
    try:
        until(lambda: answers(HOST, port))
        yield started[0]
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def test_a_count_goes_on_once_a_killed_scheduler_is_started_again(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded(task, tmp_path / "shares", 40)
    monkeypatch.setattr(counting, "_AT_ONCE", 2)
    place, own, checkpoint = tmp_path / "shares" / "party-0", opener(task, 0, tmp_path), tmp_path / "partial"
    one = UploadCount(own)
    one.add(place, 0)
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "5s")
    with free_ports(1) as (port,):
        address = f"tcp://{HOST}:{port}"
        with scheduler(port) as first:
            do_midway(monkeypatch, first.kill)
            with pytest.raises(ShareError, match="does not answer"):
                UploadCount(own, None, checkpoint).add(place, opened_by=on_cluster(address))
        again = UploadCount(own, None, checkpoint)
        assert 0 < len(again.identities) < 40
        with scheduler(port):
            again.add(place, opened_by=on_cluster(address))
    assert one.identities == again.identities and np.array_equal(one.values, again.values)


def test_what_a_worker_returns_is_checked(task: Task, tmp_path: Path) -> None:
    """It is bytes, which are not unpickled, and of the form and length of a count of these envelopes."""
    own = opener(task, 0, tmp_path)
    name = upload(task, [1, 0, 0, 0], tmp_path / "shares")
    envelope = (tmp_path / "shares" / "party-0" / f"{name}.share").read_bytes()
    two = changed(envelope, 99) + envelope
    for apart in (False, True):
        packed = counting.packed(own, two, apart)
        opened = counting.unpacked(packed, own, 2, apart)
        assert opened.envelopes == [UnsoundEnvelope(UNOPENED), SoundEnvelope(None)]
        assert np.array_equal(opened.values, own(two, apart).values)
        for wrong in (packed[:-1], packed + bytes(8), b"", b"x" * 100, packed.replace(b"null", b"true")):
            with pytest.raises(ShareError, match="is not a count"):
                counting.unpacked(wrong, own, 2, apart)
        for other in (None, opened, packed.decode("latin-1")):
            with pytest.raises(ShareError, match="it is not bytes"):
                counting.unpacked(other, own, 2, apart)
        with pytest.raises(ShareError, match="longer or shorter"):
            counting.unpacked(packed, own, 3, apart)
    unknown = counting.packed(own, changed(envelope, 99), False).replace(
        UNOPENED.encode(), b"x" * len(UNOPENED)
    )
    with pytest.raises(ShareError, match="reason that this version"):
        counting.unpacked(unknown, own, 1, False)
    repeated = counting.unpacked(counting.packed(own, envelope * 2, False), own, 2, False)
    assert repeated.envelopes == [SoundEnvelope(None), RepeatedEnvelope()]


def test_processes_are_started_for_what_takes_longer_than_their_start() -> None:
    """A thousand clients' vectors of a thousand numbers are opened where they are counted."""
    assert counting._processes_for(1000, 8500) == counting._processes_for(8192, 1500) == 0
    assert counting._processes_for(8193, 1500) > 0 and counting._processes_for(1000, 800_000) > 0
