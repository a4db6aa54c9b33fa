"""Experiments as data: what they expand to, what is refused, and that each cell can be told and run."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks.literal import FORMS
from benchmarks.measure.cell import job_of
from benchmarks.papers import privfairfl
from benchmarks.suites import OURS, Grid, Planned, Suite, Until, read_experiment
from benchmarks.validation.side_by_side import BESIDE
from harness.errors import ExperimentError
from harness.security_models import MODELS

FILES = sorted(OURS.glob("*.toml"))
EVERY_FILE = pytest.mark.parametrize(
    "suite", [*map(read_experiment, FILES)], ids=[path.stem for path in FILES]
)
REAL = privfairfl().parties.keys()
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
    assert [each.cell["security"] for each in suite.plan(models=("mpyc", "semi2k"))] == [
        "mpyc",
        "mpyc",
        "semi2k",
    ]
    assert {each.repetitions for each in suite.plan(repetitions=5)} == {5}
    assert {each.timeout_s for each in suite.plan(timeout_s=8.0)} == {8.0}
    assert [each.cell for each in suite.plan(quick=True)] == [cell("mpyc", 1)]


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
        model, clients = MODELS[str(planned.cell["security"])], int(planned.cell.get("clients", 0))
        kind = (
            *(planned.cell.get(factor) for factor in ("protocol", "variant", "input_path", "noise")),
            clients > 999,
        )
        if kind not in tried and clients < 10**5:  # each kind once: its arguments, without running it
            tried.add(kind)
            assert len(job_of(planned.cell).party_inputs) == model.parties


def test_cells_are_run_until_their_interval_is_narrow_or_there_are_enough() -> None:
    until = Until(width=0.1, most=9)
    assert not until.enough([1.0] * 5)  # 6 values are the least that 95 % takes: 1 - 2 / 2^6
    assert until.enough([1.0] * 6)
    assert not until.enough([1.0] * 5 + [1.2]) and until.enough([1.0] * 8 + [2.0])
    assert not until.enough([1.0, 2.0] * 4) and until.enough([1.0, 2.0] * 4 + [1.0])


def test_table_2_has_the_papers_federations_and_models() -> None:
    cells = [
        planned.cell for planned in read_experiment(OURS / "table2.toml").plan() if planned.excluded is None
    ]
    sizes_of = {name: (shape.clients, shape.records) for name, shape in privfairfl().shapes.items()}
    for shape, sizes in sizes_of.items():
        of_shape = [cell for cell in cells if cell["shape"] == shape]
        assert {(cell["clients"], cell["records"]) for cell in of_shape} == {sizes}
        for variant in ("default", "product"):
            models = {cell["security"] for cell in of_shape if cell["variant"] == variant}
            assert models == {*REAL, *BESIDE, "mpyc"}
    assert sizes_of == {"ads": (109, 26_160), "ml-1m": (75, 7_945)}
    assert round(26_160 / 3.29249) == 7_945


def test_linearity_in_thresholds_can_be_seen() -> None:
    literal = [
        cell.cell
        for cell in read_experiment(OURS / "literal.toml").plan()
        if cell.cell["protocol"] == "pi_roc" and cell.cell["variant"] in FORMS
    ]
    for form, model in product(FORMS, REAL):
        found = {
            int(cell["thresholds"])
            for cell in literal
            if (cell["variant"], cell["security"], cell["shape"]) == (form, model, "ml-1m")
        }
        assert len(found) >= 3 and max(found) >= 4 * min(found), (form, model)
