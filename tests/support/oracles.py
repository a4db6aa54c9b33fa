"""What each program opens by its oracle, of made-up records: a program without an entry here fails a test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fairshares.harness.inputs.record_schema import (
    Cap,
    RecordDomain,
    RecordKind,
    ValueGrid,
    caps_to_choose_from,
    even_grid,
)
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.releases.base import Statistic
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.cap.statistic import CapStatistic, CapTarget, sizes_alone
from fairshares.harness.releases.confusion.spec import PI_CF, PI_CF_SLOTS
from fairshares.harness.releases.confusion.statistic import ConfusionStatistic
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.count.statistic import CountStatistic
from fairshares.harness.releases.gap.spec import PI_GAP, PI_GAP_SLOTS
from fairshares.harness.releases.gap.statistic import GapStatistic
from fairshares.harness.releases.thresholds.spec import PI_ROC, PI_ROC_RECORDS
from fairshares.harness.releases.thresholds.statistic import CurvesStatistic
from fairshares.harness.releases.weights.spec import PI_RW, PI_RW_SLOTS
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.protocols import reference
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.mechanisms.shifted_log import ErrorTarget

GROUPS, LABELS, STEPS = 3, 2, 4
CLIENTS, RECORDS = 20, 40
GRID = even_grid(32)  # for which trees of more than one level are chosen
CAP = Cap(2)  # as many records as each client has

Arguments = Mapping[str, object]


@dataclass(frozen=True)
class Oracle:
    """A program's statistic, the kind of its records, and what it opens.

    `opened` returns the opened integers of records, the program's arguments and the noise of each value.
    """

    statistic: Statistic[Any]
    kind: RecordKind
    opened: Callable[[ClientRecords, Arguments, Sequence[int]], list[int]]


def made_up(kind: RecordKind, cap: Cap | None) -> ClientRecords:
    """Return two records of each client, in one group; of values and sizes as many as those kinds have.

    Args: cap: the contribution bound, if clients are the unit.
    """
    rng = np.random.default_rng(11)
    groups, labels = ("a", "b", "c"), ("0", "1")
    ids, of_client = np.arange(CLIENTS).astype(str), rng.integers(0, GROUPS, CLIENTS)
    client = np.arange(RECORDS) % CLIENTS
    label, prediction = rng.integers(0, LABELS, (2, RECORDS))
    score = rng.permutation(np.arange(RECORDS) % len(GRID))  # each bin has a record
    if kind is RecordKind.VALUE:
        values = ValueGrid(0.0, 1.0, STEPS)
        domain = RecordDomain(groups, (), 1, kind=kind, values=values, cap=cap and Cap(1))
        once, none = np.arange(CLIENTS), np.zeros(CLIENTS, dtype=np.int64)
        value = rng.integers(-STEPS, STEPS + 1, CLIENTS)
        return ClientRecords(domain, ids, once, of_client, none, value)
    if kind is RecordKind.SIZE:
        domain = RecordDomain(groups, labels, 8)
        several = np.repeat(np.arange(CLIENTS), rng.integers(0, 9, CLIENTS))
        zeros = np.zeros(len(several), dtype=np.int64)
        return sizes_alone(ClientRecords(domain, ids, several, zeros, zeros))
    grid = GRID if kind is RecordKind.SCORE else ()
    domain = RecordDomain(groups, labels, 2, kind=kind, thresholds=grid, cap=cap)
    detail = {RecordKind.PREDICTION: prediction, RecordKind.SCORE: score}.get(kind)
    return ClientRecords(domain, ids, client, of_client[client], label, detail)


def _with_noise(values: Any, noise: Sequence[int]) -> list[int]:
    return [value + x for value, x in zip(np.ravel(values).tolist(), noise, strict=True)]


def _counts(records: ClientRecords, _: Arguments, noise: Sequence[int]) -> list[int]:
    return _with_noise(reference.counts(records.group, records.label, GROUPS, LABELS), noise)


def _confusion(records: ClientRecords, _: Arguments, noise: Sequence[int]) -> list[int]:
    assert records.detail is not None
    table = reference.confusion(records.group, records.label, records.detail, GROUPS, LABELS)
    return _with_noise(table, noise)


def _blocks(records: ClientRecords, arguments: Arguments, noise: Sequence[int]) -> list[int]:
    assert records.detail is not None
    sizes = [int(size) for size in str(arguments["blocks"]).split(".")]
    scores = [GRID[at] for at in records.detail]
    pair = records.group * LABELS + records.label
    return _with_noise(reference.block_counts(pair, scores, GROUPS * LABELS, GRID, sizes), noise)


def _distances(records: ClientRecords, _: Arguments, noise: Sequence[int]) -> list[int]:
    assert records.detail is not None
    sums = reference.sums_from_ends(records.group.tolist(), records.detail.tolist(), GROUPS, STEPS)
    return _with_noise(sums, noise)


def _logarithms(records: ClientRecords, arguments: Arguments, noise: Sequence[int]) -> list[int]:
    offset, most = int(str(arguments["offset"])), int(str(arguments["most"]))
    counts = reference.counts(records.group, records.label, GROUPS, LABELS).ravel().tolist()
    return _with_noise([reference.shifted_log(count, offset, most) for count in counts], noise)


def _index(records: ClientRecords, arguments: Arguments, noise: Sequence[int]) -> list[int]:
    caps = caps_to_choose_from(records.domain.max_count)
    return [reference.first_below(records.sizes.tolist(), caps, int(str(arguments["above"])), noise)]


_CURVES = CurvesStatistic()
_TARGET = CapTarget("counts", Guarantee(Fraction(1), Fraction(1, 2**40)), counts=4)

ORACLES: dict[str, Oracle] = {
    PI_RW.name: Oracle(WeightsStatistic(), RecordKind.NONE, _counts),
    PI_RW_SLOTS.name: Oracle(WeightsStatistic(spec=PI_RW_SLOTS), RecordKind.NONE, _counts),
    PI_CF.name: Oracle(ConfusionStatistic(), RecordKind.PREDICTION, _confusion),
    PI_CF_SLOTS.name: Oracle(ConfusionStatistic(PI_CF_SLOTS), RecordKind.PREDICTION, _confusion),
    PI_ROC.name: Oracle(_CURVES, RecordKind.SCORE, _blocks),
    PI_ROC_RECORDS.name: Oracle(replace(_CURVES, spec=PI_ROC_RECORDS), RecordKind.SCORE, _blocks),
    PI_GAP.name: Oracle(GapStatistic(), RecordKind.VALUE, _distances),
    PI_GAP_SLOTS.name: Oracle(GapStatistic(PI_GAP_SLOTS), RecordKind.VALUE, _distances),
    PI_COUNT.name: Oracle(CountStatistic(ErrorTarget(0.5, 10, 1000)), RecordKind.NONE, _logarithms),
    PI_CAP.name: Oracle(CapStatistic(_TARGET), RecordKind.SIZE, _index),
}
