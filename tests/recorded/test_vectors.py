"""What MP-SPDZ opened on known inputs, the embedded engine opens, too; and MP-SPDZ still does.

A vector that no longer fits, because coins are designed otherwise, say, is recorded anew:
`python -m tests.recorded.record`.
"""

import re
from pathlib import Path

import pytest

from fairshares.harness.errors import PartyFailedError
from fairshares.harness.security_models import MODELS, SecurityModel
from tests.recorded.vectors import Vector, job_of, opened_by, read_vectors
from tests.support.running import model_parameters

RECORDED = read_vectors()
ALL = RECORDED["vectors"]


def parameters(kind: str) -> list[object]:
    return [pytest.param(vector, id=vector["name"]) for vector in ALL if kind in vector]


on_both_engines = pytest.mark.parametrize(
    "model", model_parameters(models=[MODELS[RECORDED["mp_spdz"]["security"]], MODELS["mpyc"]])
)


@on_both_engines
@pytest.mark.parametrize("vector", parameters("opened"))
def test_opens_what_was_recorded(vector: Vector, model: SecurityModel, tmp_path: Path) -> None:
    assert opened_by(job_of(vector, model, tmp_path), model, tmp_path, vector) == vector["opened"]


@on_both_engines
@pytest.mark.parametrize("vector", parameters("fails"))
def test_fails_where_it_was_recorded_to_fail(vector: Vector, model: SecurityModel, tmp_path: Path) -> None:
    """A party whose input is too short is named, and none of those that waited for it."""
    length = max(map(len, vector["bits"]))
    short = [i for i, bits in enumerate(vector["bits"]) if len(bits) < length]
    what, to_blame = ("bits", short) if short else ("values", range(model.parties))
    with pytest.raises(PartyFailedError) as error:
        opened_by(job_of(vector, model, tmp_path), model, tmp_path, vector)
    message = re.fullmatch(r"Party (\d) ended with exit code 1; .* Its last lines: (.*)", str(error.value))
    assert message is not None and int(message[1]) in to_blame
    said = {
        "mp-spdz": re.sub(r"P\d", f"P{message[1]}", vector["fails"]),
        "embedded": f"fairshares: Party {message[1]} was given fewer input {what} than the program reads.",
    }
    assert message[2] == said[model.engine]
    assert not (tmp_path / "parties").exists()
