"""Interrupts: Ctrl-C, termination, loss of the terminal. The first ends a command, after it cleaned up."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_cleaning = 0
_put_off: list[int] = []


def end_at_once() -> None:
    """Have Ctrl-C end a command that has begun nothing, until `take_interrupts`.

    [test: tests/harness/system/test_signals.py]
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"\nInterrupted: nothing was begun.\n")
    os._exit(130)


def take_interrupts() -> None:
    """Have the first interrupt raise KeyboardInterrupt, and ignore later ones.

    [test: tests/harness/system/test_signals.py]
    """
    for number in INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    if _cleaning:
        _put_off.append(number)
        return
    for interrupt in INTERRUPTS:
        signal.signal(interrupt, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put interrupts off until the block is done, which stops processes or removes secrets."""
    global _cleaning
    _cleaning += 1
    try:
        yield
    finally:
        _cleaning -= 1
        if not _cleaning and _put_off:
            number = _put_off.pop()
            _put_off.clear()
            signal.raise_signal(number)
