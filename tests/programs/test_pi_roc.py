"""π_ROC opens the same known integers in every model: its own text, run with bits that the test gives."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import engine_of
from harness.inputs.record_schema import bins_of, even_grid
from harness.security_models import SecurityModel
from protocols import reference
from protocols.spec import PI_ROC
from tests.support.running import model_parameters, opened_less_noise

DELTA_BITS = 40


@dataclass(frozen=True)
class Case:
    """Some random records. sizes: bins per block of each level."""

    groups: int
    labels: int
    thresholds: int
    sizes: tuple[int, ...]
    records: int
    epsilon: str


CASES = {
    "three-levels": Case(2, 2, 11, (1, 3, 6), 60, "1"),
    "whole-blocks": Case(3, 2, 12, (1, 4), 90, "1"),
    "flat": Case(2, 3, 7, (1,), 50, "1"),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
@pytest.mark.parametrize("model", model_parameters())
def test_opens_the_oracles_integers(model: SecurityModel, case: Case, tmp_path: Path) -> None:
    (form,) = PI_ROC.input_forms.values()
    assert engine_of(model).supports(PI_ROC, model, form) is None
    rng, pairs, grid = (
        np.random.default_rng(case.records),
        case.groups * case.labels,
        even_grid(case.thresholds),
    )
    pair = rng.integers(0, pairs - 1, case.records)  # nobody has the last one
    score = np.concatenate([[0.0, 1.0, grid[1], grid[-2]], rng.random(case.records - 4) ** 2])
    table = np.bincount(pair * len(grid) + bins_of(score, grid), minlength=pairs * len(grid))

    truth = reference.block_counts(pair, score.tolist(), pairs, grid, case.sizes)
    blocks = ".".join(map(str, case.sizes))
    arguments = (model.parties, case.groups, case.labels, len(grid), blocks, case.epsilon, DELTA_BITS)
    found = opened_less_noise(PI_ROC, arguments, len(truth), model, tmp_path, values=table.tolist())
    assert found == truth
