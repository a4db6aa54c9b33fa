"""(epsilon, delta)-differential privacy as a value."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

MAX_ORDER = 1 << 12
MAX_RUNS = 10_000  # runs in one declaration
MAX_STATED_EPSILON = Fraction(64)  # the largest ε of a budget that is kept by a filter or by declared runs
LOST = Fraction(1, 8)  # a part of a filter's delta, for each neighbor's masses outside of a pair
SUMMED = Fraction(1, 16)  # the part of a filter's delta for runs that sums of epsilon and delta admit


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy, both exact rational upper bounds.

    Attributes:
        epsilon: The bound of epsilon, at least 0.
        delta: The bound of delta, from 0 to 1.
    """

    epsilon: Fraction
    delta: Fraction

    def __add__(self, other: "Guarantee") -> "Guarantee":
        return Guarantee(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: "Guarantee") -> "Guarantee":
        return Guarantee(self.epsilon - other.epsilon, self.delta - other.delta)

    def __mul__(self, times: Fraction | int) -> "Guarantee":
        return Guarantee(self.epsilon * times, self.delta * times)

    def within(self, limit: "Guarantee") -> bool:
        """Return whether a guarantee is at least as strong as another.

        Args:
            limit: The other guarantee.
        Returns:
            True if neither epsilon nor delta exceeds the limit's.
        """
        return self.epsilon <= limit.epsilon and self.delta <= limit.delta


NOTHING = Guarantee(Fraction(0), Fraction(0))  # spent where nothing is released


@dataclass(frozen=True)
class Budget:
    """The most that all releases about one population may spend.

    Attributes:
        epsilon: The limit of epsilon, at least 0.
        delta: The limit of delta; None sets no limit.
        order: The order of the Rényi divergences that a ledger adds up; None if it adds up epsilons and
            deltas.
        runs: The number of runs with the same noise that were declared before the first; None if none were.
    """

    epsilon: Fraction
    delta: Fraction | None = None
    order: int | None = None
    runs: int | None = None

    @property
    def rule(self) -> str:
        """How runs add up, as ledgers write it; empty for sums of epsilon and delta."""
        return f"order={self.order}" if self.order else f"runs={self.runs}" if self.runs else ""

    @property
    def name(self) -> str:
        """The budget as users type it, exactly; `renyi` stands for any order."""
        parts = [str(self.epsilon)]
        if self.delta is not None:
            parts.append(str(self.delta))
        if self.order:
            parts.append("renyi")
        elif self.runs:
            parts.append(str(self.runs))
        return ",".join(parts)

    def allows(self, total: Guarantee) -> bool:
        """Return whether a total is within the budget.

        Args:
            total: The guarantee of all releases together.
        Returns:
            True if neither epsilon nor delta exceeds the budget's.
        """
        return total.epsilon <= self.epsilon and (self.delta is None or total.delta <= self.delta)

    def left(self, spent: Guarantee) -> "Budget":
        """Return the unspent rest of the budget.

        Args:
            spent: The guarantee of all releases so far.
        Returns:
            The rest, at least 0, without an order or a number of runs.
        """
        return Budget(
            epsilon=max(Fraction(0), self.epsilon - spent.epsilon),
            delta=None if self.delta is None else max(Fraction(0), self.delta - spent.delta),
        )


def compose(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the sum of guarantees (basic composition), for one privacy unit under one relation.

    Source: basic composition as a filter, Rogers et al. 2016.
    Guarantees: holds although later releases are chosen after earlier ones were seen.
    [test: tests/protocols/test_calibration.py]

    Args:
        guarantees: The guarantees of the single releases.
    Returns:
        The guarantee of all of them; `NOTHING` if there are none.
    """
    return sum(guarantees, NOTHING)


def renyi_order(epsilon: Fraction, delta: Fraction) -> int:
    """Return the order that fits most identical runs into a budget, for nearly Gaussian losses.

    Floats may choose it, as any order is valid.

    Args:
        epsilon: The budget's epsilon, above 0.
        delta: The budget's delta, above 0 and below 1.
    Returns:
        The order, from 2 to `MAX_ORDER`.
    """
    need = -math.log(delta * (1 - 2 * LOST - SUMMED))

    def room(order: int) -> float:
        rest = math.log1p(-1 / order) * (order - 1) - math.log(order)
        return (float(epsilon) - (need + rest) / (order - 1)) / order

    return max(range(2, MAX_ORDER + 1), key=room)
