"""Exact privacy of M_R and M_L, recomputed from their distributions."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import product
from math import log

from protocols.local_dp.randomizers import MechanismR
from protocols.noise.truncated import log_upper_bound

_ENDS = (-1, 0, 1)  # of the value; and of the output, where slopes change

Distribution = dict[tuple[int, int], Fraction]  # probability of each report, group and value


def distribution_of_r(mechanism: MechanismR, group: int, value: Fraction) -> Distribution:
    """Return the probabilities of M_R's 2 d reports, step by step."""
    grr, distribution = mechanism.grr, Distribution()
    for reported in range(grr.groups):
        chance = grr.keep if reported == group else (1 - grr.keep) / (grr.groups - 1)
        up = (1 + (value if reported == group else Fraction(0))) / 2
        for answer in (-1, 1):
            right = up if answer == 1 else 1 - up
            distribution[reported, answer] = chance * (
                right * mechanism.truth + (1 - right) * (1 - mechanism.truth)
            )
    return distribution


def worst_ratio(distributions: Iterable[Distribution]) -> Fraction:
    """Return e^epsilon, the largest ratio of an outcome's probabilities, exactly."""
    return max(one[y] / other[y] for one, other in product(distributions, repeat=2) for y in one)


def epsilon_of_r(mechanism: MechanismR) -> Fraction:
    """Return M_R's epsilon, rounded up to a multiple of 10^-12.

    Probabilities are affine in the value, so ends of the range are worst.
    """
    inputs = [(group, Fraction(end)) for group in range(min(mechanism.grr.groups, 3)) for end in (-1, 1)]
    return log_upper_bound(worst_ratio(distribution_of_r(mechanism, *one) for one in inputs))


def epsilon_of_l(odds: Fraction, epsilon_2: Fraction, k: Fraction) -> Fraction | None:
    """Return M_L's epsilon, rounded up; None if no epsilon holds.

    Computes: an output y has density keep C e^(-r |y - v|), r = epsilon_2 / 2, where the group is kept, else
    move C' e^(-s |y|), s = epsilon_2 / k. Their log-ratio is bounded only if r = s; then it is piecewise
    linear, extreme at y and v in {-1, 0, 1}.
    """
    rate, moved_rate = epsilon_2 / 2, epsilon_2 / k
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
    """Return ln of the ratio of value 1 in the reported group to another group, at an output >= 1.

    For k < 2 it grows without bound, for k > 2 it falls.
    """
    return float(epsilon_1 + epsilon_2 * (Fraction(output) / k - Fraction(output - 1, 2))) + log(k / 2)


def claimed_for_l(epsilon_1: Fraction, epsilon_2: Fraction, k: Fraction) -> float:
    """Return the epsilon that the paper's Theorem 6, Eq. (1), claims."""
    shift = log(2 / k)
    return max(
        float(epsilon_2), shift + float(epsilon_2 / 2 - epsilon_1), -shift + float(epsilon_2 / k + epsilon_1)
    )
