"""Parties on hosts of this machine, seen from outside: processes, and what ledgers say (Linux)."""

import os
from collections.abc import Callable
from pathlib import Path

from harness.hosts.policy import LEDGER
from harness.privacy.ledger.entries import Ledger
from harness.security_models import SecurityModel
from tests.support.command import processes_below
from tests.support.midway import PARTY_0_BEGINS, stopping_where, wait_until_stopped
from tests.support.running import until
from tests.support.ssh import Site, copy_of_project


def party_on(directory: Path) -> int:
    """Return the process of the party whose host has this directory."""
    return next(pid for pid, cwd in processes_below(directory).items() if cwd.name == "party")


def parent(pid: int) -> int:
    """Return a process's parent: of a party, its host's agent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_running(directory: Path, i: int, model: SecurityModel) -> bool:
    """Return whether a party has drawn its bits, and has become the virtual machine if there is one."""
    for pid, cwd in processes_below(directory).items():
        machine = Path(f"/proc/{pid}/exe").resolve().name  # a process that has ended meanwhile has none
        if os.path.lexists(cwd / "Player-Data" / f"Input-P{i}-0"):
            return model.virtual_machine in (None, machine)
    return False


def have_party_0_stop(made: Site) -> None:
    """Have party 0 of the next run stop before it becomes the engine, so that the others wait for it."""
    project = _project_that_stops(made)
    if not project.exists():
        copy_of_project(project, stopping_where(PARTY_0_BEGINS))
    (project / "stop").touch()
    made.with_host(0, project=str(project))


def wait_until_midway(made: Site, model: SecurityModel, has_ended: Callable[[], bool]) -> None:
    """Wait until all other parties run, and wait for party 0; the next run goes through."""
    wait_until_stopped(made.directory(0), has_ended)
    (_project_that_stops(made) / "stop").unlink()
    made.write()
    until(lambda: all(is_running(made.directory(i), i, model) for i in range(1, model.parties)))


def _project_that_stops(made: Site) -> Path:
    return made.home.parent / "stopping"


def charges(directory: Path, population: str = "people") -> list[tuple[str, str]]:
    """Return what a host's own ledger says that these people spent, and what became of each run."""
    if not (directory / LEDGER).exists():
        return []
    found = [each for each in Ledger(directory / LEDGER).populations() if each.name == population]
    return [(str(charge.exact.epsilon), str(charge.status)) for each in found for charge in each.charges]
