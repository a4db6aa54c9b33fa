"""The portable subset means the same in every model: one program of all its names, and integers by hand."""

from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.security_models import MODELS, SecurityModel
from tests.support.running import TEST_PROGRAMS, Inputs, model_parameters, program_spec, run, xor_shares

# x = 3, -5, 7, 2^40 and y = 10, 20, 30, 40; the public vector is 1, 2, 3, 4.
X = (3, -5, 7, 2**40)
A, B, C = BITS = ((1, 0, 1, 0), (1, 1, 0, 0), (0, 1, 1, 0))
EXPECTED = {
    "input": X,
    "linear": (6, -20, -6, 2 * 2**40 - 30),
    "product": (30, -100, 210, 40 * 2**40),
    "reverse": (2, 10, -2, -40),
    "public": (9, 38, 87, 156),
    "publicly": (95, 93, 89, 83),
    "broadcast": (201, 402, 603, 804),
    "broadcasted": (-41, -51, -61, -71),
    "total": (100,),
    "inner": (30 - 100 + 210 + 40 * 2**40,),
    "lanewise": (130, 300, 1110, 40 * 2**40 + 1600),
    "parts": (-5, 7, 40, -1, 3),
    "lanes": (400,),
    "ordered": (
        *(1, 1, 1, 0),  # x < y
        *(1, 1, 0, 0),  # x <= 3
        *(1, 0, 1, 1),  # x > public
        *(1, 1, 1, 0),  # 7 >= x
        *(1, 0, 1, 0),  # x == 3, 5, 7, 0
        *(1, 0, 1, 1),  # x != -5
        *(1, 1, 1, 0),  # 8 > x
        *(0, 0, 1, 1),  # x >= 10 - 3
    ),
    "a": A,
    "b": B,
    "both": (1, 0, 0, 0),
    "differ": (1, 1, 0, 0),
    "number": (1 + 2 + 4, 2, 1, 4),
}
# Its comparisons alone take half a minute.
TOO_SLOW = ("spdz2k",)


@pytest.mark.parametrize(
    "model", model_parameters(models=[model for model in MODELS.values() if model.name not in TOO_SLOW])
)
def test_every_name_opens_what_the_arithmetic_says(model: SecurityModel, tmp_path: Path) -> None:
    spec = program_spec("portable", *EXPECTED)
    bits = xor_shares(np.array(BITS, dtype=bool), model.parties, np.random.default_rng(7))
    inputs = Inputs(given_bits=bits, values=X)
    source = TEST_PROGRAMS / f"{spec.name}.mpc"
    assert run(spec, source, [model.parties], inputs, model=model, work=tmp_path / "run").outputs == EXPECTED
