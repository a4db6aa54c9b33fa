"""Shows people gaps between groups."""

from __future__ import annotations

import math

from rich.table import Table

from harness.cli.terminal import out, plain, say
from harness.pipeline.run import Run
from harness.releases.gaps import CONFIDENCE, USEFUL, Gaps, Interval
from harness.views.weights import WEIGHT_STEPS, statement
from protocols.accounting.rounding import interval_shown

STEPS = {
    **WEIGHT_STEPS,
    "share": "clients: split values into shares",
    "run": "parties: run π_GAP",
    "read": "derive gaps from the noisy sums",
}


def gaps(run: Run[Gaps]) -> None:
    """Print a finished run's means and gaps, its privacy statement and its cost."""
    found = run.found
    groups = found.domain.groups
    table = Table("group", "noisy size")
    for heading in ("mean", f"{float(CONFIDENCE):.0%} interval"):
        table.add_column(heading, justify="right")
    for s, (group, mean) in enumerate(zip(groups, found.means, strict=True)):
        table.add_row(plain(group), f"{found.sizes[s]:,.1f}", *_cells(mean))
    out.print(table)
    table = Table("gap")
    for heading in ("mean - mean", f"{float(CONFIDENCE):.0%} interval"):
        table.add_column(heading, justify="right")
    for (a, b), gap in found.gaps.items():
        table.add_row(f"{plain(groups[a])} - {plain(groups[b])}", *_cells(gap))
    out.print(table)
    say(
        "Each interval holds the mean, or the gap, of these clients with at least that probability, over the "
        "noise."
    )
    for group, size, near in zip(groups, found.sizes, found.near_zero, strict=True):
        if near:
            say(
                f"Group {plain(group)} has {size:,.1f} clients by its noisy size, which the noise hides: "
                "nothing can be said of its mean."
            )
    if not all(gap.says_something for gap in found.gaps.values()):
        say("A gap whose interval is all that the range allows says nothing.")
    if any(near for near in found.near_zero) or not all(gap.says_something for gap in found.gaps.values()):
        say(
            f"At this ε, {found.useful:,} clients in each of two groups put their gap within "
            f"{USEFUL:.0%} of the range; more clients or a larger ε help."
        )
    statement(run.manifest, "gaps")


def _cells(found: Interval) -> tuple[str, str]:
    estimate = "none" if math.isnan(found.estimate) else f"{found.estimate:,.4f}"
    return estimate, interval_shown(found.low, found.high, 4)
