"""Audits of releases for `./inv audit`."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache, partial, reduce
from math import lcm

from harness.errors import OptionError, named
from harness.privacy.audit.samplers import (
    DELTAS,
    Audited,
    Figure,
    audit_m_l,
    audit_m_r,
    audit_published,
    audit_sampler,
    audit_truncated,
)
from harness.releases.base import fitting, statistic_class
from harness.releases.registry import REQUESTS, with_distributed_noise
from harness.request.base import no_place
from protocols.accounting.calibration import (
    AboveThreshold,
    NeighboringRelation,
    Neighbors,
    PrivacyUnit,
    plan_distributed_noise,
    plan_noise,
)
from protocols.accounting.exact_privacy import (
    amounts_moved,
    composed,
    curve_of_coins,
    curve_of_distribution,
    impossible_mass,
    impossible_mass_of_clients,
    values_moved,
)
from protocols.accounting.losses import LossDistribution, loss_distribution
from protocols.circuits.coins import exp_bounds
from protocols.guarantee import Guarantee
from protocols.noise.added import BITS, NoiseDistribution
from protocols.noise.truncated import log_upper_bound
from protocols.published_baselines import composed_laplace, protocol_4
from protocols.spec import ProtocolSpec, declared_release

PAPERS_THRESHOLDS, PAPERS_GROUPS = 1001, 2

DEFAULT_CAP = 10  # records of a client, where clients are zeroed out

_MAX_CELLS = 10**6
_JOINT_VALUES = 3  # the joint distribution of more values has too many likelihood ratios

_STEPS = 8000  # of the loss, in epsilon: finer than those by which the noise's table was chosen
_MOST_SPREADS = 12  # records of a client, which can spread in 77 ways


RELEASES = {name: target for task in REQUESTS for name, target in statistic_class(task).audited.items()}
_protocol_4 = cache(protocol_4)  # of a thousand thresholds, which takes a second


def audit_release(
    name: str,
    spec: ProtocolSpec,
    arguments: Mapping[str, int | str],
    neighbors: Neighbors,
    *,
    epsilon: Fraction,
    delta: Fraction,
) -> Audited:
    """Audit a release by its declared linear map, see docs/explanation/noise.md#the-audit.

    If values move by more than 1, the worst ratio counts per unit, and each value's outermost atoms one by
    one. Raises OptionError if no noise reaches epsilon and delta, or no linear map is declared.
    """
    cap, text = neighbors.cap, {name: str(value) for name, value in arguments.items()}
    index = spec.release(text) if spec.release else None
    with fitting(epsilon, delta):
        release = index if isinstance(index, AboveThreshold) else declared_release(spec, text)
        plan = plan_noise(release, neighbors, epsilon, delta)
    one = curve_of_coins(plan.coins)
    ratio = one.least_ratio(one.impossible)
    assert ratio is not None  # at that delta it is finite by definition
    parameters: dict[str, str | int] = {**arguments, "neighboring_relation": str(neighbors.relation)}
    figures: dict[str, Figure]
    joint = None
    if isinstance(release, AboveThreshold):
        figures = {"values": release.queries + 1, "values_moved": release.queries}
        exact = Guarantee(log_upper_bound(ratio**2), one.impossible * (1 + release.queries))
        takes = f"an index of {release.queries} counts takes"
    else:
        moved, by = values_moved(release, neighbors), "units in all"
        figures = {"values": release.nodes, "values_moved": moved}
        if release.amounts:
            moves = amounts_moved(release, neighbors)
            figures |= {"values_moved": max(map(len, moves)), "units_moved": moved}
            lost = max(impossible_mass(plan.coins, move) for move in moves)
            exact = Guarantee(moved * log_upper_bound(ratio), lost)
        elif cap > 1:
            ways = 2 if neighbors.malleable_slots else 1  # some counts of a level fall, and others may rise
            levels, cells = max(map(len, release.columns)), min(ways * cap, release.cells)
            figures |= {"values_moved": levels * cells, "units_moved": moved}
            lost = impossible_mass_of_clients(plan.coins, ways * levels, cap)
            exact = Guarantee(moved * log_upper_bound(ratio), lost)
        else:
            by, exact = "values", Guarantee(log_upper_bound(ratio**moved), one.impossible * moved)
        if moved <= _JOINT_VALUES and cap == 1:
            joint = composed([one] * moved)
        if plan.unit is PrivacyUnit.CLIENT:
            parameters["cap"] = cap
        takes = f"a {plan.unit} moves {moved} {by}, which takes"
    figures |= {"epsilon": exact.epsilon, "delta": exact.delta}
    if joint is not None:
        figures |= {f"epsilon_at_{at}": joint.least_epsilon(least) for at, least in DELTAS.items()}
    fault = None
    if exact.epsilon > plan.exact.epsilon or exact.delta > plan.exact.delta:
        fault = f"{takes} more than the ε and δ that are claimed"
    subject = f"{spec.name}.{neighbors.relation}" + ".active" * neighbors.malleable_slots
    return Audited(subject, name, Guarantee(epsilon, delta), parameters, figures, joint, True, fault)


def audit_distributed_noise(
    name: str,
    spec: ProtocolSpec,
    arguments: Mapping[str, int | str],
    neighbors: Neighbors,
    *,
    epsilon: Fraction,
    delta: Fraction,
    distribution: NoiseDistribution,
    parties: int,
    tolerated: int,
) -> Audited:
    """Audit a release with distributed noise, without the tolerated parties' part.

    It tries all ways in which a client's records spread. Raises OptionError for impossible noise, or a client
    with over 12 records.
    """
    relation, cap = neighbors.relation, neighbors.cap
    if cap > _MOST_SPREADS:
        raise OptionError(
            f"An audit of distributed noise lists how records spread: {named('cap', _MOST_SPREADS)} at most."
        )
    release = declared_release(spec, {key: str(value) for key, value in arguments.items()})
    with fitting(epsilon, delta):
        plan = plan_distributed_noise(release, neighbors, epsilon, delta, distribution, parties, tolerated)
    noise, claim = plan.own, plan.exact
    assert noise is not None
    moved = values_moved(release, neighbors)
    if release.amounts:
        moves = amounts_moved(release, neighbors)
    else:
        moves = {tuple(spread) * (moved // cap) for spread in _spreads(cap, cap)}
    scale = 1 << BITS * noise.honest
    atoms = {x: Fraction(mass, scale) for x, mass in enumerate(noise.summed(noise.honest))}
    pairs = {s: curve_of_distribution(atoms, [s]) for s in {*sum(moves, ())}}
    if distribution is NoiseDistribution.LAPLACE:
        deltas = {s: curve.delta(exp_bounds(claim.epsilon * s / moved)[0]) for s, curve in pairs.items()}
        delta_found = max(sum((deltas[s] for s in move), Fraction(0)) for move in moves)
    else:
        step = Fraction(max(1, round(claim.epsilon * 10**9 / _STEPS)), 10**9)
        distributions = {s: _losses(curve.pairs[0], step) for s, curve in pairs.items()}
        delta_found = max(
            reduce(LossDistribution.composed, [distributions[s] for s in move]).delta(claim.epsilon)
            for move in moves
        )
    fault = None
    if delta_found > claim.delta or claim.epsilon > epsilon:
        fault = (
            f"its δ at ε = {float(claim.epsilon):g} is {float(delta_found):.3g}, not {float(claim.delta):.3g}"
        )
    return Audited(
        f"{spec.name}.own.{distribution}.{relation}" + ".active" * neighbors.malleable_slots,
        name,
        Guarantee(epsilon, delta),
        parameters={
            **arguments,
            "neighboring_relation": str(relation),
            "cap": cap,
            "distribution": str(distribution),
            "parties": parties,
            "tolerated": tolerated,
        },
        figures={
            "values": release.nodes,
            "values_moved": max(map(len, moves)),
            "units_moved": moved,
            "epsilon": claim.epsilon,
            "delta": delta_found,
            "honest_parties": noise.honest,
            "table_entries": len(noise.weights),
            "mean_square_error": noise.mean_square_error,
        },
        claimed=True,
        fault=fault,
    )


def audit_command(
    name: str,
    sizes: Mapping[str, int],
    relation: NeighboringRelation,
    *,
    epsilon: Fraction,
    delta: Fraction,
    cap: int | None = None,
    distributed: tuple[NoiseDistribution, int, int] | None = None,
) -> Audited:
    """Audit the release of a command, with the `sizes` that differ from its defaults.

    `cap` is by default 10, or 1 if a client has one value. `distributed` holds the distribution, the number
    of parties, and of corrupt ones. Raises OptionError for impossible noise, or over a million cells.
    """
    release = RELEASES[name]
    chosen = {**release.sizes, **sizes}
    if (cells := release.cells(chosen)) > _MAX_CELLS:
        raise OptionError(f"An audit lists all cells, here {cells}; at most {_MAX_CELLS}.")
    if relation not in release.relations:
        raise OptionError(f"{name} is released under {' or '.join(release.relations)}, not {relation}.")
    if cap is None:
        cap = DEFAULT_CAP if relation is _ZERO_OUT and release.counts_records else 1
    with fitting(epsilon, delta):
        neighbors = Neighbors(relation, cap, release.malleable_slots)
        spec, arguments = release.declared(
            chosen, neighbors, epsilon, delta, distributed[0] if distributed else None
        )
    if distributed is None:
        return audit_release(name, spec, arguments, neighbors, epsilon=epsilon, delta=delta)
    if not spec.distributed_noise:
        raise no_place(spec)
    distribution, parties, tolerated = distributed
    return audit_distributed_noise(
        name,
        spec,
        arguments,
        neighbors,
        epsilon=epsilon,
        delta=delta,
        distribution=distribution,
        parties=parties,
        tolerated=tolerated,
    )


def audit_protocol_4(epsilon: Fraction, relation: NeighboringRelation) -> Audited:
    """Audit Protocol 4's release: Laplace noise of scale 1 / epsilon on each count at each threshold.

    The epsilon at a small delta is a numerical bound for ideal noise.
    """
    moved = values_moved(_protocol_4(PAPERS_GROUPS, PAPERS_THRESHOLDS), Neighbors(relation))
    at = composed_laplace(float(epsilon), moved, float(DELTAS["1e-6"]))
    return Audited(
        "pi_roc.published" + (".replace_one" if relation is NeighboringRelation.REPLACE_ONE else ""),
        "thresholds as published",
        Guarantee(epsilon, Fraction(0)),
        parameters={
            "thresholds": PAPERS_THRESHOLDS,
            "groups": PAPERS_GROUPS,
            "neighboring_relation": str(relation),
        },
        figures={"values_moved": moved, "epsilon": moved * epsilon, "epsilon_at_1e-6": Fraction(at)},
    )


def _spreads(units: int, most: int) -> Iterator[list[int]]:
    """Yield all ways to write `units` as a sum of parts up to `most`."""
    if not units:
        yield []
    for first in range(min(units, most), 0, -1):
        for rest in _spreads(units - first, first):
            yield [first, *rest]


def _losses(pair: tuple[tuple[Fraction, Fraction], ...], step: Fraction) -> LossDistribution:
    total = lcm(*(mass.denominator for masses in pair for mass in masses))
    return loss_distribution([(int(p * total), int(q * total)) for p, q in pair], total, step, 4 * _STEPS)


_ONE, _DELTA = Fraction(1), DELTAS["2^-40"]
_ADD, _REPLACE, _ZERO_OUT = NeighboringRelation


def _papers_sizes(name: str) -> dict[str, int]:
    return {"thresholds": PAPERS_THRESHOLDS} if "thresholds" in RELEASES[name].sizes else {}


# Add an audit here to have it among the defaults of `./inv audit` and its tests.
_REFERENCE: tuple[Callable[[], Audited], ...] = (
    partial(audit_sampler, _ONE, _DELTA, subject="pi_lap.default.1"),
    partial(audit_sampler, Fraction(1, 2), _DELTA, subject="pi_lap.default.1_2"),
    partial(audit_sampler, Fraction(1, 3), _DELTA, subject="pi_lap.default.1_3"),
    *(
        partial(audit_published, epsilon, log, rounded=rounded, subject=f"pi_lap.published.{end}")
        for epsilon, log, rounded, end in (
            (_ONE, "ideal", False, "raw"),
            (_ONE, "ideal", True, "rounded"),
            (_ONE, "mp-spdz", False, "raw.mp_spdz"),
            (_ONE, "mp-spdz", True, "rounded.mp_spdz"),
            (Fraction(1, 10), "ideal", False, "raw.1_10"),
            (Fraction(1, 10), "ideal", True, "rounded.1_10"),
        )
    ),
    audit_truncated,
    *(
        partial(audit_command, name, _papers_sizes(name), relation, epsilon=_ONE, delta=_DELTA)
        for name, release in RELEASES.items()
        for relation in release.relations
    ),
    *(  # three parties, one of which may be corrupt
        partial(
            audit_command,
            name,
            _papers_sizes(name),
            RELEASES[name].relations[0],
            epsilon=_ONE,
            delta=_DELTA,
            distributed=(distribution, 3, 1),
        )
        for name in with_distributed_noise()
        if RELEASES[name].counts_records  # at this ε other values are too wide for any table
        for distribution in NoiseDistribution
    ),
    partial(audit_protocol_4, _ONE, _ADD),
    partial(audit_protocol_4, _ONE, _REPLACE),
    partial(audit_m_r, "1_1", _ONE, repaired=False),
    partial(audit_m_r, "repaired_1", _ONE, repaired=True),
    partial(audit_m_l, "k1", _ONE, 1),
    partial(audit_m_l, "k2", _ONE, 2),
)


def reference_set() -> Iterator[Audited]:
    """Yield the default audits of `./inv audit`."""
    for one in _REFERENCE:
        yield one()
