"""Guarantees of honest parties' noises together, and the choice of tables."""

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product

import gmpy2

from protocols.accounting.losses import LossDistribution, loss_distribution
from protocols.circuits.coins import MAX_EPSILON, exp_bounds
from protocols.guarantee import Guarantee
from protocols.noise.added import BITS, DistributedNoise, NoiseDistribution

RATE_GRID = 10**15  # rates are rounded down to this grid
_STEPS = 256  # per standard deviation of the loss over all values that move
TRIES = 100
_COARSEST = Fraction(1, 5)  # largest rate that `gaussian_square` covers
_PRECISION = 256  # bits
_DELTA_GRID, _SLACK = 1 << 200, 1 << 50  # of a delta; the slack exceeds rounding errors
SHRINK = Fraction(1999, 2000)  # factor for a rate that protects a little too little
_FIXED = 256
_PI_SQUARED = Fraction(98696, 10000)  # rounded down


@dataclass(frozen=True)
class Moves:
    """How far two neighbors' noisy values are apart, in all ways that may be the worst.

    `each` way has the amounts by which values move for one record; `cap` records move at once.
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
        return self.cap**2 * max(sum(a * a for a in move) for move in self.each)

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


def guarantee_of_distributed(noise: DistributedNoise, moves: Moves, epsilon: Fraction) -> Guarantee:
    """Return the guarantee of the honest parties' noises.

    Computes: for Laplace noise, the rate times all units, and bounds of the moved values' deltas at their
    shares of epsilon; a move by s counts as s moves by 1. For Gaussian noise, delta of all losses together,
    for the worst way to share amounts; for several records of a client by Gaussian DP and `distance`.
    Guarantees: upper bounds, of the exact distribution of the sum.
    [test: tests/protocols/test_distributed_noise.py]
    """
    if noise.distribution is NoiseDistribution.LAPLACE:
        per_unit = move_delta(noise, 1, noise.rate) / (exp_bounds(noise.rate)[0] - 1)
        shares = (sum(exp_bounds(noise.rate * moves.cap * a)[1] - 1 for a in move) for move in moves.each)
        return Guarantee(noise.rate * moves.units, per_unit * max(shares))
    if moves.cap > 1:
        apart = moves.values * noise.honest * distance(noise)
        spent = gaussian_delta(gaussian_square(2 * rho(noise)) * moves.squares, epsilon)
        return Guarantee(epsilon, min(Fraction(1), spent + (1 + exp_bounds(epsilon)[1]) * apart))
    spread = math.sqrt(2 * float(noise.rate) * moves.squares)
    step = Fraction(max(1, round(spread / _STEPS * RATE_GRID)), RATE_GRID)
    spread_moves = {
        tuple(sorted(sum(parts, ()))) for move in moves.each for parts in product(*map(_shared, move))
    }
    return Guarantee(epsilon, max(_losses(noise, move, step).delta(epsilon) for move in spread_moves))


def _shared(amount: int) -> list[tuple[int, ...]]:
    """Return moves of one or two values that dominate every move by a and amount - a (theorem 15).

    [test: tests/protocols/test_distributed_noise.py]
    """
    moves: list[tuple[int, ...]] = [(amount,)]
    rest = 0  # how much the other value moves by at most, so far
    while 2 * (rest + 1) <= amount:
        own = amount - rest - 1
        rest = min(amount // 2, math.isqrt(amount**2 - own**2))
        moves.append((own, rest))
    return moves


@lru_cache(maxsize=256)
def move_delta(noise: DistributedNoise, moved: int, epsilon: Fraction) -> Fraction:
    """Return the exact hockey-stick divergence at epsilon of a value that moves by `moved`."""
    ratio = int(exp_bounds(epsilon)[0] * (1 << _FIXED))
    total = sum(max(0, (p << _FIXED) - ratio * q) for p, q in _outcomes(noise, moved))
    return Fraction(total, 1 << _FIXED + BITS * noise.honest)


def _outcomes(noise: DistributedNoise, moved: int) -> Iterator[tuple[int, int]]:
    weights = noise.summed(noise.honest)
    return zip(weights, (0,) * moved + weights, strict=False)  # the neighbor's last values have no p


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
    """Return rho with D_alpha <= alpha rho s^2, alpha whole, for the ideal sum moved by s (theorem 4).

    [test: tests/protocols/test_distributed_noise.py]
    """
    one = noise.rate * noise.honest  # 1 / (2 sigma_i^2)
    tau = Fraction(0)
    for j in range(1, noise.honest):
        exponent = 2 * _PI_SQUARED * Fraction(j, j + 1) / (2 * one)
        eta = 1 / (exp_bounds(min(exponent, Fraction(64)))[0] - 1)
        if eta >= Fraction(1, 4):
            return one
        tau += 4 * eta / (1 - 2 * eta)  # >= ln((1 + 2 eta) / (1 - 2 eta))
    return min(one, noise.rate + 2 * tau)


def distance(noise: DistributedNoise) -> Fraction:
    """Return a bound of a Gaussian table's total variation distance from its ideal."""
    one = noise.rate * noise.honest
    outside = 2 * _power_below(one * (noise.edge + 1) ** 2) / (1 - _power_below(one * (2 * noise.edge + 3)))
    root = Fraction(math.isqrt(int(one / 3 * RATE_GRID**2)) + 1, RATE_GRID)  # rounded up
    return outside * min(Fraction(1), root) + Fraction(2 * (2 * noise.edge + 2), 1 << BITS)


def _power_below(exponent: Fraction) -> Fraction:
    """Return an upper bound of e^-exponent, also for a rounded ratio."""
    whole, rest = divmod(exponent, 32)
    slack = Fraction((1 << BITS) + 1, 1 << BITS)
    return slack / (exp_bounds(rest)[0] * exp_bounds(Fraction(32))[0] ** min(whole, 8))


def gaussian_square(curvature: Fraction) -> Fraction:
    """Return mu^2: if -ln P is convex by `curvature` at most, a move by s is s mu-Gaussian DP (theorem 4).

    A curvature above 1/2 raises ValueError.
    [test: tests/protocols/test_rounds.py]
    """
    if curvature > Fraction(1, 2):
        raise ValueError(
            "so little noise is coarser than the grid of sums; less ε, or more rounds, takes more"
        )
    return curvature * (1 + curvature / 2)


def gaussian_delta(square: Fraction, epsilon: Fraction) -> Fraction:
    """Return delta at epsilon of sqrt(square)-Gaussian DP, rounded up.

    Source: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 1.
    """
    with gmpy2.context(precision=_PRECISION):
        mu, loss = gmpy2.sqrt(gmpy2.mpq(square)), gmpy2.mpfr(gmpy2.mpq(epsilon))
        near, far = (gmpy2.erfc((loss / mu + sign * mu / 2) / gmpy2.sqrt(2)) / 2 for sign in (-1, 1))
        return Fraction(int((near - gmpy2.exp(loss) * far) * _DELTA_GRID) + _SLACK, _DELTA_GRID)


def design_distributed(
    distribution: NoiseDistribution,
    moves: Moves,
    epsilon: Fraction,
    delta: Fraction,
    *,
    parties: int,
    honest: int,
) -> tuple[DistributedNoise, Guarantee]:
    """Choose a table that keeps to epsilon and delta with nearly the least noise, or raise ValueError."""
    if delta <= 0:
        raise ValueError(
            (
                "Gaussian noise"
                if distribution is NoiseDistribution.GAUSSIAN
                else "noise from a table ends, and"
            )
            + " protects nothing at δ = 0; a δ of 2^-40 is usual"
        )
    if distribution is NoiseDistribution.LAPLACE:
        rate = Fraction(epsilon * RATE_GRID // moves.units, RATE_GRID)
    else:
        rate = Fraction(int(gaussian_rate(moves.squares, epsilon, delta) * RATE_GRID), RATE_GRID)
        if moves.cap > 1:
            rate = min(_COARSEST, Fraction(RATE_GRID * rate // (1 + rate), RATE_GRID))
    if not 0 < rate <= MAX_EPSILON:
        raise ValueError(f"no table has a rate of {float(rate):.3g}; at most {MAX_EPSILON}, and more than 0")
    margin = (float(gmpy2.log(float(64 * moves.values * honest / delta))) + float(epsilon)) / float(rate)
    edge = math.ceil(margin if distribution is NoiseDistribution.LAPLACE else math.sqrt(margin / honest))
    for _ in range(TRIES):
        noise = DistributedNoise(distribution, rate, edge, parties, honest)
        exact = guarantee_of_distributed(noise, moves, epsilon)
        if exact.delta <= delta:
            return noise, exact
        if distribution is NoiseDistribution.LAPLACE:
            edge += 1 + edge // 50
        else:
            rate, edge = Fraction(int(rate * SHRINK * RATE_GRID), RATE_GRID), edge + 1 + edge // 4000
    raise ValueError(f"none of {TRIES} {distribution} tables does")


def gaussian_rate(squares: int, epsilon: Fraction, delta: Fraction) -> float:
    """Return 1 / (2 sigma^2) of continuous Gaussian noise with this delta, for moves of this squared norm.

    All hosts derive the same rate, as only correctly rounded functions are used.
    [test: tests/protocols/test_distributed_noise.py]
    """
    low, high = 1e-9, 1e3  # of the move over sigma
    for _ in range(60):
        middle = math.sqrt(low * high)
        far = float(epsilon) / middle
        near, over = (gmpy2.erfc((far + sign * middle / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
        reached = float(near - gmpy2.exp(float(epsilon)) * over)
        low, high = (middle, high) if reached <= delta else (low, middle)
    return low * low / (2 * squares)
