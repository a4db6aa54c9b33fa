"""Unit costs: found again where they were planted, read back strictly, added up by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.measure.units import Measured, fit
from fairshares.harness.errors import PlanError, ResultFileError
from fairshares.harness.forecast.operation_counts import Counts
from fairshares.harness.forecast.unit_costs import (
    COMPILE_S,
    MPC_S,
    ROUNDS,
    SENT_BYTES,
    ModelUnits,
    UnitCosts,
    amounts,
    read_units,
)
from fairshares.harness.request.networks import parse_network
from fairshares.harness.security_models import MODELS

RING = MODELS["ring"]
COUNTS = Counts(
    rounds=10,
    gates=50,
    inputs=12,
    input_bits=700,
    ands=25_000,
    dabits=20_001,
    decomposed=0,
    multiplications=0,
    products=3,
    added=400,
)
PLANTED = ModelUnits(
    {
        ROUNDS: {"run": 2, "steps": 1, "dabit_batches": 3},
        SENT_BYTES: {"run": 1000, "ands": 0.5, "dabits": 30},
        MPC_S: {"run": 0.01, "rounds": 0.001, "ands": 1e-6},
        COMPILE_S: {"run": 0.25, "added": 1e-3},
    },
    trips=0.5,
    link_share=0.25,
)


def test_batches_are_whole_and_the_first_dabits_are_part_of_every_run() -> None:
    things = amounts(COUNTS)
    assert things["dabit_batches"] == 2  # three of 10,000
    assert things["multiplication_batches"] == things["multiplied"] == things["input"] == 1
    assert things["decomposed_batches"] == 0
    small = amounts(replace(COUNTS, batch=1000))
    assert small["dabit_batches"] == 20 and small["and_batches"] == 25


def test_a_prediction_is_a_sum_and_a_network_adds_waiting() -> None:
    units = UnitCosts({"ring": PLANTED}, {})
    rounds, sent = 2 + 10 + 3 * 2, 1000 + 12_500 + 30 * 20_001
    here = units.predict(RING, COUNTS)
    assert (here.rounds, here.sent_bytes) == (rounds, sent)
    assert here.mpc_s == pytest.approx(0.01 + rounds * 0.001 + 0.025)
    assert here.compile_s == pytest.approx(0.25 + 0.4)
    there = units.predict(RING, COUNTS, parse_network("40ms,100Mbit"))
    assert there.mpc_s == pytest.approx(here.mpc_s + (rounds * 0.5 * 0.04 + sent * 0.25 * 8 / 100e6))
    with pytest.raises(PlanError, match=r"semi2k.*bench.run units"):
        units.predict(MODELS["semi2k"], COUNTS)
    with pytest.raises(PlanError, match="network"):
        UnitCosts({"ring": replace(PLANTED, trips=None)}, {}).predict(RING, COUNTS, parse_network("lan"))


def planted_runs() -> list[Measured]:
    """Return runs that cost exactly what `PLANTED` says, one of them on two networks as well."""
    units, rng, runs = UnitCosts({"ring": PLANTED}, {}), np.random.default_rng(2), []
    for i in range(40):
        least, most = (10**4, 100, 8, 0), (10**6, 10**5, 400, 10**4)
        ands, dabits, steps, added = (int(v) for v in rng.integers(least, most))
        counts = replace(COUNTS, ands=ands, dabits=dabits, rounds=steps, added=added)
        for network in ("none", "20ms,10Gbit", "0ms,20Mbit")[: 3 if i == 0 else 1]:
            cost = units.predict(RING, counts, parse_network(network))
            cell = {"security": "ring", "samples": i, "network": network}
            compiled = cost.compile_s if i % 2 else None  # every other program was there already
            where = parse_network(network)
            runs.append(Measured(cell, counts, cost.mpc_s, cost.sent_bytes, cost.rounds, where, compiled))
    return runs


def test_planted_costs_are_found_again(tmp_path: Path) -> None:
    units = fit(RING, planted_runs())
    write(tmp_path, {"schema": 1, "measured": {}, "models": {"ring": units}})
    read_back = read_units(tmp_path)
    for run in planted_runs():
        cost = read_back.predict(RING, run.counts, run.network)
        assert cost.mpc_s == pytest.approx(run.mpc_s, rel=0.02)
        assert cost.sent_bytes == pytest.approx(run.sent_bytes, rel=0.02)
        assert cost.rounds == pytest.approx(run.rounds, rel=0.02)
        assert run.compile_s is None or cost.compile_s == pytest.approx(run.compile_s, rel=0.02)
    # 10 Gbit/s is not quite no limit: 40 kB in all, 8 us of 4 s.
    assert units["network"]["round_trips_per_round"] == pytest.approx(0.5, rel=1e-3)
    assert units["network"]["link_share"] == pytest.approx(0.25, rel=1e-3)


def test_no_cost_is_below_zero() -> None:
    """Not even of what takes less time the more there is of it."""
    falling = [replace(run, mpc_s=1 / run.counts.ands) for run in planted_runs()]
    assert min(fit(RING, falling)[MPC_S].values()) > 0


@pytest.mark.parametrize(
    "spoilt",
    [
        {"models": {"ring": {}}},
        {"models": {"other": {}}},
        {"models": None},
        {"models": {"ring": {ROUNDS: {"run": -1}, SENT_BYTES: {}, MPC_S: {}, "network": None}}},
        {"models": {"ring": {ROUNDS: {"runs": 1}, SENT_BYTES: {}, MPC_S: {}, "network": None}}},
        {"models": {"ring": {ROUNDS: {"run": "1"}, SENT_BYTES: {}, MPC_S: {}, "network": None}}},
        {"models": {}, "measured": None},
    ],
)
def test_files_that_hold_no_unit_costs_are_refused(spoilt: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, {"schema": 1, "measured": {}, **spoilt})
    with pytest.raises(ResultFileError, match=r"bench[.]run units"):
        read_units(tmp_path)


def write(directory: Path, costs: dict[str, Any]) -> None:
    (directory / "units.json").write_text(json.dumps(costs))
