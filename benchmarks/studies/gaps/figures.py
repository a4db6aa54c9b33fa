"""Figures 1 to 4 on gaps under local privacy, as numbers, and what the paper reads off them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.gaps.published import (
    M_R,
    WORST,
    Allocation,
    Budgets,
    l_of_two,
    private,
    published_l,
    published_r,
    repaired_r,
)
from benchmarks.studies.gaps.tables import SCALED
from benchmarks.studies.local_simulation import Floats, Population, simulate

# The paper's axes and ratios are not in its text; these are ours.
EPSILONS = np.geomspace(0.05, 10, 47)
RATIOS = (1, 3, 9, 99, 999)  # of Figure 2; 3 is equal groups taken for 25 % and 75 %
AT = 1.0  # the epsilon at which Figures 1 and 2 are told in numbers
SIZE_OF_FIGURE_3 = 10_000.0  # of either group
VALUES_OF_FIGURE_4 = np.linspace(-0.38, 0.38, 10)  # of the group in question: the code's mean square
TOLD = 0.6  # mean value of both groups, -1 to 1, for which a wrong size is told in numbers

AS_PUBLISHED: dict[str, Allocation] = {
    "M_R opt.": published_r,
    "M_L opt.": published_l,
    "M_L, k = 2": l_of_two,
}
_FINE = np.geomspace(0.05, 10, 5_001)


@dataclass(frozen=True)
class Claim:
    """What the paper says of a figure, and what is found.

    Attributes: published: as printed; reproduced: by the paper's own formulas; agrees: whether that is the
    same; true: what holds with exact budgets, or where the formulas do not say what is claimed.
    """

    figure: int
    what: str
    published: str
    reproduced: str
    agrees: bool
    true: str


def bounds(allocation: Allocation, epsilon: float, sizes: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest MSE of the gap, over all values."""
    budgets = allocation(epsilon)
    worst = WORST[budgets.mechanism]
    return budgets.variance(sizes, (1 - worst, 1 - worst)), budgets.variance(sizes)


def crossings(one: Allocation, other: Allocation, sizes: tuple[float, float]) -> list[float]:
    """Return the epsilons, from 0.05 to 10, at which the largest MSEs of two are the same."""
    signs = np.sign([one(e).variance(sizes) - other(e).variance(sizes) for e in _FINE])
    return [float(_FINE[i]) for i in np.flatnonzero(signs[:-1] * signs[1:] < 0)]


def figure1() -> list[Claim]:
    """Judge what the paper says of the bounds of the MSE by epsilon."""
    found = gaps()["figure1"]
    first, second = found["sizes"]
    sizes = (float(first), float(second))
    low, high = crossings(published_r, published_l, sizes)
    printed = (found["m_r_is_best_from"], found["m_r_is_best_to"])
    touching, beyond = crossings(published_l, l_of_two, sizes)
    (repaired,) = crossings(repaired_r, l_of_two, sizes)
    agrees = rounds_to(low, printed[0]) and rounds_to(high, printed[1])
    true = published_r(AT).true_epsilon()
    assert true is not None
    worse = published_r(AT).variance(sizes) / repaired_r(float(true)).variance(sizes)
    return [
        Claim(
            1,
            "the best budgets of M_R",
            "ε₁ = ε₂ = ε",
            f"at {AT:g} and {AT:g}, ε is {float(true):.3f}",
            False,
            f"ε₂ = ε, ε₁ = ln((e^ε + 1)/2): at ε = {float(true):.3f} the MSE is {worse:.2f} times smaller",
        ),
        Claim(
            1,
            "M_R opt. has a lower MSE than M_L opt. for ε from … to …",
            f"{printed[0]} to {printed[1]}",
            f"{low:.2f} to {high:.2f}",
            agrees,
            f"M_L opt. protects at no ε; repaired, M_R is best up to {repaired:.2f}, then M_L with k = 2",
        ),
        Claim(
            1,
            "M_L opt. has a lower MSE than M_L with k = 2",
            "at all ε considered",
            f"not for ε from {touching:.2f} to {beyond:.2f}",
            False,
            "where k is above 2 its noise is larger, which appendix B leaves out",
        ),
    ]


def with_ratio(ratio: float) -> tuple[float, float]:
    """Return the sizes of Figure 2's groups: one is `ratio` times the other."""
    clients = gaps()["figure2"]["clients"]
    return clients / (1 + ratio), clients * ratio / (1 + ratio)


def biased_gap(mean: float, error: float) -> float:
    """Return what is estimated, on average, of a gap of 0 between two groups of one size.

    Computes: a mean is estimated as sum / (a c n); with n (1 + error) for one n and n (1 - error) for the
    other, mean / (1 + error) - mean / (1 - error), whatever the number of clients.
    """
    return mean / (1 + error) - mean / (1 - error)


def figure2() -> list[Claim]:
    """Judge what the paper says of unequal groups and of sizes that are not known well."""
    error = float(gaps()["figure2"]["size_error"])
    claims = [
        Claim(
            2,
            f"{name}: the MSE grows rapidly for minorities below 1 %",
            "as a curve only",
            _growth(allocation),
            True,
            _growth(repaired) if repaired is not allocation else "keeps to its ε",
        )
        for name, allocation, repaired in (
            ("M_R opt.", published_r, repaired_r),
            ("M_L, k = 2", l_of_two, l_of_two),
        )
    ]
    equal, wrong = (published_r(AT).variance(with_ratio(ratio)) for ratio in (1, 3))
    claims.append(
        Claim(
            2,
            f"sizes wrong by {100 * error:.0f} % make an insignificant difference",
            "insignificant",
            f"variance of groups 1:3 is {wrong / equal:.2f} times that of 1:1 (M_R opt., ε = {AT:g})",
            False,
            f"a wrong size scales the mean: two groups of one size and of mean {TOLD:g} (−1 to 1) show a "
            f"gap of {abs(biased_gap(TOLD, error)):.2f}, with any number of clients",
        )
    )
    return claims


def _growth(allocation: Allocation) -> str:
    equal = allocation(AT).variance(with_ratio(1))
    times = {ratio: allocation(AT).variance(with_ratio(ratio)) / equal for ratio in RATIOS[1:]}
    return "; ".join(f"1:{ratio} {_times(each)}" for ratio, each in times.items())


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def allocated(k: float) -> Allocation:
    """Return the largest epsilon_1 that the paper's Eq. (1) allows at epsilon_2 = epsilon."""
    return lambda epsilon: Budgets(math.log(2 / k) + epsilon * (1 - 1 / k), epsilon, k)


def figure3() -> list[Claim]:
    """Judge what the paper says of the allocations for k = 2 and k = 2/3."""
    printed = gaps()["figure3"]["smaller_k_is_best_below"]
    (crossing,) = crossings(allocated(2 / 3), l_of_two, (SIZE_OF_FIGURE_3,) * 2)
    return [
        Claim(
            3,
            "k = 2/3 has a lower MSE than k = 2 for ε below …",
            printed,
            f"{crossing:.2f}",
            crossing >= float(Fraction(printed)),
            "with k = 2/3 no budgets are any ε-LDP; by Eq. (1) they lie on a line, not in an area",
        )
    ]


@dataclass(frozen=True)
class Convergence:
    """Figure 4: MSE of a group's mean by M_R over the first so many runs, and its closed form.

    Attributes: runs, empirical: as many; theory: Eq. 20 with the values at hand; worst: with the worst.
    """

    name: str
    epsilon: Fraction
    theory: float
    worst: float
    runs: tuple[int, ...]
    empirical: tuple[float, ...]


def figure4(runs: int, rng: np.random.Generator) -> list[Convergence]:
    """Simulate Figure 4, as published and repaired at the same stated epsilon.

    Args: runs: a power of ten, at least 10.
    """
    found = gaps()["figure4"]
    first, second = float(found["epsilon_1"]), float(found["epsilon_2"])
    size, other = found["sizes"]
    population = Population(
        (VALUES_OF_FIGURE_4, np.zeros(1)),
        (np.ones(size, dtype=np.int64), np.array([other], dtype=np.int64)),
    )
    published = Budgets(first, second)
    stated = Fraction(found["epsilon_2"])
    repaired = private(M_R, stated, SCALED)
    simulated = simulate([published.simulable(SCALED), repaired], population, runs, rng)
    square = float(np.mean(VALUES_OF_FIGURE_4**2))
    at = tuple(10**i for i in range(1, round(math.log10(runs)) + 1))
    curves = []
    for name, budgets, drawn in zip(
        ("as published", "repaired"), (published, repaired_r(float(stated))), simulated, strict=True
    ):
        errors: Floats = np.square(drawn.estimated_means()[:, 0] - drawn.means[0])
        epsilon = budgets.true_epsilon()
        assert epsilon is not None
        theory, worst = (budgets.variance_of_mean(size, other, each) for each in (square, WORST[M_R]))
        curves.append(
            Convergence(name, epsilon, theory, worst, at, tuple(float(errors[:n].mean()) for n in at))
        )
    return curves


def claims() -> list[Claim]:
    """Return what the paper says of Figures 1 to 3, judged."""
    return [*figure1(), *figure2(), *figure3()]
