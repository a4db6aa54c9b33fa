"""Costs of sealed uploads, measured, and predicted for very many."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.studies.outcome import SUMMARY, Row, StudyResult, rounded
from benchmarks.studies.plans import run_command
from fairshares.harness.forecast.upload_costs import costs_of
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.system.worker_pools import worker_pool
from fairshares.harness.uploads.client import seal_upload
from fairshares.harness.uploads.counting import Opener, UploadCount, kept_count
from fairshares.harness.uploads.keys import SealingParty, secrets_in, signing_key
from fairshares.harness.uploads.lists import read_lists, write_uploads
from fairshares.harness.uploads.task import ANYONE, Task
from fairshares.harness.views.parts import Part, Table
from fairshares.harness.views.upload_tasks import planned
from fairshares.protocols.json_values import JsonFields

_POLICY = JsonFields(tasks=["weights"], epsilon="1", delta="1/1048576", unit="record")
_MANY = 10**8  # uploads, whose costs are predicted
_PARTIES = 3
_UNTIL = "9999-12-31"


class Case(NamedTuple):
    """Uploads for the three parties of `ring`, each of another client."""

    uploads: int
    counts: int
    hybrid: bool


QUICK = [Case(1_000, 4, True), Case(1_000, 4, False), Case(100, 404, True)]
WHOLE = [Case(10**6, 4, True), Case(10**6, 4, False), Case(20_000, 4_004, True)]


def study(cases: list[Case], progress: Callable[[int, int], None]) -> StudyResult:
    """Measure all cases, and predict the costs of a hundred million uploads."""
    rows = []
    for done, case in enumerate(cases):
        progress(done, len(cases))
        with TemporaryDirectory() as place:
            rows.append(_measured(case, Path(place)))
    return StudyResult({}, rows, list(_view(rows)), rows, {SUMMARY: rows})


def _view(rows: list[Row]) -> Iterator[Part]:
    lines = []
    for row in rows:
        lines.append([f"{value:,}" for value in row.values()])
    yield Table(list(rows[0]), lines)
    yield (
        "Seconds are processor time of one core, but `weights_s`, which is from Enter to the prompt. "
        "A party's are those of the one that takes most."
    )
    with TemporaryDirectory() as place:
        task = _task(Case(1, 4, True), Path(place))
        yield planned(costs_of(_MANY, task, _PARTIES - 1, rows), _MANY)


def _task(case: Case, place: Path) -> Task:
    parties = []
    for party in range(_PARTIES):
        keys = place / f"keys-{party}"
        keys.mkdir()
        parties.append(SealingParty(f"{party}", "", []).with_new_key(keys, _UNTIL, case.hybrid))
    groups = ("a", "b")
    labels = tuple(str(label) for label in range(case.counts // len(groups)))
    return Task(
        "ring",
        "split",
        "ring64",
        1,
        RecordDomain(groups, labels, 1).to_json(),
        _POLICY,
        parties,
        1,
        _UNTIL,
        ANYONE,
    )


def _measured(case: Case, place: Path) -> Row:
    """Measure a case. A million uploads take 4 GB."""
    task = _task(case, place)
    values = np.ones(case.counts, dtype=np.int64)
    started = time.process_time()
    with ExitStack() as stack:
        bundles = []
        for party in range(_PARTIES):
            directory = place / f"party-{party}"
            directory.mkdir()
            bundles.append(stack.enter_context((directory / "all.share").open("wb")))
        for _ in range(case.uploads):
            _, envelopes = seal_upload(task, values, None)
            for bundle, envelope in zip(bundles, envelopes, strict=True):
                bundle.write(envelope)
    sealed_s = time.process_time() - started
    list_mb, list_s = _most_of_all_parties(_list, task, place)
    add_mb, add_s = _most_of_all_parties(_add_up, task, place)
    weights_s, _, _ = run_command(["weights", "--shares", "aggregates", "--epsilon", "1"], place)
    return {
        **case._asdict(),
        "hybrid": int(case.hybrid),
        "seal_s": rounded(sealed_s),
        "list_s": rounded(list_s),
        "list_mb": rounded(list_mb),
        "add_s": rounded(add_s),
        "add_mb": rounded(add_mb),
        "upload_bytes": task.envelope_bytes(_PARTIES - 1),
        "weights_s": rounded(weights_s),
    }


def _most_of_all_parties(
    step: Callable[[Task, Path, int], tuple[float, float]], task: Task, place: Path
) -> tuple[float, float]:
    """Return the most megabytes and the most seconds that a step takes at any of the parties."""
    megabytes = []
    seconds = []
    for party in range(_PARTIES):
        # A process of its own has its own peak of memory.
        with worker_pool(1, "spawn") as alone:
            party_mb, party_s = alone.submit(step, task, place, party).result()
        megabytes.append(party_mb)
        seconds.append(party_s)
    return max(megabytes), max(seconds)


def _opener(task: Task, place: Path, party: int) -> Opener:
    return Opener(task, party, secrets_in(place / f"keys-{party}"), task.allowed)


def _list(task: Task, place: Path, party: int) -> tuple[float, float]:
    """Do what `./inv uploads` does, in one process: open all uploads, and keep their sum beside the list."""
    started = time.process_time()
    count = UploadCount(_opener(task, place, party))
    count.add(place / f"party-{party}", 0)
    key = signing_key(place / f"keys-{party}")
    write_uploads(count.report(), place / "lists" / f"party-{party}.uploads", key)
    count.keep(place / "kept" / f"{party}")
    return _most_mb(), time.process_time() - started


def _add_up(task: Task, place: Path, party: int) -> tuple[float, float]:
    """Do what `./inv aggregate` does with what is kept, where all parties list all uploads."""
    started = time.process_time()
    agreement = read_lists(place / "lists", task)
    kept = place / "kept" / f"{party}"
    count = kept_count(_opener(task, place, party), place / f"party-{party}", kept, agreement.accepted)
    assert count is not None
    count.write(place / "aggregates" / f"party-{party}.aggregate", agreement.left_out)
    return _most_mb(), time.process_time() - started


def _most_mb() -> float:
    """Return the most megabytes that this process has had.

    `getrusage` would also count the process that began this process.
    """
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(kilobytes) * 1024 / 1e6
