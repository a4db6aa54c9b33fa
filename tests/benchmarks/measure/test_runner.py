"""The runner: what is missing is run, what is there stays, and nothing is mixed; parties are stood in for."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.errors import MixedResultsError
from benchmarks.measure import runner
from benchmarks.measure.cell import HERE
from benchmarks.measure.runner import Chosen, Todo, go_on, missing, start
from benchmarks.measure.samples import FAILED, OK, SKIPPED, Level, Sample, by_cell, load, summary
from benchmarks.suites import Exclusion, Grid, Planned, Suite, Until
from fairshares.harness.engines.execution import PROGRAMS, TIMES
from fairshares.harness.errors import OptionError
from fairshares.harness.security_models import MODELS


def level(model: str) -> dict[str, Any]:
    fixed = {"protocol": "pi_lap", "variant": "default", "samples": 1, "epsilon": "1", "network": "none"}
    return {**fixed, "security": model}


SUITE = Suite(
    "some",
    "Something",
    [Grid({**level("ring"), "security": ["ring", "mpyc"]}), Grid(level("spdz2k"))],
    [Grid(level("mpyc"), 1)],
    repetitions=2,
    excluded=[Exclusion({"security": ["spdz2k"]}, "It takes too long.")],
    warm_up=False,
)
TEXT = """
name = "some"
title = "Something"
repetitions = 2
warm_up = false

[factors]
protocol = "pi_lap"
variant = "default"
samples = 1
epsilon = "1"
network = "none"

[[grid]]
factors.security = ["ring", "mpyc"]

[[grid]]
factors.security = "spdz2k"

[[quick]]
repetitions = 1
factors.security = "mpyc"

[[excluded]]
where = { security = ["spdz2k"] }
reason = "It takes too long."
"""
CHOSEN = Chosen(SUITE, told="bench.run some")
ENVIRONMENT = {"cores": 2}


def sample(model: str, repetition: int, status: str = OK, program: str = "p", **more: Any) -> Sample:
    reason = None if status == OK else "So it is."
    times = {**dict.fromkeys(TIMES), "mpc_s": 1.0, "wall_s": {"ring": 2.0, "mpyc": 4.0}.get(model, 9.0)}
    return Sample(
        *("some", level(model), repetition, status, "now", ENVIRONMENT, reason),
        times=times,
        program_hash=program,
        engine_version="MP-SPDZ x",
        **more,
    )


class StandIn:
    """Instead of parties: what each model does, what ran, and what is there to run it."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []
        self.does: Callable[[str, int], Sample] = sample
        self.program, self.version = "p", "MP-SPDZ x"
        self.absent: set[str] = set()

    def measure(self, _suite: str, planned: Planned, repetition: int, *_: object) -> Sample:
        model = str(planned.cell["security"])
        if self.why_not(planned):
            return sample(model, repetition, SKIPPED)
        self.ran.append((model, repetition))
        return self.does(model, repetition)

    def why_not(self, planned: Planned) -> str | None:
        return planned.excluded or ("There is none." if planned.cell["security"] in self.absent else None)

    def identity(self, cell: Mapping[str, Level]) -> tuple[str, str] | None:
        return None if cell["security"] in self.absent else (self.program, self.version)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn()
    for name in ("measure", "why_not", "identity"):
        monkeypatch.setattr(HERE, name, getattr(made, name))
    return made


@pytest.fixture
def directory(stand_in: StandIn, tmp_path: Path) -> Path:
    start(tmp_path / "found", CHOSEN, TEXT)
    return tmp_path / "found"


def run(directory: Path, chosen: Chosen = CHOSEN) -> list[tuple[int, int, float | None, Todo]]:
    seen: list[tuple[int, int, float | None, Todo]] = []
    go_on(directory, chosen, lambda *standing: seen.append(standing))
    return seen


def about(directory: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((directory / "about.json").read_text())
    return read


def statuses(directory: Path) -> dict[tuple[str, int], str]:
    return {
        (str(finished.cell["security"]), finished.repetition): finished.status for finished in load(directory)
    }


def test_a_suite_runs_by_repetition_and_says_once_what_it_skips(directory: Path, stand_in: StandIn) -> None:
    assert about(directory)["finished"] is False
    seen = run(directory)
    assert stand_in.ran == [("ring", 0), ("mpyc", 0), ("ring", 1), ("mpyc", 1)]
    assert statuses(directory)["spdz2k", 0] == SKIPPED and ("spdz2k", 1) not in statuses(directory)
    assert len(load(directory)) == 5
    assert [done for done, *_ in seen] == [0, 1, 2, 2, 3]
    assert {total for _, total, *_ in seen} == {4}
    assert about(directory)["finished"] is True and about(directory)["command"] == "./inv bench.run some"
    assert {path.name for path in directory.iterdir()} == {
        *("samples.jsonl", "about.json", "experiment.toml", "programs")
    }


@pytest.mark.parametrize("torn", [b"", b'{"schema": 1, "sui'])
def test_after_an_interrupt_the_rest_is_run(torn: bytes, directory: Path, stand_in: StandIn) -> None:
    def interrupted(model: str, repetition: int) -> Sample:
        if (model, repetition) == ("ring", 1):
            raise KeyboardInterrupt
        return sample(model, repetition)

    stand_in.does = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(directory)
    assert statuses(directory) == {("ring", 0): OK, ("mpyc", 0): OK, ("spdz2k", 0): SKIPPED}
    assert about(directory)["finished"] is False
    with (directory / "samples.jsonl").open("ab") as file:
        file.write(torn)
    stand_in.ran.clear()
    stand_in.does = sample
    run(directory)
    assert stand_in.ran == [("ring", 1), ("mpyc", 1)]
    assert len(load(directory)) == 5 and about(directory)["finished"] is True


def test_a_cell_that_fails_is_not_run_again_until_the_next_command(
    directory: Path, stand_in: StandIn
) -> None:
    stand_in.does = lambda model, number: sample(model, number, FAILED if model == "ring" else OK)
    run(directory)
    assert stand_in.ran == [("ring", 0), ("mpyc", 0), ("mpyc", 1)]
    assert [model for (model, _), status in statuses(directory).items() if status == FAILED] == ["ring"]
    assert about(directory)["finished"] is False
    stand_in.ran.clear()
    stand_in.does = sample
    run(directory)
    assert stand_in.ran == [("ring", 0), ("ring", 1)]
    assert FAILED not in statuses(directory).values()


@pytest.mark.parametrize(
    ("program", "version", "named"),
    [("other", "MP-SPDZ x", "program, circuits or compile options"), ("other", "MP-SPDZ y", "MP-SPDZ y now")],
)
def test_another_program_than_on_file_is_refused_before_it_runs(
    program: str, version: str, named: str, directory: Path, stand_in: StandIn
) -> None:
    run(directory)
    before = (directory / "samples.jsonl").read_bytes()
    stand_in.program, stand_in.version, stand_in.ran = program, version, []
    with pytest.raises(MixedResultsError, match=named) as raised:
        run(directory, Chosen(SUITE, repetitions=3))
    assert "--out" in str(raised.value)
    assert stand_in.ran == [] and (directory / "samples.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("of", "named"),
    [
        (lambda number: {"program": f"p{number}"}, "program"),
        (lambda number: {"hosts": ({"name": f"10.0.0.{number}"},)}, r"of hosts 10\.0\.0\.0, and this one of"),
    ],
)
def test_what_changes_meanwhile_is_refused(
    of: Callable[[int], dict[str, Any]], named: str, directory: Path, stand_in: StandIn
) -> None:
    """A program, or hosts, as somebody who goes on with another hosts.toml would mix them."""
    stand_in.does = lambda model, number: sample(model, number, **of(number))
    with pytest.raises(MixedResultsError, match=named):
        run(directory)
    assert statuses(directory) == {("ring", 0): OK, ("mpyc", 0): OK, ("spdz2k", 0): SKIPPED}


def test_only_one_command_measures_into_a_directory(directory: Path, stand_in: StandIn) -> None:
    def nested(model: str, repetition: int) -> Sample:
        with pytest.raises(OptionError, match="Another command"):
            run(directory)
        return sample(model, repetition)

    stand_in.does = nested
    run(directory)


def test_a_directory_holds_what_ran(directory: Path, stand_in: StandIn) -> None:
    """The experiment, and the texts of its programs by their hashes, are all it takes to run it again."""
    assert (directory / "experiment.toml").read_text() == TEXT
    assert runner.chosen_in(directory).suite.plan() == SUITE.plan()
    hashes = about(directory)["sha256"]
    assert (
        {"pi_lap.mpc", "noise.py", "coins.py"}
        <= set(hashes)
        == {path.name for path in (directory / "programs").iterdir()}
    )
    for name, digest in hashes.items():
        assert hashlib.sha256((directory / "programs" / name).read_bytes()).hexdigest() == digest
    assert (directory / "programs" / "pi_lap.mpc").read_text() == (PROGRAMS / "pi_lap.mpc").read_text()


def order(directory: Path, seed: int | None, stand_in: StandIn, **changes: Any) -> list[tuple[str, int]]:
    """Return in which order six models run three times each."""
    suite = replace(SUITE, grid=[Grid({**level("ring"), "security": list(MODELS)})], excluded=[], **changes)
    start(directory, Chosen(suite, seed=seed), TEXT)
    stand_in.ran = []
    run(directory, Chosen(suite, repetitions=3, seed=seed))
    return stand_in.ran


def test_the_order_is_random_by_a_seed_and_goes_through_all_cells_before_any_second_run(
    stand_in: StandIn, tmp_path: Path
) -> None:
    planned = order(tmp_path / "planned", None, stand_in)
    assert planned == [(model, number) for number in range(3) for model in MODELS]
    orders = [order(tmp_path / f"{i}", seed, stand_in) for i, seed in enumerate((7, 7, 8))]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(drawn) == sorted(planned) and drawn != planned for drawn in orders)
    assert [number for _, number in orders[0]] == [number for _, number in planned]
    assert orders[0][:6] != [(model, 0) for model, _ in orders[0][6:12]]  # each round in an order of its own


def test_the_first_run_of_each_program_in_a_command_is_a_warm_up(directory: Path, stand_in: StandIn) -> None:
    seconds = iter([9.0, 1.0, 9.0, 1.0, 1.0, 1.0])

    def warming(model: str, repetition: int) -> Sample:
        one = sample(model, repetition, program=f"of {model}")
        return replace(one, times={**one.times, "mpc_s": next(seconds)})

    stand_in.does, stand_in.identity = warming, lambda _: None  # type: ignore[method-assign, assignment]
    seen = run(directory, replace(CHOSEN, suite=replace(SUITE, warm_up=True)))
    assert [done for done, *_ in seen] == [0, 1, 2, 2, 3]  # a run is said once, not its warm-up too
    assert stand_in.ran == [("ring", 0), ("ring", 0), ("mpyc", 0), ("mpyc", 0), ("ring", 1), ("mpyc", 1)]
    assert [
        (measured.cell["security"], measured.times["mpc_s"])
        for measured in load(directory)
        if measured.warm_up
    ] == [
        *(("ring", 9.0), ("mpyc", 9.0)),
    ]
    for of in by_cell(load(directory)).values():
        assert (kept := summary(of)) is None or (kept.n, kept.high) == (2, 1.0)
    assert about(directory)["finished"] is True


def test_cells_run_until_their_times_are_close(directory: Path, stand_in: StandIn) -> None:
    def spread(model: str, repetition: int) -> Sample:
        one = sample(model, repetition)
        return replace(one, times={**one.times, "mpc_s": 1.0 if model == "ring" else 1.0 + repetition % 2})

    stand_in.does = spread
    suite = replace(SUITE, until=Until(width=0.1, most=11))
    run(directory, Chosen(suite))
    done = [model for model, _ in stand_in.ran]
    assert (done.count("ring"), done.count("mpyc")) == (6, 11)
    assert about(directory)["finished"] is True
    stand_in.ran = []
    run(directory, Chosen(suite))
    assert stand_in.ran == []
    assert (
        missing(suite.plan(repetitions=3, models=("ring",)), load(directory)) == []
    )  # given repetitions are all
