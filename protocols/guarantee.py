"""(epsilon, delta)-differential privacy as a value: exact, added up, and held against a budget."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

MAX_ORDER = 1 << 12
MAX_RUNS = 10_000  # that are declared
MAX_EPSILON = Fraction(64)  # of a budget that is not kept by basic composition
LOST = Fraction(1, 8)  # of a filter's delta, for each neighbor's masses outside of a pair
SUMMED = Fraction(1, 16)  # of a filter's delta, for runs that it admits by the sums of epsilon and delta


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy, both exact rational upper bounds.

    `epsilon` is the least multiple of 10^-12 whose exponential provably reaches the worst ratio.
    """

    epsilon: Fraction
    delta: Fraction

    def __add__(self, other: "Guarantee") -> "Guarantee":
        """Return what two releases protect together, by basic composition."""
        return Guarantee(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: "Guarantee") -> "Guarantee":
        """Return what is left of a total when `other` is spent; below 0 where more is."""
        return Guarantee(self.epsilon - other.epsilon, self.delta - other.delta)

    def __mul__(self, times: Fraction | int) -> "Guarantee":
        """Return a share of a total, or what so many releases of this kind protect together."""
        return Guarantee(self.epsilon * times, self.delta * times)

    def within(self, limit: "Guarantee") -> bool:
        """Return whether neither epsilon nor delta exceeds the limit's."""
        return self.epsilon <= limit.epsilon and self.delta <= limit.delta


NOTHING = Guarantee(Fraction(0), Fraction(0))  # is spent by what releases nothing


@dataclass(frozen=True)
class Budget:
    """The most that all releases about one population may spend. delta: None: not limited.

    order: of the Renyi divergences by which a ledger adds up, instead of epsilons and deltas; runs: how many
    runs, all with the same noise, were declared before the first; with delta, and one of the two at most.
    """

    epsilon: Fraction
    delta: Fraction | None = None
    order: int | None = None
    runs: int | None = None

    @property
    def rule(self) -> str:
        """How runs add up, as ledgers write it, unless by the sums of epsilon and delta; else empty."""
        return f"order={self.order}" if self.order else f"runs={self.runs}" if self.runs else ""

    def allows(self, total: Guarantee) -> bool:
        """Return whether a total is within the budget; all of it may be spent."""
        return total.epsilon <= self.epsilon and (self.delta is None or total.delta <= self.delta)

    def left(self, spent: Guarantee) -> "Budget":
        """Return what may still be spent, 0 where more was spent than the budget now is."""
        delta = None if self.delta is None else max(Fraction(0), self.delta - spent.delta)
        return Budget(max(Fraction(0), self.epsilon - spent.epsilon), delta)


def compose(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return what several releases protect together, of one unit, under one relation.

    Computes: the sums of epsilon and of delta (basic composition), exactly.
    Guarantees: holds although later releases are chosen after earlier ones were seen.
    [test: tests/protocols/test_calibration.py]
    """
    return sum(guarantees, NOTHING)


def renyi_order(epsilon: Fraction, delta: Fraction) -> int:
    """Return the order that lets most runs alike into this budget, if their losses are nearly Gaussian.

    Computes: by floats; whichever order it is, a filter that keeps to it is valid.
    """
    need = -math.log(delta * (1 - 2 * LOST - SUMMED))

    def room(order: int) -> float:
        rest = math.log1p(-1 / order) * (order - 1) - math.log(order)
        return (float(epsilon) - (need + rest) / (order - 1)) / order

    return max(range(2, MAX_ORDER + 1), key=room)
