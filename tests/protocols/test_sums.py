"""Sums of noises: quantiles against exact convolutions, never below, and as tight as the grid is fine."""

import itertools
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from protocols.circuits.coins import Coin, design_coins
from protocols.noise.added import noise_sum, weighted_sum
from protocols.noise.truncated import error_bound, probability_mass

ONE = design_coins(Fraction(1), 40)
FINE = design_coins(Fraction(1, 100), 40)  # 12 coins, more than the grid's bits
FAILURES = [Fraction(1, 3), Fraction(1, 40), Fraction(1, 1000), Fraction(1, 10**6)]

Distribution = Mapping[Fraction, Fraction]


def distribution_of(coins: tuple[Coin, ...], positive: bool) -> Distribution:
    distribution: dict[Fraction, Fraction] = {}
    for x, p in probability_mass(coins).items():
        error = x + Fraction(1, 2)
        value = max(error, Fraction(0)) if positive else error
        distribution[value] = distribution.get(value, Fraction(0)) + p
    return distribution


def sum_of(one: Distribution, other: Distribution, factor: Fraction = Fraction(1)) -> Distribution:
    distribution: dict[Fraction, Fraction] = {}
    for (x, p), (y, q) in itertools.product(one.items(), other.items()):
        distribution[x + factor * y] = distribution.get(x + factor * y, Fraction(0)) + p * q
    return distribution


def beyond(distribution: Distribution, t: float) -> Fraction:
    return sum((p for x, p in distribution.items() if x > t), Fraction(0))


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_quantiles_are_the_least(terms: int, positive: bool) -> None:
    """Nothing is rounded where the grid tells all values apart."""
    one = distribution_of(ONE, positive)
    distribution = one
    for _ in range(terms - 1):
        distribution = sum_of(distribution, one)
    found = noise_sum(ONE, terms, positive)
    assert found.slack == 0
    for failure in FAILURES:
        t = found.quantile(float(failure))
        assert beyond(distribution, t) <= failure < beyond(distribution, t - 0.25)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_single_noise_has_the_known_error_bound(failure: Fraction) -> None:
    assert noise_sum(ONE, 1).quantile(float(failure / 2)) == error_bound(ONE, failure)
    exact = float(error_bound(FINE, failure))
    found = noise_sum(FINE, 1)
    assert found.slack == 2  # two bits are not told apart
    assert exact <= found.quantile(float(failure / 2)) <= exact + 2 * found.slack


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("factor", [Fraction(0), Fraction(1, 7), Fraction(3), Fraction(50)])
def test_weighted_sums(factor: Fraction, positive: bool) -> None:
    one = distribution_of(ONE, positive)
    distribution = sum_of(one, one, factor)
    single = noise_sum(ONE, 1, positive)
    found = weighted_sum([single, single], [1.0, float(factor)])
    assert found.slack < float(1 + factor) / 40
    for failure in FAILURES[1:3]:
        t = found.quantile(float(failure))
        assert beyond(distribution, t) <= failure < beyond(distribution, t - 3 * found.slack)


def test_tails_of_a_grid() -> None:
    distribution = noise_sum(ONE, 1)
    points = np.array([-100.0, -0.5, -0.25, 0.5, 0.49, 100.0])
    exact = distribution_of(ONE, positive=False)
    expected = [float(beyond(exact, point)) for point in points]
    np.testing.assert_allclose(distribution.above(points), expected, atol=1e-9)


def test_a_failure_below_what_was_dropped_is_refused() -> None:
    with pytest.raises(ValueError, match="was dropped"):
        noise_sum(ONE, 2).quantile(1e-12)
