"""Releases with distributed noise open the oracle's integers plus all parties' noise, in every model.

Programs' own text, with jobs that the harness lays out and noise that the test gives each party.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.engines.base import DistributedNoiseInput
from harness.engines.registry import engine_of
from harness.errors import PartyFailedError
from harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid, even_grid
from harness.inputs.records import ClientRecords
from harness.pipeline.run import make_job
from harness.pipeline.sources import RecordsSource
from harness.releases.base import Statistic
from harness.releases.confusion import ConfusionStatistic
from harness.releases.gaps import GapStatistic
from harness.releases.score_curves import CurvesStatistic
from harness.releases.weights import WeightsStatistic
from harness.security_models import MODELS, SecurityModel
from protocols import reference
from protocols.accounting.calibration import PrivacyUnit
from protocols.noise.added import NoiseDistribution
from protocols.spec import (
    KEYS,
    PI_CF_SLOTS,
    PI_GAP_SLOTS,
    PI_ROC_RECORDS,
    PI_RW_SLOTS,
    PI_SUM,
    PRODUCT,
    PRODUCT_PER_RECORD,
    SLOTS,
    SPLIT,
    InputForm,
)
from tests.support.requests import request_of
from tests.support.running import RUN_TIMEOUT_S, copy_of_program, model_parameters, share_values
from tests.support.sharing import context

GROUPS, LABELS = 2, 2
GRID = even_grid(7)
N = 40


def records(kind: RecordKind, cap: Cap | None = None) -> ClientRecords:
    """Return a record each of 40 clients; where a value is one, from -5 to 5 steps."""
    rng = np.random.default_rng(len(kind.name))
    group, label, prediction, score, value = (
        rng.integers(0, n, N) for n in (GROUPS, LABELS, LABELS, len(GRID), 11)
    )
    detail = {RecordKind.PREDICTION: prediction, RecordKind.SCORE: score, RecordKind.VALUE: value - 5}
    names = ("a", "b")
    if kind is RecordKind.VALUE:
        grid = ValueGrid(0.0, 1.0, 5)
        domain = RecordDomain(names, (), 1, kind=kind, values=grid, cap=cap)
    else:
        grid_of_scores = GRID if kind is RecordKind.SCORE else ()
        domain = RecordDomain(names, ("0", "1"), 1, kind=kind, thresholds=grid_of_scores, cap=cap)
    ids = np.arange(N).astype(str)
    return ClientRecords(domain, ids, np.arange(N), group, label, detail.get(kind))


def truth(held: ClientRecords, blocks: Sequence[int] = ()) -> list[int]:
    """Return what would be opened without noise, by the reference."""
    kind = held.domain.kind
    if kind is RecordKind.NONE:
        return [int(n) for n in reference.counts(held.group, held.label, GROUPS, LABELS).ravel()]
    assert held.detail is not None
    if kind is RecordKind.PREDICTION:
        return [
            int(n) for n in reference.confusion(held.group, held.label, held.detail, GROUPS, LABELS).ravel()
        ]
    if kind is RecordKind.SCORE:
        pair, scores = held.group * LABELS + held.label, [GRID[at] for at in held.detail]
        return [int(n) for n in reference.block_counts(pair, scores, GROUPS * LABELS, GRID, tuple(blocks))]
    sums = [
        (int(held.detail[held.group == g].sum()), 5 * int((held.group == g).sum())) for g in range(GROUPS)
    ]
    return [value for pair in sums for value in pair]


def opened(
    statistic: Statistic[Any],
    held: ClientRecords,
    form: InputForm,
    model: SecurityModel,
    directory: Path,
    unit: PrivacyUnit = PrivacyUnit.RECORD,
) -> tuple[list[int], list[int]]:
    """Return what a run opens less the noise that its parties were given, and what it should."""
    release = request_of(model, form, Fraction(1), Fraction(1, 2**40), None, unit, NoiseDistribution.LAPLACE)
    source, scratch = RecordsSource(held), directory / "inputs"
    scratch.mkdir()
    run = context(release, scratch)
    described = source.describe(run)
    prepared = statistic.prepare(release, described.domain)
    inputs = source.deliver(run, described)
    job = make_job(prepared, inputs)
    assert engine_of(model).supports(job.spec, model, form) is None
    noise = np.random.default_rng(5).integers(-(2**40), 2**40, (model.parties, prepared.plan.nodes))
    given = tuple(tuple(each) for each in noise.tolist())
    job = replace(job, source=copy_of_program(job.source.stem, directory), given_bits=given)
    result = engine_of(model).run(job, model, directory / "parties", RUN_TIMEOUT_S, lambda step: None)
    (values,) = result.outputs.values()
    blocks = [int(size) for size in str(prepared.arguments.get("blocks", "1")).split(".")]
    return (np.array(values) - noise.sum(axis=0)).tolist(), truth(held, blocks)


STATISTICS: dict[str, tuple[Statistic[Any], RecordKind]] = {
    "weights": (WeightsStatistic(), RecordKind.NONE),
    "confusion": (ConfusionStatistic(), RecordKind.PREDICTION),
    "curves": (CurvesStatistic(), RecordKind.SCORE),
    "gap": (GapStatistic(), RecordKind.VALUE),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("model", model_parameters())
def test_columns_of_sums_open_the_oracles_integers(name: str, model: SecurityModel, tmp_path: Path) -> None:
    statistic, kind = STATISTICS[name]
    form = next(iter(statistic.spec.input_forms.values()))
    assert form.name == SPLIT.name
    found, expected = opened(statistic, records(kind), form, model, tmp_path)
    assert found == expected


@pytest.mark.parametrize(("form", "model"), model_parameters(PRODUCT, PRODUCT_PER_RECORD))
def test_noise_after_indicators_opens_the_oracles_integers(
    form: InputForm, model: SecurityModel, tmp_path: Path
) -> None:
    of_records = form is PRODUCT_PER_RECORD
    statistic, kind = STATISTICS["confusion" if of_records else "weights"]
    found, expected = opened(statistic, records(kind), form, model, tmp_path)
    assert found == expected


SLOTTED: dict[str, tuple[Statistic[Any], RecordKind]] = {
    "weights": (WeightsStatistic(spec=PI_RW_SLOTS), RecordKind.NONE),
    "confusion": (ConfusionStatistic(PI_CF_SLOTS), RecordKind.PREDICTION),
    "gap": (GapStatistic(PI_GAP_SLOTS), RecordKind.VALUE),
}


@pytest.mark.parametrize("name", SLOTTED)
@pytest.mark.parametrize("model", model_parameters())
def test_noise_beside_slots_opens_the_oracles_integers(
    name: str, model: SecurityModel, tmp_path: Path
) -> None:
    statistic, kind = SLOTTED[name]
    form = statistic.spec.input_forms[SLOTS.name]
    held = records(kind, Cap(1))
    found, expected = opened(statistic, held, form, model, tmp_path, PrivacyUnit.CLIENT)
    assert found == expected


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["rep4-ring"]]))
def test_noise_after_keys_opens_the_oracles_integers(model: SecurityModel, tmp_path: Path) -> None:
    statistic = CurvesStatistic(spec=PI_ROC_RECORDS)
    found, expected = opened(statistic, records(RecordKind.SCORE), KEYS, model, tmp_path)
    assert found == expected


@pytest.mark.parametrize("held", [5, 7])
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_a_column_of_another_length_is_refused(model: SecurityModel, held: int, tmp_path: Path) -> None:
    """Values that are left over would be read as noise, which comes after them."""
    from harness.engines.base import Job

    arguments = (str(model.parties), "6", "laplace", "1", "40")
    paths = tuple(share_values(range(held), model, tmp_path))
    program = copy_of_program(PI_SUM.name, tmp_path)
    job = Job(PI_SUM, program, arguments, paths, own=DistributedNoiseInput(6, 6, (6, 1, "1")))
    with pytest.raises(PartyFailedError, match=f"holds {held} values, not the 6 that are to be counted"):
        engine_of(model).run(job, model, tmp_path / "parties", RUN_TIMEOUT_S, lambda step: None)
