"""Bounds on what a cap does to losses: over random users, losses and caps; and the counterexamples."""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.capping.bounds import (
    MOST_ABOVE,
    bias,
    claims,
    kept,
    laplace_error,
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
    users = int(rng.integers(1, 40))
    p = rng.dirichlet(np.full(users, 10 ** rng.uniform(-1.5, 1.5))) + 1e-12
    gamma = float(rng.choice([10 ** rng.uniform(-4, 0), 1 - 10 ** rng.uniform(-6, -0.3), rng.choice(p)]))
    return p / p.sum(), min(1.0, gamma)


def test_the_bounds_hold() -> None:
    """For losses from 0 to 1, corners too: Propositions 1 and 2, and what is sharper than they are."""
    rng = np.random.default_rng(11)
    for _ in range(5_000):
        p, gamma = random_users(rng)
        losses = rng.random(len(p)) if rng.random() < 0.5 else rng.integers(0, 2, len(p)).astype(float)
        found, spread = bias(p, gamma, losses), variance(p, losses)
        worst = worst_bias(p, gamma)
        assert found <= worst + 1e-12
        assert worst <= worst_of_all(gamma) + 1e-12
        assert worst <= sharper_1(p, gamma) + 1e-12
        assert sharper_1(p, gamma) <= proposition_1(gamma) + 1e-7  # a root of rounding errors
        assert found <= sharper_2(p, spread, gamma) + 1e-7
        assert sharper_2(p, spread, gamma) <= proposition_2(spread, gamma) / math.sqrt(2) + 1e-9
        assert gamma - 1e-12 <= kept(p, gamma) <= 1 + 1e-12


@pytest.mark.parametrize("root", [Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
def test_the_worst_users_reach_the_bound_exactly(root: Fraction) -> None:
    gamma = root**2
    share = 1 + gamma - root
    others = math.ceil((1 - share) / gamma)
    p = [share, *[(1 - share) / others] * others]
    q = [min(gamma, each) for each in p]
    assert sum(p) == 1 and max(p[1:]) <= gamma
    assert p[0] - q[0] / sum(q) == (1 - root) ** 2
    assert worst_bias(one_user(float(share), others), float(gamma)) == pytest.approx(
        worst_of_all(float(gamma))
    )


def test_laplace_error_is_the_integral() -> None:
    for scale, missing in ((1.0, 0.0), (2.0, 3.0), (5.0, 1.0)):
        x = np.linspace(-200, 200, 2_000_001)
        density = np.exp(-np.abs(x) / scale) / (2 * scale)
        expected = float((density * np.abs(missing - x)).sum() * (x[1] - x[0]))
        assert laplace_error(scale, missing) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0])
def test_the_rule_is_never_worse_than_that(epsilon: float) -> None:
    """The paper's cap beside all others, for random contributions."""
    rng = np.random.default_rng(8)
    for _ in range(100):
        x = np.sort(rng.pareto(rng.uniform(0.5, 3), int(rng.integers(1, 40))) + 0.1)[::-1]
        place = math.ceil(1 / epsilon)
        rule = float(x[place - 1]) if place <= len(x) else 0.0
        caps = np.linspace(0, x[0], 400)[1:]

        def error(cap: float, x: Floats = x) -> float:
            missing = float(np.maximum(0, x - cap).sum())
            return laplace_error(cap / epsilon, missing) if cap else missing

        assert error(rule) <= MOST_ABOVE * min(map(error, caps)) + 1e-9


def test_what_is_said_of_the_paper_has_its_numbers() -> None:
    found = {claim["where"]: claim for claim in claims()}
    assert "68.2 at τ = 46.6" in found["Section 3"]["found"]
    assert "P = 0.488" in found["Lemma 1"]["found"]
    assert "have 1.62 where the bound is 1.52" in found["Proposition 1"]["found"]
    assert "of bias 0.46 at most" in found["Corollary 1"]["found"]
    assert "larger by 0.90" in found["Corollary 1"]["found"]
    assert [claim["holds"] for claim in claims()].count(True) == 1 and found["Proposition 2"]["holds"]
