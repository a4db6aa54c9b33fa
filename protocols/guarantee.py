"""(epsilon, delta)-differential privacy as a value: exact, added up, and held against a budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy, both exact rational upper bounds.

    `epsilon` is the least multiple of 10^-12 whose exponential provably reaches the worst ratio.
    """

    epsilon: Fraction
    delta: Fraction


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

    def left(self, spent: Guarantee) -> Budget:
        """Return what may still be spent, 0 where more was spent than the budget now is."""
        delta = None if self.delta is None else max(Fraction(0), self.delta - spent.delta)
        return Budget(max(Fraction(0), self.epsilon - spent.epsilon), delta)


def compose(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return what several releases protect together, of one unit, under one relation.

    Computes: the sums of epsilon and of delta (basic composition), exactly.
    Guarantees: holds although later releases are chosen after earlier ones were seen.
    [test: tests/protocols/test_calibration_composed.py]
    """
    total = Guarantee(Fraction(0), Fraction(0))
    for each in guarantees:
        total = Guarantee(total.epsilon + each.epsilon, total.delta + each.delta)
    return total
