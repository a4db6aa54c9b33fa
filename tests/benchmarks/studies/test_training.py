"""The study of training: data, the paper's recipe, the joint way, figures, and going on with runs."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld

from benchmarks.measure.samples import load_lines
from benchmarks.papers import table3
from benchmarks.studies.outcome import Row
from benchmarks.studies.training import models, study
from benchmarks.studies.training.models import figures
from benchmarks.studies.training.people import ADS, People, wagepan
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.accounting.distributed_noise import gaussian_delta


def people(clients: int = 12, records: int = 9, seed: int = 1) -> People:
    """Return made-up records whose label follows the first feature; clients have 2 to `records` of them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, records + 1, clients)
    client = np.repeat(np.arange(clients), sizes)
    features = rng.uniform(-1, 1, (len(client), 3))
    label = (features[:, 0] + 0.3 * rng.normal(size=len(client)) > 0).astype(np.int64)
    return People("made up", features, label, client % 2, client, ("a", "b"))


def test_splits_hold_a_fifth_of_each_client_or_of_the_clients() -> None:
    whole = wagepan()
    training, tests = whole.split(np.random.default_rng(3))
    assert set(np.bincount(tests.client)) == {2} and set(np.bincount(training.client)) == {6}
    _, tests = people(60).split(np.random.default_rng(3))
    sizes = np.bincount(people(60).client)
    assert np.bincount(tests.client, minlength=60).tolist() == np.round(0.2 * sizes).tolist()
    training, tests = replace(whole, unit=PrivacyUnit.CLIENT).split(np.random.default_rng(3))
    assert (training.clients, tests.clients) == (436, 109)
    rows = {row.tobytes() for row in training.features}
    assert not any(row.tobytes() in rows for row in tests.features)


@pytest.mark.parametrize(("noise", "steps"), [(100.0, 600), (5.0, 1), (4.0, 7)])
def test_epsilon_of_training_is_that_of_dp_accounting(noise: float, steps: int) -> None:
    accountant = pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(noise), steps)
    assert models.epsilon_of_gaussians(noise, steps) == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


def test_what_table_3_spends() -> None:
    assert study.spent(study.DP_SGD, 1.0, 1, models.PAPERS) == pytest.approx(342, abs=0.5)
    assert study.spent(study.PRE, 1.0, 1, models.PAPERS) == pytest.approx(343, abs=0.5)
    assert study.spent(study.POST, 1.0, 1, models.PAPERS) == pytest.approx(1343, abs=0.5)
    assert (
        study.spent(study.LOCAL, 1.0, 2, models.PAPERS) - study.spent(study.DP_SGD, 1.0, 2, models.PAPERS)
        == 3
    )
    of_ads = {**models.PAPERS, **ADS}  # batches are shuffled: a record is in one an epoch
    assert study.spent(study.DP_SGD, 1.0, 1, of_ads) == pytest.approx(1876, abs=1)
    whole, in_ten = models.epsilon_of_gaussians(0.7 / 24, 16_000), study.spent(study.DP_SGD, 1.0, 240, of_ads)
    assert in_ten == pytest.approx(whole)  # ten batches of 24
    words = {**models.PAPERS, "one_microbatch": True}
    assert study.spent(study.DP_SGD, 1.0, 1, words) == study.spent(study.DP_SGD, 1.0, 589, words)
    assert study.spent(study.DP_SGD, 1.0, 589, words) == pytest.approx(1181, abs=1)
    assert study.spent(study.STOPPED, 1.0, 1, words) == 0


def test_rho_is_the_most_that_epsilon_allows() -> None:
    rho = models.rho_of(1.0)
    assert (
        gaussian_delta(Fraction(2 * rho), Fraction(1))
        <= models.DELTA
        < gaussian_delta(Fraction(2.002 * rho), Fraction(1))
    )
    assert models.epsilon_of_gaussians(1 / np.sqrt(2 * rho), 1) <= 1  # of the mechanism with just that rho


@pytest.mark.parametrize("unit", PrivacyUnit)
def test_parts_add_up_to_the_joint_rho(unit: PrivacyUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[tuple[float, int]] = []

    def told(values: np.ndarray, squares: float, rho: float, _rng: object) -> np.ndarray:
        spent.append((rho, values.size))
        return values

    monkeypatch.setattr(models, "noisy", told)
    scheme = study.RIGHTED if unit is PrivacyUnit.CLIENT else replace(study.RIGHTED, thresholds=True)
    models.train(replace(people(40), unit=unit), scheme, 1.0, np.random.default_rng(1))
    rounds = models.CHOSEN["rounds"]
    counted, training, held = spent[0][0], spent[1 : 1 + rounds], spent[1 + rounds :]
    assert len(held) == scheme.thresholds and all(one_round == training[0] for one_round in training)
    trained = sum(rho for rho, _ in training)
    assert counted + max(trained, *(rho for rho, _ in held), 0) == pytest.approx(models.rho_of(1.0))


def test_figures_of_rigged_predictions() -> None:
    whole = people()
    nobody = np.zeros(len(whole.label), dtype=np.int64)
    scores = np.round(np.random.default_rng(1).random(len(nobody)), 1)  # with ties
    of_nobody = figures(whole, scores, nobody)
    assert of_nobody["one_minus_di"] is None and of_nobody["delta_eop"] == 0 and of_nobody["balanced"] == 0.5
    above = scores[whole.label == 1][:, np.newaxis] - scores[whole.label == 0]
    assert of_nobody["auc"] == pytest.approx(np.mean((above > 0) + (above == 0) / 2), abs=1e-6)
    right = figures(whole, scores, whole.label)
    assert (right["accuracy"], right["one_minus_di"], right["odds"], right["tpr, a"]) == (1, 0, 0, 1)
    assert of_nobody["constant"] == pytest.approx(max(whole.label.mean(), 1 - whole.label.mean()), abs=1e-6)


TINY = {
    "seeds": 2,
    "judged": 3,
    "swept": 1,
    "epsilons": (1.0, 10.0),
    "recipe": {"rounds": 2, "epochs": 1},
}


def test_what_is_there_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, path = people(40), tmp_path / "samples.jsonl"
    runs = study.go_on([whole], path, TINY, lambda *_: None)
    assert [(run.way, run.epsilon, run.seed) for run in runs] == [
        *(("joint", 1.0, seed) for seed in range(3)),
        *((way, 1.0, seed) for way in (study.BY_PAPER, study.BY_WORDS) for seed in range(2)),
        *((way, 10.0, 0) for way in ("joint", study.BY_PAPER, study.BY_WORDS)),
    ]
    assert list(runs[0].models) == [scheme.name for scheme in study.SCHEMES]
    rows = [*table3()["rows"], study.STOPPED]
    assert list(runs[3].models) == rows and list(runs[5].models) == rows[2:]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:8]) + lines[8][:20])
    done: list[tuple[str, float, int]] = []

    def carried_out(data: People, way: str, epsilon: float, seed: int, extent: Row) -> study.Draw:
        done.append((way, epsilon, seed))
        return study.Draw(data.name, way, epsilon, seed, {})

    monkeypatch.setattr(study, "carried_out", carried_out)
    again = study.go_on([whole], path, TINY, lambda *_: None)
    assert done == [(way, 10.0, 0) for way in (study.BY_PAPER, study.BY_WORDS)] and again[:8] == runs[:8]
    assert len(load_lines(path, study.Draw, study.A_DRAW)) == 10
