"""Releases and training from the command line: records or shares in, documented files out, in every model."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from msgspec import to_builtins

from benchmarks.emulation.links import emulated
from fairshares import LogisticModel
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.inputs.record_schema import RecordDomain, even_grid
from fairshares.harness.inputs.records import ClientRecords, read_records
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.pipeline.sources import RecordsSource
from fairshares.harness.postprocessing.curves import exact_curves
from fairshares.harness.privacy.statement import SHIFTED
from fairshares.harness.releases.noise_samples import WARNING
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.networks import parse_network
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    plan_noise,
    sums_from_ends,
)
from fairshares.protocols.arrays import Words
from fairshares.protocols.circuits.coins import Coin, design_noise
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.noise.added import DistributedNoise
from fairshares.protocols.noise.truncated import error_bound
from fairshares.protocols.spec import SPLIT
from tests.support.command import CODES, call, files_below, flat, processes_below, read_json, succeed
from tests.support.requests import request_of
from tests.support.running import (
    QUICKEST,
    captured_relays,
    model_parameters,
)
from tests.support.sharing import share

# Noise beyond its exact quantile fails a test with this probability, all cells together.
FALSE_ALARM = Fraction(1, 10**9)


def check_counts(result: dict[str, Any]) -> None:
    """Check counts per group, label and prediction against the truth, within the noise of ε = 1."""
    truth = np.array([[[9, 0], [0, 30]], [[0, 40], [0, 0]]])
    errors = np.array(result["noisy_counts"]) - truth
    bound = error_bound(design_noise(Fraction(1), 41), FALSE_ALARM / 8)
    assert (np.abs(errors) <= float(bound)).all() and (errors % 1 == 0.5).all()


def check_gaps(result: dict[str, Any]) -> None:
    """Check what was opened against the truth, within the noise of ε = 4."""
    relation = Neighbors(NeighboringRelation.REPLACE_ONE)
    plan = plan_noise(sums_from_ends(2, 100), relation, Fraction(4), Fraction(1, 2**40))
    bound = float(error_bound(plan.coins, FALSE_ALARM / 4))
    truth = {"a": (300, 60), "b": (200, 0)}  # in steps: 60 above the center
    for group, size in zip("ab", result["noisy_sizes"], strict=True):
        n, step = truth[group]
        assert abs(size * 100 - n * 100) <= bound  # half of two sums' noise
        total = (result["means"][group]["estimate"] - 0.5) * 2 * size * 100
        assert abs(total - n * step) <= bound + 1e-6
    (gap,) = result["gaps"]
    assert gap["groups"] == ["a", "b"] and gap["interval"][0] < gap["estimate"] < gap["interval"][1]


@dataclass(frozen=True)
class Case:
    """A run: its records and options, the fields of its result, how that is checked, and what is stated."""

    header: str
    rows: list[str]
    options: str
    keys: str
    check: Callable[[dict[str, Any]], None]
    inputs: dict[str, int]
    relation: str


CASES = {
    "confusion": Case(
        "client_id,group,label,prediction",
        ["k,a,yes,yes"] * 30 + ["k,a,no,no"] * 9 + ["l,b,no,yes"] * 40,
        "--epsilon 1 --labels no,yes --max-count 100",
        "labels positive_label noisy_counts rates",
        check_counts,
        {"clients": 2, "uploads": 1, "max_count": 100},
        "add_or_remove_one",
    ),
    "gap": Case(  # 300 clients at 0.8, a fraction of counts; 200 at 0.5
        "client_id,group,value",
        [f"c{i},{'a,16/20' if i < 300 else 'b,0.5'}" for i in range(500)],
        "--epsilon 4 --range 0,1 --steps 100",
        "values noisy_sizes near_zero means gaps clients_per_group_for_a_tenth_of_the_range",
        check_gaps,
        {"clients": 500, "uploads": 1, "max_count": 1},
        "replace_one",
    ),
}


@pytest.mark.parametrize("model", model_parameters())
@pytest.mark.parametrize("task", CASES)
def test_records_to_files(task: str, model: SecurityModel, tmp_path: Path) -> None:
    case = CASES[task]
    (tmp_path / "records.csv").write_text("\n".join([case.header, *case.rows]) + "\n")
    options = [*case.options.split(), "--groups", "a,b", "--security", model.name, "--out", "results"]
    succeed(task, "--records", "records.csv", *options, cwd=tmp_path)
    assert files_below(tmp_path / "results") == {f"{task}.json", "manifest.json"}
    result, manifest = (read_json(tmp_path / "results" / name) for name in (f"{task}.json", "manifest.json"))
    assert set(result) == {"schema", "groups", "confidence", "privacy", *case.keys.split()}
    case.check(result)
    privacy = manifest["privacy"]
    assert result["privacy"] == privacy and privacy["neighboring_relation"] == case.relation
    assert Fraction(privacy["epsilon_exact"]) <= Fraction(privacy["epsilon_requested"])
    assert Fraction(privacy["delta_exact"]) <= Fraction(1, 2**40)
    assert manifest["inputs"] == case.inputs and processes_below(tmp_path) == {}


def test_counts_and_what_they_protect(tmp_path: Path) -> None:
    rows = "".join(f"c{i % 40},{'ab'[i % 5 == 0]},{i % 2}\n" for i in range(2000))
    (tmp_path / "records.csv").write_text("client_id,group,label\n" + rows)
    domain = {"groups": ["a", "b", "c"], "labels": ["0", "1"], "max_count": 100}
    (tmp_path / "domain.json").write_text(json.dumps(domain))
    options = "--records records.csv --epsilon 1 --error-to 2000 --domain domain.json --out found"
    said = succeed("count", *options.split(), cwd=tmp_path)
    result, manifest = (read_json(tmp_path / "found" / name) for name in ("count.json", "manifest.json"))
    counts, bounds = np.array(result["counts"]), np.array(result["counts_interval"])
    truth = np.array([[800, 800], [200, 200], [0, 0]])
    assert ((bounds[..., 0] <= counts) & (counts <= bounds[..., 1])).all()
    assert (bounds >= 0).all() and (bounds <= 2000).all()
    assert (abs(counts - truth) < 3 * truth + 100).all()  # far beyond the expected error
    privacy, by_size = manifest["privacy"], result["privacy_by_size"]
    assert privacy["epsilon_requested"] == "1"  # of which this error takes less
    assert [size["records"] for size in by_size] == [0, 10, 100, 1000]
    assert by_size[0]["epsilon"] == privacy["epsilon"] < 0.9 and by_size[0]["delta"] == privacy["delta"]
    assert by_size[-1]["epsilon"] < privacy["epsilon"] / 10
    assert "records in a cell" in said and "charged the ε of the smallest" in said


def test_opened_samples_are_written_and_judged(tmp_path: Path) -> None:
    asked = ("noise", "--n", "200", "--epsilon", "1", "--security", "mpyc", "--out", "found", "--json")
    result = json.loads(succeed(*asked, cwd=tmp_path))
    assert files_below(tmp_path) == {"found", "found/manifest.json", "found/noise.json"}
    assert read_json(tmp_path / "found" / "noise.json") == result
    assert (len(result["samples"]), result["sampler"]) == (200, "default")
    assert result["summary"]["distance"] <= result["summary"]["distance_bound"]
    manifest = read_json(tmp_path / "found" / "manifest.json")
    assert (manifest["task"], manifest["inputs"]) == ("noise", {"samples": 200})
    assert manifest["privacy"]["warning"] == WARNING and not {"epsilon", "delta"} & set(manifest["privacy"])


HEADER = "client_id,group,label,score\n"
GRID = 21
DOMAIN = {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 2000, "thresholds": GRID}


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
def scored(tmp_path: Path) -> Path:
    """Return a directory with the records and their domain."""
    write(tmp_path / "records.csv", RECORDS)
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    return tmp_path


def write(path: Path, records: list[tuple[str, str, str, float]]) -> None:
    path.write_text(HEADER + "".join(",".join(map(str, record)) + "\n" for record in records))


def check_curves(result: dict[str, Any]) -> None:
    """The curves differ from the true ones by what least squares can make of noise within its bounds."""
    coins = tuple(Coin(*coin) for coin in result["coins"])
    tree = CountTree(GRID, tuple(result["blocks"]))
    most = float(error_bound(coins, FALSE_ALARM / (4 * tree.nodes))) * np.abs(tree.estimator()).sum(axis=1)
    _, group, label, score = zip(*RECORDS, strict=True)
    exact = exact_curves(np.array(label) == "1", score, group, ("a", "b"), even_grid(GRID))
    for name, truth in (("true_positives", exact.tp), ("false_positives", exact.fp)):
        assert (np.abs(np.array(result[name]) - truth) <= most).all()
    assert result["positives"] == [row[0] for row in result["true_positives"]]


@pytest.mark.parametrize("model", model_parameters())
def test_records_to_thresholds(model: SecurityModel, scored: Path) -> None:
    before = files_below(scored)
    options = ["--domain", "domain.json", "--security", model.name, "--out", "results"]
    said = succeed("thresholds", "--records", "records.csv", "--epsilon", "2", *options, cwd=scored)
    files = ("thresholds.json", "curves.json", "manifest.json")
    assert files_below(scored) - before == {"results", *(f"results/{name}" for name in files)}
    thresholds, curves, manifest = (read_json(scored / "results" / name) for name in files)
    assert set(thresholds["thresholds"]) == {"a", "b"}
    check_curves(curves)
    assert thresholds["privacy"] == curves["privacy"] == manifest["privacy"]
    privacy = manifest["privacy"]
    assert 1 < Fraction(privacy["epsilon_exact"]) <= Fraction(privacy["epsilon"]) <= 2
    assert privacy["neighboring_relation"] == "add_or_remove_one"
    assert "thresholds" in privacy["public"] and "number of records of each upload" not in privacy["public"]
    assert (manifest["task"], manifest["security"]) == ("thresholds", model.name)
    # Both groups' scores are alike, so are their rates; accuracy is far from a guess's.
    assert thresholds["gap"] <= 0.01 and thresholds["objective_value"] > 0.6
    assert "model was not trained on" in said and "Trust: this machine, which ran all" in said
    assert processes_below(scored) == {}


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
def test_a_key_for_each_record(model: SecurityModel, scored: Path) -> None:
    """The parties bin the records; how many there are is public, so what one says is protected."""
    given = ("--records", "records.csv", "--domain", "domain.json", "--security", model.name)
    run = ("thresholds", *given, "--epsilon", "2")
    succeed(*run, "--variant", "records", "--out", "results", cwd=scored)
    check_curves(read_json(scored / "results" / "curves.json"))
    manifest = read_json(scored / "results" / "manifest.json")
    assert manifest["privacy"]["neighboring_relation"] == "replace_one"
    assert "number of records of each upload" in manifest["privacy"]["public"]
    assert manifest["inputs"]["records"] == 2000


def test_curves_are_kept_where_no_thresholds_follow(scored: Path) -> None:
    """Their epsilon is spent; the exit code tells that there are no thresholds."""
    options = ["--domain", "domain.json", "--security", QUICKEST, "--deterministic", "--tolerance", "0"]
    run = ("thresholds", "--records", "records.csv", "--epsilon", "2", *options, "--out", "results")
    done = call(*run, cwd=scored)
    assert done.returncode in CODES and "Error: Without randomization, equalized_odds within" in done.stderr
    assert files_below(scored / "results") == {"curves.json", "manifest.json"}
    assert "./inv thresholds --curves results chooses again on these curves" in done.stdout
    succeed("thresholds", "--curves", "results", "--out", "again", cwd=scored)
    assert read_json(scored / "again" / "thresholds.json")["deterministic"] is False
    check_curves(read_json(scored / "again" / "curves.json"))


UP_TO_1000 = RecordDomain(("a", "b"), ("0", "1"), 1000)
WITHIN = 10  # of the noise at ε = 20: its coins can make no more


def large(values: np.typing.NDArray[np.int64], word: int) -> Words:
    """Encode the first value as an element about in the middle of all that there are, others as 0."""
    words = np.zeros((*values.shape, word), dtype=np.uint64)
    words[0, ..., -1] = 1 << 61
    return words


@pytest.mark.filterwarnings("default:A revealed value is beyond")
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["mpyc"], MODELS["ring"]]))
def test_garbage_in_one_cell_leaves_the_others(model: SecurityModel, tmp_path: Path) -> None:
    for name, rows in (("honest", "me,a,0\n" * 300 + "me,b,1\n" * 200), ("liar", "you,a,0\n")):
        (tmp_path / f"{name}.csv").write_text("client_id,group,label\n" + rows)
        records = read_records(tmp_path / f"{name}.csv", UP_TO_1000)
        with mock.patch.object(
            type(model.ring),
            "encode",
            (lambda _ring, values: large(values, model.ring.words))
            if name == "liar"
            else type(model.ring).encode,
        ):
            share(records, SPLIT, model, tmp_path / "shares")
    options = ("--epsilon", "20", "--population", "none", "--security", model.name, "--out", "out")
    done = call("weights", "--shares", "shares", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A revealed value is beyond what the clients' declared maximum" in " ".join(done.stderr.split())
    assert "noisy_counts.py" not in done.stderr
    garbage, none, other, sure = flat(tmp_path / "out")
    assert garbage > 2000 and abs(none) < WITHIN and abs(other) < WITHIN and abs(sure - 200) < WITHIN


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


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_a_run_takes_the_rounds_that_it_has(
    model: SecurityModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """π_RW has about ten messages one after the other at least, each 20 ms under way.

    A busy machine makes what is measured worse, never better; a fault does so every time.
    """
    relays, index = captured_relays(monkeypatch), np.arange(2)
    records = ClientRecords(RecordDomain(("a", "b"), ("0", "1")), np.array(["c", "d"]), index, index, index)
    release = request_of(model, SPLIT, Fraction(1), Fraction(1, 2**40))
    settings = RunSettings(release, 60, network=emulated(parse_network("40ms,100Mbit")))
    for attempt in range(5):
        out = tmp_path / str(attempt) / "out"
        out.parent.mkdir()
        source = RecordsSource(records)
        manifest = run_release(WeightsStatistic(), source, settings, out, lambda step: None).manifest
        network = to_builtins(manifest.network)
        wanted = {"profile": "40ms,100Mbit", "rtt_s": 0.04, "bandwidth_bits_per_s": 1e8}
        assert wanted.items() <= network.items() and (manifest.mpc_s or 0) > 10 * 0.02
        assert network["measured_rtt_s"] >= 0.04 and network["measured_bandwidth_bits_per_s"] < 1.02e8
        assert all(relay.poll() is not None for relay in relays) and len(relays) == attempt + 1
        if network["measured_rtt_s"] < 0.06 and network["measured_bandwidth_bits_per_s"] > 5e7:
            return
    pytest.fail(f"measured {network}")


TRAINED_ON = [(f"c{i}", "ab"[i % 2], i // 2 % 2, i // 2 % 2, "st"[i // 3 % 2]) for i in range(60)]
GIVEN = ("--records", "my.csv", "--features", "features.json", "--epsilon", "9", "--security", QUICKEST)


def test_a_model_is_trained_and_says_what_it_cost(tmp_path: Path) -> None:
    table = pd.DataFrame(TRAINED_ON, columns=["client_id", "group", "label", "x", "sector"])
    table.to_csv(tmp_path / "my.csv", index=False)
    features = {"x": {"low": 0, "high": 1}, "sector": {"categories": ["s", "t"]}}
    (tmp_path / "features.json").write_text(json.dumps(features))
    more = ("--noise", "distributed", "--rounds", "4", "--privacy-unit", "client", "--plot", "--out", "out")
    charged = ("--population", "me", "--ledger", "ledger.sqlite", "--budget", "9,1e-4")
    out = succeed("train", *GIVEN, *more, *charged, "--json", cwd=tmp_path)
    assert json.loads(out[out.index("{\n") :]) == read_json(tmp_path / "out" / "model.json")
    manifest = read_json(tmp_path / "out" / "manifest.json")
    said = {"rounds": 4, "clip": 1.0, "largest_weight": 1.0, "learning_rate": 1.0, "momentum": 0.9}
    rho, apart = (manifest["training"].pop(name) for name in ("rho", "rho_delta"))
    delta = pld.from_gaussian_mechanism(1 / math.sqrt(2 * rho)).get_delta_for_epsilon(9)
    assert 0.98 < (delta + (1 + math.exp(9)) * apart) / manifest["privacy"]["delta"] < 1.001 and apart > 0
    assert manifest["training"] == said
    assert manifest["inputs"]["in_training"] == 60 and manifest["privacy"]["privacy_unit"] == "client"
    assert 8.9 < manifest["privacy"]["epsilon"] <= 9 and manifest["ledger"]["runs"] == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "model.json",
        "manifest.json",
        "report.html",
    }
    model = LogisticModel.load(tmp_path / "out")
    assert model.score(table[model.feature_names_in_], table.label) > 0.9
    again = call("train", *GIVEN, *charged, "--privacy-unit", "client", "--out", "second", cwd=tmp_path)
    assert (
        again.returncode
        and "of its budget of 9,0.0001" in again.stderr
        and not (tmp_path / "second").exists()
    )
