"""Adopts a ledger, again and again, killed before each system call of that: `one_adopter.py DIRECTORY MODE`.

MODE: delete or wal, the journal that the old ledger was written with. It is killed from the first write on.
Each time the old ledger, or the new one, is opened first, as it was left; then it is checked that exactly
one of them takes charges, and has all of them, and that adopting once more completes it. Prints how often it
was killed, and how often the old one was the one; or `untraceable`, where no process may be traced.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from harness.errors import AdoptedError, UsedUploadsError
from harness.privacy.ledger import entries as ledger_module
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import PrivacyEvent, Status
from protocols.accounting.calibration import Budget, NeighboringRelation, PrivacyUnit
from protocols.noise.truncated import Guarantee

HERE, MODE = Path(sys.argv[1]), sys.argv[2]
OLD, NEW = HERE / "old" / "ledger.sqlite", HERE / "new" / "ledger.sqlite"
TRACE_ME, TO_NEXT_CALL = 0, 24  # requests of ptrace
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def charge(path: Path, name: str | None, budget: int | None, *uploads: str) -> None:
    kind = PrivacyUnit.RECORD, NeighboringRelation.ADD_OR_REMOVE_ONE
    spent = Guarantee(Fraction(1), Fraction(0))
    limit = None if budget is None else Budget(Fraction(budget))
    number, _ = Ledger(path).charge(
        name, limit, PrivacyEvent("t", "m", spent, *kind, Path("out"), None, uploads)
    )
    Ledger(path).settle(number, Status.DONE)


def make() -> None:
    """Make a ledger, and another with some of the same people."""
    for name, budget, uploads in (("loans", 9, "ab"), ("cards", 5, ""), (None, None, "c")):
        charge(OLD, name, budget, *uploads)
    charge(NEW, "loans", None, "d")
    charge(NEW, "others", 7)
    with closing(sqlite3.connect(OLD)) as connection:
        connection.execute(f"PRAGMA journal_mode={MODE}")


def move(connection: sqlite3.Connection, old: Path) -> None:
    """Begin to write, and to stop at each call."""
    if libc.ptrace(TRACE_ME, 0, None, None):
        os._exit(3)
    os.kill(os.getpid(), signal.SIGSTOP)
    moved(connection, old)


moved = ledger_module._move


def adopt_until(stops: int) -> bool:
    """Adopt in a process that is killed at this stop, a call's begin or end; return whether it got there."""
    child = os.fork()
    if child == 0:
        ledger_module._move = move
        Ledger(NEW).adopt(Ledger(OLD), merge=True)
        os._exit(0)
    for _ in range(stops):
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                print("untraceable" if os.WEXITSTATUS(status) == 3 else f"failed: {status}")
                sys.exit()
            return False
        libc.ptrace(TO_NEXT_CALL, child, None, None)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def state(path: Path) -> dict[str, tuple[int, Budget | None]] | None:
    """Return how often each population was charged, and its budget; None of a ledger that was adopted."""
    try:
        return {each.name: (len(each.charges), each.budget) for each in Ledger(path).populations()}
    except AdoptedError:
        return None


def check(new_first: bool) -> str:
    """Look which of the two takes charges, and that it has all of them; return its name."""
    paths = (NEW, OLD) if new_first else (OLD, NEW)
    found = {path: state(path) for path in paths}
    nine, five, seven = (Budget(Fraction(limit)) for limit in (9, 5, 7))
    if found[OLD] is not None:
        assert found[OLD] == {"loans": (1, nine), "cards": (1, five)}, found
        assert found[NEW] == {"loans": (1, None), "others": (1, seven)}, found
        return "old"
    assert found[NEW] == {"loans": (2, nine), "cards": (1, five), "others": (1, seven)}, found
    for upload in "abcd":
        try:
            charge(NEW, None, None, upload)
        except UsedUploadsError:
            continue
        raise AssertionError(f"upload {upload} would be run again")
    return "new"


make()
shutil.copytree(HERE, f"{HERE}-before")
live: Counter[str] = Counter()
stops, killed = 2, True
while killed:
    shutil.rmtree(HERE)
    shutil.copytree(f"{HERE}-before", HERE)
    killed = adopt_until(stops)
    found = check(new_first=stops % 4 == 0)
    live[found] += killed
    if found == "old":
        Ledger(NEW).adopt(Ledger(OLD), merge=True)
        assert check(new_first=False) == "new"
    stops += 2
print(sum(live.values()), live["old"])
