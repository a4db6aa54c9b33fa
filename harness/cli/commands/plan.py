"""`plan`: what a release would cost in each model, and how far off it would be, before anything runs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.cli.commands.choices import cap_and_release, chosen_form, chosen_law, chosen_spec
from harness.cli.release_options import CAPPED_RELEASES, ReleaseOptions
from harness.cli.report import tell
from harness.cli.task_options import DEFAULT_ERROR, PlanOptions
from harness.errors import OptionError, RecordDomainError, RecordsError
from harness.forecast.expected_accuracy import plan_releases
from harness.forecast.plan import PlanRequest, expected_cap, plan_model
from harness.forecast.unit_costs import RECORDED, read_units
from harness.forecast.wall_clock import starting_s
from harness.inputs.contribution_bounds import AUTO, Cap, caps_to_choose_from
from harness.inputs.record_schema import DEFAULT_MAX_COUNT, DEFAULT_STEPS, DEFAULT_THRESHOLDS, RecordKind
from harness.inputs.records import MOST_INFERRED
from harness.inputs.tables import read_table
from harness.releases.base import Release
from harness.releases.contribution_cap import CapStatistic, CapTarget
from harness.releases.registry import STATISTICS
from harness.request.readers import parse_shares
from harness.security_models import MODELS
from harness.views import plan as show_plan
from harness.views.parts import Part
from protocols.accounting.calibration import PrivacyUnit
from protocols.spec import PI_CAP, SLOTS

# A command until it is refused, as it begins to read; and what it would import after that.
_A_COMMAND = f"""
import cryptography.hazmat.primitives.ciphers, harness.views.releases.weights, msgspec.json
from invoke import Collection
from harness.cli.app import Commands
from harness.cli.user_commands import COMMANDS
refused = ["", "weights", "--records", {os.devnull!r}, "--epsilon", "1"]
try: Commands(namespace=Collection(*COMMANDS)).run_to_the_end(refused)
except SystemExit: pass
"""
_OF_SHARES = ("clients", "records", "groups", "labels")


def plan(options: PlanOptions) -> None:
    """Say what to expect of a release."""
    shown, found = planned(options, partial(starting_s, _A_COMMAND))
    title = f"Plan of {options.task}"
    tell("plan", title, shown, lambda: found, plot=options.plot, as_json=options.json)


def planned(
    options: PlanOptions, started: Callable[[], float] = float
) -> tuple[Sequence[Part], dict[str, Any]]:
    """Return what to expect of a release, as people and as machines read it.

    No party is started, and nothing is read but unit costs and the file that may be named.
    Args: started: says how long a command takes to begin; `float`, 0: there is none to begin.
    Raises: FairSharesError: it cannot be run so.
    """
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
    plans = []
    for model in models:
        of = [each for each in releases if model in each.models]
        tried = sum(each.design_s for each in of), sum(each.derive_s for each in of)
        plans.append(plan_model(stages, model, units, network, started, *tried))
    told = (stages, releases, plans, network, units)
    return list(show_plan.plan(*told)), show_plan.to_json(*told)


def requests(options: PlanOptions) -> list[PlanRequest]:
    """Check the options and return what they ask for: one release, or a cap's and the one with it.

    Raises: OptionError.
    """
    of_all = ("epsilon", "delta", "neighboring_relation", "privacy_unit", "input_form", "cap", "cap_epsilon")
    chosen = options.read_by_the_task(**options.given(*of_all, "input_path", "noise", "law"))
    _refuse_strangers(options)
    request = _request(options, chosen)
    return _after_cap(chosen, request) if options.chooses_cap else [request]


def _request(options: PlanOptions, chosen: ReleaseOptions) -> PlanRequest:
    kind = STATISTICS[options.task].kind
    unit = PrivacyUnit.CLIENT if kind is RecordKind.SIZE else chosen.privacy_unit
    spec = chosen_spec(chosen)
    statistic, thresholds = chosen.statistic(spec), options.thresholds or DEFAULT_THRESHOLDS
    if isinstance(statistic, CapStatistic):
        statistic = replace(statistic, target=replace(statistic.target, thresholds=thresholds))
    held, groups, labels = (
        (None, options.groups, None) if options.from_records is None else _held(options, kind)
    )
    clients = options.clients if held is None else len(held)
    records = options.records or (clients if held is None else int(held.sum()))
    max_count = options.max_count or DEFAULT_MAX_COUNT
    release = Release(
        options.model or next(iter(MODELS.values())),
        chosen_form(spec.input_forms, chosen.input_form, chosen.input_path),
        chosen.epsilon,
        chosen.delta,
        chosen.neighboring_relation,
        unit,
        chosen_law(chosen.noise, chosen.law),
    )
    only_one = Cap(1) if kind is RecordKind.VALUE and unit is PrivacyUnit.CLIENT else None
    return PlanRequest(
        options.task,
        statistic,
        release,
        clients,
        records,
        groups,
        labels or options.labels or parse_shares("2", "--labels"),
        max_count,
        thresholds,
        options.steps or DEFAULT_STEPS,
        expected_cap(clients, records, max_count) if options.chooses_cap else chosen.cap or only_one,
        held,
    )


def _held(
    options: PlanOptions, kind: RecordKind
) -> tuple[npt.NDArray[np.int64], dict[str, Fraction], dict[str, Fraction]]:
    """Return how many records each client of the file has per group and label, and these by name.

    The shares of groups and labels are those of the file; performance values have one label.
    """
    import pandas as pd

    assert options.from_records is not None
    given = [options.declared[name].flag for name in _OF_SHARES if options.texts[name]]
    if given:
        raise OptionError(f"--from-records replaces {', '.join(given)}; leave out one or the other.")
    columns = ["client_id", "group", *([] if kind is RecordKind.VALUE else ["label"])]
    (frame, _), where = read_table(options.from_records, columns), options.texts["from_records"]
    if not frame["client_id"]:
        raise RecordsError(f"{where} has no records: there is no row below the header.")
    codes = {name: pd.factorize(np.array(frame[name], dtype=object), sort=True) for name in columns}
    shape = tuple(len(names) for _, names in codes.values())
    for name, (_, names) in list(codes.items())[1:]:
        if not 2 <= len(names) <= MOST_INFERRED:
            raise RecordDomainError(
                f"{where} has {len(names):,} different {name}s; a plan is for 2 to {MOST_INFERRED}."
            )
    flat = np.ravel_multi_index(tuple(index for index, _ in codes.values()), shape)
    held = np.bincount(flat, minlength=math.prod(shape)).reshape(*shape, *([1] * (3 - len(shape))))
    shares = [
        {
            str(name): Fraction(int(n), len(frame["group"]))
            for name, n in zip(codes[each][1], counts, strict=True)
        }
        for each, counts in zip(columns[1:], (held.sum(axis=(0, 2)), held.sum(axis=(0, 1))), strict=False)
    ]
    return held, shares[0], shares[1] if len(shares) > 1 else {}


def _after_cap(options: ReleaseOptions, request: PlanRequest) -> list[PlanRequest]:
    """Return the release of a cap, and the one that it is for, with what that leaves."""
    of_cap, left = cap_and_release(options)
    release = replace(request.release, epsilon=left.epsilon, delta=left.delta)
    exchangeable, form = release.form.exchangeable, PI_CAP.input_forms[SLOTS.name].by(release.form.path)
    target = CapTarget(options.task, left.epsilon, left.delta, request.thresholds, exchangeable)
    first = replace(
        request,
        task="cap",
        statistic=CapStatistic(target),
        release=replace(release, form=form, epsilon=of_cap.epsilon, delta=of_cap.delta, law=None),
        cap=None,
    )
    return [first, replace(request, release=release)]


def _refuse_strangers(options: PlanOptions) -> None:
    """Refuse options of other tasks: they would be left out without a word."""
    task = options.task
    of = {"thresholds": ("thresholds", "cap"), "steps": ("gap",)}
    given = {options.declared[name].flag: tasks for name, tasks in of.items() if options.texts[name]}
    if options.chooses_cap:
        given["--cap auto"] = CAPPED_RELEASES
        if options.texts["horizon"]:
            raise OptionError("--horizon is of uploads, which were shared with a cap; give --cap a number.")
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
            "--task cap chooses the cap, by how many clients have more records than it; leave out "
            "--records, --cap and --error."
        )
    if task == "count" and options.error:
        raise OptionError("--task count has --relative-error in place of --error; leave --error out.")
    if options.cap_epsilon and not options.chooses_cap:
        raise OptionError(f"--cap-epsilon is for --cap {AUTO}; give both, or neither.")
