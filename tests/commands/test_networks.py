"""A run over an emulated network; what breaks it is in tests/harness/engines/test_links.py."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.engines.emulated_network.profiles import parse_network
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.pipeline.run import RunSettings, run_release
from harness.pipeline.sources import RecordsSource
from harness.releases.weights import WeightsStatistic
from harness.security_models import MODELS, SecurityModel
from protocols.spec import SPLIT
from tests.support.requests import request_of
from tests.support.running import (
    captured_relays,
    model_parameters,
)


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_a_run_takes_the_rounds_that_it_has(
    model: SecurityModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """π_RW has about ten messages one after the other at least, each 20 ms under way.

    A busy machine makes what is measured worse, never better; a fault does so every time.
    """
    relays, index = captured_relays(monkeypatch), np.arange(2)
    records = ClientRecords(RecordDomain(("a", "b"), ("0", "1")), np.array(["c", "d"]), index, index, index)
    release = request_of(model, SPLIT, Fraction(1), Fraction(1, 2**40))
    settings = RunSettings(release, 60, network=parse_network("40ms,100Mbit"))
    for attempt in range(5):
        out = tmp_path / str(attempt) / "out"
        out.parent.mkdir()
        source = RecordsSource(records)
        manifest = run_release(WeightsStatistic(), source, settings, out, lambda step: None).manifest
        network = manifest["network"]
        wanted = {"profile": "40ms,100Mbit", "rtt_s": 0.04, "bandwidth_bits_per_s": 1e8}
        assert wanted.items() <= network.items() and manifest["mpc_s"] > 10 * 0.02
        assert network["measured_rtt_s"] >= 0.04 and network["measured_bandwidth_bits_per_s"] < 1.02e8
        assert all(relay.poll() is not None for relay in relays) and len(relays) == attempt + 1
        if network["measured_rtt_s"] < 0.06 and network["measured_bandwidth_bits_per_s"] > 5e7:
            return
    pytest.fail(f"measured {network}")
