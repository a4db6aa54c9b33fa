"""The guarantee of many rounds of noisy sums together, by Gaussian DP, and the noise for it.

What a round sums up may depend on the results of earlier rounds. Theorems: docs/explanation/theorems.md.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

from fairshares.protocols.accounting.distributed_noise import (
    RATE_GRID,
    SHRINK,
    TRIES,
    distance,
    gaussian_delta,
    gaussian_square,
    rho,
)
from fairshares.protocols.accounting.rounding import float_up
from fairshares.protocols.circuits.coins import exp_bounds
from fairshares.protocols.circuits.gaussian import JointGaussian, refinements
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import (
    BITS,
    MAX_EDGE,
    DistributedNoise,
    LargeTableError,
    NoiseDistribution,
)

_RHO_GRID = 10**15  # rho is rounded up to this grid
_FARTHER = 1 << 40  # how many times nearer than needed a table is to its ideal: longer tables cost nothing
_LOST = Fraction(1, 256)  # part of delta for the distance of truncated noise from noise with Gaussian DP
_FINE = 16  # least variance of a coarse joint sample; below it, the distribution shows the refinements
_MAX_LEVELS = 11  # about 2^17 values in a table
_LARGEST = 250  # -ln of the least probability in joint noise

RoundNoise = JointGaussian | DistributedNoise


@dataclass(frozen=True)
class Concentrated:
    """Privacy loss of rounds: sqrt(2 rho)-Gaussian DP, and therefore rho-zCDP, except for a little mass.

    Source: Dong, Roth and Su 2022.

    Args:
        rho: Half of the square of Gaussian DP's mu.
        certain: The mass of either neighbor that is excepted, because it tells the two apart.
        apart: The total variation distance of each neighbor's distribution from one with this Gaussian DP.
    """

    rho: Fraction
    certain: Fraction
    apart: Fraction

    def is_at_most(self, other: "Concentrated") -> bool:
        """Return whether no part of this loss is above the same part of another.

        Args:
            other: The other loss.
        Returns:
            True if rho, `certain` and `apart` are all at most the other loss's.
        """
        return self.rho <= other.rho and self.certain <= other.certain and self.apart <= other.apart

    def delta(self, epsilon: Fraction, times: int = 1) -> Fraction:
        """Return delta at an epsilon.

        Args:
            epsilon: The epsilon, at least 0.
            times: How many such losses are taken together, at least 1.
        Returns:
            An upper bound of delta.
        """
        return gaussian_delta(2 * times * self.rho, epsilon) + times * self.lost_at(epsilon)

    def lost_at(self, epsilon: Fraction) -> Fraction:
        """Return the part of delta for the mass that has no Gaussian DP.

        Args:
            epsilon: The epsilon, at least 0.
        Returns:
            That part, exactly or rounded up.
        """
        return self.certain + (1 + exp_bounds(epsilon)[1]) * self.apart


@dataclass(frozen=True)
class RoundsPlan:
    """The noise of training, and the guarantee of all rounds together.

    Args:
        noise: The noise of each coordinate in each round.
        arguments: The program's arguments for this noise.
        exact: The guarantee at the epsilon that was asked for.
        loss: The guarantee at every epsilon.
    """

    noise: RoundNoise
    arguments: tuple[str, ...]
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

    Source: theorem 4; Dong, Roth and Su 2022, for Gaussian DP and its composition.
    Guarantees: the plan's `exact` is within epsilon and delta.
    [test: tests/protocols/test_rounds.py]

    Args:
        squares: A bound of the squared norm by which two neighbors' sums of a round differ, in squared units.
        coordinates: The length of each sum.
        rounds: The number of rounds, at least 1.
        epsilon: The epsilon of all rounds together, above 0 and at most 32.
        delta: The delta of all rounds together, above 0 and below 1.
        distributed: For discrete Gaussian noise of each party, the number of parties, and how many of them
            are honest. None for joint noise.
    Returns:
        The noise, and the guarantee of all rounds together.
    Raises:
        ValueError: A number is out of range, or no noise keeps to epsilon and delta. The message says why.
    """
    if not (0 < epsilon <= 32 and 0 < delta < 1 and rounds >= 1 and squares >= 1):
        raise ValueError("epsilon must be above 0 and at most 32, delta between 0 and 1")
    allowed = 2 * largest_rho(epsilon, delta * (1 - _LOST))  # the square of Gaussian DP's mu
    aim = allowed
    moved_values = rounds * min(coordinates, squares)
    lost = delta * _LOST / moved_values  # the part of delta that one value's truncated noise may take
    if distributed:
        lost /= 1 + exp_bounds(epsilon)[1]
    farthest = math.isqrt(squares)
    for _ in range(TRIES):
        per_unit = aim / (rounds * squares)
        noise: RoundNoise
        if distributed:
            parties, honest = distributed
            noise = _table(per_unit, lost, parties, honest)
        else:
            noise = _joint(per_unit, lost, farthest)
        square, lost_of_value = gaussian_loss(noise, lost, farthest)
        # Rounded up, because the exact ratio of a table has thousands of digits.
        lost_of_all = Fraction(float_up(moved_values * lost_of_value))
        certain = Fraction(0) if distributed else lost_of_all
        rho_of_all = rounds * squares * square / 2 + certain
        loss = Concentrated(
            rho=Fraction(math.ceil(rho_of_all * _RHO_GRID), _RHO_GRID),
            certain=certain,
            apart=lost_of_all - certain,
        )
        spent = Fraction(float_up(loss.delta(epsilon)))
        if spent <= delta:
            arguments = tuple(map(str, noise.arguments().values()))
            return RoundsPlan(noise, arguments, Guarantee(epsilon, spent), loss)
        aim *= SHRINK * min(Fraction(1), allowed / (2 * loss.rho))
    raise ValueError(f"none of {TRIES} noises does")


def gaussian_loss(noise: RoundNoise, lost: Fraction, farthest: int) -> tuple[Fraction, Fraction]:
    """Return mu^2 and d of noise whose move by s is s mu-Gaussian DP, except for d (theorem 4).

    [test: tests/protocols/test_rounds.py]

    Args:
        noise: The noise of a value.
        lost: For joint noise, about how large d may be.
        farthest: The largest s.
    Returns:
        mu^2, and d. For joint noise, d is the mass of the table's ends. For distributed noise, it is the
        `distance` of all honest parties' tables from their ideal.
    Raises:
        ValueError: The noise is too coarse, or falls unevenly.
    """
    if isinstance(noise, DistributedNoise):
        curvature = 2 * rho(noise)
        apart = noise.honest * distance(noise)
    else:
        curvature, apart = _curvature(noise, lost, farthest)
    return gaussian_square(curvature), apart


def _curvature(noise: JointGaussian, lost: Fraction, farthest: int) -> tuple[Fraction, Fraction]:
    """Return by how much -ln P of a table without its ends is convex, and the mass lost in the ends.

    The mass counts as lost if either neighbor's noise is in the ends.
    """
    weights = noise.weights
    total = 1 << noise.bits
    ends = sum(1 for mass in accumulate(weights[: noise.largest]) if 8 * mass <= lost * total)
    first = max(0, ends - farthest)
    curvature = Fraction(0)
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
    """Return nearly the largest rho with at most this delta.

    Args:
        epsilon: The epsilon at which delta counts.
        delta: The largest delta.
    Returns:
        A rho, of which delta is at most the given one unless even 10^-16 is too large.
    """
    low = 1e-16
    high = 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        if gaussian_delta(Fraction(2 * middle), epsilon) <= delta:
            low = middle
        else:
            high = middle
    return Fraction(low)


def _joint(per_unit: Fraction, lost: Fraction, farthest: int) -> JointGaussian:
    """Return joint noise of variance 1 / `per_unit` and a range that loses about `lost`."""
    variance = 1 / per_unit
    levels = 1
    while levels < _MAX_LEVELS and variance >= _FINE << 2 * (levels + 1):
        levels += 1
    if variance >= _FINE << 2 * (_MAX_LEVELS + 1):
        raise ValueError("no joint noise is as large; more ε, or fewer rounds, needs less")
    added = sum(Fraction(bits, 4 << 2 * i) for i, bits in enumerate(refinements(levels), 1))
    coarse_variance = max(Fraction(1, 2), variance / 4**levels - added)
    rate = Fraction(int(RATE_GRID / (2 * coarse_variance)), RATE_GRID)
    steps = math.sqrt(_log(64 / lost) / float(rate)) + farthest / 2**levels
    most_steps = math.sqrt(_LARGEST / float(rate)) - 0.5
    return JointGaussian(rate, math.ceil(min(steps, most_steps)), levels)


def _table(per_unit: Fraction, lost: Fraction, parties: int, honest: int) -> DistributedNoise:
    """Return noise of each party that makes variance 1 / `per_unit` together and loses about `lost`."""
    rate = Fraction(int(per_unit / 2 * RATE_GRID), RATE_GRID)
    if not rate:
        raise ValueError("no table has so much noise; more ε, or fewer rounds, needs less")
    rate_of_party = float(rate * honest)
    need = 4 * honest / lost
    most = Fraction(1 << BITS - 24)  # keeps the probabilities at a table's ends above 0
    need_farther = min(need * _FARTHER, most)
    needed = math.ceil(math.sqrt(_log(need) / rate_of_party))
    farther = math.ceil(math.sqrt(_log(need_farther) / rate_of_party))
    edge = max(needed, min(farther, MAX_EDGE))
    if edge > MAX_EDGE:
        raise LargeTableError(edge, "fewer rounds")
    return DistributedNoise(NoiseDistribution.GAUSSIAN, rate, edge, parties, honest)


def _log(x: Fraction) -> float:
    return float((Decimal(x.numerator) / x.denominator).ln())
