"""Noisy shifted logarithms of counts, which protect a record the better the larger its group is.

A record of a large group moves the logarithm less than a record of a small one, and all noise has one scale.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, takewhile

import numpy as np
import numpy.typing as npt

from fairshares.protocols.accounting.calibration import Neighbors, logarithms, moves_of, plan_noise
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import (
    MAX_COINS,
    MIN_EPSILON,
    Coins,
    NoiseFamily,
    SymmetricCoins,
    chance_of_sign,
    coins_of_magnitude,
    exp_bounds,
    family_for,
)
from fairshares.protocols.circuits.logarithm import scale_bits
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.truncated import error_bound, guarantee_of_moves

MOST_COUNT = 1 << 24  # beyond, the epsilon of a logarithm's unit is too small for the noise
_POINTS = 1 << 9  # counts per power of two at which errors are computed; between them, bounds
_SHARES = 64  # parts of epsilon in the search


@dataclass(frozen=True)
class ShiftedLog:
    """The function g of a count n: nearly log2(n + offset), in units of 2^-E, less its whole part at n = 0.

    Computes: between powers of 2, g is a straight line.
    Source: Finley et al. 2024 (shifted logarithm); Mitchell 1962 (straight lines); see `pi_count.mpc`.

    Args:
        offset: The public number that is added to a count, at least 1.
        most: The largest count.
    """

    offset: int
    most: int

    @property
    def bits(self) -> int:
        """E: g is in units of 2^-E."""
        return scale_bits(self.offset, self.most)

    @property
    def lowest(self) -> int:
        """The whole part of log2(offset)."""
        return self.offset.bit_length() - 1

    @property
    def lines_above_first(self) -> int:
        """The number of straight lines after the first; each takes a comparison."""
        return self.bits - 1 - self.lowest

    def step(self, count: int) -> int:
        """Return the most by which a record, added or removed, moves g; it never rises with the count.

        [test: tests/protocols/test_shifted_log.py]

        Args:
            count: The number of records, at least 0.
        Returns:
            The step, in units of g.
        """
        power = (max(count, 1) - 1 + self.offset).bit_length() - 1
        return 1 << (self.bits - min(power, self.bits - 1))

    @property
    def first_step(self) -> int:
        """The most by which a record moves g anywhere: the charge of a release."""
        return self.step(0)

    def value(self, counts: npt.ArrayLike) -> Floats:
        """Return g at real counts.

        Args:
            counts: Counts of at least 0.
        Returns:
            Values of g, with the shape of the counts.
        """
        shifted = np.asarray(counts, dtype=np.float64) + self.offset
        power = np.clip(np.frexp(shifted)[1] - 1.0, self.lowest, self.bits - 1)
        return ((power - self.lowest) + (shifted / 2.0**power - 1)) * 2.0**self.bits

    def highest(self, count: int) -> int:
        """Return g at a whole count, also above `most`.

        Args:
            count: The count, at least 0.
        Returns:
            The value of g.
        """
        return round(float(self.value(min(count, self.most)))) + 2 * max(0, count - self.most)

    def estimate(self, logarithms: npt.ArrayLike) -> Floats:
        """Return the counts that revealed logarithms stand for.

        Guarantees: median-unbiased, as the noise is symmetric about its mean and the inverse rises.
        [test: tests/protocols/test_shifted_log.py]

        Args:
            logarithms: Revealed values less the noise's mean.
        Returns:
            The counts whose g these are, held within [0, most]; with the shape of the logarithms.
        """
        z = np.asarray(logarithms, dtype=np.float64) / 2.0**self.bits
        part = np.clip(np.floor(z), 0, self.lines_above_first)
        return np.asarray(np.clip(2.0 ** (part + self.lowest) * (1 + z - part) - self.offset, 0.0, self.most))

    def interval(self, logarithms: npt.ArrayLike, coins: Coins, failure: Fraction) -> Floats:
        """Return bounds of the counts that revealed logarithms stand for.

        Args:
            logarithms: Revealed values less the noise's mean, shape (...).
            coins: The noise of each.
            failure: The probability that an interval fails, at most.
        Returns:
            The lower and the upper bound, shape (..., 2), in records.
        """
        bound = float(error_bound(coins, failure))
        z = np.asarray(logarithms, dtype=np.float64)
        return np.stack([self.estimate(z - bound), self.estimate(z + bound)], axis=-1)

    def guarantee_at(self, count: int, coins: Coins) -> Guarantee:
        """Return the guarantee of a record, added or removed, in a group of this size.

        Guarantees: never rises with the count.
        [test: tests/protocols/test_shifted_log.py]

        Args:
            count: The number of records of the group, at least 0.
            coins: The noise of the logarithm.
        Returns:
            The guarantee.
        """
        return guarantee_of_moves(coins, [(self.step(count),)])


def expected_errors(distribution: ShiftedLog, counts: npt.ArrayLike, noise: "Coins | RealNoise") -> Floats:
    """Return E|estimate - count| at real counts, in floats.

    Args:
        distribution: The logarithm.
        counts: Where to compute the error, at least 0.
        noise: The noise.
    Returns:
        Errors in records, with the shape of the counts.
    """
    return np.add(*_error_parts(distribution, np.asarray(counts, dtype=np.float64), _real(noise)))


def worst_relative_error(distribution: ShiftedLog, least: int, noise: "Coins | RealNoise") -> float:
    """Return a bound of E|estimate - n| / n over whole n from `least` to `distribution.most`.

    Computes: errors at up to 512 counts per power of two. Between two of these, a < b, the error is at most
    its upward part at b, its downward part at a, and b - a together, which is at most 1/512 of n too large.
    [test: tests/protocols/test_shifted_log.py]

    Args:
        distribution: The logarithm.
        least: The least n, at least 1.
        noise: The noise.
    Returns:
        The bound, a share of n.
    """
    points = _points(least, distribution.most)
    above, below = _error_parts(distribution, points, _real(noise))
    gaps = np.diff(points)
    between = ((above[1:] + below[:-1] + gaps) / points[:-1])[gaps > 1]
    return max(float(((above + below) / points).max()), float(between.max(initial=0)))


@dataclass(frozen=True)
class ErrorTarget:
    """Required accuracy: E|estimate - n| <= relative * n for n from `least` to `most`.

    Attributes:
        relative: The expected error as a share of n, above 0 and at most 1.
        least: The least n, at least 1.
        most: The largest n, up to `MOST_COUNT`.
    Raises:
        ValueError: A number is out of range.
    """

    relative: float
    least: int
    most: int

    def __post_init__(self) -> None:
        if not 0 < self.relative <= 1 or not 1 <= self.least <= self.most <= MOST_COUNT:
            raise ValueError(
                "a relative error is above 0 and at most 1, from a count of at least 1 to a larger one, at "
                f"most {MOST_COUNT}"
            )

    def met_by(self, distribution: ShiftedLog, noise: "Coins | RealNoise") -> bool:
        """Return whether `worst_relative_error` keeps to this target.

        Args:
            distribution: The logarithm.
            noise: The noise.
        Returns:
            True if the worst relative error is at most `relative`.
        """
        return worst_relative_error(distribution, self.least, noise) <= self.relative


@lru_cache(maxsize=32)
def plan_logarithm(
    target: ErrorTarget,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    family: NoiseFamily | None = None,
) -> tuple[ShiftedLog, Fraction]:
    """Choose the logarithm that protects large groups best within an error.

    Computes: the offset is the least power of 2 with which a record in a small group spends at most epsilon.
    With this offset, noise is as large as the target allows. An offset above `most` amounts to plain noise.

    Args:
        target: The required accuracy.
        neighbors: Whom the noise protects.
        epsilon: The most that a record of a small group may spend, above 0.
        delta: The delta of the release, above 0 and below 1.
        family: The family of the noise; None: the one for a unit's epsilon.
    Returns:
        The logarithm, and the epsilon that its release is charged.
    Raises:
        ValueError: Not even plain noise reaches the target.
    """
    reached = float("inf")
    last = target.most.bit_length()
    for power in range(last + 1):
        distribution = ShiftedLog(1 << power, target.most)
        if epsilon < 4 * distribution.first_step * MIN_EPSILON:  # too little per unit of the logarithm
            continue
        release = logarithms(2, distribution.first_step)
        unit = epsilon / moves_of(release, neighbors).units
        if power < last and not target.met_by(distribution, _ideal_noise(unit, family)):
            continue
        least = _least_share(target, distribution, unit, family)
        for share in range(least, _SHARES + 1):  # real coins err slightly more than ideal ones
            charged = epsilon * Fraction(share, _SHARES)
            coins = plan_noise(release, neighbors, charged, delta, family).coins
            reached = worst_relative_error(distribution, target.least, coins)
            if reached <= target.relative:
                return distribution, charged
    raise ValueError(
        f"a relative error of {target.relative:g} from {target.least} records on cannot be reached; "
        f"{reached:.3g} can"
    )


def _least_share(
    target: ErrorTarget, distribution: ShiftedLog, unit: Fraction, family: NoiseFamily | None
) -> int:
    """Return the least share of epsilon, in parts of 64 from a quarter up, with which ideal coins suffice."""

    def is_enough(share: int) -> bool:
        return target.met_by(distribution, _ideal_noise(unit * share / _SHARES, family))

    shares = range(_SHARES // 4, _SHARES)
    return shares.start + bisect_left(shares, True, key=is_enough)


@dataclass(frozen=True)
class RealNoise:
    """Joint noise in floats.

    Attributes:
        chances: The probability of each bit of the magnitude G, lowest first.
        chance_of_sign: The probability of either sign.
        least: The error's size where G = 0; else it is `least` + G.
    """

    chances: Sequence[float]
    chance_of_sign: float
    least: float


def _real(noise: Coins | RealNoise) -> RealNoise:
    if isinstance(noise, RealNoise):
        return noise
    least = 0.5
    if isinstance(noise, SymmetricCoins):
        least = 1.0
    chances = [float(coin.probability) for coin in coins_of_magnitude(noise)]
    return RealNoise(chances, float(chance_of_sign(noise)), least)


def _ideal_noise(epsilon: Fraction, family: NoiseFamily | None) -> RealNoise:
    """Return noise with a geometric magnitude of ratio e^-epsilon, of bits with odds above e^-64."""
    odds = takewhile(lambda x: x <= 64, (epsilon * 2**i for i in range(MAX_COINS + 1)))
    chances = [float(1 / (1 + exp_bounds(x)[0])) for x in odds]
    if (family or family_for(epsilon)) is NoiseFamily.SIGNED:
        return RealNoise(chances, chance_of_sign=0.5, least=0.5)
    return RealNoise(chances, chance_of_sign=float(1 / (1 + exp_bounds(epsilon)[0])), least=1.0)


def _points(least: int, most: int) -> Floats:
    points = [
        np.arange(max(least, 1 << power), min(2 << power, most + 1), max(1, (1 << power) // _POINTS))
        for power in range(least.bit_length() - 1, most.bit_length())
    ]
    return np.unique(np.concatenate([*points, [most]])).astype(np.float64)


def _error_parts(distribution: ShiftedLog, counts: Floats, noise: RealNoise) -> tuple[Floats, Floats]:
    """Return E max(estimate - n, 0) and E max(n - estimate, 0) at each count.

    The estimate is a straight line per power of 2, so the noise's mass and mean between its ends suffice.
    """
    unit = float(1 << distribution.bits)
    lines = distribution.bits - distribution.lowest
    z = distribution.value(counts)
    ends = unit * np.arange(lines + 1)
    # The estimate stays within the outermost ends.
    ends[0] = distribution.value(0)
    ends[-1] = distribution.value(distribution.most)
    parts = []
    for sign in (1.0, -1.0):  # the noise's sign: the estimate is that of z + sign * (G + least)
        order = ends if sign > 0 else ends[::-1]
        cuts = [np.maximum(np.ceil(sign * (end - z) - noise.least), 0.0) for end in order]
        below = [_mass_and_mean_below(noise.chances, cut) for cut in cuts]
        total = (1 - below[-1][0]) * ((distribution.most if sign > 0 else 0.0) - counts)
        for line, (first, last) in enumerate(pairwise(below)):
            power = line if sign > 0 else lines - 1 - line
            width = 2.0 ** (power + distribution.lowest)
            mass = last[0] - first[0]
            mean = last[1] - first[1]
            at_least = width * (1 - power + (z + sign * noise.least) / unit) - distribution.offset
            total += (at_least - counts) * mass + sign * width / unit * mean
        parts.append(sign * total * noise.chance_of_sign)
    return parts[0], parts[1]


def _mass_and_mean_below(bits: Sequence[float], ends: Floats) -> tuple[Floats, Floats]:
    """Return P(G < n) and E[G; G < n] of the noise's magnitude G for whole n >= 0.

    Computes: G < n if some bit of G is 0 where n's is 1, and all higher bits are equal. From the highest bit
    down, each bit adds the case that it is this one.
    """
    chances = list(bits)
    n = np.minimum(ends, float(1 << len(chances))).astype(np.int64)
    chances.append(0.0)  # the chance of a bit above all others, which n has if all of G is below n
    mass = np.zeros(n.shape)
    mean = np.zeros(n.shape)
    equal = np.ones(n.shape)  # the probability that all bits so far are equal
    prefix = np.zeros(n.shape)  # n's bits so far
    rest = float(sum((1 << i) * p for i, p in enumerate(chances)))
    for i in reversed(range(len(chances))):
        p = chances[i]
        rest -= (1 << i) * p  # the mean of the bits below
        is_set = (n >> i & 1).astype(bool)
        part = np.where(is_set, equal * (1 - p), 0.0)
        mass += part
        mean += part * (prefix + rest)
        equal *= np.where(is_set, p, 1 - p)
        prefix += np.where(is_set, float(1 << i), 0.0)
    return mass, mean
