"""What happens to a run that is hit: the error names the party, nothing secret and no process is left."""

import os
import re
import signal
import stat
from pathlib import Path

import pytest

from harness.cli.terminal import INTERRUPTED
from harness.engines.mpspdz.peer_certificates import LIBRARY
from harness.engines.parties.working_directory import DATA, MET
from harness.security_models import MODELS, SecurityModel
from tests.support.command import call, files_below, finish, processes_below, start
from tests.support.midway import PARTY_0_BEGINS, ended, wait_until_stopped
from tests.support.running import model_parameters, until
from tests.support.surroundings import Surroundings

pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")

ON_BOTH_ENGINES = pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
MPYC_FILES = [{f".config/{n}" for n in ("mpyc_ca.crt", f"party_{i}.crt", f"party_{i}.key")} for i in range(3)]
SPENT = "Spent: ε = 0.9971 and δ = 7.051e-14 by weights, as its parties had started; no ledger counts it."
RESULT = {"results", "results/weights.json", "results/manifest.json"}


class Hit:
    """A `weights` command in the midst of a run: party 0 has stopped, and the others wait for it.

    By then every party's directory holds its own key and shares only, and its bits are in no file.
    """

    def __init__(self, model: SecurityModel, here: Path, around: Surroundings) -> None:
        self.model, self.here = model, here
        self.before = files_below(here)
        self.arguments = ["weights", "--records", "records.csv", "--epsilon", "1", "--security", model.name]
        self.arguments += ["--out", "results"]
        around.stop_where(PARTY_0_BEGINS)
        self.process = start(*self.arguments, "--timeout", "300", cwd=here, environment=around.environment)
        wait_until_stopped(here, ended(self.process))
        until(lambda: all(map(self.is_running, range(1, model.parties))))
        for i, pid in self.parties().items():
            check_own_secrets_only(i, Path(f"/proc/{pid}/cwd").readlink())

    def parties(self) -> dict[int, int]:
        """Return the parties' process numbers, by party."""
        found = processes_below(self.here)
        return {int(cwd.name[6:]): pid for pid, cwd in found.items() if cwd.name.startswith("party-")}

    def is_running(self, i: int) -> bool:
        """Return whether a party has drawn its bits, and has become the virtual machine if there is one."""
        pid, machine = self.parties()[i], self.model.virtual_machine
        bits = Path(f"/proc/{pid}/cwd", DATA, f"Input-P{i}-0")
        return os.path.lexists(bits) and machine in (None, Path(f"/proc/{pid}/exe").readlink().name)

    def end(self, code: int) -> str:
        """Check that the command ends, with this code, that no process is left; return what it said."""
        done = finish(self.process)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr and done.stdout == ""
        until(lambda: processes_below(self.here) == {})
        return re.sub(r"(?s).*?(?=Error: |Interrupted: |\Z)", "", done.stderr, count=1).strip()

    def left_nothing(self) -> bool:
        return files_below(self.here) == self.before

    def works_again(self) -> bool:
        """Run the same once more, undisturbed; what the first one may have left is gone then."""
        done = call(*self.arguments, cwd=self.here)
        return done.returncode == 0 and files_below(self.here) == self.before | RESULT


def check_own_secrets_only(i: int, directory: Path) -> None:
    """Check that a running party's directory holds what it should, to the file: no bits, no others' keys."""
    others = [j for j in range(3) if j != i]
    expected = {
        *("started", "party.json", "log", "peers", *(f"peers/P{j}.pem" for j in others), DATA),
        *(f"{DATA}/{name}" for name in (f"P{i}.key", "P0.pem", "P1.pem", "P2.pem")),
        *(f"{DATA}/{name}" for name in (f"Input-Binary-P{i}-0", f"Input-P{i}-0")),
    }
    hashes = {str(path.relative_to(directory)) for path in (directory / DATA).glob("*.0")}
    on_machines, on_mpyc = {"hosts", "Programs", LIBRARY, MET}, {".config", MET, *MPYC_FILES[i]}
    of_the_engine = on_machines if (directory / "hosts").exists() else on_mpyc
    found = files_below(directory)
    # MPyC's own files come a moment after the bits.
    assert expected | hashes <= found <= expected | hashes | of_the_engine and len(hashes) == 3

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
    assert run.end(130) == f"{INTERRUPTED}\n{SPENT}"
    assert run.left_nothing() and run.works_again()


@ON_BOTH_ENGINES
def test_parties_die_with_a_killed_command(model: SecurityModel, here: Path, around: Surroundings) -> None:
    """Files are left then, until the next command; none of them is what a second run could start from."""
    run = Hit(model, here, around)
    run.process.kill()
    run.end(-signal.SIGKILL)
    assert not (here / "results").exists() and run.works_again()
