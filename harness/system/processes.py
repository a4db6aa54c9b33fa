"""Ends a process, and the program it becomes, when the one that started it ends, even if that is killed.

Run as `python -m harness.system.processes STARTER COMMAND...` with the starter's process number.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel end this process, and the program it becomes, when its starter dies (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def leashed(*command: str) -> list[str]:
    """Return the command that runs `command` on a leash; the project has to be on PYTHONPATH."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


if __name__ == "__main__":
    die_with_parent()
    if os.getppid() == int(sys.argv[1]):  # else the starter has died already
        os.execv(sys.argv[2], sys.argv[2:])
