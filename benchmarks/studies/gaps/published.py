"""Tables and figures on gaps, with budgets of M_R and M_L as published, as in the code, and repaired.

Where nothing protects, and `protocols.local_dp.randomizers` has nothing, the paper's Eqs. 19 and 20 are here
as printed, in floating point.

Source: Juarez and Korolova 2022, Algorithm 1, Definition 7, Theorems 5, 6 and 9, appendices A.4 and B.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import LEGEND, LOGARITHMIC, Mark, band, draw, line, note, place, shown
from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.local_simulation import Population, PublishedL, Simulable, Simulated, simulate
from benchmarks.studies.outcome import Row
from harness.views.palette import COLOURS, GREY
from protocols.arrays import Floats
from protocols.local_dp.estimators import gap_weights, half_width
from protocols.local_dp.exact_privacy import epsilon_of_l, epsilon_of_r
from protocols.local_dp.randomizers import MAX_EPSILON, Grr, Mechanism, MechanismL, MechanismR, ValueRange

GROUPS = 2
M_R, M_L = "M_R", "M_L"
WORST = {M_R: 0.0, M_L: 1.0}  # mean squares of the values, on the scale from -1 to 1
Sizes = tuple[float, float]


@dataclass(frozen=True)
class Budgets:
    """The budgets of M_R (k is None), or of M_L.

    M_L's noise has scale 2 / epsilon_2 where the group is kept, and k / epsilon_2 where it moved.
    """

    epsilon_1: float
    epsilon_2: float
    k: float | None = None

    @property
    def mechanism(self) -> str:
        """M_R or M_L."""
        return M_R if self.k is None else M_L

    def variance_of_mean(self, size: float, other: float, mean_square: float) -> float:
        """Return Eq. 19 (M_L) or 20 (M_R)."""
        odds = math.exp(-self.epsilon_1)  # (1 - a) / a
        if self.k is None:
            gain = math.tanh(self.epsilon_2 / 2) ** 2 / (1 + odds)  # a (2b - 1)^2
            return (1 - gain * mean_square + other / size * odds) / (gain * size)
        kept, moved = (2 * (scale / self.epsilon_2) ** 2 for scale in (2.0, self.k))
        return (mean_square * odds + (1 + odds) * (kept + other / size * moved * odds)) / size

    def variance(self, sizes: Sizes, mean_squares: Sizes | None = None) -> float:
        """Return Theorem 9's variance of the gap, by default with the worst values."""
        squares = mean_squares or (WORST[self.mechanism],) * 2
        return self.variance_of_mean(*sizes, squares[0]) + self.variance_of_mean(*sizes[::-1], squares[1])

    def chebyshev(self, sizes: Sizes, failure: float) -> float:
        """Return the paper's alpha, which the error exceeds with this probability at most."""
        return math.sqrt(self.variance(sizes) / failure)

    def true_epsilon(self) -> Fraction | None:
        """Return the exact epsilon, rounded up; None: there is none."""
        first, second = _exact(self.epsilon_1), _exact(self.epsilon_2)
        if self.k is None:
            return epsilon_of_r(MechanismR.with_budgets(GROUPS, first, second))
        k = _exact(self.k)
        if epsilon_of_l(Fraction(1), second, k) is None:  # its noise alone has no epsilon
            return None
        return epsilon_of_l(Grr.private(GROUPS, first).odds, second, k)

    def simulable(self, declared: ValueRange) -> Simulable:
        """Return the mechanism for `local_simulation`."""
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
    """Return "M_L opt." of appendix B; above epsilon 2, its k is too large."""
    if epsilon < 2 / 3:
        return Budgets(math.log(3) - epsilon / 2, epsilon, 2 / 3)
    return Budgets(math.log(2 / epsilon) + epsilon - 1, epsilon, epsilon)


def coded_l(epsilon: float) -> Budgets:
    """Return the published code's mechanism for "M_L opt.", a fault emulated.

    It exchanges the two scales of M_L's noise, so it is M_L with epsilon_2 = 2 epsilon / k, and 4 / k for k.
    """
    meant = published_l(epsilon)
    k = min(meant.k or 2.0, 2.0)
    return Budgets(meant.epsilon_1, 2 * epsilon / k, 4 / k)


def l_of_two(epsilon: float) -> Budgets:
    """Return M_L with k = 2, which keeps to epsilon, and repairs "M_L opt."."""
    return Budgets(epsilon / 2, epsilon, 2.0)


def repaired_r(epsilon: float) -> Budgets:
    """Return the M_R that keeps to epsilon."""
    return Budgets(epsilon + math.log1p(math.exp(-epsilon)) - math.log(2), epsilon)


PUBLISHED: dict[str, Allocation] = {M_R: published_r, M_L: published_l}
REPAIRED: dict[str, Allocation] = {M_R: repaired_r, M_L: l_of_two}


def private(mechanism: str, epsilon: Fraction, declared: ValueRange) -> Mechanism:
    """Return the repaired mechanism as clients run it."""
    return (MechanismR if mechanism == M_R else MechanismL).private(GROUPS, epsilon, declared)


def least_epsilon(bound: Callable[[float], float], error: float, low: float, high: float) -> float | None:
    """Return the least epsilon whose bound is at most the error, to 10^-6, or None."""
    if bound(high) > error:
        return None
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if bound(middle) <= error else (middle, high)
    return high


def _exact(value: float) -> Fraction:
    return Fraction(value).limit_denominator(10**9)


CELLS = {M_R: "m_r", M_L: "m_l"}  # of a mechanism in gaps.json
RATE_RANGE = ValueRange(0, 1)
SCALED = ValueRange(-1, 1)
_LEAST, _MOST = 1e-4, 700.0  # of the epsilons that are tried


def agrees(reproduced: float | None, published: str | None) -> bool:
    """Return whether a number rounds to the printed one, or both are None."""
    if published is None or reproduced is None:
        return published is None and reproduced is None
    return rounds_to(reproduced, published)


def table1() -> list[Row]:
    """Return the least epsilons for an error alpha of the gap, with probability 0.99, two groups of one size.

    The repaired mechanism has error `repaired_alpha` at the published epsilon, and for alpha takes epsilon
    `repaired`, or `tight` by Chernoff's bound.
    """
    published = gaps()["table1"]
    return [
        _cell_of_table1(mechanism, row["clients"], float(alpha), printed, float(published["failure"]))
        for mechanism, name in CELLS.items()
        for row in published["cells"]
        for alpha, printed in zip(published["alphas"], row[name], strict=True)
    ]


def _cell_of_table1(mechanism: str, clients: int, alpha: float, printed: str | None, failure: float) -> Row:
    sizes = (clients / 2, clients / 2)
    published, repaired = PUBLISHED[mechanism], REPAIRED[mechanism]

    def tight(epsilon: float) -> float:
        chosen = private(mechanism, Fraction(epsilon), SCALED)
        return half_width(chosen, sizes, gap_weights(sizes, 0, 1), failure)

    least = least_epsilon(lambda e: published(e).chebyshev(sizes, failure), alpha, _LEAST, _MOST)
    return {
        "mechanism": mechanism,
        "clients": clients,
        "alpha": alpha,
        "published": printed,
        "reproduced": least,
        "true_epsilon": None if least is None else published(least).true_epsilon(),
        "repaired_alpha": None if least is None else repaired(least).chebyshev(sizes, failure),
        "repaired": least_epsilon(lambda e: repaired(e).chebyshev(sizes, failure), alpha, _LEAST, _MOST),
        "tight": least_epsilon(tight, alpha, _LEAST, float(MAX_EPSILON)),
        "agrees": agrees(least, printed),
    }


def resampled(values: tuple[Floats, ...], sizes: tuple[int, ...]) -> Population:
    """Return groups of these sizes, with equally many clients per value."""
    clients = [
        size // len(of_group) + (np.arange(len(of_group)) < size % len(of_group)).astype(np.int64)
        for of_group, size in zip(values, sizes, strict=True)
    ]
    return Population(values, tuple(clients))


def table2(source: str, values: tuple[Floats, ...], runs: int, rng: np.random.Generator) -> list[Row]:
    """Simulate Table 2: the error of the gap with 10^7 clients, and its bound alpha in 99 % of runs.

    `alpha_of_the_text` has groups in the recordings' proportion, and values from -1 to 1.
    """
    half = gaps()["table2"]["clients"] // 2
    population = resampled(values, (half, half))
    return [
        {"population": source, **_cell_of_table2(mechanism, row, population, runs, rng)}
        for mechanism in CELLS
        for row in gaps()["table2"]["cells"]
    ]


def _cell_of_table2(
    mechanism: str,
    row: dict[str, dict[str, str]],
    population: Population,
    runs: int,
    rng: np.random.Generator,
) -> Row:
    paper, recordings = gaps()["table2"], gaps()["activity"]["recordings"]
    failure, printed, text = float(paper["failure"]), row[CELLS[mechanism]], str(row["epsilon"])
    published, repaired = PUBLISHED[mechanism](float(text)), REPAIRED[mechanism](float(text))
    half, share = paper["clients"] / 2, recordings["M"] / sum(recordings.values())
    as_coded = coded_l(float(text)) if mechanism == M_L else None
    as_printed, as_repaired, *coded = simulate(
        [
            published.simulable(RATE_RANGE),
            private(mechanism, Fraction(text), RATE_RANGE),
            *([as_coded.simulable(RATE_RANGE)] if as_coded else []),
        ],
        population,
        runs,
        rng,
    )
    alpha = published.chebyshev((half, half), failure) * RATE_RANGE.radius
    return {
        "mechanism": mechanism,
        "epsilon": text,
        "published": printed,
        "alpha": alpha,
        "alpha_of_the_text": published.chebyshev(
            (paper["clients"] * share, paper["clients"] * (1 - share)), failure
        ),
        "errors": _errors(as_printed, rng, printed),
        "coded": _errors(coded[0], rng, printed) if coded else None,
        "true_epsilon": published.true_epsilon(),
        "coded_epsilon": as_coded.true_epsilon() if as_coded else None,
        "repaired_alpha": repaired.chebyshev((half, half), failure) * RATE_RANGE.radius,
        "repaired": _errors(as_repaired, rng, None),
        "agrees": rounds_to(alpha, printed["alpha"]),
    }


def _errors(simulated: Simulated, rng: np.random.Generator, printed: dict[str, str] | None) -> Row:
    """Return errors of absolute gaps over simulated runs, as the paper takes them.

    `fits_` figures are the two-sided chance of the published ones.
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
    """Return the two-sided chance of a printed value, among values rounded alike."""
    digits = len(printed.partition(".")[2])
    above = np.round(np.round(values, digits) - float(printed), digits + 3)
    return min(1.0, 2 * float((above <= 0).mean()), 2 * float((above >= 0).mean()))


# The paper's axes and ratios are not in its text; these are ours.
EPSILONS = np.geomspace(0.05, 10, 47)
RATIOS = (1, 3, 9, 99, 999)  # of Figure 2; 3 is equal groups taken for 25 % and 75 %
AT = 1.0  # the epsilon of numbers on Figures 1 and 2
SIZE_OF_FIGURE_3 = 10_000.0  # of either group
VALUES_OF_FIGURE_4 = np.linspace(-0.38, 0.38, 10)  # of the estimated group; the code's mean square
TOLD = 0.6  # both groups' mean, -1 to 1, in the example of a wrong size
AS_PUBLISHED: dict[str, Allocation] = {
    "M_R opt.": published_r,
    "M_L opt.": published_l,
    "M_L, k = 2": l_of_two,
}
_FINE = np.geomspace(0.05, 10, 5_001)
Claim = tuple[int, str, str, str, bool, str]


def bounds(allocation: Allocation, epsilon: float, sizes: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest MSE of the gap."""
    budgets = allocation(epsilon)
    worst = WORST[budgets.mechanism]
    return budgets.variance(sizes, (1 - worst, 1 - worst)), budgets.variance(sizes)


def crossings(one: Allocation, other: Allocation, sizes: tuple[float, float]) -> list[float]:
    """Return the epsilons, from 0.05 to 10, at which two largest MSEs are the same."""
    signs = np.sign([one(e).variance(sizes) - other(e).variance(sizes) for e in _FINE])
    return [float(_FINE[i]) for i in np.flatnonzero(signs[:-1] * signs[1:] < 0)]


def figure1() -> list[Claim]:
    """Judge the paper's statements on bounds of the MSE."""
    published = gaps()["figure1"]
    sizes = (float(published["sizes"][0]), float(published["sizes"][1]))
    low, high = crossings(published_r, published_l, sizes)
    printed = (published["m_r_is_best_from"], published["m_r_is_best_to"])
    touching, beyond = crossings(published_l, l_of_two, sizes)
    (repaired,) = crossings(repaired_r, l_of_two, sizes)
    true = published_r(AT).true_epsilon()
    assert true is not None
    worse = published_r(AT).variance(sizes) / repaired_r(float(true)).variance(sizes)
    return [
        (
            1,
            "the best budgets of M_R",
            "ε₁ = ε₂ = ε",
            f"at {AT:g} and {AT:g}, ε is {float(true):.3f}",
            False,
            f"ε₂ = ε, ε₁ = ln((e^ε + 1)/2): at ε = {float(true):.3f} the MSE is {worse:.2f} times smaller",
        ),
        (
            1,
            "M_R opt. has a lower MSE than M_L opt. for ε from … to …",
            f"{printed[0]} to {printed[1]}",
            f"{low:.2f} to {high:.2f}",
            rounds_to(low, printed[0]) and rounds_to(high, printed[1]),
            f"M_L opt. protects at no ε; repaired, M_R is best up to {repaired:.2f}, then M_L with k = 2",
        ),
        (
            1,
            "M_L opt. has a lower MSE than M_L with k = 2",
            "at all ε considered",
            f"not for ε from {touching:.2f} to {beyond:.2f}",
            False,
            "where k is above 2 its noise is larger, which appendix B leaves out",
        ),
    ]


def with_ratio(ratio: float) -> tuple[float, float]:
    """Return the sizes of Figure 2's groups."""
    clients = gaps()["figure2"]["clients"]
    return clients / (1 + ratio), clients * ratio / (1 + ratio)


def biased_gap(mean: float, error: float) -> float:
    """Return the expected estimate of a gap of 0 if one size is taken too large, the other too small."""
    return mean / (1 + error) - mean / (1 - error)


def figure2() -> list[Claim]:
    """Judge the paper's statements on sizes of groups."""
    error = float(gaps()["figure2"]["size_error"])
    claims: list[Claim] = [
        (
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
        (
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
    equal, *others = (allocation(AT).variance(with_ratio(ratio)) for ratio in RATIOS)
    times = [
        f"{variance / equal:{',.0f' if variance >= 100 * equal else '.3g'}} times" for variance in others
    ]
    return "; ".join(f"1:{ratio} {growth}" for ratio, growth in zip(RATIOS[1:], times, strict=True))


def allocated(k: float) -> Allocation:
    """Return the largest epsilon_1 of Eq. (1) at epsilon_2 = epsilon."""
    return lambda epsilon: Budgets(math.log(2 / k) + epsilon * (1 - 1 / k), epsilon, k)


def figure3() -> list[Claim]:
    """Judge the paper's statements on k = 2 and k = 2/3."""
    printed = gaps()["figure3"]["smaller_k_is_best_below"]
    (crossing,) = crossings(allocated(2 / 3), l_of_two, (SIZE_OF_FIGURE_3,) * 2)
    return [
        (
            3,
            "k = 2/3 has a lower MSE than k = 2 for ε below …",
            printed,
            f"{crossing:.2f}",
            crossing >= float(Fraction(printed)),
            "with k = 2/3 no budgets are any ε-LDP; by Eq. (1) they lie on a line, not in an area",
        )
    ]


def figure4(runs: int, rng: np.random.Generator) -> list[Row]:
    """Simulate Figure 4: MSE of a group's mean by M_R, as published and repaired, in a power of ten of runs.

    `theory` is Eq. 20 with the simulated values, `worst` with the worst.
    """
    printed = gaps()["figure4"]
    size, other = printed["sizes"]
    population = Population(
        (VALUES_OF_FIGURE_4, np.zeros(1)),
        (np.ones(size, dtype=np.int64), np.array([other], dtype=np.int64)),
    )
    published = Budgets(float(printed["epsilon_1"]), float(printed["epsilon_2"]))
    repaired = private(M_R, Fraction(printed["epsilon_2"]), SCALED)
    drawn = simulate([published.simulable(SCALED), repaired], population, runs, rng)
    at = tuple(10**i for i in range(1, round(math.log10(runs)) + 1))
    names = {"as published": published, "repaired": repaired_r(float(printed["epsilon_2"]))}
    curves = list[Row]()
    for (name, budgets), simulated in zip(names.items(), drawn, strict=True):
        errors = np.square(simulated.estimated_means()[:, 0] - simulated.means[0])
        curves.append(
            {
                "name": name,
                "epsilon": budgets.true_epsilon(),
                "theory": budgets.variance_of_mean(size, other, float(np.mean(VALUES_OF_FIGURE_4**2))),
                "worst": budgets.variance_of_mean(size, other, WORST[M_R]),
                "runs": at,
                "empirical": tuple(float(errors[:n].mean()) for n in at),
            }
        )
    return curves


def claims() -> list[Row]:
    """Return the paper's statements on Figures 1 to 3, judged."""
    names = ("figure", "what", "published", "reproduced", "agrees", "true")
    return [dict(zip(names, claim, strict=True)) for claim in (*figure1(), *figure2(), *figure3())]


_COLOUR = dict(zip((*AS_PUBLISHED, "M_R, repaired"), COLOURS, strict=False))
_INCHES = (10.5, 4.6)
_HEIGHT = ["MSE, gap on the scale from −1 to 1"]


def figure_1() -> Figure:
    """Draw bounds of the MSE, as published and at the true epsilon."""
    first, second = map(float, gaps()["figure1"]["sizes"])
    true = [float(published_r(epsilon).true_epsilon() or 0) for epsilon in EPSILONS]

    def at(name: str, allocation: Allocation, epsilons: Sequence[float] | Floats) -> list[Mark]:
        """Fill between the bounds at EPSILONS, placed at these."""
        low, high = np.array([bounds(allocation, epsilon, (first, second)) for epsilon in EPSILONS]).T
        return [
            band(epsilons, low, high, alpha=0.3, color=_COLOUR[name]),
            line(epsilons, high, linewidth=1.6, label=name, color=_COLOUR[name]),
        ]

    left = [
        *(mark for name, allocation in AS_PUBLISHED.items() for mark in at(name, allocation, EPSILONS)),
        *(
            place(float(gaps()["figure1"][end]), color=GREY, linewidth=1, linestyle=":")
            for end in ("m_r_is_best_from", "m_r_is_best_to")
        ),
        note("the paper has\nM_R opt. lowest\nbetween these", (0.34, 0.9)),
        shown(title="as published, at the ε stated"),
    ]
    right = [
        *at("M_R opt.", published_r, true),
        *at("M_R, repaired", repaired_r, EPSILONS),
        *at("M_L, k = 2", l_of_two, EPSILONS),
        note("M_L opt. has no ε,\nbut at 2", (0.06, 2e-5)),
        shown(title="at the true ε"),
    ]
    both = [LOGARITHMIC, shown(ylim=(5e-6, 20), xlim=(0.05, 12)), LEGEND]
    return draw(
        [[left + both, right + both]],
        _INCHES,
        "Figure 1: bounds of the gap's MSE, two groups of 10,000",
        x="ε",
        y=_HEIGHT,
    )
