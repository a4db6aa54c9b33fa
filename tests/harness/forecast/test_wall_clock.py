"""The clock of a plan: what is tried out is scaled to the federation, and what is kept is not compiled."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.mpspdz.cache import keep
from fairshares.harness.engines.mpspdz.compiler import cache_directory
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.forecast.plan import (
    ExpectedRelease,
    WallClock,
    plan_model,
    plan_releases,
    reading_s,
)
from fairshares.harness.forecast.unit_costs import COMPILE_S, RECORDED, UnitCosts, read_units
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.networks import parse_network
from fairshares.harness.security_models import MODELS
from fairshares.harness.views import plan as view
from tests.support.plans import plan_of
from tests.support.requests import request_of

RELEASE = request_of(MODELS["ring"], next(iter(PI_RW.input_forms.values())), Fraction(1), Fraction(1, 2**40))
SHARES = {"a": Fraction(1, 2), "b": Fraction(1, 2)}
ASKED = ExpectedRelease(RELEASE, WeightsStatistic(spec=PI_RW), 90, 300, SHARES, SHARES, 1000, 0, 0)


@pytest.mark.parametrize("kind", sorted({*RecordKind} - {RecordKind.VECTOR}))  # which is of no records
def test_every_kind_of_record_can_be_read_for_the_time_that_it_takes(kind: RecordKind) -> None:
    assert 0 < reading_s(kind) < 0.01


def test_a_command_takes_what_is_tried_out_around_its_computation() -> None:
    units = read_units(RECORDED)
    planned = plan_releases(ASKED, [MODELS["ring"]], 0.01)[0]
    assert planned.design_s > 0 and planned.derive_s > 0
    wall = plan_model([ASKED], MODELS["ring"], units, None, start_s=0.25, design_s=3.0, derive_s=5.0).wall
    assert wall is not None and (wall.design_s, wall.derive_s) == (3.0, 5.0)
    fields: dict[str, Any] = view.to_json(
        plan_of(clients="90", records="300", groups="2", epsilon="1", security="ring")
    )
    (shown,) = fields["models"]
    assert shown["design_s"] > 0 and shown["derive_s"] > 0


def test_a_program_that_is_kept_takes_no_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("fairshares.harness.forecast.plan.parties_start_s", lambda _: 0.125)
    units, model = read_units(RECORDED), MODELS["ring"]

    def planned() -> WallClock:
        wall = plan_model([ASKED], model, units, None, start_s=0.25).wall
        assert wall is not None and wall.start_s == 0.375
        return wall

    compiling = planned().compile_s
    assert compiling is not None and 0.05 < compiling < 2
    kept = cache_directory() / engine_of(model).program_hash(ASKED.job(), model)
    kept.mkdir(parents=True)
    assert planned().compile_s == compiling  # begun, and not ended
    made = tmp_path / "made"
    made.mkdir()
    (made / "estimate").touch()
    keep(made, kept)
    assert planned().compile_s == 0


def test_what_was_not_measured_or_is_of_a_network_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairshares.harness.forecast.plan.parties_start_s", lambda _: 0.125)
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent")
    recorded, ring = read_units(RECORDED), MODELS["ring"]
    of_ring = recorded.models["ring"]
    figures = {name: costs for name, costs in of_ring.figures.items() if name != COMPILE_S}
    earlier = UnitCosts({"ring": replace(of_ring, figures=figures)}, recorded.measured)
    wall = plan_model([ASKED], ring, earlier, None).wall
    assert wall is not None and wall.compile_s is None and wall.wall_s is None
    assert plan_model([ASKED], ring, recorded, parse_network("wan")).wall is None
    mpyc = plan_model([ASKED], MODELS["mpyc"], recorded, None).wall
    assert mpyc is not None and mpyc.compile_s == 0
