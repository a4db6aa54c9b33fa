"""Parties on hosts of this machine, seen from outside: processes, and what ledgers say (Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.hosts.policy import LEDGER
from harness.privacy.ledger.entries import Ledger
from harness.security_models import Model
from tests.support.command import processes_below
from tests.support.running import until


def party_on(directory: Path) -> int:
    """Return the process of the party whose host has this directory."""
    return next(pid for pid, cwd in processes_below(directory).items() if cwd.name == "party")


def is_running(directory: Path, i: int, model: Model) -> bool:
    """Return whether a party has drawn its bits, and has become the virtual machine if there is one."""
    for pid, cwd in processes_below(directory).items():
        machine = Path(f"/proc/{pid}/exe").resolve().name  # a process that has ended meanwhile has none
        if os.path.lexists(cwd / "Player-Data" / f"Input-P{i}-0"):
            return model.virtual_machine in (None, machine)
    return False


def hold_midway(run: subprocess.Popen[str], directories: Sequence[Path], model: Model) -> None:
    """Stop party 0 of a run that has been started, so that the others wait for it, when all are running."""
    until(lambda: is_running(directories[0], 0, model) or run.poll() is not None)
    assert run.poll() is None, run.communicate()
    os.kill(party_on(directories[0]), signal.SIGSTOP)
    until(lambda: all(is_running(directory, i, model) for i, directory in enumerate(directories)))


def charges(directory: Path, population: str = "people") -> list[tuple[str, str]]:
    """Return what a host's own ledger says that these people spent, and what became of each run."""
    if not (directory / LEDGER).exists():
        return []
    found = [each for each in Ledger(directory / LEDGER).populations() if each.name == population]
    return [(str(charge.exact.epsilon), str(charge.status)) for each in found for charge in each.charges]
