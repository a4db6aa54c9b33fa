"""What `./inv audit` looks at: samplers and releases, recomputed and held against what is claimed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod

from harness.errors import OptionError
from harness.rounding import float_up
from protocols.audit import (
    PrivacyCurve,
    composed,
    cost,
    curve_of_coins,
    curve_of_law,
    declared_release,
    second_moment,
    values_moved,
)
from protocols.budget import NeighboringRelation, bits_at_most, plan_noise
from protocols.circuits.coins import MIN_DELTA_BITS, Coin, design_coins, exp_bounds
from protocols.empirical import estimate_delta
from protocols.noise import Guarantee, guarantee, largest_noise, log_upper_bound, mean_square_error
from protocols.published import (
    FRACTION_BITS,
    ONE,
    TRUNCATED,
    composed_laplace,
    ideal_log,
    laplace_law,
    mp_spdz_log,
    protocol_4,
)
from protocols.release import LinearRelease
from protocols.spec import PI_ROC, PI_RW, ProtocolSpec
from protocols.tree import best_tree

Figure = Fraction | int | str | None  # None: no finite value has the property; str: exact, "p/q"

Declared = tuple[ProtocolSpec, dict[str, int | str]]  # a protocol, and arguments of its program

DELTAS = {"1e-6": Fraction(1, 10**6), "1e-9": Fraction(1, 10**9), "2^-40": Fraction(1, 2**40)}
EMULATED = " (MP-SPDZ)"  # in the names of what was audited with MP-SPDZ's own logarithm
LOGARITHMS = {"ideal": ideal_log, "mp-spdz": mp_spdz_log}
PAPERS_THRESHOLDS, PAPERS_GROUPS = 1001, 2

_ADD, _REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
_DELTA = DELTAS["2^-40"]
CONFIDENCE = 1 - Fraction(1, 10**9)  # of empirical figures
_MAX_CELLS = 10**6
_JOINT_VALUES = 3  # of more values the joint law has too many likelihood ratios


@dataclass(frozen=True)
class Audited:
    """One sampler or release, audited.

    Attributes: subject: how its rows' names begin; name: what people call it; parameters: what it was
    audited at; epsilon: the one it was asked for; figures: by the end of their rows' names; curve: its
    delta(epsilon), where that was computed; claimed: whether this project states a guarantee for it;
    fault: why that does not hold, None if it does.
    """

    subject: str
    name: str
    parameters: Mapping[str, str | int]
    epsilon: Fraction
    figures: Mapping[str, Figure]
    curve: PrivacyCurve | None = None
    claimed: bool = False
    fault: str | None = None

    def rows(self) -> list[dict[str, object]]:
        """Return a row per figure as `--json` has it; bounds are rounded up."""
        return [
            {"subject": f"{self.subject}.{end}", "parameters": dict(self.parameters), "value": _json(figure)}
            for end, figure in self.figures.items()
        ]


def _json(figure: Figure) -> int | float | str:
    if figure is None:
        return "inf"
    return float_up(figure) if isinstance(figure, Fraction) else figure


def audit_coins(
    coins: tuple[Coin, ...],
    epsilon: Fraction,
    claim: Guarantee,
    parameters: Mapping[str, str | int],
    sensitivity: int = 1,
    subject: str = "pi_lap.default",
) -> Audited:
    """Audit the default noise from its distribution.

    Args: epsilon: what it was designed for; claim: what is said of it, a fault unless it is so.
    """
    curve = curve_of_coins(coins, sensitivity)
    spent = cost(coins)
    figures: dict[str, Figure] = {
        **_curve_figures(curve, epsilon),
        "largest_noise": largest_noise(coins),
        "mean_square_error": mean_square_error(coins),
        "ands": spent.ands,
        "and_depth": spent.depth,
        "fair_bits": spent.fair_bits,
    }
    found = curve.delta(exp_bounds(claim.epsilon)[0])
    fault = None
    if found > claim.delta:
        fault = f"its δ at ε = {float(claim.epsilon):g} is {float(found):.3g}, not {float(claim.delta):.3g}"
    return Audited(subject, "default", parameters, epsilon, figures, curve, True, fault)


def audit_default(
    epsilon: Fraction, delta: Fraction, sensitivity: int = 1, subject: str = "pi_lap.default"
) -> Audited:
    """Design the default noise for counts that move by up to `sensitivity`, and audit it.

    Computes: coins for epsilon / sensitivity per unit; the outermost atoms grow by e^(epsilon /
    sensitivity) inwards, so `sensitivity` of them weigh at most e^epsilon times as many outermost ones.
    Raises: OptionError: no coins reach epsilon and delta.
    """
    most = sensitivity * (exp_bounds(epsilon)[1] if sensitivity > 1 else 1)
    bits = max(MIN_DELTA_BITS, bits_at_most(delta / most))
    try:
        coins = design_coins(epsilon / sensitivity, bits)
        parameters = _parameters(epsilon, delta, sensitivity=sensitivity)
        claim = guarantee(coins) if sensitivity == 1 else Guarantee(epsilon, delta)
        return audit_coins(coins, epsilon, claim, parameters, sensitivity, subject)
    except ValueError as error:
        raise no_noise(epsilon, delta, error) from None


def audit_published(epsilon: Fraction, log: str, *, rounded: bool, subject: str) -> Audited:
    """Audit π_LAP as published, at 16 fractional bits, for counts that move by 1.

    Args: log: "ideal" or "mp-spdz"; rounded: whether the noise is rounded to an integer before it is
    added, inside the computation.
    Raises: OptionError: epsilon is so small that the noise overflows.
    """
    try:
        law = laplace_law(1 / epsilon, LOGARITHMS[log], rounded=rounded)
    except OverflowError as error:
        raise OptionError(f"--epsilon {epsilon} is too small for the published sampler: {error}.") from None
    unit = 1 if rounded else ONE
    curve = curve_of_law(law, [unit])
    figures: dict[str, Figure] = {
        **_curve_figures(curve, epsilon),
        "largest_noise": Fraction(max(abs(x) for x in law), unit),
        "mean_square_error": second_moment(law) / unit**2,
    }
    parameters: dict[str, str | int] = {
        "epsilon": str(epsilon),
        "sensitivity": 1,
        "fraction_bits": FRACTION_BITS,
        "logarithm": log,
        "revealed": "rounded" if rounded else "raw",
    }
    name = f"published, {'rounded' if rounded else 'raw'}{EMULATED if log == 'mp-spdz' else ''}"
    return Audited(subject, name, parameters, epsilon, figures, curve)


def audit_release(
    name: str,
    spec: ProtocolSpec,
    arguments: Mapping[str, int | str],
    relation: NeighboringRelation,
    epsilon: Fraction,
    delta: Fraction,
) -> Audited:
    """Audit a release: what one record moves, from the declared linear map, and what that adds up to.

    Computes: basic composition over the values that a record moves, of the audited noise; for up to three
    also the joint law's own curve, which is exact.
    Raises: OptionError: no noise reaches epsilon and delta, or nobody has declared the linear map.
    """
    try:
        release = declared_release(spec, {name: str(value) for name, value in arguments.items()})
        plan = plan_noise(release, relation, epsilon, delta)
    except ValueError as error:
        raise no_noise(epsilon, delta, error) from None
    moved = values_moved(release, relation)
    one = curve_of_coins(plan.coins)
    ratio = one.least_ratio(one.impossible)
    assert ratio is not None  # at that delta it is finite by definition
    figures: dict[str, Figure] = {
        "values": release.nodes,
        "values_moved": moved,
        "epsilon": log_upper_bound(ratio**moved),
        "delta": one.impossible * moved,
    }
    joint = None
    if moved <= _JOINT_VALUES:
        joint = composed(one, moved)
        figures |= {f"epsilon_at_{at}": joint.least_epsilon(least) for at, least in DELTAS.items()}
    fault = None
    if log_upper_bound(ratio**moved) > plan.exact.epsilon or one.impossible * moved > plan.exact.delta:
        fault = f"a record moves {moved} values, which takes more than the ε and δ that are claimed"
    parameters = {**arguments, **_parameters(epsilon, delta), "neighboring_relation": str(relation)}
    return Audited(f"{spec.name}.{relation}", name, parameters, epsilon, figures, joint, True, fault)


def audit_truncated() -> Audited:
    """Bound from below what π_LAP as published gives away, raw, under MP-SPDZ's default truncation.

    Computes: the recorded tally's estimate. Its law is not known, so this is empirical and no upper bound.
    """
    epsilon = Fraction(1)
    found = estimate_delta(TRUNCATED, float(epsilon), float(CONFIDENCE))
    figures: dict[str, Figure] = {
        "delta": Fraction(found.value),
        "delta_low": Fraction(found.low),
        "delta_high": Fraction(found.high),
    }
    parameters: dict[str, str | int] = {
        "epsilon": str(epsilon),
        "sensitivity": 1,
        "fraction_bits": FRACTION_BITS,
        "logarithm": "mp-spdz, probabilistic truncation",
        "revealed": "raw",
        "label": "empirical",
        "samples": TRUNCATED.samples,
        "confidence": str(CONFIDENCE),
    }
    subject = "pi_lap.published.raw.probabilistic"
    return Audited(subject, "published, raw, default truncation", parameters, epsilon, figures)


@dataclass(frozen=True)
class Release:
    """What a command opens.

    Attributes: sizes: the options that say how large, with their defaults; declared: from these and the
    budget to the protocol and those of its arguments that its linear map depends on.
    """

    sizes: Mapping[str, int]
    declared: Callable[
        [Mapping[str, int], NeighboringRelation, Fraction, Fraction],
        Declared,
    ]


_TABLE = {"groups": 2, "labels": 2}


def _weights(sizes: Mapping[str, int], *_: object) -> Declared:
    return PI_RW, {**sizes}


def _thresholds(
    sizes: Mapping[str, int], relation: NeighboringRelation, epsilon: Fraction, delta: Fraction
) -> Declared:
    blocks = best_tree(sizes["thresholds"], relation, epsilon, delta).blocks
    table = {name: sizes[name] for name in _TABLE}
    return PI_ROC, {**table, "bins": sizes["thresholds"], "blocks": ".".join(map(str, blocks))}


RELEASES: dict[str, Release] = {
    "weights": Release(_TABLE, _weights),
    "thresholds": Release({**_TABLE, "thresholds": PAPERS_THRESHOLDS}, _thresholds),
}


def audit_command(
    name: str, sizes: Mapping[str, int], relation: NeighboringRelation, epsilon: Fraction, delta: Fraction
) -> Audited:
    """Audit what a command releases. Args: sizes: those that are not its defaults.

    Raises: OptionError: no noise reaches epsilon and delta, or there are over a million cells.
    """
    chosen = {**RELEASES[name].sizes, **sizes}
    if prod(chosen.values()) > _MAX_CELLS:
        raise OptionError(f"An audit lists all cells, here {prod(chosen.values())}; at most {_MAX_CELLS}.")
    try:
        spec, arguments = RELEASES[name].declared(chosen, relation, epsilon, delta)
    except ValueError as error:
        raise no_noise(epsilon, delta, error) from None
    return audit_release(name, spec, arguments, relation, epsilon, delta)


def audit_protocol_4(epsilon: Fraction, relation: NeighboringRelation) -> Audited:
    """Audit Protocol 4's release: Laplace noise of scale 1 / epsilon on each count at each threshold.

    Computes: epsilon exactly: every value that a record moves, moves by 1, and their worst ratios multiply.
    What it still is at a small delta is a numerical bound, for the ideal Laplace distribution.
    """
    moved = values_moved(_papers_release(), relation)
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
    subject = "pi_roc.published" + (".replace_one" if relation is _REPLACE else "")
    return Audited(subject, "thresholds as published", parameters, epsilon, figures)


@cache
def _papers_release() -> LinearRelease:
    return protocol_4(PAPERS_GROUPS, PAPERS_THRESHOLDS)


def reference_set() -> Iterator[Audited]:
    """Yield what `./inv audit` without arguments looks at. Subjects of rows are unique."""
    for one in _REFERENCE:
        yield one()


def no_noise(epsilon: Fraction, delta: Fraction, error: ValueError) -> OptionError:
    """Return the error for a budget that nothing fits."""
    return OptionError(f"No noise fits --epsilon {epsilon} and --delta {float(delta):.3g}: {error}.")


def _published(epsilon: Fraction, log: str, *, rounded: bool, end: str = "") -> Callable[[], Audited]:
    subject = f"pi_lap.published.{'rounded' if rounded else 'raw'}{end}"
    return lambda: audit_published(epsilon, log, rounded=rounded, subject=subject)


def _default(epsilon: Fraction, end: str) -> Callable[[], Audited]:
    return lambda: audit_default(epsilon, _DELTA, subject=f"pi_lap.default{end}")


def _release(name: str, relation: NeighboringRelation) -> Callable[[], Audited]:
    return lambda: audit_command(name, {}, relation, Fraction(1), _DELTA)


# Add what is to be audited by default here; `./inv audit` and its tests take it from here alone.
_REFERENCE: tuple[Callable[[], Audited], ...] = (
    _default(Fraction(1), ".1"),
    _default(Fraction(1, 2), ".1_2"),
    _default(Fraction(1, 3), ".1_3"),
    _published(Fraction(1), "ideal", rounded=False),
    _published(Fraction(1), "ideal", rounded=True),
    _published(Fraction(1), "mp-spdz", rounded=False, end=".mp_spdz"),
    _published(Fraction(1), "mp-spdz", rounded=True, end=".mp_spdz"),
    _published(Fraction(1, 10), "ideal", rounded=False, end=".1_10"),
    _published(Fraction(1, 10), "ideal", rounded=True, end=".1_10"),
    audit_truncated,
    *(_release(name, relation) for name in RELEASES for relation in NeighboringRelation),
    lambda: audit_protocol_4(Fraction(1), _ADD),
    lambda: audit_protocol_4(Fraction(1), _REPLACE),
)


def _curve_figures(curve: PrivacyCurve, epsilon: Fraction) -> dict[str, Figure]:
    return {
        "epsilon": curve.least_epsilon(curve.impossible),
        "delta": curve.delta_bounds(epsilon)[1],
        "delta_at_every_epsilon": str(curve.impossible),
        **{f"epsilon_at_{at}": curve.least_epsilon(delta) for at, delta in DELTAS.items()},
    }


def _parameters(epsilon: Fraction, delta: Fraction, **more: int) -> dict[str, str | int]:
    return {"epsilon": str(epsilon), "delta": power_of_two(delta), **more}


def power_of_two(delta: Fraction) -> str:
    """Return 2^-n for such a delta, p/q for any other."""
    n = delta.denominator.bit_length() - 1
    return f"2^-{n}" if delta == Fraction(1, 1 << n) else str(delta)
