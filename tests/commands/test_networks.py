"""Runs over an emulated network, and what becomes of them when it fails."""

import subprocess
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.engines.emulated_network import links
from harness.engines.emulated_network.profiles import LAN, Network, parse_network
from harness.engines.registry import engine_of
from harness.errors import FairSharesError, PartyFailedError, RelayError
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

    def __init__(self, relays: list[subprocess.Popen[str]], here: Path) -> None:
        self.relays, self.here, self.work = relays, here, here / "run" / "parties"

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

    def _strike(self, fault: Callable[[], None]) -> None:
        logs = [self.work / f"party-{i}" / "log" for i in range(RING.parties)]
        until(lambda: all(log.exists() and "OUT begun" in log.read_text() for log in logs))
        fault()


@pytest.fixture
def run(relays: list[subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hit:
    monkeypatch.setattr(links, "relay", faulty_relay)
    return Hit(relays, tmp_path)


@pytest.mark.mpspdz(RING.name)
@pytest.mark.parametrize("pair", [(0, 1), (2, 1)])
def test_a_cut_link_is_nobodys_fault(pair: tuple[int, int], run: Hit) -> None:
    a, b = pair
    said = run.by(lambda: run.tell(f"cut {a} {b}"))
    assert run.error is PartyFailedError
    assert said.startswith("Connections between the parties were lost")
    assert "no party failed otherwise" in said and "no result was written" in said


@pytest.mark.mpspdz(RING.name)
def test_a_killed_relay_is_named_not_the_parties_that_it_left(run: Hit) -> None:
    said = run.by(lambda: run.relays[0].kill())
    assert run.error is RelayError
    assert said == (
        "The relay that emulates network lan was killed by SIGKILL; "
        "the parties were stopped and no result was written."
    )
