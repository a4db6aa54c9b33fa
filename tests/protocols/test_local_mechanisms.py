"""Local mechanisms: their exact epsilon by enumeration, their draws, and what they refuse."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from fairshares.protocols.circuits.coins import exp_bounds
from fairshares.protocols.local_dp.exact_privacy import (
    distribution_of_r,
    epsilon_of_l,
    epsilon_of_r,
    log_ratio_of_l,
    worst_ratio,
)
from fairshares.protocols.local_dp.randomizers import Grr, MechanismL, MechanismR, ValueRange
from fairshares.protocols.noise import exact_sampling
from fairshares.protocols.noise.exact_sampling import below, coins, discrete_laplace, round_at_random
from fairshares.protocols.noise.truncated import log_upper_bound

ONE = Fraction(1)
EPSILONS = [Fraction(1, 100), Fraction(1, 10), ONE, Fraction(3), Fraction(10)]


@pytest.mark.parametrize("groups", [2, 3, 7])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_m_r_keeps_to_its_epsilon_and_uses_all_of_it(epsilon: Fraction, groups: int) -> None:
    mechanism = MechanismR.private(groups, epsilon)
    worst = worst_ratio(
        distribution_of_r(mechanism, g, Fraction(v, 2)) for g, v in product(range(groups), range(-2, 3))
    )
    assert worst == mechanism.worst_ratio
    assert worst <= exp_bounds(epsilon)[0]
    assert epsilon - Fraction(1, 10**11) <= epsilon_of_r(mechanism) == mechanism.epsilon <= epsilon


@pytest.mark.parametrize("groups", [2, 5])
@pytest.mark.parametrize(("epsilon_1", "epsilon_2"), [(1, 1), (1, 5), (4, 1), (2, 2)])
def test_epsilon_of_any_budgets_is_the_worst_ratio(groups: int, epsilon_1: int, epsilon_2: int) -> None:
    mechanism = MechanismR.with_budgets(groups, Fraction(epsilon_1), Fraction(epsilon_2))
    inputs = product(range(groups), (Fraction(-1), Fraction(0), ONE))
    distributions = [distribution_of_r(mechanism, g, v) for g, v in inputs]
    assert all(sum(distribution.values()) == 1 for distribution in distributions)
    assert log_upper_bound(worst_ratio(distributions)) == mechanism.epsilon == epsilon_of_r(mechanism)


def ratios_of_l(
    mechanism: MechanismL, outputs: range
) -> Iterator[float]:  # logarithms, on the grid, over all pairs of inputs
    """Yield ln of all likelihood ratios, from the distribution itself; constants of the noise cancel."""
    keep, move = float(mechanism.grr.keep), float(mechanism.grr.move)
    rate, steps = 1 / float(mechanism.scale), mechanism.steps
    inputs = list(product(range(min(3, mechanism.grr.groups)), range(-steps, steps + 1)))

    def log_mass(said: int, y: int, group: int, value: int) -> float:
        if said == group:
            return math.log(keep) - rate * abs(y - value)
        return math.log(move) - rate * abs(y)

    for said, y in product(range(min(3, mechanism.grr.groups)), outputs):
        masses = [log_mass(said, y, *one) for one in inputs]
        yield max(masses) - min(masses)


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize(("epsilon_1", "epsilon_2"), [(0, 0), (1, 1), (2, 1), (1, 6)])
def test_epsilon_of_m_l_is_the_worst_ratio(groups: int, epsilon_1: int, epsilon_2: int) -> None:
    if not epsilon_1:
        mechanism = MechanismL.private(groups, ONE, steps=3)
        assert mechanism.epsilon == 1
    else:
        mechanism = MechanismL.with_budgets(groups, Fraction(epsilon_1), Fraction(epsilon_2), steps=3)
    worst = max(ratios_of_l(mechanism, range(-20, 21)))
    assert worst == pytest.approx(float(mechanism.epsilon), abs=1e-9)
    assert epsilon_of_l(mechanism.grr.odds, mechanism.epsilon_2, Fraction(2)) == mechanism.epsilon


def test_m_l_with_another_k_has_no_epsilon() -> None:
    odds = MechanismL.private(2, ONE).grr.odds
    assert epsilon_of_l(odds, ONE, ONE) is None
    assert epsilon_of_l(odds, ONE, Fraction(3)) is None
    allocated = Fraction(math.log(2))  # the paper's for k = 1 at epsilon 1
    assert log_ratio_of_l(allocated, ONE, ONE, 10) == pytest.approx(5.5)
    assert log_ratio_of_l(allocated, ONE, ONE, 1000) > 500
    assert log_ratio_of_l(allocated, ONE, Fraction(3), 1000) < -160


@pytest.mark.parametrize("mechanism", [MechanismR.private(2, ONE), MechanismL.private(2, ONE)])
@pytest.mark.parametrize(
    ("groups", "values", "why"),
    [
        ([0, 2], [0, 0], "group 2 is unknown; the declared ones are 0 to 1"),
        ([-1], [0], "group -1 is unknown"),
        *(([0, 1], [0.5, value], r"range \[-1, 1\]") for value in (1.01, -7.0, math.nan, math.inf)),
        ([0, 1], [0.5], "each client has one group and one value"),
        ([0.5], [0.5], "groups are a list of integers"),
    ],
)
def test_a_client_s_mistake_is_named(
    mechanism: MechanismR | MechanismL, groups: list[Any], values: list[float], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        mechanism.perturb(groups, values)
    assert mechanism.perturb([], []).groups.size == 0


@pytest.mark.parametrize(
    ("make", "arguments", "why"),
    [
        (MechanismR.private, (2, Fraction(0)), "epsilon must be from"),
        (MechanismL.private, (2, Fraction(21)), "epsilon must be from"),
        (Grr.private, (1, ONE), "2 to 65536 groups"),
        (Grr, (2, ONE), "kept with"),
        (MechanismR, (Grr.private(2, ONE), Fraction(1, 3)), "truth is told with"),
        (MechanismL, (Grr.private(2, ONE), ONE, 0), "steps"),
        (MechanismL, (Grr.private(2, ONE), Fraction(1, 3)), "multiple of 10"),
        (ValueRange, (1.0, 1.0), "two finite ends"),
        (discrete_laplace, (Fraction(2**51), 1), "numerator must be"),
    ],
)
def test_parameters_out_of_range_are_refused(
    make: Callable[..., object], arguments: tuple[object, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        make(*arguments)


def test_budgets_are_rounded_down() -> None:
    third = MechanismL.private(2, Fraction(1, 3))
    assert third.epsilon_2 == Fraction(333333333, 10**9)
    assert third.epsilon <= Fraction(1, 3)


def given_words(monkeypatch: pytest.MonkeyPatch, *given: int) -> None:
    drawn = iter(given)
    monkeypatch.setattr(
        exact_sampling, "words", lambda n: np.array([next(drawn) for _ in range(n)], dtype=np.uint64)
    )


def test_coins_at_their_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    given_words(monkeypatch, 2**62 - 1, 2**62)
    assert coins(Fraction(1, 4), 2).tolist() == [True, False]


def test_rounding_at_random_at_its_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    quarter = 2**62  # of a word
    given_words(monkeypatch, quarter - 1, quarter, 0, 0, 2**64 - 1)
    assert round_at_random(np.array([0.25, 0.25, -1.0, 1.0, -0.0001])).tolist() == [1, 0, -1, 1, -1]


def test_uniform_integers_reject_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    given_words(monkeypatch, 3, 1, 4 + 2)
    assert below(3, 2).tolist() == [2, 1]
