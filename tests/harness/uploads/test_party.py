"""A party lists its uploads, and adds up those that all parties list: the order of what may refuse it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairshares.harness.errors import ShareError, UsedUploadsError
from fairshares.harness.uploads.party import aggregate, list_uploads
from fairshares.harness.uploads.reasons import COUNTED
from fairshares.harness.uploads.task import Task
from tests.support.envelopes import made_task, opener, upload


@dataclass
class Runs:
    """Runs that counted some uploads."""

    used: Collection[str] = ()
    closed: bool = False

    def check_open(self, task: str) -> None:
        if self.closed:
            raise UsedUploadsError(f"Task {task[:16]} was closed.")

    def counted(self, uploads: Iterable[str]) -> set[str]:
        return set(self.used) & set(uploads)


@pytest.fixture(scope="module")
def of_task(tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, Path]:
    """A task, and the directory of its parties' keys."""
    keys = tmp_path_factory.mktemp("task")
    return made_task(keys), keys


def test_what_runs_counted_is_in_no_list_and_in_no_sum(of_task: tuple[Task, Path], tmp_path: Path) -> None:
    """What listing kept is used, and gone afterwards; the sum is the same without it."""
    task, keys = of_task
    used, *new = [upload(task, [1, 0, 0, 0], tmp_path / "shares") for _ in range(3)]
    lists = tmp_path / "lists"
    for party in range(3):
        listed = list_uploads(
            opener(task, party, keys),
            tmp_path / "shares",
            lists / f"party-{party}.uploads",
            keys / f"keys-{party}",
            earlier=Runs([used]),
        )
        assert [*listed.report.sound] == sorted(new) and [*listed.report.unsound[COUNTED]] == [used]
        assert listed.repeated == 0
    kept = lists / "party-0.uploads.count"
    assert kept.exists()
    own = opener(task, 0, keys)
    for out in ("by what was kept", "anew"):
        header = aggregate(own, tmp_path / "shares", lists, tmp_path / out)
        assert header.uploads == 2 and header.excluded == {COUNTED: 1}
        assert not kept.exists()
    assert (tmp_path / "anew").read_bytes() == (tmp_path / "by what was kept").read_bytes()


@pytest.mark.parametrize(("party", "closed"), [(1, False), (0, True)])
def test_a_refused_list_opens_no_upload(
    of_task: tuple[Task, Path], party: int, closed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused by another party's key, or by a closed task."""
    task, keys = of_task
    upload(task, [1, 0, 0, 0], tmp_path / "shares")
    monkeypatch.delattr("fairshares.harness.uploads.counting.open_envelope")
    with pytest.raises(UsedUploadsError if closed else ShareError):
        list_uploads(
            opener(task, 0, keys),
            tmp_path / "shares",
            tmp_path / "party-0.uploads",
            keys / f"keys-{party}",
            earlier=Runs(closed=closed),
        )
    assert not (tmp_path / "party-0.uploads").exists()
