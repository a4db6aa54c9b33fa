"""Lower bounds of delta from revealed samples alone, for noise of unknown distribution.

Such is MP-SPDZ's probabilistic truncation. Every figure from here is labeled empirical.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """How many samples are in an event fixed beforehand, and would be (`moved`) for a count one larger."""

    samples: int
    hits: int
    moved: int


@dataclass(frozen=True)
class Estimate:
    """How well one event tells two neighbors apart: P(E) - e^epsilon Q(E), a lower bound of delta."""

    value: float
    low: float
    high: float


def estimate_delta(tally: Tally, epsilon: float, confidence: float) -> Estimate:
    """Estimate how well the tallied event tells neighbors apart at epsilon.

    Computes: Chernoff's bound for each of four tails; independent samples need not have one distribution.
    Guarantees: P(true value outside low .. high) <= 1 - confidence.
    [test: tests/protocols/test_empirical.py]
    """
    ratio, n = math.exp(epsilon), tally.samples
    tail = math.log(4 / (1 - confidence)) / n
    p_low, p_high = chernoff_interval(tally.hits / n, tail)
    q_low, q_high = chernoff_interval(tally.moved / n, tail)
    return Estimate((tally.hits - ratio * tally.moved) / n, p_low - ratio * q_high, p_high - ratio * q_low)


def chernoff_interval(share: float, tail: float) -> tuple[float, float]:
    """Return the least and the largest p with relative entropy d(share, p) <= `tail`.

    On each side n samples miss p with probability exp(-n tail) at most.
    """

    down = _reach(lambda by: _entropy(share, share - by) <= tail, share)
    up = _reach(lambda by: _entropy(share, share + by) <= tail, 1 - share)
    return share - down, share + up


def _entropy(a: float, p: float) -> float:
    pairs = [(x, y) for x, y in ((a, p), (1 - a, 1 - p)) if x]
    return math.inf if any(y <= 0 for _, y in pairs) else sum(x * math.log(x / y) for x, y in pairs)


def _reach(inside: Callable[[float], bool], most: float) -> float:
    low, high = 0.0, most
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return high
