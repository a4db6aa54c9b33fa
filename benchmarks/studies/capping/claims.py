"""What the paper on capping states, and what calculation finds: each with numbers that anybody can check."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.studies.capping.bounds import (
    MOST_ABOVE,
    bias,
    capped,
    kept,
    laplace_error,
    one_user,
    proposition_1,
    worst_bias,
)

GAMMA = 0.01
# User 1 has 91 % of all examples and nine users 1 % each: capped at 1 %, each has a tenth.
TEN_USERS = one_user(0.91, 9)


@dataclass(frozen=True)
class Claim:
    """A statement.

    Attributes: holds: as it is printed, None: not judged; found: what does hold, or what contradicts it.
    """

    where: str
    published: str
    holds: bool | None
    found: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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


def claims() -> list[Claim]:
    """Return what is stated, in the paper's order."""
    at, least = least_error_of_one(100, 1)
    excess, of_two = excess_of_capped()
    signed, bound = 2 * worst_bias(TEN_USERS, GAMMA), proposition_1(GAMMA)
    alike = GAMMA / kept(np.full(10, 0.1), GAMMA)
    return [
        Claim(
            "Eq. 2",
            "expected error = τ/ε + Σ max(0, x − τ)",
            False,
            f"at most that, and down to 1/{MOST_ABOVE:.3f} of it: b + (τ/ε)·e^(−bε/τ), b = Σ max(0, x − τ)",
        ),
        Claim(
            "Section 3",
            "least at the ⌈1/ε⌉-th largest contribution, whatever those above and below are",
            False,
            f"that minimises Eq. 2's right side. One contribution of 100, ε = 1: {least:.1f} at "
            f"τ = {at:.1f}, but 100 at τ = 100. With the rule it is at most {MOST_ABOVE:.2f} times the least",
        ),
        Claim(
            "Lemma 1",
            "hypotheses drawn in proportion to e^(−εL/2τ), L the mean loss",
            False,
            "L has to be the sum: with means, losses 0 and 1, ε = 1 and τ = 10, the worse of two is drawn "
            f"with P = {1 / (1 + math.exp(1 / 20)):.3f} for every n. And on a ball losses have to be "
            "Lipschitz: a loss that is 0 at one point and 1 elsewhere is 1 almost surely",
        ),
        Claim(
            "Theorem 1",
            "|L_Sτ(h) − L(h)| ≤ O(γ⁻²·√(d·log(n/d)/n)) + bias",
            None,
            "no constant is stated, so there is nothing to refute; simulated errors are far below it with 1",
        ),
        Claim(
            "Corollary 1",
            "excess risk ≤ sup bias + terms that vanish with n and ε",
            False,
            f"twice the bias, as in the paper's own example. Of two hypotheses, of bias {of_two:.2f} at "
            f"most, the one that looks better when capped can have a risk larger by {excess:.2f}",
        ),
        Claim(
            "its example",
            "N = O(n^(1/6)) users alike, γ ≈ 1/N: K(γ) = N",
            False,
            "K counts p > γ + η, so it is 0 at γ = 1/N, and N for γ below 1/N − η; with fewer users than of "
            "order n^(1/6) the privacy term d/(Nε) is larger than printed",
        ),
        Claim(
            "Section 4.1",
            "the privacy variance is of order γ/ε",
            False,
            f"γ/(Qε), Q = Σ min(γ, p): ten users alike with γ = {GAMMA:g} have τ/n_τ = {alike:.1f}",
        ),
        Claim(
            "Proposition 1",
            "bias ≤ √(½·ln(1/γ)) for losses with |L| < 1",
            False,
            f"for losses from 0 to 1, yes. From −1 to 1: a user with 91 % of the examples and nine with 1 %, "
            f"γ = {GAMMA:g}, have {signed:.2f} where the bound is {bound:.2f}. The largest bias for "
            "any users is (1 − √γ)², twice that for losses of both signs; Q may stand for γ in the bound",
        ),
        Claim(
            "Proposition 2",
            "bias ≤ √(2·Var(h)/γ)",
            True,
            "so is √(Var(h)·(1 − Q)/Q), which is at most 1/√2 of it, and 0 where nothing is capped",
        ),
    ]
