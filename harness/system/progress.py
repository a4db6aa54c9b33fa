"""How far the running step is: told where the work is done, heard by whoever shows it, if anybody does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[int, int], None]

_listener: Listener | None = None


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have the listener told, while the block runs, how many of how many parts of a step are done."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


@contextmanager
def part(number: int, of: int) -> Iterator[None]:
    """Have what is told in the block count as one of so many parts of the step, alike in size, from 0 on."""
    whole = _listener
    with listening(lambda done, total: whole(number * total + done, of * total) if whole else None):
        yield


def tell(done: int, of: int) -> None:
    """Say how many parts of the running step are done. Both numbers are public, as of clients."""
    if _listener is not None:
        _listener(done, of)
