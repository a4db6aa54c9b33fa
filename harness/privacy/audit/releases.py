"""Audits of releases for `./inv audit`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from itertools import chain
from math import lcm

from fairshares.harness.errors import OptionError, named
from fairshares.harness.privacy.audit.figures import DELTAS, PartiesNoise, ReleaseFigures
from fairshares.harness.privacy.audit.samplers import (
    Audited,
    audit_m_l,
    audit_m_r,
    audit_sampler,
)
from fairshares.harness.releases.base import AuditTarget, fitting, statistic_class
from fairshares.harness.releases.registry import REQUESTS, with_distributed_noise
from fairshares.harness.request.request import no_place
from fairshares.protocols.accounting.calibration import (
    AboveThreshold,
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    PrivacyUnit,
    plan_distributed_noise,
    plan_noise,
)
from fairshares.protocols.accounting.exact_privacy import (
    PrivacyCurve,
    amounts_moved,
    composed,
    curve_of_coins,
    curve_of_distribution,
    impossible_mass,
    impossible_mass_of_clients,
    values_moved,
)
from fairshares.protocols.accounting.losses import LossDistribution, loss_distribution
from fairshares.protocols.circuits.coins import Coins, exp_bounds
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import BITS, NoiseDistribution
from fairshares.protocols.noise.truncated import log_upper_bound
from fairshares.protocols.spec import ProtocolSpec, declared_release

PAPERS_THRESHOLDS = 1001  # the thresholds of PrivFairFL

DEFAULT_CAP = 10  # records of a client, where clients are zeroed out

_MAX_CELLS = 10**6
_JOINT_VALUES = 3  # the joint distribution of more values has too many likelihood ratios

_STEPS = 8000  # steps of the loss within epsilon: finer than those by which the noise's table was chosen
_MOST_SPREADS = 12  # the most records of a client; as many can spread in 77 ways


def _targets() -> dict[str, AuditTarget]:
    """Return the targets of all releases, by the names that `./inv audit` takes."""
    targets: dict[str, AuditTarget] = {}
    for task in REQUESTS:
        targets.update(statistic_class(task).audited)
    return targets


AUDIT_TARGETS = _targets()


@dataclass(frozen=True)
class _Loss:
    """The privacy loss that an audit found.

    Args:
        values: The number of noisy values.
        values_moved: How many of them two neighbors differ in.
        exact: The guarantee.
        takes: Begins the sentence that says that it exceeds the claim.
        units_moved: The number of units by which the values move in all; None if each moves by 1.
        joint: The exact privacy of all values together, if there are few enough.
    """

    values: int
    values_moved: int
    exact: Guarantee
    takes: str
    units_moved: int | None = None
    joint: PrivacyCurve | None = None


def audit_release(
    name: str,
    spec: ProtocolSpec,
    arguments: Mapping[str, int | str],
    neighbors: Neighbors,
    *,
    epsilon: Fraction,
    delta: Fraction,
) -> Audited:
    """Audit a release by its declared linear map; see docs/explanation/noise.md#the-audit.

    Computes: if values move by more than 1, the worst likelihood ratio counts once per unit, and each value's
    outermost atoms count one by one.

    Args:
        name: The release's name in tables.
        spec: The protocol that makes it.
        arguments: The protocol's arguments.
        neighbors: The neighboring data sets that the release protects.
        epsilon: The requested epsilon.
        delta: The requested delta.

    Raises:
        OptionError: No noise reaches epsilon and delta, or no linear map is declared.
    """
    texts = {argument: str(value) for argument, value in arguments.items()}
    queries = spec.release(texts) if spec.release else None
    with fitting(epsilon, delta):
        if not isinstance(queries, AboveThreshold):
            queries = declared_release(spec, texts)
        plan = plan_noise(queries, neighbors, epsilon, delta)
    parameters: dict[str, str | int] = {**arguments, "neighboring_relation": str(neighbors.relation)}
    if isinstance(queries, AboveThreshold):
        loss = _loss_of_index(queries, plan.coins)
    else:
        loss = _loss_of_values(queries, neighbors, plan)
        if plan.unit is PrivacyUnit.CLIENT:
            parameters["cap"] = neighbors.cap
    exact = loss.exact
    epsilon_at = {}
    if loss.joint is not None:
        epsilon_at = {name: loss.joint.least_epsilon(usual) for name, usual in DELTAS.items()}
    fault = None
    if exact.epsilon > plan.exact.epsilon or exact.delta > plan.exact.delta:
        fault = f"{loss.takes} more than the ε and δ that are claimed"
    return Audited(
        subject=f"{spec.name}.{neighbors.relation}{_active(neighbors)}",
        name=name,
        requested=Guarantee(epsilon, delta),
        parameters=parameters,
        figures=ReleaseFigures(
            neighbors.relation,
            loss.values_moved,
            exact.epsilon,
            exact.delta,
            values=loss.values,
            units_moved=loss.units_moved,
            epsilon_at=epsilon_at,
        ),
        curve=loss.joint,
        claimed=True,
        fault=fault,
    )


def _active(neighbors: Neighbors) -> str:
    """Return the end of a subject's name."""
    if neighbors.malleable_slots:
        return ".active"
    return ""


def _worst_ratio(single: PrivacyCurve) -> Fraction:
    """Return the largest finite likelihood ratio of a value that moves by 1."""
    ratio = single.least_ratio(single.impossible)
    assert ratio is not None  # at that delta it is finite by definition
    return ratio


def _loss_of_index(queries: AboveThreshold, coins: Coins) -> _Loss:
    """Return the loss of an index: two ratios, and the outermost atom of each value."""
    single = curve_of_coins(coins)
    epsilon = log_upper_bound(_worst_ratio(single) ** 2)
    delta = single.impossible * (1 + queries.counts)
    return _Loss(
        values=queries.counts + 1,
        values_moved=queries.counts,
        exact=Guarantee(epsilon, delta),
        takes=f"an index of {queries.counts} counts takes",
    )


def _loss_of_values(queries: LinearQueries, neighbors: Neighbors, plan: NoisePlan) -> _Loss:
    """Return the loss of noisy values; see `audit_release`."""
    cap = neighbors.cap
    single = curve_of_coins(plan.coins)
    ratio = _worst_ratio(single)
    moved = values_moved(queries, neighbors)
    moved_what = "units in all"
    values_that_move = moved
    units_moved: int | None = moved
    if queries.amounts:
        moves = amounts_moved(queries, neighbors)
        values_that_move = max(map(len, moves))
        lost = max(impossible_mass(plan.coins, move) for move in moves)
        exact = Guarantee(moved * log_upper_bound(ratio), lost)
    elif cap > 1:
        ways = 1
        if neighbors.malleable_slots:
            ways = 2  # some counts of a level fall, and others may rise
        levels = max(map(len, queries.columns))
        cells = min(ways * cap, queries.cells)
        values_that_move = levels * cells
        lost = impossible_mass_of_clients(plan.coins, ways * levels, cap)
        exact = Guarantee(moved * log_upper_bound(ratio), lost)
    else:
        moved_what = "values"
        units_moved = None
        exact = Guarantee(log_upper_bound(ratio**moved), single.impossible * moved)
    joint = None
    if moved <= _JOINT_VALUES and cap == 1:
        joint = composed([single] * moved)
    return _Loss(
        values=queries.nodes,
        values_moved=values_that_move,
        exact=exact,
        takes=f"a {plan.unit} moves {moved} {moved_what}, which takes",
        units_moved=units_moved,
        joint=joint,
    )


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
    """Audit a release with distributed noise, without the noise of the parties that may be corrupt.

    Computes: the largest delta over all ways in which a client's records spread.

    Args:
        name: The release's name in tables.
        spec: The protocol that makes it.
        arguments: The protocol's arguments.
        neighbors: The neighboring data sets that the release protects.
        epsilon: The requested epsilon.
        delta: The requested delta.
        distribution: The distribution of each party's noise.
        parties: The number of parties.
        tolerated: How many of them may be corrupt.

    Raises:
        OptionError: No noise reaches epsilon and delta, or a client has over 12 records.
    """
    relation = neighbors.relation
    cap = neighbors.cap
    if cap > _MOST_SPREADS:
        raise OptionError(
            f"An audit of distributed noise lists how records spread: {named('cap', _MOST_SPREADS)} at most."
        )
    queries = declared_release(spec, {key: str(value) for key, value in arguments.items()})
    with fitting(epsilon, delta):
        plan = plan_distributed_noise(queries, neighbors, epsilon, delta, distribution, parties, tolerated)
    noise = plan.own
    claim = plan.exact
    assert noise is not None
    moved = values_moved(queries, neighbors)
    if queries.amounts:
        moves = amounts_moved(queries, neighbors)
    else:
        values_per_record = moved // cap
        moves = {tuple(spread) * values_per_record for spread in _spreads(cap, cap)}
    scale = 1 << BITS * noise.honest
    masses = {value: Fraction(mass, scale) for value, mass in enumerate(noise.summed(noise.honest))}
    curves = {amount: curve_of_distribution(masses, [amount]) for move in moves for amount in move}
    if distribution is NoiseDistribution.LAPLACE:
        delta_found = _delta_of_shares(curves, moves, claim.epsilon / moved)
    else:
        delta_found = _delta_of_losses(curves, moves, claim.epsilon)
    fault = None
    if delta_found > claim.delta or claim.epsilon > epsilon:
        fault = (
            f"its δ at ε = {float(claim.epsilon):g} is {float(delta_found):.3g}, not {float(claim.delta):.3g}"
        )
    return Audited(
        subject=f"{spec.name}.own.{distribution}.{relation}{_active(neighbors)}",
        name=name,
        requested=Guarantee(epsilon, delta),
        parameters={
            **arguments,
            "neighboring_relation": str(relation),
            "cap": cap,
            "distribution": str(distribution),
            "parties": parties,
            "tolerated": tolerated,
        },
        figures=ReleaseFigures(
            relation,
            max(map(len, moves)),
            claim.epsilon,
            delta_found,
            values=queries.nodes,
            units_moved=moved,
            noise=PartiesNoise(noise.honest, len(noise.weights), noise.mean_square_error),
        ),
        claimed=True,
        fault=fault,
    )


def _delta_of_shares(
    curves: Mapping[int, PrivacyCurve], moves: Iterable[tuple[int, ...]], epsilon_per_unit: Fraction
) -> Fraction:
    """Return the largest sum of the moved values' deltas, each at its share of epsilon."""
    deltas = {}
    for amount, curve in curves.items():
        deltas[amount] = curve.delta(exp_bounds(epsilon_per_unit * amount)[0])
    largest = Fraction(0)
    for move in moves:
        delta_of_move = sum((deltas[amount] for amount in move), Fraction(0))
        largest = max(largest, delta_of_move)
    return largest


def _delta_of_losses(
    curves: Mapping[int, PrivacyCurve], moves: Iterable[tuple[int, ...]], epsilon: Fraction
) -> Fraction:
    """Return the largest delta of the moved values' losses together."""
    step = Fraction(max(1, round(epsilon * 10**9 / _STEPS)), 10**9)
    losses = {amount: _losses(curve.pairs[0], step) for amount, curve in curves.items()}
    deltas = []
    for move in moves:
        together = reduce(LossDistribution.composed, [losses[amount] for amount in move])
        deltas.append(together.delta(epsilon))
    return max(deltas)


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
    """Audit the release of a command.

    Args:
        name: A key of `RELEASES`.
        sizes: The sizes that differ from the command's defaults, by name.
        relation: The neighboring relation.
        epsilon: The requested epsilon.
        delta: The requested delta.
        cap: Records of a client that count; None is 10, or 1 if a client has one value.
        distributed: The distribution of distributed noise, the number of parties, and how many of them may be
            corrupt; None for joint noise.

    Raises:
        OptionError: No noise reaches epsilon and delta, there are over a million cells, or the command has
            no such release.
    """
    release = AUDIT_TARGETS[name]
    chosen = {**release.sizes, **sizes}
    cells = release.cells(chosen)
    if cells > _MAX_CELLS:
        raise OptionError(f"An audit lists all cells, here {cells}; at most {_MAX_CELLS}.")
    if relation not in release.relations:
        raise OptionError(f"{name} is released under {' or '.join(release.relations)}, not {relation}.")
    if cap is None:
        are_clients = relation is NeighboringRelation.ZERO_OUT_ONE
        cap = 1
        if are_clients and release.counts_records:
            cap = DEFAULT_CAP
    distribution = None
    if distributed is not None:
        distribution = distributed[0]
    with fitting(epsilon, delta):
        neighbors = Neighbors(relation, cap, release.malleable_slots)
        spec, arguments = release.declared(chosen, neighbors, epsilon, delta, distribution)
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


def _spreads(units: int, most: int) -> Iterator[list[int]]:
    """Yield all ways to write `units` as a sum of falling parts, none above `most`."""
    if not units:
        yield []
    for first in range(min(units, most), 0, -1):
        for rest in _spreads(units - first, first):
            yield [first, *rest]


def _losses(pair: tuple[tuple[Fraction, Fraction], ...], step: Fraction) -> LossDistribution:
    """Return the distribution of the loss of a pair of neighbors, in steps."""
    total = lcm(*(mass.denominator for mass in chain.from_iterable(pair)))
    outcomes = [(int(p * total), int(q * total)) for p, q in pair]
    return loss_distribution(outcomes, total, step, 4 * _STEPS)


_EPSILON_1 = Fraction(1)
_DELTA = DELTAS["2^-40"]


def _papers_sizes(name: str) -> dict[str, int]:
    """Return the sizes of PrivFairFL, where they differ from the command's defaults."""
    if "thresholds" in AUDIT_TARGETS[name].sizes:
        return {"thresholds": PAPERS_THRESHOLDS}
    return {}


@dataclass(frozen=True)
class ReferenceAudit:
    """An audit of a release in the reference set, at ε = 1 and δ = 2^-40; it may take minutes.

    Attributes:
        name: A key of `RELEASES`.
        relation: The neighboring relation.
        distribution: The distribution of the noise of three parties, of which one may be corrupt; None for
            joint noise.
    """

    name: str
    relation: NeighboringRelation
    distribution: NoiseDistribution | None = None

    def audited(self) -> Audited:
        """Audit the release."""
        distributed = None
        if self.distribution is not None:
            distributed = self.distribution, 3, 1
        return audit_command(
            self.name,
            _papers_sizes(self.name),
            self.relation,
            epsilon=_EPSILON_1,
            delta=_DELTA,
            distributed=distributed,
        )


def _with_joint_noise() -> Iterator[ReferenceAudit]:
    """Yield an audit of each release under each of its neighboring relations."""
    for name, release in AUDIT_TARGETS.items():
        for relation in release.relations:
            yield ReferenceAudit(name, relation)


def _with_distributed_noise() -> Iterator[ReferenceAudit]:
    """Yield audits of each release and distribution of distributed noise."""
    for name in with_distributed_noise():
        if not AUDIT_TARGETS[name].counts_records:  # at this ε other values are too wide for any table
            continue
        for distribution in NoiseDistribution:
            yield ReferenceAudit(name, AUDIT_TARGETS[name].relations[0], distribution)


# The audits of `./inv audit`, in the order of its tables. Tests check each of them.
OF_SAMPLERS: tuple[Callable[[], Audited], ...] = (
    partial(audit_sampler, _EPSILON_1, _DELTA, subject="pi_lap.default.1"),
    partial(audit_sampler, Fraction(1, 2), _DELTA, subject="pi_lap.default.1_2"),
    partial(audit_sampler, Fraction(1, 3), _DELTA, subject="pi_lap.default.1_3"),
)
OF_RELEASES: tuple[Callable[[], Audited], ...] = (
    *(audit.audited for audit in _with_joint_noise()),
    *(audit.audited for audit in _with_distributed_noise()),
)
OF_LOCAL_MECHANISMS: tuple[Callable[[], Audited], ...] = (
    partial(audit_m_r, "repaired_1", _EPSILON_1),
    partial(audit_m_l, "k2", _EPSILON_1),
)


def reference_set() -> Iterator[Audited]:
    """Yield the audits of this project's noise, releases and local mechanisms.

    A clone's `./inv audit` has published mechanisms, too (`benchmarks/papers/audits.py`).
    """
    for audits in (OF_SAMPLERS, OF_RELEASES, OF_LOCAL_MECHANISMS):
        for audit in audits:
            yield audit()
