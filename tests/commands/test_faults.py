"""What happens to a run that is hit, ended in each of its phases, or has a full disk: one clear error.

Nothing secret, no process and nothing half-written is left, and the next run goes well.
"""

import os
import re
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from fairshares.harness.cli.terminal import INTERRUPTED
from fairshares.harness.engines.mpspdz.peer_certificates import LIBRARY
from fairshares.harness.engines.parties.working_directory import DATA, MET
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from tests.support.command import CODES, call, command, files_below, finish, processes_below, start, succeed
from tests.support.midway import A_PROGRAM_IS_WRITTEN, PARTY_0_BEGINS, ended, wait_until_stopped
from tests.support.running import model_parameters, until
from tests.support.surroundings import Surroundings, scratch_below

pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")

ON_BOTH_ENGINES = pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
SPENT = (
    "Spent: ε = 0.9971 and δ = 7.051e-14 by weights, as its parties may have started; no ledger counts it."
)
RESULT = {"results", "results/weights.json", "results/manifest.json"}


class Hit:
    """A `weights` command in the midst of a run: party 0 has stopped, and the others wait for it.

    By then every party's directory holds its own key and shares only, and its bits are in no file.
    """

    def __init__(self, model: SecurityModel, here: Path, around: Surroundings) -> None:
        self.model, self.here = model, here
        self.before = files_below(here)
        self.arguments = ["weights", "--records", "records.csv", "--epsilon", "1", "--security", model.name]
        if model.stated_parties is not None:
            self.arguments += ["--parties", str(model.parties)]
        self.arguments += ["--out", "results"]
        around.stop_where(PARTY_0_BEGINS)
        self.process = start(*self.arguments, "--timeout", "300", cwd=here, environment=around.environment)
        wait_until_stopped(here, ended(self.process))
        until(lambda: all(map(self.is_running, range(1, model.parties))))
        for i, pid in self.parties().items():
            check_own_secrets_only(i, model.parties, Path(f"/proc/{pid}/cwd").readlink())

    def parties(self) -> dict[int, int]:
        """Return the parties' process numbers, by party."""
        processes = processes_below(self.here)
        return {int(cwd.name[6:]): pid for pid, cwd in processes.items() if cwd.name.startswith("party-")}

    def is_running(self, i: int) -> bool:
        """Return whether a party has drawn its bits, and has become the virtual machine if there is one."""
        pid, machine = self.parties()[i], self.model.virtual_machine
        bits = Path(f"/proc/{pid}/cwd", DATA, f"Input-P{i}-0")
        return os.path.lexists(bits) and machine in (None, Path(f"/proc/{pid}/exe").readlink().name)

    def end(self, code: int) -> str:
        """Check that the command ends, with this code, that no process is left; return what it said."""
        done = finish(self.process)
        assert done.returncode in (CODES if code == 1 else {code}), done.stderr
        assert "Traceback" not in done.stderr and done.stdout == ""
        until(lambda: processes_below(self.here) == {})
        return re.sub(r"(?s).*?(?=Error: |Interrupted: |\Z)", "", done.stderr, count=1).strip()

    def left_nothing(self) -> bool:
        return files_below(self.here) == self.before

    def works_again(self) -> bool:
        """Run the same once more, undisturbed; what the first one may have left is gone then."""
        done = call(*self.arguments, cwd=self.here)
        return done.returncode == 0 and files_below(self.here) == self.before | RESULT


def check_own_secrets_only(i: int, parties: int, directory: Path) -> None:
    """Check that a running party's directory holds what it should, to the file: no bits, no others' keys."""
    others = [j for j in range(parties) if j != i]
    expected = {
        *("started", "party.json", "log", "peers", *(f"peers/P{j}.pem" for j in others), DATA),
        *(f"{DATA}/{name}" for name in (f"P{i}.key", *(f"P{j}.pem" for j in range(parties)))),
        *(f"{DATA}/{name}" for name in (f"Input-Binary-P{i}-0", f"Input-P{i}-0")),
    }
    hashes = {str(path.relative_to(directory)) for path in (directory / DATA).glob("*.0")}
    on_machines = {"hosts", "Programs", LIBRARY, MET}
    on_mpyc = {".config", MET}
    on_mpyc |= {f".config/{name}" for name in ("mpyc_ca.crt", f"party_{i}.crt", f"party_{i}.key")}
    of_the_engine = on_machines if (directory / "hosts").exists() else on_mpyc
    names = files_below(directory)
    # MPyC's own files come a moment after the bits.
    assert expected | hashes <= names <= expected | hashes | of_the_engine and len(hashes) == parties

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    secret = [directory / DATA / name for name in (f"P{i}.key", f"Input-Binary-P{i}-0")]
    assert {stat.S_IMODE(path.lstat().st_mode) for path in secret} == {0o600}
    bits = directory / DATA / f"Input-P{i}-0"
    assert bits.is_symlink() and str(bits.readlink()).startswith("/dev/fd/")


@ON_BOTH_ENGINES
def test_a_killed_party_is_named(model: SecurityModel, here: Path, around: Surroundings) -> None:
    run = Hit(model, here, around)
    os.kill(run.parties()[1], signal.SIGKILL)
    said = run.end(1)
    assert said.startswith("Error: Party 1 was killed by SIGKILL; the others were stopped")
    assert "no result was written" in said and said.endswith(f"\n{SPENT}")
    assert run.left_nothing() and run.works_again()


@pytest.mark.mpspdz("semi2k")
def test_a_killed_party_of_ten_is_named(here: Path, around: Surroundings) -> None:
    """Nine lose their links to it at once, and to each other as they end."""
    run = Hit(get_model("semi2k", 10), here, around)
    os.kill(run.parties()[7], signal.SIGKILL)
    said = run.end(1)
    assert said.startswith("Error: Party 7 was killed by SIGKILL; the others were stopped")
    assert "no result was written" in said and said.endswith(f"\n{SPENT}")
    assert run.left_nothing()


@ON_BOTH_ENGINES
def test_a_party_that_hangs_is_named_after_the_timeout(
    model: SecurityModel, here: Path, around: Surroundings
) -> None:
    run = Hit(model, here, around)
    around.put_clock_forward()
    said = run.end(1)
    assert "Error: Parties 0, 1, 2 had not finished after 300 s (stopped: 0); all were stopped" in said
    assert run.left_nothing() and run.works_again()


@ON_BOTH_ENGINES
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_an_interrupted_command_stops_its_parties(
    number: signal.Signals, model: SecurityModel, here: Path, around: Surroundings
) -> None:
    """Ctrl-C reaches the command's whole process group, of which the parties are no part."""
    run = Hit(model, here, around)
    os.killpg(run.process.pid, number)
    assert run.end(130) == f"{INTERRUPTED}\n{SPENT}" and run.left_nothing() and run.works_again()


@ON_BOTH_ENGINES
def test_parties_die_with_a_killed_command(model: SecurityModel, here: Path, around: Surroundings) -> None:
    """Files are left then, until the next command; none of them is what a second run could start from."""
    run = Hit(model, here, around)
    run.process.kill()
    run.end(-signal.SIGKILL)
    assert not (here / "results").exists() and run.works_again()


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


# What a run says of each step when it is done, and so what it was about when it failed.
PREPARING = "clients: split|parties: add up|compile the program"  # which are its own files, not the parties'
RUNNING, WRITING = "compile the program|parties: add up", "parties: run"


def weights(
    here: Path, around: Surroundings, model: SecurityModel, out: str = "results", **environment: str
) -> subprocess.CompletedProcess[str]:
    environment |= around.environment
    return command(*WEIGHTS[:-1], out, "--security", model.name, cwd=here, environment=environment)


def check_failed(done: subprocess.CompletedProcess[str], after: str, message: str, here: Path) -> None:
    """Check that a command failed right after a step, said so in one sentence, and left no process."""
    assert done.returncode in CODES and done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if " s so far" not in line]
    spent = []
    while lines[-1].startswith("Spent: ε = "):  # of each release
        spent.append(lines.pop())
    *steps, said = lines
    assert re.match(after, steps[-1]) and re.search(message, said), done.stderr
    assert said.startswith("Error: ") and "Error" not in "".join(steps) and "Traceback" not in done.stderr
    began = after != PREPARING and "compiler" not in said
    assert bool(spent) == (began and not (after == RUNNING and "Cannot write" in said))
    assert scratch_below(here) == [] and processes_below(here) == {}


@ON_BOTH_ENGINES
def test_what_is_written_does_not_fit(model: SecurityModel, here: Path, around: Surroundings) -> None:
    """A limit on the length of files can be tried on any machine; the last file is refused by name."""
    assert weights(here, around, model, "first").returncode == 0  # and the program is compiled
    before = files_below(here)
    for limit, after, message in (
        (100, PREPARING, r"Cannot write to results: File too large; no result was written"),
        # A party's configuration, which is longer in MP-SPDZ's models, or the first longer file.
        (800, RUNNING, r"Party \d ended |Cannot write to results: File too large; no result was written"),
        (None, WRITING, r"Cannot write to results: No space left on device; no result was written"),
    ):
        around.limit_files(limit)
        if limit is None:
            around.fill_up_at("manifest.json")
        check_failed(weights(here, around, model), after, message, here)
        assert files_below(here) == before
    around.fill_up_at("nothing")
    assert weights(here, around, model).returncode == 0 and files_below(here) == before | RESULT
