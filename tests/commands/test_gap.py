"""Gaps from the command line: values or shares in, documented files out."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.security_models import SecurityModel
from protocols.accounting.calibration import NeighboringRelation, Neighbors, plan_noise, sums_and_sizes
from protocols.noise.truncated import error_bound
from tests.support.command import call, files_below, processes_below
from tests.support.running import model_parameters

DECLARED = ["--groups", "a,b", "--range", "0,1", "--steps", "100"]
# 300 clients at 0.8, a fraction of counts; 200 at 0.5.
VALUES = [("a", "16/20")] * 300 + [("b", "0.5")] * 200
# Noise beyond its exact quantile fails a test with this probability, all four values together.
FALSE_ALARM = Fraction(1, 10**9)
KEYS = {
    *("schema", "groups", "values", "noisy_sizes", "near_zero", "means", "gaps", "confidence", "privacy"),
    "clients_per_group_for_a_tenth_of_the_range",
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with the clients' values."""
    rows = [f"c{i},{group},{value}\n" for i, (group, value) in enumerate(VALUES)]
    (tmp_path / "values.csv").write_text("client_id,group,value\n" + "".join(rows))
    return tmp_path


def check(found: dict[str, Any], epsilon: int) -> None:
    """Check what was opened against the truth, within the noise of that epsilon."""
    assert set(found) == KEYS
    relation = NeighboringRelation.REPLACE_ONE
    plan = plan_noise(sums_and_sizes(2, 100), Neighbors(relation), Fraction(epsilon), Fraction(1, 2**40))
    bound = float(error_bound(plan.coins, FALSE_ALARM / 4))
    truth = {"a": (300, 60), "b": (200, 0)}  # in steps: 60 above the centre
    for group, size in zip("ab", found["noisy_sizes"], strict=True):
        n, step = truth[group]
        assert abs(size * 100 - n * 100) <= bound
        total = (found["means"][group]["estimate"] - 0.5) * 2 * size * 100
        assert abs(total - n * step) <= bound + 1e-6
    (gap,) = found["gaps"]
    assert gap["groups"] == ["a", "b"] and gap["interval"][0] < gap["estimate"] < gap["interval"][1]


@pytest.mark.parametrize("model", model_parameters())
def test_values_to_gaps(model: SecurityModel, here: Path) -> None:
    before = files_below(here)
    options = [*DECLARED, "--security", model.name, "--out", "results"]
    done = call("gap", "--records", "values.csv", "--epsilon", "4", *options, cwd=here)
    assert done.returncode == 0, done.stderr
    files = ("gap.json", "manifest.json")
    assert files_below(here) - before == {"results", *(f"results/{name}" for name in files)}
    found, manifest = (json.loads((here / "results" / name).read_text()) for name in files)
    check(found, 4)
    assert found["privacy"] == manifest["privacy"]
    assert manifest["privacy"]["neighboring_relation"] == "replace_one"
    assert "range and grid of values" in manifest["privacy"]["public"]
    assert Fraction(manifest["privacy"]["epsilon_exact"]) <= 4
    assert Fraction(manifest["privacy"]["delta_exact"]) <= Fraction(1, 2**40)
    assert manifest["inputs"] == {"clients": 500, "uploads": 1, "max_count": 1}
    assert processes_below(here) == {}
