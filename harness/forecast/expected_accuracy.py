"""What to expect of a release before it runs: how far off it is, and what an error takes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from harness.errors import OptionError
from harness.forecast import errors
from harness.forecast.errors import Expected
from harness.forecast.plan import PlanRequest
from harness.inputs.contribution_bounds import caps_to_choose_from, scale_of
from harness.inputs.record_schema import RecordKind
from harness.releases.contribution_cap import CapStatistic, comparison_noise
from harness.releases.counts import PreparedCounts
from harness.releases.weights import WeightsOnlyStatistic, WeightsStatistic
from harness.security_models import Model
from protocols.circuits.coins import MAX_EPSILON
from protocols.mechanisms.shifted_log import ErrorTarget, ShiftedLog, expected_errors
from protocols.noise.truncated import Guarantee

_NEAR = 2  # places on the grid of epsilons, by which proportion may be wrong


@dataclass(frozen=True)
class ExpectedCap:
    """What is known of a cap before it is chosen.

    Attributes: caps: to choose from; above: how many clients may exceed it at most; noise: by how many
    clients noise moves a comparison at most, with probability `chosen_cap.CONFIDENCE`.
    """

    caps: tuple[int, ...]
    above: int
    noise: int


@dataclass(frozen=True)
class ExpectedCount:
    """What to expect of one count. Attributes: error: relative to it, E|estimate - records| / records."""

    records: float
    error: float
    guarantee: Guarantee


@dataclass(frozen=True)
class ExpectedCounts:
    """What to expect of counts with a relative error: each by group and label."""

    each: Mapping[str, ExpectedCount]
    law: ShiftedLog
    target: ErrorTarget


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
    alone: whether all models are here.
    """

    models: tuple[Model, ...]
    asked: PlanRequest
    found: Expected | ExpectedCap | ExpectedCounts
    needed: Needed | None
    alone: bool


def plan_releases(asked: PlanRequest, models: Sequence[Model], error: float) -> list[ReleasePlan]:
    """Return one plan for all models, or one for those that withstand active parties and one for the others.

    Raises: OptionError: no noise fits the budget.
    """
    plans = []
    for malleable_slots in (False, True):
        alike = tuple(model for model in models if asked.by(model).release.malleable_slots is malleable_slots)
        if alike:
            here, needed = asked.by(alike[0]), None
            found = outlook(here)
            if isinstance(found, Expected):
                people = found.records_for(here.people, error)
                needed = Needed(error, people, epsilon_for(here, found, error))
            plans.append(ReleasePlan(alike, here, found, needed, len(alike) == len(models)))
    return plans


def outlook(asked: PlanRequest) -> Expected | ExpectedCap | ExpectedCounts:
    """Return what to expect. Raises: OptionError: no noise fits the budget."""
    prepared, statistic = asked.prepared, asked.statistic
    if isinstance(statistic, CapStatistic):
        noise, above = comparison_noise(prepared.plan), statistic.allowed_above(asked.release, asked.domain)
        return ExpectedCap(caps_to_choose_from(asked.max_count), above, noise)
    if isinstance(prepared, PreparedCounts):
        return _expected_counts(asked, prepared)
    return expected(asked)


def _expected_counts(asked: PlanRequest, prepared: PreparedCounts) -> ExpectedCounts:
    plan, law, sizes, found = prepared.plan, prepared.law, asked.sizes, {}
    for name, size in _by(_names(asked), sizes).items():
        if size > law.most:
            raise OptionError(
                f"--error-to {law.most} is below the {size:,.0f} records of {name}, and no estimate is above "
                "it; say a larger one."
            )
        error = float(expected_errors(law, size, plan.coins)) / size
        found[name] = ExpectedCount(size, error, law.guarantee_at(int(size), plan.coins))
    return ExpectedCounts(found, law, prepared.target)


def _names(asked: PlanRequest) -> list[str]:
    return [", ".join(pair) for pair in product(asked.domain.groups, asked.domain.labels)]


def expected(asked: PlanRequest) -> Expected:
    """Return the errors to expect. Raises: OptionError: no noise fits the budget."""
    prepared, domain, sizes = asked.prepared, asked.domain, asked.sizes
    plan = prepared.plan
    noise = errors.deviation(plan) / scale_of(domain.cap)
    names = _names(asked)
    if asked.statistic.kind is RecordKind.VALUE:
        means = noise * errors.mean_errors(sizes, asked.steps)
        each = dict(zip(domain.groups, means[:, 0].tolist(), strict=True))
        return Expected(noise / asked.steps, "mean, share of the range", each, errors.expected_gap(means))
    if asked.statistic.kind is RecordKind.SCORE:
        noise_of_curve = prepared.read({"nodes": (0,) * plan.nodes}, 0).curves.noise
        found = errors.curve_errors(noise_of_curve, sizes)
        count = math.sqrt(float((noise_of_curve.standard_errors()[:-1] ** 2).mean()))
        return Expected(count, "rate", _by(names, found), errors.expected_gap(found))
    if asked.statistic.kind is RecordKind.PREDICTION:
        found = noise * errors.rate_errors(sizes, len(domain.labels))
        return Expected(noise, "rate", _by(names, found), errors.expected_gap(found))
    assert isinstance(asked.statistic, WeightsStatistic | WeightsOnlyStatistic)
    return Expected(
        noise, "weight, relative", _by(names, noise * errors.weight_errors(sizes, asked.statistic.reweighing))
    )


def _by(names: list[str], values: errors.Floats) -> dict[str, float]:
    return dict(zip(names, values.ravel().tolist(), strict=True))


def epsilon_for(asked: PlanRequest, found: Expected, error: float) -> Fraction | None:
    """Return the least epsilon, of two digits, for which the worst error is this; None: none up to 20 is.

    Args: found: what is expected at the epsilon that was asked for; errors are almost in inverse proportion.
    """
    grid = [Fraction(d, 100) * Fraction(10) ** power for power in range(-2, 3) for d in range(10, 100)]
    grid = [epsilon for epsilon in grid if epsilon <= MAX_EPSILON]

    def enough(i: int) -> bool:
        release = replace(asked.release, epsilon=grid[i])
        try:
            return expected(replace(asked, release=release)).worst <= error
        except OptionError:  # so small that no noise fits
            return False

    near = bisect_left(grid, asked.release.epsilon * Fraction(found.worst / error))
    low, high = max(0, near - _NEAR), min(len(grid), near + _NEAR)
    if low and enough(low - 1):
        low, high = 0, low - 1
    elif high < len(grid) and not enough(high):
        low, high = high + 1, len(grid)
    return grid[i] if (i := bisect_left(range(len(grid)), True, low, high, key=enough)) < len(grid) else None
