"""What sealed uploads cost clients and a party in processor time, memory and bytes; what many would."""

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.studies.outcome import SUMMARY, Outcome, Row, rounded
from harness.inputs.record_schema import RecordDomain
from harness.inputs.shares.counting import Count, Opener
from harness.inputs.shares.envelope import seal_upload
from harness.inputs.shares.keys import SealingParty, secrets_in
from harness.inputs.shares.task import ANYONE, Task
from harness.views.parts import Table

_POLICY = {"tasks": ["weights"], "epsilon": "1", "delta": "1/1048576", "unit": "record"}
_MANY = 10**8
_MB = 1e6


class Case(NamedTuple):
    """Uploads of one client each for three parties of model `ring`; hybrid: whether keys are."""

    uploads: int
    counts: int
    hybrid: bool


QUICK = [Case(1_000, 4, True), Case(1_000, 4, False)]
WHOLE = [Case(10**6, 4, True), Case(10**6, 4, False), Case(20_000, 4_004, True)]


def study(cases: list[Case], progress: Callable[[int, int], None]) -> Outcome:
    """Seal, list and add up; then say what a hundred million uploads would take, by these figures."""
    rows = []
    for done, case in enumerate(cases):
        progress(done, len(cases))
        with TemporaryDirectory() as place:
            rows.append(_measured(case, Path(place)))
    shown = [
        [str(value) if value in (True, False) else f"{value:,}" for value in row.values()] for row in rows
    ]
    note = "Seconds are processor time of one core. A party is the last, whose uploads hold values."
    return Outcome({}, rows, [Table(list(rows[0]), shown), note], rows, {SUMMARY: rows})


def _measured(case: Case, place: Path) -> Row:
    until = "9999-12-31"
    parties = [SealingParty(f"{i}", "", []).with_new_key(place, until, case.hybrid) for i in range(3)]
    domain = RecordDomain(("a", "b"), tuple(map(str, range(case.counts // 2))), 1)
    fields = ("ring", "split", "ring64", 1, domain.to_json(), _POLICY)
    task, values = Task(*fields, parties, 1, until, ANYONE), np.ones(case.counts, dtype=np.int64)
    (place / "uploads").mkdir()
    started = time.process_time()
    with (place / "uploads" / "bundle.share").open("wb") as bundle:
        for _ in range(case.uploads):
            bundle.write(seal_upload(task, values, None)[1][-1])
    sealed_s = time.process_time() - started
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        opener = Opener(task, 2, secrets_in(place), task.allowed)
        peak, added_s = alone.submit(_costs, opener, place).result()
    size = task.envelope_bytes(2)
    return {
        **case._asdict(),
        "clients' s": rounded(sealed_s),
        "a party's s": rounded(added_s),
        "a party's MB": rounded(peak / _MB),
        "bytes of an upload": size,
        "of 10^8: hours": rounded(_MANY * added_s / case.uploads / 3600, 2),
        "disk, GB": rounded(_MANY * size / 1e9, 2),
    }


def _costs(opener: Opener, place: Path) -> tuple[float, float]:
    """Add up what is in a place; return the most bytes of memory, and seconds."""
    started, count = time.process_time(), Count(opener)
    count.add(place / "uploads", 0)
    count.write(place / "aggregate", {})
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, time.process_time() - started
