"""Hostile surroundings for a command: a disk that is slow or full at a chosen moment, a directory too small.

The command is the real one. What is made slow or refused is done from outside, where Python starts (a
`sitecustomize` on its path), so that a signal finds the command in the phase that the test means.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairshares.harness.system.files import PREFIX
from tests.support.midway import stopping_where
from tests.support.running import until

# A file `slow/<operation>` that holds part of a path stops the operation on it while it is there; `reached`
# tells that it has come to that. A file `full` holds part of the path of what cannot be written, `limit` the
# most bytes that a file may get. Where there is a file `later`, it is an hour later.
_CUSTOM = """
import errno, os, resource, time
from pathlib import Path

here = Path(__file__).parent

def slowly(operation, path):
    slow = here / "slow" / operation
    if slow.exists() and slow.read_text() in str(path):
        (here / "reached").touch()
        while slow.exists():
            time.sleep(0.005)

fsync = os.fsync

def slow_fsync(descriptor):
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    slowly("write", path)
    if (here / "full").exists() and (here / "full").read_text() in path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    fsync(descriptor)

os.fsync = slow_fsync
monotonic = time.monotonic
time.monotonic = lambda: monotonic() + 3600 * (here / "later").exists()
if (here / "limit").exists():
    most = int((here / "limit").read_text())
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
"""
# What the command starts with an environment of its own finds the same.
_HANDED_ON = """
def hand_on(event, arguments):
    if event == "subprocess.Popen" and arguments[3]:
        arguments[3]["PYTHONPATH"] = f"{here}:{arguments[3]['PYTHONPATH']}"

sys.addaudithook(hand_on)
"""


class Surroundings:
    """What a command finds around it; `environment` is what to start it with."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "slow").mkdir(parents=True)
        (directory / "sitecustomize.py").write_text(_CUSTOM)
        self.environment = {"PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}

    def slow_down(self, operation: str, path: str) -> None:
        """Stop the first write of what has `path` in its name, until `go_on`."""
        (self._directory / "reached").unlink(missing_ok=True)
        (self._directory / "slow" / operation).write_text(path)

    def wait_until_reached(self, process: subprocess.Popen[str]) -> None:
        """Wait until the command is at what was slowed down."""
        until(lambda: (self._directory / "reached").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()

    def go_on(self) -> None:
        """Slow nothing down and stop nothing any more."""
        for one in (*(self._directory / "slow").iterdir(), self._directory / "stop"):
            one.unlink(missing_ok=True)

    def stop_where(self, condition: str) -> None:
        """Have what the command starts stop where this holds, as in `midway`; a command begun later."""
        custom = stopping_where(condition) + _CUSTOM + _HANDED_ON
        (self._directory / "sitecustomize.py").write_text(custom)
        (self._directory / "stop").touch()

    def put_clock_forward(self) -> None:
        """Have every time limit of the command be reached."""
        (self._directory / "later").touch()

    def fill_up_at(self, path: str) -> None:
        """Have the disk be full when what has `path` in its name is written."""
        (self._directory / "full").write_text(path)

    def limit_files(self, most: int | None) -> None:
        """Let no file get longer than this, as on a disk that is full then; None lifts the limit."""
        limit = self._directory / "limit"
        limit.unlink(missing_ok=True)
        if most is not None:
            limit.write_text(str(most))


@contextmanager
def small_disk(where: Path, kilobytes: int) -> Iterator[None]:
    """Mount a file system of that size, in memory; skip the test where that is not allowed."""
    where.mkdir(exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={kilobytes}k,mode=700"]
    try:
        done = subprocess.run(
            ["mount", *options, "tmpfs", where], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("a small disk needs the mount command")
    if done.returncode:
        pytest.skip(f"a small disk needs the right to mount one: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", where], check=True)


def scratch_below(directory: Path) -> list[Path]:
    """Return the scratch directories that are there, whoever's they are."""
    return [path for path in directory.rglob(f"{PREFIX}*") if os.path.lexists(path)]
