"""Means of groups, and their gaps."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.releases.gap.statistic import USEFUL, Gaps, Interval
from fairshares.harness.views import run_summary
from fairshares.harness.views.parts import Findings, Part, Table, from_least_to_most
from fairshares.harness.views.rendering.plots import intervals
from fairshares.protocols.accounting.rounding import interval_shown
from fairshares.protocols.arrays import Floats

STEPS = {
    **run_summary.STEPS,
    "share": "clients: split values into shares",
    "run": "parties: run π_GAP",
    "read": "derive gaps from the noisy sums",
}


def gaps(estimated: Gaps) -> Iterator[Part]:
    """Show means, gaps and their significance."""
    groups = estimated.domain.groups
    interval = f"{float(CONFIDENCE):.0%} interval"
    pairs = {f"{groups[a]} - {groups[b]}": gap for (a, b), gap in estimated.gaps.items()}
    yield from_least_to_most("Gaps go from", {name: gap.estimate for name, gap in pairs.items()}, 4)
    certain = sum(not gap.low <= 0 <= gap.high for gap in pairs.values())
    yield Findings([f"For {certain} of {len(pairs)} the interval excludes 0."])
    yield intervals(
        "gaps",
        list(pairs),
        {"": _drawn(pairs.values())},
        "gap: mean - mean",
        "Gaps between groups, with intervals for the noise; at the dotted line there is none.",
        at=0.0,
    )
    yield intervals(
        "means",
        groups,
        {"": _drawn(estimated.means)},
        "mean",
        "Means of groups, with intervals for the noise.",
    )
    means = []
    for group, size, mean in zip(groups, estimated.sizes, estimated.means, strict=True):
        means.append([group, f"{size:,.1f}", _estimate_shown(mean), _ends_shown(mean)])
    yield Table(["group", "noisy size", "mean", interval], means)
    yield Table(
        ["gap", "mean - mean", interval],
        [[name, _estimate_shown(gap), _ends_shown(gap)] for name, gap in pairs.items()],
        caption="Each interval holds the mean, or the gap, of these clients with at least that probability, "
        "over the noise.",
    )
    for group, size, near in zip(groups, estimated.sizes, estimated.near_zero, strict=True):
        if near:
            yield (
                f"Group {group} has {size:,.1f} clients by its noisy size, too few to tell from noise: "
                "nothing can be said of its mean."
            )
    empty = not all(gap.says_something for gap in estimated.gaps.values())
    if empty:
        yield "A gap whose interval is as wide as the range allows says nothing."
    if empty or any(estimated.near_zero):
        yield (
            f"At this ε, two groups need {estimated.useful:,} clients each for a gap within {USEFUL:.0%} of "
            "the range; more clients or a larger ε help."
        )


def _drawn(intervals: Iterable[Interval]) -> Floats:
    """Return the estimates and the ends of intervals, a row for each."""
    return np.array([[interval.estimate, interval.low, interval.high] for interval in intervals])


def _estimate_shown(interval: Interval) -> str:
    if math.isnan(interval.estimate):
        return "none"
    return f"{interval.estimate:,.4f}"


def _ends_shown(interval: Interval) -> str:
    return interval_shown(interval.low, interval.high, 4)


VIEW = run_summary.ReleaseView(STEPS, "gaps", lambda estimated, _: gaps(estimated))
