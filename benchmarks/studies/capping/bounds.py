"""What the paper on capping states, calculated: what holds and how tightly, and what does not, with numbers.

Notation of Amin et al. 2019: p_j is a user's share of the data, gamma the cap as a share of all n examples,
q_j = min(gamma, p_j); Q is the sum of q_j. Capped examples are distributed among users as q_j / Q.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import LEGEND, LOGARITHMIC, Panel, draw, level, line, note, place, shown
from benchmarks.studies.outcome import Row, rounded
from harness.views.palette import COLOURS, GREY, MARKERS
from protocols.arrays import Floats

# Of x = missing / scale where Eq. 2 is furthest from the expected error: e^x = 2 + x.
_FURTHEST = 1.1461932206205825
MOST_ABOVE = (_FURTHEST + 1) / (_FURTHEST + math.exp(-_FURTHEST))  # Eq. 2 over the expected error, at most


def laplace_error(scale: float, missing: float) -> float:
    """Return E|missing - eta| for Laplace noise: missing + scale e^(-missing / scale).

    Guarantees: at most missing + scale, which Eq. 2 has, and that at most 1.466 times this.
    [test: tests/benchmarks/studies/test_capping_bounds.py]
    """
    return missing + scale * math.exp(-missing / scale)


def capped(p: Floats, gamma: float) -> Floats:
    """Return each user's share of the capped examples, q_j / Q."""
    q = np.minimum(gamma, p)
    return np.asarray(q / q.sum())


def kept(p: Floats, gamma: float) -> float:
    """Return Q, the share of all examples that the cap leaves: from gamma to 1."""
    return float(np.minimum(gamma, p).sum())


def bias(p: Floats, gamma: float, losses: Floats) -> float:
    """Return |sum of (q_j / Q - p_j) L_j|, the bias term."""
    return float(abs((capped(p, gamma) - p) @ losses))


def worst_bias(p: Floats, gamma: float) -> float:
    """Return the largest bias over all losses from 0 to 1: the total variation distance."""
    return float(np.maximum(0, p - capped(p, gamma)).sum())


def worst_of_all(gamma: float) -> float:
    """Return the largest bias over all p, too: (1 - sqrt(gamma))^2.

    Computes: let A be the users whose share the cap lowers, m of them, with a of the examples. Capped ones
    have at least m gamma / (m gamma + 1 - a), so the bias is at most a less that, which is
    (1 - sqrt(m gamma))^2 at most. One user with a = 1 + gamma - sqrt(gamma) reaches it if all others have
    gamma or less.
    Guarantees: no users and losses have more.  [test: tests/benchmarks/studies/test_capping_bounds.py]
    """
    return (1 - math.sqrt(gamma)) ** 2


def proposition_1(gamma: float) -> float:
    """Return Proposition 1's bound. It holds for losses from 0 to 1, not from -1 to 1."""
    return math.sqrt(math.log(1 / gamma) / 2)


def sharper_1(p: Floats, gamma: float) -> float:
    """Return sqrt(ln(1 / Q) / 2), by the same proof: Pinsker, and a divergence of ln(1 / Q) at most."""
    return math.sqrt(max(0.0, math.log(1 / kept(p, gamma))) / 2)


def variance(p: Floats, losses: Floats) -> float:
    """Return Var(h), Definition 6."""
    return float(p @ (losses - p @ losses) ** 2)


def proposition_2(spread: float, gamma: float) -> float:
    """Return Proposition 2's bound. Args: spread: Var(h)."""
    return math.sqrt(2 * spread / gamma)


def sharper_2(p: Floats, spread: float, gamma: float) -> float:
    """Return sqrt(Var(h) (1 - Q) / Q), at most 1/sqrt(2) of Proposition 2's, and 0 where nothing is capped.

    Computes: Cauchy and Schwarz; the chi-squared divergence of q / Q from p is at most 1 / Q - 1.
    Guarantees: the bias is never above it.  [test: tests/benchmarks/studies/test_capping_bounds.py]
    """
    q = kept(p, gamma)
    return math.sqrt(max(0.0, spread * (1 - q) / q))


def zipf_shares(users: int, exponent: float = 1.0) -> Floats:
    """Return p_j in proportion to j^-exponent, shape (users,); they add up to 1."""
    p = np.arange(1, users + 1) ** -exponent
    return np.asarray(p / p.sum())


def users_of_theorem_1() -> tuple[Floats, Floats]:
    """Return p_j, the most active first, and the thresholds t_j of users' labels: they grow as p_j falls."""
    return zipf_shares(100), np.linspace(0.2, 0.8, 100)


def one_user(share: float, others: int) -> Floats:
    """Return one user with a share of the examples, and others that have equal parts of the rest."""
    return np.array([share, *[(1 - share) / others] * others])


HYPOTHESES = np.linspace(0, 1, 21)


def simulate(
    p: Floats,
    thresholds: Floats,
    gamma: float,
    sizes: tuple[int, ...],
    runs: int,
    rng: np.random.Generator,
) -> Row:
    """Draw examples from users, cap them, and compare losses with the true risk.

    Computes: x is uniform on [0, 1], and user j's label is [x >= t_j]; hypothesis h_a is [x >= a], so that
    L_j(h_a) = |a - t_j|; the VC dimension of all h_a is 1. The first floor(gamma n) examples of a user count.
    Args: thresholds: t_j.
    Returns: bias: the second term, the largest over hypotheses; errors: the mean over runs of the largest
    |L_S(h) - L(h)|, by n.
    """
    losses = np.abs(HYPOTHESES - thresholds[:, np.newaxis])
    errors = {}
    for n in sizes:
        cap = math.floor(gamma * n)
        drawn = [_deviation(p, thresholds, cap, n, p @ losses, rng) for _ in range(runs)]
        errors[str(n)] = rounded(float(np.mean(drawn)))
    worst = float(np.abs((capped(p, gamma) - p) @ losses).max())
    return {"gamma": gamma, "bias": rounded(worst), "errors": errors}


def _deviation(
    p: Floats, thresholds: Floats, cap: int, n: int, risk: Floats, rng: np.random.Generator
) -> float:
    user, x = np.sort(rng.choice(len(p), n, p=p)), rng.random(n)  # examples are alike: their order is free
    rank = np.arange(n) - np.searchsorted(user, user)
    t, x = thresholds[user][rank < cap], x[rank < cap]
    low, high = np.minimum(HYPOTHESES, t[:, np.newaxis]), np.maximum(HYPOTHESES, t[:, np.newaxis])
    wrong = (low <= x[:, np.newaxis]) & (x[:, np.newaxis] < high)
    return float(np.abs(wrong.mean(axis=0) - risk).max())


GAMMA = 0.01
# User 1 has 91 % of all examples and nine users 1 % each: capped at 1 %, each has a tenth.
TEN_USERS = one_user(0.91, 9)


def least_error_of_one(contribution: float, epsilon: float) -> tuple[float, float]:
    """Return the cap with the least expected error for a single contribution, and that error."""
    caps = np.linspace(0, contribution, 100_001)[1:]
    errors = [laplace_error(cap / epsilon, contribution - cap) for cap in caps]
    best = int(np.argmin(errors))
    return float(caps[best]), errors[best]


def excess_of_capped() -> tuple[float, float]:
    """Return what the hypothesis with the least capped risk loses to the best one, and the largest bias.

    Computes: one hypothesis never errs on user 1, the other always; capped, the latter looks better.
    """
    losses = np.array([[0.0, *[0.556] * 9], [1.0, *[0.434] * 9]])
    looks, risks = losses @ capped(TEN_USERS, GAMMA), losses @ TEN_USERS
    return (
        float(risks[np.argmin(looks)] - risks.min()),
        max(bias(TEN_USERS, GAMMA, each) for each in losses),
    )


def claims() -> list[Row]:
    """Return what is stated, in the paper's order.

    Returns: holds: as it is printed, None: not judged; found: what does hold, or what contradicts it.
    """
    at, least = least_error_of_one(100, 1)
    excess, of_two = excess_of_capped()
    signed, bound = 2 * worst_bias(TEN_USERS, GAMMA), proposition_1(GAMMA)
    alike = GAMMA / kept(np.full(10, 0.1), GAMMA)
    stated = [
        (
            "Eq. 2",
            "expected error = τ/ε + Σ max(0, x − τ)",
            False,
            f"at most that, and down to 1/{MOST_ABOVE:.3f} of it: b + (τ/ε)·e^(−bε/τ), b = Σ max(0, x − τ)",
        ),
        (
            "Section 3",
            "least at the ⌈1/ε⌉-th largest contribution, whatever those above and below are",
            False,
            f"that minimises Eq. 2's right side. One contribution of 100, ε = 1: {least:.1f} at "
            f"τ = {at:.1f}, but 100 at τ = 100. With the rule it is at most {MOST_ABOVE:.2f} times the least",
        ),
        (
            "Lemma 1",
            "hypotheses drawn in proportion to e^(−εL/2τ), L the mean loss",
            False,
            "L has to be the sum: with means, losses 0 and 1, ε = 1 and τ = 10, the worse of two is drawn "
            f"with P = {1 / (1 + math.exp(1 / 20)):.3f} for every n. And on a ball losses have to be "
            "Lipschitz: a loss that is 0 at one point and 1 elsewhere is 1 almost surely",
        ),
        (
            "Theorem 1",
            "|L_Sτ(h) − L(h)| ≤ O(γ⁻²·√(d·log(n/d)/n)) + bias",
            None,
            "no constant is stated, so there is nothing to refute; simulated errors are far below it with 1",
        ),
        (
            "Corollary 1",
            "excess risk ≤ sup bias + terms that vanish with n and ε",
            False,
            f"twice the bias, as in the paper's own example. Of two hypotheses, of bias {of_two:.2f} at "
            f"most, the one that looks better when capped can have a risk larger by {excess:.2f}",
        ),
        (
            "its example",
            "N = O(n^(1/6)) users alike, γ ≈ 1/N: K(γ) = N",
            False,
            "K counts p > γ + η, so it is 0 at γ = 1/N, and N for γ below 1/N − η; with fewer users than of "
            "order n^(1/6) the privacy term d/(Nε) is larger than printed",
        ),
        (
            "Section 4.1",
            "the privacy variance is of order γ/ε",
            False,
            f"γ/(Qε), Q = Σ min(γ, p): ten users alike with γ = {GAMMA:g} have τ/n_τ = {alike:.1f}",
        ),
        (
            "Proposition 1",
            "bias ≤ √(½·ln(1/γ)) for losses with |L| < 1",
            False,
            f"for losses from 0 to 1, yes. From −1 to 1: a user with 91 % of the examples and nine with 1 %, "
            f"γ = {GAMMA:g}, have {signed:.2f} where the bound is {bound:.2f}. The largest bias for "
            "any users is (1 − √γ)², twice that for losses of both signs; Q may stand for γ in the bound",
        ),
        (
            "Proposition 2",
            "bias ≤ √(2·Var(h)/γ)",
            True,
            "so is √(Var(h)·(1 − Q)/Q), which is at most 1/√2 of it, and 0 where nothing is capped",
        ),
    ]
    return [dict(zip(("where", "published", "holds", "found"), row, strict=True)) for row in stated]


_GAMMA = np.geomspace(1e-3, 1, 200)


def figure(simulated: Sequence[Row]) -> Figure:
    """Draw Propositions 1 and 2 and Theorem 1 beside what they bound."""
    panels = (_proposition_1(), _proposition_2(), _theorem_1(simulated))
    return draw([[[*panel, LEGEND] for panel in panels]], (15, 5))


def _proposition_1() -> Panel:
    p = zipf_shares(1000)
    lines: dict[str, tuple[Callable[[float], float], str, str]] = {
        "Proposition 1: √(½ ln 1/γ)": (proposition_1, "black", "-"),
        "worst users: (1 − √γ)²": (worst_of_all, COLOURS[1], "-"),
        "Zipf: √(½ ln 1/Q)": (partial(sharper_1, p), COLOURS[0], "--"),
        "Zipf, 1,000 users: exact": (partial(worst_bias, p), COLOURS[0], "-"),
    }
    return [
        *(
            line(_GAMMA, [bound(gamma) for gamma in _GAMMA], color=colour, linestyle=style, label=name)
            for name, (bound, colour, style) in lines.items()
        ),
        level(1, color=GREY, linestyle=":", linewidth=1),
        note("no bias is larger", (1, 1.02), ha="right", color=GREY),
        shown(
            xscale="log", ylim=(0, 2), xlabel="γ, the cap as a share of all examples", ylabel="largest bias"
        ),
        shown(title="Proposition 1, losses from 0 to 1\n(users alike: no bias)"),
    ]


def _proposition_2() -> Panel:
    p, thresholds = users_of_theorem_1()
    losses = np.abs(thresholds - 0.2)  # right for the most active user
    spread, below = variance(p, losses), _GAMMA[p.max() > _GAMMA]
    return [
        line(
            _GAMMA,
            [proposition_2(spread, gamma) for gamma in _GAMMA],
            color="black",
            label="Proposition 2: √(2 Var / γ)",
        ),
        line(
            below,
            [sharper_2(p, spread, gamma) for gamma in below],
            color=COLOURS[0],
            linestyle="--",
            label="√(Var (1 − Q) / Q)",
        ),
        line(below, [bias(p, gamma, losses) for gamma in below], color=COLOURS[0], label="bias, exact"),
        place(p.max(), color=GREY, linestyle=":", linewidth=1),
        note("nobody is\ncapped", (p.max() * 1.08, 2e-3), color=GREY),
        LOGARITHMIC,
        shown(ylim=(1e-3, 20), xlabel="γ, the cap as a share of all examples", ylabel="bias"),
        shown(title=f"Proposition 2, {len(p)} users by Zipf,\nVar(h) = {spread:.2g}"),
    ]


def _theorem_1(simulated: Sequence[Row]) -> Panel:
    sizes = [int(n) for n in simulated[0]["errors"]]
    fine = np.geomspace(min(sizes), max(sizes), 60)
    marks = [
        LOGARITHMIC,
        shown(ylim=(2e-3, 500), xlabel="n, examples", ylabel="largest |L_S(h) − L(h)|"),
        shown(title="Theorem 1, simulated; dotted: bias term;\ndashed: both terms, with the constant 1"),
    ]
    for colour, marker, losses in zip(COLOURS, MARKERS, simulated, strict=False):
        # The first term with the constant 1, as it states none; the VC dimension of all hypotheses is 1.
        terms = np.sqrt(np.log(fine) / fine) / losses["gamma"] ** 2 + losses["bias"]
        marks += [
            line(fine, terms, color=colour, linestyle="--", linewidth=1.2),
            line(
                sizes,
                list(losses["errors"].values()),
                color=colour,
                marker=marker,
                label=f"γ = {losses['gamma']:g}",
            ),
            *([level(losses["bias"], color=colour, linestyle=":", linewidth=1)] if losses["bias"] else []),
        ]
    return marks
