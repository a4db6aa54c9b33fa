"""Runs over an emulated network, and what becomes of them when it fails."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.engines.emulated_network import links
from harness.engines.emulated_network.profiles import LAN, Network, parse_network
from harness.engines.parties import supervisor as parties
from harness.engines.registry import engine_of
from harness.errors import FairSharesError, PartyFailedError, PartyTimeoutError, RelayError
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.pipeline.run import RunSettings, run_release
from harness.pipeline.sources import RecordsSource
from harness.releases.weights import WeightsStatistic
from harness.security_models import MODELS, SecurityModel
from protocols.spec import SPLIT
from tests.support import faulty_relay
from tests.support.command import files_below, processes_below
from tests.support.requests import request_of
from tests.support.running import (
    TEST_PROGRAMS,
    Inputs,
    captured_relays,
    make_job,
    model_parameters,
    program_spec,
    until,
)

RING = MODELS["ring"]
ON_BOTH_ENGINES = pytest.mark.parametrize("model", model_parameters(models=[RING, MODELS["mpyc"]]))
pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")


@pytest.fixture
def relays(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """The relays that a test started."""
    return captured_relays(monkeypatch)


def weights(
    model: SecurityModel, network: Network | None, here: Path, timeout_s: float = 60
) -> dict[str, Any]:
    """Run π_RW on two records; return the manifest."""
    index = np.arange(2)
    records = ClientRecords(RecordDomain(("a", "b"), ("0", "1")), np.array(["c", "d"]), index, index, index)
    release = request_of(model, SPLIT, Fraction(1), Fraction(1, 2**40))
    settings, source = RunSettings(release, timeout_s, network=network), RecordsSource(records)
    return run_release(WeightsStatistic(), source, settings, here / "out", lambda step: None).manifest


@ON_BOTH_ENGINES
def test_a_run_takes_the_rounds_that_it_has(
    model: SecurityModel, relays: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """π_RW has about ten messages one after the other at least, each 20 ms under way.

    A busy machine makes what is measured worse, never better; a fault does so every time.
    """
    for attempt in range(5):
        (tmp_path / str(attempt)).mkdir()
        found = weights(model, parse_network("40ms,100Mbit"), tmp_path / str(attempt))
        network = found["network"]
        assert (network["profile"], network["rtt_s"], network["bandwidth_bits_per_s"]) == (
            "40ms,100Mbit",
            0.04,
            1e8,
        )
        assert network["measured_rtt_s"] >= 0.04 and network["measured_bandwidth_bits_per_s"] < 1.02e8
        assert found["mpc_s"] > 10 * 0.02
        assert all(relay.poll() is not None for relay in relays) and len(relays) == attempt + 1
        if network["measured_rtt_s"] < 0.06 and network["measured_bandwidth_bits_per_s"] > 5e7:
            return
    pytest.fail(f"measured {network}")


class Hit:
    """A run that a fault hits while its parties multiply, round after round, for longer than a test lasts."""

    def __init__(
        self, relays: list[subprocess.Popen[str]], here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.relays, self.here, self.work = relays, here, here / "run" / "parties"
        self.later = 0.0  # seconds that the clock of the time limit is ahead
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + self.later, sleep=time.sleep)
        monkeypatch.setattr(parties, "time", clock)

    def by(self, fault: Callable[[], None]) -> str:
        """Run to the end, with the fault in the midst of it; return what is said."""
        thread = threading.Thread(target=self._strike, args=(fault,))
        spec = program_spec("many_rounds", "begun")
        job = make_job(spec, TEST_PROGRAMS / "many_rounds.mpc", [], Inputs(), RING, self.here / "run")
        thread.start()
        with pytest.raises(FairSharesError) as error:
            engine_of(RING).run(job, RING, self.work, 600.0, lambda step: None, network=LAN)
        thread.join()
        assert files_below(self.here) == {"run"} and processes_below(self.here) == {}
        assert [relay.poll() is not None for relay in self.relays] == [True]
        self.error = type(error.value)
        return str(error.value)

    def tell(self, line: str) -> None:
        """Tell the relay of a fault."""
        relay = self.relays[0]
        assert relay.stdin is not None
        relay.stdin.write(f"{line}\n")
        relay.stdin.flush()

    def pass_time(self) -> None:
        """Have the time limit be reached in a moment."""
        time.sleep(0.2)
        self.later = 600.0

    def _strike(self, fault: Callable[[], None]) -> None:
        logs = [self.work / f"party-{i}" / "log" for i in range(RING.parties)]
        until(lambda: all(log.exists() and "OUT begun" in log.read_text() for log in logs))
        fault()


@pytest.fixture
def run(relays: list[subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hit:
    monkeypatch.setattr(links, "relay", faulty_relay)
    return Hit(relays, tmp_path, monkeypatch)


@pytest.mark.mpspdz(RING.name)
@pytest.mark.parametrize("pair", [(0, 1), (2, 1)])
def test_a_cut_link_is_nobodys_fault(pair: tuple[int, int], run: Hit) -> None:
    a, b = pair
    said = run.by(lambda: run.tell(f"cut {a} {b}"))
    assert run.error is PartyFailedError
    assert said.startswith("Connections between the parties were lost")
    assert "no party failed otherwise" in said and "no result was written" in said


@pytest.mark.mpspdz(RING.name)
def test_a_killed_party_is_named_not_its_links(run: Hit) -> None:
    def kill() -> None:
        (pid,) = (pid for pid, cwd in processes_below(run.work).items() if cwd.name == "party-1")
        os.kill(pid, signal.SIGKILL)

    said = run.by(kill)
    assert run.error is PartyFailedError
    assert said.startswith("Party 1 was killed by SIGKILL; the others were stopped and no result was written")


@pytest.mark.mpspdz(RING.name)
def test_a_killed_relay_is_named_not_the_parties_that_it_left(run: Hit) -> None:
    said = run.by(lambda: run.relays[0].kill())
    assert run.error is RelayError
    assert said == (
        "The relay that emulates network lan was killed by SIGKILL; "
        "the parties were stopped and no result was written."
    )


@pytest.mark.mpspdz(RING.name)
def test_a_relay_that_hangs_is_named_after_the_timeout(run: Hit) -> None:
    def stop() -> None:
        run.relays[0].send_signal(signal.SIGSTOP)
        run.pass_time()

    said = run.by(stop)
    assert run.error is RelayError
    assert said.startswith("The relay that emulates network lan hangs; the parties were stopped")


@pytest.mark.mpspdz(RING.name)
def test_a_link_that_falls_silent_ends_in_the_timeout(run: Hit) -> None:
    """No connection is closed, so no party can tell it from a slow one."""

    def silence() -> None:
        run.tell("link 0 1 inf 1e9")
        until(is_still)
        stalled.append(True)
        run.pass_time()

    def is_still() -> bool:
        """Return whether all parties are there, all that was on its way has arrived, and nothing follows."""
        before = sent()
        time.sleep(0.2)
        return len(before) == RING.parties and sent() == before

    def sent() -> dict[str, str]:
        """Return, for each party that runs, how often it has written to anything so far."""
        found = {}
        for pid, cwd in processes_below(run.work).items():
            if cwd.name.startswith("party-"):
                with contextlib.suppress(OSError):  # it has ended
                    found[cwd.name] = Path(f"/proc/{pid}/io").read_text().partition("syscw: ")[2].split()[0]
        return found

    stalled: list[bool] = []
    said = run.by(silence)
    assert run.error is PartyTimeoutError and stalled == [True]
    assert said.startswith("Parties 0, 1, 2 had not finished after 600 s; all were stopped and no result")
    assert said.endswith("Give more time with --timeout. The network between them was lan.")


@pytest.mark.mpspdz(RING.name)
def test_links_that_are_too_slow_end_in_the_timeout(
    relays: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """In 20 s a link carries 2.5 kB, less than the parties' certificates; 3 s do if all start by then."""
    for timeout_s in (3.0, 20.0):
        with pytest.raises(PartyTimeoutError) as error:
            weights(RING, parse_network("1ms,1kbit"), tmp_path, timeout_s)
        if "did not start" not in str(error.value):
            break
    assert f"Parties 0, 1, 2 had not finished after {timeout_s:g} s" in str(error.value)
    assert str(error.value).endswith("The network between them was 1ms,1kbit.")
    assert files_below(tmp_path) == set()
    assert all(relay.poll() is not None for relay in relays)
