"""Suites as data: what they expand to, and that each cell can be told, run, or is left out for a reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.measure.cell import job_of
from benchmarks.measure.samples import Level
from benchmarks.suites import REAL, SHAPES, SUITES, TABLE2, Exclusion, Grid, Planned, Suite, axis
from harness.inputs.record_schema import RecordKind
from harness.inputs.synthetic import Federation
from harness.security_models import MODELS

FACTORS = {
    *("protocol", "variant", "input_path", "model", "shape", "clients", "records", "groups", "labels"),
    *("thresholds", "samples", "epsilon", "network", "cap"),
}
EVERY_SUITE = pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))


def suite_of(*grids: Grid) -> Suite:
    return Suite("some", "Something", grids, grids[:1])


def test_grids_expand_to_all_combinations_of_levels_that_may_go_together() -> None:
    together: Sequence[dict[str, Level]] = [{"shape": "one", "clients": 1}, {"shape": "two", "clients": 2}]
    rare = Exclusion({"model": ("mpyc",), "clients": (2, 3)}, "It takes too long.")
    grid = Grid([axis("model", "ring", "mpyc"), together], 3, 60.0, [rare])
    assert suite_of(grid).plan() == [
        Planned({"model": "ring", "shape": "one", "clients": 1}, 3, 60.0),
        Planned({"model": "ring", "shape": "two", "clients": 2}, 3, 60.0),
        Planned({"model": "mpyc", "shape": "one", "clients": 1}, 3, 60.0),
        Planned({"model": "mpyc", "shape": "two", "clients": 2}, 3, 60.0, "It takes too long."),
    ]


def test_a_plan_can_be_of_some_models_with_other_repetitions_or_quick() -> None:
    suite = suite_of(Grid([axis("model", "ring", "mpyc")], 3), Grid([axis("model", "semi2k")], 1))
    assert [planned.cell["model"] for planned in suite.plan(models=("mpyc", "semi2k"))] == ["mpyc", "semi2k"]
    assert [planned.repetitions for planned in suite.plan()] == [3, 3, 1]
    assert [planned.repetitions for planned in suite.plan(repetitions=5)] == [5, 5, 5]
    assert {planned.timeout_s for planned in suite.plan(timeout_s=7.0)} == {7.0}
    assert [planned.cell["model"] for planned in suite.plan(quick=True)] == ["ring", "mpyc"]


def test_no_cell_is_in_two_grids() -> None:
    grid = Grid([axis("model", "ring")], 3)
    with pytest.raises(ValueError, match="twice"):
        suite_of(grid, grid).plan()


@EVERY_SUITE
@pytest.mark.parametrize("quick", [False, True])
def test_cells_have_known_factors_and_can_be_run(suite: Suite, quick: bool) -> None:
    plan = suite.plan(quick=quick)
    assert plan and {name for planned in plan for name in planned.cell} <= FACTORS
    tried = set()
    for planned in plan:
        model, clients = MODELS[str(planned.cell["model"])], int(planned.cell.get("clients", 0))
        kind = (
            planned.cell["protocol"],
            planned.cell["variant"],
            planned.cell.get("input_path"),
            clients > 999,
        )
        if kind not in tried and clients < 10**5:  # each kind once: its arguments, without running it
            tried.add(kind)
            assert len(job_of(planned.cell).party_inputs) == model.parties


@EVERY_SUITE
def test_quick_suites_need_nothing_but_the_embedded_engine(suite: Suite) -> None:
    assert "mpyc" in {planned.cell["model"] for planned in suite.plan(quick=True)}


@EVERY_SUITE
def test_what_is_excluded_says_why(suite: Suite) -> None:
    reasons = {planned.excluded for planned in suite.plan()} - {None}
    assert all(reason and reason.endswith(".") and len(reason) > 20 for reason in reasons)


def test_table_2_has_the_papers_federations_and_models() -> None:
    cells = [planned.cell for planned in TABLE2.plan() if planned.excluded is None]
    for shape, sizes in SHAPES.items():
        of_shape = [cell for cell in cells if cell["shape"] == shape]
        assert {(cell["clients"], cell["records"]) for cell in of_shape} == {sizes}
        for variant in ("default", "product"):
            models = {cell["model"] for cell in of_shape if cell["variant"] == variant}
            assert models == {*REAL, "mpyc"}
    assert SHAPES == {"ads": (109, 26_160), "ml-1m": (75, 7_945)}
    assert round(26_160 / 3.29249) == 7_945


def test_linearity_in_thresholds_can_be_seen() -> None:
    published = [cell for cell in TABLE2.plan() if cell.cell["variant"] == "published" and not cell.excluded]
    for model in REAL:  # active ones refuse it: it multiplies clients' values
        found = {int(planned.cell["thresholds"]) for planned in published if planned.cell["model"] == model}
        assert len(found) >= 3 and max(found) >= 4 * min(found)


def test_records_are_spread_evenly() -> None:
    made = Federation(3, 8, 2, 2).made_up()
    assert np.bincount(made.client).tolist() == [3, 3, 2]
    assert made.domain.max_count == 3
    assert Federation(5, 3, 2, 2).made_up().clients == 5  # two of them without a record


@pytest.mark.parametrize("detail", list(RecordKind))
def test_federations_fit_every_input_form_and_are_the_same_each_time(detail: RecordKind) -> None:
    thresholds = 11 if detail is RecordKind.SCORE else 0
    federation = Federation(20, 200, 3, 2, detail, thresholds)
    one, same = federation.made_up(), federation.made_up()
    assert np.array_equal(one.group, same.group) and np.array_equal(one.cell, same.cell)
    assert one.group_per_client().shape == (20,)  # each client is of one group
    assert one.domain == federation.domain and one.domain.kind is detail
    assert set(one.group.tolist()) == {0, 1, 2}


def test_every_group_label_and_bin_occurs() -> None:
    made = Federation(100, 10_000, 2, 2, RecordKind.SCORE, 21).made_up()
    assert made.detail is not None
    assert set(made.label.tolist()) == {0, 1} and set(made.detail.tolist()) == set(range(21))
