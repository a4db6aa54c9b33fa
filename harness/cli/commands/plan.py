"""`plan`: what a release would cost in each model, and how far off it would be, before anything runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from harness.cli.commands.cap import COUNTS, RELEASES, THRESHOLDS, cap_target
from harness.cli.commands.choices import cap_and_release, chosen_form
from harness.cli.commands.thresholds import VARIANTS
from harness.cli.options import DEFAULT_ERROR, CapTargetOptions, ErrorOptions, PlanOptions
from harness.cli.parsers import parse_choice, parse_shares
from harness.cli.terminal import show
from harness.errors import OptionError
from harness.forecast.expected_accuracy import plan_releases
from harness.forecast.plan import PlanRequest, expected_cap, plan_model
from harness.forecast.unit_costs import RECORDED, read_units
from harness.inputs.contribution_bounds import AUTO, Cap, caps_to_choose_from
from harness.inputs.record_schema import DEFAULT_MAX_COUNT, DEFAULT_STEPS, DEFAULT_THRESHOLDS, RecordKind
from harness.postprocessing.reweighing.formulas import REWEIGHINGS
from harness.releases.base import Release, Statistic
from harness.releases.confusion import ConfusionStatistic
from harness.releases.contribution_cap import CapStatistic, CapTarget
from harness.releases.counts import CountStatistic
from harness.releases.gaps import GapStatistic
from harness.releases.registry import STATISTICS
from harness.releases.score_curves import CurvesStatistic
from harness.releases.weights import WeightsOnlyStatistic, WeightsStatistic
from harness.security_models import MODELS
from harness.views import plan as show_plan
from protocols.accounting.calibration import PrivacyUnit
from protocols.spec import PI_CAP, PI_RW_WEIGHTS, SLOTS, ProtocolSpec

_CAPPED = tuple(task for task in RELEASES if task != COUNTS)  # what --cap auto can choose a cap for
_OF_CAP, _OF_COUNT = ("release", "release_epsilon", "counts"), tuple(ErrorOptions.declared)


def plan(options: PlanOptions) -> None:
    """Say what to expect of a release; nothing is run, and nothing is read but unit costs."""
    stages, network = requests(options), options.network
    target = options.error or float(DEFAULT_ERROR)
    units = read_units(options.units or RECORDED)
    models = [options.model] if options.model else list(MODELS.values())
    for request in stages:
        request.check_size()
    releases = [each for request in stages for each in plan_releases(request, models, target)]
    if len(stages) > 1:  # as a run does: what it chooses has to fit, and may be the largest
        for each in releases:
            largest = Cap(caps_to_choose_from(each.asked.max_count)[-1])
            if each.asked.cap is not None:
                _ = replace(each.asked, cap=largest).prepared
    plans = [plan_model(stages, model, units, network) for model in models]
    if options.json:
        found = show_plan.to_json(stages, releases, plans, network, units)
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    show(*show_plan.plan(stages, releases, plans, network, units))


def requests(options: PlanOptions) -> list[PlanRequest]:
    """Check the options and return what they ask for: one release, or a cap's and the one with it.

    Raises: OptionError.
    """
    specs = STATISTICS[options.task].specs
    _refuse_strangers(options)
    option, variant = (
        ("--variant", options.variant) if options.task == THRESHOLDS else ("--reveal", options.reveal)
    )
    request = _request(options, specs[parse_choice(option, variant or next(iter(specs)), list(specs))])
    return _after_cap(options, request) if options.chooses_cap else [request]


def _request(options: PlanOptions, spec: ProtocolSpec) -> PlanRequest:
    statistic = STATISTICS[options.task]
    sized, valued = statistic.kind is RecordKind.SIZE, statistic.kind is RecordKind.VALUE
    unit = PrivacyUnit.CLIENT if sized else options.privacy_unit
    default = spec is next(iter(statistic.specs.values()))
    by_slots = unit is PrivacyUnit.CLIENT and options.input_form in (None, SLOTS.name)
    if default and by_slots and statistic.slots:
        spec = statistic.slots
    clients, records = options.clients, options.records or options.clients
    max_count = options.max_count or DEFAULT_MAX_COUNT
    release = Release(
        options.model or next(iter(MODELS.values())),
        chosen_form(spec.input_forms, options.input_form),
        options.epsilon,
        options.delta,
        options.neighboring_relation,
        unit,
    )
    only_one = Cap(1) if valued and unit is PrivacyUnit.CLIENT else None
    cap = expected_cap(clients, records, max_count) if options.chooses_cap else options.cap or only_one
    return PlanRequest(
        options.task,
        _statistic(options, spec, release),
        release,
        clients,
        records,
        options.groups,
        options.labels or parse_shares("2", "--labels"),
        max_count,
        options.thresholds or DEFAULT_THRESHOLDS,
        options.steps or DEFAULT_STEPS,
        cap,
    )


def _statistic(options: PlanOptions, spec: ProtocolSpec, release: Release) -> Statistic[Any]:
    """Return what would be computed."""
    if options.task == "weights":
        scheme = options.reweighing or next(iter(REWEIGHINGS))
        return WeightsOnlyStatistic(scheme) if spec is PI_RW_WEIGHTS else WeightsStatistic(scheme, spec)
    if options.task == "count":
        return CountStatistic(ErrorOptions(**options.given(*_OF_COUNT)).target())
    if options.task == "cap":
        target, variant = cap_target(CapTargetOptions(**options.given(*_OF_CAP, "variant")), release.delta)
        form = chosen_form(VARIANTS[variant].input_forms) if variant else release.form
        thresholds = options.thresholds or DEFAULT_THRESHOLDS
        return CapStatistic(replace(target, thresholds=thresholds, malleable_slots=form.exchangeable))
    if options.task == THRESHOLDS:
        return CurvesStatistic(spec=spec)
    return ConfusionStatistic(spec) if options.task == "confusion" else GapStatistic(spec)


def _after_cap(options: PlanOptions, request: PlanRequest) -> list[PlanRequest]:
    """Return the release of a cap, and the one that it is for, with what that leaves."""
    of_cap, left = cap_and_release(options)
    release = replace(request.release, epsilon=left.epsilon, delta=left.delta)
    exchangeable, form = release.form.exchangeable, PI_CAP.input_forms[SLOTS.name]
    target = CapTarget(options.task, left.epsilon, left.delta, request.thresholds, exchangeable)
    first = replace(
        request,
        task="cap",
        statistic=CapStatistic(target),
        release=replace(release, form=form, epsilon=of_cap.epsilon, delta=of_cap.delta),
        cap=None,
    )
    return [first, replace(request, release=release)]


def _refuse_strangers(options: PlanOptions) -> None:
    """Refuse options of other tasks: they would be left out without a word."""
    task = options.task
    of: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(("variant", "thresholds"), (THRESHOLDS, "cap")),
        "steps": ("gap",),
        **dict.fromkeys(("reveal", "reweighing"), ("weights",)),
        **dict.fromkeys(_OF_CAP, ("cap",)),
        **dict.fromkeys(_OF_COUNT, ("count",)),
    }
    given = {options.declared[name].flag: tasks for name, tasks in of.items() if options.texts[name]}
    if options.chooses_cap:
        given["--cap auto"] = _CAPPED
    for flag, tasks in given.items():
        if task not in tasks:
            raise OptionError(f"{flag} goes with --task {' or '.join(tasks)}, not with --task {task}.")
    if task == "gap" and (options.texts["labels"] or options.records or options.max_count):
        raise OptionError(
            "A client has one performance value and no label: --task gap takes neither --labels nor "
            "--records nor --max-count."
        )
    if task == "cap" and (options.records or options.texts["cap"] or options.error):
        raise OptionError(
            "A cap is yet to be chosen, by how many clients have more records than it: --task cap takes "
            "neither --records nor --cap nor --error."
        )
    if task == "count" and options.error:
        raise OptionError("--task count keeps to --relative-error; leave out --error.")
    if options.cap_epsilon and not options.chooses_cap:
        raise OptionError(f"--cap-epsilon is what --cap {AUTO} may spend; say both, or neither.")
