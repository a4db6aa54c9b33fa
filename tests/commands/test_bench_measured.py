"""`bench.run` with suites of ours and with files, what is done with results, and those on record."""

import json
import os
import shlex
import shutil
import signal
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from benchmarks.measure.cell import HERE
from benchmarks.measure.runner import chosen_in
from benchmarks.measure.samples import FAILED, OK, Level, load
from benchmarks.suites import Planned
from benchmarks.validation import multiplications
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.checks import validate
from benchmarks.validation.findings import Finding, Status, explanations, judge
from fairshares.harness.privacy.ledger.entries import Ledger
from tests.support.command import call, finish, processes_below, read_json, start, succeed
from tests.support.midway import PARTY_0_BEGINS, ended, wait_until_stopped
from tests.support.running import QUICKEST
from tests.support.surroundings import Surroundings

WEIGHTS: dict[str, Level] = {
    "protocol": "pi_rw",
    "variant": "default",
    "input_path": "shares",
    "shape": "",
    "clients": 5,
    "records": 20,
    "groups": 2,
    "labels": 2,
    "epsilon": "1",
    "network": "none",
}
CURVES: dict[str, Level] = {**WEIGHTS, "protocol": "pi_roc", "thresholds": 21}
SENT: dict[str, Level] = {"variant": "product", "input_path": "clients"}
NOISE: dict[str, Level] = {
    "protocol": "pi_lap",
    "variant": "default",
    "samples": 4,
    "epsilon": "1",
    "network": "none",
}
KINDS: dict[str, dict[str, Level]] = {
    "weights": {**WEIGHTS, "security": "mpyc"},
    "product": {**WEIGHTS, **SENT, "security": "ring"},
    "records": {**CURVES, "variant": "records", "security": "ring"},
    "noise": {**NOISE, "security": "ring"},
}
LEFT = {"samples.jsonl", "about.json", "experiment.toml", "programs"}


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(
            cell, id=name, marks=pytest.mark.mpspdz(cell["security"]) if cell["security"] != "mpyc" else ()
        )
        for name, cell in KINDS.items()
    ],
)
def test_a_sample_holds_what_a_run_cost(cell: dict[str, Level], tmp_path: Path) -> None:
    known = HERE.identity(cell)
    sample = HERE.measure("some", Planned(cell, 1, 60.0), 0, tmp_path)
    assert (sample.status, sample.reason, sample.cell) == (OK, None, cell) and known is not None
    assert (sample.program_hash, sample.engine_version) == known
    parties = len(sample.sent_bytes)
    assert min(sample.sent_bytes) > 0 and len(sample.times["party_mpc_s"]) == parties
    assert 0 < sample.times["mpc_s"] < sample.times["wall_s"]
    assert len(sample.peak_memory_bytes) == parties and min(sample.peak_memory_bytes) > 2**20
    sent = sample.client_sent_bytes
    assert (sent is None) == (cell["protocol"] == "pi_lap")
    assert sent is None or (len(sent) == parties and min(sent) > 0)
    assert sample.environment["cores"] > 0 and len(sample.environment["load_average"]) == 3
    assert list(tmp_path.iterdir()) == []  # the run's own directory is gone


AHEAD: list[dict[str, Level]] = [
    {**WEIGHTS, "security": QUICKEST, "noise": "ahead"},
    {**NOISE, "protocol": "pi_rounds", "coordinates": 5, "rounds": 3, "security": QUICKEST, "noise": "ahead"},
]


@pytest.mark.parametrize("cell", AHEAD)
def test_both_phases_are_measured_and_no_user_is_charged(cell: dict[str, Level], tmp_path: Path) -> None:
    known = HERE.identity(cell)
    sample = HERE.measure("some", Planned(cell, 1, 60.0), 0, tmp_path)
    assert (sample.status, sample.reason) == (OK, None)
    assert (sample.program_hash, sample.engine_version) == known
    assert 0 < sample.times["mpc_s"] == sample.times["online_s"] and sample.times["offline_s"] > 0
    assert not Ledger().path.exists()


def test_a_run_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    options = ("--quick", "--security", "mpyc", "--timeout", "0.01", "--out", "found")
    done = call("bench.run", "noise", *options, cwd=tmp_path)
    assert done.returncode == 1 and "1 failed" in done.stderr and "--resume found" in done.stderr
    (sample,) = load(tmp_path / "found")
    assert f"repetition 1: {sample.reason}" in done.stderr
    assert sample.status == FAILED and "0.01 s" in str(sample.reason)
    assert {path.name for path in (tmp_path / "found").iterdir()} == LEFT
    assert [path.name for path in tmp_path.iterdir()] == ["found"] and processes_below(tmp_path) == {}


def test_ctrl_c_keeps_what_is_done_and_resume_does_the_rest(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It comes while parties run: after the first result each run waits to be told to go on."""
    around = Surroundings(tmp_path_factory.mktemp("around") / "it")
    around.stop_where(PARTY_0_BEGINS)
    running = start(
        *("bench.run", "noise", "--quick", "--security", "mpyc", "--repetitions", "3", "--out", "found"),
        cwd=tmp_path,
        environment=around.environment,
    )
    samples = tmp_path / "found" / "samples.jsonl"
    while not (samples.exists() and samples.read_bytes()):
        os.kill(wait_until_stopped(tmp_path, ended(running)), signal.SIGCONT)
    running.send_signal(signal.SIGINT)
    done = finish(running)
    assert done.returncode == 130
    assert "--resume found" in done.stderr and "results are in found" in done.stderr
    assert {path.name for path in (tmp_path / "found").iterdir()} == LEFT
    assert [path.name for path in tmp_path.iterdir()] == ["found"] and processes_below(tmp_path) == {}
    first = load(samples)
    assert 1 <= len(first) < 3

    done = call("bench.run", "--resume", "found", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["ok"] for row in json.loads(done.stdout)] == [3] and load(samples)[: len(first)] == first
    assert sorted(sample.repetition for sample in load(samples)) == [0, 1, 2]


EXPERIMENT = """
name = "mine"
title = "Some noise"
repetitions = 1

[factors]
protocol = "pi_lap"
variant = "default"
network = "none"
epsilon = "1"
security = "mpyc"

[[grid]]
factors.samples = [1, 2]
"""
PRODUCT = """
n = int(program.args[1])
a, b = (sint.get_input_from(i, size=n) for i in (0, 1))
print_ln("OUT product %s", sum(a * b).reveal())
"""
# What it prints looks like outputs, twice and of no form, and like what engines say of a run's cost.
ODD = """
for text in ["OUT", "OUT x 1.5", "OUT x 2", "OUT x 2", "OUTPUT", "Time = 999.0 seconds (9 MB, 9 rounds)"]:
    print_ln(text)
print_ln("Data sent = 999 MB in ~999 rounds (party 0)")
print_ln("Data sent = 999 bytes")
print_ln("OUT x %s", (sint(1) + 1).reveal())
"""


def test_an_experiment_runs_and_goes_on_from_its_results_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    rows = json.loads(succeed("bench.run", "mine.toml", "--out", "found", "--json", cwd=tmp_path))
    assert [row["cell"]["samples"] for row in rows] == [1, 2]
    samples = load(tmp_path / "found")
    cells = sorted((sample.cell["samples"], sample.warm_up) for sample in samples)
    assert cells == [(1, False), (1, True), (2, False), (2, True)]
    about = read_json(tmp_path / "found" / "about.json")
    assert about["command"] == "./inv bench.run mine.toml" and 0 <= about["chosen"]["seed"] < 2**32
    assert (tmp_path / "found" / "experiment.toml").read_text() == EXPERIMENT
    (tmp_path / "mine.toml").unlink()  # the directory has all that it takes
    succeed("bench.run", "--resume", "found", "--repetitions", "2", cwd=tmp_path)
    assert chosen_in(tmp_path / "found").seed == about["chosen"]["seed"]
    assert sum(not sample.warm_up for sample in load(tmp_path / "found")) == 4
    assert validate(Measured.read(tmp_path / "found")).with_status(Status.FAILED) == []


def test_recorded_results_can_be_exported(tmp_path: Path) -> None:
    recorded = str(RESULTS / "noise")
    done = call("bench.export", recorded, "--out", "tables", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        *("runs.csv", "runs.parquet", "cells.csv", "cells.parquet", "table.tex", "measured"),
        "cells.pdf",
    }
    assert load(tmp_path / "tables" / "measured") == load(RESULTS / "noise")


@pytest.mark.mpspdz("ring")
def test_two_ways_to_compile_a_program_are_timed_in_turn(tmp_path: Path) -> None:
    (tmp_path / "my.mpc").write_text(PRODUCT)
    timed = "my.mpc --args 3 --inputs 3 --against '-R 64' --security ring,semi2k --repetitions 1"
    shown = succeed("bench.run", *shlex.split(timed), "--out", "found", cwd=tmp_path)
    for said in ("no guarantee", "my.mpc", "too few pairs to tell"):
        assert said in shown
    samples = load(tmp_path / "found")
    assert {
        (sample.cell["security"], sample.compile_options) for sample in samples if not sample.warm_up
    } == {
        ("ring", ("-R", "64", "-Z", "3")),
        ("ring", ("-R", "64")),
        ("semi2k", ("-R", "64", "-Y")),
        ("semi2k", ("-R", "64")),
    }
    assert all(sample.status == "ok" and sample.rounds and min(sample.sent_bytes) > 0 for sample in samples)
    (tmp_path / "my.mpc").write_text("elsewhere")  # which nobody reads any more
    succeed("bench.run", "--resume", "found", "--repetitions", "2", cwd=tmp_path)
    assert sum(not sample.warm_up for sample in load(tmp_path / "found")) == 8


@pytest.mark.mpspdz("ring")
def test_a_program_is_timed_whatever_it_prints(tmp_path: Path) -> None:
    (tmp_path / "odd.mpc").write_text(ODD)
    options = ("odd.mpc", "--security", "ring,mpyc", "--repetitions", "1", "--out", "found")
    succeed("bench.run", *options, cwd=tmp_path)
    for sample in load(tmp_path / "found"):
        assert sample.status == "ok" and 0 < sample.times["mpc_s"] < 999
        assert sample.rounds != 999 and sum(sample.sent_bytes) not in (3 * 999, 3 * 999_000_000)


@pytest.mark.mpspdz("ring")
def test_what_the_compiler_refuses_is_said_in_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "my.mpc").write_text("x = 1\nx.no_such_thing()\n")
    done = call(
        *("bench.run", "my.mpc", "--security", "ring", "--repetitions", "1", "--out", "found"), cwd=tmp_path
    )
    assert done.returncode == 1
    (sample,) = load(tmp_path / "found")
    assert sample.status == "failed" and "no attribute 'no_such_thing'" in str(sample.reason)
    assert 'my.mpc", line 2' in str(sample.reason) and "\n" not in str(sample.reason)


@pytest.fixture(scope="module")
def measured() -> Measured:
    return Measured.read(RESULTS)


@pytest.fixture(scope="module")
def findings(measured: Measured) -> list[Finding]:
    return list(validate(measured).findings)


def test_recorded_runs_pass(findings: list[Finding]) -> None:
    assert [finding for finding in findings if finding.status is Status.FAILED] == []
    assert sum(finding.status is Status.PASSED for finding in findings) > 100
    assert {finding.check.key.split(".")[0] for finding in findings} >= {
        *("whole", "exact", "order", "linear", "constant", "ratio", "gain"),
    }


def test_results_that_break_a_check_fail_the_command(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "table2", tmp_path / "table2")
    samples = tmp_path / "table2" / "samples.jsonl"
    lines = samples.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if '"status": "ok"' in line)
    samples.write_text("".join(lines[:first] + lines[first + 1 :]))
    done = call("bench.validate", "--results", "table2", cwd=tmp_path)
    assert done.returncode == 1 and "failed whole.table2.repetitions" in done.stdout


def test_every_known_explanation_is_needed(findings: list[Finding]) -> None:
    """Those that explain nothing on record would hide what comes, where what they are about is judged."""
    judged = [finding for finding in findings if finding.status is not Status.NOT_JUDGED]
    about = {
        known: [finding for finding in judged if fnmatchcase(finding.check.key, known.checks)]
        for known in explanations()
    }
    needed = {
        known: [finding for finding in some if finding.reason.startswith(known.because)]
        for known, some in about.items()
    }
    assert [known.checks for known, some in about.items() if some and not needed[known]] == []


@pytest.mark.mpspdz("ring")
def test_the_compiler_counts_what_the_protocols_imply() -> None:
    judged = judge(multiplications.checks(), ())
    assert judged and {finding.status for finding in judged} == {Status.PASSED}
