"""`plan`: what a release would cost in each model, and how far off it would be, before anything runs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.table import Table

from harness import cli
from harness.cli import command, plain, say
from harness.commands.chosen import chosen_form
from harness.contributions import Cap
from harness.errors import OptionError
from harness.models import MODELS, Model, get_model
from harness.networks import Network, parse_network
from harness.options import (
    parse_cap,
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_max_count,
    parse_relation,
    parse_shares,
    parse_whole,
    require,
)
from harness.pipeline import Settings
from harness.planning.errors import Expected
from harness.planning.plans import TASKS, Asked, ModelPlan, epsilon_for, expected, plan_model
from harness.planning.units import RECORDED, UnitCosts, read_units
from harness.postprocess import REWEIGHINGS
from harness.records import DEFAULT_MAX_COUNT, Detail
from harness.results import SCHEMA
from harness.rounding import digits_up, float_up
from harness.scores import DEFAULT_THRESHOLDS, MAX_THRESHOLDS
from harness.values import DEFAULT_STEPS, MAX_STEPS
from protocols.budget import PrivacyUnit
from protocols.spec import SLOTS

MOST = 10**12  # clients, or records
_PARTIES_HERE = (
    "Seconds are those of the computation, as runs report them, of all parties on one machine like the one "
    "that was measured; hosts of their own, as fast and on that network, should not take longer."
)


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
    input_form: str
    reveal: str
    reweighing: str
    model: str
    network: str
    error: str
    units: str
    json: bool

    def asked(self) -> Asked:
        """Check the options and return what they ask for. Raises: OptionError."""
        kinds = TASKS[parse_choice("--task", self.task, list(TASKS))]
        self._refuse_strangers()
        require({"--clients": self.clients, "--groups": self.groups, "--epsilon": self.epsilon})
        kind = self.reveal or self.variant or next(iter(kinds))
        option = "--variant" if self.task == "thresholds" else "--reveal"
        task = kinds[parse_choice(option, kind, list(kinds))]
        unit = PrivacyUnit(parse_choice("--privacy-unit", self.privacy_unit, list(map(str, PrivacyUnit))))
        if unit is PrivacyUnit.CLIENT and task.of_slots and self.input_form in ("", SLOTS.name):
            task = replace(task, spec=task.of_slots)
        clients = parse_whole("--clients", self.clients, 1, MOST)
        models = list(MODELS.values())
        settings = Settings(
            get_model(self.model) if self.model else models[0],
            chosen_form(task.spec.input_forms, self.input_form),
            parse_epsilon(self.epsilon),
            parse_delta(self.delta),
            parse_relation(self.neighboring_relation),
            unit,
        )
        valued = task.detail is Detail.VALUE and unit is PrivacyUnit.CLIENT
        return Asked(
            task,
            settings,
            clients,
            parse_whole("--records", self.records, 1, MOST) if self.records else clients,
            parse_shares("--groups", self.groups),
            parse_shares("--labels", self.labels or "2"),
            parse_max_count(self.max_count) if self.max_count else DEFAULT_MAX_COUNT,
            _whole_or("--thresholds", self.thresholds, 2, MAX_THRESHOLDS, DEFAULT_THRESHOLDS),
            _whole_or("--steps", self.steps, 1, MAX_STEPS, DEFAULT_STEPS),
            parse_choice("--reweighing", self.reweighing or next(iter(REWEIGHINGS)), list(REWEIGHINGS)),
            parse_cap(self.cap) if self.cap else Cap(1) if valued else None,
        )

    def _refuse_strangers(self) -> None:
        """Refuse options of other tasks: they would be left out without a word."""
        of = {
            "--variant": ("thresholds", self.variant),
            "--thresholds": ("thresholds", self.thresholds),
            "--steps": ("gap", self.steps),
            "--reveal": ("weights", self.reveal),
            "--reweighing": ("weights", self.reweighing),
        }
        for option, (task, value) in of.items():
            if value and task != self.task:
                raise OptionError(f"{option} goes with --task {task}, not with --task {self.task}.")
        if self.task == "gap" and (self.labels or self.records or self.max_count):
            raise OptionError(
                "A client has one performance value and no label: --task gap takes neither --labels nor "
                "--records nor --max-count."
            )

    def target(self) -> float:
        """Return the error that is aimed at. Raises: OptionError."""
        try:
            value = float(Fraction(self.error))
        except (ValueError, ZeroDivisionError):
            value = math.nan
        if not 0 < value < 1:
            raise OptionError(
                f"--error must be a share between 0 and 1, for example 0.01; got {self.error[:80]!r}."
            )
        return value


def _whole_or(option: str, text: str, least: int, most: int, usual: int) -> int:
    return parse_whole(option, text, least, most) if text else usual


@command
def plan(options: PlanOptions) -> None:
    """Say what to expect of a release; nothing is run, and nothing is read but unit costs."""
    if options.json:
        cli.out.stderr = True  # nothing but JSON on stdout
    asked, network, target = options.asked(), parse_network(options.network), options.target()
    units = read_units(Path(options.units) if options.units else RECORDED)
    models = [get_model(options.model)] if options.model else list(MODELS.values())
    asked.check_size()
    releases = _releases(asked, models, target)
    plans = [plan_model(asked, model, units, network) for model in models]
    if options.json:
        print(json.dumps(_to_json(asked, releases, plans, network, units), indent=2, ensure_ascii=False))
        return
    for each in releases:
        _show_errors(each)
    _show_costs(plans, network, units)


@dataclass(frozen=True)
class _Release:
    """What to expect of a release in models that add the same noise, and what an error takes.

    Attributes: error: that is aimed at; people: how many records, or clients, it takes at this epsilon;
    epsilon: that it takes with these, None if none is enough; alone: whether all models are here.
    """

    models: tuple[Model, ...]
    asked: Asked
    errors: Expected
    error: float
    people: int
    epsilon: Fraction | None
    alone: bool


def _releases(asked: Asked, models: list[Model], target: float) -> list[_Release]:
    """Return one for all models, or one for those that withstand active parties and one for the others."""
    found = []
    for exchanged in (False, True):
        alike = tuple(model for model in models if asked.by(model).settings.exchanged is exchanged)
        if alike:
            here = asked.by(alike[0])
            errors = expected(here)
            people, epsilon = errors.records_for(_people(asked), target), epsilon_for(here, errors, target)
            found.append(_Release(alike, here, errors, target, people, epsilon, len(alike) == len(models)))
    return found


def _by_clients(asked: Asked) -> bool:
    return asked.task.detail is Detail.VALUE or asked.cap is not None


def _people(asked: Asked) -> int:
    return asked.clients if _by_clients(asked) else asked.records


def _show_errors(release: _Release) -> None:
    asked, errors = release.asked, release.errors
    noise, valued, cap = asked.noise(), asked.task.detail is Detail.VALUE, asked.cap
    spent, delta = digits_up(noise.exact.epsilon, 4), digits_up(noise.exact.delta, 4)
    where = "" if release.alone else f", in {', '.join(model.name for model in release.models)}"
    say(f"[bold]What would come out[/]{where}, at ε = {spent} and δ = {delta} ({noise.relation})")
    if cap and not valued:
        say(f"{cap.described[0].upper()}{cap.described[1:]}.")
        if not cap.weight_one and asked.records > asked.clients * cap.slots:
            say(f"What it leaves out of {asked.records / asked.clients:,.3g} records each is no error here.")
    counted = {Detail.SCORE: "of records at or above a threshold", Detail.VALUE: "of a group's clients"}
    say(f"Count {counted.get(asked.task.detail, 'of a group and label')}: off by {errors.count:,.3g} (RMS).")
    worst = max(errors.each, key=errors.each.__getitem__)
    table = Table("of" if valued else "group, label", f"error of the {errors.what} (RMS)")
    table.columns[1].justify = "right"
    for name, value in list(errors.each.items())[:20]:
        table.add_row(plain(name), _share(value))
    if len(errors.each) > 20:
        table.add_row(
            f"… {len(errors.each) - 20} more; the worst: {plain(worst)}", _share(errors.each[worst])
        )
    cli.out.print(table)
    if errors.gap is not None:
        say(f"Groups that are alike would seem {_share(errors.gap)} apart, by the noise alone.")
    if not errors.known:
        say("[bold]Mostly noise[/]: above 10 % these figures only say that it is too much.")
    epsilon = "no ε up to 20" if release.epsilon is None else f"ε = {float(release.epsilon):g}"
    unit = "clients" if _by_clients(asked) else "records"
    say(
        f"For an error of {_share(release.error)}: {release.people:,} {unit} at this ε, or {epsilon} with "
        f"these {_people(asked):,}."
    )


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 1 else "over 100 %"


def _show_costs(plans: list[ModelPlan], network: Network | None, units: UnitCosts) -> None:
    where = "all parties on one machine" if network is None else f"network {plain(network.name)}"
    say(f"\n[bold]What it would cost[/], {where}")
    table = Table("model", "withstands", "seconds", "sent by all", "rounds", "here")
    for name in table.columns[2:5]:
        name.justify = "right"
    for each in plans:
        here = "[green]yes[/]" if each.missing is None else "[red]no[/]"
        figures = ["–"] * 3
        if each.cost is not None:
            rounds = each.cost.rounds
            figures = [
                f"{each.cost.mpc_s:,.2g}" if each.cost.mpc_s < 10 else f"{each.cost.mpc_s:,.0f}",
                _bytes(each.cost.sent_bytes),
                "–" if rounds is None else f"{rounds:,.0f}",
            ]
        table.add_row(each.model.name, f"{each.model.corruptions} {each.model.tolerates}", *figures, here)
    cli.out.print(table)
    for reason in dict.fromkeys(each.refusal for each in plans if each.refusal):
        names = ", ".join(each.model.name for each in plans if each.refusal == reason)
        say(f"{names}: {plain(reason)}")
    machine = units.measured["environment"]
    say(
        f"{_PARTIES_HERE} Measured on {plain(str(machine.get('cores')))} cores, "
        f"{plain(str(units.measured['time'])[:10])}; docs/planning.md says how good such predictions were."
    )


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count:,.0f} B"


def _to_json(
    asked: Asked,
    releases: list[_Release],
    plans: list[ModelPlan],
    network: Network | None,
    units: UnitCosts,
) -> dict[str, Any]:
    valued = asked.task.detail is Detail.VALUE
    return {
        "schema": SCHEMA,
        "task": asked.task.name,
        "protocol": asked.task.spec.name,
        "input_form": asked.settings.form.name,
        "clients": asked.clients,
        "records": asked.clients if valued else asked.records,
        "cap": None if asked.cap is None else asked.cap.to_json(),
        "groups": {name: float(share) for name, share in asked.groups.items()},
        "labels": None if valued else {name: float(share) for name, share in asked.labels.items()},
        "thresholds": asked.thresholds if asked.task.detail is Detail.SCORE else None,
        "releases": [_release_json(each) for each in releases],
        "network": None
        if network is None
        else {
            "name": network.name,
            "rtt_s": network.rtt_s,
            "bandwidth_bits_per_s": network.bandwidth_bits_per_s,
        },
        "models": [_model_json(each) for each in plans],
        "units": dict(units.measured),
    }


def _release_json(release: _Release) -> dict[str, Any]:
    asked, errors, noise = release.asked, release.errors, release.asked.noise()
    return {
        "models": [model.name for model in release.models],
        "privacy": {
            "epsilon_requested": str(asked.settings.epsilon),
            "epsilon": float_up(noise.exact.epsilon),
            "delta": float_up(noise.exact.delta),
            "neighboring_relation": str(noise.relation),
            "privacy_unit": str(noise.unit),
        },
        "errors": {
            "count_rmse": errors.count,
            "of": errors.what,
            "rmse": dict(errors.each),
            "gap": errors.gap,
            "known": errors.known,
        },
        "needed": {
            "error": release.error,
            "clients" if _by_clients(asked) else "records": release.people,
            "epsilon": None if release.epsilon is None else float(release.epsilon),
        },
    }


def _model_json(each: ModelPlan) -> dict[str, Any]:
    cost = each.cost
    return {
        "model": each.model.name,
        "tolerates": each.model.tolerates,
        "mpc_s": None if cost is None else cost.mpc_s,
        "sent_bytes": None if cost is None else round(cost.sent_bytes),
        "rounds": None if cost is None or cost.rounds is None else round(cost.rounds),
        "reason": each.refusal,
        "available": each.missing is None,
    }
