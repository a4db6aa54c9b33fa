"""Plans of a release: what was asked for, what error to expect of it, and what it costs in each model."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from harness.confusion import ConfusionStatistic
from harness.contributions import Cap, scale_of
from harness.engines.base import Job
from harness.errors import OptionError, PlanError
from harness.feeding import Fed
from harness.gaps import GapStatistic
from harness.layouts import is_per_record
from harness.models import Model
from harness.networks import Network
from harness.pipeline import Settings, Statistic, make_job, plan_release
from harness.planning import errors
from harness.planning.counts import counts_of
from harness.planning.errors import Expected
from harness.planning.units import Cost, UnitCosts
from harness.records import Detail, RecordDomain
from harness.roc import CurvesStatistic, PublishedCurvesStatistic, curves_as_published, noisy_curves
from harness.schemes import engine_of
from harness.scores import even_grid
from harness.values import ValueGrid
from harness.weights import WeightsOnlyStatistic, WeightsStatistic
from protocols.budget import NoisePlan
from protocols.circuits.coins import MAX_EPSILON
from protocols.spec import (
    KEYS,
    PI_CF,
    PI_CF_SLOTS,
    PI_GAP,
    PI_GAP_SLOTS,
    PI_ROC,
    PI_ROC_PUBLISHED,
    PI_ROC_RECORDS,
    PI_RW,
    PI_RW_SLOTS,
    PI_RW_WEIGHTS,
    SLOTS,
    ProtocolSpec,
)

Shares = Mapping[str, Fraction]
"""What part of the records each group, or each label, has; they add up to 1."""

MOST_PLANNED = 10**5  # records or keys that parties handle one by one: beyond this nothing was measured
MOST_SLOTS = 10**6  # the same of slots
_NEAR = 2  # places on the grid of epsilons, by which proportion may be wrong


@dataclass(frozen=True)
class Task:
    """One way to run one command.

    Attributes: detail: what its records hold; of_slots: what runs on clients' slots, if something does.
    """

    name: str
    spec: ProtocolSpec
    detail: Detail = Detail.NONE
    of_slots: ProtocolSpec | None = None


TASKS: dict[str, dict[str, Task]] = {
    "weights": {
        "counts": Task("weights", PI_RW, of_slots=PI_RW_SLOTS),
        "weights": Task("weights", PI_RW_WEIGHTS),
    },
    "confusion": {"counts": Task("confusion", PI_CF, Detail.PREDICTION, PI_CF_SLOTS)},
    "thresholds": {
        "histogram": Task("thresholds", PI_ROC, Detail.SCORE),
        "records": Task("thresholds", PI_ROC_RECORDS, Detail.SCORE),
        "published": Task("thresholds", PI_ROC_PUBLISHED, Detail.SCORE),
    },
    "gap": {"sums": Task("gap", PI_GAP, Detail.VALUE, PI_GAP_SLOTS)},
}


@dataclass(frozen=True)
class Asked:
    """What a plan is for.

    Attributes: settings: of the release; clients, records: how many; groups, labels: with their shares;
    max_count, thresholds, steps: of the domain, where the task has such; cap: where clients are the unit.
    """

    task: Task
    settings: Settings
    clients: int
    records: int
    groups: Shares
    labels: Shares
    max_count: int
    thresholds: int
    steps: int
    reweighing: str
    cap: Cap | None = None

    def by(self, model: Model) -> Asked:
        """Return the same, in another model."""
        return replace(self, settings=replace(self.settings, model=model))

    @property
    def domain(self) -> RecordDomain:
        """What would be declared."""
        groups, labels = tuple(sorted(self.groups)), tuple(sorted(self.labels))
        if self.task.detail is Detail.VALUE:
            grid = ValueGrid(0.0, 1.0, self.steps)
            return RecordDomain(groups, (), 1, detail=Detail.VALUE, values=grid, cap=self.cap)
        bins = even_grid(self.thresholds) if self.task.detail is Detail.SCORE else ()
        return RecordDomain(
            groups, labels, self.max_count, detail=self.task.detail, thresholds=bins, cap=self.cap
        )

    def statistic(self, settings: Settings) -> Statistic[Any]:
        """Return what would be computed."""
        if self.task.spec in (PI_RW, PI_RW_SLOTS):
            return WeightsStatistic(self.reweighing, self.task.spec)
        if self.task.spec is PI_RW_WEIGHTS:
            return WeightsOnlyStatistic(self.reweighing)
        if self.task.detail is Detail.PREDICTION:
            return ConfusionStatistic(self.task.spec)
        if self.task.detail is Detail.VALUE:
            return GapStatistic(self.task.spec)
        if self.task.spec is PI_ROC_PUBLISHED:
            return PublishedCurvesStatistic(settings)
        return CurvesStatistic(settings, spec=self.task.spec)

    @property
    def sizes(self) -> errors.Floats:
        """How many records that count each group and label has, shape (k, m); of values, clients, (k, 1)."""
        groups = np.array([float(self.groups[name]) for name in sorted(self.groups)])
        if self.task.detail is Detail.VALUE:
            return np.asarray(self.clients * groups[:, np.newaxis])
        labels = np.array([float(self.labels[name]) for name in sorted(self.labels)])
        return np.asarray(self.counted * groups[:, np.newaxis] * labels)

    @property
    def counted(self) -> float:
        """How many records count, all clients having as many; of clients that weigh 1, how many clients."""
        if self.cap is None:
            return self.records
        each = self.records / self.clients
        return self.clients * (min(1.0, each) if self.cap.weight_one else min(each, self.cap.slots))

    def noise(self) -> NoisePlan:
        """Choose the noise. Raises: OptionError: none fits the budget."""
        domain, statistic = self.domain, self.statistic(self.settings)
        plan = plan_release(statistic, self.settings, domain)
        statistic.check(domain, self.clients, plan)
        return plan

    def check_size(self) -> None:
        """Raise OptionError where parties would handle one by one more than was measured."""
        form = self.settings.form.name
        if is_per_record(self.domain, form) and self.records > MOST_PLANNED:
            raise OptionError(
                f"--records is at most {MOST_PLANNED} where parties handle each record; got {self.records}."
            )
        most = {KEYS.name: MOST_PLANNED, SLOTS.name: MOST_SLOTS}.get(form)
        if self.cap and most and self.clients * self.cap.slots > most:
            raise OptionError(
                f"--clients times --cap is at most {most} where parties handle each of clients' {form}, as "
                f"more was not measured; got {self.clients * self.cap.slots}."
            )

    def job(self) -> Job:
        """Return the job that a run would have, without clients' values."""
        settings, domain, model = self.settings, self.domain, self.settings.model
        statistic = self.statistic(settings)
        rows = self.records if is_per_record(domain, settings.form.name) else self.clients
        fed = Fed(domain, self.clients, 1, rows, [None] * model.parties)
        return make_job(statistic, settings, plan_release(statistic, settings, domain), fed)


@dataclass(frozen=True)
class ModelPlan:
    """What a run in one model would cost.

    Attributes: refusal: why there is no cost; missing: why the model cannot run here, None if it can.
    """

    model: Model
    cost: Cost | None
    refusal: str | None
    missing: str | None


def plan_model(asked: Asked, model: Model, units: UnitCosts, network: Network | None) -> ModelPlan:
    """Predict what a run in this model costs; nothing is run. Raises: OptionError; CompileError."""
    engine, spec, form = engine_of(model), asked.task.spec, asked.settings.form
    missing = engine.availability(model)
    refusal = engine.refusal(spec, model, form)
    if refusal is not None:
        return ModelPlan(model, None, refusal, missing)
    try:
        cost = units.predict(model, counts_of(asked.by(model).job(), model), network)
    except PlanError as error:
        return ModelPlan(model, None, str(error), missing)
    return ModelPlan(model, cost, None, missing)


def expected(asked: Asked) -> Expected:
    """Return the errors to expect. Raises: OptionError: no noise fits the budget."""
    plan, domain, sizes = asked.noise(), asked.domain, asked.sizes
    noise = errors.deviation(plan) / scale_of(domain.cap)
    names = [", ".join(pair) for pair in product(domain.groups, domain.labels)]
    if asked.task.detail is Detail.VALUE:
        means = noise * errors.mean_errors(sizes, asked.steps)
        each = dict(zip(domain.groups, means[:, 0].tolist(), strict=True))
        return Expected(noise / asked.steps, "mean, share of the range", each, errors.expected_gap(means))
    if asked.task.detail is Detail.SCORE:
        empty = np.zeros(plan.nodes)
        if isinstance(statistic := asked.statistic(asked.settings), PublishedCurvesStatistic):
            curves = curves_as_published(empty, domain, domain.labels[-1], plan.coins).curves
        else:
            assert isinstance(statistic, CurvesStatistic)
            tree = statistic.tree(domain)
            curves = noisy_curves(empty, domain, domain.labels[-1], tree, plan.coins).curves
        assert curves.noise is not None
        found = errors.curve_errors(curves.noise, sizes)
        count = math.sqrt(float((curves.noise.standard_errors()[:-1] ** 2).mean()))
        return Expected(count, "rate", _by(names, found), errors.expected_gap(found))
    if asked.task.detail is Detail.PREDICTION:
        found = noise * errors.rate_errors(sizes, len(domain.labels))
        return Expected(noise, "rate", _by(names, found), errors.expected_gap(found))
    return Expected(
        noise, "weight, relative", _by(names, noise * errors.weight_errors(sizes, asked.reweighing))
    )


def _by(names: list[str], values: errors.Floats) -> dict[str, float]:
    return dict(zip(names, values.ravel().tolist(), strict=True))


def epsilon_for(asked: Asked, found: Expected, error: float) -> Fraction | None:
    """Return the least epsilon, of two digits, for which the worst error is this; None: none up to 20 is.

    Args: found: what is expected at the epsilon that was asked for; errors are almost in inverse proportion.
    """
    grid = [Fraction(d, 100) * Fraction(10) ** power for power in range(-2, 3) for d in range(10, 100)]
    grid = [epsilon for epsilon in grid if epsilon <= MAX_EPSILON]

    def enough(i: int) -> bool:
        settings = replace(asked.settings, epsilon=grid[i])
        try:
            return expected(replace(asked, settings=settings)).worst <= error
        except OptionError:  # so small that no noise fits
            return False

    near = bisect_left(grid, asked.settings.epsilon * Fraction(found.worst / error))
    low, high = max(0, near - _NEAR), min(len(grid), near + _NEAR)
    if low and enough(low - 1):
        low, high = 0, low - 1
    elif high < len(grid) and not enough(high):
        low, high = high + 1, len(grid)
    return grid[i] if (i := bisect_left(range(len(grid)), True, low, high, key=enough)) < len(grid) else None
