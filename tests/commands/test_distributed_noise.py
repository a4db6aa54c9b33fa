"""Noise of the parties' own, by command: what comes out, what is said of it, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import choose_model
from harness.privacy.statement import SHIFTED
from protocols.noise.added import DistributedNoise
from tests.support.command import call, read_json, succeed

MODEL = choose_model(None)
DISTRIBUTED = ["--noise", "distributed", "--verbose", "--security", MODEL.name, "--epsilon", "1"]
COUNTS = {("a", "0"): 200, ("a", "1"): 150, ("b", "0"): 300, ("b", "1"): 250}
DISTRIBUTIONS = pytest.mark.parametrize(
    ("noise", "distribution"), [("distributed", "laplace"), ("distributed-gaussian", "gaussian")]
)
NOISE = 120  # beyond it is no sum of the parties' noises at ε = 1


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of records with labels, predictions and scores."""
    rng, rows = np.random.default_rng(2), []
    for (group, label), count in COUNTS.items():
        rows += [f"{group},{label},{rng.integers(0, 2)},{rng.random():.3f}" for _ in range(count)]
    path = tmp_path_factory.mktemp("records") / "records.csv"
    lines = [f"c{i},{row}\n" for i, row in enumerate(rows)]
    path.write_text("client_id,group,label,prediction,score\n" + "".join(lines))
    return path


def test_weights_say_whose_noise_it_is_and_who_can_shift_them(records: Path, tmp_path: Path) -> None:
    said = succeed("weights", "--records", str(records), "--out", "out", *DISTRIBUTED, cwd=tmp_path)
    assert " ".join(said.split()).count(SHIFTED) == 1 and "Counts end in .5" not in said
    privacy = read_json(tmp_path / "out" / "manifest.json")["privacy"]
    honest = MODEL.parties - MODEL.corruptions
    stated = {"noise": "distributed", "distribution": "laplace", "honest_parties": honest}
    assert stated.items() <= privacy.items() and privacy["shifted"].startswith(SHIFTED)
    assert privacy["epsilon"] <= 1 and privacy["delta"] <= 2**-40
    counts = np.array(read_json(tmp_path / "out" / "weights.json")["noisy_counts"]).ravel()
    assert (counts % 1 == 0).all() and abs(counts - np.array([*COUNTS.values()])).max() <= NOISE


@DISTRIBUTIONS
def test_thresholds_are_chosen_again_on_curves_with_distributed_noise(
    noise: str, distribution: str, records: Path, tmp_path: Path
) -> None:
    """As by the run itself, so that curves.json holds all that intervals need."""
    done = call(
        "thresholds",
        "--records",
        str(records),
        "--out",
        "out",
        "--noise",
        noise,
        *DISTRIBUTED[2:],
        cwd=tmp_path,
    )
    assert (tmp_path / "out").is_dir(), done.stderr
    curves = read_json(tmp_path / "out" / "curves.json")
    drawn = DistributedNoise.from_json(curves["distributed_noise"])
    assert (str(drawn.distribution), drawn.parties, curves["coins"]) == (distribution, MODEL.parties, [])
    again = call("thresholds", "--curves", "out", "--out", "again", cwd=tmp_path)
    assert again.returncode == done.returncode
    if done.returncode == 0:
        assert read_json(tmp_path / "again" / "thresholds.json") == read_json(
            tmp_path / "out" / "thresholds.json"
        )


def test_a_plan_tells_models_apart_by_their_parties(tmp_path: Path) -> None:
    asked = ["--plan", "1000", "--groups", "2", "--epsilon", "1", "--json"]
    plans = {
        noise: json.loads(call("weights", "--noise", noise, *asked, cwd=tmp_path).stdout)["releases"]
        for noise in ("joint", "distributed")
    }
    (joint,) = plans["joint"]
    ratios: dict[str, float] = {}
    for release in plans["distributed"]:
        error = max(release["errors"]["rmse"].values()) / max(joint["errors"]["rmse"].values())
        ratios |= dict.fromkeys(release["models"], error)
    assert sorted(ratios) == sorted(joint["models"])
    assert 1.3 < ratios["semi2k"] <= 1.42
    assert 1.1 < ratios["mpyc"] == ratios["ring"] <= 1.23
    assert 1.0 < ratios["rep4-ring"] <= 1.16
