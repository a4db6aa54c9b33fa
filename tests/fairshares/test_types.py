"""Names that a call takes are types, which are the choices that there are; users' own checks find both."""

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import fairshares as fs
from fairshares import _types
from harness.inputs.record_schema import RecordDomain
from harness.postprocessing.noisy_counts import NoisyCounts
from harness.postprocessing.reweighing.formulas import REWEIGHINGS
from harness.postprocessing.thresholds.choose import CONSTRAINTS, OBJECTIVES
from harness.releases.weights import WeightsStatistic
from harness.request.releases import WeightsRequest
from harness.security_models import MODELS
from harness.views.releases.weights import weights
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from tests.conftest import PROJECT

USERS = """
import pandas as pd
import fairshares as fs

df = pd.DataFrame({"group": ["a", "b"], "label": [0, 1], "score": [0.1, 0.9]})
r = fs.weights(df, epsilon=1, reweighing="balanced", security="mpyc")
weight: pd.Series = r.sample_weight(df.group, df.label)
t = fs.thresholds(df, epsilon=1, thresholds=[0.5], constraint="demographic_parity", domain={"max_count": 1})
t.predictor().predict(df[["score"]], sensitive_features=df.group, random_state=0)
exact: float = r.privacy.epsilon
fs.ledger(retire="loans", budget=(3, "1e-6")).charges.empty
print(fs.__version__.upper(), fs.plan(clients=10, groups=2, epsilon=1).models)
"""
WRONG = """
import fairshares as fs

fs.weights("my.csv", epsilon=1, reweighing="balance")
fs.thresholds("my.csv", epsilon=1, thresholds="many")
fs.weights("my.csv", eps=1)
"""


@pytest.mark.parametrize(
    ("kind", "choices"),
    [
        (_types.Reweighing, REWEIGHINGS),
        (_types.Constraint, CONSTRAINTS),
        (_types.Objective, OBJECTIVES),
        (_types.Unit, PrivacyUnit),
        (_types.Relation, NeighboringRelation),
        (_types.Security, MODELS),
    ],
)
def test_types_name_the_choices(kind: Any, choices: Any) -> None:
    assert set(get_args(kind)) == set(map(str, choices))


def test_mypy_accepts_what_is_right_and_finds_what_is_wrong(tmp_path: Path) -> None:
    """As users run it: strict, on a file of theirs; of errors in ours nothing is said."""
    assert (PROJECT / "fairshares" / "py.typed").exists()
    found = {}
    for name, text in (("right", USERS), ("wrong", WRONG)):
        (tmp_path / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", f"{name}.py"]
        environment = {"MYPYPATH": str(PROJECT), "PATH": ""}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        found[name] = [line for line in done.stdout.splitlines() if line.startswith(f"{name}.py")]
    assert found["right"] == []
    assert [line.rpartition("[")[2] for line in found["wrong"] if "error" in line] == [
        "arg-type]",
        "arg-type]",
        "call-arg]",
    ]


def test_the_version_is_said() -> None:
    assert fs.__version__.count(".") == 2 and "__version__" in dir(fs)


@pytest.mark.parametrize(("records", "warned"), [(3, True), (3000, False)])
def test_few_records_give_weights_with_a_warning(records: int, warned: bool) -> None:
    domain = RecordDomain(("a", "b"), ("0", "1"), 1)
    noise = WeightsStatistic().prepare(WeightsRequest(epsilon=1), domain).plan.noise
    counts = NoisyCounts(domain, np.full((2, 2), records / 4), noise)
    said = [part for part in weights(REWEIGHINGS["kamiran-calders"](counts)) if isinstance(part, str)]
    assert any("mostly noise" in each for each in said) == warned
