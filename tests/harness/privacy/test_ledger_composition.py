"""Numerical totals are upper bounds, close to what exact enumeration gives, and below basic composition."""

import math
from fractions import Fraction

import pytest

from harness.privacy.ledger.accountants import Loss, NoiseEvent, numerical_epsilon
from protocols.circuits.coins import Coin, design_coins, worst_ratio
from protocols.guarantee import compose
from protocols.noise.truncated import guarantee, probability_mass

ONE, OTHER = (Coin(1, 2), Coin(1, 3)), (Coin(3, 3), Coin(1, 2), Coin(1, 5))


def loss(coins: tuple[Coin, ...], values: int = 1, known: bool = True) -> Loss:
    return Loss(guarantee(coins, values), NoiseEvent(coins, values) if known else None)


def least_delta(releases: list[tuple[Coin, ...]], ratio: Fraction) -> Fraction:
    """Return the least delta at e^epsilon = ratio of several noisy values that all move by 1."""
    pairs = [(Fraction(1), Fraction(1))]
    for coins in releases:
        mass = probability_mass(coins)
        atoms = [
            (mass.get(x, Fraction(0)), mass.get(x - 1, Fraction(0))) for x in range(min(mass), max(mass) + 2)
        ]
        pairs = [(p * here, q * there) for p, q in pairs for here, there in atoms]
    return sum((max(p - ratio * q, Fraction(0)) for p, q in pairs), Fraction(0))


@pytest.mark.parametrize(
    ("losses", "releases"),
    [
        ([loss(ONE)], [ONE]),
        ([loss(ONE), loss(OTHER)], [ONE, OTHER]),
        ([loss(ONE, 2), loss(OTHER)], [ONE, ONE, OTHER]),
        ([loss(OTHER), loss(OTHER)], [OTHER, OTHER]),
    ],
)
def test_totals_are_those_of_the_actual_noise(losses: list[Loss], releases: list[tuple[Coin, ...]]) -> None:
    """The epsilon found at the exact delta of some epsilon is that epsilon, rounded up."""
    most = math.prod((worst_ratio(coins) for coins in releases), start=Fraction(1))
    for ratio in (1 + (most - 1) / 4, 1 + (most - 1) / 2):
        exact = least_delta(releases, ratio)
        found = numerical_epsilon(losses, float(exact))
        assert found is not None
        assert math.log(ratio) - 1e-9 <= found <= math.log(ratio) + 0.005


def test_the_noise_matters() -> None:
    """Known noise is tighter than any noise with the same guarantee; both are tighter than the sum."""
    coins = design_coins(Fraction(1, 10), 40)
    known, unknown = (numerical_epsilon([loss(coins, known=k)] * 100, 1e-6) for k in (True, False))
    assert known is not None and unknown is not None
    assert known < unknown and unknown < 0.9 * float(compose([guarantee(coins)] * 100).epsilon)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 3), Fraction(20)])
def test_never_above_basic_composition(epsilon: Fraction) -> None:
    losses = [loss(design_coins(epsilon, 40)), loss(ONE, known=False)]
    total = compose(each.exact for each in losses)
    found = numerical_epsilon(losses, float(total.delta) * 1.01)
    assert found is not None and found <= float(total.epsilon)


def test_where_no_epsilon_will_do() -> None:
    assert numerical_epsilon([loss(ONE)], 1e-9) is None
    assert numerical_epsilon([loss(ONE, known=False)], 1e-9) is None
