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
from tests.support.command import call, files_below, processes_below, refused
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


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


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
    done = call("thresholds", "--records", "records.csv", "--epsilon", "2", *options, cwd=here)
    assert done.returncode == 0, done.stderr
    files = ("thresholds.json", "curves.json", "manifest.json")
    assert files_below(here) - before == {"results", *(f"results/{name}" for name in files)}
    thresholds, curves, manifest = (read(here / "results" / name) for name in files)
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
    assert "model was not trained on" in done.stdout
    assert "Trust: this machine, which ran all" in done.stdout
    assert processes_below(here) == {}


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_shares_to_thresholds(model: SecurityModel, here: Path) -> None:
    options = ["--task", "thresholds", "--domain", "domain.json", "--security", model.name, "--out", "shares"]
    for name, clients in (("mine", ("c0",)), ("theirs", ("c1", "c2", "c3", "c4", "c5", "c6"))):
        write(here / f"{name}.csv", [record for record in RECORDS if record[0] in clients])
        assert call("share", "--records", f"{name}.csv", *options, cwd=here).returncode == 0
    run = ["--shares", "shares", "--epsilon", "2", "--security", model.name]
    options = ["--constraint", "demographic_parity", "--blocks", "flat", "--json"]
    done = call("thresholds", *run, *options, "--out", "results", cwd=here)
    assert done.returncode == 0, done.stderr
    thresholds = read(here / "results" / "thresholds.json")
    assert json.loads(done.stdout) == thresholds  # and nothing else on standard output
    assert thresholds["constraint"] == "demographic_parity" and thresholds["positive_label"] in ("0", "1")
    curves = read(here / "results" / "curves.json")
    assert curves["blocks"] == [1]
    check_curves(curves)

    assert "These shares are of records with score; weights needs neither score nor prediction" in refused(
        "weights", *run, cwd=here
    )


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
def test_a_key_for_each_record(model: SecurityModel, here: Path) -> None:
    """The parties bin the records; how many there are is public, so what one says is protected."""
    options = ["--input-form", "keys", "--domain", "domain.json", "--security", model.name, "--out", "shares"]
    done = call("share", "--task", "thresholds", "--records", "records.csv", *options, cwd=here)
    assert done.returncode == 0, done.stderr
    run = ["--shares", "shares", "--epsilon", "2", "--security", model.name, "--variant", "records"]
    done = call("thresholds", *run, "--out", "results", cwd=here)
    assert done.returncode == 0, done.stderr
    check_curves(read(here / "results" / "curves.json"))
    manifest = read(here / "results" / "manifest.json")
    assert manifest["privacy"]["neighboring_relation"] == "replace_one"
    assert "number of records of each upload" in manifest["privacy"]["public"]
    assert manifest["inputs"]["records"] == 2000

    assert "These shares are keys over" in refused("thresholds", *run[:-2], cwd=here)


def test_curves_are_kept_where_no_thresholds_follow(here: Path) -> None:
    """Their epsilon is spent; the exit code tells that there are no thresholds."""
    options = ["--domain", "domain.json", "--security", QUICKEST, "--deterministic", "--tolerance", "0"]
    options += ["--out", "results"]
    done = call("thresholds", "--records", "records.csv", "--epsilon", "2", *options, cwd=here)
    assert done.returncode == 1
    assert "Error: Without randomization, equalized_odds within a tolerance of 0 is met only" in done.stderr
    assert {path.name for path in (here / "results").iterdir()} == {"curves.json", "manifest.json"}
    check_curves(read(here / "results" / "curves.json"))

    assert "./inv thresholds --curves results chooses again on these curves" in done.stdout
    done = call("thresholds", "--curves", "results", "--out", "again", cwd=here)
    assert done.returncode == 0, done.stderr
    assert read(here / "again" / "thresholds.json")["deterministic"] is False
    assert read(here / "again" / "curves.json") == read(here / "results" / "curves.json")
    assert "--epsilon is for a new run" in refused(
        "thresholds", "--curves", "results", "--epsilon", "2", cwd=here
    )


def test_a_group_that_the_noise_hides(here: Path) -> None:
    """Of each group's positives and negatives it hides none with probability 0.03^8 < 1e-12."""
    few = {"groups": ["a", "b", "c", "d"], "thresholds": 2}
    (here / "domain.json").write_text(json.dumps({**DOMAIN, **few}))
    write(here / "few.csv", RECORDS[:40])
    options = ["--domain", "domain.json", "--security", QUICKEST, "--out", "results"]
    done = call("thresholds", "--records", "few.csv", "--epsilon", "1/100", *options, cwd=here)
    assert done.returncode == 1
    assert "budget of this release is spent" in done.stderr
    assert (here / "results" / "curves.json").exists()


BAD: dict[str, tuple[str, dict[str, object], str]] = {
    "above 1": ("c0,a,1,1.5", {}, "row 2001: score '1.5' is not a number from 0 to 1"),
    "below 0": ("c0,a,1,-0.1", {}, "row 2001: score '-0.1' is not a number from 0 to 1"),
    "not a number": ("c0,a,1,nan", {}, "row 2001: column score is empty or NaN"),
    "one group": ("", {"groups": ["a"]}, "The domain has 1 group ['a']"),
    "three labels": ("", {"labels": ["0", "1", "2"]}, "two labels apart, and the domain has 3"),
    "does not increase": ("", {"thresholds": [0, 0.5, 0.5]}, "but 0.5 is followed by 0.5"),
    "too few thresholds": ("", {"thresholds": 1}, "A grid has 2 to 4096 thresholds, not 1"),
    "over the maximum": ("", {"max_count": 5}, "over the declared maximum of 5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_records_and_domains(case: str, here: Path) -> None:
    row, domain, message = BAD[case]
    if row:
        write(here / "records.csv", RECORDS[:1999])
        with (here / "records.csv").open("a") as file:
            file.write(row + "\n")
    (here / "domain.json").write_text(json.dumps({**DOMAIN, **domain}))
    options = ["--domain", "domain.json", "--security", "mpyc"]
    run = ("thresholds", "--records", "records.csv", "--epsilon", "1", *options)
    assert message in refused(*run, cwd=here)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tolerance", "2"], "--tolerance must be a number from 0 to 1"),
        (["--constraint", "parity"], "--constraint must be equalized_odds, equal_opportunity or"),
        (["--objective", "auc"], "--objective must be accuracy_score or"),
        (["--positive-label", "yes"], "The positive label 'yes' is not declared (declared: 0, 1)"),
        (["--input-form", "product"], "--input-form must be split"),
        (["--variant", "fast"], "--variant must be histogram or records"),
        (["--variant", "records"], "pi_roc_records uses features that only MP-SPDZ has"),
        (["--epsilon", "1e-9"], "No noise fits --epsilon"),
    ],
)
def test_bad_options(options: list[str], message: str, here: Path) -> None:
    epsilon = [] if "--epsilon" in options else ["--epsilon", "1"]
    model = [] if "--security" in options else ["--security", "mpyc"]
    records = ["--records", "records.csv", "--domain", "domain.json"]
    assert message in refused("thresholds", *records, *model, *epsilon, *options, cwd=here)
