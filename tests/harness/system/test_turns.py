"""Processes of one user take turns, others cannot keep them from theirs, and no one waits without a word."""

import fcntl
import multiprocessing
import os
import threading
import warnings
from collections import Counter
from pathlib import Path

import pytest

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import ShareError
from fairshares.harness.system import files
from fairshares.harness.system.files import TURN, in_turn
from fairshares.harness.uploads import sending as uploading
from fairshares.harness.uploads.sending import SendingEnd, send
from tests.support.servers import told


def test_no_other_user_can_keep_this_one_from_its_turn(tmp_path: Path) -> None:
    """Though others may read a directory, and so lock it: they cannot open what is locked."""
    tmp_path.chmod(0o755)
    reading = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(reading, fcntl.LOCK_EX)  # as any user can whom a directory lets read
    entered = threading.Event()

    def enter() -> None:
        with in_turn(tmp_path):
            assert (tmp_path / TURN).stat().st_mode & 0o777 == 0o600
            entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    assert entered.wait(30)
    thread.join()
    os.close(reading)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_what_others_could_lock_is_refused(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        with in_turn(tmp_path):
            pass
    finally:
        os.umask(before)
    (tmp_path / TURN).touch()
    (tmp_path / TURN).chmod(0o644)
    with pytest.raises(PermissionError, match="others can open it"), in_turn(tmp_path):
        pass
    (tmp_path / TURN).unlink()
    (tmp_path / TURN).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=TURN), in_turn(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_who_waits_says_for_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SILENCE_S", 0.0)
    said: list[str] = []
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with in_turn(tmp_path):
            held.set()
            go_on.wait()

    def show(message: str) -> None:
        said.append(message)
        go_on.set()

    for _ in range(2):  # a second wait is told, too
        held.clear()
        go_on.clear()
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_: show(str(message))
            with in_turn(tmp_path):
                holder.join()
    held_by = f"holds {tmp_path / TURN}; if there is none, remove that file."
    assert said == [f"Waiting for another process of yours to end, which {held_by}"] * 2


def test_one_process_at_a_time_is_in_turn_though_the_file_goes(tmp_path: Path) -> None:
    """Each leaves no file, so the next may hold one that was removed; it is not in turn by that."""
    (tmp_path / "count").write_text("0")
    (tmp_path / TURN).touch(mode=0o600)  # as of one that was killed
    fork = multiprocessing.get_context("fork")

    def count() -> None:
        files._POLL_S = 0.0
        for _ in range(25):
            with in_turn(tmp_path):
                number = int((tmp_path / "count").read_text())
                (tmp_path / "count").write_text(str(number + 1))

    processes = [fork.Process(target=count) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert (tmp_path / "count").read_text() == "100"
    assert [path.name for path in tmp_path.iterdir()] == ["count"]


def test_a_file_with_a_content_is_held_by_the_command_in_node(tmp_path: Path) -> None:
    (tmp_path / TURN).touch(mode=0o600)
    (tmp_path / TURN).write_text("1234\n")
    entered = threading.Event()

    def enter() -> None:
        with in_turn(tmp_path):
            entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    assert not entered.wait(0.3)  # a wrong one enters at once
    (tmp_path / TURN).unlink()
    assert entered.wait(600)
    thread.join()
    assert list(tmp_path.iterdir()) == []


def test_who_is_refused_is_told_by_which_file(tmp_path: Path) -> None:
    (tmp_path / TURN).touch()
    (tmp_path / TURN).chmod(0o644)
    with pytest.raises(ShareError, match=rf"Cannot send from .*: {tmp_path / TURN} is another user's, or"):
        send(tmp_path, ["https://127.0.0.1/"])


def test_a_client_sends_though_another_user_locked_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploading, "_PAUSES_S", ())
    (tmp_path / "party-0").mkdir()
    (tmp_path / "party-0" / "ab.share").write_bytes(b"sealed")
    ends: list[list[Counter[SendingEnd]]] = []
    with free_ports(1) as (port,):
        address = f"https://127.0.0.1:{port}/"
        reading = os.open(tmp_path, os.O_RDONLY)
        fcntl.flock(reading, fcntl.LOCK_EX)
        thread = threading.Thread(target=lambda: ends.append(send(tmp_path, [address])), daemon=True)
        thread.start()
        thread.join(30)
        os.close(reading)
    assert [*map(told, ends)] == [[Counter({"not stored (nobody answers)": 1})]]
    assert [path.name for path in tmp_path.iterdir()] == ["party-0"]
