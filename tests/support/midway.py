"""Processes that stop themselves midway, where a test finds them; parties on this machine's hosts (Linux)."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.processes import is_stopped
from tests.support.command import processes_below
from tests.support.running import until
from tests.support.ssh import Site, copy_of_project

# Where, by what Python says of itself as it runs (an audit event): party 0 has drawn its bits or noise and
# becomes the engine, for which the others wait; the compiler begins to write a program.
PARTY_0_BEGINS = (
    '(event == "os.exec" or event == "exec" and "mpyc/party.py" in str(arguments[0]))'
    ' and os.path.lexists("Player-Data/Input-P0-0")'
)
A_PROGRAM_IS_WRITTEN = 'event == "open" and "Programs/Bytecode" in str(arguments[0])'


def stopping_where(condition: str) -> str:
    """Return a `sitecustomize` by which a process stops when it is there, if a file `stop` is beside that."""
    return (
        "import os, signal, sys\n"
        "def stop(event, arguments):\n"
        f"    if {condition} and os.path.exists(os.path.join(os.path.dirname(__file__), 'stop')):\n"
        "        os.kill(os.getpid(), signal.SIGSTOP)\n"
        "sys.addaudithook(stop)\n"
    )


def wait_until_stopped(directory: Path, has_ended: Callable[[], bool]) -> int:
    """Wait for a process in or below a directory to have stopped; return its number.

    Args: has_ended: whether nothing is to be waited for any more, which is a failure.
    """
    until(lambda: stopped_below(directory) != [] or has_ended())
    (process,) = stopped_below(directory)
    return process


def stopped_below(directory: Path) -> list[int]:
    """Return the processes that are stopped in or below a directory."""
    return [process for process in processes_below(directory) if is_stopped(process)]


def ended(run: subprocess.Popen[str]) -> Callable[[], bool]:
    """Return what tells whether a command has ended; it fails with what was said then."""

    def has_ended() -> bool:
        assert run.poll() is None, run.communicate()
        return False

    return has_ended


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
    populations = [
        candidate for candidate in Ledger(directory / LEDGER).populations() if candidate.name == population
    ]
    return [
        (str(charge.exact.epsilon), str(charge.status))
        for charged in populations
        for charge in charged.charges
    ]
