"""Bounds on what a cap does to losses: over random users, losses and caps; and the counterexamples."""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.capping.bounds import (
    bias,
    kept,
    one_user,
    proposition_1,
    proposition_2,
    sharper_1,
    sharper_2,
    variance,
    worst_bias,
    worst_of_all,
)
from protocols.arrays import Floats


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
