"""A command that is ended in each of its phases: what it leaves, what the next one makes of that."""

import signal
import subprocess
from pathlib import Path

import pytest

from harness.cli.terminal import INTERRUPTED
from tests.support.command import call, files_below, finish, processes_below, start, succeed
from tests.support.midway import A_PROGRAM_IS_WRITTEN, ended, wait_until_stopped
from tests.support.running import until
from tests.support.surroundings import Surroundings, scratch_below

pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes in /proc")

SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
EACH_SIGNAL = pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
# What the phases of `weights` write that write at all: add up, write; the others are below and in
# test_faults. To be terminated is what an interrupt is, so one phase of it will do.
VALUES, WRITE = "party-1.values", "weights.json"
WRITTEN = {
    signal.SIGKILL: (VALUES, WRITE),
    signal.SIGINT: (VALUES, WRITE),
    signal.SIGTERM: (WRITE,),
}
DOMAIN = ["--groups", "a,b", "--labels", "0,1"]
WEIGHTS = ["weights", "--records", "records.csv", "--epsilon", "1", *DOMAIN, "--out", "results"]
RESULT = {"results", "results/weights.json", "results/manifest.json"}


def check_ended(process: subprocess.Popen[str], number: signal.Signals, here: Path) -> None:
    """Check that a command ended as it should, and that nothing of it runs on."""
    done = finish(process)
    if number == signal.SIGKILL:
        assert done.returncode == -number
    else:
        assert (done.returncode, done.stdout) == (130, "")
        assert done.stderr.count(INTERRUPTED) == 1 and "Traceback" not in done.stderr
        assert scratch_below(here) == []
    until(lambda: processes_below(here) == {})


@EACH_SIGNAL
def test_a_run_that_is_ended_while_it_writes(
    number: signal.Signals, here: Path, around: Surroundings
) -> None:
    """What a killed one leaves, shares among it, is gone as soon as the next one writes."""
    before = files_below(here)
    for written in WRITTEN[number]:
        around.slow_down("write", written)
        process = start(*WEIGHTS, "--security", "mpyc", cwd=here, environment=around.environment)
        around.wait_until_reached(process)
        assert len([path for path in scratch_below(here) if path.parent == here]) == 1
        process.send_signal(number)
        around.go_on()
        check_ended(process, number, here)
        assert not (here / "results").exists()
        assert number == signal.SIGKILL or files_below(here) == before
    assert call(*WEIGHTS, "--security", "mpyc", cwd=here).returncode == 0
    assert files_below(here) == before | RESULT


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_shares_and_aggregates_that_are_not_finished(
    number: signal.Signals, here: Path, around: Surroundings
) -> None:
    """A client's step and a party's: an upload is at all parties or at none, an aggregate whole."""
    share = ["share", "--records", "records.csv", *DOMAIN, "--security", "mpyc", "--out", "shares"]
    aggregate = ["aggregate", "--party", "0", "--shares", "shares", "--out", "all/party-0.aggregate"]
    for arguments, written, made in ((share, "party-1", ".share"), (aggregate, "aggregate", ".aggregate")):
        around.slow_down("write", written)
        process = start(*arguments, cwd=here, environment=around.environment)
        around.wait_until_reached(process)
        process.send_signal(number)
        around.go_on()
        check_ended(process, number, here)
        assert not list(here.glob(f"*/*{made}")) + list(here.glob(f"*/party-*/*{made}"))
        succeed(*arguments, cwd=here)
        assert scratch_below(here) == []
        assert len(list(here.rglob(f"*{made}"))) == (3 if made == ".share" else 1)


@EACH_SIGNAL
@pytest.mark.mpspdz("ring")
def test_a_run_that_is_ended_while_it_compiles(
    number: signal.Signals, here: Path, around: Surroundings, tmp_path: Path
) -> None:
    """The compiler ends with it, and no half-compiled program is used."""
    around.stop_where(A_PROGRAM_IS_WRITTEN)
    environment = {**around.environment, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    before = files_below(here)
    cache = tmp_path / "cache" / "fairshares" / "bytecode"
    process = start(*WEIGHTS, "--security", "ring", cwd=here, environment=environment)
    wait_until_stopped(cache, ended(process))
    process.send_signal(number)
    check_ended(process, number, here)
    until(lambda: processes_below(cache) == {})
    assert not (here / "results").exists()
    assert number == signal.SIGKILL or files_below(here) == before
    assert len(list(cache.iterdir())) == (number == signal.SIGKILL)
    around.go_on()
    succeed(*WEIGHTS, "--security", "ring", cwd=here, environment=environment)
    assert files_below(here) == before | RESULT
    assert len(list(cache.iterdir())) == 1 and scratch_below(cache) == []


def test_one_more_interrupt_does_not_stop_the_cleaning_up(here: Path, around: Surroundings) -> None:
    """People press Ctrl-C until it works."""
    before = files_below(here)
    around.slow_down("write", "weights.json")
    process = start(*WEIGHTS, "--security", "mpyc", cwd=here, environment=around.environment)
    around.wait_until_reached(process)
    around.slow_down("remove", "partial")
    process.send_signal(signal.SIGINT)
    around.wait_until_reached(process)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        process.send_signal(number)
    around.go_on()
    check_ended(process, signal.SIGINT, here)
    assert files_below(here) == before
