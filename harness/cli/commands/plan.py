"""`plan`: what a release would cost in each model, and how far off it would be, before anything runs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from harness.cli import terminal as cli
from harness.cli.commands.cap import COUNTS, RELEASES, THRESHOLDS, release_to_come
from harness.cli.commands.choices import cap_and_release, chosen_form
from harness.cli.commands.thresholds import VARIANTS
from harness.cli.options import (
    parse_cap,
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_error_target,
    parse_max_count,
    parse_relation,
    parse_shares,
    parse_whole,
    require,
)
from harness.cli.tasking import ERROR_TARGET
from harness.cli.terminal import command
from harness.engines.network.profiles import parse_network
from harness.errors import OptionError
from harness.forecast.expected_accuracy import plan_releases
from harness.forecast.plan import TASKS, PlanRequest, Task, expected_cap, plan_model
from harness.forecast.unit_costs import RECORDED, read_units
from harness.inputs.contribution_bounds import AUTO, Cap, caps_to_choose_from
from harness.inputs.record_schema import (
    DEFAULT_MAX_COUNT,
    DEFAULT_STEPS,
    DEFAULT_THRESHOLDS,
    MAX_STEPS,
    MAX_THRESHOLDS,
    RecordKind,
)
from harness.pipeline.run import Settings
from harness.postprocessing.reweighing.formulas import REWEIGHINGS
from harness.releases.contribution_cap import CapTarget
from harness.security_models import MODELS, get_model
from harness.views import plan as show_plan
from protocols.accounting.calibration import PrivacyUnit
from protocols.spec import PI_CAP, SLOTS

MOST = 10**12  # clients, or records
_ERROR = "0.01"
_CAPPED = tuple(task for task in RELEASES if task != COUNTS)  # what --cap auto can choose a cap for
_OF_CAP = ("release", "release_epsilon", "counts")


@dataclass(frozen=True)
class PlanOptions:
    """The options of `plan`, by their names and as given."""

    task: str
    variant: str
    clients: str
    records: str
    groups: str
    labels: str
    thresholds: str
    steps: str
    max_count: str
    epsilon: str
    delta: str
    neighboring_relation: str
    privacy_unit: str
    cap: str
    cap_epsilon: str
    release: str
    release_epsilon: str
    counts: str
    relative_error: str
    error_from: str
    error_to: str
    input_form: str
    reveal: str
    reweighing: str
    model: str
    network: str
    error: str
    units: str
    json: bool

    def stages(self) -> list[PlanRequest]:
        """Check the options and return what they ask for: one release, or a cap's and the one with it.

        Raises: OptionError.
        """
        kinds = TASKS[parse_choice("--task", self.task, list(TASKS))]
        self._refuse_strangers()
        require({"--clients": self.clients, "--groups": self.groups, "--epsilon": self.epsilon})
        curves = self.task == THRESHOLDS
        option, kind = ("--variant", self.variant) if curves else ("--reveal", self.reveal)
        asked = self._asked(kinds[parse_choice(option, kind or next(iter(kinds)), list(kinds))])
        return [asked] if self.cap != AUTO else self._after_cap(asked)

    def _asked(self, task: Task) -> PlanRequest:
        unit = PrivacyUnit(parse_choice("--privacy-unit", self.privacy_unit, list(map(str, PrivacyUnit))))
        sized, valued = task.detail is RecordKind.SIZE, task.detail is RecordKind.VALUE
        if sized:
            unit = PrivacyUnit.CLIENT
        if unit is PrivacyUnit.CLIENT and task.of_slots and self.input_form in ("", SLOTS.name):
            task = replace(task, spec=task.of_slots)
        clients = parse_whole("--clients", self.clients, 1, MOST)
        records = parse_whole("--records", self.records, 1, MOST) if self.records else clients
        max_count = parse_max_count(self.max_count) if self.max_count else DEFAULT_MAX_COUNT
        settings = Settings(
            get_model(self.model) if self.model else next(iter(MODELS.values())),
            chosen_form(task.spec.input_forms, self.input_form),
            parse_epsilon(self.epsilon),
            parse_delta(self.delta),
            parse_relation(self.neighboring_relation),
            unit,
        )
        asked = PlanRequest(
            task,
            settings,
            clients,
            records,
            parse_shares("--groups", self.groups),
            parse_shares("--labels", self.labels or "2"),
            max_count,
            _whole_or("--thresholds", self.thresholds, 2, MAX_THRESHOLDS, DEFAULT_THRESHOLDS),
            _whole_or("--steps", self.steps, 1, MAX_STEPS, DEFAULT_STEPS),
            parse_choice("--reweighing", self.reweighing or next(iter(REWEIGHINGS)), list(REWEIGHINGS)),
            self._cap(clients, records, max_count, only_one=valued and unit is PrivacyUnit.CLIENT),
        )
        if sized:
            following, variant = release_to_come(
                self.release or RELEASES[0],
                self.release_epsilon,
                self.counts,
                self.variant,
                settings.delta,
            )
            form = chosen_form(VARIANTS[variant].input_forms, "") if variant else settings.form
            following = replace(following, thresholds=asked.thresholds, malleable_slots=form.exchangeable)
            return replace(asked, following=following)
        given = {name: getattr(self, name) or usual for name, usual in ERROR_TARGET.items()}
        return replace(asked, target=parse_error_target(**given)) if self.task == "count" else asked

    def _cap(self, clients: int, records: int, max_count: int, *, only_one: bool) -> Cap | None:
        if self.cap == AUTO:
            return expected_cap(clients, records, max_count)
        return parse_cap(self.cap) if self.cap else Cap(1) if only_one else None

    def _after_cap(self, asked: PlanRequest) -> list[PlanRequest]:
        """Return the release of a cap, and the one that it is for, with what that leaves."""
        of_cap, left = cap_and_release(self.epsilon, self.delta, self.cap_epsilon)
        settings = replace(asked.settings, epsilon=left.epsilon, delta=left.delta)
        exchangeable, (choice,) = settings.form.exchangeable, TASKS["cap"].values()
        first = replace(
            asked,
            task=choice,
            settings=replace(
                settings,
                form=PI_CAP.input_forms[SLOTS.name],
                epsilon=of_cap.epsilon,
                delta=of_cap.delta,
            ),
            cap=None,
            following=CapTarget(self.task, left.epsilon, left.delta, asked.thresholds, exchangeable),
        )
        return [first, replace(asked, settings=settings)]

    def _refuse_strangers(self) -> None:
        """Refuse options of other tasks: they would be left out without a word."""
        of: dict[str, tuple[tuple[str, ...], str]] = {
            "--variant": ((THRESHOLDS, "cap"), self.variant),
            "--thresholds": ((THRESHOLDS, "cap"), self.thresholds),
            "--steps": (("gap",), self.steps),
            "--reveal": (("weights",), self.reveal),
            "--reweighing": (("weights",), self.reweighing),
            **{
                f"--{name.replace('_', '-')}": ((task,), getattr(self, name))
                for task, names in {"cap": _OF_CAP, "count": tuple(ERROR_TARGET)}.items()
                for name in names
            },
            "--cap auto": (_CAPPED, self.cap if self.cap == AUTO else ""),
        }
        for option, (tasks, value) in of.items():
            if value and self.task not in tasks:
                allowed = " or ".join(tasks)
                raise OptionError(f"{option} goes with --task {allowed}, not with --task {self.task}.")
        if self.task == "gap" and (self.labels or self.records or self.max_count):
            raise OptionError(
                "A client has one performance value and no label: --task gap takes neither --labels nor "
                "--records nor --max-count."
            )
        if self.task == "cap" and (self.records or self.cap or self.error):
            raise OptionError(
                "A cap is yet to be chosen, by how many clients have more records than it: --task cap takes "
                "neither --records nor --cap nor --error."
            )
        if self.task == "count" and self.error:
            raise OptionError("--task count keeps to --relative-error; leave out --error.")
        if self.cap_epsilon and self.cap != AUTO:
            raise OptionError(f"--cap-epsilon is what --cap {AUTO} may spend; say both, or neither.")

    def target(self) -> float:
        """Return the error that is aimed at. Raises: OptionError."""
        try:
            value = float(Fraction(self.error or _ERROR))
        except (ValueError, ZeroDivisionError):
            value = math.nan
        if not 0 < value < 1:
            raise OptionError(
                f"--error must be a share between 0 and 1, for example {_ERROR}; got {self.error[:80]!r}."
            )
        return value


def _whole_or(option: str, text: str, least: int, most: int, usual: int) -> int:
    return parse_whole(option, text, least, most) if text else usual


@command
def plan(options: PlanOptions) -> None:
    """Say what to expect of a release; nothing is run, and nothing is read but unit costs."""
    if options.json:
        cli.out.stderr = True  # nothing but JSON on stdout
    stages, network, target = options.stages(), parse_network(options.network), options.target()
    units = read_units(Path(options.units) if options.units else RECORDED)
    models = [get_model(options.model)] if options.model else list(MODELS.values())
    for asked in stages:
        asked.check_size()
    releases = [each for asked in stages for each in plan_releases(asked, models, target)]
    if len(stages) > 1:  # as a run does: what it chooses has to fit, and may be the largest
        for each in releases:
            largest = Cap(caps_to_choose_from(each.asked.max_count)[-1])
            if each.asked.cap is not None:
                replace(each.asked, cap=largest).noise()
    plans = [plan_model(stages, model, units, network) for model in models]
    if options.json:
        found = show_plan.to_json(stages, releases, plans, network, units)
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    show_plan.show(stages, releases, plans, network, units)
