"""A disk that fills up in each phase of a run: one clear sentence, nothing half-written, and a next run."""

import re
import subprocess
from pathlib import Path

import pytest

from harness.security_models import MODELS, SecurityModel
from tests.support.command import command, files_below, processes_below
from tests.support.running import model_parameters
from tests.support.surroundings import Surroundings, scratch_below, small_disk

DOMAIN = ["--groups", "a,b", "--labels", "0,1"]
RESULT = {"results", "results/weights.json", "results/manifest.json"}
ON_BOTH_ENGINES = pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
# What a run says of each step when it is done, and so what it was about when it failed.
PREPARING = "clients: split|parties: add up|compile the program"  # which are its own files, not the parties'
RUNNING, WRITING = "compile the program|parties: add up", "parties: run"


def weights(
    here: Path, around: Surroundings, model: SecurityModel, out: str = "results", **environment: str
) -> subprocess.CompletedProcess[str]:
    arguments = [
        "--records",
        "records.csv",
        "--epsilon",
        "1",
        *DOMAIN,
        "--security",
        model.name,
        "--out",
        out,
    ]
    environment |= around.environment
    return command("weights", *arguments, cwd=here, environment=environment)


def check_failed(done: subprocess.CompletedProcess[str], after: str, message: str, here: Path) -> None:
    """Check that a command failed right after a step, said so in one sentence, and left no process."""
    assert (done.returncode, done.stdout) == (1, "")
    lines = [line for line in done.stderr.splitlines() if " s so far" not in line]
    spent = []
    while lines[-1].startswith("Spent: ε = "):  # of each release
        spent.append(lines.pop())
    *steps, said = lines
    assert re.match(after, steps[-1]) and re.search(message, said), done.stderr
    assert said.startswith("Error: ") and "Error" not in "".join(steps) and "Traceback" not in done.stderr
    assert bool(spent) == (after != PREPARING and "compiler" not in said)
    assert scratch_below(here) == [] and processes_below(here) == {}


@ON_BOTH_ENGINES
def test_what_is_written_does_not_fit(model: SecurityModel, here: Path, around: Surroundings) -> None:
    """A limit on the length of files can be tried on any machine; the last file is refused by name."""
    assert weights(here, around, model, "first").returncode == 0  # and the program is compiled
    before = files_below(here)
    for limit, after, message in (
        (100, PREPARING, r"Cannot write to results: File too large; no result was written"),
        (800, RUNNING, r"Party \d ended "),
        (None, WRITING, r"Cannot write to results: No space left on device; no result was written"),
    ):
        around.limit_files(limit)
        if limit is None:
            around.fill_up_at("manifest.json")
        check_failed(weights(here, around, model), after, message, here)
        assert files_below(here) == before
    around.fill_up_at("nothing")
    assert weights(here, around, model).returncode == 0
    assert files_below(here) == before | RESULT


@pytest.mark.mpspdz("ring")
def test_a_compiled_program_that_does_not_fit(here: Path, around: Surroundings, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    around.limit_files(5000)
    done = weights(here, around, MODELS["ring"], XDG_CACHE_HOME=str(cache))
    check_failed(done, "parties: add up", r"compiler refused .*: OSError: .*File too large", here)
    assert [path.name for path in cache.rglob("*")] == ["fairshares", "bytecode"]
    around.limit_files(None)
    assert weights(here, around, MODELS["ring"], XDG_CACHE_HOME=str(cache)).returncode == 0


@ON_BOTH_ENGINES
def test_a_disk_without_room(model: SecurityModel, here: Path, around: Surroundings) -> None:
    """Disks, real ones in memory, of which one has too little room for shares, another for parties' files."""
    disk, full = here / "disk", "No space left on device"
    for kilobytes, after, message in (
        (8, PREPARING, rf"Cannot write to disk/results: {full}; no result was written"),
        (
            48,
            RUNNING,
            rf"Party \d ended before it was ready, with exit code 1: {full}|Cannot write to .*: {full}",
        ),
        (1024, "", ""),
    ):
        with small_disk(disk, kilobytes):
            done = weights(here, around, model, "disk/results")
            if after:
                check_failed(done, after, message, here)
            else:
                assert done.returncode == 0, done.stderr
            assert files_below(disk) == (set() if after else RESULT)


def test_a_quickstart_whose_second_result_does_not_fit(here: Path, around: Surroundings) -> None:
    """Its two runs end in one directory, which is whole or not there."""
    before = files_below(here)
    around.fill_up_at("thresholds.json")
    options = ["--security", "mpyc", "--out", "results"]
    done = command("quickstart", *options, cwd=here, environment=around.environment)
    check_failed(done, "", "Cannot write to .*: No space left on device; no result was written", here)
    assert files_below(here) == before
