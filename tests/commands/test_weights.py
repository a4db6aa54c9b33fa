"""The main job from the command line: records or shares in, two files out, also of a chain."""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import fairshares
from fairshares.harness.cli import terminal
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.views.quickstart import TOLD
from fairshares.protocols.circuits.coins import design_noise
from fairshares.protocols.noise.truncated import error_bound
from fairshares.protocols.spec import SPLIT, InputForm
from tests.support.command import (
    command,
    files_below,
    flat as noisy,
    processes_below,
    read_json,
    refused,
    succeed,
)
from tests.support.running import QUICKEST, model_parameters
from tests.support.sharing import aggregates_by_command, trial_by_command

# Client c0 has records of two groups; nobody has (b, 1).
RECORDS = [("c0", "a", "0")] * 3 + [("c0", "b", "0")] + [("c1", "a", "1")] * 2 + [("c2", "b", "0")] * 40
TRUTH = [[3, 2], [41, 0]]
DOMAIN = {"groups": ["b", "a"], "labels": ["1", "0"], "max_count": 100}
# Noise beyond its exact quantile fails a test with this probability, all cells together.
FALSE_ALARM = Fraction(1, 10**9)

SCHEMES_KEYS = {"security", "engine", "parties", "adversary", "available", "reason", "engine_version"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with the records and their domain, and for one-group clients alone."""
    write(tmp_path / "records.csv", RECORDS)
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    return tmp_path


def write(path: Path, records: list[tuple[str, str, str]]) -> None:
    path.write_text("client_id,group,label\n" + "".join(f"{','.join(record)}\n" for record in records))


def flat(table: list[list[Any]]) -> list[Any]:
    return [entry for row in table for entry in row]


def check_results(
    directory: Path,
    truth: list[list[int]],
    model: SecurityModel,
    form: InputForm,
    epsilon: Fraction = Fraction(1),
) -> dict[str, Any]:
    """Check the two files that a run writes; return the weights."""
    assert {path.name for path in directory.iterdir()} == {"weights.json", "manifest.json"}
    weights, manifest = read_json(directory / "weights.json"), read_json(directory / "manifest.json")
    assert weights["groups"] == ["a", "b"] and weights["labels"] == ["0", "1"]
    bound = error_bound(design_noise(epsilon, 40), FALSE_ALARM / 4)
    errors = [a - b for a, b in zip(flat(weights["noisy_counts"]), flat(truth), strict=True)]
    assert all(abs(error) <= bound and error % 1 == 0.5 for error in errors)
    for weight, (low, high) in zip(flat(weights["weights"]), flat(weights["weights_interval"]), strict=True):
        assert low <= weight <= high

    privacy = manifest["privacy"]
    assert privacy == weights["privacy"]
    assert Fraction(privacy["epsilon_exact"]) <= Fraction(privacy["epsilon"]) <= epsilon
    assert Fraction(privacy["delta_exact"]) <= Fraction(privacy["delta"]) <= Fraction(1, 2**40)
    assert privacy["input_form"] == form.name
    assert privacy["mpc_statistical_security_bits"] == model.security_bits(compared=0)
    of_model = {"security": model.name, "engine": model.engine, "compile_options": [*model.compile_options]}
    assert of_model.items() <= manifest.items() and re.fullmatch("[0-9a-f]{64}", manifest["program_hash"])
    assert len(manifest["sent_bytes"]) == len(manifest["party_mpc_s"]) == model.parties
    assert min(manifest["sent_bytes"]) > 0 and 0 < manifest["mpc_s"] < manifest["wall_s"]
    return weights


@pytest.mark.parametrize(("form", "model"), model_parameters(SPLIT))
def test_records_to_weights(form: InputForm, model: SecurityModel, here: Path) -> None:
    before = files_below(here)
    options = ["--security", model.name, "--groups", "a,b", "--labels", "0,1", "--out", "results/first"]
    printed = succeed("weights", "--records", "records.csv", "--epsilon", "1", *options, cwd=here)
    assert files_below(here) - before == {
        *("results", "results/first", "results/first/weights.json", "results/first/manifest.json")
    }
    check_results(here / "results" / "first", TRUTH, model, form)
    assert printed.splitlines()[-1] == "Results: results/first"
    assert "Guarantee: ε = 0.9971 (1 asked), " in printed
    assert "Trust: this machine, which ran all" in printed and processes_below(here) == {}


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_shares_of_clients_who_left_to_weights(model: SecurityModel, here: Path) -> None:
    """Three uploads, an aggregate per party, then two runs on the same shares.

    Two runs at epsilon = 1/100 open the same noise in all four cells with probability (sum p^2)^4 < 1e-9.
    """
    trial_by_command("shares", model, "--domain", "domain.json", cwd=here)
    for name, clients in (("mine", ("c0",)), ("theirs", ("c1", "c2"))):
        write(here / f"{name}.csv", [record for record in RECORDS if record[0] in clients])
        options = ["--task", "shares/task.json", "--out", "shares"]
        succeed("share", "--records", f"{name}.csv", *options, cwd=here)
    shares = files_below(here / "shares")
    assert len(list((here / "shares").rglob("*.share"))) == 3 * model.parties
    said = aggregates_by_command("shares", model, ".", here)
    assert all(f"Party {i}: 3 uploads in party-{i}.aggregate" in said for i in range(model.parties))
    run = ["weights", "--epsilon", "0.01", "--security", model.name]
    succeed(*run, "--shares", ".", "--out", "first", cwd=here)
    succeed(*run, "--shares", "shares", "--population", "again", "--out", "second", cwd=here)
    first, second = (
        check_results(here / name, TRUTH, model, SPLIT, Fraction(1, 100)) for name in ("first", "second")
    )
    inputs = {"clients": 3, "uploads": 3, "max_count": 100}
    assert inputs.items() <= read_json(here / "first" / "manifest.json")["inputs"].items()
    assert "domain inferred from records" not in first["privacy"]["public"]
    assert first["noisy_counts"] != second["noisy_counts"] and files_below(here / "shares") == shares
    (here / "shares" / "party-1").rename(here / "lost")
    said = refused(*run, "--shares", "shares", "--out", "third", cwd=here)
    assert "Cannot read shares/party-1" in said


def test_security_has_the_documented_keys(here: Path) -> None:
    rows = json.loads(succeed("security", "--json", cwd=here))
    assert [row["security"] for row in rows] == list(MODELS)
    for row in rows:
        model = MODELS[row["security"]]
        assert set(row) == SCHEMES_KEYS and row["available"] is (row["reason"] is None)
        assert (row["engine"], row["parties"], row["adversary"]) == (
            *(model.engine, model.parties, model.tolerates),
        )


def test_without_mp_spdz_the_default_is_the_embedded_engine(here: Path) -> None:
    environment = {"MP_SPDZ_HOME": "none"}
    rows = json.loads(succeed("security", "--json", cwd=here, environment=environment))
    reason = "MP-SPDZ is switched off by MP_SPDZ_HOME=none."
    assert {row["reason"] for row in rows if row["engine"] == "mp-spdz"} == {reason}
    done = command("weights", "--records", "records.csv", "--epsilon", "1", cwd=here, environment=environment)
    assert done.returncode == 0 and done.stderr.startswith("Security model: mpyc ")
    (results,) = (here / "runs").iterdir()
    check_results(results, TRUTH, MODELS["mpyc"], SPLIT)


def test_quickstart_tells_the_private_result_from_the_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "out", Console(width=80, force_terminal=True, color_system=None))
    said = succeed("quickstart", "--out", "results", cwd=tmp_path)
    widened = 4 * ("\nWider with " in said)  # the lines that name what became worse
    unknown = 3 * ("says nothing of the difference" in said)
    assert len(said.splitlines()) <= 60 + widened + unknown + 2 * ("the noisy curves allowed no" in said)
    said = " ".join(said.split())
    evaluation, private = said.split("What the parties revealed")
    assert "without a privacy guarantee" in evaluation and "balanced accuracy" in evaluation
    assert private.count("Guarantee: ε = ") == 1 and "Guarantee" not in evaluation
    assert "Fairest: " in evaluation and "approved" in private
    report = (tmp_path / "results" / "report.html").read_text()
    assert report.index("Fairest: ") < report.index("Weights go from") and "`" not in report
    assert report.index("without a privacy guarantee") < report.index("(ε, δ)-differential privacy")
    json_files = ("weights.json", "thresholds.json", "curves.json", "manifest.json")
    pictures = (f"{name}.png" for name in ("weights", "roc", "rates", "privacy", *TOLD))
    assert files_below(tmp_path / "results") == {*json_files, "evaluation.csv", "report.html", *pictures}
    manifest = read_json(tmp_path / "results" / "manifest.json")
    # Everybody knows that each applicant has one record: what it says is what is protected.
    assert manifest["inputs"]["max_count"] == 1
    assert manifest["privacy"]["neighboring_relation"] == "replace_one"
    assert "one record replaced" in private and "not whether it exists" not in report
    parts = [part["privacy"] for part in manifest["parts"].values()]
    total = sum(Fraction(privacy["epsilon_exact"]) for privacy in parts)
    assert Fraction(manifest["privacy"]["epsilon_exact"]) == total <= 4
    for name, part in zip(("weights.json", "curves.json"), parts, strict=True):
        assert read_json(tmp_path / "results" / name)["privacy"] == part
    assert processes_below(tmp_path) == {}


DECLARED = ("--groups", "a,b", "--labels", "0,1", "--max-count", "100", "--epsilon", "20")
SHARE = (
    *("share", "--task", "shares/task.json", "--records", "mine.csv", "--out", "shares"),
    *("--counted", "mine.json"),
)


def arrive(place: Path, *cells: str) -> None:
    """Have a client arrive with a record in each of these cells, "a0" for example."""
    rows = [f"c,{cell[0]},{cell[1]}\n" for cell in cells]
    (place / "mine.csv").write_text("client_id,group,label\n" + "".join(rows))
    succeed(*SHARE, cwd=place)


def test_a_chain(tmp_path: Path) -> None:
    """Two runs of new uploads each, for one charge; then their counts added up, for none."""
    trial_by_command("shares", MODELS[QUICKEST], *DECLARED, cwd=tmp_path)
    arrive(tmp_path, *["a0"] * 30, "b1")
    assert "mine.csv was shared before" in refused(*SHARE, cwd=tmp_path)
    asked = ("--epsilon", "20", "--security", QUICKEST, "--population", "people")
    run = ("weights", "--shares", "shares", "--chain", "monthly", *asked)
    succeed(*run, "--out", "first", cwd=tmp_path)
    assert "counted all 1 uploads" in refused(*run, "--out", "second", cwd=tmp_path)
    arrive(tmp_path, *["a1"] * 40)
    said = refused(*run, "--out", "second", "--noise", "distributed", cwd=tmp_path)
    assert "was begun with another ε, δ or noise" in said
    said = succeed(*run, "--out", "second", cwd=tmp_path)
    assert "New uploads that were counted: 1." in said and "Spent in 1 run: ε" in said
    said = succeed("weights", "--add", "first,second", "--out", "both", cwd=tmp_path)
    assert "Runs added up: 2, of 2 clients." in said
    bound = 2 * error_bound(design_noise(Fraction(19), 41), Fraction(1, 10**10))
    for out, truth in (("first", (30, 0, 0, 1)), ("second", (0, 40, 0, 0)), ("both", (30, 40, 0, 1))):
        assert all(abs(a - b) <= bound for a, b in zip(noisy(tmp_path / out), truth, strict=True))
    privacy = [read_json(tmp_path / out / "manifest.json")["privacy"] for out in ("first", "second", "both")]
    assert privacy[0] == privacy[1] == privacy[2]
    assert files_below(tmp_path / "both") == {"manifest.json", "weights.json"}
    (population,) = Ledger().populations()
    assert [charge.status for charge in population.charges] == [Status.DONE]
    added, loaded = (
        fairshares.load(tmp_path / "first", tmp_path / "second"),
        fairshares.load(tmp_path / "both"),
    )
    assert isinstance(added, fairshares.WeightsResult) and isinstance(loaded, fairshares.WeightsResult)
    assert added.weights.equals(loaded.weights) and added.intervals.equals(loaded.intervals)
