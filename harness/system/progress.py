"""Progress of the running step, for whoever shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[int, int], None]

_listener: Listener | None = None


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell the listener, while the block runs, how many of a step's parts are done."""
    global _listener
    before = _listener
    _listener = listener
    try:
        yield
    finally:
        _listener = before


@contextmanager
def part_of_step(number: int, parts: int) -> Iterator[None]:
    """Count progress in the block as that of part `number` (from 0) of a step of equal parts."""
    outer = _listener

    def told(done: int, total: int) -> None:
        if outer is not None:
            outer(number * total + done, parts * total)

    with listening(told):
        yield


def tell(done: int, total: int) -> None:
    """Report how many parts of the step are done, and how many there are; both are public."""
    if _listener is not None:
        _listener(done, total)
