"""The paper's statements on its figures, judged, and Figure 1 drawn anew."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import LEGEND, LOGARITHMIC, Mark, band, draw, line, note, place, shown
from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.gaps.published import (
    M_R,
    SCALED,
    WORST,
    Allocation,
    Budgets,
    l_of_two,
    private,
    published_l,
    published_r,
    repaired_r,
)
from benchmarks.studies.local_simulation import ClientValues, simulate
from benchmarks.studies.outcome import Row
from fairshares.harness.views.palette import COLOURS, GREY
from fairshares.protocols.arrays import Floats

# The paper's text has neither its axes nor its ratios. These are chosen here.
EPSILONS = np.geomspace(0.05, 10, 47)
RATIOS = (1, 3, 9, 99, 999)  # the ratios of Figure 2; 3 is equal groups taken for 25 % and 75 %
SHOWN_EPSILON = 1.0  # the epsilon of the numbers on Figures 1 and 2

VALUES_OF_FIGURE_4 = np.linspace(-0.38, 0.38, 10)  # values of the estimated group; the code's mean square
TOLD = 0.6  # both groups' mean, -1 to 1, in the example of a wrong size
AS_PUBLISHED: dict[str, Allocation] = {
    "M_R opt.": published_r,
    "M_L opt.": published_l,
    "M_L, k = 2": l_of_two,
}
_FINE = np.geomspace(0.05, 10, 5_001)
Claim = tuple[int, str, str, str, bool, str]


def bounds(allocation: Allocation, epsilon: float, sizes: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest MSE of the gap that the values can cause."""
    budgets = allocation(epsilon)
    worst = WORST[budgets.mechanism]
    return budgets.variance(sizes, (1 - worst, 1 - worst)), budgets.variance(sizes)


def crossings(first: Allocation, second: Allocation, sizes: tuple[float, float]) -> list[float]:
    """Return the epsilons at which both allocations have the same largest MSE."""
    differences = [first(epsilon).variance(sizes) - second(epsilon).variance(sizes) for epsilon in _FINE]
    signs = np.sign(differences)
    changes = np.flatnonzero(signs[:-1] * signs[1:] < 0)
    return [float(_FINE[number]) for number in changes]


def figure1() -> list[Claim]:
    """Judge the paper's statements on bounds of the MSE."""
    published = gaps()["figure1"]
    sizes = (float(published["sizes"][0]), float(published["sizes"][1]))
    low, high = crossings(published_r, published_l, sizes)
    printed_low = published["m_r_is_best_from"]
    printed_high = published["m_r_is_best_to"]
    touching, beyond = crossings(published_l, l_of_two, sizes)
    (repaired,) = crossings(repaired_r, l_of_two, sizes)
    budgets = published_r(SHOWN_EPSILON)
    true = budgets.true_epsilon()
    assert true is not None
    worse = budgets.variance(sizes) / repaired_r(float(true)).variance(sizes)
    return [
        (
            1,
            "the best budgets of M_R",
            "ε₁ = ε₂ = ε",
            f"at {SHOWN_EPSILON:g} and {SHOWN_EPSILON:g}, ε is {float(true):.3f}",
            False,
            f"ε₂ = ε, ε₁ = ln((e^ε + 1)/2): at ε = {float(true):.3f} the MSE is {worse:.2f} times smaller",
        ),
        (
            1,
            "M_R opt. has a lower MSE than M_L opt. for ε from … to …",
            f"{printed_low} to {printed_high}",
            f"{low:.2f} to {high:.2f}",
            rounds_to(low, printed_low) and rounds_to(high, printed_high),
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


def figure2() -> list[Claim]:
    """Judge the paper's statements on sizes of groups."""
    error = float(gaps()["figure2"]["size_error"])
    budgets = published_r(SHOWN_EPSILON)
    equal = budgets.variance(with_ratio(1))
    wrong = budgets.variance(with_ratio(3))
    estimated = abs(TOLD / (1 + error) - TOLD / (1 - error))  # estimates a gap of 0, if one size is too large
    rapid = "the MSE grows rapidly for minorities below 1 %"
    as_a_curve = "as a curve only"
    return [
        (2, f"M_R opt.: {rapid}", as_a_curve, _growth(published_r), True, _growth(repaired_r)),
        (2, f"M_L, k = 2: {rapid}", as_a_curve, _growth(l_of_two), True, "keeps to its ε"),
        (
            2,
            f"sizes wrong by {100 * error:.0f} % make an insignificant difference",
            "insignificant",
            f"variance of groups 1:3 is {wrong / equal:.2f} times that of 1:1 "
            f"(M_R opt., ε = {SHOWN_EPSILON:g})",
            False,
            f"a wrong size scales the mean: two groups of one size and of mean {TOLD:g} (−1 to 1) show a "
            f"gap of {estimated:.2f}, with any number of clients",
        ),
    ]


def _growth(allocation: Allocation) -> str:
    """Say how many times larger the variance is with each ratio of sizes than with equal groups."""
    budgets = allocation(SHOWN_EPSILON)
    equal = budgets.variance(with_ratio(RATIOS[0]))
    texts = []
    for ratio in RATIOS[1:]:
        times = budgets.variance(with_ratio(ratio)) / equal
        if times >= 100:
            texts.append(f"1:{ratio} {times:,.0f} times")
        else:
            texts.append(f"1:{ratio} {times:.3g} times")
    return "; ".join(texts)


def allocated(k: float) -> Allocation:
    """Return the allocation with the largest epsilon_1 that Eq. (1) allows at epsilon_2 = epsilon."""
    return lambda epsilon: Budgets(math.log(2 / k) + epsilon * (1 - 1 / k), epsilon, k)


def figure3() -> list[Claim]:
    """Judge the paper's statements on k = 2 and k = 2/3."""
    printed = gaps()["figure3"]["smaller_k_is_best_below"]
    (crossing,) = crossings(allocated(2 / 3), l_of_two, (10_000.0, 10_000.0))
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
    """Simulate Figure 4: the MSE of a group's mean by M_R, as published and repaired.

    The MSE is stated for 10 runs, for 100 runs, and so on for each power of ten up to `runs`. In a row,
    `theory` is Eq. 20 with the simulated values, and `worst` is Eq. 20 with the worst values.
    """
    printed = gaps()["figure4"]
    size, other = printed["sizes"]
    population = ClientValues(
        (VALUES_OF_FIGURE_4, np.zeros(1)),
        (np.ones(size, dtype=np.int64), np.array([other], dtype=np.int64)),
    )
    published = Budgets(float(printed["epsilon_1"]), float(printed["epsilon_2"]))
    drawn = simulate(
        [published.simulable(SCALED), private(M_R, Fraction(printed["epsilon_2"]), SCALED)],
        population,
        runs,
        rng,
    )
    powers = tuple(10**exponent for exponent in range(1, round(math.log10(runs)) + 1))
    mean_square = float(np.mean(VALUES_OF_FIGURE_4**2))
    names = {"as published": published, "repaired": repaired_r(float(printed["epsilon_2"]))}
    rows: list[Row] = []
    for (name, budgets), simulated in zip(names.items(), drawn, strict=True):
        squares = np.square(simulated.estimated_means()[:, 0] - simulated.means[0])
        rows.append(
            {
                "name": name,
                "epsilon": budgets.true_epsilon(),
                "theory": budgets.variance_of_mean(size, other, mean_square),
                "worst": budgets.variance_of_mean(size, other, WORST[M_R]),
                "runs": powers,
                "empirical": tuple(float(squares[:power].mean()) for power in powers),
            }
        )
    return rows


def claims() -> list[Row]:
    """Return the paper's statements on Figures 1 to 3, judged."""
    names = ("figure", "what", "published", "reproduced", "agrees", "true")
    judged = figure1() + figure2() + figure3()
    return [dict(zip(names, claim, strict=True)) for claim in judged]


_COLOUR = dict(zip((*AS_PUBLISHED, "M_R, repaired"), COLOURS, strict=False))


def figure_1() -> Figure:
    """Draw bounds of the MSE, as published and at the true epsilon."""
    first, second = map(float, gaps()["figure1"]["sizes"])
    true = [float(published_r(epsilon).true_epsilon() or 0) for epsilon in EPSILONS]

    def drawn_at(name: str, allocation: Allocation, epsilons: Sequence[float] | Floats) -> list[Mark]:
        low, high = np.array([bounds(allocation, epsilon, (first, second)) for epsilon in EPSILONS]).T
        return [
            band(epsilons, low, high, alpha=0.3, color=_COLOUR[name]),
            line(epsilons, high, linewidth=1.6, label=name, color=_COLOUR[name]),
        ]

    left: list[Mark] = []
    for name, allocation in AS_PUBLISHED.items():
        left.extend(drawn_at(name, allocation, EPSILONS))
    for end in ("m_r_is_best_from", "m_r_is_best_to"):
        left.append(place(float(gaps()["figure1"][end]), color=GREY, linewidth=1, linestyle=":"))
    left.append(note("the paper has\nM_R opt. lowest\nbetween these", (0.34, 0.9)))
    left.append(shown(title="as published, at the ε stated"))
    right: list[Mark] = []
    right.extend(drawn_at("M_R opt.", published_r, true))
    right.extend(drawn_at("M_R, repaired", repaired_r, EPSILONS))
    right.extend(drawn_at("M_L, k = 2", l_of_two, EPSILONS))
    right.append(note("M_L opt. has no ε,\nbut at 2", (0.06, 2e-5)))
    right.append(shown(title="at the true ε"))
    in_both = [LOGARITHMIC, shown(ylim=(5e-6, 20), xlim=(0.05, 12)), LEGEND]
    return draw(
        [[left + in_both, right + in_both]],
        (10.5, 4.6),
        "Figure 1: bounds of the gap's MSE, two groups of 10,000",
        x="ε",
        y=["MSE, gap on the scale from −1 to 1"],
    )
