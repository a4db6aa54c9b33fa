"""Plans of a release: what was asked for, and what it costs in each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from harness.engines.base import Job
from harness.engines.network.profiles import Network
from harness.engines.registry import engine_of
from harness.errors import OptionError, PlanError
from harness.forecast import errors
from harness.forecast.tally import counts_of
from harness.forecast.unit_costs import Cost, UnitCosts, total_cost
from harness.inputs.contribution_bounds import Cap, caps_to_choose_from
from harness.inputs.encoding import is_per_record
from harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid, even_grid
from harness.pipeline.party_inputs import PartyInputs
from harness.pipeline.run import Settings, Statistic, make_job, plan_release
from harness.releases.confusion import ConfusionStatistic
from harness.releases.contribution_cap import CapStatistic, CapTarget
from harness.releases.counts import CountStatistic
from harness.releases.gaps import GapStatistic
from harness.releases.score_curves import CurvesStatistic, PublishedCurvesStatistic
from harness.releases.weights import WeightsOnlyStatistic, WeightsStatistic
from harness.security_models import Model
from protocols.accounting.calibration import NoisePlan
from protocols.mechanisms.shifted_log import ErrorTarget
from protocols.spec import (
    KEYS,
    PI_CAP,
    PI_CF,
    PI_CF_SLOTS,
    PI_COUNT,
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


@dataclass(frozen=True)
class Task:
    """One way to run one command.

    Attributes: detail: what its records hold; of_slots: what runs on clients' slots, if something does.
    """

    name: str
    spec: ProtocolSpec
    detail: RecordKind = RecordKind.NONE
    of_slots: ProtocolSpec | None = None


TASKS: dict[str, dict[str, Task]] = {
    "weights": {
        "counts": Task("weights", PI_RW, of_slots=PI_RW_SLOTS),
        "weights": Task("weights", PI_RW_WEIGHTS),
    },
    "confusion": {"counts": Task("confusion", PI_CF, RecordKind.PREDICTION, PI_CF_SLOTS)},
    "thresholds": {
        "histogram": Task("thresholds", PI_ROC, RecordKind.SCORE),
        "records": Task("thresholds", PI_ROC_RECORDS, RecordKind.SCORE),
        "published": Task("thresholds", PI_ROC_PUBLISHED, RecordKind.SCORE),
    },
    "gap": {"sums": Task("gap", PI_GAP, RecordKind.VALUE, PI_GAP_SLOTS)},
    "count": {"logarithms": Task("count", PI_COUNT)},
    "cap": {"index": Task("cap", PI_CAP, RecordKind.SIZE)},
}


@dataclass(frozen=True)
class PlanRequest:
    """What a plan is for.

    Attributes: settings: of the release; clients, records: how many; groups, labels: with their shares;
    max_count, thresholds, steps: of the domain, where the task has such; cap: where clients are the unit;
    following: the release that a cap is chosen for, `malleable_slots` if its noise is for exchanged records
    in models that add such; target: of counts.
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
    following: CapTarget | None = None
    target: ErrorTarget | None = None

    def by(self, model: Model) -> PlanRequest:
        """Return the same, in another model."""
        return replace(self, settings=replace(self.settings, model=model))

    @property
    def domain(self) -> RecordDomain:
        """What would be declared."""
        groups, labels = tuple(sorted(self.groups)), tuple(sorted(self.labels))
        if self.task.detail is RecordKind.VALUE:
            grid = ValueGrid(0.0, 1.0, self.steps)
            return RecordDomain(groups, (), 1, kind=RecordKind.VALUE, values=grid, cap=self.cap)
        bins = even_grid(self.thresholds) if self.task.detail is RecordKind.SCORE else ()
        return RecordDomain(
            groups, labels, self.max_count, kind=self.task.detail, thresholds=bins, cap=self.cap
        )

    def statistic(self, settings: Settings) -> Statistic[Any]:
        """Return what would be computed."""
        if self.task.spec in (PI_RW, PI_RW_SLOTS):
            return WeightsStatistic(self.reweighing, self.task.spec)
        if self.task.spec is PI_RW_WEIGHTS:
            return WeightsOnlyStatistic(self.reweighing)
        if self.task.detail is RecordKind.PREDICTION:
            return ConfusionStatistic(self.task.spec)
        if self.task.spec is PI_COUNT:
            assert self.target is not None
            return CountStatistic(settings, self.target)
        if self.task.spec is PI_CAP:
            assert self.following is not None
            malleable_slots = self.following.malleable_slots and settings.malleable_slots
            return CapStatistic(replace(self.following, malleable_slots=malleable_slots))
        if self.task.detail is RecordKind.VALUE:
            return GapStatistic(self.task.spec)
        if self.task.spec is PI_ROC_PUBLISHED:
            return PublishedCurvesStatistic(settings)
        return CurvesStatistic(settings, spec=self.task.spec)

    @property
    def sizes(self) -> errors.Floats:
        """How many records that count each group and label has, shape (k, m); of values, clients, (k, 1)."""
        groups = np.array([float(self.groups[name]) for name in sorted(self.groups)])
        if self.task.detail is RecordKind.VALUE:
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

    @property
    def by_clients(self) -> bool:
        """Whether an error depends on how many clients there are, not records."""
        return self.task.detail is RecordKind.VALUE or self.cap is not None

    @property
    def people(self) -> int:
        """How many of them there are."""
        return self.clients if self.by_clients else self.records

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
        if self.task.detail is RecordKind.SIZE and self.clients > MOST_SLOTS:
            raise OptionError(
                f"--clients is at most {MOST_SLOTS} where parties handle each client's slot, as more was not "
                f"measured; got {self.clients}."
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
        fed = PartyInputs(domain, self.clients, 1, rows, [None] * model.parties)
        return make_job(statistic, settings, plan_release(statistic, settings, domain), fed)


def expected_cap(clients: int, records: int, max_count: int) -> Cap:
    """Return the cap that would be chosen if all clients had as many records and there were no noise."""
    caps = caps_to_choose_from(max_count)
    return Cap(next((cap for cap in caps if cap * clients >= records), caps[-1]))


@dataclass(frozen=True)
class ModelPlan:
    """What a run in one model would cost.

    Attributes: costs: of its releases, one after the other, None if there are none; refusal: why not;
    missing: why the model cannot run here, None if it can.
    """

    model: Model
    costs: tuple[Cost, ...] | None
    refusal: str | None
    missing: str | None

    @property
    def cost(self) -> Cost | None:
        """What they cost together."""
        return None if self.costs is None else total_cost(self.costs)


def plan_model(
    stages: Sequence[PlanRequest], model: Model, units: UnitCosts, network: Network | None
) -> ModelPlan:
    """Predict what a run in this model costs; nothing is run.

    Args: stages: its releases, one after the other. Raises: OptionError; CompileError.
    """
    engine, costs = engine_of(model), []
    missing = engine.availability(model)
    for asked in stages:
        refusal = engine.refusal(asked.task.spec, model, asked.settings.form)
        if refusal is not None:
            return ModelPlan(model, None, refusal, missing)
        try:
            costs.append(units.predict(model, counts_of(asked.by(model).job(), model), network))
        except PlanError as error:
            return ModelPlan(model, None, str(error), missing)
    return ModelPlan(model, tuple(costs), None, missing)
