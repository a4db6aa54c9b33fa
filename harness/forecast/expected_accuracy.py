"""What to expect of a release before it runs: how far off it is, and what an error takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import thread_time

from harness.errors import OptionError
from harness.forecast.plan import PlanRequest
from harness.forecast.wall_clock import deriving_s
from harness.releases.expected_errors import ExpectedCap, ExpectedCounts, ExpectedError
from harness.security_models import Model
from protocols.circuits.coins import MAX_EPSILON

_NEAR = 2  # places on the grid of epsilons, by which proportion may be wrong


@dataclass(frozen=True)
class Needed:
    """What an error takes.

    Attributes: error: that is aimed at; people: how many records, or clients, it takes at this epsilon;
    epsilon: that it takes with these, None if none is enough.
    """

    error: float
    people: int
    epsilon: Fraction | None


@dataclass(frozen=True)
class ReleasePlan:
    """What to expect of a release in models that add the same noise.

    Attributes: needed: None where the release keeps to an error of its own, or opens nothing with one;
    alone: whether all models are here; design_s, derive_s: as `WallClock` has them.
    """

    models: tuple[Model, ...]
    asked: PlanRequest
    found: ExpectedError | ExpectedCap | ExpectedCounts
    needed: Needed | None
    alone: bool
    design_s: float
    derive_s: float


def plan_releases(asked: PlanRequest, models: Sequence[Model], error: float) -> list[ReleasePlan]:
    """Return a plan for each kind of noise that models add, first where parties cannot change slots.

    Raises: OptionError: no noise fits the budget.
    """
    plans = []
    by_noise: dict[object, list[Model]] = {}
    for model in sorted(models, key=lambda each: asked.by(each).release.malleable_slots):
        release = asked.by(model).release
        by_noise.setdefault((release.malleable_slots, release.own), []).append(model)
    for alike in by_noise.values():
        here, needed, before = asked.by(alike[0]), None, thread_time()
        prepared, design_s = here.prepared, thread_time() - before
        derive_s = deriving_s(here.statistic, prepared, here.sizes)
        found = expected(here)
        if isinstance(found, ExpectedError) and here.sizes.min() >= 1:
            people = found.records_for(here.people, error)
            needed = Needed(error, people, epsilon_for(here, found, error))
        alone = len(alike) == len(models)
        plans.append(ReleasePlan(tuple(alike), here, found, needed, alone, design_s, derive_s))
    return plans


def expected(asked: PlanRequest) -> ExpectedError | ExpectedCap | ExpectedCounts:
    """Return what to expect. Raises: OptionError: no noise fits the budget."""
    return asked.statistic.expected_error(asked.prepared, asked.sizes)


def epsilon_for(asked: PlanRequest, found: ExpectedError, error: float) -> Fraction | None:
    """Return the least epsilon, of two digits, for which the worst error is this; None: none up to 20 is.

    Args: found: what is expected at the epsilon that was asked for; errors are almost in inverse proportion.
    """
    grid = [Fraction(d, 100) * Fraction(10) ** power for power in range(-2, 3) for d in range(10, 100)]
    grid = [epsilon for epsilon in grid if epsilon <= MAX_EPSILON]

    def enough(i: int) -> bool:
        release = replace(asked.release, epsilon=grid[i])
        try:
            at = expected(replace(asked, release=release))
        except OptionError:  # so small that no noise fits
            return False
        return isinstance(at, ExpectedError) and at.worst <= error

    near = bisect_left(grid, asked.release.epsilon * Fraction(found.worst / error))
    low, high = max(0, near - _NEAR), min(len(grid), near + _NEAR)
    if low and enough(low - 1):
        low, high = 0, low - 1
    elif high < len(grid) and not enough(high):
        low, high = high + 1, len(grid)
    return grid[i] if (i := bisect_left(range(len(grid)), True, low, high, key=enough)) < len(grid) else None
