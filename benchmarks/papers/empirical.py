"""Lower bounds of delta from revealed samples alone, for noise of unknown distribution.

An example is noise that MP-SPDZ rounds by probabilistic truncation. Every figure from here is labeled
empirical.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """The number of `samples` that are in an event which was fixed beforehand.

    `hits` counts the samples that are in it. `moved` counts the samples that would be in it if the count were
    larger by 1.
    """

    samples: int
    hits: int
    moved: int


@dataclass(frozen=True)
class DeltaEstimate:
    """How well one event tells two neighbors apart: P(E) - e^epsilon Q(E), a lower bound of delta."""

    value: float
    low: float
    high: float


def estimate_delta(tally: Tally, epsilon: float, confidence: float) -> DeltaEstimate:
    """Estimate how well the tallied event tells neighbors apart at epsilon.

    Computes: Chernoff's bound for each of four tails; independent samples need not have one distribution.
    Guarantees: P(true value outside low .. high) <= 1 - confidence.
    [test: tests/benchmarks/papers/test_empirical.py]
    """
    ratio = math.exp(epsilon)
    tail = math.log(4 / (1 - confidence)) / tally.samples
    p_low, p_high = chernoff_interval(tally.hits / tally.samples, tail)
    q_low, q_high = chernoff_interval(tally.moved / tally.samples, tail)
    return DeltaEstimate(
        value=(tally.hits - ratio * tally.moved) / tally.samples,
        low=p_low - ratio * q_high,
        high=p_high - ratio * q_low,
    )


def chernoff_interval(share: float, tail: float) -> tuple[float, float]:
    """Return the least and the largest probability p that a share of hits is compatible with.

    Computes: p with relative entropy d(share, p) <= `tail`. Of n samples, the share leaves this interval on
    either side with probability exp(-n tail) at most (Chernoff).
    """
    down = _reach(lambda distance: _entropy(share, share - distance) <= tail, share)
    up = _reach(lambda distance: _entropy(share, share + distance) <= tail, 1 - share)
    return share - down, share + up


def _entropy(share: float, p: float) -> float:
    """Return the relative entropy of a coin that shows heads with probability `share` to one with p."""
    total = 0.0
    for observed, expected in ((share, p), (1 - share, 1 - p)):
        if not observed:
            continue
        if expected <= 0:
            return math.inf
        total += observed * math.log(observed / expected)
    return total


def _reach(inside: Callable[[float], bool], most: float) -> float:
    """Return, from above and within 10^-12, the largest distance up to `most` that is inside."""
    low = 0.0
    high = most
    while high - low > 1e-12:
        middle = (low + high) / 2
        if inside(middle):
            low = middle
        else:
            high = middle
    return high
