"""What supposed reasons leave of ratios to Table 2: pairs of cells that differ in one reason alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.measure.samples import Sample
from benchmarks.validation import texts
from benchmarks.validation.cells import Measured
from benchmarks.validation.differences import Reason, Supposed, explained, supposed
from benchmarks.validation.side_by_side import table2_rows
from tests.support import synthetic as made_up

OURS = "-R 64 -Y"
WEIGHTS = "made-up one-by-one {parties} 109 26160 1"
OF_ML_1M = "made-up one-by-one {parties} 75 7945 1"
THRESHOLD = "made-up one-by-one {parties} 2000 1 1"


def own(program: str, arguments: str, options: str, *seconds: float, model: str = "semi2k") -> list[Sample]:
    """Return the runs of a literal program with options of the compiler."""
    cell = {"program": f"{program}.mpc", "arguments": arguments, "compile_options": options}
    runs = []
    for number, taken in enumerate(seconds):
        run = made_up.run("differences", {**cell, "security": model}, number, seconds=1.0, sent=1, parties=2)
        runs.append(replace(run, times={**run.times, "mpc_s": taken}))
    return runs


def with_more(*more: Sample, change: made_up.Change = lambda sample: sample) -> Measured:
    """Return results whose printed protocols take as long as in the paper, and more runs."""
    printed = made_up.spoilt(change, variant="literal", security="semi2k")
    by_ours = [replace(sample, compile_options=tuple(OURS.split())) for sample in printed]
    return Measured.from_samples([*by_ours, *more])


def left(protocol: str, *more: Sample, shape: str = "ads") -> dict[Reason, Supposed]:
    """Return what is left of a time in semi2k."""
    measured = with_more(*more)
    (row,) = (
        row
        for row in table2_rows(measured)
        if (row.protocol, row.shape, row.model) == (protocol, shape, "semi2k")
    )
    return supposed(measured, row)


def test_a_reason_leaves_the_ratio_times_its_factor() -> None:
    """Of the row's own federation, in one experiment: the median of pairs."""
    runs = [
        *own("pi_rw_literal", WEIGHTS, OURS, 3.0, 1.0, 1.0),
        *own("pi_rw_literal", WEIGHTS, "-R 64", 6.0, 4.0, 1.5),
        *own("pi_rw_literal", OF_ML_1M, OURS, 1.0),
        *own("pi_rw_literal", OF_ML_1M, "-R 64", 7.0),
    ]
    for shape, factor in (("ads", 2.0), ("ml-1m", 7.0)):
        found = left("pi_rw", *runs, shape=shape)
        assert found.keys() == {Reason.DEFAULTS, Reason.SIDE_BY_SIDE}
        assert found[Reason.DEFAULTS].factor == factor
        assert found[Reason.DEFAULTS].left.median == pytest.approx(factor, rel=0.02)
        assert found[Reason.DEFAULTS].holds == (factor < 3) and not found[Reason.DEFAULTS].is_shown
        assert found[Reason.SIDE_BY_SIDE].left.median == pytest.approx(0.01, rel=0.02)
    assert not left("pi_rw")[Reason.SIDE_BY_SIDE].holds


def test_our_own_options_are_no_reason() -> None:
    assert left("pi_roc", *own("pi_roc_literal", THRESHOLD, OURS, 3.0)) == {}


def test_loops_differ_in_the_program_alone() -> None:
    unrolled = own("pi_roc_unrolled", "made-up {parties} 2000 1 1", OURS, 1.0)
    assert left("pi_roc", *unrolled) == {}
    found = left("pi_roc", *unrolled, *own("pi_roc_literal", THRESHOLD, OURS, 4.0))
    assert found.keys() == {Reason.SIDE_BY_SIDE} and found[Reason.SIDE_BY_SIDE].factor == 0.25


def test_the_printed_protocol_of_the_same_experiment_comes_first() -> None:
    """It has the batches of our runs, and a program of one's own has those of the machine."""
    by_defaults = own("pi_roc_literal", THRESHOLD, "-R 64", 6.0)
    cell: dict[str, Any] = {"protocol": "pi_roc", "variant": "literal", "security": "semi2k"}
    cell |= {"shape": "ml-1m", "clients": 75, "records": 7945, "thresholds": 1}
    printed = made_up.run("differences", cell, 0, seconds=2.0, sent=1, parties=2)
    found = left("pi_roc", *own("pi_roc_literal", THRESHOLD, OURS, 3.0), *by_defaults, printed)
    assert found[Reason.DEFAULTS].factor == 3.0


SLOWER = (2.2, 2.0, 2.1, 2.3, 1.9, 2.0)  # times by a reason that takes twice as long, in six pairs


@pytest.mark.parametrize(
    ("seconds", "explains"),
    [
        (SLOWER, True),
        (SLOWER[:5], False),  # too few pairs for an interval
        ((2.2, 2.0, 0.9, 2.3, 0.8, 2.0), False),  # its interval has 1
        ([7 * taken for taken in SLOWER], False),  # it leaves too much
        ([0.1 * taken for taken in SLOWER], False),  # the wrong way
    ],
)
def test_a_reason_explains_a_time_that_holds_by_it(seconds: Sequence[float], explains: bool) -> None:
    """If pairs of runs show that it makes a difference."""
    runs = own("pi_rw_literal", WEIGHTS, OURS, *[1.0] * len(seconds))
    runs += own("pi_rw_literal", WEIGHTS, "-R 64", *seconds)
    measured = with_more(*runs, change=made_up.slower(0.3))
    rows = explained(measured, table2_rows(measured))
    expected = [("pi_rw", "ads", "semi2k")] if explains else []
    assert [(row.protocol, row.shape, row.model) for row in rows] == expected
    shown = texts.left_by(supposed(measured, rows[0])[Reason.DEFAULTS]) if rows else "×0.6"
    assert shown.startswith("**×0.6") == explains


def test_a_reason_by_which_another_time_fails_explains_none() -> None:
    runs = own("pi_rw_literal", WEIGHTS, OURS, *[1.0] * len(SLOWER))
    runs += own("pi_rw_literal", WEIGHTS, "-R 64", *SLOWER)
    for factor, expected in ((1.0, 1), (4.0, 0)):
        others = own("pi_rw_literal", WEIGHTS, OURS, 1.0, model="ring")
        others += own("pi_rw_literal", WEIGHTS, "-R 64", factor, model="ring")
        measured = with_more(*runs, *others, change=made_up.slower(0.3))
        assert len(explained(measured, table2_rows(measured))) == expected
    assert texts.left_by(None) == "–"
