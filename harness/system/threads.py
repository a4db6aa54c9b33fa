"""Threads that take over the context of whoever begins them, with the surface that messages are for.

Python's own threads begin with an empty context, so that a message which is made in one of them would be
written as for a caller of Python, also in a command.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ContextThread(threading.Thread):
    """A thread in a copy of the context in which `start` is called.

    No other module begins threads of its own.  [test: tests/harness/system/test_threads.py]
    """

    def start(self) -> None:
        """Begin the thread."""
        self._begun_in = copy_context()
        super().start()

    def run(self) -> None:
        """Call the thread's function in that context."""
        self._begun_in.run(super().run)


class ContextTimer(ContextThread, threading.Timer):
    """A timer whose function is called in a copy of the context in which `start` is called."""


@dataclass(frozen=True)
class _InContext(Generic[P, T]):
    """A function that is called in a context."""

    context: Context
    function: Callable[P, T]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.context.run(self.function, *args, **kwargs)


class ContextPool(ThreadPoolExecutor):
    """A pool of threads, in which each call has a copy of the context in which it was submitted."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a thread call a function, and return what will hold its result."""
        return super().submit(_InContext(copy_context(), function), *args, **kwargs)
