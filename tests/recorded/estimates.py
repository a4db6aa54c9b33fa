"""What MP-SPDZ's compiler says of programs' costs, recorded: `python -m tests.recorded.estimates`.

So that plans of measured runs can be checked without compiling for a minute, or without MP-SPDZ.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure.cell import job_of, model_of
from benchmarks.measure.samples import OK, SAMPLES, load
from benchmarks.suites import SUITES
from harness.engines.base import Job
from harness.engines.mpspdz.compiler import compile_options
from harness.forecast import operation_counts as counts
from harness.forecast.plan import MOST_PLANNED
from harness.security_models import SecurityModel
from tests.conftest import PROJECT

FILE = Path(__file__).parent / "estimates.json"
RESULTS = PROJECT / "benchmarks" / "results"
COMPILED = ("pi_roc_published",)


def key(job: Job, model: SecurityModel) -> str:
    """Return what an estimate is of, but for the program's text."""
    return " ".join((job.spec.name, *job.arguments, *compile_options(job, model)))


def compiled_jobs() -> Iterator[tuple[Job, SecurityModel]]:
    """Yield the jobs of recorded runs whose costs only the compiler knows."""
    for path in (RESULTS / suite / SAMPLES for suite in SUITES):
        for sample in load(path) if path.exists() else ():
            if sample.status == OK and sample.repetition == 0:
                job = job_of(sample.cell)
                small = int(sample.cell.get("records", 0)) <= MOST_PLANNED
                if job.spec.name in COMPILED and sample.cell["input_path"] == "shares" and small:
                    yield job, model_of(sample.cell)


def recorded() -> dict[str, str]:
    """Return the recorded estimates."""
    found: dict[str, str] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Record them all anew."""
    found: dict[str, str] = {}
    for job, model in compiled_jobs():
        name = key(job, model)
        if name not in found:
            text = counts.estimate(job, model)
            found[name] = text[text.index("Program requires") :]
            print(name)
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
