"""Workers end with the process that began them, whatever ends it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import kill
from pathlib import Path

import pytest

from fairshares.harness.system.worker_pools import worker_pool
from tests.support.running import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

PATIENCE_S = 120.0  # they end at once, but a busy machine may let them wait
# Begins two workers, of which one works for as long as the test takes and one waits for work.
BEGINS_WORKERS = """
import os, time
from fairshares.harness.system.worker_pools import worker_pool

if __name__ == "__main__":
    with worker_pool(2, {begun_by!r}) as workers:
        workers.submit(time.sleep, 3600)
        for _ in range(2):
            workers.submit(os.getpid).result()
        print("begun", flush=True)
        time.sleep(3600)
"""


def in_session(session: int) -> set[int]:
    """Return the processes of a session that have not ended."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, _, of_session, *_ = stat.read_text().rpartition(")")[2].split()
            if int(of_session) == session and state not in ("Z", "X"):
                found.add(int(stat.parent.name))
    return found


@contextmanager
def beginner(project: Path, begun_by: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a process in a session of its own, which has begun workers; kill all that is left of it."""
    script = BEGINS_WORKERS.format(begun_by=begun_by)
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=project, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            for left in in_session(process.pid):
                with suppress(ProcessLookupError):
                    kill(left, signal.SIGKILL)


@pytest.mark.parametrize("begun_by", ["forkserver", "spawn"])
def test_a_process_that_is_killed_leaves_none_that_it_began(begun_by: str, project: Path) -> None:
    """Workers, the server that forks them, and the tracker of resources are all in its session."""
    with beginner(project, begun_by) as process:
        began = in_session(process.pid) - {process.pid}
        assert len(began) >= 3, "two workers, and at least what tracks their resources"
        process.kill()
        until(lambda: not in_session(process.pid), PATIENCE_S)


def test_workers_ignore_interrupts_of_a_terminal() -> None:
    """Whoever leaves the `with` statement ends them, so that a user sees one message."""
    with worker_pool(1) as workers:
        assert workers.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
