"""Losses of many noises together: never below exact enumeration, close to it, and to dp_accounting."""

from fractions import Fraction
from itertools import product
from math import lcm, log

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from fairshares.protocols.accounting.exact_privacy import Masses, composed, curve_of_coins
from fairshares.protocols.accounting.losses import LossDistribution, loss_distribution
from fairshares.protocols.circuits.coins import Coin, design_coins, exp_bounds

TINY = (Coin(3, 3), Coin(1, 2), Coin(1, 5))
STEP = Fraction(1, 1000)


def outcomes_of(pair: tuple[Masses, ...]) -> tuple[list[tuple[int, int]], int]:
    total = lcm(*(mass.denominator for masses in pair for mass in masses))
    return [(int(p * total), int(q * total)) for p, q in pair], total


def distribution(coins: tuple[Coin, ...], step: Fraction = STEP) -> LossDistribution:
    return loss_distribution(*outcomes_of(curve_of_coins(coins).pairs[0]), step)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("coins", [TINY, design_coins(Fraction(1, 2), 40)])
def test_never_below_the_exact_delta_and_close_to_it(coins: tuple[Coin, ...], times: int) -> None:
    exact, by_losses = composed([curve_of_coins(coins)] * times), distribution(coins).times(times)
    for epsilon in (Fraction(n, 7) for n in range(1, 9)):
        low, high = exact.delta_bounds(epsilon)
        assert low <= by_losses.delta(epsilon) <= high * (1 + 5 * STEP) + Fraction(1, 2**100)


@pytest.mark.parametrize("step", [Fraction(1, 3), Fraction(1), Fraction(1, 1000)])
def test_a_coarse_step_and_few_of_them_are_never_below_either(step: Fraction) -> None:
    """Also where losses lie beyond the last multiple, on either side."""
    outcomes = [(2, 1), (50, 3), (1, 50), (7, 0), (0, 6), (40, 40)]
    for epsilon in (Fraction(0), Fraction(1, 2), Fraction(2), Fraction(3)):
        exact = (
            sum((max(Fraction(0), p - exp_bounds(epsilon)[1] * q) for p, q in outcomes), Fraction(0)) / 100
        )
        for most in (1, 2, 50):
            assert loss_distribution(outcomes, 100, step, most).delta(epsilon) >= exact


def test_different_losses_together() -> None:
    """Against all pairs of outcomes of two different distributions."""
    one, other = ([*curve_of_coins(coins).pairs[0]] for coins in (TINY, (Coin(1, 2), Coin(1, 3))))
    both = distribution(TINY).composed(distribution((Coin(1, 2), Coin(1, 3))))
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(2)):
        ratio = exp_bounds(epsilon)[0]
        exact = sum(max(Fraction(0), p * a - ratio * q * b) for (p, q), (a, b) in product(one, other))
        assert exact * (1 - Fraction(1, 10**12)) <= both.delta(epsilon) <= exact * (1 + 10 * STEP)


def test_a_hundred_runs_as_dp_accounting_finds_them() -> None:
    """It rounds losses up to 2 10^-5, and computes in floats: ours is 0.1% above at most, and 5% below."""
    coins = design_coins(Fraction(1, 20), 40)
    (pair,) = curve_of_coins(coins).pairs
    upper, lower = ({i: log(m[side]) for i, m in enumerate(pair) if m[side]} for side in (0, 1))
    theirs = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=2e-5)
    theirs = theirs.self_compose(100)
    ours = distribution(coins).times(100)
    for epsilon in (1.0, 2.0, 2.7, 2.9):
        delta = theirs.get_delta_for_epsilon(epsilon)
        assert 0.95 * delta <= ours.delta(Fraction(epsilon)) <= 1.001 * delta
