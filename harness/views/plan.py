"""Plans: expected results, and costs in each model."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from fairshares.harness.forecast.plan import ExpectedRelease, ModelPlan, Needed, ReleasePlan, WallClock
from fairshares.harness.forecast.requested import RequestPlan
from fairshares.harness.forecast.unit_costs import Cost, UnitCosts
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.privacy.statement import what_changes
from fairshares.harness.request.networks import NetworkProfile
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.result_files import SCHEMA
from fairshares.harness.views.expected_errors import PlanSection, models_named, unit_of
from fairshares.harness.views.parts import Bad, Findings, Good, Heading, Part, Table
from fairshares.harness.views.rendering.plots import intervals, with_ends
from fairshares.harness.views.run_summary import at_every_epsilon, view_of
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.accounting.rounding import digits_up, float_up
from fairshares.protocols.json_values import JsonValue

_WALL_CLOCK = ("wall_s", "start_s", "design_s", "read_s", "share_s", "compile_s", "derive_s")
_UNPROTECTED = (
    "These figures come from the file itself, without noise: they are for the owner of its records only. "
    "No ε was spent."
)


def plan(asked_for: RequestPlan) -> Iterator[Part]:
    """Show the expected results, then the costs."""
    stages = asked_for.stages
    releases = asked_for.releases
    chooses_cap = len(stages) > 1  # a release chooses the cap of the other
    if chooses_cap:
        choice, after = stages
        yield (
            f"Two releases: ε = {digits_up(choice.request.protect.epsilon, 4)} is for choosing the cap, ε = "
            f"{digits_up(after.request.protect.epsilon, 4)} for the {after.request.task} with it."
        )
    if stages[-1].held is not None:
        yield Findings([_UNPROTECTED])
        yield _UNPROTECTED
    for number, release in enumerate(releases, 1):
        yield _heading(release, chooses_cap)
        expected = view_of(release.asked.request.task).expected
        yield from expected(PlanSection(release, number, chooses_cap))
    guarantees = {}
    for release in releases:
        name = f"{release.asked.request.task}{models_named(release)}"
        guarantees[name] = release.asked.prepared.plan.exact
    yield at_every_epsilon(guarantees)
    yield from _costs(stages, asked_for.models, asked_for.network, asked_for.units)


def _heading(release: ReleasePlan, names_task: bool) -> Heading:
    """Return a release's heading, with its task's name where a plan has two releases."""
    noise = release.asked.prepared.plan
    task = f" of {release.asked.request.task}" if names_task else ""
    epsilon = digits_up(noise.exact.epsilon, 4)
    delta = digits_up(noise.exact.delta, 4)
    existence = ""
    if noise.relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        replaced = noise.if_replaced
        existence = (
            f"; for what it says, ε = {digits_up(replaced.epsilon, 4)} and δ = {digits_up(replaced.delta, 4)}"
        )
    changed = what_changes(noise.unit, noise.relation)
    return Heading(
        f"What would come out{task}",
        f"{models_named(release)}, at ε = {epsilon} and δ = {delta}, {changed}{existence}",
    )


def _costs(
    stages: Sequence[ExpectedRelease],
    plans: Sequence[ModelPlan],
    network: NetworkProfile | None,
    units: UnitCosts,
) -> Iterator[Part]:
    """Show what the releases of a plan cost in each model."""
    where = "all parties on one machine" if network is None else f"network {network.name}"
    together = ""
    if len(stages) > 1:
        tasks = " and ".join(stage.request.task for stage in stages)
        together = f", {tasks} together"
    yield Heading("What it would cost", f", {where}{together}")
    seconds = {planned.model.title: planned.cost.mpc_s for planned in plans if planned.cost is not None}
    if seconds:
        fastest = min(seconds, key=lambda name: seconds[name])
        yield Findings([f"The fastest model is {fastest}: {seconds[fastest]:,.2g} s in the computation."])
        yield intervals(
            "seconds",
            list(seconds),
            {"": with_ends(list(seconds.values()), None)},
            "seconds in the computation",
            "Predicted seconds in each model.",
            logarithmic=True,
        )
    rows = []
    for planned in plans:
        withstands = f"{planned.model.corruptions} {planned.model.tolerates}"
        here = Good("yes") if planned.missing is None else Bad("no")
        rows.append([planned.model.title, withstands, *_figures(planned.cost), here])
    yield Table(["security", "withstands", "seconds", "sent by all", "rounds", "here"], rows, "llrrrl")
    if any(planned.ahead for planned in plans):
        yield Heading("What making the noise before would cost", f", {where}")
        yield Table(
            ["security", "seconds", "sent by all", "rounds"],
            [[planned.model.title, *_figures(planned.ahead)] for planned in plans],
            "lrrr",
        )
    names_by_refusal: dict[str, list[str]] = {}
    for planned in plans:
        if planned.refusal:
            names_by_refusal.setdefault(planned.refusal, []).append(planned.model.title)
    for refusal, names in names_by_refusal.items():
        yield f"{', '.join(names)}: {refusal}"
    environment = units.measured.get("environment")
    cores = environment.get("cores") if isinstance(environment, dict) else None
    yield (
        "Seconds are of the computation alone, with all parties on one machine like the measured one; with a "
        "host of that kind each, on that network, it should take no longer. "
        f"Measured on {cores} cores, {str(units.measured.get('time'))[:10]}; "
        "the documentation's page on costs says how good such predictions were."
    )
    yield from _wall_clock(plans)


def _wall_clock(plans: Sequence[ModelPlan]) -> Iterator[Part]:
    """Show how long a whole command takes in each model, and its steps."""
    rows = []
    for planned in plans:
        wall = planned.wall
        if wall is not None:
            seconds = [wall.wall_s, *vars(wall).values()]
            rows.append([planned.model.title, *map(_seconds, seconds)])
    if not rows:
        return
    yield Heading("How long it would take", ", from Enter to the prompt, in seconds")
    yield Table(
        ["security", "total", "start", "noise", "read", "share", "compile", "MPC", "derive"],
        rows,
    )
    yield (
        "With all roles on this machine, where all but compiling and MPC was tried out; a program is "
        "compiled once, and kept."
    )


def _figures(cost: Cost | None) -> list[str]:
    """Return a cost's seconds, bytes and rounds as texts, a dash for what is not known."""
    if cost is None:
        return ["–", "–", "–"]
    seconds = f"{cost.mpc_s:,.2g}" if cost.mpc_s < 10 else f"{cost.mpc_s:,.0f}"
    rounds = "–" if cost.rounds is None else f"{cost.rounds:,.0f}"
    return [seconds, bytes_in_words(cost.sent_bytes), rounds]


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 10:
        return f"{value:,.2f}"
    return f"{value:,.0f}"


def bytes_in_words(count: float) -> str:
    """Return a number of bytes in the largest unit of which it has one."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count:,.0f} B"


def to_json(plan: RequestPlan) -> dict[str, JsonValue]:
    """Return a plan as JSON."""
    stages = plan.stages
    network = plan.network
    last = stages[-1]
    kind = last.statistic.kind
    records: float | None = last.records
    if kind is RecordKind.SIZE:
        records = None
    elif kind is RecordKind.VALUE:
        records = last.clients  # each has one value
    labels: dict[str, JsonValue] | None = None
    if kind is not RecordKind.VALUE:
        labels = {name: float(share) for name, share in last.labels.items()}
    return {
        "schema": SCHEMA,
        "task": last.request.task,
        "protocol": last.statistic.spec.name,
        "input_form": last.request.form.name,
        "input_path": last.request.form.path.name,
        "from_records": last.held is not None,
        "clients": last.clients,
        "records": records,
        "cap": None if last.cap is None else last.cap.to_json(),
        "cap_is_expected": len(stages) > 1,
        "groups": {name: float(share) for name, share in last.groups.items()},
        "labels": labels,
        "thresholds": last.thresholds if kind is RecordKind.SCORE else None,
        "releases": [_release_json(release) for release in plan.releases],
        "network": None if network is None else asdict(network),
        "models": [_model_json(stages, planned) for planned in plan.models],
        "units": dict(plan.units.measured),
    }


def _release_json(release: ReleasePlan) -> dict[str, JsonValue]:
    stage = release.asked
    noise = stage.prepared.plan
    privacy: dict[str, JsonValue] = {
        "epsilon_requested": str(stage.request.protect.epsilon),
        "epsilon": float_up(noise.exact.epsilon),
        "delta": float_up(noise.exact.delta),
        "neighboring_relation": str(noise.relation),
        "privacy_unit": str(noise.unit),
    }
    if noise.relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        replaced = noise.if_replaced
        privacy["if_replaced"] = {"epsilon": float_up(replaced.epsilon), "delta": float_up(replaced.delta)}
    described: dict[str, JsonValue] = {
        "task": stage.request.task,
        "models": [model.title for model in release.models],
        "privacy": privacy,
        "errors": release.found.to_json(),
    }
    if release.by_noise:
        described["count_rmse_by_noise"] = {**release.by_noise, **release.elsewhere}
    described["needed"] = None if release.needed is None else _needed_json(release.needed, unit_of(stage))
    return described


def _needed_json(needed: Needed, unit: str) -> dict[str, JsonValue]:
    epsilon = None if needed.guarantee is None else float_up(needed.guarantee.epsilon)
    return {"error": needed.error, unit: needed.people, "epsilon": epsilon}


def _model_json(stages: Sequence[ExpectedRelease], planned: ModelPlan) -> dict[str, JsonValue]:
    described: dict[str, JsonValue] = {
        "security": planned.model.name,
        **_number_json(planned.model),
        "tolerates": planned.model.tolerates,
    }
    described.update(_cost_json(planned.cost))
    described.update(_wall_json(planned.wall))
    runs: dict[str, JsonValue] = {}
    for stage, cost in zip(stages, planned.costs or (), strict=False):
        runs[stage.request.task] = _cost_json(cost)
    if len(runs) > 1:
        described["runs"] = runs
    described["reason"] = planned.refusal
    described["available"] = planned.missing is None
    if planned.ahead:
        described["preprocessing"] = _cost_json(planned.ahead)
    return described


def _wall_json(wall: WallClock | None) -> dict[str, JsonValue]:
    if wall is None:
        return dict.fromkeys(_WALL_CLOCK)
    return {
        "wall_s": wall.wall_s,
        "start_s": wall.start_s,
        "design_s": wall.design_s,
        "read_s": wall.read_s,
        "share_s": wall.share_s,
        "compile_s": wall.compile_s,
        "derive_s": wall.derive_s,
    }


def _number_json(model: SecurityModel) -> dict[str, JsonValue]:
    """Return the number of parties as a field, where it is not the model's usual number."""
    return {} if model.stated_parties is None else {"parties": model.stated_parties}


def _cost_json(cost: Cost | None) -> dict[str, JsonValue]:
    if cost is None:
        return {"mpc_s": None, "sent_bytes": None, "rounds": None}
    return {
        "mpc_s": cost.mpc_s,
        "sent_bytes": round(cost.sent_bytes),
        "rounds": None if cost.rounds is None else round(cost.rounds),
    }
