"""PrivFairFL in Flower: its parts without Flower, and the whole of it where Flower is installed."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks.studies.training import models
from benchmarks.studies.training.study import CL, DP_SGD, FL, LOCAL, POST, PRE
from examples.flower_privfairfl.privfairfl import released
from examples.flower_privfairfl.privfairfl.people import LOANAPP, MADE_UP, Federation, as_records
from examples.flower_privfairfl.privfairfl.training import Recipe
from tests.conftest import PROJECT
from tests.support.command import call
from tests.support.flower_processes import NEEDED, simulation

APP = PROJECT / "examples" / "flower_privfairfl"
CLIENTS = 6


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_clients_train_as_in_the_study(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """FedAvg by hand, without noise and by DP-SGD, whose clipping comes after weights."""
    federation = Federation(MADE_UP, CLIENTS, seed=1)
    training, _ = federation.split()
    table = np.array([[0.5, 3.0], [2.0, 1.0]])
    recipe = Recipe(rounds=4, local_epochs=2, rate=0.5, clip=0.8, noise=noise)
    model = np.zeros(training.features.shape[1] + 1)
    for _ in range(recipe.rounds):
        parts = [federation.rows_of(client) for client in range(CLIENTS)]
        trained = [
            recipe.train(model, rows, table[rows.group, rows.label], np.random.default_rng(2))
            for rows in parts
        ]
        model = np.average(trained, axis=0, weights=[len(rows.label) for rows in parts])
    monkeypatch.setattr(models, "_start", lambda parameters, rng: np.zeros(parameters))
    of_study = {**models.PAPERS, "rounds": 4, "local_epochs": 2, "rate": 0.5, "clip": 0.8, "noise": noise}
    weights = table[training.group, training.label][:, np.newaxis]
    rng = np.random.default_rng(2)
    (expected,) = models.federated(training, weights, rng, private=noise > 0, recipe=of_study)
    assert np.abs(model).max() > 0.1 and model == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("data", [LOANAPP, MADE_UP])
def test_clients_have_all_records_for_training_once(data: str) -> None:
    federation = Federation(data, CLIENTS, seed=3)
    training, tests = federation.split()
    parts = [federation.rows_of(client) for client in range(CLIENTS)]
    rows = np.concatenate([part.features for part in parts])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, training.features))
    assert np.abs(training.features).max() <= 1 and set(training.label) == {0, 1}
    assert 0.15 < len(tests.label) / (len(tests.label) + len(training.label)) < 0.25


def test_parties_reveal_thresholds_of_what_clients_seal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but sealed uploads, keys, the task and what was released is where the parties are."""

    def command(*words: str | Path) -> "subprocess.CompletedProcess[str]":
        return call(*map(str, words), cwd=tmp_path)

    monkeypatch.setattr(released, "command", command)
    monkeypatch.setattr(released, "THRESHOLDS", 11)
    federation = Federation(MADE_UP, CLIENTS, seed=1)
    training, _ = federation.split()
    place = tmp_path / "thresholds"
    released.declare(place, "thresholds", training.groups, 8.0, "mpyc")
    for client in range(CLIENTS):
        rows = federation.rows_of(client)
        score = 0.2 + 0.6 * rows.label
        released.seal(place, as_records(rows, client).assign(score=score))
    assert released.rules_in(place, training.groups) == dict.fromkeys(training.groups, released.UNMITIGATED)
    assert not released.release(place, "thresholds", 8.0, "mpyc", "--positive-label", "1")
    rules = released.rules_in(place, training.groups)
    assert all(0.2 < rule.thresholds[0] <= 0.8 for rule in rules.values())
    for file in place.rglob("*"):
        assert file.suffix != ".csv" and (not file.is_file() or b"client-0" not in file.read_bytes())


@pytest.mark.skipif(find_spec("flwr") is None, reason=NEEDED)
@pytest.mark.timeout(7200)  # of a test that hangs, on a machine that is busy, too
def test_the_pipeline_in_flower(tmp_path: Path) -> None:
    """Of few rounds on the mortgage applications: all rows of Table 3, and what they spend."""
    with simulation(tmp_path, CLIENTS, [APP]) as made:
        said = made.output(APP, rounds=4, rate=0.5, epsilon=4.0)
    for row in (CL, FL, DP_SGD, LOCAL, PRE, POST):
        assert re.search(rf"^{re.escape(row)} +0\.[3-9]", said, re.MULTILINE), said[-3000:]
    assert "mortgage applications: 6 clients, 4 rounds, 1 seeds." in said
    assert "These are not MovieLens' ratings" in said
