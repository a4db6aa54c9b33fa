"""Shows people counts with a relative error."""

from __future__ import annotations

from fractions import Fraction

from harness.cli.terminal import out, plain, say
from harness.pipeline.run import Run
from harness.releases.counts import CONFIDENCE, GroupCounts
from harness.views.weights import WEIGHT_STEPS, statement, table_of
from protocols.accounting.rounding import digits_up, interval_shown

STEPS = {
    **WEIGHT_STEPS,
    "run": "parties: run π_COUNT",
    "read": "derive counts from the noisy logarithms",
}


def counts(run: Run[GroupCounts]) -> None:
    """Print a finished run's counts, whom they protect how well, its privacy statement and its cost."""
    found = run.found
    table = table_of("group", "label")
    for heading in ("estimated count", f"{float(CONFIDENCE):.0%} interval"):
        table.add_column(heading, justify="right")
    for s, group in enumerate(found.domain.groups):
        for y, label in enumerate(found.domain.labels):
            low, high = found.intervals[s, y]
            estimate = f"{found.estimates[s, y]:,.0f}"
            table.add_row(plain(group), plain(label), estimate, interval_shown(low, high, 0))
    out.print(table)
    target = found.target
    most = digits_up(Fraction(str(target.relative)), 2)
    say(
        f"A count from {target.least:,} to {target.most:,} errs by {most} of it on average, at "
        "most; smaller ones by more. Intervals hold all counts with at least that probability."
    )
    table = table_of()
    for heading in ("records in a cell", "ε of one of them", "δ"):
        table.add_column(heading, justify="right")
    for each in found.privacy_by_size():
        epsilon, delta = digits_up(Fraction(each["epsilon"]), 3), digits_up(Fraction(each["delta"]), 2)
        table.add_row(f"{each['records']:,.0f}", epsilon, delta)
    out.print(table)
    say(
        "The more records are in a cell, the less one of them gives away, added or removed. How large a cell "
        "is stays secret, so the run is charged for the smallest; of the ε requested, no more is spent than "
        "the error takes. A client that shares other counts than it has can take from others in a cell what "
        "protects them better than records of the smallest."
    )
    statement(run.manifest, "counts")
