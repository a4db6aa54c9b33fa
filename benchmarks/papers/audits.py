"""Audits of published mechanisms, which this project does not offer: `./inv audit` of a clone shows them."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from benchmarks.papers.empirical import DeltaEstimate, estimate_delta
from benchmarks.papers.published_baselines import (
    FRACTION_BITS,
    ONE,
    TRUNCATED,
    composed_laplace,
    ideal_log,
    laplace_distribution,
    mp_spdz_log,
    protocol_4,
)
from fairshares.harness.errors import OptionError, named
from fairshares.harness.privacy.audit.figures import (
    DELTAS,
    CurveFigures,
    Figure,
    Figures,
    LocalFigures,
    NoiseFigures,
    ReleaseFigures,
)
from fairshares.harness.privacy.audit.releases import (
    OF_LOCAL_MECHANISMS,
    OF_RELEASES,
    OF_SAMPLERS,
    PAPERS_THRESHOLDS,
)
from fairshares.harness.privacy.audit.samplers import GROUPS, OF_LOCAL, Audited
from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors
from fairshares.protocols.accounting.exact_privacy import curve_of_distribution, values_moved
from fairshares.protocols.accounting.rounding import exact_text
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.local_dp.exact_privacy import (
    claimed_for_l,
    epsilon_of_l,
    epsilon_of_r,
    log_ratio_of_l,
)
from fairshares.protocols.local_dp.randomizers import Grr, MechanismR

PAPERS_GROUPS = 2
LOGARITHMS = {"ideal": ideal_log, "mp-spdz": mp_spdz_log}
CONFIDENCE = 1 - Fraction(1, 10**9)  # the confidence of empirical figures
_EMULATED = " (MP-SPDZ)"  # ends the names of audits with MP-SPDZ's own logarithm
_EPSILON_1 = Fraction(1)
_FAR = 10  # an output, in the scale from -1 to 1, at which an unbounded ratio is shown
_OF_THE_TABLE = (
    "published: PrivFairFL's Protocol 1 with 16 fractional bits, revealed raw, or after rounding to "
    "an integer. Its logarithm is the ideal one, or MP-SPDZ's to the last bit (round_nearest = True)."
)


@dataclass(frozen=True)
class EmpiricalFigures(Figures):
    """A lower bound of noise's delta, estimated from samples.

    Attributes:
        delta: The estimate.
        delta_low: The lower end of its interval.
        delta_high: The upper end.
    """

    delta: Fraction
    delta_low: Fraction
    delta_high: Fraction

    def by_name(self) -> dict[str, Figure]:
        return {"delta": self.delta, "delta_low": self.delta_low, "delta_high": self.delta_high}


def audit_published(epsilon: Fraction, log: str, *, rounded: bool, subject: str) -> Audited:
    """Audit π_LAP as published, with 16 fractional bits, for counts that move by 1.

    Args:
        epsilon: 1 / the noise's scale.
        log: A key of `LOGARITHMS`.
        rounded: Whether the noise becomes an integer inside the computation.
        subject: Begins the names of the rows.

    Raises:
        OptionError: The epsilon is so small that the published sampler overflows.
    """
    try:
        distribution = laplace_distribution(1 / epsilon, LOGARITHMS[log], rounded=rounded)
    except OverflowError as error:
        raise OptionError(
            f"{named('epsilon', exact_text(epsilon))} is too small for the published sampler: {error}."
        ) from None
    unit = 1 if rounded else ONE
    revealed = "rounded" if rounded else "raw"
    name = f"published, {revealed}"
    if log == "mp-spdz":
        name += _EMULATED
    curve = curve_of_distribution(distribution, [unit])
    return Audited(
        subject,
        name,
        Guarantee(epsilon, Fraction(0)),
        parameters={
            "sensitivity": 1,
            "fraction_bits": FRACTION_BITS,
            "logarithm": log,
            "revealed": revealed,
        },
        figures=NoiseFigures(
            CurveFigures.of(curve, epsilon, Fraction(0)),  # the paper claims a delta of 0
            largest_noise=Fraction(max(abs(value) for value in distribution), unit),
            mean_square_error=_second_moment(distribution) / unit**2,
        ),
        curve=curve,
        drawn=log != "mp-spdz",  # a curve that nobody could tell from the ideal logarithm's
        note=_OF_THE_TABLE,
    )


def audit_truncated() -> Audited:
    """Bound from below the delta of π_LAP as published, not rounded, under MP-SPDZ's default truncation.

    The distribution of this truncation is unknown. So the bound follows from recorded samples.
    """
    requested = Guarantee(Fraction(1), Fraction(0))
    estimate = estimate_delta(TRUNCATED, float(requested.epsilon), float(CONFIDENCE))
    name = "published, raw, default truncation"
    return Audited(
        "pi_lap.published.raw.probabilistic",
        name,
        requested,
        parameters={
            "sensitivity": 1,
            "fraction_bits": FRACTION_BITS,
            "logarithm": "mp-spdz, probabilistic truncation",
            "revealed": "raw",
            "label": "empirical",
            "samples": TRUNCATED.samples,
            "confidence": str(CONFIDENCE),
        },
        figures=EmpiricalFigures(
            delta=Fraction(estimate.value),
            delta_low=Fraction(estimate.low),
            delta_high=Fraction(estimate.high),
        ),
        note=_empirical(name, estimate),
    )


def _empirical(name: str, estimate: DeltaEstimate) -> str:
    """Return the bounds of an estimate at epsilon = 1, rounded outwards."""
    at_least = math.floor(Fraction(estimate.low) * 1000) / 1000
    most = math.ceil(Fraction(estimate.high) * 1000) / 1000
    return (
        f"Empirical: {name}, ε = 1: δ is at least {at_least:.3f}. One event tells neighbors apart by "
        f"{estimate.value:.3f} ({at_least:.3f} – {most:.3f}, confidence 1 − 10⁻⁹) in {TRUNCATED.samples:,} "
        "samples that MP-SPDZ revealed; another event may do better."
    )


def audit_protocol_4(epsilon: Fraction, relation: NeighboringRelation) -> Audited:
    """Audit Protocol 4's release: each count at each threshold gets Laplace noise of scale 1 / epsilon.

    Its epsilon at a small delta is a numerical bound for ideal noise.
    """
    moved = values_moved(protocol_4(PAPERS_GROUPS, PAPERS_THRESHOLDS), Neighbors(relation))
    at = composed_laplace(float(epsilon), moved, float(DELTAS["1e-6"]))
    subject = "pi_roc.published"
    if relation is NeighboringRelation.REPLACE_ONE:
        subject += ".replace_one"
    return Audited(
        subject,
        "thresholds as published",
        Guarantee(epsilon, Fraction(0)),
        parameters={
            "thresholds": PAPERS_THRESHOLDS,
            "groups": PAPERS_GROUPS,
            "neighboring_relation": str(relation),
        },
        figures=ReleaseFigures(relation, moved, moved * epsilon, epsilon_at={"1e-6": Fraction(at)}),
    )


def audit_published_m_r(epsilon: Fraction) -> Audited:
    """Audit M_R as published, at epsilon_1 = epsilon_2 = epsilon."""
    exact = epsilon_of_r(MechanismR.with_budgets(GROUPS, epsilon, epsilon))
    return Audited(
        subject="ldp.m_r.1_1",
        name="M_R, as published",
        requested=Guarantee(epsilon, Fraction(0)),
        parameters=OF_LOCAL,
        figures=LocalFigures(exact, epsilon),
    )


def audit_m_l_of_one(epsilon: Fraction) -> Audited:
    """Audit M_L with k = 1, at epsilon_2 = epsilon and the largest epsilon_1 that the paper's Eq. (1) allows.

    By Eq. (1) that is ln(2 / k) + epsilon (1 - 1 / k). Only k = 2 has a guarantee
    (docs/explanation/local-privacy.md).
    """
    k = Fraction(1)
    epsilon_1 = Fraction(math.log(2 / k)).limit_denominator(10**9) + epsilon * (1 - 1 / k)
    exact = epsilon_of_l(Grr.private(GROUPS, epsilon_1).odds, epsilon, k)
    stated = Fraction(claimed_for_l(epsilon_1, epsilon, k)).limit_denominator(10**9)
    log_ratio = None
    if exact is None:
        log_ratio = Fraction(log_ratio_of_l(epsilon_1, epsilon, k, _FAR))
    return Audited(
        subject="ldp.m_l.k1",
        name="M_L, k = 1",
        requested=Guarantee(epsilon, Fraction(0)),
        parameters={**OF_LOCAL, "k": int(k)},
        figures=LocalFigures(exact, stated, log_ratio),
    )


def _samplers() -> Iterator[Callable[[], Audited]]:
    """Yield audits of π_LAP as published, by logarithm and rounding, and of its default truncation."""
    for epsilon, log, rounded, end in (
        (_EPSILON_1, "ideal", False, "raw"),
        (_EPSILON_1, "ideal", True, "rounded"),
        (_EPSILON_1, "mp-spdz", False, "raw.mp_spdz"),
        (_EPSILON_1, "mp-spdz", True, "rounded.mp_spdz"),
        (Fraction(1, 10), "ideal", False, "raw.1_10"),
        (Fraction(1, 10), "ideal", True, "rounded.1_10"),
    ):
        yield partial(audit_published, epsilon, log, rounded=rounded, subject=f"pi_lap.published.{end}")
    yield audit_truncated


PUBLISHED_SAMPLERS: tuple[Callable[[], Audited], ...] = tuple(_samplers())
PROTOCOL_4: tuple[Callable[[], Audited], ...] = (
    partial(audit_protocol_4, _EPSILON_1, NeighboringRelation.ADD_OR_REMOVE_ONE),
    partial(audit_protocol_4, _EPSILON_1, NeighboringRelation.REPLACE_ONE),
)
PUBLISHED_LOCAL_MECHANISMS: tuple[Callable[[], Audited], ...] = (
    partial(audit_published_m_r, _EPSILON_1),
    partial(audit_m_l_of_one, _EPSILON_1),
)


def _local_mechanisms() -> Iterator[Callable[[], Audited]]:
    """Yield the audits of local mechanisms, each published one before what this project has in its place."""
    for published, ours in zip(PUBLISHED_LOCAL_MECHANISMS, OF_LOCAL_MECHANISMS, strict=True):
        yield published
        yield ours


LOCAL_MECHANISMS: tuple[Callable[[], Audited], ...] = tuple(_local_mechanisms())


def reference_set() -> Iterator[Audited]:
    """Yield the project's own audits, each kind with the published mechanisms that it is compared with."""
    for audits in (OF_SAMPLERS, PUBLISHED_SAMPLERS, OF_RELEASES, PROTOCOL_4, LOCAL_MECHANISMS):
        for audit in audits:
            yield audit()


def published_samplers(epsilon: Fraction) -> list[Audited]:
    """Return the audits of π_LAP as published, with noise of scale 1 / epsilon.

    Raises:
        OptionError: The epsilon is so small that the published sampler overflows.
    """
    audits: list[Audited] = []
    for rounded in (False, True):
        revealed = "rounded" if rounded else "raw"
        for log in LOGARITHMS:
            subject = f"pi_lap.published.{revealed}.{log.replace('-', '_')}"
            audits.append(audit_published(epsilon, log, rounded=rounded, subject=subject))
    return audits


def _second_moment(distribution: Mapping[int, Fraction]) -> Fraction:
    """Return E[X^2], exactly, from the mass of every value."""
    scale = math.lcm(*(mass.denominator for mass in distribution.values()))
    # As integers, because there may be 10^5 values.
    scaled = sum(int(mass * scale) * value * value for value, mass in distribution.items())
    return Fraction(scaled, scale)
