"""What rounds of noisy sums protect: from tables alone, by SciPy's normal distribution and dp_accounting."""

import math
from fractions import Fraction
from functools import cached_property, lru_cache

import dp_accounting
import numpy as np
import pytest
from scipy.stats import norm

from fairshares.protocols.accounting.distributed_noise import gaussian_delta
from fairshares.protocols.accounting.rounds import (
    Concentrated,
    RoundNoise,
    RoundsPlan,
    gaussian_loss,
    plan_rounds,
)
from fairshares.protocols.circuits.gaussian import JointGaussian
from fairshares.protocols.noise.added import DistributedNoise, NoiseDistribution

EPSILON, DELTA = Fraction(1), Fraction(1, 10**5)
SQUARES = 131**2  # 128 units and half the root of 45 coordinates
KINDS = [None, (3, 2), (2, 1), (4, 3)]


@lru_cache
def planned(rounds: int, own: tuple[int, int] | None = None) -> RoundsPlan:
    return plan_rounds(SQUARES, 45, rounds, EPSILON, DELTA, distributed=own)


def masses_of(noise: RoundNoise) -> np.ndarray:
    """Return the probabilities of what protects: of joint noise, or of the honest parties' sum."""
    if isinstance(noise, DistributedNoise):
        total, masses = 1 << 128 * noise.honest, [*noise.summed(noise.honest)]
    else:
        total, masses = 1 << noise.bits, noise.weights
    return np.array([float(Fraction(mass, total)) for mass in masses])


@pytest.mark.parametrize("rounds", [1, 40, 300])
@pytest.mark.parametrize("own", KINDS[:2])
def test_a_plan_keeps_to_epsilon_and_delta_and_wastes_little(
    rounds: int, own: tuple[int, int] | None
) -> None:
    """Noise is at most 4 % larger than continuous Gaussian noise, which nothing beats by this guarantee."""
    plan = planned(rounds, own)
    assert plan.exact.epsilon == EPSILON and DELTA * Fraction(85, 100) <= plan.exact.delta <= DELTA
    assert 0 < plan.loss.lost_at(EPSILON) < DELTA / 100
    masses = masses_of(plan.noise)
    deviation = math.sqrt(masses @ (np.arange(masses.size) - masses.size // 2) ** 2.0)
    least = dp_accounting.calibrate_dp_mechanism(
        lambda: pld_accountant(1e-4),
        lambda noise: dp_accounting.GaussianDpEvent(noise),
        1.0,
        float(DELTA),
        dp_accounting.LowerEndpointAndGuess(0.5, 5.0),
    )
    assert 1 - 1e-3 < deviation / math.sqrt(SQUARES * rounds) / least < 1.04


def pld_accountant(step: float) -> dp_accounting.pld.PLDAccountant:
    return dp_accounting.pld.PLDAccountant(value_discretization_interval=step)


@pytest.mark.parametrize("own", KINDS)
def test_every_test_of_a_shift_is_a_gaussian_one_at_most(own: tuple[int, int] | None) -> None:
    """From the table alone: ratios fall, so that best tests are thresholds, and F's quantiles move by mu.

    What is left out are the ends, of a mass that the loss says is apart.
    """
    plan = planned(40, own)
    masses = masses_of(plan.noise)
    square, apart = gaussian_loss(plan.noise, Fraction(1, 10**12), 131)
    inside = np.cumsum(masses) > max(float(apart), 1e-13)
    inside &= inside[::-1]
    ratios = masses[1:] / masses[:-1]
    assert (np.diff(ratios[inside[1:] & inside[:-1]]) < 1e-13).all()
    quantiles = norm.ppf(np.cumsum(masses))[: masses.size // 2]  # the other half is alike
    steps = np.diff(quantiles)[inside[1 : masses.size // 2]]
    mu = math.sqrt(square)
    assert 0.97 * mu < steps.max() <= mu * (1 + 1e-6)
    assert float(plan.loss.rho) == pytest.approx(40 * SQUARES * mu**2 / 2, rel=0.03)


@pytest.mark.parametrize("own", KINDS[:2])
@pytest.mark.parametrize("moves", [{131: 1}, {19: 45}, {65: 4}])
def test_losses_of_the_tables_add_up_to_no_more(moves: dict[int, int], own: tuple[int, int] | None) -> None:
    """In directions with the squares of the bound, over all rounds: by Fourier transforms of the losses."""
    plan, rounds = planned(40, own), 40
    masses, step, size = masses_of(plan.noise), 1e-5, 1 << 20
    transform, certain = np.ones(size // 2 + 1, dtype=complex), 0.0
    for amount, times in moves.items():
        assert amount**2 * times <= SQUARES
        p, q = masses[amount:], masses[:-amount]  # what both can be
        both = (p > 1e-18) & (q > 1e-18)
        p, q = p[both], q[both]
        places = np.log(p / q) / step + size // 2
        low = np.floor(places).astype(int)
        shares = np.bincount(low, p * (1 - places + low), size) + np.bincount(
            low + 1, p * (places - low), size
        )
        one = np.fft.rfft(np.roll(shares, size // 2))
        transform, certain = (
            transform * one ** (times * rounds),
            certain + times * rounds * masses[:amount].sum(),
        )
    losses = (np.arange(size) - size // 2) * step
    together = np.roll(np.fft.irfft(transform, size), size // 2)
    delta = certain + (together * (1 - np.exp(np.minimum(0, float(EPSILON) - losses)))).sum()
    assert 0.5 * DELTA < delta <= plan.exact.delta * Fraction(1001, 1000)


@pytest.mark.parametrize("mu", [0.05, 0.2, 1.0, 6.0])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "10"])
def test_delta_is_that_of_a_shifted_normal_distribution(mu: float, epsilon: str) -> None:
    """Against the integral of its definition."""
    delta = gaussian_delta(Fraction(mu) ** 2, Fraction(epsilon))
    points, step = np.linspace(-12, 12 + mu, 400_001, retstep=True)
    excess = norm.pdf(points - mu) - math.exp(Fraction(epsilon)) * norm.pdf(points)
    assert float(delta) == pytest.approx(float(excess.clip(0).sum() * step), rel=1e-5, abs=1e-17)


def test_rounds_and_coordinates_add_up() -> None:
    table = DistributedNoise(NoiseDistribution.GAUSSIAN, Fraction(1, 200), 150, 3, 2)
    square, apart = gaussian_loss(table, Fraction(1), 2)
    assert square == pytest.approx(1 / 100, rel=1e-2) and square > Fraction(1, 100) and apart > 0
    one, forty = (plan_rounds(4, 100, rounds, EPSILON, DELTA, distributed=(3, 2)) for rounds in (1, 40))
    assert forty.loss.rho == pytest.approx(one.loss.rho, rel=1e-3)
    assert [plan.noise.rate for plan in (one, forty)] == pytest.approx(
        [forty.noise.rate * 40, forty.noise.rate], rel=1e-2
    )
    far, near = (plan_rounds(4, n, 1, EPSILON, DELTA).loss for n in (100, 2))
    assert (
        far.lost_at(EPSILON) < DELTA / 100 and near.lost_at(EPSILON) < DELTA / 100
    )  # at most 4 coordinates move
    assert near.delta(EPSILON, 2) > 1.5 * near.delta(EPSILON)


def test_a_grid_as_coarse_as_the_noise_tells_more() -> None:
    """Quantiles of a table with σ² = 2 move by more than its curvature alone would have them."""
    table = DistributedNoise(NoiseDistribution.GAUSSIAN, Fraction(1, 4), 8, 2, 1)
    square, _ = gaussian_loss(table, Fraction(1), 1)
    steps = np.diff(norm.ppf(np.cumsum(masses_of(table))[2:12]))  # without ends
    assert 1.04 / 2 < steps.max() ** 2 <= square <= Fraction(5, 8)


def test_what_is_apart_counts_for_both_neighbors() -> None:
    """Randomized response of this ε, with mass moved into its best event, and out of it for the other."""
    ratio, moved = Fraction(math.e), Fraction(1, 100)
    reached = ratio / (1 + ratio) + moved - ratio * (1 / (1 + ratio) - moved)
    apart, certain = (
        Concentrated(Fraction(1, 50), *lost) for lost in ((Fraction(0), moved), (moved, Fraction(0)))
    )
    assert float(apart.lost_at(EPSILON)) == pytest.approx(float(reached), rel=1e-9)
    assert certain.lost_at(EPSILON) == moved
    for loss in (apart, certain):  # of each time
        lost = loss.delta(EPSILON, 3) - gaussian_delta(Fraction(6, 50), EPSILON)
        assert lost == 3 * loss.lost_at(EPSILON)


def test_joint_noise_that_falls_unevenly_has_no_guarantee() -> None:
    """A table is judged, not how it was made: here one whose refinements are missing."""

    class Rough(JointGaussian):
        @cached_property
        def weights(self) -> list[int]:
            return [mass for mass in super().weights[1::2] for _ in range(2)][:-1]

    with pytest.raises(ValueError, match="falls unevenly"):
        gaussian_loss(Rough(Fraction(1, 32), 30, 4), Fraction(1, 10**12), 1)


@pytest.mark.parametrize(("squares", "rounds", "epsilon"), [(4, 1, 1), (1_090_000, 10, 20)])
def test_what_is_lost_covers_the_ends(squares: int, rounds: int, epsilon: int) -> None:
    """Even if the middle were as wide as the table keeps to its curvature: a neighbor moves out of it."""
    noise, farthest = plan_rounds(squares, 45, rounds, Fraction(epsilon), DELTA).noise, math.isqrt(squares)
    square, lost = gaussian_loss(noise, DELTA / (256 * rounds * min(45, squares)), farthest)
    masses = masses_of(noise)
    curvature = masses[1:-1] ** 2 / (masses[:-2] * masses[2:]) - 1
    most = (math.sqrt(1 + 2 * float(square)) - 1) * (1 + 1e-6)
    last = np.flatnonzero((curvature < 0) | (curvature > most))  # on either side
    start = 1 + last[last < curvature.size // 2].max()
    assert 0 < masses[: start + farthest].sum() <= lost


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 2, 10, Fraction(0), DELTA), "epsilon must be above 0"),
        ((4, 2, 10, Fraction(33), DELTA), "epsilon must be above 0"),
        ((4, 2, 10, EPSILON, Fraction(0)), "delta between 0 and 1"),
        ((10**12, 2, 10**5, EPSILON, DELTA), "no joint noise is as large"),
        ((1, 1, 1, Fraction(32), DELTA, (2, 1)), "coarser than the grid of sums"),
        ((1, 1, 1, Fraction(32), DELTA), "falls unevenly"),
        (
            (10**8, 2, 100, EPSILON, DELTA, (3, 2)),
            "table up to .*; more ε, or fewer rounds, needs",
        ),
        ((10**20, 2, 100, EPSILON, DELTA, (3, 2)), "no table has so much noise"),
    ],
)
def test_what_no_noise_reaches_is_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_rounds(*arguments[:5], distributed=(*arguments, None)[5])  # type: ignore[arg-type]


def test_moves_as_large_as_the_noise_waste_little() -> None:
    """At ε = 20 a vector moves a coordinate by more than the noise's deviation."""
    plan = plan_rounds(1_090_000, 2000, 10, Fraction(20), DELTA)
    assert DELTA / 2 < plan.exact.delta <= DELTA and plan.loss.lost_at(EPSILON) < DELTA / 100


ROUNDS = 3


def takes_part_after(threshold: int, most: int, outcomes: np.ndarray) -> np.ndarray:
    """Return in which of three rounds a client takes part, by what was revealed before, shape (n, 3).

    It does where the sum so far is at most a threshold, and in the rounds that are left if it has to hurry.
    """
    number = len(outcomes)
    parts = np.zeros((number, ROUNDS), dtype=int)
    for i in range(ROUNDS):
        willing = outcomes[:, :i].sum(axis=1) <= threshold
        must = ROUNDS - i <= most - parts.sum(axis=1)
        parts[:, i] = (willing | must) & (parts.sum(axis=1) < most)
    return parts


def exact_delta(masses: np.ndarray, moved: int, threshold: int, most: int, epsilon: float) -> float:
    """Return δ of three rounds, in at most so many of which a client moves a sum, by enumeration."""
    edge = masses.size // 2 + moved
    padded = np.pad(masses, moved)
    axis = np.arange(-edge, edge + 1)
    outcomes = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, ROUNDS)
    parts = takes_part_after(threshold, most, outcomes)
    shifted = outcomes - moved * parts
    inside = np.abs(shifted) <= edge
    with_client = np.where(inside, padded[np.clip(shifted, -edge, edge) + edge], 0).prod(axis=1)
    without = padded[outcomes + edge].prod(axis=1)
    assert with_client.sum() == pytest.approx(1) == without.sum()
    more, less = (
        np.clip(one - math.exp(epsilon) * other, 0, None).sum()
        for one, other in ((with_client, without), (without, with_client))
    )
    return max(float(more), float(less))


@pytest.mark.parametrize("threshold", [-100, 0, 4, 100])
@pytest.mark.parametrize("own", KINDS[:2])
def test_a_client_in_some_rounds_loses_what_as_many_rounds_lose(
    own: tuple[int, int] | None, threshold: int
) -> None:
    """Also where earlier sums decide in which it is (theorem 4); once more would be too often.

    Noise is for two rounds at ε = 2, and three are revealed; a client moves a sum by 3.
    """
    epsilon, delta = Fraction(2), Fraction(1, 100)
    plan = plan_rounds(9, 1, 2, epsilon, delta, distributed=own)
    masses = masses_of(plan.noise)
    kept = np.flatnonzero(masses > 1e-9)
    masses = masses[kept[0] : kept[-1] + 1]
    assert exact_delta(masses, 3, threshold, 2, 2.0) <= float(plan.exact.delta) * 1.001 + 1e-6
    assert exact_delta(masses, 3, threshold, 3, 2.0) > 1.5 * delta
