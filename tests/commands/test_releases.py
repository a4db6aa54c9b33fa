"""Confusion matrices and gaps from the command line: records in, documented files out, in every model."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.security_models import SecurityModel
from protocols.accounting.calibration import NeighboringRelation, Neighbors, plan_noise, sums_from_ends
from protocols.circuits.coins import design_coins
from protocols.noise.truncated import error_bound
from tests.support.command import files_below, processes_below, read_json, succeed
from tests.support.running import model_parameters

# Noise beyond its exact quantile fails a test with this probability, all cells together.
FALSE_ALARM = Fraction(1, 10**9)


def check_counts(found: dict[str, Any]) -> None:
    """Check counts per group, label and prediction against the truth, within the noise of ε = 1."""
    truth = np.array([[[9, 0], [0, 30]], [[0, 40], [0, 0]]])
    errors = np.array(found["noisy_counts"]) - truth
    bound = error_bound(design_coins(Fraction(1), 41), FALSE_ALARM / 8)
    assert (np.abs(errors) <= float(bound)).all() and (errors % 1 == 0.5).all()


def check_gaps(found: dict[str, Any]) -> None:
    """Check what was opened against the truth, within the noise of ε = 4."""
    relation = Neighbors(NeighboringRelation.REPLACE_ONE)
    plan = plan_noise(sums_from_ends(2, 100), relation, Fraction(4), Fraction(1, 2**40))
    bound = float(error_bound(plan.coins, FALSE_ALARM / 4))
    truth = {"a": (300, 60), "b": (200, 0)}  # in steps: 60 above the centre
    for group, size in zip("ab", found["noisy_sizes"], strict=True):
        n, step = truth[group]
        assert abs(size * 100 - n * 100) <= bound  # half of two sums' noise
        total = (found["means"][group]["estimate"] - 0.5) * 2 * size * 100
        assert abs(total - n * step) <= bound + 1e-6
    (gap,) = found["gaps"]
    assert gap["groups"] == ["a", "b"] and gap["interval"][0] < gap["estimate"] < gap["interval"][1]


@dataclass(frozen=True)
class Case:
    """A run: its records and options, the fields of its result, how that is checked, and what is stated."""

    header: str
    rows: list[str]
    options: str
    keys: str
    check: Callable[[dict[str, Any]], None]
    inputs: dict[str, int]
    relation: str


CASES = {
    "confusion": Case(
        "client_id,group,label,prediction",
        ["k,a,yes,yes"] * 30 + ["k,a,no,no"] * 9 + ["l,b,no,yes"] * 40,
        "--epsilon 1 --labels no,yes --max-count 100",
        "labels positive_label noisy_counts rates",
        check_counts,
        {"clients": 2, "uploads": 1, "max_count": 100},
        "add_or_remove_one",
    ),
    "gap": Case(  # 300 clients at 0.8, a fraction of counts; 200 at 0.5
        "client_id,group,value",
        [f"c{i},{'a,16/20' if i < 300 else 'b,0.5'}" for i in range(500)],
        "--epsilon 4 --range 0,1 --steps 100",
        "values noisy_sizes near_zero means gaps clients_per_group_for_a_tenth_of_the_range",
        check_gaps,
        {"clients": 500, "uploads": 1, "max_count": 1},
        "replace_one",
    ),
}


@pytest.mark.parametrize("model", model_parameters())
@pytest.mark.parametrize("task", CASES)
def test_records_to_files(task: str, model: SecurityModel, tmp_path: Path) -> None:
    case = CASES[task]
    (tmp_path / "records.csv").write_text("\n".join([case.header, *case.rows]) + "\n")
    options = [*case.options.split(), "--groups", "a,b", "--security", model.name, "--out", "results"]
    succeed(task, "--records", "records.csv", *options, cwd=tmp_path)
    assert files_below(tmp_path / "results") == {f"{task}.json", "manifest.json"}
    found, manifest = (read_json(tmp_path / "results" / name) for name in (f"{task}.json", "manifest.json"))
    assert set(found) == {"schema", "groups", "confidence", "privacy", *case.keys.split()}
    case.check(found)
    privacy = manifest["privacy"]
    assert found["privacy"] == privacy and privacy["neighboring_relation"] == case.relation
    assert Fraction(privacy["epsilon_exact"]) <= Fraction(privacy["epsilon_requested"])
    assert Fraction(privacy["delta_exact"]) <= Fraction(1, 2**40)
    assert manifest["inputs"] == case.inputs and processes_below(tmp_path) == {}
