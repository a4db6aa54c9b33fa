"""The masks that real virtual machines give to clients hide a value in every bit, and no party has them."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from harness.clients import input_masks as masks, sender as sending
from harness.engines.base import PROGRAMS
from harness.security_models import SecurityModel
from protocols.circuits.coins import design_coins
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.spec import CLIENTS, PI_RW, SPLIT
from tests.support.running import Inputs, model_parameters, run

CLIENTS_COUNT, COLUMNS = 100, 4


@pytest.mark.parametrize(("form", "model"), model_parameters(SPLIT.by(CLIENTS)))
def test_masks_and_parties_shares_of_them_are_random_in_every_bit(
    form: object, model: SecurityModel, tmp_path: Path
) -> None:
    """Each of 64 bits is one in 100 to 300 of 400 words but for 2·exp(-50) (Hoeffding); no word repeats."""
    seen: list[list[masks.Words]] = []
    add_up = sending._add_up

    def spy(shares: Sequence[bytes]) -> masks.Words:
        seen.append([masks.from_bytes(share) for share in shares])
        return add_up(shares)

    coins = design_coins(Fraction(20), 40)
    bits = tuple((width, COLUMNS) for width in input_widths(fair_bits_per_sample(coins)))
    arguments = ("split", "clients", model.parties, CLIENTS_COUNT, 1, 2, 2, 20, 40)
    inputs = Inputs(bits, sent=[np.zeros(CLIENTS_COUNT * COLUMNS, dtype=np.int64)])
    with mock.patch.object(sending, "_add_up", spy):
        run(PI_RW, PROGRAMS / "pi_rw.mpc", arguments, inputs, model, tmp_path / "run")
    own, offsets = seen
    assert [len(share) for share in own] == [400] * model.parties
    assert [len(share) for share in offsets] == [40] * model.parties
    both: masks.Words = np.sum(own, axis=0, dtype=np.uint64)
    for words in (*own, both):
        ones = [int((words >> np.uint64(j) & np.uint64(1)).sum()) for j in range(64)]
        assert all(100 < one < 300 for one in ones)
        assert len(set(words.tolist())) == 400
