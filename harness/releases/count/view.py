"""Counts with a relative error."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.releases.base import by_cell
from fairshares.harness.releases.count.statistic import ExpectedCounts, GroupCounts
from fairshares.harness.views import run_summary
from fairshares.harness.views.expected_errors import MOST_ROWS, PlanSection, drawn, share_shown
from fairshares.harness.views.parts import Findings, Part, Table, from_least_to_most
from fairshares.harness.views.rendering.plots import intervals, with_ends
from fairshares.protocols.accounting.rounding import digits_up, interval_shown

STEPS = {
    **run_summary.STEPS,
    "run": "parties: run π_COUNT",
    "read": "derive counts from the noisy logarithms",
}


def counts(estimated: GroupCounts) -> Iterator[Part]:
    """Show counts, errors, and privacy by size."""
    estimates = by_cell(estimated.domain, estimated.estimates)
    yield from_least_to_most("Counts go from", estimates, 0)
    yield intervals(
        "counts",
        list(estimates),
        {"": np.maximum(with_ends(estimated.estimates, estimated.intervals), 1)},
        "estimated count",
        "Counts, with intervals for the noise; what is below 1 is drawn there.",
        logarithmic=True,
    )
    target = estimated.target
    most = digits_up(Fraction(str(target.relative)), 2)
    yield Findings(
        [f"A count from {target.least:,} to {target.most:,} errs by {most} of it on average, at most."]
    )
    rows = []
    for s, group in enumerate(estimated.domain.groups):
        for y, label in enumerate(estimated.domain.labels):
            low, high = estimated.intervals[s, y]
            estimate = f"{estimated.estimates[s, y]:,.0f}"
            rows.append([group, label, estimate, interval_shown(low, high, 0)])
    yield Table(
        ["group", "label", "estimated count", f"{float(CONFIDENCE):.0%} interval"],
        rows,
        "llrr",
        caption=f"A count from {target.least:,} to {target.most:,} errs by {most} of it on average, at "
        "most; smaller ones by more. Intervals hold all counts with at least that probability.",
    )
    yield Table(
        ["records in a cell", "ε of one of them", "δ"],
        [
            [f"{cell.records:,}", *guarantee(Fraction(cell.epsilon), Fraction(cell.delta))]
            for cell in estimated.privacy_by_size
        ],
        "rrr",
        caption="The more records a cell has, the smaller the ε of each, added or removed. Cell sizes stay "
        "secret, so the run is charged the ε of the smallest cell, and no more of the requested ε "
        "than the error takes. A replaced record has the sum of two ε: its own cell's, and that of the cell "
        "that it might have been in. A client that shares negative numbers can reduce the protection of "
        "others in a cell to that of the smallest cell.",
    )


def expected(section: PlanSection) -> Iterator[Part]:
    """Show the expected errors of counts, and the guarantee of a record in each cell."""
    expectation = section.release.found
    assert isinstance(expectation, ExpectedCounts)
    errors = {name: cell.error for name, cell in expectation.each.items()}
    yield from drawn(section, "relative error of the count (mean)", errors)
    target = expectation.target
    yield (
        f"A count from {target.least:,} to {target.most:,} has a mean relative error of at most "
        f"{share_shown(target.relative)}; the more records a cell has, the smaller the ε of each."
    )
    rows = []
    for name, cell in list(expectation.each.items())[:MOST_ROWS]:
        epsilon, delta = guarantee(cell.guarantee.epsilon, cell.guarantee.delta)
        rows.append([name, f"{cell.records:,.0f}", share_shown(cell.error), epsilon, delta])
    if len(expectation.each) > MOST_ROWS:
        rows.append([f"… {len(expectation.each) - MOST_ROWS} more", "", "", "", ""])
    yield Table(["group, label", "records", "error, relative (mean)", "ε of one of them", "δ"], rows)


def guarantee(epsilon: Fraction, delta: Fraction) -> tuple[str, str]:
    """Return a record's ε and δ as texts."""
    return digits_up(epsilon, 3), digits_up(delta, 2)


VIEW = run_summary.ReleaseView(STEPS, "counts", lambda estimated, _: counts(estimated), expected=expected)
