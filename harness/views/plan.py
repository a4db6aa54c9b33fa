"""Plans: expected results, and costs in each model."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from fairshares.harness.engines.emulated_network.profiles import Network
from fairshares.harness.forecast.plan import ModelPlan, Needed, PlannedRelease, ReleasePlan
from fairshares.harness.forecast.requested import Plan
from fairshares.harness.forecast.unit_costs import Cost, UnitCosts
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.privacy.statement import what_changes
from fairshares.harness.releases.base import (
    FIRST_ORDER,
    ExpectedCap,
    ExpectedCounts,
    ExpectedError,
    by_cell,
)
from fairshares.harness.releases.cap.view import doubt_of, noise_moves
from fairshares.harness.releases.count.view import guarantee
from fairshares.harness.system.result_files import SCHEMA
from fairshares.harness.views.parts import Bad, Findings, Good, Heading, Paragraph, Part, Table
from fairshares.harness.views.rendering.plots import intervals, with_ends
from fairshares.harness.views.run import at_every_epsilon
from fairshares.protocols.accounting.rounding import digits_up, float_up
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.noise.truncated import mean_square_error

_MOST_ROWS = 20
_LARGE_EPSILON = 2  # of a noisy value
_UNPROTECTED = (
    "These figures come from the file itself, without noise: they are for the owner of its records only. "
    "No ε was spent."
)


def plan(asked_for: Plan) -> Iterator[Part]:
    """Show the expected results, then the costs."""
    stages, releases = asked_for.stages, asked_for.releases
    if len(stages) > 1:
        of_cap, after = stages
        yield (
            f"Two releases: ε = {digits_up(of_cap.request.protect.epsilon, 4)} is for choosing the cap, ε = "
            f"{digits_up(after.request.protect.epsilon, 4)} for the {after.request.task} with it."
        )
    if stages[-1].held is not None:
        yield Findings([_UNPROTECTED])
        yield _UNPROTECTED
    for number, release in enumerate(releases, 1):
        yield _heading(release, len(stages) > 1)
        expected = release.found
        if isinstance(expected, ExpectedCap):
            yield (
                f"The least of {', '.join(map(str, expected.caps))} that, by noisy counts, "
                f"{expected.above:,} clients or fewer exceed. {noise_moves(expected.noise)}."
            )
            yield from doubt_of(expected.above, expected.noise, release.asked.clients)
        elif isinstance(expected, ExpectedCounts):
            yield from _drawn(
                release,
                number,
                "relative error of the count (mean)",
                {name: count.error for name, count in expected.each.items()},
            )
            yield from _counts(expected)
        else:
            yield from _drawn(release, number, f"error of the {expected.what} (RMS)", expected.each)
            yield from _errors(release, expected, len(stages) > 1)
    yield at_every_epsilon(
        {
            f"{release.asked.request.task}{_models(release)}": release.asked.prepared.plan.exact
            for release in releases
        }
    )
    yield from _costs(stages, asked_for.models, asked_for.network, asked_for.units)


def _heading(release: ReleasePlan, one_of_two: bool) -> Heading:
    noise = release.asked.prepared.plan
    spent, delta = digits_up(noise.exact.epsilon, 4), digits_up(noise.exact.delta, 4)
    return Heading(
        f"What would come out{f' of {release.asked.request.task}' if one_of_two else ''}",
        f"{_models(release)}, at ε = {spent} and δ = {delta}, {what_changes(noise.unit, noise.relation)}",
    )


def _models(release: ReleasePlan) -> str:
    return "" if release.alone else f", in {', '.join(model.name for model in release.models)}"


def _drawn(release: ReleasePlan, number: int, what: str, errors: Mapping[str, float]) -> Iterator[Part]:
    worst = max(errors, key=errors.__getitem__)
    yield Findings([f"The largest {what} is {_share(errors[worst])} ({worst}){_models(release)}."])
    names = list(errors)[:_MOST_ROWS]
    whose = "" if release.asked.held is None else "\nfrom the file itself, for its owner only"
    yield intervals(
        "errors" if number == 1 else f"errors_{number}",
        names,
        {"": with_ends([min(100 * errors[name], 100.0) for name in names], None)},
        f"{what}, %{whose}",
        "Expected errors; those over 100 % are drawn there. Beyond the dotted line it is mostly noise.",
        at=100 * FIRST_ORDER,
        logarithmic=True,
    )


def _counts(counts: ExpectedCounts) -> Iterator[Part]:
    target = counts.target
    yield (
        f"A count from {target.least:,} to {target.most:,} has a mean relative error of at most "
        f"{_share(target.relative)}; the more records a cell has, the smaller the ε of each."
    )
    rows = [
        [
            name,
            f"{cell.records:,.0f}",
            _share(cell.error),
            *guarantee(cell.guarantee.epsilon, cell.guarantee.delta),
        ]
        for name, cell in list(counts.each.items())[:_MOST_ROWS]
    ]
    if len(counts.each) > _MOST_ROWS:
        rows.append([f"… {len(counts.each) - _MOST_ROWS} more", "", "", "", ""])
    yield Table(["group, label", "records", "error, relative (mean)", "ε of one of them", "δ"], rows)


def _errors(release: ReleasePlan, errors: ExpectedError, one_of_two: bool) -> Iterator[Part]:
    stage, needed = release.asked, release.needed
    valued, cap = stage.statistic.kind is RecordKind.VALUE, stage.cap
    if cap and not valued:
        per_client = f"{stage.records / stage.clients:,.3g}"
        about = f"if all clients have {per_client} records, the cap is about this; " if one_of_two else ""
        described = f"{about}{cap.described}."
        yield f"{described[0].upper()}{described[1:]}"
        if not cap.weight_one and stage.records > stage.clients * cap.slots:
            yield f"Records beyond the cap, of {per_client} each, do not count as an error here."
    yield f"Count {errors.counted}: off by {errors.count:,.3g} (RMS)."
    noise = stage.prepared.plan
    if noise.coins and noise.node_epsilon > _LARGE_EPSILON:
        joint_error, q = math.sqrt(mean_square_error(noise.coins)), math.exp(-noise.node_epsilon)
        least = math.sqrt(2 * q) / (1 - q)
        yield (
            f"At so large an ε most of it is the half unit by which joint noise is off: {joint_error:.2g} a "
            f"value, where Laplace noise on integers has {least:.2g}, and noise=distributed of three parties "
            f"{least * math.sqrt(1.5):.2g}."
        )
    worst = max(errors.each, key=errors.each.__getitem__)
    rows = [[name, _share(value)] for name, value in list(errors.each.items())[:_MOST_ROWS]]
    if len(errors.each) > _MOST_ROWS:
        rows.append(
            [f"… {len(errors.each) - _MOST_ROWS} more; the worst: {worst}", _share(errors.each[worst])]
        )
    by_group = errors.each.keys() == {*stage.domain.groups}
    yield Table(["group" if by_group else "group, label", f"error of the {errors.what} (RMS)"], rows)
    if stage.held is not None:
        kept = (
            stage.sizes[stage.domain.groups.index(worst)].sum()
            if by_group
            else by_cell(stage.domain, stage.sizes)[worst]
        )
        verdict = "survives the noise" if errors.each[worst] <= FIRST_ORDER else "is mostly noise"
        yield f"The worst is {worst}, with {kept:,.0f} {_unit(stage)} that count: it {verdict}."
    if errors.gap is not None:
        yield f"The noise alone would make equal groups differ by {_share(errors.gap)}."
    if not errors.known:
        yield Paragraph(
            "Mostly noise: above 10 % these figures say only that the error is large.", strong="Mostly noise"
        )
    if needed is not None:
        epsilon = (
            "no ε up to 20" if needed.guarantee is None else f"ε = {digits_up(needed.guarantee.epsilon, 4)}"
        )
        yield (
            f"Target error {_share(needed.error)}: takes {needed.people:,} {_unit(stage)} at this ε, or "
            f"{epsilon} with these {stage.people:,}."
        )
    if by_noise := release.by_noise:
        best = min(by_noise, key=by_noise.__getitem__)
        others = [f"{name}: {error:,.3g}" for name, error in by_noise.items() if name != best]
        others += [f"{name}: {error:,.3g} (not built)" for name, error in release.elsewhere.items()]
        yield f"Best noise at this δ: {best}. A count would be off by, with {'; '.join(others)}."


def _unit(release: PlannedRelease) -> str:
    return "clients" if release.by_clients else "records"


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 1 else "over 100 %"


def _costs(
    stages: Sequence[PlannedRelease], plans: Sequence[ModelPlan], network: Network | None, units: UnitCosts
) -> Iterator[Part]:
    where = "all parties on one machine" if network is None else f"network {network.name}"
    both = f", {' and '.join(stage.request.task for stage in stages)} together" if len(stages) > 1 else ""
    yield Heading("What it would cost", f", {where}{both}")
    if seconds := {planned.model.name: planned.cost.mpc_s for planned in plans if planned.cost is not None}:
        fastest = min(seconds, key=seconds.__getitem__)
        yield Findings([f"The fastest model is {fastest}: {seconds[fastest]:,.2g} s in the computation."])
        yield intervals(
            "seconds",
            list(seconds),
            {"": with_ends(list(seconds.values()), None)},
            "seconds in the computation",
            "Predicted seconds in each model.",
            logarithmic=True,
        )
    yield Table(
        ["security", "withstands", "seconds", "sent by all", "rounds", "here"],
        [
            [
                planned.model.name,
                f"{planned.model.corruptions} {planned.model.tolerates}",
                *_figures(planned.cost),
                Good("yes") if planned.missing is None else Bad("no"),
            ]
            for planned in plans
        ],
        "llrrrl",
    )
    if any(planned.ahead for planned in plans):
        yield Heading("What making the noise before would cost", f", {where}")
        yield Table(
            ["security", "seconds", "sent by all", "rounds"],
            [[planned.model.name, *_figures(planned.ahead)] for planned in plans],
            "lrrr",
        )
    for reason in dict.fromkeys(planned.refusal for planned in plans if planned.refusal):
        yield f"{', '.join(planned.model.name for planned in plans if planned.refusal == reason)}: {reason}"
    environment = units.measured.get("environment")
    cores = environment.get("cores") if isinstance(environment, dict) else None
    yield (
        "Seconds are of the computation alone, with all parties on one machine like the measured one; with a "
        "host of that kind each, on that network, it should take no longer. "
        f"Measured on {cores} cores, {str(units.measured.get('time'))[:10]}; "
        "docs/explanation/costs.md says how good such predictions were."
    )
    yield from _wall_clock(plans)


def _wall_clock(plans: Sequence[ModelPlan]) -> Iterator[Part]:
    walls = {planned.model.name: planned.wall for planned in plans if planned.wall is not None}
    if not walls:
        return
    yield Heading("How long it would take", ", from Enter to the prompt, in seconds")
    yield Table(
        ["security", "total", "start", "noise", "read", "share", "compile", "MPC", "derive"],
        [[name, *map(_seconds, (wall.wall_s, *vars(wall).values()))] for name, wall in walls.items()],
    )
    yield (
        "With all roles on this machine, where all but compiling and MPC was tried out; a program is "
        "compiled once, and kept."
    )


def _figures(cost: Cost | None) -> list[str]:
    if cost is None:
        return ["–"] * 3
    seconds = f"{cost.mpc_s:,.2g}" if cost.mpc_s < 10 else f"{cost.mpc_s:,.0f}"
    return [seconds, _bytes(cost.sent_bytes), "–" if cost.rounds is None else f"{cost.rounds:,.0f}"]


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count:,.0f} B"


def to_json(plan: Plan) -> dict[str, JsonValue]:
    """Return a plan as JSON."""
    stages, network, last = plan.stages, plan.network, plan.stages[-1]
    valued, sized = last.statistic.kind is RecordKind.VALUE, last.statistic.kind is RecordKind.SIZE
    return {
        "schema": SCHEMA,
        "task": last.request.task,
        "protocol": last.statistic.spec.name,
        "input_form": last.request.form.name,
        "input_path": last.request.form.path.name,
        "from_records": last.held is not None,
        "clients": last.clients,
        "records": None if sized else last.clients if valued else last.records,
        "cap": None if last.cap is None else last.cap.to_json(),
        "cap_is_expected": len(stages) > 1,
        "groups": {name: float(share) for name, share in last.groups.items()},
        "labels": None if valued else {name: float(share) for name, share in last.labels.items()},
        "thresholds": last.thresholds if last.statistic.kind is RecordKind.SCORE else None,
        "releases": [_release_json(release) for release in plan.releases],
        "network": None if network is None else asdict(network),
        "models": [_model_json(stages, planned) for planned in plan.models],
        "units": dict(plan.units.measured),
    }


def _release_json(release: ReleasePlan) -> dict[str, JsonValue]:
    stage, needed, noise = release.asked, release.needed, release.asked.prepared.plan
    return {
        "task": stage.request.task,
        "models": [model.name for model in release.models],
        "privacy": {
            "epsilon_requested": str(stage.request.protect.epsilon),
            "epsilon": float_up(noise.exact.epsilon),
            "delta": float_up(noise.exact.delta),
            "neighboring_relation": str(noise.relation),
            "privacy_unit": str(noise.unit),
        },
        "errors": _errors_json(release.found),
        **({"count_rmse_by_noise": {**release.by_noise, **release.elsewhere}} if release.by_noise else {}),
        "needed": None if needed is None else _needed_json(needed, _unit(stage)),
    }


def _needed_json(needed: Needed, unit: str) -> dict[str, JsonValue]:
    epsilon = None if needed.guarantee is None else float_up(needed.guarantee.epsilon)
    return {"error": needed.error, unit: needed.people, "epsilon": epsilon}


def _errors_json(errors: ExpectedError | ExpectedCap | ExpectedCounts) -> dict[str, JsonValue]:
    if isinstance(errors, ExpectedCap):
        return {"of": "cap", "caps": list(errors.caps), "allowed_above": errors.above, "noise": errors.noise}
    if isinstance(errors, ExpectedCounts):
        return {
            "of": "count, relative",
            "mean": {name: cell.error for name, cell in errors.each.items()},
            "privacy": {
                name: {
                    "records": cell.records,
                    "epsilon": float_up(cell.guarantee.epsilon),
                    "delta": float_up(cell.guarantee.delta),
                }
                for name, cell in errors.each.items()
            },
            "relative_error": errors.target.relative,
            "error_from": errors.target.least,
            "error_to": errors.target.most,
            "offset": errors.distribution.offset,
        }
    return {
        "count_rmse": errors.count,
        "of": errors.what,
        "rmse": dict(errors.each),
        "gap": errors.gap,
        "known": errors.known,
    }


def _model_json(stages: Sequence[PlannedRelease], each: ModelPlan) -> dict[str, JsonValue]:
    runs = {
        stage.request.task: _cost_json(cost) for stage, cost in zip(stages, each.costs or (), strict=False)
    }
    return {
        "security": each.model.name,
        "tolerates": each.model.tolerates,
        **_cost_json(each.cost),
        **{
            name: getattr(each.wall, name, None)
            for name in ("wall_s", "start_s", "design_s", "read_s", "share_s", "compile_s", "derive_s")
        },
        **({"runs": runs} if len(runs) > 1 else {}),
        "reason": each.refusal,
        "available": each.missing is None,
        **({"preprocessing": _cost_json(each.ahead)} if each.ahead else {}),
    }


def _cost_json(cost: Cost | None) -> dict[str, float | None]:
    if cost is None:
        return dict.fromkeys(("mpc_s", "sent_bytes", "rounds"))
    return {
        "mpc_s": cost.mpc_s,
        "sent_bytes": round(cost.sent_bytes),
        "rounds": None if cost.rounds is None else round(cost.rounds),
    }
