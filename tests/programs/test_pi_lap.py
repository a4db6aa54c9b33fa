"""π_LAP opens the same known integers in every model: its own text, given bits."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.security_models import SecurityModel
from protocols.circuits.coins import design_coins
from protocols.circuits.noise import fair_bits_per_sample
from protocols.spec import PI_LAP
from tests.support.running import model_parameters, noise_of, opened_with

EPSILON, DELTA_BITS = "1/3", 40  # more bits a lane than one input takes


def samples(model: SecurityModel) -> int:
    """Return more lanes than a machine word has bits, where bits are in machine words."""
    return 70 if model.virtual_machine else 20


@pytest.mark.parametrize("model", model_parameters())
def test_opens_the_oracles_integers(model: SecurityModel, tmp_path: Path) -> None:
    coins = design_coins(Fraction(EPSILON), DELTA_BITS)
    bits = np.random.default_rng(4).integers(0, 2, (fair_bits_per_sample(coins), samples(model))).astype(bool)
    bits[:, 0] = False  # every coin shows 1, the sign is plus
    bits[:, -1] = [True] + [False] * (len(bits) - 1)  # every coin shows 1, the sign is minus
    assert bits[:, 1:].any(axis=0).all() and not bits.all(axis=0).any()
    assert bits.any(axis=1).all() and not bits.all(axis=1).any()
    expected = noise_of(coins, bits)
    edge = 1 << len(coins)
    assert (max(expected), min(expected)) == (expected[0], expected[-1]) == (edge - 1, -edge)

    arguments = (model.parties, samples(model), EPSILON, DELTA_BITS)
    assert opened_with(bits, PI_LAP, arguments, model, tmp_path) == expected
