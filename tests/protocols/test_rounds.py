"""What rounds of noisy sums protect: rho and delta' of their noise, against enumeration and dp_accounting."""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import product

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from protocols.accounting.distributed_noise import renyi_delta
from protocols.accounting.rounds import RoundsPlan, plan_rounds, zcdp
from protocols.circuits.coins import Coin, design_coins, edge_mass, exp_bounds
from protocols.noise.added import DistributedNoise, NoiseDistribution
from protocols.noise.truncated import outer_mass, probability_mass

EPSILON, DELTA = Fraction(1), Fraction(1, 10**5)
SQUARES = 131**2  # 128 units and half the root of 45 coordinates
DISTRIBUTED = (3, 2)


@lru_cache
def planned(rounds: int, own: tuple[int, int] | None = None) -> RoundsPlan:
    return plan_rounds(SQUARES, 45, rounds, EPSILON, DELTA, own)


def renyi(p: dict[int, Fraction], q: dict[int, Fraction], order: float) -> float:
    """D_order(p || q) in floats, of what both can be, as distributions of their own."""
    both = [x for x in p if p[x] and q.get(x)]
    total_p, total_q = (float(sum(distribution[x] for x in both)) for distribution in (p, q))
    terms = [float(p[x]) / total_p * (float(p[x] / q[x]) * total_q / total_p) ** (order - 1) for x in both]
    return math.log(math.fsum(terms)) / (order - 1)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1, 4)])
def test_rho_and_delta_of_coins_against_enumeration(epsilon: Fraction) -> None:
    """Two coordinates that move by up to 3 in all ways whose squares add up to 9 at most.

    Each way's divergence is at most alpha rho, and the mass that is left out at most delta'.
    """
    coins = design_coins(epsilon, 20)
    if len(coins) > 7:
        coins = coins[
            :7
        ]  # a distribution of its own, cut where enumeration ends; worse at the edge, and so accounted
    distribution = probability_mass(coins)
    rho, apart = zcdp(coins, 9, 2, 1)
    for a, b in product(range(4), repeat=2):
        if not 0 < a * a + b * b <= 9:
            continue
        moved = [{x + s: mass for x, mass in distribution.items()} for s in (a, b)]
        for order in (1.1, 2, 8, 64):
            both = sum(renyi(distribution, other, order) for other in moved)
            assert both <= order * float(rho) * (1 + 1e-9)
        outside = sum((mass for s in (a, b) for mass in [outer_mass(coins, s)] if s), Fraction(0))
        assert outside <= apart
    assert apart <= 12 * exp_bounds(6 * epsilon)[1] * edge_mass(coins)  # and not by much more


def test_rounds_and_coordinates_add_up() -> None:
    coins = (Coin(1, 2), Coin(1, 4), Coin(1, 8))
    one, apart = zcdp(coins, 4, 1, 1)
    assert zcdp(coins, 4, 1, 40) == (40 * one, 40 * apart)
    assert zcdp(coins, 4, 4, 1) == (one, 2 * apart)  # 4 units in 4 coordinates, where 2 were in one
    table = DistributedNoise(NoiseDistribution.GAUSSIAN, Fraction(1, 200), 150, *DISTRIBUTED)
    rho, far = zcdp(table, 4, 3, 1)
    assert rho == pytest.approx(4 / 200)
    assert zcdp(table, 4, 3, 40) == (40 * rho, 40 * far)
    assert zcdp(table, 4, 100, 1) == (rho, far * 4 / 3)  # at most 4 coordinates move


@pytest.mark.parametrize("rounds", [1, 40, 300])
@pytest.mark.parametrize("own", [None, DISTRIBUTED])
def test_a_plan_keeps_to_epsilon_and_delta_and_wastes_little(
    rounds: int, own: tuple[int, int] | None
) -> None:
    plan = planned(rounds, own)
    assert plan.exact.epsilon == EPSILON and plan.exact.delta <= DELTA
    assert plan.exact.delta >= DELTA * Fraction(1, 2 if own is None else 1) * Fraction(
        99, 100
    )  # coins are coarse
    rho, apart = zcdp(plan.noise, SQUARES, 45, rounds)
    assert plan.exact.delta == renyi_delta(rho, EPSILON) + (1 + exp_bounds(EPSILON)[1]) * apart
    assert 0 < apart < DELTA / 100


@pytest.mark.parametrize("rounds", [1, 40])
def test_dp_accounting_agrees_on_gaussian_noise(rounds: int) -> None:
    """Its PLD of continuous Gaussian noise as large as that of the honest parties: less, by 10 % at most."""
    plan = planned(rounds, DISTRIBUTED)
    deviation = math.sqrt(float(plan.noise.mean_square_error) * 2 / 3)  # type: ignore[union-attr]
    distribution = pld.from_gaussian_mechanism(
        deviation / math.sqrt(SQUARES * rounds), value_discretization_interval=1e-4
    )
    found = distribution.get_epsilon_for_delta(float(DELTA))
    assert 0.9 <= found <= 1.0


@pytest.mark.parametrize("moves", [{131: 1}, {19: 45}, {65: 4}])
def test_dp_accounting_agrees_on_joint_noise(moves: dict[int, int]) -> None:
    """Its PLD of discrete Laplace noise at the plan's rate, in directions with the squares of the bound."""
    plan, rounds = planned(40), 40
    rate = float(Fraction(plan.distribution[0]))
    total: pld.PrivacyLossDistribution = pld.identity(1e-4)
    for amount, times in moves.items():
        assert amount**2 * times <= SQUARES
        one = pld.from_discrete_laplace_mechanism(
            rate, sensitivity=amount, value_discretization_interval=1e-4
        )
        total = total.compose(one.self_compose(times * rounds))
    assert 0.55 <= total.get_epsilon_for_delta(float(DELTA)) <= 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 2, 10, Fraction(0), DELTA), "epsilon must be above 0"),
        ((4, 2, 10, Fraction(33), DELTA), "epsilon must be above 0"),
        ((4, 2, 10, EPSILON, Fraction(0)), "delta between 0 and 1"),
        ((4, 2, 10, EPSILON / 10**4, DELTA), "so small an epsilon takes a larger delta"),
        ((10**12, 2, 10**5, EPSILON, DELTA), "epsilon per unit must be between 10"),
        ((10**8, 2, 100, EPSILON, DELTA, DISTRIBUTED), "would need a table up to"),
        ((10**20, 2, 100, EPSILON, DELTA, DISTRIBUTED), "no table has so much noise"),
    ],
)
def test_what_no_noise_reaches_is_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_rounds(*arguments)  # type: ignore[arg-type]
