"""π_ROC of records opens what that of clients' counts does: its own text, with bits that the test gives."""

from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.engines.registry import engine_of
from fairshares.harness.inputs.record_schema import bins_of, even_grid
from fairshares.harness.releases.thresholds.spec import PI_ROC_RECORDS
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols import reference
from fairshares.protocols.spec import KEYS
from tests.support.running import model_parameters, opened_less_noise

EPSILON, DELTA_BITS = "1/2", 40
BINS = 3
MP_SPDZ = [model for model in MODELS.values() if model.virtual_machine and model.makes_bits_of_keys]


@pytest.mark.parametrize("model", model_parameters(models=MP_SPDZ))
def test_opens_the_oracles_integers(model: SecurityModel, tmp_path: Path) -> None:
    """With 12 cells, 12 to 15 are keys of no cell. What a tampered share adds above four bits is lost.

    In `spdz2k`, which takes a minute for 12 cells where others work, too, 3 cells and two bits.

    Bits that MP-SPDZ loads by a vector of addresses all come from the first: `mem_op`
    (`Compiler/GC/types.py`, line 139) hands it to `ldmsbi` and `stmsbi` (`GC/instructions.py`, lines 401 and
    413), which take one address. Mend: raise `CompilerError`, or load each.
    """
    assert engine_of(model).supports(PI_ROC_RECORDS, model, KEYS) is None
    groups, labels = (1, 1) if model.name == "spdz2k" else (2, 2)
    rng, grid, pairs = np.random.default_rng(6), even_grid(BINS), groups * labels
    pair, score = rng.integers(0, max(1, pairs - 1), 150), rng.random(150)  # nobody has the last of four
    keys = pair * BINS + bins_of(score, grid)
    none = range(pairs * BINS, 1 << (pairs * BINS).bit_length())
    keys[::7] += len([*range(pairs * BINS), *none]) * rng.integers(1, 2**40, len(keys[::7]))
    values = rng.permutation([*keys, *none, none[-1]]).tolist()

    truth = reference.block_counts(pair, score.tolist(), pairs, grid, (1, 2))
    arguments = (model.parties, len(values), groups, labels, BINS, "1.2", EPSILON, DELTA_BITS)
    sums = opened_less_noise(PI_ROC_RECORDS, arguments, len(truth), model, tmp_path, values=values)
    assert sums == truth


@pytest.mark.parametrize("records", [64, 4000])
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
def test_other_sizes(model: SecurityModel, records: int, tmp_path: Path) -> None:
    """A full word of records, and more places than the fewest; as many cells as keys but one."""
    rng, grid = np.random.default_rng(records), even_grid(63)
    score = np.concatenate([[0.0, 1.0], rng.random(records - 2)])
    keys = bins_of(score, grid)
    truth = reference.block_counts(np.zeros(records, dtype=int), score.tolist(), 1, grid, (1,))
    arguments = (model.parties, records, 1, 1, 63, "1", EPSILON, DELTA_BITS)
    sums = opened_less_noise(PI_ROC_RECORDS, arguments, 63, model, tmp_path, values=keys.tolist())
    assert sums == truth
