"""Scratch directories go with their maker, killed or not, and none goes that somebody uses."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.errors import OptionError
from fairshares.harness.system.files import (
    PREFIX,
    check_path,
    hold,
    is_directory,
    open_regular,
    remove_unless_held,
    scratch_directory,
    write_whole,
)
from fairshares.harness.system.places import directory_fault
from tests.conftest import PROJECT
from tests.support.running import until

pytestmark = pytest.mark.usefixtures("in_shell")

MAKER = """
import sys, time
from pathlib import Path
from fairshares.harness.system.files import scratch_directory
with scratch_directory(Path(sys.argv[1])) as made:
    (made / "share").write_text("secret")
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("n" * 256, "File name too long"),
        ("not-there/" + "\N{LATIN SMALL LETTER E WITH ACUTE}" * 128, "File name too long"),
        ("n/" * 5000, "File name too long"),
        ("a\0b", "no file's name has such a character"),
        ("\ud800", "no file's name has such a character"),
    ],
)
def test_a_path_that_no_file_has_is_refused(path: str, message: str) -> None:
    with pytest.raises(OptionError, match=f"^Cannot use .*: {message}; name another by --out.$"):
        check_path(Path(path), "out")


def test_a_path_that_a_file_may_have_is_taken(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / ("n" * 255), tmp_path / "not-there" / "n"):
        check_path(path, "out")


def test_what_cannot_be_looked_at_is_no_directory(tmp_path: Path) -> None:
    assert is_directory(tmp_path) and not is_directory(tmp_path / ("n" * 256))


def leftovers(directory: Path) -> list[Path]:
    return list(directory.glob(f"{PREFIX}*"))


def test_it_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with scratch_directory(tmp_path) as made:
        assert made.parent == tmp_path and made.stat().st_mode & 0o777 == 0o700
        (made / "share").write_text("secret")
    assert leftovers(tmp_path) == []

    def fail() -> None:
        with scratch_directory(tmp_path) as made:
            (made / "share").write_text("secret")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert leftovers(tmp_path) == []


def test_the_next_one_removes_what_a_killed_process_left_and_nothing_that_lives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKER, str(tmp_path)]
    makers = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(PROJECT)}) for _ in range(2)]
    try:
        until(lambda: len(list(tmp_path.glob(f"{PREFIX}*/share"))) == 2)
        with scratch_directory(tmp_path):
            assert len(leftovers(tmp_path)) == 3
        makers[0].kill()
        makers[0].wait()
        assert len(leftovers(tmp_path)) == 2
        with scratch_directory(tmp_path) as made:
            (alive,) = set(leftovers(tmp_path)) - {made}
        assert (alive / "share").read_text() == "secret"
        makers[1].send_signal(signal.SIGKILL)
        makers[1].wait()
        with scratch_directory(tmp_path) as made:
            assert leftovers(tmp_path) == [made]
    finally:
        for maker in makers:
            maker.kill()
            maker.wait()


def test_other_names_links_and_others_directories_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    for name in (".partial-x", "fairshares-partial-x", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").touch()
    before = set(tmp_path.rglob("*"))
    with scratch_directory(tmp_path):
        pass
    assert set(tmp_path.rglob("*")) == before

    (tmp_path / f"{PREFIX}foreign").mkdir()
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    remove_unless_held(tmp_path / f"{PREFIX}foreign")
    assert (tmp_path / f"{PREFIX}foreign").is_dir()
    monkeypatch.undo()
    remove_unless_held(tmp_path / f"{PREFIX}foreign")
    assert not (tmp_path / f"{PREFIX}foreign").exists()


def test_what_is_held_is_not_removed(tmp_path: Path) -> None:
    entry = tmp_path / "entry"
    entry.mkdir()
    one, other = hold(entry), hold(entry)
    for descriptor in (one, other):
        remove_unless_held(entry)
        assert entry.is_dir()
        os.close(descriptor)
    remove_unless_held(entry)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        hold(entry)


def test_a_new_directory_that_another_start_took_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may come between the making and the locking."""
    real = fcntl.flock
    took: list[Path] = []

    def flock(descriptor: int, operation: int) -> None:
        if not took:
            took.extend(leftovers(tmp_path))
            remove_unless_held(took[0])
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with scratch_directory(tmp_path) as made:
        assert made.is_dir() and took and made != took[0] and leftovers(tmp_path) == [made]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o500, 0o777, 0o1777, 0o770, 0o702])
def test_what_others_can_change(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    others = mode & 0o022 != 0
    assert directory_fault(tmp_path) == (f"Other users can write to {tmp_path}" if others else None)


def test_what_is_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert directory_fault(tmp_path / "link") == f"{tmp_path / 'link'} is not a directory of its own"
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    assert directory_fault(tmp_path) == f"{tmp_path} belongs to another user"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    write_whole(file, b"first, ", b"whole")
    assert file.read_bytes() == b"first, whole" and file.stat().st_mode & 0o777 == 0o600
    write_whole(file, b"second")

    def full(_descriptor: int) -> None:
        raise OSError("full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        write_whole(file, b"third")
    assert file.read_bytes() == b"second" and list(tmp_path.iterdir()) == [file]


def make_pipe(path: Path) -> None:
    """Make a pipe that has something to say to whoever reads it."""
    os.mkfifo(path)

    def say() -> None:
        with suppress(BrokenPipeError):
            path.write_text("said")

    threading.Thread(target=say, daemon=True).start()


NO_FILES: dict[str, Callable[[Path], None]] = {
    "link": lambda path: path.symlink_to(path.with_name("file")),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to a device": lambda path: path.symlink_to(os.devnull),
    "pipe": make_pipe,
    "directory": Path.mkdir,
}


@pytest.mark.parametrize("made", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_not_opened(made: Callable[[Path], None], tmp_path: Path) -> None:
    """Who waits for a pipe may wait forever; a link may name any file of its reader's."""
    path = tmp_path / "x"
    (tmp_path / "file").write_text("other")
    made(path)
    with pytest.raises(OSError, match="no file, or a link to one"):
        open_regular(path)
    with suppress(OSError):  # lets go of who has something to say
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"other"


@pytest.mark.parametrize("made", NO_FILES.values(), ids=NO_FILES)
def test_what_is_a_file_no_more_when_it_is_opened_is_not_waited_for(
    made: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opening = tmp_path / "x", os.open
    for name in ("x", "file"):
        (tmp_path / name).write_text("other")

    def swapped(*arguments: Any) -> int:
        path.unlink()
        made(path)
        return opening(*arguments)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(OSError, match=r"no file, or a link to one|symbolic link"):
        open_regular(path)
