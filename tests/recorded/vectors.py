"""Vectors: what MP-SPDZ opened on known inputs, with all that is needed to have an engine do it again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairshares.harness.engines.execution import PrivateJob
from fairshares.harness.security_models import SecurityModel
from tests.support.running import (
    TEST_PROGRAMS,
    Inputs,
    copy_of_program,
    make_job,
    program_spec,
    run_job,
)

FILE = Path(__file__).parent / "mp-spdz.json"
SCHEMA = 1

# A vector has a name; program: of Programs/Source, run from a copy, or of tests/programs; its arguments;
# values: shared among the parties; bits: per party, the integers of its input file; and either opened:
# the integers of each OUT line, or fails: what the failing party says.
Vector = Mapping[str, Any]


def read_vectors() -> dict[str, Any]:
    """Return the recorded file."""
    document: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    assert document["schema"] == SCHEMA
    return document


def job_of(vector: Vector, model: SecurityModel, directory: Path) -> PrivateJob:
    """Lay out a vector's inputs in `directory`, which exists, and return the job."""
    name = vector["program"]
    source = TEST_PROGRAMS / f"{name}.mpc"
    if not source.exists():
        source = copy_of_program(name, directory)
    spec = program_spec(name, *vector["outputs"])
    inputs = Inputs(values=vector["values"] or None)
    return make_job(spec, source, vector["arguments"], inputs, model=model, work=directory / "inputs")


def opened_by(job: PrivateJob, model: SecurityModel, directory: Path, vector: Vector) -> dict[str, list[int]]:
    """Run a vector's job on its bits, and return what was opened."""
    result = run_job(job, model, directory / "parties", given=vector["bits"])
    return {name: list(values) for name, values in result.outputs.items()}
