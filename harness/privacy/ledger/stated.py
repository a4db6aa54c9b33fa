"""Exact losses, budgets and charges, as files state them."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from harness.computation import Size
from protocols.exact_numbers import STATED, stated_number
from protocols.guarantee import Budget, Guarantee

Exact = Annotated[str, Meta(pattern=rf"^(?:{STATED})\Z")]
"""A rational that is not negative, `p` or `p/q`."""


class StatedLoss(Struct, frozen=True, kw_only=True):
    """A guarantee's exact ε and δ."""

    epsilon: Exact
    delta: Exact

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee."""
        return Guarantee(stated_number(self.epsilon), stated_number(self.delta))


class StatedBudget(Struct, frozen=True, kw_only=True):
    """A population's budget. A `delta` of None is not limited; `order` and `runs` are of many runs."""

    epsilon: Exact
    delta: Exact | None
    order: Exact | UnsetType = UNSET
    runs: Exact | UnsetType = UNSET


class StatedCharge(Struct, frozen=True, kw_only=True):
    """A run's charge, and the population's total with it."""

    path: str
    population: str
    charge: Size | None
    runs: Size
    spent: StatedLoss
    budget: StatedBudget | None


def state_loss(loss: Guarantee) -> StatedLoss:
    """Return the exact ε and δ as texts."""
    return StatedLoss(epsilon=str(loss.epsilon), delta=str(loss.delta))


def state_budget(budget: Budget | None) -> StatedBudget | None:
    """Return a budget as texts, None for none."""
    if budget is None:
        return None
    return StatedBudget(
        epsilon=str(budget.epsilon),
        delta=None if budget.delta is None else str(budget.delta),
        order=UNSET if budget.order is None else str(budget.order),
        runs=UNSET if budget.runs is None else str(budget.runs),
    )
