"""What many rounds of noisy sums protect together, and the noise that this takes: by zCDP, exactly.

A round opens sums of vectors of integers, whose neighbours' are apart by a bounded norm. Each round may
depend on what earlier ones opened.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from protocols.accounting.calibration import bits_at_most
from protocols.accounting.distributed_noise import RATE_GRID, SHRINK, TRIES, distance, renyi_delta, rho
from protocols.circuits.coins import Coin, design_coins, edge_mass, exp_bounds, worst_ratio
from protocols.guarantee import Guarantee
from protocols.noise.added import BITS, MAX_EDGE, DistributedNoise, NoiseDistribution
from protocols.noise.truncated import log_upper_bound

_GRID = 10**12  # a coin's epsilon is rounded down to this grid
_RHO_GRID = 10**15  # a rho is rounded up to this grid
_FARTHER = 1 << 40  # times less than joint noise a table is apart: a longer one costs its parties nothing
_LOST = Fraction(1, 256)  # of delta, for what truncated noise is apart from what zCDP is shown for


@dataclass(frozen=True)
class Concentrated:
    """What rounds lose, as approximate zCDP (Bun and Steinke 2016): theorem 5.

    Attributes: rho: D_alpha <= alpha rho for every alpha > 1, of all but so much mass; certain: mass that one
    of two neighbours alone may have; apart: the distance in total variation from distributions of which all
    this holds.
    """

    rho: Fraction
    certain: Fraction
    apart: Fraction

    @property
    def delta(self) -> Fraction:
        """The delta' that goes with rho."""
        return self.certain + self.apart

    def lost_at(self, epsilon: Fraction) -> Fraction:
        """Return what of delta is lost at epsilon: what is apart counts for both neighbors."""
        return self.certain + (1 + exp_bounds(epsilon)[1]) * self.apart


@dataclass(frozen=True)
class RoundsPlan:
    """Noise for rounds, and what it protects.

    Attributes: noise: of each coordinate; distribution: a program's arguments for it; exact: what it
    protects in all rounds together, at the epsilon that was asked; loss: the same at every epsilon.
    """

    noise: tuple[Coin, ...] | DistributedNoise
    distribution: tuple[str, ...]
    exact: Guarantee
    loss: Concentrated


def plan_rounds(
    squares: int,
    coordinates: int,
    rounds: int,
    epsilon: Fraction,
    delta: Fraction,
    distributed: tuple[int, int] | None = None,
) -> RoundsPlan:
    """Choose the noise of each coordinate of each round, with nearly as little of it as possible.

    Guarantees: exact.epsilon <= epsilon and exact.delta <= delta, for all rounds together.
    [test: tests/protocols/test_rounds.py]
    Args:
        squares: the most that the squares by which two neighbours' sums of a round differ add up to.
        distributed: how many parties there are, and how many of them nobody corrupts, where each adds
            discrete Gaussian noise of its own; None for joint, discrete Laplace noise.
    Raises: ValueError: no noise reaches epsilon and delta; the message says why.
    """
    if not (0 < epsilon <= 32 and 0 < delta < 1 and rounds >= 1 and squares >= 1):
        raise ValueError("epsilon must be above 0 and at most 32, delta between 0 and 1")
    total = largest_rho(epsilon, delta * (1 - _LOST))
    if renyi_delta(total, epsilon) > delta:
        raise ValueError("so small an epsilon takes a larger delta, by the bound that is used")
    lost = delta * _LOST / (1 + exp_bounds(epsilon)[1]) / rounds  # what a round may be apart
    for _ in range(TRIES):
        per_unit = total / (rounds * squares)
        noise, distribution = (
            _coins(per_unit, squares, coordinates, lost)
            if distributed is None
            else _table(per_unit, squares, lost, *distributed)
        )
        rho_of_all, apart = zcdp(noise, squares, coordinates, rounds)
        spent = renyi_delta(rho_of_all, epsilon) + (1 + exp_bounds(epsilon)[1]) * apart
        if spent <= delta:
            rounded = Fraction(math.ceil(rho_of_all * _RHO_GRID), _RHO_GRID)
            masses = (Fraction(0), apart) if distributed else (apart, Fraction(0))
            return RoundsPlan(noise, distribution, Guarantee(epsilon, spent), Concentrated(rounded, *masses))
        total *= SHRINK
    raise ValueError(f"none of {TRIES} noises does")


def zcdp(
    noise: tuple[Coin, ...] | DistributedNoise, squares: int, coordinates: int, rounds: int
) -> tuple[Fraction, Fraction]:
    """Return rho and delta': how well what the rounds open tells two neighbours apart.

    It is within total variation distance delta' of two distributions that have D_alpha <= alpha rho, both
    ways, for every alpha > 1.
    Computes: joint noise: on the values that both neighbours' noise can reach, which are as likely under
    either, a coordinate that moves by s is s ln(r)-DP, r the worst ratio of neighbouring atoms, hence
    (s ln r)^2 / 2-zCDP (Bun and Steinke 2016, Proposition 3.3), and squares add up over coordinates; what is
    left are the s outermost atoms of each, by at most e^(ln r s) of the last one each. Distributed noise: as
    `distributed_noise.rho` and `distance`, of every honest party's table. Both add up over rounds, also
    where a round depends on earlier ones (Bun and Steinke, Lemma 2.3; noise is coupled, round by round).
    Guarantees: upper bounds.  [test: tests/protocols/test_rounds.py]
    """
    if isinstance(noise, DistributedNoise):
        apart = min(coordinates, squares) * noise.honest * distance(noise)
        return rounds * squares * rho(noise), rounds * apart
    unit, farthest, moved = (
        log_upper_bound(worst_ratio(noise)),
        math.isqrt(squares),
        _moved(squares, coordinates),
    )
    apart = edge_mass(noise) * moved * exp_bounds(unit * farthest)[1]
    return rounds * squares * unit**2 / 2, rounds * apart


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return about the largest rho whose delta at epsilon is at most this."""
    low, high = 1e-12, float(epsilon)
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if renyi_delta(Fraction(middle), epsilon) <= delta else (low, middle)
    return Fraction(low)


def _moved(squares: int, coordinates: int) -> int:
    """Return by how much whole coordinates move in all, at most (Cauchy and Schwarz)."""
    return min(squares, math.isqrt(squares * coordinates))


def _coins(
    each: Fraction, squares: int, coordinates: int, lost: Fraction
) -> tuple[tuple[Coin, ...], tuple[str, ...]]:
    unit = Fraction(int(math.sqrt(2 * each) * _GRID), _GRID)
    inward = exp_bounds(unit * math.isqrt(squares))[1]
    bits = bits_at_most(lost / (_moved(squares, coordinates) * inward))
    return design_coins(unit, bits), (str(unit), str(bits))


def _table(
    each: Fraction, squares: int, lost: Fraction, parties: int, honest: int
) -> tuple[DistributedNoise, tuple[str, ...]]:
    rate = Fraction(int(each * RATE_GRID), RATE_GRID)
    if not rate:
        raise ValueError("no table has so much noise; more ε, or fewer rounds, needs less")
    need = 4 * squares * honest / lost
    needed, farther = (
        math.ceil(math.sqrt(float((Decimal(n.numerator) / n.denominator).ln()) / float(rate * honest)))
        for n in (need, min(need * _FARTHER, Fraction(1 << BITS - 24)))  # a table has its ends' probabilities
    )
    edge = max(needed, min(farther, MAX_EDGE))
    noise = DistributedNoise(NoiseDistribution.GAUSSIAN, rate, edge, parties, honest)
    return noise, (str(noise.distribution), str(rate), str(noise.edge))
