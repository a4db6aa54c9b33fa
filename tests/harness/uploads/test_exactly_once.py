"""Every upload that all parties accept counts once, none twice and none half, whatever dies, fills or lies.

Measurements are unique: upload i counts 2^i, so that a sum tells which uploads are in it.
"""

import hashlib
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from fairshares.harness.errors import ShareError
from fairshares.harness.uploads import counting, opening
from fairshares.harness.uploads.aggregates import read_uploads
from fairshares.harness.uploads.counting import UploadCount
from fairshares.harness.uploads.keys import SealingKey
from fairshares.harness.uploads.lists import UploadReport, common_uploads
from fairshares.harness.uploads.task import Task
from tests.support.envelopes import changed, counts, made_task, opener, revealed, upload


@pytest.fixture
def task(tmp_path: Path) -> Task:
    task = made_task(tmp_path)
    for i in range(40):
        upload(task, [1 << i, 0, 0, 0], tmp_path / "shares")
    return task


def counted(task: Task, directory: Path, checkpoint: Path) -> UploadCount:
    """Return party 0's count, whose batches are small and whose checkpoint is written after each."""
    with patch.object(counting, "_AT_ONCE", 4), patch.object(counting, "_CHECKPOINT_S", 0):
        count = UploadCount(opener(task, 0, directory), None, checkpoint)
        count.add(directory / "shares" / "party-0", 0)
    return count


def in_child(work: Callable[[], object], kill_after_s: float | None = None) -> bool:
    """Do something in a process that is killed, after a while or by a limit; return whether it ended."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores
        work()
        os._exit(0)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("at", ["a time", "a byte"])
def test_kills_at_any_point_lose_and_repeat_nothing(at: str, task: Task, tmp_path: Path) -> None:
    """50 kills: SIGKILL at any time, or at any byte of a file that is written, which is then torn there.

    Each process goes on from what the last one left, and the count is that of a process that nobody killed.
    """
    expected, checkpoint, out = tmp_path / "expected", tmp_path / "partial", tmp_path / "out"
    counts(task, tmp_path)[0].write(expected, {})
    counted(task, tmp_path, tmp_path / "whole")
    most = max((tmp_path / "whole").stat().st_size, expected.stat().st_size)
    kills, resumed, draw = 0, set[int](), random.Random(2)

    def work() -> None:
        if at == "a byte":
            resource.setrlimit(resource.RLIMIT_FSIZE, (draw.randrange(most),) * 2)
        counted(task, tmp_path, checkpoint).write(out, {})

    while kills < 50:
        if checkpoint.exists():
            resumed.add(len(UploadCount(opener(task, 0, tmp_path), None, checkpoint).identities))
        draw.random()
        if in_child(work, draw.uniform(0, 0.05) if at == "a time" else None):
            out.unlink()
        else:
            kills += 1
        if out.exists():
            assert out.read_bytes() == expected.read_bytes()
    counted(task, tmp_path, checkpoint).write(out, {})
    assert out.read_bytes() == expected.read_bytes() and not checkpoint.exists() and resumed - {0}


def test_two_processes_with_one_checkpoint_count_nothing_twice(task: Task, tmp_path: Path) -> None:
    """What one writes is as long as what the other does, but only its own goes on from it."""
    own, checkpoint, shares = opener(task, 0, tmp_path), tmp_path / "partial", tmp_path / "shares" / "party-0"
    files = sorted(shares.iterdir())
    with patch.object(counting, "_CHECKPOINT_S", 0):
        one, two = (UploadCount(own, None, checkpoint) for _ in range(2))
        for number, (count, some) in enumerate([(one, files[:4]), (two, files[4:8]), (one, files[4:8])]):
            place = tmp_path / str(number)
            place.mkdir()
            (place / "bundle.share").write_bytes(b"".join(file.read_bytes() for file in some))
            count.add(place, 0)
    count = UploadCount(own, None, checkpoint)
    count.add(shares, 0)
    assert len(count.identities) == 40
    assert (count.values == counts(task, tmp_path)[0].values).all()


@pytest.mark.parametrize("write", ["checkpoint", "aggregate"])
def test_a_full_disk_leaves_nothing_half_written(write: str, task: Task, tmp_path: Path) -> None:
    (count, *_), out, partial = counts(task, tmp_path), tmp_path / "out", tmp_path / "partial"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    work: dict[str, Callable[[], object]] = {
        "aggregate": lambda: count.write(out, {}),
        "checkpoint": lambda: counted(task, tmp_path, partial),
    }
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # of any file, as if the disk ended there
    try:
        with pytest.raises(ShareError, match="Cannot write"):
            work[write]()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not out.exists() and not [*tmp_path.glob(".fairshares*")]
    counted(task, tmp_path, partial).write(out, {})
    assert len(read_uploads(out)) == 40


# In place of seals, as long, and opened by whoever has the key's ID and the same info.


def _seal(key: SealingKey, plain: bytes, info: bytes) -> bytes:
    return info + hashlib.sha256(info + plain).digest()[:16] + plain


def _unseal(secret: bytes, sealed: bytes, info: bytes) -> bytes | None:
    return sealed[48:] if _seal(None, sealed[48:], info) == sealed else None  # type: ignore[arg-type]


@lru_cache(maxsize=1)
def _tasks() -> tuple[TemporaryDirectory[str], Task, Task]:
    place = TemporaryDirectory()
    return place, made_task(Path(place.name)), made_task(Path(place.name) / "other")


ACTS = ("drop", "keep back", "deliver", "repeat", "cut", "parties", "change", "task", "identity", "bundle")


class Agreement(RuleBasedStateMachine):
    """Clients, servers and one lying party in any order; honest parties sum the same uploads, once each."""

    uploads = Bundle("uploads")

    @initialize(liar=st.sampled_from([None, 0, 1, 2]))
    def begin(self, liar: int | None) -> None:
        place, self.task, self.other = _tasks()
        self.keys, self.temporary = Path(place.name), TemporaryDirectory()
        self.place, self.liar, self.made = Path(self.temporary.name), liar, list[str]()
        (self.place / "shares").mkdir()
        for party in range(3):
            (self.place / "shares" / f"party-{party}").mkdir()
            shutil.copytree(self.keys / f"keys-{party}", self.place / f"keys-{party}")
        self.seals = ExitStack()
        self.seals.enter_context(patch.object(SealingKey, "seal", _seal))
        self.seals.enter_context(patch.object(opening, "unseal", _unseal))

    def teardown(self) -> None:
        self.seals.close()
        self.temporary.cleanup()

    @rule(target=uploads)
    def share(self) -> str:
        name = upload(self.task, [1 << len(self.made), 0, 0, 0], self.place / "shares")
        self.made.append(name)
        return name

    @rule(name=uploads, party=st.integers(0, 2), act=st.sampled_from(ACTS), victim=uploads)
    def serve(self, name: str, party: int, act: str, victim: str) -> None:
        own = self.place / "shares" / f"party-{party}"
        path, late = own / f"{name}.share", own / f"{name}.late"
        other = self.place / "shares" / f"party-{(party + 1) % 3}" / path.name
        if act == "deliver" and late.exists():
            late.rename(path)
        if not (path.exists() and other.exists()):
            return
        sent = path.read_bytes()
        if act in ("drop", "keep back"):
            path.rename(late) if act == "keep back" else path.unlink()
        elif act == "repeat":
            (own / f"again-{name}.share").write_bytes(sent)
        elif act == "bundle":
            files = sorted(own.glob("*.share"), reverse=True)
            bundled = b"".join(file.read_bytes() for file in files)
            for file in files:
                file.unlink()
            path.write_bytes(bundled)
        elif act != "deliver":
            swapped = {
                "cut": sent[:-1],
                "parties": other.read_bytes(),
                "change": changed(sent, 99),
                "task": sent[:4] + self.other.digest + sent[36:],
                "identity": sent[:36] + bytes.fromhex(victim) + sent[68:],
            }
            path.write_bytes(swapped[act])

    @rule(claimed=st.binary(min_size=32, max_size=32), hides=st.integers(0, 9))
    def count(self, claimed: bytes, hides: int) -> None:
        if not self.made:
            return
        opened = counts(self.task, self.place)
        reports = [count.report() for count in opened]
        if self.liar is not None:
            reports[self.liar] = self.lie(reports[self.liar], claimed, hides)
        try:
            taken = common_uploads(reports).accepted
        except ShareError:  # there is none that all have
            taken = frozenset()
        honest = [i for i in range(3) if i != self.liar]
        openable = set.intersection(*({*opened[i].identities} for i in honest))
        assert {*taken} <= openable and (self.liar is not None or taken == openable)
        final = counts(self.task, self.place, taken)
        for i in honest:
            assert {*final[i].identities} == taken
        if all({*count.identities} == taken for count in final):
            total = revealed(self.task, [count.values for count in final])
            assert total == [sum(1 << self.made.index(name) for name in taken), 0, 0, 0]

    def lie(self, report: UploadReport, claimed: bytes, hides: int) -> UploadReport:
        """Return a list that leaves some uploads out and names some that the party has not."""
        names = [claimed.hex(), *self.made]
        sound = frozenset(name for i, name in enumerate(names) if i != hides)
        return UploadReport(report.party, report.task, sound, report.unsound)


SCHEDULES = settings(stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))


def test_random_schedules() -> None:
    run_state_machine_as_test(Agreement, settings=settings(SCHEDULES, max_examples=10))


@pytest.mark.parametrize("part", range(20))  # of ten thousand, each a minute at most
def test_many_random_schedules(part: int) -> None:
    run_state_machine_as_test(Agreement, settings=settings(SCHEDULES, max_examples=500))
