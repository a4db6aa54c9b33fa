"""What to expect of a release before it runs: how far off it is, and what an error takes."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import thread_time

from harness.errors import OptionError
from harness.forecast.plan import PlannedRelease
from harness.forecast.wall_clock import deriving_s
from harness.releases.expected_errors import ExpectedCap, ExpectedCounts, ExpectedError
from harness.security_models import Model
from protocols.circuits.coins import MAX_EPSILON
from protocols.guarantee import Guarantee


@dataclass(frozen=True)
class Needed:
    """What an error takes.

    Attributes: error: that is aimed at; people: how many records, or clients, it takes at this epsilon;
    guarantee: that it takes with these, None if no epsilon is enough.
    """

    error: float
    people: int
    guarantee: Guarantee | None


@dataclass(frozen=True)
class ReleasePlan:
    """What to expect of a release in models that add the same noise.

    Attributes: needed: None where the release keeps to an error of its own, or opens nothing with one;
    alone: whether all models are here; design_s, derive_s: as `WallClock` has them.
    """

    models: tuple[Model, ...]
    asked: PlannedRelease
    found: ExpectedError | ExpectedCap | ExpectedCounts
    needed: Needed | None
    alone: bool
    design_s: float
    derive_s: float


def plan_releases(asked: PlannedRelease, models: Sequence[Model], error: float) -> list[ReleasePlan]:
    """Return a plan for each kind of noise that models add, first where parties cannot change slots.

    Raises: OptionError: no noise fits the budget.
    """
    plans = []
    by_noise: dict[object, list[Model]] = {}
    for model in sorted(models, key=lambda each: asked.by(each).request.malleable_slots):
        release = asked.by(model).request
        by_noise.setdefault((release.malleable_slots, release.own), []).append(model)
    for alike in by_noise.values():
        here, needed, before = asked.by(alike[0]), None, thread_time()
        prepared, design_s = here.prepared, thread_time() - before
        derive_s = deriving_s(here.statistic, prepared, here.sizes)
        expected = here.statistic.expected_error(prepared, here.sizes)
        if isinstance(expected, ExpectedError) and here.sizes.min() >= 1:
            people = expected.records_for(here.people, error)
            needed = Needed(error, people, guarantee_for(here, error))
        alone = len(alike) == len(models)
        plans.append(ReleasePlan(tuple(alike), here, expected, needed, alone, design_s, derive_s))
    return plans


def guarantee_for(asked: PlannedRelease, error: float) -> Guarantee | None:
    """Return the guarantee with the least epsilon, of two digits, whose worst error is this at most.

    Returns: None: no epsilon up to 20 is enough.
    """
    grid = [Fraction(d, 100) * Fraction(10) ** power for power in range(-2, 3) for d in range(10, 100)]
    grid = [epsilon for epsilon in grid if epsilon <= MAX_EPSILON]

    def enough(epsilon: Fraction) -> bool:
        one = replace(asked, request=asked.request.but(epsilon=epsilon))
        try:
            expected = one.statistic.expected_error(one.prepared, one.sizes)
        except OptionError:  # so small that no noise fits
            return False
        return isinstance(expected, ExpectedError) and expected.worst <= error

    least = bisect_left(grid, True, key=enough)
    return Guarantee(grid[least], asked.request.delta) if least < len(grid) else None
