"""What `./inv audit` finds of noise of the parties' own: the tables' atoms, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import reduce
from math import lcm

from harness.errors import OptionError
from harness.privacy.audit.samplers import Audited, Figure, budget_parameters, no_noise
from protocols.accounting.calibration import Neighbors, plan_own_noise
from protocols.accounting.exact_privacy import amounts_moved, curve_of_law, values_moved
from protocols.accounting.losses import LossLaw, loss_law
from protocols.circuits.coins import exp_bounds
from protocols.noise.tables import BITS, NoiseLaw
from protocols.spec import ProtocolSpec, declared_release

_STEPS = 8000  # of the loss, in epsilon: finer than what chose the table
_MOST_SPREADS = 12  # records of a client, whose 77 ways to spread are listed


def audit_own_noise(
    name: str,
    spec: ProtocolSpec,
    arguments: Mapping[str, int | str],
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    law: NoiseLaw,
    parties: int,
    tolerated: int,
) -> Audited:
    """Audit a release with own noise: what the tables of all parties but those tolerated protect.

    Computes: from the atoms of the honest parties' sum, for all ways in which a client's records spread, the
    same on each level: Laplace: the sum of the moved values' deltas, each at its share of epsilon; Gaussian:
    the delta of their losses together, which is not too low.
    Raises: OptionError: no table reaches epsilon and delta, or a client has over 12 records.
    """
    relation, cap = neighbors.relation, neighbors.cap
    if cap > _MOST_SPREADS:
        raise OptionError(f"An audit of own noise lists how records spread: --cap {_MOST_SPREADS} at most.")
    release = declared_release(spec, {each: str(value) for each, value in arguments.items()})
    try:
        plan = plan_own_noise(release, neighbors, epsilon, delta, law, parties, tolerated)
    except ValueError as error:
        raise no_noise(epsilon, delta, error) from None
    own, claim = plan.own, plan.exact
    assert own is not None
    moved = values_moved(release, neighbors)
    if release.amounts:
        moves = amounts_moved(release, neighbors)
    else:
        moves = {tuple(spread) * (moved // cap) for spread in _spreads(cap, cap)}
    scale = 1 << BITS * own.honest
    atoms = {x: Fraction(mass, scale) for x, mass in enumerate(own.summed(own.honest))}
    pairs = {s: curve_of_law(atoms, [s]) for s in {*sum(moves, ())}}
    if law is NoiseLaw.LAPLACE:
        deltas = {s: curve.delta(exp_bounds(claim.epsilon * s / moved)[0]) for s, curve in pairs.items()}
        found = max(sum((deltas[s] for s in move), Fraction(0)) for move in moves)
    else:
        step = Fraction(max(1, round(claim.epsilon * 10**9 / _STEPS)), 10**9)
        laws = {s: _losses(curve.pairs[0], step) for s, curve in pairs.items()}
        found = max(reduce(LossLaw.composed, [laws[s] for s in move]).delta(claim.epsilon) for move in moves)
    fault = None
    if found > claim.delta or claim.epsilon > epsilon:
        fault = f"its δ at ε = {float(claim.epsilon):g} is {float(found):.3g}, not {float(claim.delta):.3g}"
    figures: dict[str, Figure] = {
        "values": release.nodes,
        "values_moved": max(map(len, moves)),
        "units_moved": moved,
        "epsilon": claim.epsilon,
        "delta": found,
        "honest_parties": own.honest,
        "table_entries": len(own.weights),
        "mean_square_error": own.mean_square_error,
    }
    parameters = {**arguments, **budget_parameters(epsilon, delta), "neighboring_relation": str(relation)}
    parameters |= {"law": str(law), "parties": parties, "tolerated": tolerated, "cap": cap}
    subject = f"{spec.name}.own.{law}.{relation}" + ".active" * neighbors.malleable_slots
    return Audited(subject, name, parameters, epsilon, figures, None, True, fault)


def _spreads(units: int, most: int) -> Iterator[list[int]]:
    """List all ways to write a number as a sum of parts, none above `most`."""
    if not units:
        yield []
    for first in range(min(units, most), 0, -1):
        for rest in _spreads(units - first, first):
            yield [first, *rest]


def _losses(pair: tuple[tuple[Fraction, Fraction], ...], step: Fraction) -> LossLaw:
    total = lcm(*(mass.denominator for masses in pair for mass in masses))
    return loss_law([(int(p * total), int(q * total)) for p, q in pair], total, step, 4 * _STEPS)
