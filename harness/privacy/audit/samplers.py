"""Audits of samplers and local mechanisms for `./inv audit`."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from fairshares.harness.privacy.audit.figures import (
    CurveFigures,
    Figure,
    Figures,
    LocalFigures,
    NoiseFigures,
    SampleCost,
)
from fairshares.harness.releases.base import fitting
from fairshares.protocols.accounting.calibration import bits_at_most
from fairshares.protocols.accounting.exact_privacy import (
    PrivacyCurve,
    cost,
    curve_of_coins,
)
from fairshares.protocols.accounting.rounding import float_up
from fairshares.protocols.circuits.coins import Coins, design_noise, exp_bounds
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.local_dp.exact_privacy import claimed_for_l, epsilon_of_l, epsilon_of_r
from fairshares.protocols.local_dp.randomizers import MechanismL, MechanismR
from fairshares.protocols.noise import truncated as noise

GROUPS = 2  # groups in audits of local mechanisms
OF_LOCAL: Mapping[str, str | int] = {"groups": GROUPS, "neighboring_relation": "replace_one"}


@dataclass(frozen=True)
class Audited:
    """An audited sampler or release.

    Args:
        subject: Begins the names of its rows.
        name: The sampler's name in tables.
        requested: The epsilon and delta that its noise was made for.
        parameters: The sampler's further parameters.
        figures: The figures that were found, whose type says what was audited.
        curve: The sampler's delta as a function of epsilon, if that is known.
        drawn: Whether a picture of curves has this curve.
        note: A sentence about its figures, which is shown beneath their table.
        claimed: Whether the project claims the guarantee; published mechanisms are audited without a claim.
        fault: Why a claimed guarantee fails; None if it holds.
    """

    subject: str
    name: str
    requested: Guarantee
    parameters: Mapping[str, str | int]
    figures: Figures
    curve: PrivacyCurve | None = None
    drawn: bool = True
    note: str | None = None
    claimed: bool = False
    fault: str | None = None

    def rows(self) -> list[dict[str, JsonValue]]:
        """Return a row for each figure, with fractions rounded up."""
        parameters: dict[str, JsonValue] = {"epsilon": str(self.requested.epsilon)}
        if self.requested.delta:
            parameters["delta"] = power_of_two(self.requested.delta)
        parameters |= self.parameters
        rows: list[dict[str, JsonValue]] = []
        for end, figure in self.figures.by_name().items():
            rows.append(
                {
                    "subject": f"{self.subject}.{end}",
                    "parameters": parameters,
                    "value": _json(figure),
                }
            )
        return rows


def _json(figure: Figure) -> int | float | str:
    if figure is None:
        return "inf"
    if isinstance(figure, Fraction):
        return float_up(figure)
    return figure


def audit_coins(
    coins: Coins,
    requested: Guarantee,
    claim: Guarantee,
    sensitivity: int = 1,
    subject: str = "pi_lap.default",
) -> Audited:
    """Audit our sampler's coins against a claim.

    Args:
        coins: The coins.
        requested: The epsilon and delta that the coins were made for.
        claim: The guarantee that they should have.
        sensitivity: The most by which a count moves.
        subject: Begins the names of the rows.
    """
    curve = curve_of_coins(coins, sensitivity)
    gates = cost(coins)
    figures = NoiseFigures(
        CurveFigures.of(curve, requested.epsilon, claim.delta),
        largest_noise=noise.largest_noise(coins),
        mean_square_error=noise.mean_square_error(coins),
        cost=SampleCost(gates.ands, gates.depth, fair_bits_per_sample(coins)),
    )
    delta = curve.delta(exp_bounds(claim.epsilon)[0])
    fault = None
    if delta > claim.delta:
        fault = f"its δ at ε = {float(claim.epsilon):g} is {float(delta):.3g}, not {float(claim.delta):.3g}"
    return Audited(
        subject=subject,
        name="default",
        requested=requested,
        parameters={"sensitivity": sensitivity},
        figures=figures,
        curve=curve,
        claimed=True,
        fault=fault,
    )


def audit_sampler(
    epsilon: Fraction, delta: Fraction, sensitivity: int = 1, subject: str = "pi_lap.default"
) -> Audited:
    """Design our sampler for counts that move by up to `sensitivity`, and audit it.

    Computes: from one value to the next further in, the probability grows by e^(epsilon / sensitivity) at
    most. So each of the outermost `sensitivity` values has at most e^epsilon times the probability of the
    outermost.
    """
    outermost_values = Fraction(sensitivity)  # their mass at most, in units of the outermost one's
    if sensitivity > 1:
        outermost_values *= exp_bounds(epsilon)[1]
    bits = bits_at_most(delta / outermost_values)
    requested = Guarantee(epsilon, delta)
    with fitting(epsilon, delta):
        coins = design_noise(epsilon / sensitivity, bits)
        claim = requested
        if sensitivity == 1:
            claim = noise.guarantee(coins)
        return audit_coins(coins, requested, claim, sensitivity, subject)


def audit_m_r(end: str, epsilon: Fraction) -> Audited:
    """Audit M_R with the budgets by which it is epsilon-LDP; `end` ends the names of its rows."""
    exact = epsilon_of_r(MechanismR.private(GROUPS, epsilon))
    fault = None
    if exact > epsilon:
        fault = f"its ε is {float(exact):.4g}"
    return Audited(
        subject=f"ldp.m_r.{end}",
        name="M_R, repaired",
        requested=Guarantee(epsilon, Fraction(0)),
        parameters=OF_LOCAL,
        figures=LocalFigures(exact, epsilon),
        claimed=True,
        fault=fault,
    )


def audit_m_l(end: str, epsilon: Fraction) -> Audited:
    """Audit M_L at epsilon_2 = epsilon and the largest epsilon_1 with which it has a guarantee.

    It has one with k = 2 alone (docs/explanation/local-privacy.md).
    """
    k = 2
    mechanism = MechanismL.private(GROUPS, epsilon)
    assert mechanism.epsilon_2 == epsilon
    exact = epsilon_of_l(mechanism.grr.odds, epsilon, Fraction(k))
    stated = Fraction(claimed_for_l(epsilon / 2, epsilon, Fraction(k))).limit_denominator(10**9)
    fault = None
    if exact is None or exact > epsilon:
        fault = "it does not keep to its ε"
    return Audited(
        subject=f"ldp.m_l.{end}",
        name=f"M_L, k = {k}",
        requested=Guarantee(epsilon, Fraction(0)),
        parameters={**OF_LOCAL, "k": k},
        figures=LocalFigures(exact, stated),
        claimed=True,
        fault=fault,
    )


def power_of_two(delta: Fraction) -> str:
    """Return a delta as text: 2^-n for a power of two, else p/q."""
    n = delta.denominator.bit_length() - 1
    if delta == Fraction(1, 1 << n):
        return f"2^-{n}"
    return str(delta)
