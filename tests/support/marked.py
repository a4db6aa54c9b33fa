"""Noise that tells which piece it is, and processes that are killed at a step: whether it is opened twice."""

import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import forkserver
from multiprocessing.forkserver import ForkServer
from pathlib import Path
from types import FrameType
from typing import Any

from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.errors import FairSharesError
from fairshares.harness.privacy.stock import PieceRecord, Stock, shares_of

MARK = "mark"
# Where a piece, its charge and what hosts agree on are handled, not where something is waited for.
STEPS = tuple(
    os.fspath(PROJECT / "fairshares" / "harness" / name)
    for name in ("privacy", "pipeline", "hosts", "system/files.py", "system/result_files.py")
)


def keep_marked(stock: Stock, terms: str, parties: int, mark: int) -> None:
    """Take in a piece that a test's program opens; it holds its mark in place of shares."""
    attempts, made = stock.begin(terms), stock.directory / f"made-{mark}"
    for place in shares_of(made, parties):
        place.mkdir(parents=True)
        (place / MARK).write_text(str(mark))
    stock.keep(terms, f"{mark:064x}", made, PieceRecord(attempts=attempts))


def open_mark(piece: Path, opened: Path) -> None:
    """Write, for good, which piece was opened. Args: piece: a party's part of it."""
    mark = (piece / MARK).read_text()
    with opened.open("a") as file:
        file.write(f"{mark}\n")
        file.flush()
        os.fsync(file.fileno())


def kill_at_random_steps(
    run: Callable[[int], object], fill: Callable[[range], None], stock: Stock, points: int = 50
) -> None:
    """Kill runs at so many random steps; a third come to their end. Every fifth has the stock of before.

    Args: run: is given its number; fill: takes in pieces of these marks.
    """
    copy, rng, killed, number = stock.directory.with_name("copy"), random.Random(1), 0, 2
    fill(range(2))
    steps = [steps_until_killed(partial(run, i)) for i in range(2)][1]  # the first one makes files
    while killed < points:
        number += 1
        if number % 5 == 1 or not any(stock.directory.glob("*/*/")):
            fill(range(8 * number, 8 * number + 8))
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(stock.directory, copy)
        elif number % 5 == 0:
            shutil.rmtree(stock.directory, ignore_errors=True)
            shutil.copytree(copy, stock.directory)
        killed += not steps_until_killed(partial(run, number), rng.randint(1, steps * 3 // 2))
    shutil.rmtree(copy)


def steps_until_killed(run: Callable[[], object], at: int = 0, within: tuple[str, ...] = STEPS) -> int:
    """Run in a process of its own, which is killed at a step; return how many it took if it was not.

    Args: run: it may be refused; at: the line, from 1 on; 0: at none; within: the files whose lines count.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        ForkServer.__init__(forkserver._forkserver)  # the parent's is not this process's child
        number, code = 0, 1

        def at_a_line(_frame: FrameType, event: str, _value: Any) -> Any:
            nonlocal number
            number += event == "line"
            if number == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return at_a_line

        def at_a_call(frame: FrameType, _event: str, _value: Any) -> Any:
            return at_a_line if frame.f_code.co_filename.startswith(within) else None

        try:
            sys.settrace(at_a_call)
            with suppress(FairSharesError):
                run()
            sys.settrace(None)
            os.write(writing, str(number).encode())
            code = 0
        except BaseException:  # noqa: BLE001  # which a test that fails shows
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == (0 if said else -signal.SIGKILL), ended
    return int(said or 0)
