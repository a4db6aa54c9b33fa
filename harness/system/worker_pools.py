"""Pools of worker processes, which end when the process that began them ends, even if that is killed.

No other module begins processes of `multiprocessing`.  [test: tests/project/test_layout.py]
"""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Literal

from fairshares.harness.errors import Surface, surface_now, write_for
from fairshares.harness.system.threads import ContextThread


def worker_pool(
    processes: int, begun_by: Literal["forkserver", "spawn"] = "forkserver"
) -> ProcessPoolExecutor:
    """Return a pool of processes for a `with` statement.

    Messages of workers are for the surface that this process writes for now. Workers ignore interrupts from
    the terminal, as leaving the `with` statement ends them.

    Guarantees: if the process that calls this is killed, its workers end, and so do the server that forks
    them and the tracker of their resources.  [test: tests/harness/system/test_worker_pools.py]

    Args:
        processes: The number of workers.
        begun_by: How a worker begins: as a fork of a server that all pools of this process share, which is
            quick, or as a new process with a memory of its own.
    """
    return ProcessPoolExecutor(processes, get_context(begun_by), _begin_worker, (surface_now(),))


def _begin_worker(surface: Surface) -> None:
    """Prepare this process, which is a worker for whoever reads messages on a surface."""
    write_for(surface)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ContextThread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the process that began this worker ends, and end the worker.

    A worker that waits for work notices nothing by itself, as each worker holds both ends of the pool's
    queues. Server and tracker end once no worker has the other ends of their pipes.
    """
    parent = parent_process()
    assert parent is not None, "a worker has a parent"
    parent.join()
    os._exit(1)
