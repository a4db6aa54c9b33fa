"""Budgets of M_R and M_L as published, as the published code has them, and repaired; two groups.

`protocols.local_dp.randomizers` has no M_L with k other than 2 and no epsilon above 20, as nothing protects
there. The paper's tables have both, so its Eqs. 19 and 20 are here as it prints them, in floating point.

Source: Juarez and Korolova 2022, Algorithm 1, Definition 7, Theorems 5, 6 and 9, appendices A.4 and B.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.studies.local_simulation import PublishedL, Simulable
from protocols.local_dp.exact_privacy import epsilon_of_l, epsilon_of_r
from protocols.local_dp.randomizers import Grr, Mechanism, MechanismL, MechanismR, ValueRange

GROUPS = 2
M_R, M_L = "M_R", "M_L"
WORST = {M_R: 0.0, M_L: 1.0}  # mean squares of the values, on the scale from -1 to 1

Sizes = tuple[float, float]


@dataclass(frozen=True)
class Budgets:
    """The budgets of M_R (k is None), or of M_L, whose noise has scale 2 / epsilon_2 where the group is kept
    and k / epsilon_2 where it moved."""

    epsilon_1: float
    epsilon_2: float
    k: float | None = None

    @property
    def mechanism(self) -> str:
        """M_R or M_L."""
        return M_R if self.k is None else M_L

    def variance_of_mean(self, size: float, other: float, mean_square: float) -> float:
        """Return Eq. 19 (M_L) or 20 (M_R). Args: size: of the group; mean_square: of its values."""
        odds = math.exp(-self.epsilon_1)  # (1 - a) / a
        if self.k is None:
            told = math.tanh(self.epsilon_2 / 2) ** 2 / (1 + odds)  # a (2b - 1)^2
            return (1 - told * mean_square + other / size * odds) / (told * size)
        kept, moved = (2 * (scale / self.epsilon_2) ** 2 for scale in (2.0, self.k))
        return (mean_square * odds + (1 + odds) * (kept + other / size * moved * odds)) / size

    def variance(self, sizes: Sizes, mean_squares: Sizes | None = None) -> float:
        """Return Theorem 9's variance of the gap; by default with the worst values."""
        squares = mean_squares or (WORST[self.mechanism],) * 2
        return self.variance_of_mean(*sizes, squares[0]) + self.variance_of_mean(*sizes[::-1], squares[1])

    def chebyshev(self, sizes: Sizes, failure: float) -> float:
        """Return the paper's alpha: the error is larger with at most this probability."""
        return math.sqrt(self.variance(sizes) / failure)

    def true_epsilon(self) -> Fraction | None:
        """Return the exact epsilon over all inputs and outputs, rounded up; None: there is none."""
        first, second = _exact(self.epsilon_1), _exact(self.epsilon_2)
        if self.k is None:
            return epsilon_of_r(MechanismR.with_budgets(GROUPS, first, second))
        k = _exact(self.k)
        if epsilon_of_l(Fraction(1), second, k) is None:  # the noise alone tells, whatever GRR's odds
            return None
        return epsilon_of_l(Grr.private(GROUPS, first).odds, second, k)

    def simulable(self, declared: ValueRange) -> Simulable:
        """Return what `local_simulation` draws."""
        first, second = _exact(self.epsilon_1), _exact(self.epsilon_2)
        if self.k is None:
            return MechanismR.with_budgets(GROUPS, first, second, declared)
        of_two = MechanismL.with_budgets(GROUPS, first, second, declared)
        return of_two if self.k == 2 else PublishedL(of_two, _exact(self.k))


Allocation = Callable[[float], Budgets]


def published_r(epsilon: float) -> Budgets:
    """Return "M_R opt."."""
    return Budgets(epsilon, epsilon)


def published_l(epsilon: float) -> Budgets:
    """Return "M_L opt." of appendix B; above epsilon 2, k is beyond what the mechanism allows."""
    if epsilon < 2 / 3:
        return Budgets(math.log(3) - epsilon / 2, epsilon, 2 / 3)
    return Budgets(math.log(2 / epsilon) + epsilon - 1, epsilon, epsilon)


def coded_l(epsilon: float) -> Budgets:
    """Return the mechanism that the published code simulates for "M_L opt.", a fault emulated.

    Computes: noise of scale min(k, 2) / epsilon where the group is kept, 2 / epsilon where it moved: the
    other way round than the paper's M_L, and so that M_L with epsilon_2 = 2 epsilon / k, and 4 / k for k.
    """
    meant = published_l(epsilon)
    k = min(meant.k or 2.0, 2.0)
    return Budgets(meant.epsilon_1, 2 * epsilon / k, 4 / k)


def l_of_two(epsilon: float) -> Budgets:
    """Return M_L with k = 2, which keeps to epsilon: as published, and the repair of "M_L opt."."""
    return Budgets(epsilon / 2, epsilon, 2.0)


def repaired_r(epsilon: float) -> Budgets:
    """Return the M_R that keeps to epsilon; `MechanismR.private` has it in exact coins."""
    return Budgets(epsilon + math.log1p(math.exp(-epsilon)) - math.log(2), epsilon)


PUBLISHED: dict[str, Allocation] = {M_R: published_r, M_L: published_l}
REPAIRED: dict[str, Allocation] = {M_R: repaired_r, M_L: l_of_two}


def private(mechanism: str, epsilon: Fraction, declared: ValueRange) -> Mechanism:
    """Return the repaired mechanism as clients run it. Raises: ValueError: epsilon is above 20."""
    kind = MechanismR if mechanism == M_R else MechanismL
    return kind.private(GROUPS, epsilon, declared)


def least_epsilon(bound: Callable[[float], float], error: float, low: float, high: float) -> float | None:
    """Return the least epsilon between low and high whose bound is at most the error, to 10^-6 of it.

    Args: bound: falls with epsilon.  Returns: None if even `high` is not enough.
    """
    if bound(high) > error:
        return None
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if bound(middle) <= error else (middle, high)
    return high


def _exact(value: float) -> Fraction:
    return Fraction(value).limit_denominator(10**9)
