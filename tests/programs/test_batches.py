"""spdz2k-party.x also runs programs of the sizes with which its own batches would have it abort.

`hash_row` (`OT/OTVole.hpp`, lines 115 to 137) reads elements of s bytes in groups of 16, which are s blocks
of 16 bytes. For the rest it takes the number of all blocks modulo s (line 134), which is 0 where 15 elements
of s = 14 bytes are left: 14 modulo 16 values, and one for the check. The assertion of line 136 fails; without
assertions 15 values would go unchecked. Mend: take the blocks after the full groups. `-SP 64` (s = 16) has
code of its own.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.engines.mpspdz.engine import batch_that_works, options_that_work
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from fairshares.protocols.spec import PI_LAP
from tests.support.running import opened_less_noise, opened_with


@pytest.mark.parametrize("batch", [300, 301, 1000])
def test_no_batch_is_of_a_size_that_aborts(batch: int) -> None:
    """Of daBits 5 modulo 16 would, as 41 go with them, and of other values 13; all else stays as it was."""
    for dabits in range(0, 12 * batch, 7):

        def at_once(size: int, dabits: int = dabits) -> int:
            return max([-(-dabits // i) for i in range(1, 11) if -(-dabits // i) <= size], default=size)

        size = batch_that_works(batch, f"Program requires at most:\n{dabits:>12} integer dabits\n")
        assert 0 < size <= batch and size % 16 != 13 and at_once(size) % 16 != 5
        assert all(s % 16 == 13 or at_once(s) % 16 == 5 for s in range(size + 1, batch + 1))
    assert batch_that_works(300, "no estimate") == 300


@pytest.mark.mpspdz("spdz2k")
def test_a_size_that_aborted(tmp_path: Path) -> None:
    """At ε = 2 a sample of signed noise takes 5 daBits, which it would make together with 41 others."""
    coins = design_coins(Fraction(2), 40)
    bits = np.zeros((fair_bits_per_sample(coins), 1), dtype=bool)  # every coin shows 1, the sign is plus
    opened = opened_with(bits, PI_LAP, (2, 1, 2, "40-signed"), MODELS["spdz2k"], tmp_path)
    assert opened == [(1 << len(coins)) - 1] and len(coins) + 1 == 5


def test_no_inputs_are_as_many_as_abort() -> None:
    for inputs in range(1, 50):
        estimate = f"Program requires at most:\n{inputs:>12} integer inputs from player 1\n"
        bits = "64" if inputs in (13, 29, 45) else "48"
        assert options_that_work(("-e", "-SP", "48"), estimate) == ("-e", "-SP", bits)


@pytest.mark.mpspdz("spdz2k")
def test_as_many_inputs_as_aborted(tmp_path: Path) -> None:
    """13 cells: each party inputs its sum of each."""
    model, counts = MODELS["spdz2k"], list(range(13))
    arguments = ("split", "shares", 2, 0, 0, 13, 1, "2", 20)
    assert opened_less_noise(PI_RW, arguments, 13, model, tmp_path, values=counts) == counts
