"""Facts about processes, and a leash, which ends a process with its parent, even if that is killed.

Run as a program, the module takes the parent's number and a command.
"""

import ctypes
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel end this process, and the program it becomes, with its parent (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def leashed(*command: str) -> list[str]:
    """Return the command that runs `command` on a leash; the project is on PYTHONPATH."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, and all others of the group, before its exit code is taken."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end_of_group(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process that leads a group, None while it runs.

    Guarantees: its children end with it. They are ended before its number is given back, as another group
    could have that number afterwards.
    """
    if process.returncode is None:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        kill_group(process)
    return process.poll()


def has_output_within(seconds: float, pipe: IO[bytes] | IO[str]) -> bool:
    """Wait for a process to write to a pipe or to close it, for at most `seconds`.

    `select.select` cannot watch a descriptor above 1023, which a process with many open files has.

    Returns:
        Whether a read would return at once.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(max(0.0, seconds)))


def birth(process: int) -> str:
    """Return when a process began, in the kernel's ticks; "" if ended or without /proc."""
    state, *more = _stat(process)
    return more[18] if state not in ("", "Z") else ""


def is_stopped(process: int) -> bool:
    """Return whether a process is known to be suspended."""
    return _stat(process)[0] in ("T", "t")


def _stat(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return [""]


if __name__ == "__main__":
    die_with_parent()
    if os.getppid() == int(sys.argv[1]):  # else the parent has died already
        os.execv(sys.argv[2], sys.argv[2:])
