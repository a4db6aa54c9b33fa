"""Names that a call takes are types, which are the choices that there are; users' own checks find both."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import fairshares as fs
from fairshares import _types
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts
from fairshares.harness.postprocessing.thresholds.choose import OBJECTIVES
from fairshares.harness.postprocessing.thresholds.constraints import CONSTRAINTS
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.releases.weights.view import weights
from fairshares.harness.reweighing.formulas import REWEIGHINGS
from fairshares.harness.reweighing.names import weighting_names
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from tests.conftest import PROJECT
from tests.support.user_types import KINDS, said_by_mypy


@pytest.mark.parametrize(
    ("kind", "choices"),
    [
        (_types.ConstraintName, CONSTRAINTS),
        (_types.Objective, OBJECTIVES),
        (_types.Unit, PrivacyUnit),
        (_types.Relation, NeighboringRelation),
        (_types.Security, MODELS),
    ],
)
def test_types_name_the_choices(kind: Any, choices: Any) -> None:
    assert set(get_args(kind)) == set(map(str, choices))


def test_types_name_each_weighting() -> None:
    """A module makes a weighting; editors and type checkers know it by the type."""
    assert get_args(_types.Reweighing) == weighting_names(), (
        "Reweighing, in fairshares/_types.py, has to name the modules of harness/reweighing/weightings, with "
        "hyphens, the default first and the others by name."
    )
    assert set(weighting_names()) == set(REWEIGHINGS)


def test_mypy_accepts_what_is_right_and_finds_what_is_wrong(tmp_path: Path) -> None:
    """Nothing is said of errors in ours, as of the wheel: tests/project/test_wheel.py."""
    assert (PROJECT / "fairshares" / "py.typed").exists()
    said = said_by_mypy(tmp_path, "--follow-imports", "silent", path=str(PROJECT))
    assert said["right"] == []
    assert [line.rpartition("[")[2] for line in said["wrong"]] == [f"{kind}]" for kind in KINDS]


def test_the_version_is_said() -> None:
    assert fs.__version__.count(".") == 2 and "__version__" in dir(fs)


@pytest.mark.parametrize(("records", "warned"), [(3, True), (3000, False)])
def test_few_records_give_weights_with_a_warning(records: int, warned: bool) -> None:
    domain = RecordDomain(("a", "b"), ("0", "1"), 1)
    noise = WeightsStatistic().prepare(WeightsRequest(epsilon=1), domain).plan.noise
    counts = NoisyCounts(domain, np.full((2, 2), records / 4), noise)
    said = [part for part in weights(REWEIGHINGS["kamiran-calders"](counts)) if isinstance(part, str)]
    assert any("mostly noise" in part for part in said) == warned
