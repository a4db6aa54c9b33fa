"""Planned and measured times of commands, from Enter to the prompt."""

import json
import math
import os
import shlex
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.studies.outcome import StudyResult, rounded
from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.errors import FairSharesError
from fairshares.harness.forecast.plan import childrens_processor_s
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.privacy.ledger.charge import LEDGER_VARIABLE
from fairshares.harness.releases.base import kind_of
from fairshares.harness.views.parts import Part, Table

FACTOR = 1.5  # a plan is right if planned and measured seconds differ by less
_PARTS = ("wall_s", "start_s", "design_s", "read_s", "share_s", "compile_s", "mpc_s", "derive_s")


@dataclass(frozen=True)
class Case:
    """A command, and the size of its records."""

    task: str
    options: str
    clients: int
    records: int
    groups: int = 2
    labels: int = 2

    @property
    def title(self) -> str:
        """The case's name for people."""
        sizes = f"{self.clients:,} clients"
        if not self.of_values:
            sizes = f"{self.records:,} records, {sizes}"
        return f"{self.task} {self.options}, {sizes}"

    @property
    def of_values(self) -> bool:
        """Whether its clients have performance values, whose domain a command has to be told."""
        return kind_of(self.task) is RecordKind.VALUE


CASES = (
    Case("weights", "--security ring", 100, 400),
    Case("weights", "--security ring", 2_000, 20_000, 3),
    Case("weights", "--security semi2k", 20_000, 200_000),
    Case("weights", "--security spdz2k", 100, 400),
    Case("weights", "--security ps-rep-ring", 300, 3_000),
    Case("weights", "--security rep4-ring", 100, 400, 5, 3),
    Case("weights", "--security mpyc", 100, 400),
    Case("weights", "--security ring --noise distributed", 1_000, 10_000),
    Case("weights", "--security spdz2k --noise distributed", 1_000, 10_000),
    Case("weights", "--security ring --input-form product", 1_500, 6_000),
    Case("weights", "--security ring --privacy-unit client --cap 5", 1_000, 10_000),
    Case("confusion", "--security sy-rep-ring", 500, 5_000),
    Case("confusion", "--security semi2k", 500, 5_000, 2, 3),
    Case("confusion", "--security rep4-ring --noise distributed", 500, 5_000),
    Case("thresholds", "--security ring", 500, 20_000),
    Case("thresholds", "--security semi2k", 5_000, 20_000),
    Case("thresholds", "--security ps-rep-ring --noise distributed", 500, 20_000),
    Case("gap", "--security ring", 5_000, 5_000),
    Case("count", "--security ring", 300, 3_000),
    Case("cap", "--security semi2k --release-epsilon 1", 1_000, 10_000),
)
QUICK = (CASES[0], CASES[6])


def write_records(case: Case, path: Path) -> None:
    """Write a case's records, with higher scores for the last label."""
    rng = np.random.default_rng(20_220_523)  # arbitrary, but fixed: all machines have the same records
    number = pd.Series(range(case.records))
    label = number // case.groups % case.labels
    kind = kind_of(case.task)
    columns = ["client_id", "group"]
    if not case.of_values:
        columns.append("label")
    if kind.of_each:
        columns.append(kind.value)
    table = {
        "client_id": "c" + (number % case.clients).astype(str),
        "group": "g" + (number % case.groups).astype(str),
        "label": "l" + label.astype(str),
        "score": ((rng.random(case.records) + label) / case.labels).round(4),
        "prediction": "l" + pd.Series(rng.integers(case.labels, size=case.records)).astype(str),
        "value": rng.random(case.records).round(3),
    }
    pd.DataFrame(table)[columns].to_csv(path, index=False)


def study(
    cases: Sequence[Case], repetitions: int, tell: Callable[[int, int], None], units: Path | None = None
) -> StudyResult:
    """Plan and run each case, before and after its program is compiled."""
    rows = []
    for number, case in enumerate(cases):
        tell(number, len(cases))
        with TemporaryDirectory() as name:
            scratch = Path(name)
            write_records(case, scratch / "records.csv")
            for compiled in (False, True):
                rows.append(_row(case, scratch, compiled, repetitions, units))
    return StudyResult({"factor": FACTOR}, rows, view(rows), samples=rows)


def _row(case: Case, scratch: Path, compiled: bool, repetitions: int, units: Path | None) -> dict[str, Any]:
    """Plan and run a case: once before its program is compiled, or `repetitions` times after."""
    load, _, _ = os.getloadavg()
    common = [case.task, "--records", "records.csv"]
    common += shlex.split(case.options)
    common += ["--epsilon", "1"]
    plan_of = "file"
    if units:
        plan_of += f",units={units.resolve()}"
    _, _, plan = run_command([*common, "--plan", plan_of, "--json"], scratch)
    (planned,) = json.loads(plan)["models"]
    if case.of_values:
        common += ["--groups", "g0,g1", "--range", "0,1"]
    runs = []
    for number in range(repetitions if compiled else 1):
        runs.append(run_command([*common, "--out", f"{compiled}-{number}"], scratch))
    walls, cpus, _ = zip(*runs, strict=True)
    wall_s = statistics.median(walls)
    return {
        "case": case.title,
        "compiled": compiled,
        "planned": {name: planned[name] for name in _PARTS},
        "walls": walls,
        "cpu_s": statistics.median(cpus),
        "load": load,
        "wall_s": wall_s,
        "ratio": rounded(planned["wall_s"] / wall_s, 3),
    }


def run_command(arguments: Sequence[str], scratch: Path) -> tuple[float, float, str]:
    """Run a command, and return its seconds, processor seconds and output."""
    before = childrens_processor_s()
    started = time.monotonic()
    done = subprocess.run(
        [str(PROJECT / "inv"), *arguments],
        cwd=scratch,
        env=os.environ | {"XDG_CACHE_HOME": str(scratch / "cache"), LEDGER_VARIABLE: str(scratch / "ledger")},
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.monotonic() - started
    if done.returncode:
        raise FairSharesError(f"`./inv {shlex.join(arguments)}` failed: {done.stderr.strip()[-500:]}")
    return took, childrens_processor_s() - before, done.stdout


def view(rows: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """View each case."""
    lines = []
    for row in rows:
        lines.append(
            [
                row["case"],
                "kept" if row["compiled"] else "compiled",
                f"{row['planned']['wall_s']:.2f}",
                f"{row['wall_s']:.2f}",
                f"{row['ratio']:.2f}",
                f"{row['cpu_s']:.2f}",
                f"{row['load']:.1f}",
            ]
        )
    yield Table(
        ["./inv …", "program", "planned, s", "took, s", "ratio", "processors, s", "load before"],
        lines,
        "llrrrrr",
    )
    ratios = [row["ratio"] for row in rows]
    right = [ratio for ratio in ratios if abs(math.log(ratio)) <= math.log(FACTOR)]
    yield (
        f"{len(right)} of {len(rows)} plans are within a factor of {FACTOR}; the median ratio is "
        f"{statistics.median(ratios):.2f}. Load is of the minute before; what other "
        "programs take of the processors is not in a plan."
    )
