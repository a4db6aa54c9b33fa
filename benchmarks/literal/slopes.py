"""What one more threshold costs in the literal Protocol 4, by runs with some of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.measure.samples import Sample
from benchmarks.papers import privfairfl


@dataclass(frozen=True)
class Slopes:
    """What one more threshold costs, in seconds.

    Attributes: each: by repetition, between the fewest thresholds and the most; bend: upper part over lower
    part, None of two levels; rounds: of one more threshold, by the same parts; whole: seconds that all of the
    paper's thresholds would take, from and to, by the slopes of all repetitions and parts.
    """

    each: Sequence[float]
    bend: float | None
    rounds: Sequence[float]
    whole: tuple[float, float]


def slopes(runs: Mapping[int, Sequence[Sample]]) -> Slopes | None:
    """Return what a threshold costs; None of fewer than two levels. Args: runs: good ones, by thresholds."""
    levels, most = sorted(runs), privfairfl().thresholds
    if len(levels) < 2:
        return None
    seconds = {level: {run.repetition: run.times["mpc_s"] for run in runs[level]} for level in levels}
    middles = [median(seconds[level].values()) for level in levels]
    rounds = [float(runs[level][0].rounds or 0) for level in levels]
    low, high = levels[0], levels[-1]
    paired = sorted(seconds[low].keys() & seconds[high].keys())
    each = [(seconds[high][number] - seconds[low][number]) / (high - low) for number in paired]
    parts = _steps(levels, middles)
    ends = [middles[-1] + slope * (most - high) for slope in (*each, *parts)]
    bend = parts[-1] / parts[0] if len(parts) > 1 and parts[0] else None
    return Slopes(each, bend, _steps(levels, rounds), (min(ends), max(ends))) if each else None


def _steps(levels: Sequence[int], values: Sequence[float]) -> list[float]:
    """Return the slope between each level and the next."""
    points = list(zip(levels, values, strict=True))
    return [(y - before) / (x - at) for (at, before), (x, y) in pairwise(points)]
