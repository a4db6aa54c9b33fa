"""`bench.run` with suites of ours as a user runs them: real parties, interrupted, resumed, refused."""

import json
import os
import signal
from pathlib import Path

import pytest

from benchmarks.measure.cell import HERE
from benchmarks.measure.samples import FAILED, OK, Level, load
from benchmarks.suites import Planned
from tests.support.command import call, finish, processes_below, start, succeed
from tests.support.midway import PARTY_0_BEGINS, ended, wait_until_stopped
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
    assert (sample.status, sample.reason, sample.cell) == (OK, None, cell)
    assert known is not None
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


def test_quick_suite_where_there_is_no_mp_spdz(tmp_path: Path) -> None:
    options = ("table2", "--quick", "--out", "found", "--json")
    printed = succeed("bench.run", *options, cwd=tmp_path, environment={"MP_SPDZ_HOME": "none"})
    ran, skipped = (
        [row for row in json.loads(printed) if row["cell"]["security"] == model] for model in ("mpyc", "ring")
    )
    kinds = [(row["cell"]["variant"], row["cell"].get("noise")) for row in ran]
    assert kinds == [("default", "joint"), ("default", "distributed"), ("product", None)]
    assert all(row["ok"] == 1 and row["mpc_s"]["low"] > 0 for row in ran)
    assert [(row["skipped"], row["mpc_s"]) for row in skipped] == 2 * [(1, None)]
    assert "switched off" in skipped[0]["reason"]
    assert {path.name for path in (tmp_path / "found").iterdir()} == LEFT
    assert [path.name for path in tmp_path.iterdir()] == ["found"]  # no run's directory, no compiled program


def test_a_run_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    options = ("--quick", "--security", "mpyc", "--timeout", "0.01", "--out", "found")
    done = call("bench.run", "noise", *options, cwd=tmp_path)
    assert done.returncode == 1
    assert "1 failed" in done.stderr and "--resume found" in done.stderr
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
    assert [row["ok"] for row in json.loads(done.stdout)] == [3]
    assert load(samples)[: len(first)] == first
    assert sorted(sample.repetition for sample in load(samples)) == [0, 1, 2]
