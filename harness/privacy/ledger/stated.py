"""Budgets and charges, as files state them."""

from fractions import Fraction

from msgspec import UNSET, Struct, UnsetType

from fairshares.harness.bounds import Size
from fairshares.harness.stated_privacy import StatedLoss
from fairshares.protocols.guarantee import Budget


class StatedBudget(Struct, frozen=True, kw_only=True):
    """A population's budget. A `delta` of None is not limited; `order` and `runs` are of many runs."""

    epsilon: Fraction
    delta: Fraction | None
    order: Fraction | UnsetType = UNSET
    runs: Fraction | UnsetType = UNSET


class StatedCharge(Struct, frozen=True, kw_only=True):
    """A run's charge, and the population's total with it."""

    path: str
    population: str
    charge: Size | None
    runs: Size
    spent: StatedLoss
    budget: StatedBudget | None


def state_budget(budget: Budget | None) -> StatedBudget | None:
    """Return a budget as files state it, None for none."""
    if budget is None:
        return None
    return StatedBudget(
        epsilon=budget.epsilon,
        delta=budget.delta,
        order=UNSET if budget.order is None else Fraction(budget.order),
        runs=UNSET if budget.runs is None else Fraction(budget.runs),
    )
