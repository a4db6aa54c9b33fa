"""`bench.run` with files, `bench.export` and `bench.compare` as a user runs them."""

import hashlib
import json
import re
import shlex
from pathlib import Path

import pytest

from benchmarks.measure.runner import chosen_in
from benchmarks.measure.samples import load
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.checks import validate
from benchmarks.validation.findings import Status
from tests.support.command import call, command, read_json, succeed

NOISE = """
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
    (tmp_path / "mine.toml").write_text(NOISE)
    rows = json.loads(succeed("bench.run", "mine.toml", "--out", "found", "--json", cwd=tmp_path))
    assert [row["cell"]["samples"] for row in rows] == [1, 2]
    found = load(tmp_path / "found")
    cells = sorted((each.cell["samples"], each.warm_up) for each in found)
    assert cells == [(1, False), (1, True), (2, False), (2, True)]
    about = read_json(tmp_path / "found" / "about.json")
    assert about["command"] == "./inv bench.run mine.toml" and 0 <= about["chosen"]["seed"] < 2**32
    assert (tmp_path / "found" / "experiment.toml").read_text() == NOISE
    (tmp_path / "mine.toml").unlink()  # the directory has all that it takes
    succeed("bench.run", "--resume", "found", "--repetitions", "2", cwd=tmp_path)
    assert chosen_in(tmp_path / "found").seed == about["chosen"]["seed"]
    assert sum(not each.warm_up for each in load(tmp_path / "found")) == 4
    assert validate(Measured.read(tmp_path / "found")).of(Status.FAILED) == []


def test_recorded_results_can_be_exported_and_compared(tmp_path: Path) -> None:
    recorded = str(RESULTS / "noise")
    done = call("bench.export", recorded, "--out", "tables", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        *("runs.csv", "runs.parquet", "cells.csv", "cells.parquet", "table.tex", "measured"),
        *("cells.pdf", "noise.pdf"),
    }
    assert load(tmp_path / "tables" / "measured") == load(RESULTS / "noise")
    done = call("bench.compare", "--before", recorded, "--after", recorded, cwd=tmp_path)
    assert done.returncode == 0 and "44 too few runs to tell." in done.stdout


@pytest.mark.mpspdz("ring")
def test_two_ways_to_compile_a_program_are_timed_in_turn(tmp_path: Path) -> None:
    (tmp_path / "my.mpc").write_text(PRODUCT)
    timed = "my.mpc --args 3 --inputs 3 --against '-R 64' --security ring,semi2k --repetitions 1"
    shown = succeed("bench.run", *shlex.split(timed), "--out", "found", cwd=tmp_path)
    for said in ("no guarantee", "my.mpc", "too few pairs to tell", "integer triples", "offline"):
        assert said in shown
    assert re.search(r"-R 64[^/]* / my\.mpc(?![^│┃]*-R)", shown)  # what the ratios are of
    found = load(tmp_path / "found")
    assert {(each.cell["security"], each.compile_options) for each in found if not each.warm_up} == {
        ("ring", ("-R", "64", "-Z", "3")),
        ("ring", ("-R", "64")),
        ("semi2k", ("-R", "64", "-Y")),
        ("semi2k", ("-R", "64")),
    }
    assert all(each.status == "ok" and each.rounds and min(each.sent_bytes) > 0 for each in found)
    about = read_json(tmp_path / "found" / "about.json")
    assert about["sha256"] == {"my.mpc": hashlib.sha256(PRODUCT.encode()).hexdigest()}
    assert about["command"] == f"./inv bench.run {timed}"
    (tmp_path / "my.mpc").write_text("elsewhere")  # which nobody reads any more
    succeed("bench.run", "--resume", "found", "--repetitions", "2", cwd=tmp_path)
    assert sum(not each.warm_up for each in load(tmp_path / "found")) == 8


def test_a_portable_program_runs_on_the_embedded_engine(tmp_path: Path) -> None:
    (tmp_path / "one.mpc").write_text('print_ln("OUT one %s", (sint(1) + 1).reveal())\n')
    done = command(
        *("bench.run", "one.mpc", "--security", "mpyc,ring", "--repetitions", "1", "--out", "found"),
        cwd=tmp_path,
        environment={"MP_SPDZ_HOME": "none"},
    )
    assert done.returncode == 0, done.stderr
    assert [
        (each.cell["security"], each.status) for each in load(tmp_path / "found") if not each.warm_up
    ] in (
        [("mpyc", "ok"), ("ring", "skipped")],
        [("ring", "skipped"), ("mpyc", "ok")],
    )


@pytest.mark.mpspdz("ring")
def test_a_program_is_timed_whatever_it_prints(tmp_path: Path) -> None:
    (tmp_path / "odd.mpc").write_text(ODD)
    options = ("odd.mpc", "--security", "ring,mpyc", "--repetitions", "1", "--out", "found")
    done = call("bench.run", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
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
