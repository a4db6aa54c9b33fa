"""Bounds on what a cap does to losses: over random users, losses and caps; and the counterexamples."""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.capping.bounds import bias, kept, one_user, proposition_1, worst_bias
from fairshares.protocols.arrays import Floats


def worst_of_all(gamma: float) -> float:
    """Return the largest bias over all p, too: (1 - sqrt(gamma))^2.

    Computes: let A be the users whose share the cap lowers, m of them, with a of the examples. Capped ones
    have at least m gamma / (m gamma + 1 - a), so the bias is at most a less that, which is
    (1 - sqrt(m gamma))^2 at most. One user with a = 1 + gamma - sqrt(gamma) reaches it if all others have
    gamma or less.
    """
    return (1 - math.sqrt(gamma)) ** 2


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
    """
    q = kept(p, gamma)
    return math.sqrt(max(0.0, spread * (1 - q) / q))


def random_users(rng: np.random.Generator) -> tuple[Floats, float]:
    """Return few users or many, alike or not, and a cap that may or may not touch them."""
    p = rng.dirichlet(np.full(int(rng.integers(1, 40)), 10 ** rng.uniform(-1.5, 1.5))) + 1e-12
    gamma = float(rng.choice([10 ** rng.uniform(-4, 0), 1 - 10 ** rng.uniform(-6, -0.3), rng.choice(p)]))
    return p / p.sum(), min(1.0, gamma)


def test_the_bounds_hold() -> None:
    """For losses from 0 to 1, corners too: Propositions 1 and 2, and what is sharper than they are."""
    rng = np.random.default_rng(11)
    for _ in range(5_000):
        p, gamma = random_users(rng)
        losses = rng.random(len(p)) if rng.random() < 0.5 else rng.integers(0, 2, len(p)).astype(float)
        exact_bias, spread = bias(p, gamma, losses), variance(p, losses)
        worst = worst_bias(p, gamma)
        assert exact_bias <= worst + 1e-12
        assert worst <= worst_of_all(gamma) + 1e-12
        assert worst <= sharper_1(p, gamma) + 1e-12
        assert sharper_1(p, gamma) <= proposition_1(gamma) + 1e-7  # a root of rounding errors
        assert exact_bias <= sharper_2(p, spread, gamma) + 1e-7
        assert sharper_2(p, spread, gamma) <= proposition_2(spread, gamma) / math.sqrt(2) + 1e-9
        assert gamma - 1e-12 <= kept(p, gamma) <= 1 + 1e-12


@pytest.mark.parametrize("root", [Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
def test_the_worst_users_reach_the_bound_exactly(root: Fraction) -> None:
    gamma = root**2
    share = 1 + gamma - root
    others = math.ceil((1 - share) / gamma)
    p = [share, *[(1 - share) / others] * others]
    q = [min(gamma, part) for part in p]
    assert sum(p) == 1 and max(p[1:]) <= gamma
    assert p[0] - q[0] / sum(q) == (1 - root) ** 2
    assert worst_bias(one_user(float(share), others), float(gamma)) == pytest.approx(
        worst_of_all(float(gamma))
    )
