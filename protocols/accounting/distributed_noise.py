"""The guarantee of the honest parties' noises together, and the choice of each party's table.

Theorems are in docs/explanation/theorems.md.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product

import gmpy2

from fairshares.protocols.accounting.losses import LossDistribution, loss_distribution
from fairshares.protocols.circuits.coins import MAX_EPSILON, exp_bounds
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import BITS, DistributedNoise, NoiseDistribution

RATE_GRID = 10**15  # rates are rounded down to this grid
_STEPS = 256  # steps of a loss distribution per standard deviation of the loss over all values that move
TRIES = 100  # the number of noises that are tried, each a little larger than the one before
_COARSEST = Fraction(1, 5)  # largest rate that `gaussian_square` covers
_PRECISION = 256  # bits of gmpy2's numbers
_DELTA_GRID = 1 << 200  # a delta is a multiple of 1 / this
_SLACK = 1 << 50  # added to a delta, in units of the grid; exceeds rounding errors
SHRINK = Fraction(1999, 2000)  # factor for a rate that protects a little too little
_FIXED = 256  # likelihood ratios are multiples of 2^-256
_PI_SQUARED = Fraction(98696, 10000)  # rounded down


@dataclass(frozen=True)
class Moves:
    """How far two neighbors' noisy values are apart, in all ways that may be the worst.

    Attributes:
        each: These ways for one record, each the amounts by which values move.
        cap: How many records move at once.
    """

    each: Collection[tuple[int, ...]]
    cap: int = 1

    @property
    def units(self) -> int:
        """The most by which values move in all."""
        return self.cap * max(map(sum, self.each))

    @property
    def squares(self) -> int:
        """The largest sum of the moves' squares: all records of a client in one cell."""
        squares_of_record = max(_square(move) for move in self.each)
        return self.cap**2 * squares_of_record

    @property
    def largest(self) -> int:
        """The most by which a single value moves."""
        return self.cap * max(map(max, self.each))

    @property
    def levels(self) -> int:
        """The most values that a single record moves."""
        return max(map(len, self.each))

    @property
    def values(self) -> int:
        """The most values that move."""
        return self.cap * self.levels


def _square(move: tuple[int, ...]) -> int:
    """Return the squared norm of a move."""
    return sum(amount * amount for amount in move)


def guarantee_of_distributed(noise: DistributedNoise, moves: Moves, epsilon: Fraction) -> Guarantee:
    """Return the guarantee of the honest parties' noises.

    Computes: for Laplace noise, epsilon is the rate times all units. Delta is the sum over moved values of a
    bound at the value's share of epsilon; a move by s counts as s moves by 1. For Gaussian noise, delta is
    the delta of all values' losses together, for the worst way to share amounts between two values. If a
    client has several records, delta follows from Gaussian DP and the table's `distance` from the ideal.
    Guarantees: both are upper bounds for the exact distribution of the sum.
    [test: tests/protocols/test_distributed_noise.py]

    Args:
        noise: The noise of each party.
        moves: How far neighbors' values are apart.
        epsilon: The epsilon at which delta of Gaussian noise counts; not used for Laplace noise.
    Returns:
        The guarantee, against all who know no honest party's noise.
    """
    if noise.distribution is NoiseDistribution.LAPLACE:
        per_unit = move_delta(noise, 1, noise.rate) / (exp_bounds(noise.rate)[0] - 1)
        most_shares = max(_shares_of_delta(noise.rate * moves.cap, move) for move in moves.each)
        return Guarantee(noise.rate * moves.units, per_unit * most_shares)
    if moves.cap > 1:
        apart = moves.values * noise.honest * distance(noise)
        spent = gaussian_delta(gaussian_square(2 * rho(noise)) * moves.squares, epsilon)
        return Guarantee(epsilon, min(Fraction(1), spent + (1 + exp_bounds(epsilon)[1]) * apart))
    spread = math.sqrt(2 * float(noise.rate) * moves.squares)
    step = Fraction(max(1, round(spread / _STEPS * RATE_GRID)), RATE_GRID)
    spread_moves = set()
    for move in moves.each:
        for parts in product(*map(_shared, move)):
            spread_moves.add(tuple(sorted(sum(parts, ()))))
    return Guarantee(epsilon, max(_losses(noise, move, step).delta(epsilon) for move in spread_moves))


def _shares_of_delta(rate: Fraction, move: tuple[int, ...]) -> Fraction:
    """Return an upper bound of the sum of e^(rate amount) - 1 over a move's amounts."""
    return sum((exp_bounds(rate * amount)[1] - 1 for amount in move), Fraction(0))


def _shared(amount: int) -> list[tuple[int, ...]]:
    """Return moves of a value, or of two, one of which dominates each move by a and amount - a (theorem 15).

    [test: tests/protocols/test_distributed_noise.py]
    """
    moves: list[tuple[int, ...]] = [(amount,)]
    rest = 0  # the most by which the other value moves in the moves so far
    while 2 * (rest + 1) <= amount:
        own = amount - rest - 1
        rest = min(amount // 2, math.isqrt(amount**2 - own**2))
        moves.append((own, rest))
    return moves


@lru_cache(maxsize=256)
def move_delta(noise: DistributedNoise, moved: int, epsilon: Fraction) -> Fraction:
    """Return the exact hockey-stick divergence of a value that moves, under the honest parties' noises.

    Args:
        noise: The noise of each party.
        moved: The amount by which the value moves, at least 1.
        epsilon: The epsilon of the divergence, at least 0.
    Returns:
        The divergence, from 0 to 1.
    """
    ratio = int(exp_bounds(epsilon)[0] * (1 << _FIXED))
    total = sum(max(0, (p << _FIXED) - ratio * q) for p, q in _outcomes(noise, moved))
    return Fraction(total, 1 << _FIXED + BITS * noise.honest)


def _outcomes(noise: DistributedNoise, moved: int) -> Iterator[tuple[int, int]]:
    """Return each value's mass under a data set, and under its neighbor, in which it moves by `moved`.

    Values that only the neighbor can have are left out.
    """
    weights = noise.summed(noise.honest)
    return zip(weights, (0,) * moved + weights, strict=False)


@lru_cache(maxsize=64)
def _losses(noise: DistributedNoise, move: tuple[int, ...], step: Fraction) -> LossDistribution:
    return reduce(
        LossDistribution.composed,
        (_loss(noise, amount, step).times(n) for amount, n in Counter(move).items()),
    )


@lru_cache(maxsize=64)
def _loss(noise: DistributedNoise, moved: int, step: Fraction) -> LossDistribution:
    return loss_distribution(_outcomes(noise, moved), 1 << BITS * noise.honest, step)


def rho(noise: DistributedNoise) -> Fraction:
    """Return rho of the honest parties' ideal noises together (theorem 4).

    Guarantees: if the sum moves by s, the Rényi divergence of order alpha is at most alpha rho s^2, for each
    whole alpha.
    [test: tests/protocols/test_distributed_noise.py]

    Args:
        noise: Gaussian noise of each party.
    Returns:
        rho for a move by 1, rounded up.
    """
    rate_of_party = noise.rate * noise.honest  # 1 / (2 sigma_i^2), of a single party's noise
    tau = Fraction(0)
    for j in range(1, noise.honest):
        exponent = 2 * _PI_SQUARED * Fraction(j, j + 1) / (2 * rate_of_party)
        eta = 1 / (exp_bounds(min(exponent, Fraction(64)))[0] - 1)
        if eta >= Fraction(1, 4):
            return rate_of_party
        tau += 4 * eta / (1 - 2 * eta)  # >= ln((1 + 2 eta) / (1 - 2 eta))
    return min(rate_of_party, noise.rate + 2 * tau)


def distance(noise: DistributedNoise) -> Fraction:
    """Return a bound of a Gaussian table's total variation distance from its ideal.

    Args:
        noise: Gaussian noise of each party.
    Returns:
        The bound for a single party's table.
    """
    rate = noise.rate * noise.honest  # the rate of a single party's noise
    # Values beyond the edge, bounded by a geometric series.
    first = _power_at_most(rate * (noise.edge + 1) ** 2)
    falls_by = _power_at_most(rate * (2 * noise.edge + 3))
    outside = 2 * first / (1 - falls_by)
    root = Fraction(math.isqrt(int(rate / 3 * RATE_GRID**2)) + 1, RATE_GRID)  # rounded up
    rounded_masses = Fraction(2 * (2 * noise.edge + 2), 1 << BITS)
    return outside * min(Fraction(1), root) + rounded_masses


def _power_at_most(exponent: Fraction) -> Fraction:
    """Return an upper bound of e^-exponent, also where a table's ratio was rounded up."""
    whole, rest = divmod(exponent, 32)
    slack = Fraction((1 << BITS) + 1, 1 << BITS)
    return slack / (exp_bounds(rest)[0] * exp_bounds(Fraction(32))[0] ** min(whole, 8))


def gaussian_square(curvature: Fraction) -> Fraction:
    """Return mu^2 of integer noise, whose move by s is s mu-Gaussian DP (theorem 4).

    [test: tests/protocols/test_rounds.py]

    Args:
        curvature: The most by which -ln P is convex, from one integer to the next.
    Returns:
        mu^2 for a move by 1, rounded up.
    Raises:
        ValueError: The curvature is above 1/2.
    """
    if curvature > Fraction(1, 2):
        raise ValueError(
            "so little noise is coarser than the grid of sums; less ε, or more rounds, takes more"
        )
    return curvature * (1 + curvature / 2)


def gaussian_delta(square: Fraction, epsilon: Fraction) -> Fraction:
    """Return delta of sqrt(square)-Gaussian DP, rounded up.

    Source: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 1.

    Args:
        square: The square of Gaussian DP's mu, above 0.
        epsilon: The epsilon at which delta counts, at least 0.
    Returns:
        An upper bound of delta.
    """
    with gmpy2.context(precision=_PRECISION):
        mu = gmpy2.sqrt(gmpy2.mpq(square))
        loss = gmpy2.mpfr(gmpy2.mpq(epsilon))
        near = gmpy2.erfc((loss / mu - mu / 2) / gmpy2.sqrt(2)) / 2
        far = gmpy2.erfc((loss / mu + mu / 2) / gmpy2.sqrt(2)) / 2
        delta = near - gmpy2.exp(loss) * far
        return Fraction(int(delta * _DELTA_GRID) + _SLACK, _DELTA_GRID)


def design_distributed(
    distribution: NoiseDistribution,
    moves: Moves,
    epsilon: Fraction,
    delta: Fraction,
    *,
    parties: int,
    honest: int,
) -> tuple[DistributedNoise, Guarantee]:
    """Choose a table that keeps to epsilon and delta with nearly the least noise.

    Args:
        distribution: What the honest parties' noises add up to.
        moves: How far neighbors' values are apart.
        epsilon: The most epsilon, above 0.
        delta: The most delta, above 0 and below 1.
        parties: The number of parties.
        honest: How many of them are honest at least.
    Returns:
        The noise of each party, and the guarantee of the honest parties' noises.
    Raises:
        ValueError: No table that the parties can draw from keeps to epsilon and delta.
    """
    if delta <= 0:
        if distribution is NoiseDistribution.GAUSSIAN:
            subject = "Gaussian noise"
        else:
            subject = "noise from a table ends, and"
        raise ValueError(f"{subject} protects nothing at δ = 0; a δ of 2^-40 is usual")
    if distribution is NoiseDistribution.LAPLACE:
        rate = Fraction(epsilon * RATE_GRID // moves.units, RATE_GRID)
    else:
        rate = Fraction(int(gaussian_rate(moves.squares, epsilon, delta) * RATE_GRID), RATE_GRID)
        if moves.cap > 1:
            rate = min(_COARSEST, Fraction(RATE_GRID * rate // (1 + rate), RATE_GRID))
    if not 0 < rate <= MAX_EPSILON:
        raise ValueError(f"no table has a rate of {float(rate):.3g}; at most {MAX_EPSILON}, and more than 0")
    # Beyond the edge, too little mass for delta is left; the loop mends an edge that is too near.
    margin = (float(gmpy2.log(float(64 * moves.values * honest / delta))) + float(epsilon)) / float(rate)
    if distribution is NoiseDistribution.LAPLACE:
        edge = math.ceil(margin)
    else:
        edge = math.ceil(math.sqrt(margin / honest))
    for _ in range(TRIES):
        noise = DistributedNoise(distribution, rate, edge, parties, honest)
        exact = guarantee_of_distributed(noise, moves, epsilon)
        if exact.delta <= delta:
            return noise, exact
        if distribution is NoiseDistribution.LAPLACE:
            edge += 1 + edge // 50
        else:
            rate = Fraction(int(rate * SHRINK * RATE_GRID), RATE_GRID)
            edge += 1 + edge // 4000
    raise ValueError(f"none of {TRIES} {distribution} tables does")


def gaussian_rate(squares: int, epsilon: Fraction, delta: Fraction) -> float:
    """Return 1 / (2 sigma^2) of continuous Gaussian noise with this delta.

    All hosts derive the same rate, because only correctly rounded functions are used.
    [test: tests/protocols/test_distributed_noise.py]

    Args:
        squares: The largest squared norm of a move.
        epsilon: The epsilon, above 0.
        delta: The delta at this epsilon.
    Returns:
        The rate, nearly the largest.
    """
    low = 1e-9  # bounds of the move over sigma
    high = 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        quotient = float(epsilon) / middle
        near = gmpy2.erfc((quotient - middle / 2) / math.sqrt(2)) / 2
        far = gmpy2.erfc((quotient + middle / 2) / math.sqrt(2)) / 2
        reached = float(near - gmpy2.exp(float(epsilon)) * far)
        if reached <= delta:
            low = middle
        else:
            high = middle
    return low * low / (2 * squares)
