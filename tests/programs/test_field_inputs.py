"""MP-SPDZ reads elements of a prime field as they are: those of more than 64 bits, large sums, negatives."""

from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.inputs.rings import FIELD
from fairshares.harness.security_models import SecurityModel, get_model
from tests.support.running import TEST_PROGRAMS, Inputs, model_parameters, program_spec, run

OF_A_FIELD = [get_model("shamir"), get_model("shamir", 5)]
P = FIELD.modulus
# Sums, from the least to the largest that a run may open.
SUMS = [-(2**63), -(2**63) + 1, -(2**32), -2, -1, 0, 1, 2, 2**32, 2**62, 2**63 - 2, 2**63 - 1]
# Shares next to which a word, or its sign, ends.
EDGES = [
    0,
    1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    2**126 - 1,
    2**126,
    2**127 - 2**63 - 1,
    2**127 - 2**63,
    P - 1,
]


def bytes_of(elements: list[int]) -> bytes:
    """Return a party's file of elements."""
    return b"".join(element.to_bytes(FIELD.value_bytes, "little") for element in elements)


@pytest.mark.parametrize("model", model_parameters(models=OF_A_FIELD))
def test_any_shares_of_any_sum_are_read_as_they_are(model: SecurityModel, tmp_path: Path) -> None:
    sums = [total for total in SUMS for _ in EDGES]
    columns = [EDGES * len(SUMS)]
    rng = np.random.default_rng(3)
    for _ in range(model.parties - 2):
        columns.append([int.from_bytes(rng.bytes(16), "little") % P for _ in sums])
    columns.append([(total - sum(others)) % P for total, *others in zip(sums, *columns, strict=True)])
    files = []
    for party, column in enumerate(columns):
        files.append(tmp_path / f"party-{party}.values")
        files[-1].write_bytes(bytes_of(column))
    result = run(
        program_spec("field_inputs", "sums", "negative"),
        TEST_PROGRAMS / "field_inputs.mpc",
        (model.parties, len(sums)),
        Inputs(files=files),
        model=model,
        work=tmp_path / "run",
    )
    assert list(result.outputs["sums"]) == sums
    assert list(result.outputs["negative"]) == [int(total < 0) for total in sums]
