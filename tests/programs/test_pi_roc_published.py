"""π_ROC as published opens the same known integers: its own text, run with bits that the test gives."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import engine_of
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import RecordDomain, RecordKind, bins_of, even_grid
from harness.inputs.records import ClientRecords
from harness.inputs.synthetic import Federation
from harness.pipeline.run import RunSettings, run_release
from harness.pipeline.sources import RecordsSource
from harness.releases.score_curves import CurvesStatistic
from harness.security_models import MODELS, SecurityModel
from protocols.spec import CLIENTS, PI_ROC_PUBLISHED, REPLICATED, SCORES, InputForm
from tests.support.requests import request_of
from tests.support.running import model_parameters, opened_less_noise

EPSILON, DELTA_BITS = "1", 40
MP_SPDZ = [model for model in MODELS.values() if model.virtual_machine]


@pytest.mark.parametrize(
    ("form", "model"),
    [
        *model_parameters(SCORES, models=MP_SPDZ),
        *model_parameters(SCORES.by(REPLICATED), models=[model for model in MP_SPDZ if model.replicated]),
    ],
)
def test_opens_the_oracles_integers(form: InputForm, model: SecurityModel, tmp_path: Path) -> None:
    assert engine_of(model).supports(PI_ROC_PUBLISHED, model, form) is None
    rng, grid = np.random.default_rng(2), even_grid(6)
    group, label = rng.integers(0, 3, 80), rng.integers(0, 2, 80)
    score = np.concatenate([[0.0, 0.2, 1.0], rng.random(77)])
    domain = RecordDomain(("a", "b", "c"), ("0", "1"), kind=RecordKind.SCORE, thresholds=grid)
    one = np.zeros(80, dtype=np.int64)
    records = ClientRecords(domain, np.array(["k"]), one, group, label, bins_of(score, grid))

    reached = score[:, np.newaxis] >= np.array(grid)
    pair = group * 2 + label
    truth = [int(n) for p in range(6) for side in (reached, ~reached) for n in side[pair == p].sum(axis=0)]
    arguments = (form.path.name, model.parties, 80, 0, 3, 2, 6, EPSILON, DELTA_BITS)
    values = columns_of(records, SCORES).ravel().tolist()
    found = opened_less_noise(PI_ROC_PUBLISHED, arguments, len(truth), model, tmp_path, values=values)
    assert found == truth


@pytest.mark.mpspdz("rep4-ring")
def test_counts_what_clients_send(tmp_path: Path) -> None:
    """In an active model, where all of some hundred records come by one connection."""
    federation = Federation(20, 300, 2, 2, RecordKind.SCORE, 3)
    records, model = federation.made_up(), MODELS["rep4-ring"]
    release = request_of(model, SCORES.by(CLIENTS), Fraction(20), Fraction(1, 2**40))
    statistic = CurvesStatistic(spec=PI_ROC_PUBLISHED)
    found = run_release(
        statistic, RecordsSource(records), RunSettings(release), tmp_path / "out", lambda _: None
    ).found
    assert records.detail is not None
    positive = records.label == 1
    for g in (0, 1):
        bins = records.detail[positive & (records.group == g)]
        truth = [(bins >= threshold).sum() for threshold in range(3)]
        assert found.curves.tp[g] == pytest.approx(truth, abs=3)  # beyond 3 with probability below e^-60
