"""Progress of the running step, for whoever shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[int, int], None]

_listener: Listener | None = None


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell the listener, while the block runs, how many of a step's parts are done."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


@contextmanager
def part(number: int, of: int) -> Iterator[None]:
    """Count progress in the block as part `number` (from 0) of `of` equal parts."""
    whole = _listener
    with listening(lambda done, total: whole(number * total + done, of * total) if whole else None):
        yield


def tell(done: int, of: int) -> None:
    """Report how many parts of the step are done, both public numbers."""
    if _listener is not None:
        _listener(done, of)
