"""Experiments as data: what they expand to, what is refused, and that each cell can be told and run."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.errors import ExperimentError
from benchmarks.measure.cell import job_of, model_of
from benchmarks.suites import OURS, Grid, Planned, Suite, read_experiment

FILES = sorted(OURS.glob("*.toml"))
EVERY_FILE = pytest.mark.parametrize(
    "suite", [*map(read_experiment, FILES)], ids=[path.stem for path in FILES]
)
NOISE = """
name = "some"
title = "Something"

[factors]
protocol = "pi_lap"
variant = "default"
network = "none"
epsilon = "1"

[[grid]]
[grid.factors]
security = ["ring", "mpyc"]
both = [{ samples = 1 }, { samples = 2, epsilon = "2" }]

[[grid]]
repetitions = 1
timeout_s = 7
[grid.factors]
security = "semi2k"
samples = 1

[[excluded]]
where = { security = "mpyc", samples = [2, 3] }
reason = "It takes too long."

[[quick]]
[quick.factors]
security = "mpyc"
samples = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.toml"
    path.write_text(NOISE)
    return path


def cell(model: str, samples: int, epsilon: str = "1") -> dict[str, Any]:
    fixed = {"protocol": "pi_lap", "variant": "default", "network": "none"}
    return {**fixed, "epsilon": epsilon, "security": model, "samples": samples}


def test_a_file_expands_to_all_combinations_of_levels_that_may_go_together(file: Path) -> None:
    assert read_experiment(file).plan() == [
        Planned(cell("ring", 1), 3, 120.0),
        Planned(cell("ring", 2, "2"), 3, 120.0),
        Planned(cell("mpyc", 1), 3, 120.0),
        Planned(cell("mpyc", 2, "2"), 3, 120.0, "It takes too long."),
        Planned(cell("semi2k", 1), 1, 7.0),
    ]


def test_a_plan_can_be_of_some_models_with_other_repetitions_or_quick(file: Path) -> None:
    suite = read_experiment(file)
    assert [planned.cell["security"] for planned in suite.plan(models=("mpyc", "semi2k"))] == [
        "mpyc",
        "mpyc",
        "semi2k",
    ]
    assert {planned.repetitions for planned in suite.plan(repetitions=5)} == {5}
    assert {planned.timeout_s for planned in suite.plan(timeout_s=8.0)} == {8.0}
    assert [planned.cell for planned in suite.plan(quick=True)] == [cell("mpyc", 1)]


@pytest.mark.usefixtures("in_shell")
@pytest.mark.parametrize(
    ("text", "instead", "said"),
    [
        (
            '"ring", "mpyc"',
            '"rign", "mpyc"',
            r"\[\[grid\]\] 1 has an unknown security 'rign' \(did you mean ring",
        ),
        (
            "samples = 1\n\n[[ex",
            "smaples = 1\n\n[[ex",
            r"2 has an unknown factor 'smaples' \(did you mean samples",
        ),
        ('variant = "default"', 'variant = "defualt"', r"unknown variant 'defualt' \(did you mean default"),
        ("repetitions = 1", "repetition = 1", r"unknown key 'repetition' \(did you mean repetitions"),
        ("repetitions = 1", "repetitions = 0", r"expected `int` >= 1 at `grid\[1\]\.repetitions`"),
        ("timeout_s = 7", "timeout_s = 0", r"expected `float` > 0\.0 at `grid\[1\]\.timeout_s`"),
        ('epsilon = "1"', "epsilon = 1", r"epsilon must be a text in quotes, got 1"),
        ('epsilon = "1"', 'epsilon = "x"', r"1: epsilon: --epsilon must be a number above 0"),
        ('network = "none"', 'network = "wam"', r"network: --network must be lan"),
        ("samples = 1 }", "samples = 1.5 }", r"samples must be a whole number from 1 to 10,000,000, got 1.5"),
        ("samples = 1 }", "samples = true }", r"expected"),
        ("samples = 1 }", "samples = 0 }", r"samples must be a whole number from 1 to 10,000,000, got 0"),
        ("samples = 1\n\n[[ex", "samples = []\n\n[[ex", r"Factor samples has no level"),
        ("samples = 1 }", 'program = "../x.mpc" }', r"program is a file beside the experiment"),
        ("samples = 1 }", 'arguments = "it\'s" }', r"arguments: No closing quotation"),
        ('"pi_lap"', '"pi_lop"', r"unknown protocol 'pi_lop' \(did you mean pi_lap"),
        ('"pi_lap"', '"pi_rw"', r"has a cell without input_path, clients, records, groups, labels"),
        (
            "samples = 1 }",
            'input_path = "replicatde" }',
            r"input_path 'replicatde' \(did you mean replicated",
        ),
        ('name = "some"', 'name = "../some"', r"name must be a word of small letters"),
        ("samples = 1 }", 'noise = "distributed" }', r"pi_lap has no place for distributed noise"),
        ("samples = 1 }", 'noise = "distribted" }', r"unknown noise 'distribted' \(did you mean distributed"),
        ('title = "Something"\n', "", r"missing required field `title`"),
        ('{ security = "mpyc"', '{ securty = "mpyc"', r"\[\[excluded\]\] 1 has an unknown factor 'securty'"),
        ("samples = [2, 3] }", "samples = 3 }", r"\[\[excluded\]\] 1 covers no cell; leave it out"),
        (
            "[[quick]]",
            "[until]\nwidth = 0\nmost = 9\n[[quick]]",
            r"expected `float` > 0\.0 at `until\.width`",
        ),
        ("[[quick]]", "[[quick", r"it is not TOML"),
    ],
)
def test_what_makes_no_sense_is_said_with_its_file_and_place(
    text: str, instead: str, said: str, file: Path
) -> None:
    assert text in NOISE
    file.write_text(NOISE.replace(text, instead, 1))
    with pytest.raises(ExperimentError, match=said) as raised:
        read_experiment(file)
    assert str(raised.value).startswith(str(file)) and str(raised.value).count("\n") == 0


def test_no_cell_is_in_two_grids() -> None:
    grid = Grid({**cell("ring", 1)})
    with pytest.raises(ExperimentError, match=r"\[\[grid\]\] 2 has a cell that is there already"):
        Suite("some", "Something", [grid, grid])


@EVERY_FILE
@pytest.mark.parametrize("quick", [False, True])
def test_cells_can_be_run(suite: Suite, quick: bool) -> None:
    tried = set()
    for planned in suite.plan(quick=quick):
        model = model_of(planned.cell)
        clients = int(planned.cell.get("clients", 0))
        kind = (
            *(planned.cell.get(factor) for factor in ("protocol", "variant", "input_path", "noise")),
            clients > 999,
        )
        if kind not in tried and clients < 10**5:  # each kind once: its arguments, without running it
            tried.add(kind)
            job_of(planned.cell).check_parties(model)
