"""The study of training: data, the paper's recipe, the joint way, figures, and going on with runs."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from sklearn.linear_model import LogisticRegression

from benchmarks.measure.samples import load_lines
from benchmarks.papers import table3
from benchmarks.studies.outcome import Row
from benchmarks.studies.training import fairness, models, study
from benchmarks.studies.training.models import figures
from benchmarks.studies.training.people import People, wagepan
from harness.training.updates import units_for
from protocols.accounting.calibration import PrivacyUnit
from protocols.accounting.distributed_noise import renyi_delta


def people(clients: int = 12, records: int = 9, seed: int = 1) -> People:
    """Return made-up records whose label follows the first feature; clients have 2 to `records` of them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, records + 1, clients)
    client = np.repeat(np.arange(clients), sizes)
    features = rng.uniform(-1, 1, (len(client), 3))
    label = (features[:, 0] + 0.3 * rng.normal(size=len(client)) > 0).astype(np.int64)
    return People("made up", features, label, client % 2, client, ("a", "b"))


def test_wagepan_is_what_readme_says() -> None:
    found = wagepan()
    assert (len(found.label), found.clients, found.features.shape[1]) == (4360, 545, 34)
    assert found.label.mean() == pytest.approx(0.244, abs=0.001)
    assert np.mean(found.group) == pytest.approx(0.2716, abs=0.001)
    assert np.abs(found.features).max() <= 1


def test_splits_hold_a_fifth_of_each_client_or_of_the_clients() -> None:
    whole = wagepan()
    training, tests = whole.split(np.random.default_rng(3))
    assert set(np.bincount(tests.client)) == {2} and set(np.bincount(training.client)) == {6}
    _, tests = people(60).split(np.random.default_rng(3))
    sizes = np.bincount(people(60).client)
    assert np.bincount(tests.client, minlength=60).tolist() == np.round(0.2 * sizes).tolist()
    of_clients = replace(whole, unit=PrivacyUnit.CLIENT)
    training, tests = of_clients.split(np.random.default_rng(3))
    assert (training.clients, tests.clients) == (436, 109)
    rows = {each.tobytes() for each in training.features}
    assert not any(each.tobytes() in rows for each in tests.features)


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
    assert models.epsilon_of_gaussians(0.7, 1600) == pytest.approx(1876, abs=1)  # ADS, shuffled batches


def test_one_client_without_noise_is_gradient_descent() -> None:
    whole = replace(people(), client=np.zeros(len(people().label), dtype=np.int64))
    by, weights = {**models.PAPERS, "rounds": 3}, np.linspace(0.5, 2, len(whole.label))
    found = models.federated(
        whole, weights[:, np.newaxis], np.random.default_rng(1), private=False, recipe=by
    )
    inputs = np.hstack([whole.features, np.ones((len(whole.label), 1))])
    parameters = models.federated(
        whole, weights[:, np.newaxis], np.random.default_rng(1), private=False, recipe={**by, "rounds": 0}
    )[0]
    for _ in range(6):
        off = 1 / (1 + np.exp(-inputs @ parameters)) - whole.label
        parameters = parameters - by["rate"] * (weights * off) @ inputs / len(off)
    assert found[0] == pytest.approx(parameters)


def test_no_dp_tends_to_logistic_regression() -> None:
    whole = people(200)
    choices = {**models.CHOSEN, "rounds": 800}
    found = models.train(whole, study.NONE, 1.0, np.random.default_rng(1), choices).parameters
    oracle = LogisticRegression(C=1e9, tol=1e-9, max_iter=5000).fit(whole.features, whole.label)
    assert found == pytest.approx(np.append(oracle.coef_, oracle.intercept_), rel=1e-3)


def test_rho_is_the_most_that_epsilon_allows() -> None:
    rho = models.rho_of(1.0)
    assert (
        renyi_delta(Fraction(rho), Fraction(1))
        <= models.DELTA
        < renyi_delta(Fraction(1.001 * rho), Fraction(1))
    )
    assert models.epsilon_of_gaussians(1 / np.sqrt(2 * rho), 1) <= 1  # of the mechanism with just that rho


def test_noise_has_the_scale_that_rho_takes() -> None:
    drawn = models.noisy(np.zeros(20_000), 50.0, 0.01, np.random.default_rng(4))
    rest = np.exp(-np.sqrt(2 * 0.01 / 50))
    assert np.array_equal(drawn, np.rint(drawn))
    assert drawn.var() == pytest.approx(2 * rest / (1 - rest) ** 2, rel=0.15)
    assert drawn.mean() == pytest.approx(0, abs=6 * drawn.std() / np.sqrt(20_000))
    assert np.array_equal(models.noisy(np.arange(3), 1, 0.0, np.random.default_rng(4)), np.arange(3))


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
    assert len(held) == scheme.thresholds and all(each == training[0] for each in training)
    trained = sum(rho for rho, _ in training)
    assert counted + max(trained, *(rho for rho, _ in held), 0) == pytest.approx(models.rho_of(1.0))


def test_figures_of_rigged_predictions() -> None:
    whole = people()
    nobody = np.zeros(len(whole.label), dtype=np.int64)
    scores = np.round(np.random.default_rng(1).random(len(nobody)), 1)  # with ties
    found = figures(whole, scores, nobody)
    assert found["one_minus_di"] is None and found["delta_eop"] == 0 and found["balanced"] == 0.5
    above = scores[whole.label == 1][:, np.newaxis] - scores[whole.label == 0]
    assert found["auc"] == pytest.approx(np.mean((above > 0) + (above == 0) / 2), abs=1e-6)
    right = figures(whole, scores, whole.label)
    assert (right["accuracy"], right["one_minus_di"], right["odds"], right["tpr, a"]) == (1, 0, 0, 1)
    assert found["constant"] == pytest.approx(max(whole.label.mean(), 1 - whole.label.mean()), abs=1e-6)


TINY = {
    "seeds": 2,
    "judged": 3,
    "swept": 1,
    "epsilons": (1.0, 10.0),
    "recipe": {**models.PAPERS, "rounds": 2, "epochs": 1},
}


def test_what_is_there_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, path = people(40), tmp_path / "samples.jsonl"
    runs = study.go_on([whole], path, TINY, lambda *_: None)
    assert [(run.way, run.epsilon, run.seed) for run in runs] == [
        *(("joint", 1.0, seed) for seed in range(3)),
        *(("paper", 1.0, seed) for seed in range(2)),
        ("joint", 10.0, 0),
        ("paper", 10.0, 0),
    ]
    assert list(runs[0].models) == [scheme.name for scheme in study.SCHEMES]
    assert list(runs[3].models) == list(table3()["rows"])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    done: list[tuple[str, float, int]] = []

    def carried_out(data: People, way: str, epsilon: float, seed: int, extent: Row) -> study.Run:
        done.append((way, epsilon, seed))
        return study.Run(data.name, way, epsilon, seed, {})

    monkeypatch.setattr(study, "carried_out", carried_out)
    again = study.go_on([whole], path, TINY, lambda *_: None)
    assert done == [("joint", 10.0, 0), ("paper", 10.0, 0)] and again[:5] == runs[:5]
    assert len(load_lines(path, study.Run, study.A_DRAW)) == 7


def test_means_and_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    found = study.columns_of("odds", [0.1, 0.2, 0.3]) | {"seeds": 3}
    assert (found["odds"], found["odds, half"]) == pytest.approx((0.2, 4.303 * 0.1 / np.sqrt(3)), rel=1e-3)
    assert study.shown_mean(found, "odds", percent=True) == "20.0 ± 24.8"
    found = study.columns_of("odds", [0.1, None, 0.3]) | {"seeds": 3}
    assert study.shown_mean(found, "odds") == "undefined (1 of 3)"
    assert set(study.columns_of("odds", [0.1, None]).values()) == {None, 1}

    def run(seed: int, lost: float) -> study.Run:
        plain = {"accuracy": 0.6 + seed / 10, "odds": 0.1}
        righted = {"accuracy": 0.6 + seed / 10 - lost, "odds": 0.05}
        models = {study.NONE.name: plain, study.RIGHTED.name: righted}
        return study.Run("MovieLens 100K", study.JOINT, 1.0, seed, models)

    monkeypatch.setattr(study, "TARGETS", [each for each in study.TARGETS if study.RIGHTED.name in each])
    accuracy, odds = study.judged_targets([run(0, 0.004), run(1, 0.005)])  # none of RandHIE
    assert accuracy["met"] and accuracy["mean"] == pytest.approx(-0.0045)
    assert (odds["figure"], odds["bound"], odds["met"], odds["mean"]) == ("odds", 0.07, True, 0.05)
    assert [each["met"] for each in study.judged_targets([run(0, 0.004), run(1, 0.008)])] == [False, True]


OURS = ("FairGrad", "FairGrad, ε = 4")


def test_models_of_others_are_judged_by_the_same_figures(tmp_path: Path) -> None:
    whole, theirs = people(200), tmp_path / "theirs.json"
    theirs.write_text('{"theirs": [9.0, 0, 0, 0]}')
    found = fairness.beside(whole, theirs, 7).models
    assert [*found] == ["no DP", "training alone", "Kamiran–Calders weights", *OURS, "theirs"]
    _, tests = whole.split(np.random.default_rng(7))
    right = (tests.features[:, 0] >= 0) == tests.label
    assert found["theirs"]["accuracy"] == pytest.approx(right.mean(), abs=1e-6)
    assert fairness.beside(whole, theirs, 7).models == found


def test_counts_for_fairness_are_a_part_of_the_joint_rho(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of noise for an update and its counts, the counts' own is as much as their share of rho takes."""
    told: list[tuple[float, float, int]] = []

    def noisy(values: np.ndarray, squares: float, rho: float, _rng: object) -> np.ndarray:
        told.append((squares, rho, values.size))
        return values

    monkeypatch.setattr(models, "noisy", noisy)
    whole = people(40)
    for scheme in (study.ALONE, fairness.FAIR):
        models.train(whole, scheme, 1.0, np.random.default_rng(1))
    (_, plain_rho, d), (squares, rho, wide) = told[1], told[-1]
    assert rho == plain_rho and wide == d + 8
    units = units_for(wide, fairness.FAIR.largest_weight)
    assert squares == pytest.approx((fairness.FAIR.largest_weight * units + np.sqrt(wide) / 2) ** 2, rel=1e-3)
