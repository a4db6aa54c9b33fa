"""Tables of Juarez and Korolova 2022, with budgets as published, as coded, and repaired."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.local_simulation import ClientValues, PublishedL, Simulable, Simulated, simulate
from benchmarks.studies.outcome import Row
from fairshares.protocols.arrays import Floats
from fairshares.protocols.local_dp.estimators import gap_weights, half_width
from fairshares.protocols.local_dp.exact_privacy import epsilon_of_l, epsilon_of_r
from fairshares.protocols.local_dp.randomizers import (
    MAX_LOCAL_EPSILON,
    Grr,
    Mechanism,
    MechanismL,
    MechanismR,
    ValueRange,
)

GROUPS = 2
M_R = "M_R"
M_L = "M_L"
WORST = {M_R: 0.0, M_L: 1.0}  # mean squares of the values, on the scale from -1 to 1
Sizes = tuple[float, float]


@dataclass(frozen=True)
class Budgets:
    """The budgets of M_R, or of M_L.

    Source: Algorithm 1, Definition 7, Theorems 5, 6 and 9, appendices A.4 and B; Eqs. 19 and 20 as printed.
    """

    epsilon_1: float
    epsilon_2: float
    # For M_L alone: its noise has scale 2 / epsilon_2 where the group is kept, k / epsilon_2 where it moved.
    k: float | None = None

    @property
    def mechanism(self) -> str:
        """The name of the mechanism: `M_R` or `M_L`."""
        return M_R if self.k is None else M_L

    def variance_of_mean(self, size: float, other: float, mean_square: float) -> float:
        """Return the variance of a group's estimated mean: Eq. 19 for M_L, Eq. 20 for M_R.

        Args:
            size: The group's number of clients.
            other: The other group's number of clients.
            mean_square: The mean square of the group's values, which are from -1 to 1.
        """
        odds = math.exp(-self.epsilon_1)  # (1 - a) / a
        if self.k is None:
            gain = math.tanh(self.epsilon_2 / 2) ** 2 / (1 + odds)  # a (2b - 1)^2
            return (1 - gain * mean_square + other / size * odds) / (gain * size)
        kept = 2 * (2.0 / self.epsilon_2) ** 2  # variance of the noise where the group is kept
        moved = 2 * (self.k / self.epsilon_2) ** 2  # and where it moved
        return (mean_square * odds + (1 + odds) * (kept + other / size * moved * odds)) / size

    def variance(self, sizes: Sizes, mean_squares: Sizes | None = None) -> float:
        """Return Theorem 9's variance of the gap, by default for the worst values."""
        worst = WORST[self.mechanism]
        first_square, second_square = mean_squares or (worst, worst)
        first, second = sizes
        return self.variance_of_mean(first, second, first_square) + self.variance_of_mean(
            second, first, second_square
        )

    def chebyshev(self, sizes: Sizes, failure: float) -> float:
        """Return alpha: the error is larger with this probability at most."""
        return math.sqrt(self.variance(sizes) / failure)

    def true_epsilon(self) -> Fraction | None:
        """Return the exact epsilon, rounded up, or None if the mechanism has none."""
        first = _exact(self.epsilon_1)
        second = _exact(self.epsilon_2)
        if self.k is None:
            return epsilon_of_r(MechanismR.with_budgets(GROUPS, first, second))
        k = _exact(self.k)
        if epsilon_of_l(Fraction(1), second, k) is None:  # its noise alone has no epsilon
            return None
        return epsilon_of_l(Grr.private(GROUPS, first).odds, second, k)

    def simulable(self, declared: ValueRange) -> Simulable:
        """Return the mechanism for `local_simulation`."""
        first = _exact(self.epsilon_1)
        second = _exact(self.epsilon_2)
        if self.k is None:
            return MechanismR.with_budgets(GROUPS, first, second, declared)
        with_k_of_two = MechanismL.with_budgets(GROUPS, first, second, declared)
        if self.k == 2:
            return with_k_of_two
        return PublishedL(with_k_of_two, _exact(self.k))


Allocation = Callable[[float], Budgets]


def published_r(epsilon: float) -> Budgets:
    """Return the paper's "M_R opt."."""
    return Budgets(epsilon, epsilon)


def published_l(epsilon: float) -> Budgets:
    """Return "M_L opt." of appendix B. Above an epsilon of 2 its k is too large."""
    if epsilon < 2 / 3:
        return Budgets(math.log(3) - epsilon / 2, epsilon, 2 / 3)
    return Budgets(math.log(2 / epsilon) + epsilon - 1, epsilon, epsilon)


def coded_l(epsilon: float) -> Budgets:
    """Return "M_L opt." as in the published code, with M_L's two scales of noise exchanged."""
    meant = published_l(epsilon)
    k = min(meant.k or 2.0, 2.0)
    return Budgets(meant.epsilon_1, 2 * epsilon / k, 4 / k)


def l_of_two(epsilon: float) -> Budgets:
    """Return M_L with k = 2. Its true epsilon is the epsilon that is asked for."""
    return Budgets(epsilon / 2, epsilon, 2.0)


def repaired_r(epsilon: float) -> Budgets:
    """Return M_R with budgets whose true epsilon is the epsilon that is asked for."""
    return Budgets(epsilon + math.log1p(math.exp(-epsilon)) - math.log(2), epsilon)


PUBLISHED: dict[str, Allocation] = {M_R: published_r, M_L: published_l}
REPAIRED: dict[str, Allocation] = {M_R: repaired_r, M_L: l_of_two}


def private(mechanism: str, epsilon: Fraction, declared: ValueRange) -> Mechanism:
    """Return the repaired mechanism as clients run it."""
    if mechanism == M_R:
        return MechanismR.private(GROUPS, epsilon, declared)
    return MechanismL.private(GROUPS, epsilon, declared)


def least_epsilon(bound: Callable[[float], float], error: float, low: float, high: float) -> float | None:
    """Return the least epsilon whose bound is at most the error.

    Args:
        bound: The bound of the error at an epsilon; it falls as epsilon grows.
        error: The error that is allowed.
        low: The least epsilon that is tried.
        high: The largest epsilon that is tried.

    Returns:
        The epsilon, at most 10^-6 of it too large, or None if the bound at `high` is above the error.
    """
    if bound(high) > error:
        return None
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        if bound(middle) <= error:
            high = middle
        else:
            low = middle
    return high


def _exact(value: float) -> Fraction:
    return Fraction(value).limit_denominator(10**9)


CELLS = {M_R: "m_r", M_L: "m_l"}  # the mechanism's name in gaps.json
RATE_RANGE = ValueRange(0, 1)
SCALED = ValueRange(-1, 1)
_LEAST = 1e-4  # the least of the epsilons that are tried
_MOST = 700.0


def agrees(reproduced: float | None, published: str | None) -> bool:
    """Return whether a number rounds to the printed number, or both are missing."""
    if published is None or reproduced is None:
        return published is None and reproduced is None
    return rounds_to(reproduced, published)


def table1() -> list[Row]:
    """Return Table 1: the least epsilons for an error alpha of the gap, with probability 0.99.

    There are two groups of one size. In a row, `reproduced` is the least epsilon by the published budgets.
    `repaired_alpha` is the error of the repaired mechanism at that epsilon. `repaired` is the least epsilon
    for alpha of the repaired mechanism by Chebyshev's bound, and `tight` is the same by Chernoff's bound.
    """
    paper = gaps()["table1"]
    failure = float(paper["failure"])
    cells = []
    for mechanism, name in CELLS.items():
        for row in paper["cells"]:
            for alpha, printed in zip(paper["alphas"], row[name], strict=True):
                cells.append(_cell_of_table1(mechanism, row["clients"], float(alpha), printed, failure))
    return cells


def _cell_of_table1(mechanism: str, clients: int, alpha: float, printed: str | None, failure: float) -> Row:
    sizes = (clients / 2, clients / 2)
    published = PUBLISHED[mechanism]
    repaired = REPAIRED[mechanism]

    def bound_published(epsilon: float) -> float:
        return published(epsilon).chebyshev(sizes, failure)

    def bound_repaired(epsilon: float) -> float:
        return repaired(epsilon).chebyshev(sizes, failure)

    def bound_tight(epsilon: float) -> float:
        chosen = private(mechanism, Fraction(epsilon), SCALED)
        return half_width(chosen, sizes, gap_weights(sizes, 0, 1), failure)

    least = least_epsilon(bound_published, alpha, _LEAST, _MOST)
    true_epsilon = None
    repaired_alpha = None
    if least is not None:
        true_epsilon = published(least).true_epsilon()
        repaired_alpha = bound_repaired(least)
    return {
        "mechanism": mechanism,
        "clients": clients,
        "alpha": alpha,
        "published": printed,
        "reproduced": least,
        "true_epsilon": true_epsilon,
        "repaired_alpha": repaired_alpha,
        "repaired": least_epsilon(bound_repaired, alpha, _LEAST, _MOST),
        "tight": least_epsilon(bound_tight, alpha, _LEAST, float(MAX_LOCAL_EPSILON)),
        "agrees": agrees(least, printed),
    }


def resampled(values: tuple[Floats, ...], sizes: tuple[int, ...]) -> ClientValues:
    """Return groups of these sizes, with the same number of clients for each value, or one more."""
    clients = []
    for of_group, size in zip(values, sizes, strict=True):
        each, left = divmod(size, len(of_group))
        has_further = np.arange(len(of_group)) < left
        clients.append(each + has_further.astype(np.int64))
    return ClientValues(values, tuple(clients))


def table2(source: str, values: tuple[Floats, ...], runs: int, rng: np.random.Generator) -> list[Row]:
    """Simulate Table 2: the error of the gap with 10^7 clients, and its bound alpha in 99 % of runs.

    `alpha_of_the_text` has groups in the recordings' proportion, and values from -1 to 1.
    """
    half = gaps()["table2"]["clients"] // 2
    population = resampled(values, (half, half))
    cells: list[Row] = []
    for mechanism in CELLS:
        for row in gaps()["table2"]["cells"]:
            cell = _cell_of_table2(mechanism, row, population, runs, rng)
            cells.append({"population": source, **cell})
    return cells


def _cell_of_table2(
    mechanism: str,
    row: dict[str, dict[str, str]],
    population: ClientValues,
    runs: int,
    rng: np.random.Generator,
) -> Row:
    paper = gaps()["table2"]
    failure = float(paper["failure"])
    clients = paper["clients"]
    printed = row[CELLS[mechanism]]
    text = str(row["epsilon"])
    published = PUBLISHED[mechanism](float(text))
    repaired = REPAIRED[mechanism](float(text))
    mechanisms = [published.simulable(RATE_RANGE), private(mechanism, Fraction(text), RATE_RANGE)]
    coded = None
    if mechanism == M_L:
        coded = coded_l(float(text))
        mechanisms.append(coded.simulable(RATE_RANGE))
    as_printed, as_repaired, *as_coded = simulate(mechanisms, population, runs, rng)
    errors = _errors(as_printed, rng, printed)
    errors_coded = None
    epsilon_coded = None
    if coded:
        errors_coded = _errors(as_coded[0], rng, printed)
        epsilon_coded = coded.true_epsilon()
    equal_sizes = (clients / 2, clients / 2)
    recordings = gaps()["activity"]["recordings"]
    share = recordings["M"] / sum(recordings.values())
    sizes_of_the_text = (clients * share, clients * (1 - share))
    alpha = published.chebyshev(equal_sizes, failure) * RATE_RANGE.radius
    return {
        "mechanism": mechanism,
        "epsilon": text,
        "published": printed,
        "alpha": alpha,
        "alpha_of_the_text": published.chebyshev(sizes_of_the_text, failure),
        "errors": errors,
        "coded": errors_coded,
        "true_epsilon": published.true_epsilon(),
        "coded_epsilon": epsilon_coded,
        "repaired_alpha": repaired.chebyshev(equal_sizes, failure) * RATE_RANGE.radius,
        "repaired": _errors(as_repaired, rng, None),
        "agrees": rounds_to(alpha, printed["alpha"]),
    }


def _errors(simulated: Simulated, rng: np.random.Generator, printed: dict[str, str] | None) -> Row:
    """Return the mean and the deviation of the error of the absolute gap over simulated runs.

    `first_mean` and `first_deviation` are of as many runs as the paper made. `fits_mean` and
    `fits_deviation` are the chances of the printed figures, or None if the paper prints none.
    """
    errors = np.abs(np.abs(simulated.estimated_gaps()) - abs(simulated.gap()))
    of_paper = gaps()["table2"]["runs"]
    figures = {
        "mean": float(errors.mean()),
        "deviation": float(errors.std(ddof=1)),
        "first_mean": float(errors[:of_paper].mean()),
        "first_deviation": float(errors[:of_paper].std(ddof=1)),
        "fits_mean": None,
        "fits_deviation": None,
    }
    if printed:
        again = rng.choice(errors, (20_000, of_paper))  # as many runs as the paper made, many times
        figures["fits_mean"] = chance_of(again.mean(axis=1), printed["error"])
        figures["fits_deviation"] = chance_of(again.std(axis=1, ddof=1), printed["deviation"])
    return figures


def chance_of(values: Floats, printed: str) -> float:
    """Return the two-sided chance of a printed value among values that are rounded to its digits."""
    _, _, fraction = printed.partition(".")
    digits = len(fraction)
    above = np.round(np.round(values, digits) - float(printed), digits + 3)
    at_most = float((above <= 0).mean())
    at_least = float((above >= 0).mean())
    return min(1.0, 2 * at_most, 2 * at_least)
