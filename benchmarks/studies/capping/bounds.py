"""Theorem 1 and Propositions 1 and 2 on what a cap does to losses, calculated: what holds, and how tightly.

Notation of Amin et al. 2019: p_j is a user's share of the data, gamma the cap as a share of all n examples,
q_j = min(gamma, p_j); Q is the sum of q_j. Capped examples are distributed among users as q_j / Q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.studies.capping.population import Floats

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


def variance_term(n: int, gamma: float, dimension: int) -> float:
    """Return Theorem 1's first term with the constant 1: it states none."""
    return math.sqrt(dimension * math.log(n / dimension) / n) / gamma**2


def zipf_shares(users: int, exponent: float = 1.0) -> Floats:
    """Return p_j in proportion to j^-exponent."""
    p = np.arange(1, users + 1) ** -exponent
    return np.asarray(p / p.sum())


def one_user(share: float, others: int) -> Floats:
    """Return one user with a share of the examples, and others that have equal parts of the rest."""
    return np.array([share, *[(1 - share) / others] * others])


@dataclass(frozen=True)
class Simulated:
    """Theorem 1 simulated. Attributes: bias: its second term, the largest over hypotheses; errors: the mean
    over runs of the largest |L_S(h) - L(h)|, by n."""

    gamma: float
    bias: float
    errors: dict[int, float]


HYPOTHESES = np.linspace(0, 1, 21)


def simulate(
    p: Floats,
    thresholds: Floats,
    gamma: float,
    sizes: tuple[int, ...],
    runs: int,
    rng: np.random.Generator,
) -> Simulated:
    """Draw examples from users, cap them, and compare losses with the true risk.

    Computes: x is uniform on [0, 1], and user j's label is [x >= t_j]; hypothesis h_a is [x >= a], so that
    L_j(h_a) = |a - t_j|; the VC dimension of all h_a is 1. The first floor(gamma n) examples of a user count.
    Args: thresholds: t_j.
    """
    losses = np.abs(HYPOTHESES - thresholds[:, np.newaxis])
    limit = float(np.abs((capped(p, gamma) - p) @ losses).max())
    errors = {}
    for n in sizes:
        found = [_deviation(p, thresholds, math.floor(gamma * n), n, p @ losses, rng) for _ in range(runs)]
        errors[n] = float(np.mean(found))
    return Simulated(gamma, limit, errors)


def _deviation(
    p: Floats, thresholds: Floats, cap: int, n: int, risk: Floats, rng: np.random.Generator
) -> float:
    user, x = np.sort(rng.choice(len(p), n, p=p)), rng.random(n)  # examples are alike: their order is free
    rank = np.arange(n) - np.searchsorted(user, user)
    t, x = thresholds[user][rank < cap], x[rank < cap]
    low, high = np.minimum(HYPOTHESES, t[:, np.newaxis]), np.maximum(HYPOTHESES, t[:, np.newaxis])
    wrong = (low <= x[:, np.newaxis]) & (x[:, np.newaxis] < high)
    return float(np.abs(wrong.mean(axis=0) - risk).max())
