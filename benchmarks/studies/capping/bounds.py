"""The statements of the paper on capping, calculated: whether each holds and how tightly.

Notation of Amin et al. 2019: p_j is a user's share of the data, gamma the cap as a share of all examples, q_j
= min(gamma, p_j), and Q their sum.
"""

import math

import numpy as np

from benchmarks.studies.outcome import Row
from fairshares.protocols.arrays import Floats

# The x = missing / scale at which Eq. 2 is furthest from the expected error: e^x = 2 + x.
_FURTHEST = 1.1461932206205825
MOST_ABOVE = (_FURTHEST + 1) / (_FURTHEST + math.exp(-_FURTHEST))  # Eq. 2 over the expected error, at most


def laplace_error(scale: float, missing: float) -> float:
    """Return E|missing - eta| for Laplace noise.

    Guarantees: missing + scale, as in Eq. 2, is 1 to 1.466 times this.
    [test: tests/benchmarks/studies/test_capping_bounds.py]
    """
    return missing + scale * math.exp(-missing / scale)


def capped(p: Floats, gamma: float) -> Floats:
    """Return q_j / Q, each user's share of the capped examples."""
    q = np.minimum(gamma, p)
    return np.asarray(q / q.sum())


def kept(p: Floats, gamma: float) -> float:
    """Return Q, the share of all examples that the cap leaves."""
    return float(np.minimum(gamma, p).sum())


def bias(p: Floats, gamma: float, losses: Floats) -> float:
    """Return the bias term, |sum of (q_j / Q - p_j) L_j|."""
    return float(abs((capped(p, gamma) - p) @ losses))


def worst_bias(p: Floats, gamma: float) -> float:
    """Return the largest bias for losses from 0 to 1."""
    return float(np.maximum(0, p - capped(p, gamma)).sum())


def proposition_1(gamma: float) -> float:
    """Return Proposition 1's bound, which holds for losses from 0 to 1."""
    return math.sqrt(math.log(1 / gamma) / 2)


def one_user(share: float, others: int) -> Floats:
    """Return the shares of the data: of a user with this share, and of others who have equal shares."""
    of_others = np.full(others, (1 - share) / others)
    return np.append(share, of_others)


GAMMA = 0.01
# User 1 has 91 % of all examples and nine users 1 % each: capped at 1 %, each has a tenth.
TEN_USERS = one_user(0.91, 9)


def least_error_of_one(contribution: float, epsilon: float) -> tuple[float, float]:
    """Return the best cap if there is one contribution only, and the expected error with that cap."""
    caps = np.linspace(0, contribution, 100_001)[1:]
    errors = [laplace_error(cap / epsilon, contribution - cap) for cap in caps]
    best = int(np.argmin(errors))
    return float(caps[best]), errors[best]


def excess_of_capped() -> tuple[float, float]:
    """Return the excess risk of the hypothesis that looks better when capped, and the largest bias."""
    losses = np.array([np.append(0.0, np.full(9, 0.556)), np.append(1.0, np.full(9, 0.434))])
    looks = losses @ capped(TEN_USERS, GAMMA)
    risks = losses @ TEN_USERS
    excess = float(risks[np.argmin(looks)] - risks.min())
    largest_bias = max(bias(TEN_USERS, GAMMA, hypothesis) for hypothesis in losses)
    return excess, largest_bias


def claims() -> list[Row]:
    """Return the paper's statements, and whether each holds."""
    best_cap, least_error = least_error_of_one(100, 1)
    excess, largest_bias = excess_of_capped()
    bias_of_both_signs = 2 * worst_bias(TEN_USERS, GAMMA)
    bound = proposition_1(GAMMA)
    share_of_each = GAMMA / kept(np.full(10, 0.1), GAMMA)
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
            f"that minimizes Eq. 2's right side. One contribution of 100, ε = 1: {least_error:.1f} at "
            f"τ = {best_cap:.1f}, but 100 at τ = 100. With the rule it is at most {MOST_ABOVE:.2f} times the "
            "least",
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
            "no constant is stated, so there is nothing to refute",
        ),
        (
            "Corollary 1",
            "excess risk ≤ sup bias + terms that vanish with n and ε",
            False,
            "twice the bias, as in the paper's own example. Of two hypotheses, of bias "
            f"{largest_bias:.2f} at most, the one that looks better when capped can have a risk larger by "
            f"{excess:.2f}",
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
            f"γ/(Qε), Q = Σ min(γ, p): ten users alike with γ = {GAMMA:g} have τ/n_τ = {share_of_each:.1f}",
        ),
        (
            "Proposition 1",
            "bias ≤ √(½·ln(1/γ)) for losses with |L| < 1",
            False,
            f"for losses from 0 to 1, yes. From −1 to 1: a user with 91 % of the examples and nine with 1 %, "
            f"γ = {GAMMA:g}, have {bias_of_both_signs:.2f} where the bound is {bound:.2f}. The largest bias "
            "for any users is (1 − √γ)², twice that for losses of both signs; Q may stand for γ in the bound",
        ),
        (
            "Proposition 2",
            "bias ≤ √(2·Var(h)/γ)",
            True,
            "so is √(Var(h)·(1 − Q)/Q), which is at most 1/√2 of it, and 0 where nothing is capped",
        ),
    ]
    names = ("where", "published", "holds", "found")
    return [dict(zip(names, statement, strict=True)) for statement in stated]
