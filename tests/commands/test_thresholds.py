"""Score curves and thresholds from the command line: records or shares in, documented files out."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.inputs.record_schema import even_grid
from harness.postprocessing.curves import exact_curves
from harness.security_models import MODELS, SecurityModel
from protocols.circuits.coins import Coin
from protocols.mechanisms.count_tree import CountTree
from protocols.noise.truncated import error_bound
from tests.support.command import call, files_below, processes_below, read_json, refused, succeed
from tests.support.running import QUICKEST, model_parameters

HEADER = "client_id,group,label,score\n"
GRID = 21
DOMAIN = {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 2000, "thresholds": GRID}
# Noise beyond its exact quantile fails a test with this probability, all nodes together.
FALSE_ALARM = Fraction(1, 10**9)

CURVES_KEYS = {
    *(
        "schema",
        "groups",
        "positive_label",
        "negative_label",
        "thresholds",
        "true_positives",
        "false_positives",
        "positives",
    ),
    *("negatives", "standard_error", "blocks", "coins", "privacy"),
}
THRESHOLDS_KEYS = {
    *("schema", "constraint", "objective", "tolerance", "tolerance_is_the_least", "deterministic"),
    *("thresholds", "rates", "cautions"),
    *("objective_value", "gap", "gap_interval", "confidence", "privacy", "positive_label"),
}


def made_records() -> list[tuple[str, str, str, float]]:
    """Return 2000 records of 7 clients; the positives' scores are higher."""
    rng = np.random.default_rng(8)
    rows = []
    for i in range(2000):
        positive = rng.random() < 0.4
        score = float(np.clip(rng.normal(0.65 if positive else 0.35, 0.2), 0, 1).round(3))
        rows.append((f"c{i % 7}", "ab"[rng.integers(2)], str(int(positive)), score))
    return rows


RECORDS = made_records()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with the records and their domain."""
    write(tmp_path / "records.csv", RECORDS)
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    return tmp_path


def write(path: Path, records: list[tuple[str, str, str, float]]) -> None:
    path.write_text(HEADER + "".join(",".join(map(str, record)) + "\n" for record in records))


def check_curves(found: dict[str, Any]) -> None:
    """The curves differ from the true ones by what least squares can make of noise within its bounds."""
    assert set(found) == CURVES_KEYS
    coins = tuple(Coin(*coin) for coin in found["coins"])
    tree = CountTree(GRID, tuple(found["blocks"]))
    most = float(error_bound(coins, FALSE_ALARM / (4 * tree.nodes))) * np.abs(tree.estimator()).sum(axis=1)
    _, group, label, score = zip(*RECORDS, strict=True)
    exact = exact_curves(np.array(label) == "1", score, group, ("a", "b"), even_grid(GRID))
    for name, truth in (("true_positives", exact.tp), ("false_positives", exact.fp)):
        assert (np.abs(np.array(found[name]) - truth) <= most).all()
    assert found["positives"] == [row[0] for row in found["true_positives"]]


@pytest.mark.parametrize("model", model_parameters())
def test_records_to_thresholds(model: SecurityModel, here: Path) -> None:
    before = files_below(here)
    options = ["--domain", "domain.json", "--security", model.name, "--out", "results"]
    said = succeed("thresholds", "--records", "records.csv", "--epsilon", "2", *options, cwd=here)
    files = ("thresholds.json", "curves.json", "manifest.json")
    assert files_below(here) - before == {"results", *(f"results/{name}" for name in files)}
    thresholds, curves, manifest = (read_json(here / "results" / name) for name in files)
    assert set(thresholds) == THRESHOLDS_KEYS and set(thresholds["thresholds"]) == {"a", "b"}
    check_curves(curves)
    assert thresholds["privacy"] == curves["privacy"] == manifest["privacy"]
    privacy = manifest["privacy"]
    assert 1 < Fraction(privacy["epsilon_exact"]) <= Fraction(privacy["epsilon"]) <= 2
    assert privacy["neighboring_relation"] == "add_or_remove_one"
    assert "thresholds" in privacy["public"] and "number of records of each upload" not in privacy["public"]
    assert (manifest["task"], manifest["security"]) == ("thresholds", model.name)
    # Both groups' scores are alike, so are their rates; accuracy is far from a guess's.
    assert thresholds["gap"] <= 0.01 and thresholds["objective_value"] > 0.6
    assert "model was not trained on" in said
    assert "Trust: this machine, which ran all" in said
    assert processes_below(here) == {}


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
def test_a_key_for_each_record(model: SecurityModel, here: Path) -> None:
    """The parties bin the records; how many there are is public, so what one says is protected."""
    options = ["--input-form", "keys", "--domain", "domain.json", "--security", model.name, "--out", "shares"]
    succeed("share", "--task", "thresholds", "--records", "records.csv", *options, cwd=here)
    run = ("thresholds", "--shares", "shares", "--epsilon", "2", "--security", model.name)
    succeed(*run, "--variant", "records", "--out", "results", cwd=here)
    check_curves(read_json(here / "results" / "curves.json"))
    manifest = read_json(here / "results" / "manifest.json")
    assert manifest["privacy"]["neighboring_relation"] == "replace_one"
    assert "number of records of each upload" in manifest["privacy"]["public"]
    assert manifest["inputs"]["records"] == 2000
    assert "These shares are keys over" in refused(*run, cwd=here)


def test_curves_are_kept_where_no_thresholds_follow(here: Path) -> None:
    """Their epsilon is spent; the exit code tells that there are no thresholds."""
    options = ["--domain", "domain.json", "--security", QUICKEST, "--deterministic", "--tolerance", "0"]
    run = ("thresholds", "--records", "records.csv", "--epsilon", "2", *options, "--out", "results")
    done = call(*run, cwd=here)
    assert done.returncode == 1 and "Error: Without randomization, equalized_odds within" in done.stderr
    assert files_below(here / "results") == {"curves.json", "manifest.json"}
    assert "./inv thresholds --curves results chooses again on these curves" in done.stdout
    succeed("thresholds", "--curves", "results", "--out", "again", cwd=here)
    assert read_json(here / "again" / "thresholds.json")["deterministic"] is False
    check_curves(read_json(here / "again" / "curves.json"))
