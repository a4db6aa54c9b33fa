"""How a cap is chosen, and what that gives away: π_CAP's grid, target and mechanism."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from fairshares.protocols.accounting.calibration import guarantee_of_first_below
from fairshares.protocols.circuits.coins import Coin, design_coins, edge_mass, exp_bounds, worst_ratio
from fairshares.protocols.mechanisms.above_threshold import (
    allowed_above,
    best_cap,
    caps_up_to,
    clients_above,
    distribution_of_first_below,
)
from fairshares.protocols.noise.truncated import probability_mass

COINS = {
    "even ratios": (Coin(1, 2), Coin(1, 3)),
    "uneven ratios": (Coin(3, 3), Coin(1, 2)),
    "one coin": (Coin(1, 2),),
    "rising outward": (Coin(3, 2), Coin(5, 3)),
}

FINE = design_coins(Fraction(1), 20)


def exact_distribution(coins: tuple[Coin, ...], counts: Sequence[int], bound: int) -> list[Fraction]:
    """The mechanism by its definition, all noise listed."""
    mass = probability_mass(coins)
    masses = [Fraction(0)] * (len(counts) + 1)
    for threshold, weight in mass.items():
        going = weight
        for i, count in enumerate(counts):
            stops = sum((p for x, p in mass.items() if count + x <= bound + threshold), Fraction(0))
            masses[i] += going * stops
            going *= 1 - stops
        masses[-1] += going
    return masses


def uncovered(ratio: Fraction, one: list[Fraction], other: list[Fraction]) -> Fraction:
    """The least delta at that e^epsilon, for all sets of outcomes, both ways."""
    return max(
        sum((max(Fraction(0), p - ratio * q) for p, q in zip(a, b, strict=True)), Fraction(0))
        for a, b in ((one, other), (other, one))
    )


def falling(most: int, length: int) -> list[tuple[int, ...]]:
    return [
        counts
        for counts in itertools.product(range(most + 1), repeat=length)
        if [*counts] == sorted(counts)[::-1]
    ]


def most_uncovered(coins: tuple[Coin, ...], length: int, moves: Sequence[tuple[int, ...]]) -> Fraction:
    """The most that any falling counts leave uncovered at the claimed epsilon, wherever the noise reaches."""
    reach = (4 << len(coins)) + 1  # beyond, one of the counts always stops, or never does
    ratio, worst = exp_bounds(guarantee_of_first_below(coins, length).epsilon)[0], Fraction(0)

    @cache
    def distribution(counts: tuple[int, ...]) -> list[Fraction]:
        return exact_distribution(coins, counts, reach // 2)

    for counts in falling(reach, length):
        for move in moves:
            moved = tuple(n - by for n, by in zip(counts, move, strict=True))
            worst = max(worst, uncovered(ratio, distribution(counts), distribution(moved)))
    return worst


@pytest.mark.parametrize("coins", COINS.values(), ids=COINS)
@pytest.mark.parametrize("length", [1, 2])
def test_no_client_moves_the_index_beyond_the_guarantee(coins: tuple[Coin, ...], length: int) -> None:
    moves = list(itertools.product((0, 1), repeat=length))
    assert most_uncovered(coins, length, moves) <= guarantee_of_first_below(coins, length).delta


def test_one_atom_is_too_few() -> None:
    coins, counts = (Coin(1, 2),), (2, 4, 2, *[3] * 4, 2, *[3] * 12)
    fewer = (2, 3, 2, *[3] * 4, 2, 3, *[2] * 11)
    lost = uncovered(
        worst_ratio(coins) ** 2, exact_distribution(coins, counts, 0), exact_distribution(coins, fewer, 0)
    )
    assert edge_mass(coins) < lost <= guarantee_of_first_below(coins, 20).delta


def roughly_uncovered(ratio: float, one: Sequence[int], other: Sequence[int]) -> float:
    """As `uncovered`, for noise too fine to list exactly."""
    p, q = (distribution_of_first_below(FINE, counts, 0) for counts in (one, other))
    return max(float(np.maximum(0, a - ratio * b).sum()) for a, b in ((p, q), (q, p)))


def test_it_takes_two_ratios_and_no_more() -> None:
    guarantee = guarantee_of_first_below(FINE, 3)
    ratio = math.exp(guarantee.epsilon)
    for counts in itertools.product(range(-9, 10, 3), repeat=3):
        for move in itertools.product((0, 1), repeat=3):
            fewer = [n - by for n, by in zip(counts, move, strict=True)]
            assert roughly_uncovered(ratio, counts, fewer) <= guarantee.delta
    assert roughly_uncovered(ratio**0.7, (0, 0, 0), (-1, -1, 0)) > 1000 * guarantee.delta


@pytest.mark.parametrize("counts", [(0,), (5, 3, 1), (2, 2, 2, 2), (40, -40)])
def test_distribution(counts: tuple[int, ...]) -> None:
    for coins, bound in itertools.product(COINS.values(), (0, 2)):
        expected = [float(p) for p in exact_distribution(coins, counts, bound)]
        np.testing.assert_allclose(distribution_of_first_below(coins, counts, bound), expected, atol=1e-12)


def test_caps() -> None:
    assert caps_up_to(1) == (1,)
    assert caps_up_to(10) == (1, 2, 3, 4, 6, 8, 10)
    assert caps_up_to(1000)[-4:] == (362, 512, 724, 1000)
    for most in range(1, 1200):
        caps = caps_up_to(most)
        assert caps[0] == 1 and caps[-1] == most
        assert all(a < b <= 2 * a for a, b in itertools.pairwise(caps))
        assert all(b <= 1.5 * a for a, b in itertools.pairwise(caps) if a >= 6)


def test_clients_above() -> None:
    assert clients_above([0, 1, 1, 4, 9], (1, 2, 4, 8, 10)).tolist() == [2, 2, 1, 1, 0]


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(2, 7), Fraction(3, 2)])
@pytest.mark.parametrize(("counts", "missing_in"), [(1, 1), (4, 1), (10, 3)])
def test_the_cap_that_so_many_exceed_has_the_least_error(
    epsilon: Fraction, counts: int, missing_in: int
) -> None:
    """Against the error by its definition, at every cap."""
    random = np.random.default_rng(7)
    for _ in range(20):
        sizes = random.zipf(1.6, 60).clip(max=200)
        caps = range(1, 201)

        errors = {
            cap: counts * cap / epsilon + missing_in * int(np.maximum(0, sizes - cap).sum()) for cap in caps
        }
        chosen = best_cap(sizes, caps, allowed_above(epsilon, counts, missing_in))
        assert errors[chosen] == min(errors.values())


def test_one_sum_takes_the_papers_order_statistic() -> None:
    sizes = [50, 31, 17, 9, 4, 2, 1]
    for inverse in (1, 2, 3, 4):
        assert best_cap(sizes, range(1, 60), allowed_above(Fraction(1, inverse), 1)) == sizes[inverse - 1]
    assert best_cap(sizes, range(1, 60), allowed_above(Fraction(2, 5), 1)) == sizes[2]  # ceil(2.5) = 3rd
