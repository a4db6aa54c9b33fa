"""Messages to whoever shows a run: the progress of its step, and sentences."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ProgressListener = Callable[[int, int], None]
"""Receives how many parts of a step are done, and how many there are."""

Say = Callable[[str], None]
"""Receives a sentence for the user."""

_listener: ProgressListener | None = None


def nothing_said(_sentence: str) -> None:
    """Say nothing."""


@contextmanager
def listening(listener: ProgressListener) -> Iterator[None]:
    """Tell the listener, while the block runs, how many of a step's parts are done."""
    global _listener
    before = _listener
    _listener = listener
    try:
        yield
    finally:
        _listener = before


@dataclass(frozen=True)
class _Part:
    """One of several equal parts of a step.

    Attributes:
        listener: The function that is told of the step; None for nobody.
        number: The number of the part, from 0.
        parts: The number of parts.
    """

    listener: ProgressListener | None
    number: int
    parts: int

    def told(self, done: int, total: int) -> None:
        """Report how many parts of this part are done."""
        if self.listener is not None:
            self.listener(self.number * total + done, self.parts * total)


@contextmanager
def part_of_step(number: int, parts: int) -> Iterator[None]:
    """Count progress in the block as progress of part `number` (from 0) of a step of equal parts."""
    with listening(_Part(_listener, number, parts).told):
        yield


def tell(done: int, total: int) -> None:
    """Report how many parts of the step are done, and how many there are; both are public."""
    if _listener is not None:
        _listener(done, total)
