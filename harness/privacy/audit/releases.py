"""What `./inv audit` finds of releases: what one record moves, and what that adds up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache

from harness.errors import OptionError
from harness.privacy.audit.own_noise import audit_own_noise
from harness.privacy.audit.samplers import DELTAS, Audited, Figure, budget_parameters, no_noise
from harness.releases.base import no_place
from harness.releases.registry import STATISTICS
from protocols.accounting.calibration import NeighboringRelation, Neighbors, PrivacyUnit, plan_noise
from protocols.accounting.exact_privacy import (
    PrivacyCurve,
    amounts_moved,
    composed,
    curve_of_coins,
    impossible_mass,
    impossible_mass_of_clients,
    values_moved,
)
from protocols.accounting.queries import AboveThreshold, LinearQueries
from protocols.guarantee import Guarantee
from protocols.mechanisms.counts_so_far import Schedule, best_schedule
from protocols.noise.tables import NoiseLaw
from protocols.noise.truncated import log_upper_bound
from protocols.published_baselines import composed_laplace, protocol_4
from protocols.spec import ProtocolSpec, declared_release

PAPERS_THRESHOLDS, PAPERS_GROUPS = 1001, 2

DEFAULT_CAP = 10  # records of a client, where clients are zeroed out

_MAX_CELLS = 10**6
_JOINT_VALUES = 3  # of more values the joint law has too many likelihood ratios

SERIES = ("weights", "weights-of-clients", "weights-of-clients-active")  # that go on epoch by epoch

RELEASES = {name: target for each in STATISTICS.values() for name, target in each.audited.items()}


def audit_release(
    name: str,
    spec: ProtocolSpec,
    arguments: Mapping[str, int | str],
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
) -> Audited:
    """Audit a release: what one record, or a client's, move by the declared linear map, and what that costs.

    Computes: basic composition over the values that a record moves, of the audited noise; for up to three
    also the joint law's own curve, which is exact. Where values move by more than 1: the worst ratio once per
    unit, and each value's outermost atoms, one by one.
    Raises: OptionError: no noise reaches epsilon and delta, or nobody has declared the linear map.
    """
    relation, cap = neighbors.relation, neighbors.cap
    text = {name: str(value) for name, value in arguments.items()}
    if spec.release and isinstance(index := spec.release(text), AboveThreshold):
        return _audit_index(name, spec, index, neighbors, epsilon, delta)
    try:
        release = declared_release(spec, text)
        plan = plan_noise(release, neighbors, epsilon, delta)
    except ValueError as error:
        raise no_noise(epsilon, delta, error) from None
    moved = values_moved(release, neighbors)
    one = curve_of_coins(plan.coins)
    ratio = one.least_ratio(one.impossible)
    assert ratio is not None  # at that delta it is finite by definition
    figures: dict[str, Figure] = {"values": release.nodes, "values_moved": moved}
    if release.amounts:
        moves = amounts_moved(release, neighbors)
        figures["values_moved"], figures["units_moved"] = max(map(len, moves)), moved
        epsilon_found = moved * log_upper_bound(ratio)
        delta_found = max(impossible_mass(plan.coins, move) for move in moves)
    elif cap > 1:
        ways = 2 if neighbors.malleable_slots else 1  # on a level some counts fall, and others may rise
        levels, cells = max(map(len, release.columns)), min(ways * cap, release.cells)
        figures["values_moved"], figures["units_moved"] = levels * cells, moved
        epsilon_found = moved * log_upper_bound(ratio)
        delta_found = impossible_mass_of_clients(plan.coins, ways * levels, cap)
    else:
        epsilon_found, delta_found = log_upper_bound(ratio**moved), one.impossible * moved
    figures |= {"epsilon": epsilon_found, "delta": delta_found}
    joint = None
    if moved <= _JOINT_VALUES and cap == 1:
        joint = composed([one] * moved)
        figures |= {f"epsilon_at_{at}": joint.least_epsilon(least) for at, least in DELTAS.items()}
    fault = None
    if epsilon_found > plan.exact.epsilon or delta_found > plan.exact.delta:
        by = "units in all" if release.amounts or cap > 1 else "values"
        fault = f"a {plan.unit} moves {moved} {by}, which takes more than the ε and δ that are claimed"
    parameters = {**arguments, **budget_parameters(epsilon, delta), "neighboring_relation": str(relation)}
    if plan.unit is PrivacyUnit.CLIENT:
        parameters["cap"] = cap
    subject = f"{spec.name}.{relation}" + ".active" * neighbors.malleable_slots
    return Audited(subject, name, parameters, epsilon, figures, joint, True, fault)


def _audit_index(
    name: str,
    spec: ProtocolSpec,
    release: AboveThreshold,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
) -> Audited:
    """Audit an index: two ratios of the audited noise, the bound's and one count's; an atom of each."""
    try:
        plan = plan_noise(release, neighbors, epsilon, delta)
    except ValueError as error:
        raise no_noise(epsilon, delta, error) from None
    one = curve_of_coins(plan.coins)
    ratio = one.least_ratio(one.impossible)
    assert ratio is not None  # as above
    spent, uncovered = log_upper_bound(ratio**2), one.impossible * (1 + release.queries)
    moved = {"values": release.queries + 1, "values_moved": release.queries}
    fault = None
    if spent > plan.exact.epsilon or uncovered > plan.exact.delta:
        fault = f"an index of {release.queries} counts takes more than the ε and δ that are claimed"
    parameters: dict[str, str | int] = {
        "queries": release.queries,
        **budget_parameters(epsilon, delta),
        "neighboring_relation": str(neighbors.relation),
    }
    figures: dict[str, Figure] = {**moved, "epsilon": spent, "delta": uncovered}
    return Audited(f"{spec.name}.{neighbors.relation}", name, parameters, epsilon, figures, None, True, fault)


def audit_command(
    name: str,
    sizes: Mapping[str, int],
    relation: NeighboringRelation,
    epsilon: Fraction,
    delta: Fraction,
    cap: int | None = None,
    own: tuple[NoiseLaw, int, int] | None = None,
    horizon: int | None = None,
) -> Audited:
    """Audit what a command releases.

    Args: sizes: those that are not its defaults; cap: as for `audit_release`; 10, or 1 of one value a client;
    own: the law of noise of the parties' own, how many they are, and how many of them may be corrupt;
    horizon: of a series of `SERIES`, how many epochs share epsilon and delta.
    Raises: OptionError: no noise reaches epsilon and delta, or there are over a million cells; or there is no
    place for noise of the parties' own.
    """
    release = RELEASES[name]
    chosen = {**release.sizes, **sizes}
    if (cells := release.cells(chosen)) > _MAX_CELLS:
        raise OptionError(f"An audit lists all cells, here {cells}; at most {_MAX_CELLS}.")
    if relation not in release.relations:
        raise OptionError(f"{name} is released under {' or '.join(release.relations)}, not {relation}.")
    if horizon is not None:

        def of_part(epsilon: Fraction, delta: Fraction) -> Audited:
            return audit_command(name, sizes, relation, epsilon, delta, cap, own)

        return audit_series(best_schedule(horizon), epsilon, delta, of_part)
    if cap is None:
        several = relation is NeighboringRelation.ZERO_OUT_ONE and release.counts_records
        cap = DEFAULT_CAP if several else 1
    try:
        neighbors = Neighbors(relation, cap, release.malleable_slots)
        spec, arguments = release.declared(chosen, neighbors, epsilon, delta, own[0] if own else None)
    except ValueError as error:
        raise no_noise(epsilon, delta, error) from None
    asked = (name, spec, arguments, neighbors, epsilon, delta)
    if own is None:
        return audit_release(*asked)
    if not spec.own_noise:
        raise no_place(spec)
    return audit_own_noise(*asked, *own)


def audit_series(
    schedule: Schedule,
    epsilon: Fraction,
    delta: Fraction,
    audit_part: Callable[[Fraction, Fraction], Audited],
) -> Audited:
    """Audit all epochs of a series together: what they give away of the records of one, whichever that is.

    Computes: for each epoch, which parts count it, and the sums of what these give away, each by its own
    noise's law; where few values move in all, also the joint law's own curve, which is exact.
    Args: epsilon, delta: of all epochs; audit_part: audits a release that is to keep to so much.
    """
    each = {share: audit_part(epsilon * share, delta * share) for share in schedule.shares}
    ways = {
        tuple(sorted(part.share for t, part in enumerate(schedule.parts) if part.first <= epoch <= t))
        for epoch in range(len(schedule.parts))
    }

    def most(figure: str) -> Fraction:
        sums = [[Fraction(each[share].figures[figure] or 0) for share in way] for way in ways]
        return max(sum(one, Fraction(0)) for one in sums)

    found, moved = Guarantee(most("epsilon"), most("delta")), int(most("values_moved"))
    claim = schedule.total(
        lambda share: Guarantee(*(Fraction(each[share].figures[name] or 0) for name in ("epsilon", "delta")))
    )
    first, horizon = each[schedule.parts[0].share], len(schedule.parts)
    figures: dict[str, Figure] = {"values_moved": moved, "epsilon": found.epsilon, "delta": found.delta}
    joint = None
    if moved <= _JOINT_VALUES and all(one.curve for one in each.values()):
        of_ways = [composed([curve for share in way if (curve := each[share].curve)]) for way in ways]
        joint = PrivacyCurve(tuple(pair for curve in of_ways for pair in curve.pairs))
        figures |= {f"epsilon_at_{at}": joint.least_epsilon(least) for at, least in DELTAS.items()}
    fault = next((one.fault for one in each.values() if one.fault), None)
    if found.epsilon > min(epsilon, claim.epsilon) or found.delta > min(delta, claim.delta):
        fault = f"its {horizon} epochs take more than the ε and δ that are claimed of all together"
    parameters = {**first.parameters, **budget_parameters(epsilon, delta), "horizon": horizon}
    name = f"{first.name}, {horizon} epochs"
    return Audited(f"{first.subject}.series", name, parameters, epsilon, figures, joint, True, fault)


def audit_protocol_4(epsilon: Fraction, relation: NeighboringRelation) -> Audited:
    """Audit Protocol 4's release: Laplace noise of scale 1 / epsilon on each count at each threshold.

    Computes: epsilon exactly: every value that a record moves, moves by 1, and their worst ratios multiply.
    What it still is at a small delta is a numerical bound, for the ideal Laplace distribution.
    """
    moved = values_moved(_papers_release(), Neighbors(relation))
    at = composed_laplace(float(epsilon), moved, float(DELTAS["1e-6"]))
    figures: dict[str, Figure] = {
        "values_moved": moved,
        "epsilon": moved * epsilon,
        "epsilon_at_1e-6": Fraction(at),
    }
    parameters: dict[str, str | int] = {
        "epsilon": str(epsilon),
        "thresholds": PAPERS_THRESHOLDS,
        "groups": PAPERS_GROUPS,
        "neighboring_relation": str(relation),
    }
    subject = "pi_roc.published" + (".replace_one" if relation is NeighboringRelation.REPLACE_ONE else "")
    return Audited(subject, "thresholds as published", parameters, epsilon, figures)


@cache
def _papers_release() -> LinearQueries:
    return protocol_4(PAPERS_GROUPS, PAPERS_THRESHOLDS)
