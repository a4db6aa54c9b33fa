"""What masks are made of in MP-SPDZ: a number of each party's own, drawn anew for each integer."""

from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.security_models import get_model
from tests.support.running import TEST_PROGRAMS, Inputs, program_spec, run

PARTIES, LANES, SUMS = 3, 65, 2  # more lanes than a machine word has bits


@pytest.mark.mpspdz("semi2k")
def test_each_partys_own_number_hides_what_is_opened(tmp_path: Path) -> None:
    """Random numbers fail this with a probability below 2^-100.

    A bit of a party's numbers is constant over 130 of them with probability 2^-129, and of all numbers two
    are alike with a probability below 2^-48 (390^2 / 2^65), which is why six such pairs are let through.
    """
    result = run(
        program_spec("masks", "bits", "opened", "numbers"),
        TEST_PROGRAMS / "masks.mpc",
        (PARTIES, LANES),
        Inputs(fair_bits=((2 * SUMS, LANES),)),
        model=get_model("semi2k", PARTIES),
        work=tmp_path / "run",
    )
    bits = np.array(result.outputs["bits"], dtype=np.int64).reshape(SUMS, 2, LANES)
    opened = np.array(result.outputs["opened"], dtype=np.int64).reshape(SUMS, LANES)
    numbers = np.array(result.outputs["numbers"], dtype=np.int64).reshape(PARTIES, SUMS, LANES)
    assert (numbers.sum(axis=0) + bits.sum(axis=1) == opened).all()  # modulo 2^64, as integers of NumPy are
    for own in numbers.reshape(PARTIES, -1):
        assert np.bitwise_or.reduce(own) == -1 and np.bitwise_and.reduce(own) == 0, "a bit is constant"
    assert len(np.unique(numbers)) >= numbers.size - 6
