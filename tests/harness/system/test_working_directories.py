"""Where others can write, nobody else can put another directory in the place of a run's."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from fairshares.harness.cli.report import write_beside
from fairshares.harness.errors import StockError, WriteError
from fairshares.harness.privacy.stock import Stock
from fairshares.harness.system import result_files
from fairshares.harness.system.files import copy_into, working_directory
from fairshares.harness.system.places import way_fault
from fairshares.harness.system.result_files import new_directory, write_files

pytestmark = pytest.mark.usefixtures("in_shell")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the temporary directory of a test, which nobody else can write to."""
    made = tmp_path / "temporary"
    made.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a directory in which a group works."""
    made = tmp_path / "shared"
    made.mkdir()
    made.chmod(0o2775)
    return made


@pytest.mark.parametrize(
    ("mode", "safe"),
    [(0o700, True), (0o755, True), (0o775, False), (0o2775, False), (0o777, False), (0o1777, True)],
)
@pytest.mark.parametrize("below", ["", "of-its-user/runs"])
def test_a_directory_that_others_could_rename_is_not_worked_in(
    below: str, mode: int, safe: bool, shared: Path, temporary: Path
) -> None:
    place = shared / below
    place.mkdir(parents=True, exist_ok=True)
    shared.chmod(mode)
    reason = way_fault(place)
    assert reason == (None if safe else f"Other users can write to {shared}")
    with working_directory(place) as made:
        assert made.parent == (place if safe else temporary) and made.stat().st_mode & 0o777 == 0o700
    assert not list(temporary.iterdir()) and not list(place.glob(".*"))


def test_no_working_directory_if_others_can_write_to_the_temporary_one_too(
    shared: Path, temporary: Path
) -> None:
    temporary.chmod(0o777)
    with (
        pytest.raises(
            WriteError,
            match=rf"^Other users can write to {shared}, so others could replace .* and other users can "
            rf"write to {temporary}; .* set TMPDIR to a directory that only you can change\.$",
        ),
        working_directory(shared),
    ):
        pass
    with working_directory(temporary.parent) as made:
        assert made.parent == temporary.parent


def test_results_reach_a_directory_that_others_write_to(shared: Path, temporary: Path) -> None:
    out = shared / "more" / "out"
    with new_directory(out) as partial:
        assert partial.parent == temporary and not list((shared / "more").iterdir())
        with new_directory(partial / "weights") as inner:
            (inner / "weights.json").write_text("1")
        (partial / "manifest.json").write_text("2")
    assert out.stat().st_mode & 0o777 == 0o700
    found = {str(path.relative_to(shared)): path for path in shared.rglob("*")}
    assert found.keys() == {
        *("more", "more/out", "more/out/manifest.json", "more/out/weights", "more/out/weights/weights.json")
    }
    assert found["more/out/weights/weights.json"].read_text() == "1"
    assert found["more/out/manifest.json"].read_text() == "2" and not list(temporary.iterdir())


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_what_another_user_put_in_their_place_is_not_written_into(
    mode: int, shared: Path, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in it would lead to any file of this user's."""
    mine = tmp_path / "mine"
    mine.write_text("as it was")
    making = tempfile.mkdtemp

    def swapped(*, prefix: str, dir: Path) -> str:
        made = Path(making(prefix=prefix, dir=dir))
        if dir == shared:
            made.rename(shared / "moved")
            made.mkdir()
            made.chmod(mode)
            (made / "a.json").symlink_to(mine)
        return str(made)

    monkeypatch.setattr(tempfile, "mkdtemp", swapped)
    with pytest.raises(WriteError, match=r"^Another user put other files in the place .* can write to .*\.$"):
        write_files(shared / "out", {"a.json": {}})
    assert mine.read_text() == "as it was" and not (shared / "out").exists()
    assert not list((shared / "moved").iterdir()) and not list(temporary.iterdir())


def test_results_that_were_swapped_at_last_are_told_of(
    shared: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy_and_swap(made: Path, descriptor: int) -> None:
        copy_into(made, descriptor)
        (partial,) = shared.glob(".*")
        partial.rename(shared / "moved")
        partial.mkdir()
        (partial / "a.json").write_text("another's")

    monkeypatch.setattr(result_files, "copy_into", copy_and_swap)
    with pytest.raises(WriteError, match=r"use nothing there, and name a new --out that only you can change"):
        write_files(shared / "out", {"a.json": {}})
    assert not list((shared / "moved").iterdir()) and (shared / "out" / "a.json").read_text() == "another's"
    assert not list(temporary.iterdir())


def test_a_full_disk_leaves_nothing(shared: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    def write() -> None:
        with new_directory(shared / "out") as partial:
            (partial / "first.json").write_text("1")
            (partial / "second.json").write_text("2")

    with pytest.raises(WriteError, match=r"No space left on device; no result was written\.$"):
        write()
    assert not list(shared.iterdir()) and not list(temporary.iterdir())


def test_copies_replace_links_and_follow_none(tmp_path: Path) -> None:
    for name in ("made", "to"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine").write_text("as it was")
    (tmp_path / "made" / "report.html").write_text("new")
    (tmp_path / "to" / "report.html").symlink_to(tmp_path / "mine")
    descriptor = os.open(tmp_path / "to", os.O_RDONLY)
    copy_into(tmp_path / "made", descriptor)
    os.close(descriptor)
    assert (tmp_path / "mine").read_text() == "as it was"
    assert not (tmp_path / "to" / "report.html").is_symlink()
    assert [path.read_text() for path in (tmp_path / "to").iterdir()] == ["new"]


def test_a_page_beside_results_of_a_group(shared: Path, temporary: Path) -> None:
    for _ in range(2):  # the second takes the place of the first
        write_beside(shared, "Title", "", ["Text."])
    assert [path.name for path in shared.iterdir()] == ["report.html"] and not list(temporary.iterdir())


def test_noise_is_not_kept_below_a_directory_that_others_write_to(shared: Path) -> None:
    stock = Stock(shared / "stock")
    with pytest.raises(
        StockError, match=rf"^Other users can write to {shared}, so others could put other noi"
    ):
        stock.begin("terms")
    shared.chmod(0o755)
    assert stock.begin("terms") == 1


def test_a_full_disk_is_noticed_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    started = False
    with (
        pytest.raises(WriteError, match=r"no room left on the disk of .* \(4,096 bytes are free\)"),
        new_directory(tmp_path / "runs" / "out"),
    ):
        started = True
    assert not started and not list(tmp_path.iterdir())
