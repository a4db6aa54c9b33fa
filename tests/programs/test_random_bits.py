"""The bits that the parties draw together, and clients' masks: all of them vary, and no party is left out."""

from collections.abc import Sequence
from fractions import Fraction
from math import log, sqrt
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from fairshares.harness.engines.execution import PROGRAMS
from fairshares.harness.online import client as sending, masks
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.arrays import Words
from fairshares.protocols.circuits.coins import design_noise
from fairshares.protocols.circuits.noise import fair_bits_per_sample, input_widths
from fairshares.protocols.spec import CLIENTS, SPLIT
from tests.support.running import (
    OF_OTHER_NUMBERS,
    TEST_PROGRAMS,
    Bits,
    Inputs,
    model_parameters,
    program_spec,
    run,
    xor_shares,
)

# More lanes than a machine word has bits, more bits than one input takes.
LANES, N_BITS = 130, 65
SPEC = program_spec("random_bits", "bits")
PROGRAM = TEST_PROGRAMS / f"{SPEC.name}.mpc"
FALSE_ALARM = 1e-9
EACH = [*MODELS.values(), *OF_OTHER_NUMBERS]
CLIENTS_COUNT, COLUMNS = 100, 4  # of the masks


def as_bits(opened: tuple[int, ...]) -> Bits:
    assert set(opened) <= {0, 1}
    return np.array(opened, dtype=bool).reshape(N_BITS, LANES)


@pytest.mark.parametrize("model", model_parameters(models=EACH))
def test_every_lane_of_every_bit_varies(model: SecurityModel, tmp_path: Path) -> None:
    """Fair bits fail this with probability 1.1e-9 at most.

    A lane is constant over 65 bits with probability 2^-64, a bit over 130 lanes with 2^-129 (union:
    7.1e-18 for all). Hoeffding: the share of ones is further than t from 1/2 with probability
    2 exp(-2 n t^2), 1e-9 for n = 8450 and t = 0.0356.
    """
    inputs = Inputs(fair_bits=((63, LANES), (2, LANES)))
    result = run(SPEC, PROGRAM, (model.parties, LANES, N_BITS), inputs, model=model, work=tmp_path / "run")
    bits = as_bits(result.outputs["bits"])
    assert bits.any(axis=0).all() and not bits.all(axis=0).any(), "a lane is constant"
    assert bits.any(axis=1).all() and not bits.all(axis=1).any(), "a bit is constant"
    assert abs(bits.mean() - 0.5) < sqrt(log(2 / FALSE_ALARM) / (2 * bits.size))


@pytest.mark.parametrize("model", model_parameters(models=EACH))
def test_every_partys_bits_count(model: SecurityModel, tmp_path: Path) -> None:
    """Where one party's are all zero, what is opened is the XOR of all others'.

    In the first half of the lanes that is the first party, in the second half the last.
    """
    rng = np.random.default_rng(model.parties)
    bits = rng.integers(0, 2, (N_BITS, LANES)).astype(bool)
    left, right = bits[:, : LANES // 2], bits[:, LANES // 2 :]
    of_left = [np.zeros_like(left), *xor_shares(left, model.parties - 1, rng)]
    of_right = [*xor_shares(right, model.parties - 1, rng), np.zeros_like(right)]
    inputs = Inputs(given_bits=[np.hstack(halves) for halves in zip(of_left, of_right, strict=True)])
    result = run(SPEC, PROGRAM, (model.parties, LANES, N_BITS), inputs, model=model, work=tmp_path / "run")
    assert (as_bits(result.outputs["bits"]) == bits).all()


@pytest.mark.parametrize(("form", "model"), model_parameters(SPLIT.by(CLIENTS)))
def test_masks_and_parties_shares_of_them_are_random_in_every_bit(
    form: object, model: SecurityModel, tmp_path: Path
) -> None:
    """Each of 64 bits is one in 100 to 300 of 400 words but for 2·exp(-50) (Hoeffding); no word repeats."""
    seen: list[list[Words]] = []
    add_up = sending._add_up

    def spy(shares: Sequence[bytes]) -> Words:
        seen.append([masks.from_bytes(share) for share in shares])
        return add_up(shares)

    coins = design_noise(Fraction(20), 40)
    widths = tuple((width, COLUMNS) for width in input_widths(fair_bits_per_sample(coins)))
    arguments = ("split", "clients", model.parties, CLIENTS_COUNT, 1, 2, 2, 20, 40)
    inputs = Inputs(widths, sent=[np.zeros(CLIENTS_COUNT * COLUMNS, dtype=np.int64)])
    with mock.patch.object(sending, "_add_up", spy):
        run(PI_RW, PROGRAMS / "pi_rw.mpc", arguments, inputs, model=model, work=tmp_path / "run")
    own, offsets = seen
    assert [len(share) for share in own] == [400] * model.parties
    assert [len(share) for share in offsets] == [40] * model.parties
    both: Words = np.sum(own, axis=0, dtype=np.uint64)
    for words in (*own, both):
        ones = [int((words >> np.uint64(j) & np.uint64(1)).sum()) for j in range(64)]
        assert all(100 < one < 300 for one in ones)
        assert len(set(words.tolist())) == 400
