"""Guarantee of many rounds of noisy sums together, by Gaussian DP, and the noise for it.

A round may depend on earlier ones.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

from protocols.accounting.distributed_noise import (
    RATE_GRID,
    SHRINK,
    TRIES,
    distance,
    gaussian_delta,
    gaussian_square,
    rho,
)
from protocols.accounting.rounding import float_up
from protocols.circuits.coins import exp_bounds
from protocols.circuits.gaussian import JointGaussian, refinements
from protocols.guarantee import Guarantee
from protocols.noise.added import BITS, MAX_EDGE, DistributedNoise, NoiseDistribution

_RHO_GRID = 10**15  # rho is rounded up to this grid
_FARTHER = 1 << 40  # how much nearer than needed a table is to its ideal: longer tables cost nothing
_LOST = Fraction(1, 256)  # of delta, for the distance of truncated noise from noise with Gaussian DP
_FINE = 16  # least variance of a coarse joint sample; below, its refinements show
_MAX_LEVELS = 11  # about 2^17 values in a table
_LARGEST = 250  # -ln of the least probability in joint noise

RoundNoise = JointGaussian | DistributedNoise


@dataclass(frozen=True)
class Concentrated:
    """Privacy loss of rounds: sqrt(2 rho)-Gaussian DP, so rho-zCDP, but for a little mass.

    Source: Dong, Roth and Su 2022.

    That is the mass `certain` of either neighbor, and distributions `apart` by this total variation distance.
    """

    rho: Fraction
    certain: Fraction
    apart: Fraction

    def delta(self, epsilon: Fraction, times: int = 1) -> Fraction:
        """Return delta at epsilon of `times` such losses together."""
        return gaussian_delta(2 * times * self.rho, epsilon) + times * self.lost_at(epsilon)

    def lost_at(self, epsilon: Fraction) -> Fraction:
        """Return the part of delta for lost mass."""
        return self.certain + (1 + exp_bounds(epsilon)[1]) * self.apart


@dataclass(frozen=True)
class RoundsPlan:
    """Noise of each coordinate, its arguments, and the guarantee of all rounds at one epsilon and at all."""

    noise: RoundNoise
    distribution: tuple[str, ...]
    exact: Guarantee
    loss: Concentrated


def plan_rounds(
    squares: int,
    coordinates: int,
    rounds: int,
    epsilon: Fraction,
    delta: Fraction,
    *,
    distributed: tuple[int, int] | None = None,
) -> RoundsPlan:
    """Choose the noise of each coordinate of each round, with nearly as little as possible.

    `squares` bounds the squared norm by which two neighbors' sums of a round differ; `epsilon` is at most 32.
    Discrete Gaussian noise is `distributed` among parties, of which so many are honest; else noise is joint.
    Guarantees: `exact` is within epsilon and delta, for all rounds together; if no noise is, ValueError says
    why.
    [test: tests/protocols/test_rounds.py]
    """
    if not (0 < epsilon <= 32 and 0 < delta < 1 and rounds >= 1 and squares >= 1):
        raise ValueError("epsilon must be above 0 and at most 32, delta between 0 and 1")
    allowed = aim = 2 * largest_rho(epsilon, delta * (1 - _LOST))
    values = rounds * min(coordinates, squares)  # that move
    lost = delta * _LOST / values / (1 + exp_bounds(epsilon)[1] if distributed else 1)  # of one of them
    farthest = math.isqrt(squares)
    for _ in range(TRIES):
        per_unit = aim / (rounds * squares)
        noise: RoundNoise = (
            _table(per_unit, lost, *distributed) if distributed else _joint(per_unit, lost, farthest)
        )
        square, apart = gaussian_loss(noise, lost, farthest)
        lost_of_all = Fraction(float_up(values * apart))  # of a table, a ratio of thousands of digits
        certain = Fraction(0) if distributed else lost_of_all
        rho_of_all = rounds * squares * square / 2 + certain
        loss = Concentrated(
            Fraction(math.ceil(rho_of_all * _RHO_GRID), _RHO_GRID), certain, lost_of_all - certain
        )
        if (spent := Fraction(float_up(loss.delta(epsilon)))) <= delta:
            return RoundsPlan(
                noise, tuple(map(str, noise.arguments().values())), Guarantee(epsilon, spent), loss
            )
        aim *= SHRINK * min(Fraction(1), allowed / (2 * loss.rho))
    raise ValueError(f"none of {TRIES} noises does")


def gaussian_loss(noise: RoundNoise, lost: Fraction, farthest: int) -> tuple[Fraction, Fraction]:
    """Return mu^2 and d: a move by s, up to `farthest`, is s mu-Gaussian DP but for d (theorem 4).

    For joint noise d, about `lost`, is the mass of the table's ends; else the `distance` of all honest
    tables.

    Raises:
        ValueError: The noise is too coarse, or falls unevenly.
    [test: tests/protocols/test_rounds.py]
    """
    if isinstance(noise, DistributedNoise):
        curvature, apart = 2 * rho(noise), noise.honest * distance(noise)
    else:
        curvature, apart = _curvature(noise, lost, farthest)
    return gaussian_square(curvature), apart


def _curvature(noise: JointGaussian, lost: Fraction, farthest: int) -> tuple[Fraction, Fraction]:
    """Return L of a table without its ends, and the mass lost if a neighbor is in them."""
    weights, total = noise.weights, 1 << noise.bits
    ends = sum(1 for mass in accumulate(weights[: noise.largest]) if 8 * mass <= lost * total)
    first, curvature = max(0, ends - farthest), Fraction(0)
    for x in range(first + 1, noise.largest + 1):
        outer, middle, inner = weights[x - 1 : x + 2]
        excess = middle * middle - outer * inner
        if excess < 0 or outer >= middle:
            raise ValueError("joint noise of so few units falls unevenly; less ε, or more rounds, takes more")
        if excess * curvature.denominator > curvature.numerator * outer * inner:
            curvature = Fraction(excess, outer * inner)
    last, next_ = weights[first : first + 2]
    beyond = sum(weights[: first + farthest]) + Fraction(2 * last * last, next_ - last)
    return curvature, 2 * beyond / total


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return nearly the largest rho with at most this delta."""
    low, high = 1e-16, 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (
            (middle, high) if gaussian_delta(Fraction(2 * middle), epsilon) <= delta else (low, middle)
        )
    return Fraction(low)


def _joint(per_unit: Fraction, lost: Fraction, farthest: int) -> JointGaussian:
    variance, levels = 1 / per_unit, 1
    while levels < _MAX_LEVELS and variance >= _FINE << 2 * (levels + 1):
        levels += 1
    if variance >= _FINE << 2 * (_MAX_LEVELS + 1):
        raise ValueError("no joint noise is as large; more ε, or fewer rounds, needs less")
    added = sum(Fraction(bits, 4 << 2 * i) for i, bits in enumerate(refinements(levels), 1))
    rate = Fraction(int(RATE_GRID / (2 * max(Fraction(1, 2), variance / 4**levels - added))), RATE_GRID)
    steps = math.sqrt(_log(64 / lost) / float(rate)) + farthest / 2**levels
    return JointGaussian(rate, math.ceil(min(steps, math.sqrt(_LARGEST / float(rate)) - 0.5)), levels)


def _table(per_unit: Fraction, lost: Fraction, parties: int, honest: int) -> DistributedNoise:
    rate = Fraction(int(per_unit / 2 * RATE_GRID), RATE_GRID)
    if not rate:
        raise ValueError("no table has so much noise; more ε, or fewer rounds, needs less")
    need = 4 * honest / lost
    needed, farther = (
        math.ceil(math.sqrt(_log(n) / float(rate * honest)))
        for n in (need, min(need * _FARTHER, Fraction(1 << BITS - 24)))  # a table has its ends' probabilities
    )
    edge = max(needed, min(farther, MAX_EDGE))
    return DistributedNoise(NoiseDistribution.GAUSSIAN, rate, edge, parties, honest)


def _log(x: Fraction) -> float:
    return float((Decimal(x.numerator) / x.denominator).ln())
