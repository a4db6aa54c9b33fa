"""The plan of a requested release, without starting a party."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fairshares.harness.errors import OptionError, named, naming
from fairshares.harness.forecast.plan import (
    ExpectedRelease,
    ModelPlan,
    ReleasePlan,
    expected_cap,
    plan_model,
    plan_releases,
    starting_s,
)
from fairshares.harness.forecast.unit_costs import RECORDED, UnitCosts, read_units
from fairshares.harness.inputs.record_schema import (
    AUTO,
    DEFAULT_MAX_COUNT,
    DEFAULT_STEPS,
    DEFAULT_THRESHOLDS,
    Cap,
    RecordDomain,
    RecordKind,
    caps_to_choose_from,
    most_of_own_records,
)
from fairshares.harness.inputs.records import ClientRecords, read_records
from fairshares.harness.inputs.tables import Named, TabularRecords
from fairshares.harness.pipeline.relations import under_kept_relation
from fairshares.harness.pipeline.release import cap_and_release, request_of_cap
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.releases.base import kind_of, statistic_class, statistic_of
from fairshares.harness.releases.cap.statistic import CapStatistic, CapTarget
from fairshares.harness.releases.registry import RELEASES, REQUESTS, capped_releases, planned_by
from fairshares.harness.request.fields import as_text
from fairshares.harness.request.networks import NetworkProfile
from fairshares.harness.request.plans import DEFAULT_ERROR, FROM_FILE, IN_PLAN, Expected
from fairshares.harness.request.readers import parse_shares
from fairshares.harness.request.releases import ReleaseCall
from fairshares.harness.request.request import Request, Trust
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import PrivacyUnit


@dataclass(frozen=True)
class RequestPlan:
    """The costs of a release in each model, and its error.

    An `auto` cap has two `stages`: the release of the cap, and the release with it.
    """

    stages: Sequence[ExpectedRelease]
    releases: Sequence[ReleasePlan]
    models: Sequence[ModelPlan]
    network: NetworkProfile | None
    units: UnitCosts


def planned(
    request: Request,
    expected: Expected,
    table: TabularRecords = None,
    command: str = "",
    *,
    account: Account | None = None,
) -> RequestPlan:
    """Return the plan of a release, in all models if the request names none.

    `table` holds the records if `expected` names no file. `command` is Python code that begins a command as
    a shell would; the time that it takes here counts in each model. A call in Python begins none. `account`
    is the one that a run would charge, whose relation the plan has, as the run would; None for nobody's.

    Raises FairSharesError if the release cannot run.
    """
    source = expected.from_records if table is None else table
    stages = _stages(request, expected, source, account or Account())
    target = expected.error or float(DEFAULT_ERROR)
    units = read_units(expected.units or RECORDED)
    models = _models_of(request)
    for stage in stages:
        stage.check_size()
    releases = [release for stage in stages for release in plan_releases(stage, models, target)]
    if len(stages) > 1:  # as a run does: what it chooses has to fit, and may be the largest
        for release in releases:
            largest = Cap(caps_to_choose_from(release.asked.max_count)[-1])
            if release.asked.cap is not None:
                _ = replace(release.asked, cap=largest).prepared
    start_s = starting_s(command) if command else 0.0
    plans = []
    for model in models:
        with_its_noise = [release for release in releases if model in release.models]
        planned_model = plan_model(
            stages,
            model,
            units,
            expected.network,
            start_s=start_s,
            design_s=sum(release.design_s for release in with_its_noise),
            derive_s=sum(release.derive_s for release in with_its_noise),
        )
        plans.append(planned_model)
    return RequestPlan(stages, releases, plans, expected.network, units)


def _models_of(request: Request) -> list[SecurityModel]:
    """Return the chosen model, or all models that take the chosen number of parties if there is one."""
    if request.security:
        return [request.security]
    parties = request.trust.parties
    if parties is None:
        return list(MODELS.values())
    return [model.with_parties(parties) for model in MODELS.values() if model.takes(parties)]


def _stages(
    request: Request, expected: Expected, table: TabularRecords, account: Account
) -> list[ExpectedRelease]:
    """Return the release, or the release of an `auto` cap and the release with it; raises OptionError."""
    _refuse_strangers(request, expected)
    request.check_unit()
    kind = statistic_class(request.task).kind
    counts = None
    groups = expected.groups
    labels = expected.labels
    clients = expected.clients
    records = expected.records or clients
    max_count = expected.max_count or DEFAULT_MAX_COUNT
    protect = request.protect
    if table is not None:
        held = _read(request, expected, kind, table)
        counts, groups, labels = _counted(held, kind)
        clients = len(counts)
        records = int(counts.sum())
        one_each = held.each_is_client
    else:
        one_each = expected.records is None and kind is not RecordKind.SIZE and not protect.of_clients
    if one_each:
        max_count = most_of_own_records(max_count)
    assert clients is not None and records is not None and groups is not None  # `Expected` asks for them
    cap = protect.bound
    if protect.chooses_cap:
        cap = expected_cap(clients, records, max_count)
    elif cap is None and kind is RecordKind.VALUE and protect.privacy_unit is PrivacyUnit.CLIENT:
        cap = Cap(1)
    any_model = _models_of(request)[0]
    stage = ExpectedRelease(
        request=request if request.security else request.but(Trust.security, any_model),
        statistic=statistic_of(request),
        clients=clients,
        records=records,
        groups=groups,
        labels=labels or parse_shares("2", "labels"),
        max_count=max_count,
        thresholds=expected.thresholds or DEFAULT_THRESHOLDS,
        steps=expected.value_steps or DEFAULT_STEPS,
        cap=cap,
        held=counts,
    )
    stage = replace(stage, request=under_kept_relation(stage.request, stage.domain, account))
    return _after_cap(stage) if protect.chooses_cap else [stage]


def _read(request: Request, expected: Expected, kind: RecordKind, table: TabularRecords) -> ClientRecords:
    """Return the records that a plan is made for; OptionError for sizes that they replace."""
    replaced = {
        "clients": expected.clients,
        "records": expected.records,
        "groups": expected.groups,
        "labels": expected.labels,
    }
    given = [named(name) for name, value in replaced.items() if value is not None]
    if given:
        raise OptionError(f"{named('from_records')} replaces {', '.join(given)}; leave out one or the other.")
    records = read_records(Named(table, {"label": "group"} if kind is RecordKind.VALUE else {}), None)
    records.check_unit(request.protect.privacy_unit, request.protect.cap)
    return records


def _counted(
    records: ClientRecords, kind: RecordKind
) -> tuple[npt.NDArray[np.int64], dict[str, Fraction], dict[str, Fraction]]:
    """Return the records of each client by group and label, and the shares of groups and of labels."""
    valued = kind is RecordKind.VALUE
    domain = records.domain
    total = int(records.sizes.sum())
    counts = np.moveaxis(records.counts_per_client().reshape(*domain.shape, -1), -1, 0)
    if valued:
        counts = counts.sum(axis=2, keepdims=True)
    groups = _shares_of(domain.groups, counts.sum(axis=(0, 2)), total)
    labels: dict[str, Fraction] = {}
    if not valued:
        labels = _shares_of(domain.labels, counts.sum(axis=(0, 1)), total)
    return counts, groups, labels


def _shares_of(names: Sequence[str], sizes: npt.NDArray[np.int64], total: int) -> dict[str, Fraction]:
    """Return each name's part of the total."""
    return {name: Fraction(size, total) for name, size in zip(names, sizes.tolist(), strict=True)}


def expected_of(call: ReleaseCall, sizes: Mapping[str, str]) -> Expected:
    """Return the sizes with which a command plans: the call's declared ones, and the plan's own.

    `sizes` are texts of fields of `Expected`, as in `AskedPlan`.

    Raises OptionError if there are both records and a number of clients, or neither; or as `Expected`.
    """
    records = call.source.records
    is_of_file = not sizes["clients"]
    if bool(records) != is_of_file:
        raise OptionError(
            f"{named('plan', FROM_FILE)} is of the clients of {named('records')}: give both; or give a "
            "number of clients, and no records."
        )
    task = call.request.task
    texts = {**call.planned_sizes(), "from_records": as_text(records)}
    if call.declares.domain and not is_of_file:
        declared = call.declares.of_kind(kind_of(task))
        assert declared is not None  # a file declares it
        texts |= of_domain(declared, task)
    given = {name: text for name, text in {**texts, **sizes}.items() if text}
    with naming(IN_PLAN):
        return class_of_sizes(task, given)(**given)


def class_of_sizes(task: str, given: Iterable[str]) -> type[Expected]:
    """Return the class of the sizes that a plan of a task is told, some of which are given by these names.

    Raises OptionError for a size of another release.
    """
    kind = RELEASES[task].expected
    for name in given:
        if name not in kind.declared:
            raise _goes_with(named(name), planned_by(name), task)
    return kind


def of_domain(domain: RecordDomain, task: str) -> dict[str, str]:
    """Return a domain as a plan of a task shows it, each field as text."""
    declared: dict[str, Sequence[str] | int | None] = {"groups": domain.groups, "labels": domain.labels}
    if domain.values:
        declared["steps"] = domain.values.steps
    else:
        declared["max_count"] = domain.max_count
    if kind_of(task) is RecordKind.SCORE:
        declared["thresholds"] = len(domain.thresholds) or None
    return {name: as_text(value) for name, value in declared.items()}


def _after_cap(stage: ExpectedRelease) -> list[ExpectedRelease]:
    """Return the release that chooses the cap, and the release with it, which divide the budget."""
    request = stage.request
    spends, left = cap_and_release(request)
    statistic = CapStatistic(CapTarget(request.task, left, stage.thresholds, request.form.exchangeable))
    return [
        replace(stage, request=request_of_cap(request, spends), statistic=statistic, cap=None),
        replace(stage, request=request.spending(left)),
    ]


def _refuse_strangers(request: Request, expected: Expected) -> None:
    """Raise OptionError for options that do not go with this release."""
    task = request.task
    kind = kind_of(task)
    if expected.thresholds is not None and not _takes_thresholds(task):
        raise _goes_with(named("thresholds"), filter(_takes_thresholds, REQUESTS), task)
    if request.protect.cap == AUTO and task not in capped_releases():
        raise _goes_with(named("cap", AUTO), capped_releases(), task)
    if kind is RecordKind.VALUE and (expected.labels or expected.records or expected.max_count):
        raise OptionError(
            f"A client has one performance value and no label: {task} takes neither {named('labels')} nor a "
            f"number of records nor {named('max_count')}."
        )
    if kind is RecordKind.SIZE and (expected.records or expected.error):
        raise OptionError(
            "The cap is chosen by how many clients have more records than it; leave out the number of "
            "records and the error."
        )
    if "relative_error" in request.declared and expected.error:
        raise OptionError(f"{task} has {named('relative_error')} in place of an error; leave error out.")
    if request.protect.cap_epsilon and request.protect.cap != AUTO:
        raise OptionError(f"{named('cap_epsilon')} is for {named('cap', AUTO)}; give both, or neither.")


def _takes_thresholds(task: str) -> bool:
    """Whether a plan of this task can be told how many thresholds there are."""
    return kind_of(task) is RecordKind.SCORE or "thresholds" in REQUESTS[task].declared


def _goes_with(field: str, tasks: Iterable[str], task: str) -> OptionError:
    return OptionError(f"{field} goes with {' or '.join(tasks)}, not with {task}.")
