"""What `./inv audit` finds of local mechanisms: the exact epsilon, over all inputs and outputs."""

from fractions import Fraction
from math import log

from harness.privacy.audit.samplers import Audited, Figure
from protocols.guarantee import Guarantee
from protocols.local_dp.exact_privacy import claimed_for_l, epsilon_of_l, epsilon_of_r, log_ratio_of_l
from protocols.local_dp.randomizers import Grr, MechanismL, MechanismR

_GROUPS = 2
_PARAMETERS: dict[str, str | int] = {"groups": _GROUPS, "neighboring_relation": "replace_one"}
_FAR = 10  # an output, in the scale from -1 to 1, at which an unbounded ratio is shown


def audit_m_r(end: str, epsilon: Fraction, *, repaired: bool) -> Audited:
    """Audit M_R. Args: end: of the subject; repaired: else epsilon_1 = epsilon_2 = epsilon, as published."""
    as_published = MechanismR.with_budgets(_GROUPS, epsilon, epsilon)
    found = epsilon_of_r(MechanismR.private(_GROUPS, epsilon) if repaired else as_published)
    fault = f"its ε is {float(found):.4g}" if repaired and found > epsilon else None
    figures: dict[str, Figure] = {"epsilon": found, "epsilon_claimed": epsilon}
    name = f"M_R, {'repaired' if repaired else 'as published'}"
    asked = Guarantee(epsilon, Fraction(0))
    return Audited(f"ldp.m_r.{end}", name, asked, _PARAMETERS, figures, claimed=repaired, fault=fault)


def audit_m_l(end: str, epsilon: Fraction, k: int) -> Audited:
    """Audit M_L at epsilon_2 = epsilon and the largest epsilon_1 that the paper's Eq. (1) allows then.

    Only for k = 2 it has a guarantee, with epsilon_1 = epsilon / 2. For any other k there is none: what shows
    it is the ratio of two inputs' densities at an output of 10, which a larger output exceeds.
    """
    claimed = k == 2
    if claimed:
        mechanism = MechanismL.private(_GROUPS, epsilon)
        grr, epsilon_1 = mechanism.grr, epsilon / 2
        assert mechanism.epsilon_2 == epsilon
    else:
        epsilon_1 = Fraction(log(2 / k)).limit_denominator(10**9) + epsilon * (1 - Fraction(1, k))
        grr = Grr.private(_GROUPS, epsilon_1)
    found = epsilon_of_l(grr.odds, epsilon, Fraction(k))
    stated = Fraction(claimed_for_l(epsilon_1, epsilon, Fraction(k))).limit_denominator(10**9)
    figures: dict[str, Figure] = {"epsilon": found, "epsilon_claimed": stated}
    if found is None:
        figures["log_ratio_at_10"] = Fraction(log_ratio_of_l(epsilon_1, epsilon, Fraction(k), _FAR))
    fault = None if not claimed or (found is not None and found <= epsilon) else "it does not keep to its ε"
    asked, parameters = Guarantee(epsilon, Fraction(0)), {**_PARAMETERS, "k": k}
    subject, name = f"ldp.m_l.{end}", f"M_L, k = {k}"
    return Audited(subject, name, asked, parameters, figures, claimed=claimed, fault=fault)
