"""π_COUNT opens the same known integers in every passive model: its own text, with given bits."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.models import MODELS, Model
from harness.schemes import engine_of
from protocols import reference
from protocols.circuits.coins import design_coins
from protocols.spec import PI_COUNT, SPLIT
from tests.running import Inputs, copy_of_program, model_parameters, run, xor_shares

EPSILON, DELTA_BITS = "1/4000", 40
OFFSET, MOST = 20, 1000
PASSIVE = [model for model in MODELS.values() if not model.active]


@pytest.mark.parametrize("model", model_parameters(models=PASSIVE))
def test_opens_the_oracles_integers(model: Model, tmp_path: Path) -> None:
    """An empty cell, the ends of every straight line, and a count above the largest."""
    assert engine_of(model).supports(PI_COUNT, model, SPLIT) is None
    counts = [0, 1, 11, 12, 43, 44, 107, 108, 235, 236, 491, 492, 1000, 3000]
    truth = [reference.shifted_log(count, OFFSET, MOST) for count in counts]
    rng = np.random.default_rng(3)
    coins = design_coins(Fraction(EPSILON), DELTA_BITS)
    bits = rng.integers(0, 2, (1 + sum(coin.bits for coin in coins), len(truth))).astype(bool)
    design = [(coin.numerator, coin.bits) for coin in coins]
    noise = [reference.noise_of_bits(design, lane.tolist()) for lane in bits.T]

    inputs = Inputs(given_bits=xor_shares(bits, model.parties, rng), values=counts)
    program = copy_of_program(PI_COUNT.name, tmp_path)
    arguments = (model.parties, 7, 2, OFFSET, MOST, EPSILON, DELTA_BITS)
    result = run(PI_COUNT, program, arguments, inputs, model, tmp_path / "run")
    assert list(result.outputs["logarithms"]) == [g + x for g, x in zip(truth, noise, strict=True)]
