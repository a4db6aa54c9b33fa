"""Many processes on one ledger: budgets hold to the last bit, and what a killed one had charged stays."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.errors import LedgerError
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Population, Status
from tests.conftest import PROJECT
from tests.support.running import until

PROCESSES = 5
TIMEOUT_S = 600


@contextlib.contextmanager
def chargers(
    path: Path, budget: str, epsilon: str, times: int, *more: str, count: int = PROCESSES
) -> Iterator[list[subprocess.Popen[str]]]:
    """Start processes that charge (`one_charger.py`), all at once when all of them are ready."""
    script = PROJECT / "tests" / "support" / "one_charger.py"
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(path), budget, epsilon, str(times), *more],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def charges(path: Path) -> int:
    return sum(len(population.charges) for population in Ledger(path).populations()) if path.exists() else 0


def only(path: Path) -> Population:
    (population,) = Ledger(path).populations()
    return population


def test_a_copy_is_one_state_while_others_charge(tmp_path: Path) -> None:
    """Each copy is a sound ledger with the first charges, and no more of a charge than all of it."""
    path = tmp_path / "ledger.sqlite"
    with chargers(path, "1000", "1/10", 11, count=2) as processes:
        until(path.exists)
        for number in range(5):
            Ledger(path).copy_to(tmp_path / f"copy-{number}.sqlite")
        for process in processes:
            process.wait(TIMEOUT_S)
    numbers = [charge.id for charge in only(path).charges]
    assert len(numbers) == 22
    before = 0
    for number in range(5):
        copy = tmp_path / f"copy-{number}.sqlite"
        assert copy.stat().st_mode & 0o777 == 0o600
        copied = [charge.id for people in Ledger(copy).populations() for charge in people.charges]
        assert copied == numbers[: len(copied)] and len(copied) >= before
        before = len(copied)
    with pytest.raises(LedgerError, match="no copy replaces a file"):
        Ledger(path).copy_to(tmp_path / "copy-0.sqlite")
    with pytest.raises(LedgerError, match="there is none to copy"):
        Ledger(tmp_path / "none").copy_to(tmp_path / "copy")
    assert {file.name for file in tmp_path.iterdir()} == {path.name, *(f"copy-{i}.sqlite" for i in range(5))}


@pytest.mark.parametrize(
    ("budget", "epsilon", "fit"),
    [("1", "1", 1), ("1", "1/10", 10), ("2", "3/7", 4)],
    ids=["one fits", "ten fit", "four fit, and a rest"],
)
def test_a_race_for_a_budget(budget: str, epsilon: str, fit: int, tmp_path: Path) -> None:
    """All begin at once on a ledger that is not there yet; none fails but for the budget."""
    path = tmp_path / "runs" / "ledger.sqlite"
    with chargers(path, budget, epsilon, 11) as processes:
        said = [process.communicate(timeout=TIMEOUT_S) for process in processes]
    assert [err for _, err in said] == [""] * PROCESSES
    lines = [line for out, _ in said for line in out.split()]
    assert lines.count("refused") == PROCESSES
    charged = sorted(int(line) for line in lines if line != "refused")
    population = only(path)
    assert charged == [charge.id for charge in population.charges] and len(charged) == fit
    assert population.spent.epsilon == fit * Fraction(epsilon) <= Fraction(budget)
    assert [entry.name for entry in path.parent.iterdir()] == ["ledger.sqlite"]


def test_killed_processes_lose_no_charge(tmp_path: Path) -> None:
    """What a process was told is charged stays so; at most the charge it was at is there besides, whole."""
    path = tmp_path / "ledger.sqlite"
    with chargers(path, "1000000", "1", 10_000) as processes:
        for i, process in enumerate(processes):
            until(lambda: charges(path) > 2 * (PROCESSES + i))  # noqa: B023
            process.kill()
        said = [process.communicate(timeout=TIMEOUT_S) for process in processes]
    announced = {int(line) for out, _ in said for line in out.split("\n")[:-1] if line}
    population = only(path)
    charged = {charge.id for charge in population.charges}
    assert announced and announced <= charged and len(charged - announced) <= PROCESSES
    assert {charge.status for charge in population.charges} == {Status.ABORTED}
    assert population.spent.epsilon == len(charged)
    with chargers(path, "1000000", "1", 1, count=1) as (process,):
        assert int(process.communicate(timeout=TIMEOUT_S)[0]) == max(charged) + 1


def test_a_process_killed_inside_a_transaction_leaves_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with chargers(path, "9", "1", 2, count=1) as (process,):
        process.communicate(timeout=TIMEOUT_S)
    before = only(path)
    with chargers(path, "9", "1", 1, "hang", count=1) as (process,):
        assert process.stdout is not None and process.stdout.readline() == "inside\n"
        process.kill()
        process.wait()
        assert only(path) == before
        with chargers(path, "9", "1", 1, count=1) as (other,):
            assert other.communicate(timeout=TIMEOUT_S) == ("3\n", "")
