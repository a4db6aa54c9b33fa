"""Privacy that grows with the group: guarantees and errors against the noise, atom by atom."""

import itertools
from fractions import Fraction
from math import log

import numpy as np
import pytest

from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors, logarithms, plan_noise
from fairshares.protocols.circuits.coins import Coin, design_coins, worst_ratio
from fairshares.protocols.mechanisms.shifted_log import (
    ErrorTarget,
    ShiftedLog,
    expected_errors,
    plan_logarithm,
    worst_relative_error,
)
from fairshares.protocols.noise.truncated import guarantee_of_moves, probability_mass

ADD, REPLACE, _ = NeighboringRelation
DELTA = Fraction(1, 2**40)
COINS = design_coins(Fraction(1, 20), 25)


def atoms(coins: tuple[Coin, ...]) -> tuple[np.ndarray, np.ndarray]:
    mass = probability_mass(coins)
    return np.array(list(mass)), np.array([float(p) for p in mass.values()])


def test_the_guarantee_at_a_count_is_that_of_the_opened_value() -> None:
    """Of the opened logarithm where n records are and where n + 1 are: exact delta at the stated epsilon."""
    distribution, coins = (
        ShiftedLog(3, 30),
        (Coin(3, 3), Coin(1, 2), Coin(1, 5), Coin(1, 6), Coin(1, 9), Coin(1, 9)),
    )
    mass, value = probability_mass(coins), [round(float(distribution.value(n))) for n in range(31)]
    seen = []
    for n in range(30):
        stated = distribution.guarantee_at(n, coins)
        ratio = worst_ratio(coins) ** distribution.step(n)
        for other in (n - 1, n + 1):
            if other < 0:
                continue
            shift = value[n] - value[other]
            excess = sum(
                max(p - ratio * mass.get(x + shift, Fraction(0)), Fraction(0)) for x, p in mass.items()
            )
            assert excess <= stated.delta
            seen.append(excess == stated.delta)
    assert any(seen)  # it is met, not only kept to
    assert distribution.guarantee_at(0, coins) == guarantee_of_moves(coins, [(distribution.first_step,)])
    falling = [distribution.guarantee_at(n, coins) for n in range(31)]
    assert all(a.epsilon >= b.epsilon and a.delta >= b.delta for a, b in itertools.pairwise(falling))
    assert falling[0].epsilon == 4 * falling[-1].epsilon * Fraction(4)  # from 2^1 to 2^5


@pytest.mark.parametrize("order", [Fraction(101, 100), Fraction(2), Fraction(7), Fraction(60)])
def test_rho_at_a_count_bounds_the_divergence_of_the_revealed_value(order: Fraction) -> None:
    """Theorem 18, at every count and both ways, within the values that both counts can give."""
    distribution, mass, shares = ShiftedLog(3, 30), probability_mass(COINS), list[float]()
    for n, other in [(n, n + 1) for n in range(30)] + [(n, n - 1) for n in range(1, 31)]:
        stated = distribution.guarantee_at(n, COINS)
        shift = round(float(distribution.value(n))) - round(float(distribution.value(other)))
        both = [(p, mass[x + shift]) for x, p in mass.items() if x + shift in mass]
        kept = sum(p for p, _ in both)
        assert kept == sum(q for _, q in both) >= 1 - stated.delta
        rho = stated.epsilon**2 / 2
        moment = sum(float(p / kept) * float(p / q) ** float(order - 1) for p, q in both)
        shares.append(log(moment) / float((order - 1) * order * rho))
    assert max(shares) <= 1 + 1e-9
    assert order > 2 or max(shares) > 0.9  # of what is claimed


@pytest.mark.parametrize(("offset", "most"), [(5, 200), (1, 60), (256, 100)])
def test_expected_error_is_that_of_the_distribution(offset: int, most: int) -> None:
    distribution, (x, p) = ShiftedLog(offset, most), atoms(COINS)
    counts = np.arange(most + 1)
    estimates = distribution.estimate(distribution.value(counts)[:, None] + x + 0.5)
    exact = (np.abs(estimates - counts[:, None]) * p).sum(axis=1)
    assert expected_errors(distribution, counts, COINS) == pytest.approx(exact, abs=1e-9)
    assert worst_relative_error(distribution, 10, COINS) == pytest.approx(
        (exact[10:] / counts[10:]).max(), abs=1e-9
    )


def test_the_bound_between_points_holds_at_every_count() -> None:
    distribution = ShiftedLog(16, 20_000)
    coins = design_coins(Fraction(1, distribution.first_step), 40)
    counts = np.arange(100, 20_001)
    worst = (expected_errors(distribution, counts, coins) / counts).max()
    assert worst <= worst_relative_error(distribution, 100, coins) <= worst + 1 / 512


def test_estimates_are_median_unbiased_and_intervals_hold() -> None:
    distribution, (x, p) = ShiftedLog(4, 500), atoms(COINS)
    for n in (0, 1, 37, 255, 500):
        z = distribution.value(n) + x + 0.5
        estimates = distribution.estimate(z)
        assert p[estimates <= n + 1e-9].sum() >= 0.5 - 1e-12 and p[estimates >= n - 1e-9].sum() >= 0.5 - 1e-12
        low, high = distribution.interval(z, COINS, Fraction(1, 10)).T
        assert p[(low <= n + 1e-9) & (n - 1e-9 <= high)].sum() >= 0.9
    assert (
        p[np.abs(distribution.estimate(distribution.value(255) + x + 0.5) - 255) > 1].sum() > 0.1
    )  # there is noise


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_the_plan_keeps_to_the_error_and_to_the_budget(relation: NeighboringRelation) -> None:
    target = ErrorTarget(0.1, 100, 1000)
    distribution, charged = plan_logarithm(target, Neighbors(relation), Fraction(1), DELTA)
    plan = plan_noise(logarithms(4, distribution.first_step), Neighbors(relation), charged, DELTA)
    moved = 2 if relation is REPLACE else 1
    assert plan.exact == guarantee_of_moves(plan.coins, [(distribution.first_step,) * moved])
    assert plan.exact.epsilon <= charged <= 1 and plan.exact.delta <= DELTA
    assert target.met_by(distribution, plan.coins)
    less = plan_noise(
        logarithms(4, distribution.first_step), Neighbors(relation), charged * Fraction(15, 16), DELTA
    )
    assert not target.met_by(distribution, less.coins)  # no more noise would do
    smaller = ShiftedLog(distribution.offset // 2, 1000)  # nor a smaller offset
    whole = plan_noise(logarithms(4, smaller.first_step), Neighbors(relation), Fraction(1), DELTA)
    assert not target.met_by(smaller, whole.coins)
    assert distribution.guarantee_at(1000, plan.coins).epsilon < plan.exact.epsilon / 10


def test_what_cannot_be_reached_is_refused_with_what_can() -> None:
    with pytest.raises(ValueError, match=r"0\.1 from 5 records on cannot be reached; 0\.[12]\d* can"):
        plan_logarithm(ErrorTarget(0.1, 5, 1000), Neighbors(ADD), Fraction(1), DELTA)
    with pytest.raises(ValueError, match="cannot be reached; inf can"):
        plan_logarithm(ErrorTarget(0.1, 5, 1000), Neighbors(ADD), Fraction(1, 10**8), DELTA)
    for bad in ((0, 1, 2), (0.1, 0, 2), (0.1, 3, 2)):
        with pytest.raises(ValueError, match="relative error"):
            ErrorTarget(*bad)


def test_the_program_is_charged_for_the_first_step() -> None:
    assert PI_COUNT.release is not None
    arguments = {"groups": "2", "labels": "3", "offset": "20", "most": "100000"}
    assert PI_COUNT.release(arguments) == logarithms(6, ShiftedLog(20, 100_000).first_step)
    assert ShiftedLog(20, 100_000).first_step == 2 ** (17 - 4)
