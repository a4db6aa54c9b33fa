"""Processes that stop themselves midway, where a test finds them however busy the machine is (Linux)."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.system.processes import is_stopped
from tests.support.command import processes_below
from tests.support.running import until

# Where, by what Python says of itself as it runs (an audit event): party 0 has drawn its bits or noise and
# becomes the engine, for which the others wait; the compiler begins to write a program.
PARTY_0_BEGINS = (
    '(event == "os.exec" or event == "exec" and "mpyc/party.py" in str(arguments[0]))'
    ' and os.path.lexists("Player-Data/Input-P0-0")'
)
A_PROGRAM_IS_WRITTEN = 'event == "open" and "Programs/Bytecode" in str(arguments[0])'


def stopping_where(condition: str) -> str:
    """Return a `sitecustomize` by which a process stops when it is there, if a file `stop` is beside that."""
    return (
        "import os, signal, sys\n"
        "def stop(event, arguments):\n"
        f"    if {condition} and os.path.exists(os.path.join(os.path.dirname(__file__), 'stop')):\n"
        "        os.kill(os.getpid(), signal.SIGSTOP)\n"
        "sys.addaudithook(stop)\n"
    )


def wait_until_stopped(directory: Path, has_ended: Callable[[], bool]) -> int:
    """Wait for a process in or below a directory to have stopped; return its number.

    Args: has_ended: whether nothing is to be waited for any more, which is a failure.
    """
    until(lambda: stopped_below(directory) != [] or has_ended())
    (process,) = stopped_below(directory)
    return process


def stopped_below(directory: Path) -> list[int]:
    """Return the processes that are stopped in or below a directory."""
    return [process for process in processes_below(directory) if is_stopped(process)]


def ended(run: subprocess.Popen[str]) -> Callable[[], bool]:
    """Return what tells whether a command has ended; it fails with what was said then."""

    def has_ended() -> bool:
        assert run.poll() is None, run.communicate()
        return False

    return has_ended
