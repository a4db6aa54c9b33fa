"""A program that another one may replace declares its sums; any other is refused at declaration."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from harness.engines.parties.inputs import with_noise
from harness.inputs.rings import RING
from protocols.accounting.calibration import LinearQueries, each_cell_once
from protocols.spec import (
    NO_INPUT,
    PI_COUNT,
    PI_GAP,
    PI_ROC,
    PI_RW,
    PROTOCOLS,
    SCORED_SPLIT,
    SLOTS,
    SPLIT,
    BlocksOfBins,
    ColumnSums,
    EachColumn,
    ProtocolSpec,
    with_distributed_noise,
    with_noise_made_ahead,
)
from tests.support.rings import to_integers


def cumulative(arguments: Mapping[str, str]) -> LinearQueries:
    """Return how many records of each group are at most at each bin: as many values as columns."""
    groups, bins = int(arguments["groups"]), int(arguments["bins"])
    columns = (tuple(range(g * bins + b, (g + 1) * bins)) for g in range(groups) for b in range(bins))
    return LinearQueries(groups * bins, tuple(columns))


def downwards(arguments: Mapping[str, str]) -> LinearQueries:
    """Return one value per bin, of which the program counts the highest bin first."""
    return each_cell_once(int(arguments["groups"]) * int(arguments["bins"]))


def median(release, *, linear: bool = True, form=SCORED_SPLIT) -> ProtocolSpec:
    """Declare π_MEDIAN as a newcomer would: the noisy values are as many as the columns."""
    return ProtocolSpec(
        name="pi_median",
        source="a newcomer's",
        arguments=("parties", "groups", "bins", "epsilon", "delta_bits"),
        input_forms={form.name: form},
        outputs=("counts",),
        revealed=("noisy counts of values at most at each bin, to all parties",),
        release=release,
        linear=linear,
        distributed_noise=True,
    )


@pytest.mark.parametrize("release", [cumulative, downwards, None])
def test_a_program_that_pi_sum_would_replace_by_another_circuit_is_refused(release) -> None:
    with pytest.raises(ValueError, match=r"pi_median says distributed_noise=True, but pi_sum.*ColumnSums"):
        median(release)


def test_a_program_that_is_not_linear_is_refused_whatever_it_releases() -> None:
    release = EachColumn(lambda arguments: int(arguments["groups"]) * int(arguments["bins"]))
    median(release)
    with pytest.raises(ValueError, match="of a linear program"):
        median(release, linear=False)


def test_a_copy_of_a_spec_is_checked_like_a_new_one() -> None:
    with pytest.raises(ValueError, match="pi_roc says distributed_noise=True"):
        replace(PI_ROC, release=cumulative)
    with pytest.raises(ValueError, match="pi_count says distributed_noise=True"):
        replace(PI_COUNT, distributed_noise=True)


@pytest.mark.parametrize("form", [SLOTS, NO_INPUT])
def test_a_program_that_runs_as_it_is_written_may_compute_anything(form) -> None:
    """Where parties do not add up columns, its own text runs with other noise."""
    spec = median(cumulative, form=form)
    for program in (with_distributed_noise(spec, form), with_noise_made_ahead(spec, form)):
        assert program is not None and program.name == "pi_median"


def test_every_program_that_is_replaced_declares_sums_of_columns() -> None:
    replaced = [
        (name, program)
        for name, spec in PROTOCOLS.items()
        for form in spec.input_forms.values()
        for program in (with_distributed_noise(spec, form), with_noise_made_ahead(spec, form))
        if program and program.name != name
    ]
    assert {name for name, _ in replaced} == {"pi_rw", "pi_cf", "pi_roc", "pi_gap"}
    assert all(isinstance(program.release, ColumnSums) for _, program in replaced)


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        (PI_RW, {"groups": "2", "labels": "3"}),
        (PI_ROC, {"groups": "2", "labels": "2", "bins": "7", "blocks": "1.3"}),
        (PI_GAP, {"groups": "3", "steps": "5"}),
    ],
)
def test_what_parties_add_up_is_what_a_record_changes(spec: ProtocolSpec, arguments: dict[str, str]) -> None:
    """One record in each cell, through a party's sums, moves the values that the queries name."""
    assert isinstance(spec.release, ColumnSums)
    queries, (bins, sizes) = spec.release(arguments), spec.release.blocks(arguments)
    for cell in range(queries.cells):
        amount = max(queries.record(cell).values())
        column = np.zeros(queries.cells, dtype=np.int64)
        column[cell] = amount
        told = {
            "domain": RING.name,
            "values": queries.cells,
            "blocks": (queries.cells // bins, bins, sizes),
        }
        shares = RING.to_bytes(RING.encode(column))
        summed = with_noise(told, shares, np.zeros(queries.nodes, dtype=np.int64))
        expected = [queries.record(cell).get(node, 0) for node in range(queries.nodes)]
        assert to_integers(RING, RING.from_bytes(summed)) == expected


def test_a_declaration_gives_the_sums_that_a_partys_process_is_told() -> None:
    assert BlocksOfBins().blocks({"bins": "101", "blocks": "1.5.25"}) == (101, "1.5.25")
    assert EachColumn(len).blocks({"bins": "101", "blocks": "1.5.25"}) == (1, "1")
    assert PI_RW.input_forms[SPLIT.name].summed_by_party
