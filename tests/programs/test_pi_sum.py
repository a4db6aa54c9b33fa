"""π_SUM takes columns of the length that it was laid out for, and no others."""

from pathlib import Path

import pytest

from fairshares.harness.engines.execution import DistributedNoiseInput, PrivateJob, ValueFiles
from fairshares.harness.errors import PartyFailedError
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.spec import PI_SUM
from tests.support.running import copy_of_program, model_parameters, run_job, share_values


@pytest.mark.parametrize("length", [5, 7])
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_a_column_of_another_length_is_refused(model: SecurityModel, length: int, tmp_path: Path) -> None:
    """Values that are left over would be read as noise, which comes after them."""
    arguments = (str(model.parties), "6", "laplace", "1", "40")
    paths = tuple(share_values(range(length), model, tmp_path))
    program = copy_of_program(PI_SUM.name, tmp_path)
    sums = tuple((value,) for value in range(6))
    job = PrivateJob(PI_SUM, program, arguments, ValueFiles(paths), own=DistributedNoiseInput(6, 6, sums))
    with pytest.raises(PartyFailedError, match=f"holds {length} values, not the 6 that are to be counted"):
        run_job(job, model, tmp_path / "parties")
