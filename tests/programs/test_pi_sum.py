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

from harness.engines.base import DistributedNoiseInput, Job
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
    SCORED_SPLIT,
    SLOTS,
    SPLIT,
    VALUED_SPLIT,
    InputForm,
)
from tests.support.requests import request_of
from tests.support.running import RUN_TIMEOUT_S, copy_of_program, model_parameters, share_values
from tests.support.sharing import context

GROUPS, LABELS = 2, 2
GRID = even_grid(7)
N = 40
KEYS_IN = [MODELS["ring"], MODELS["rep4-ring"]]  # where loops over keys are tried


def records(kind: RecordKind, cap: Cap | None = None) -> ClientRecords:
    """Return a record each of 40 clients; where a value is one, from -5 to 5 steps."""
    rng = np.random.default_rng(len(kind.name))
    group, label, prediction, score, value = (
        rng.integers(0, n, N) for n in (GROUPS, LABELS, LABELS, len(GRID), 11)
    )
    detail = {RecordKind.PREDICTION: prediction, RecordKind.SCORE: score, RecordKind.VALUE: value - 5}
    names = ("a", "b")
    if kind is RecordKind.VALUE:
        domain = RecordDomain(names, (), 1, kind=kind, values=ValueGrid(0.0, 1.0, 5), cap=cap)
    else:
        grid_of_scores = GRID if kind is RecordKind.SCORE else ()
        domain = RecordDomain(names, ("0", "1"), 1, kind=kind, thresholds=grid_of_scores, cap=cap)
    return ClientRecords(domain, np.arange(N).astype(str), np.arange(N), group, label, detail.get(kind))


def truth(drawn: ClientRecords, blocks: Sequence[int]) -> list[int]:
    """Return what would be opened without noise, by the reference."""
    group, label, detail, kind = drawn.group, drawn.label, drawn.detail, drawn.domain.kind
    if kind is RecordKind.NONE:
        return reference.counts(group, label, GROUPS, LABELS).ravel().tolist()
    assert detail is not None
    if kind is RecordKind.PREDICTION:
        return reference.confusion(group, label, detail, GROUPS, LABELS).ravel().tolist()
    if kind is RecordKind.SCORE:
        scores = [GRID[at] for at in detail]
        return reference.block_counts(group * LABELS + label, scores, GROUPS * LABELS, GRID, tuple(blocks))
    return reference.sums_from_ends(group.tolist(), detail.tolist(), GROUPS, 5)


WEIGHTS, VALUES, KEYED = WeightsStatistic(), GapStatistic(), CurvesStatistic(spec=PI_ROC_RECORDS)
CASES: dict[str, tuple[Statistic[Any], RecordKind, InputForm]] = {
    "weights": (WEIGHTS, RecordKind.NONE, SPLIT),
    "confusion": (ConfusionStatistic(), RecordKind.PREDICTION, SPLIT),
    "curves": (CurvesStatistic(), RecordKind.SCORE, SCORED_SPLIT),
    "gap": (VALUES, RecordKind.VALUE, VALUED_SPLIT),
    "weights by": (WEIGHTS, RecordKind.NONE, PRODUCT),
    "confusion by": (ConfusionStatistic(), RecordKind.PREDICTION, PRODUCT_PER_RECORD),
    "weights in": (WeightsStatistic(spec=PI_RW_SLOTS), RecordKind.NONE, SLOTS),
    "confusion in": (ConfusionStatistic(PI_CF_SLOTS), RecordKind.PREDICTION, SLOTS),
    "gap in": (GapStatistic(PI_GAP_SLOTS), RecordKind.VALUE, PI_GAP_SLOTS.input_forms[SLOTS.name]),
    "curves of": (KEYED, RecordKind.SCORE, KEYS),
}


@pytest.mark.parametrize(
    ("statistic", "kind", "form", "model"),
    [
        pytest.param(*case[:2], *chosen.values, id=f"{name}-{chosen.id}", marks=chosen.marks)
        for name, case in CASES.items()
        for chosen in model_parameters(case[2], models=KEYS_IN if case[2] is KEYS else MODELS.values())
    ],
)
def test_what_is_opened_less_all_noise_is_the_oracles(
    statistic: Statistic[Any], kind: RecordKind, form: InputForm, model: SecurityModel, tmp_path: Path
) -> None:
    slots = form.name == SLOTS.name
    unit = PrivacyUnit.CLIENT if slots else PrivacyUnit.RECORD
    release = request_of(model, form, Fraction(1), Fraction(1, 2**40), None, unit, NoiseDistribution.LAPLACE)
    drawn = records(kind, Cap(1) if slots else None)
    source, run = RecordsSource(drawn), context(release, tmp_path)
    described = source.describe(run)
    prepared = statistic.prepare(release, described.domain)
    job = make_job(prepared, source.deliver(run, described))
    assert engine_of(model).supports(job.spec, model, form) is None
    noise = np.random.default_rng(5).integers(-(2**40), 2**40, (model.parties, prepared.plan.nodes))
    given = tuple(map(tuple, noise.tolist()))
    job = replace(job, source=copy_of_program(job.source.stem, tmp_path), given_bits=given)
    result = engine_of(model).run(job, model, tmp_path / "run", RUN_TIMEOUT_S, lambda step: None)
    (values,) = result.outputs.values()
    blocks = [int(size) for size in str(prepared.arguments.get("blocks", "1")).split(".")]
    assert (np.array(values) - noise.sum(axis=0)).tolist() == truth(drawn, blocks)


@pytest.mark.parametrize("length", [5, 7])
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_a_column_of_another_length_is_refused(model: SecurityModel, length: int, tmp_path: Path) -> None:
    """Values that are left over would be read as noise, which comes after them."""
    arguments = (str(model.parties), "6", "laplace", "1", "40")
    paths = tuple(share_values(range(length), model, tmp_path))
    program = copy_of_program(PI_SUM.name, tmp_path)
    job = Job(
        PI_SUM,
        program,
        arguments,
        paths,
        own=DistributedNoiseInput(6, 6, tuple((value,) for value in range(6))),
    )
    with pytest.raises(PartyFailedError, match=f"holds {length} values, not the 6 that are to be counted"):
        engine_of(model).run(job, model, tmp_path / "parties", RUN_TIMEOUT_S, lambda step: None)
