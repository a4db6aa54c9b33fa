"""The exact privacy of M_R and M_L, recomputed from their distributions.

Symbols are as in docs/explanation/local-privacy.md.
"""

from collections.abc import Iterable
from fractions import Fraction
from itertools import product
from math import log

from fairshares.protocols.local_dp.randomizers import MechanismR
from fairshares.protocols.noise.truncated import log_upper_bound

_ENDS = (-1, 0, 1)  # values and outputs at which the slope of a privacy loss changes

ReportDistribution = dict[tuple[int, int], Fraction]
"""The probability of each report, which is a group and a value."""


def distribution_of_r(mechanism: MechanismR, group: int, value: Fraction) -> ReportDistribution:
    """Return the probabilities of M_R's 2 d reports, step by step.

    Args:
        mechanism: M_R for d groups.
        group: The client's group, in [0, d).
        value: The client's value, from -1 to 1.
    Returns:
        The probability of each report, exactly.
    """
    grr = mechanism.grr
    distribution = ReportDistribution()
    for reported in range(grr.groups):
        chance = grr.keep if reported == group else (1 - grr.keep) / (grr.groups - 1)
        up = (1 + (value if reported == group else Fraction(0))) / 2
        for answer in (-1, 1):
            right = up if answer == 1 else 1 - up
            distribution[reported, answer] = chance * (
                right * mechanism.truth + (1 - right) * (1 - mechanism.truth)
            )
    return distribution


def worst_ratio(distributions: Iterable[ReportDistribution]) -> Fraction:
    """Return e^epsilon, the largest ratio of an outcome's probabilities, exactly.

    Args:
        distributions: The distribution of reports for each input.
    Returns:
        The ratio, at least 1.
    """
    ratios = []
    for distribution, neighbor in product(distributions, repeat=2):
        for outcome, probability in distribution.items():
            ratios.append(probability / neighbor[outcome])
    return max(ratios)


def epsilon_of_r(mechanism: MechanismR) -> Fraction:
    """Return M_R's epsilon, rounded up to a multiple of 10^-12.

    Probabilities are affine in the value, so that ends of the range are worst. By symmetry three groups show
    all ratios.

    Args:
        mechanism: M_R.
    Returns:
        The epsilon.
    """
    distributions = []
    for group in range(min(mechanism.grr.groups, 3)):
        for end in (-1, 1):
            distributions.append(distribution_of_r(mechanism, group, Fraction(end)))
    return log_upper_bound(worst_ratio(distributions))


def epsilon_of_l(odds: Fraction, epsilon_2: Fraction, k: Fraction) -> Fraction | None:
    """Return M_L's epsilon, rounded up.

    Computes: where the group is kept, an output y has density keep C e^(-r |y - v|) with r = epsilon_2 / 2.
    Elsewhere it has density move C' e^(-s |y|) with s = epsilon_2 / k. Their log-ratio is bounded only if
    r = s. Then it is piecewise linear, and has its extremes at y and v in {-1, 0, 1}.

    Args:
        odds: The worst likelihood ratio of the group's response, above 0.
        epsilon_2: The budget for the value, above 0.
        k: The paper's parameter k, by which noise is scaled where the group moved.
    Returns:
        The epsilon; None if no epsilon holds.
    """
    rate = epsilon_2 / 2
    moved_rate = epsilon_2 / k
    if rate != moved_rate:
        return None
    ln = log_upper_bound(odds) if odds >= 1 else -log_upper_bound(1 / odds)
    losses = []
    for y, v, other in product(_ENDS, repeat=3):
        kept_and_kept = rate * (abs(y - other) - abs(y - v))
        kept_and_moved = rate * (abs(y) - abs(y - v)) + ln
        losses += [kept_and_kept, kept_and_moved, -kept_and_moved]
    return max(losses)


def log_ratio_of_l(epsilon_1: Fraction, epsilon_2: Fraction, k: Fraction, output: int) -> float:
    """Return the log-likelihood ratio of two inputs of M_L, at an output >= 1.

    Computes: ln of the density for the value 1 in the reported group, over the density for another group.
    With the output it grows without bound if k < 2, and falls without bound if k > 2.

    Args:
        epsilon_1: The budget for the group.
        epsilon_2: The budget for the value.
        k: The paper's parameter k, by which noise is scaled where the group moved.
        output: The reported value, at least 1.
    Returns:
        The log-ratio.
    """
    return float(epsilon_1 + epsilon_2 * (Fraction(output) / k - Fraction(output - 1, 2))) + log(k / 2)


def claimed_for_l(epsilon_1: Fraction, epsilon_2: Fraction, k: Fraction) -> float:
    """Return the epsilon that the paper's Theorem 6, Eq. (1), claims for M_L.

    Args:
        epsilon_1: The budget for the group.
        epsilon_2: The budget for the value.
        k: The paper's parameter k, by which noise is scaled where the group moved.
    Returns:
        The claimed epsilon, which holds for k = 2 only.
    """
    shift = log(2 / k)
    return max(
        float(epsilon_2), shift + float(epsilon_2 / 2 - epsilon_1), -shift + float(epsilon_2 / k + epsilon_1)
    )
