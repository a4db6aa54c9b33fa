"""Noise of a revealed value: joint, the sum of the parties' own samples, or several of these.

An error is that of value + `offset`, which is unbiased. Sums of errors have float masses on a grid; quantiles
allow for a relative error of 10^-9.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil, prod
from typing import Protocol, TypeVar

import gmpy2
import numpy as np

from fairshares.protocols.arrays import Floats, Integers, Words
from fairshares.protocols.circuits.coins import (
    MAX_COINS,
    MAX_EPSILON,
    Coin,
    Coins,
    SymmetricCoins,
    chance_of_sign,
    coins_of_magnitude,
    exp_bounds,
)
from fairshares.protocols.circuits.noise import OWN_ARGUMENTS
from fairshares.protocols.exact_numbers import stated_number
from fairshares.protocols.json_values import JsonObject, JsonValue
from fairshares.protocols.noise import truncated
from fairshares.protocols.noise.truncated import magnitude_mass

BITS = 128  # a table's probabilities are multiples of 2^-128
MAX_EDGE = 1 << 16  # a table has 131,073 entries at most

MAX_COIN_BITS = 1024  # bits of a coin in a file
MAX_PARTIES = 16
_LARGEST = {"edge": MAX_EDGE, "parties": MAX_PARTIES, "honest": MAX_PARTIES}  # the largest numbers in a file

_ONE = 1 << 256  # fixed point for a distribution's terms, before they are rounded
_CHUNK = 1 << 16  # draws at a time
_FINE_BITS = 10  # bits of a magnitude on the grid of a sum
_PLACES = 2048  # places on the grid of a sum
_CUT = 1e-10  # mass that a convolution may drop on each side
_TOLERANCE = 1e-9
_GRID = 4096  # cells of the common grid of several noises

T = TypeVar("T")


class NoiseDistribution(StrEnum):
    """Approximate distribution of the sum of the honest parties' noises."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class LargeTableError(ValueError):
    """A party's noise that no table holds.

    Args:
        edge: The largest noise that the table would have.
        or_else: What needs a smaller table, besides more ε, for the message.
    """

    def __init__(self, edge: int, or_else: str = "") -> None:
        self.edge = edge
        ways_out = f"more ε, or {or_else}," if or_else else "more ε"
        super().__init__(
            f"a party's noise would need a table up to {edge}, beyond {MAX_EDGE}; {ways_out} needs less"
        )


@dataclass(frozen=True)
class DistributedNoise:
    """Noise that each party draws for itself and adds before a value is revealed.

    Attributes:
        distribution: What the honest parties' noises add up to, approximately.
        rate: P(x) of the sum of the `honest` parties' noises is nearly proportional to e^(-rate |x|) for
            Laplace noise, and to e^(-rate x^2) for Gaussian noise.
        edge: The largest noise of a party; the smallest is its negative.
        parties: The number of parties.
        honest: How many of them are honest at least.
    """

    distribution: NoiseDistribution
    rate: Fraction
    edge: int
    parties: int
    honest: int

    def __post_init__(self) -> None:
        if not 0 < self.rate <= MAX_EPSILON or not 1 <= self.honest <= self.parties:
            raise ValueError(
                f"noise of {self.honest} honest parties of {self.parties} at a rate of {self.rate} is none"
            )
        if not 1 <= self.edge <= MAX_EDGE:
            raise LargeTableError(self.edge)

    @property
    def weights(self) -> tuple[int, ...]:
        """The probabilities P(-edge), .., P(edge) of one party's noise, times 2^128; symmetric.

        Computes: For Laplace noise, the difference of two negative binomials of shape 1 / honest with ratio
        e^-rate. For Gaussian noise, g^(x^2) with g = e^(-rate honest). Ratios are rounded up, and
        probabilities down; the rest goes to the value 0.

        Raises:
            ValueError: The probability of the edge is rounded down to 0.
        """
        return _weights(self.distribution, self.rate, self.edge, self.honest)

    def summed(self, terms: int) -> tuple[int, ...]:
        """Return the distribution of the sum of several parties' noises.

        Guarantees: exact.
        [test: tests/protocols/test_tables.py]

        Args:
            terms: The number of parties, at least 1.
        Returns:
            P(-terms edge), .., P(terms edge), times 2^(128 terms).
        """
        return _summed(self.weights, terms)

    def draw(self, n: int) -> Integers:
        """Draw noises of one party, from the operating system's randomness.

        Computes: inversion of a word of 128 bits, without branches. Memory accesses depend on the word.
        Guarantees: exact probabilities.
        [test: tests/protocols/test_tables.py]

        Args:
            n: How many are drawn.
        Returns:
            Secret noises of the party, shape (n,), from -edge to edge.
        """
        high, low = _cumulative(self.weights)
        steps = high.size.bit_length() - 1
        places = np.empty(n, dtype=np.int64)
        for start in range(0, n, _CHUNK):
            size = min(_CHUNK, n - start)
            words = np.frombuffer(os.urandom(size * BITS // 8), dtype=np.uint64).reshape(2, size)
            place = np.zeros(size, dtype=np.int64)
            for step in (1 << i for i in reversed(range(steps))):
                high_bound = high.take(place + (step - 1))
                low_bound = low.take(place + (step - 1))
                is_beyond = (words[0] > high_bound) | ((words[0] == high_bound) & (words[1] > low_bound))
                place += step * is_beyond
            places[start : start + size] = place
        return places - self.edge

    @property
    def mean_square_error(self) -> Fraction:
        """The mean square E[X^2] of all parties' sum, whose mean is 0; exact."""
        squares = sum(w * (i - self.edge) ** 2 for i, w in enumerate(self.weights))
        return Fraction(self.parties * squares, 1 << BITS)

    @property
    def largest(self) -> int:
        """The largest sum of all parties' noises."""
        return self.parties * self.edge

    @property
    def offset(self) -> float:
        """Minus the sum's mean, which is 0."""
        return 0.0

    def errors(self) -> "Distribution":
        """Return the distribution of all parties' sum."""
        exact = Distribution(-self.largest, 1.0, self._masses)
        width = ceil(exact.masses.size / _PLACES)
        if width == 1:
            return exact
        return _on_grid(exact, width)

    def simulated(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw independent sums of all parties' noises in the clear, for what-ifs: they protect nobody.

        Args:
            rng: The source of randomness.
            shape: The shape of the result.
        Returns:
            Sums of noises.
        """
        return rng.choice(np.arange(-self.largest, self.largest + 1.0), shape, p=self._masses)

    @property
    def _masses(self) -> Floats:
        """The probabilities of all parties' sum, from the smallest value on."""
        return np.array([mass / (1 << BITS * self.parties) for mass in self.summed(self.parties)])

    def error_bound(self, failure: Fraction) -> Fraction:
        """Return the least t >= 0 with P(|all parties' sum| > t) <= failure, exactly.

        Args:
            failure: The probability that the sum is larger, above 0.
        Returns:
            The bound t.
        """
        allowed = failure * (1 << BITS * self.parties) / 2
        outer = accumulate(self.summed(self.parties))  # from the lowest value inwards
        inside = sum(1 for mass in outer if mass <= allowed)
        return Fraction(max(0, self.largest - inside))

    def to_json(self) -> dict[str, JsonValue]:
        """Return the parameters, which determine the table."""
        return {**asdict(self), "distribution": str(self.distribution), "rate": str(self.rate)}

    def arguments(self) -> dict[str, object]:
        """Return the program's arguments for this noise, by name."""
        return dict(zip(OWN_ARGUMENTS, (self.distribution, self.rate, self.edge), strict=True))

    @classmethod
    def from_json(cls, fields: JsonObject) -> "DistributedNoise":
        """Return the noise with these parameters.

        Args:
            fields: The parameters, as `to_json` writes them; anybody may have written them.
        Returns:
            The noise.
        Raises:
            ValueError: A parameter is out of range.
            KeyError: A parameter is missing.
            TypeError: A parameter is of another type.
        """
        return cls(
            distribution=NoiseDistribution(str(fields["distribution"])),
            rate=stated_number(fields["rate"]),
            edge=_whole_in(fields, "edge"),
            parties=_whole_in(fields, "parties"),
            honest=_whole_in(fields, "honest"),
        )


def coins_in(listed: JsonValue) -> tuple[Coin, ...]:
    """Read the coins that a file lists.

    [test: tests/protocols/test_added_noise.py]

    Args:
        listed: Pairs of numerator and number of bits.
    Returns:
        The coins.
    Raises:
        ValueError: A pair is no coin, or has more than `MAX_COIN_BITS` bits.
        TypeError: The list has values of another type.
    """
    if not isinstance(listed, list) or len(listed) > MAX_COINS:
        raise ValueError(f"coins are a list of at most {MAX_COINS}")
    coins = []
    for coin in listed:
        if not isinstance(coin, list) or len(coin) != 2:
            raise ValueError("a coin is a pair of numerator and bits")
        numerator, bits = coin
        if type(numerator) is not int or type(bits) is not int or not 1 <= bits <= MAX_COIN_BITS:
            raise ValueError(f"a coin has a whole numerator, and 1 to {MAX_COIN_BITS} bits")
        coins.append(Coin(numerator, bits))
    return tuple(coins)


def joint_noise_in(fields: JsonObject) -> Coins:
    """Read joint noise from the fields of a file.

    [test: tests/protocols/test_added_noise.py]

    Args:
        fields: The field `coins`, and `nonzero` if the noise is symmetric.
    Returns:
        The coins.
    Raises:
        ValueError: A pair is no coin.
        TypeError: A field is of another type.
        KeyError: The file has no coins.
    """
    magnitude = coins_in(fields["coins"])
    if "nonzero" not in fields:
        return magnitude
    (nonzero,) = coins_in([fields["nonzero"]])
    return SymmetricCoins(magnitude, nonzero)


def _whole_in(fields: JsonObject, name: str) -> int:
    number = fields[name]
    if type(number) is not int or not 1 <= number <= _LARGEST[name]:
        raise ValueError(f"{name} of noise is a whole number from 1 to {_LARGEST[name]}")
    return number


@lru_cache(maxsize=16)
def _weights(distribution: NoiseDistribution, rate: Fraction, edge: int, honest: int) -> tuple[int, ...]:
    """Return `DistributedNoise.weights`; see there."""
    if distribution is NoiseDistribution.LAPLACE:
        half = _laplace_terms(_exp_up(rate), edge, honest)
    else:
        half = _gaussian_terms(_exp_up(rate * honest), edge)
    total = 2 * sum(half) - half[0]
    above_zero = [(mass << BITS) // total for mass in half[1:]]
    if not above_zero[-1]:
        raise ValueError(f"a value of {edge} would have a probability below 2^-{BITS}")
    weights = above_zero[::-1]
    weights.append((1 << BITS) - 2 * sum(above_zero))
    weights.extend(above_zero)
    return tuple(weights)


def _laplace_terms(ratio: int, edge: int, honest: int) -> list[int]:
    """Return numbers proportional to P(0), .., P(edge) of a difference of two negative binomials.

    Args:
        ratio: The ratio of the negative binomials, times `_ONE`.
        edge: The largest value.
        honest: 1 / the shape of the negative binomials.
    """
    terms = [_ONE]
    for k in range(2 * edge):
        terms.append(terms[-1] * ratio * (k * honest + 1) // (_ONE * (k + 1) * honest))
    differences = convolution([terms, terms[::-1]])  # differences from -2 edge on
    return differences[2 * edge : 3 * edge + 1]


def _gaussian_terms(ratio: int, edge: int) -> list[int]:
    """Return g^(x^2) for x = 0, .., edge, times `_ONE`.

    Args:
        ratio: g times `_ONE`.
        edge: The largest x.
    """
    terms = [_ONE]
    step = ratio  # the factor from x to x + 1: g^(2x + 1)
    square = ratio * ratio // _ONE
    for _ in range(edge):
        terms.append(terms[-1] * step // _ONE)
        step = step * square // _ONE
    return terms


def _exp_up(rate: Fraction) -> int:
    return ceil(_ONE / exp_bounds(rate)[0])


@lru_cache(maxsize=16)
def _summed(weights: tuple[int, ...], terms: int) -> tuple[int, ...]:
    return tuple(convolution([weights] * terms))


def convolution(factors: Sequence[Sequence[int]]) -> list[int]:
    """Return the exact convolution of sequences of integers.

    Args:
        factors: The sequences, of integers that are not negative.
    Returns:
        The coefficients of the product of the polynomials that the sequences are the coefficients of.
    """
    width = prod(map(sum, factors)).bit_length() + 1
    product = prod(gmpy2.pack(list(factor), width) for factor in factors)
    coefficients = [int(value) for value in gmpy2.unpack(product, width)]
    length = sum(map(len, factors)) - len(factors) + 1
    return coefficients + [0] * (length - len(coefficients))


@lru_cache(maxsize=16)
def _cumulative(weights: tuple[int, ...]) -> tuple[Words, Words]:
    """Return cumulative weights less 1, padded to a power of 2: their high words, and their low words."""
    sums = [min(total, 1 << BITS) - 1 for total in accumulate(weights)]
    sums += [(1 << BITS) - 1] * ((1 << len(sums).bit_length()) - len(sums))
    word = (1 << 64) - 1
    high = np.array([total >> 64 for total in sums], dtype=np.uint64)
    low = np.array([total & word for total in sums], dtype=np.uint64)
    return high, low


Single = Coins | DistributedNoise
"""Joint noise by its coins, or the sum of the parties' own noises."""


@dataclass(frozen=True)
class JointNoise:
    """The law of the noise that the parties make together from coins. Its mean is -1/2 or 0.

    Attributes:
        coins: The coins of the noise.
    """

    coins: Coins

    @property
    def offset(self) -> float:
        """Minus the mean."""
        return -truncated.twice_center(self.coins) / 2

    @property
    def largest(self) -> int:
        """The largest value."""
        return truncated.largest_noise(self.coins)

    @property
    def mean_square_error(self) -> Fraction:
        """The mean squared distance from the mean, exactly."""
        return truncated.mean_square_error(self.coins)

    def error_bound(self, failure: Fraction) -> Fraction:
        """Return the least t >= 0 with P(|X - mean| > t) <= failure, exactly.

        Args:
            failure: The probability that the error is larger, above 0.
        Returns:
            The bound t.
        """
        return truncated.error_bound(self.coins, failure)

    def errors(self) -> "Distribution":
        """Return the distribution of the error."""
        magnitudes, unit, slack = self._magnitudes()
        at_zero: list[float] = []
        start = (0.5 - magnitudes.size) * unit
        if isinstance(self.coins, SymmetricCoins):
            at_zero = [float(1 - self.coins.nonzero.probability)]
            start = -magnitudes.size * unit
        masses = np.concatenate([magnitudes[::-1], at_zero, magnitudes])
        return Distribution(start, unit, masses, slack=slack)

    def simulated(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw independent errors in the clear, for what-ifs: they protect nobody.

        Args:
            rng: The source of randomness.
            shape: The shape of the result.
        Returns:
            Errors, of mean 0.
        """
        least = 0.5
        if isinstance(self.coins, SymmetricCoins):
            least = 1.0
        magnitude = np.full(shape, least)
        for i, coin in enumerate(coins_of_magnitude(self.coins)):
            magnitude += (rng.random(shape) < float(coin.probability)) * float(1 << i)
        drawn = np.where(rng.random(shape) < 0.5, magnitude, -magnitude)
        if isinstance(self.coins, SymmetricCoins):
            drawn *= rng.random(shape) < float(self.coins.nonzero.probability)
        return drawn

    def _magnitudes(self) -> tuple[Floats, float, float]:
        """Return the masses of g >= 0 by its higher bits on one side, their unit, and the slack.

        Computes: the lower bits of signed noise are taken as their middle, and the bits of symmetric noise as
        all ones. So an error moves by at most half a unit, or by one.
        """
        magnitude = coins_of_magnitude(self.coins)
        lower_bits = max(0, len(magnitude) - _FINE_BITS)
        chance = chance_of_sign(self.coins)
        masses = [float(chance * mass) for mass in magnitude_mass(magnitude[lower_bits:])]
        unit = float(1 << lower_bits)
        slack = 0.0
        if lower_bits:
            slack = unit if isinstance(self.coins, SymmetricCoins) else unit / 2
        return np.array(masses), unit, slack


@dataclass(frozen=True)
class Several:
    """Independent noises in a sum of revealed values.

    Attributes:
        each: The noises.
    """

    each: tuple[Single, ...]

    @property
    def laws(self) -> tuple["NoiseLaw", ...]:
        """The laws of the single noises."""
        return tuple(law_of(single) for single in self.each)

    @property
    def offset(self) -> float:
        """Minus the sum's mean."""
        return sum(law.offset for law in self.laws)

    @property
    def largest(self) -> int:
        """The largest sum."""
        return sum(law.largest for law in self.laws)

    @property
    def mean_square_error(self) -> Fraction:
        """The sum's mean square error, exactly."""
        return sum((law.mean_square_error for law in self.laws), Fraction(0))

    def error_bound(self, failure: Fraction) -> Fraction:
        """Return an upper bound of the least t with P(|error| > t) <= failure.

        Args:
            failure: The probability that the error is larger, above 0.
        Returns:
            The bound.
        """
        return Fraction(noise_sum(self, 1).quantile(float(failure) / 2))

    def errors(self) -> "Distribution":
        """Return the distribution of the sum's error."""
        parts = [noise_sum(single, terms) for single, terms in Counter(self.each).items()]
        whole_range = sum(part.step * part.masses.size for part in parts)
        step = whole_range / _GRID
        total = Distribution(0.0, step, np.ones(1))
        for part in parts:
            total = _added(total, _on_grid(part, step))
        return total

    def simulated(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw independent errors in the clear, for what-ifs: they protect nobody.

        Args:
            rng: The source of randomness.
            shape: The shape of the result.
        Returns:
            Errors, of mean 0.
        """
        return sum((law.simulated(rng, shape) for law in self.laws), np.zeros(shape))


Noise = Single | Several


class NoiseLaw(Protocol):
    """The law of any noise in a revealed value, or in a sum of revealed values."""

    @property
    def offset(self) -> float:
        """Minus the mean; an error is a value of the noise plus this."""

    @property
    def largest(self) -> int:
        """The largest value."""

    @property
    def mean_square_error(self) -> Fraction:
        """The mean of the squared error, exactly."""

    def error_bound(self, failure: Fraction) -> Fraction:
        """Return the least t with P(|error| > t) <= failure, or an upper bound of t.

        Args:
            failure: The probability that the error is larger, above 0.
        Returns:
            The bound.
        """

    def errors(self) -> "Distribution":
        """Return the distribution of the error."""

    def simulated(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw independent errors in the clear, for what-ifs: they protect nobody.

        Args:
            rng: The source of randomness.
            shape: The shape of the result.
        Returns:
            Errors, of mean 0.
        """


def law_of(noise: Noise) -> NoiseLaw:
    """Return a noise's law; coins alone stand for joint noise.

    Args:
        noise: The noise.
    Returns:
        Its law.
    """
    if isinstance(noise, DistributedNoise | Several):
        return noise
    return JointNoise(noise)


def offset(noise: Noise) -> float:
    """Return minus the noise's mean.

    Args:
        noise: The noise.
    Returns:
        The number that a value of the noise needs to be unbiased.
    """
    return law_of(noise).offset


def smallest(noise: Noise) -> int:
    """Return the smallest value of the noise.

    Args:
        noise: The noise.
    Returns:
        The value, a whole number below 0.
    """
    return -largest(noise) - round(2 * offset(noise))


def largest(noise: Noise) -> int:
    """Return the largest value of the noise.

    Args:
        noise: The noise.
    Returns:
        The value, a whole number.
    """
    return law_of(noise).largest


def mean_square_error(noise: Noise) -> Fraction:
    """Return the mean square error, exactly.

    Args:
        noise: The noise.
    Returns:
        The mean squared distance from the mean.
    """
    return law_of(noise).mean_square_error


def error_bound(noise: Noise, failure: Fraction) -> Fraction:
    """Return the least t with P(|error| > t) <= failure; for several noises an upper bound of t.

    Args:
        noise: The noise.
        failure: The probability that the error is larger, above 0.
    Returns:
        The bound.
    """
    return law_of(noise).error_bound(failure)


@dataclass(frozen=True)
class Distribution:
    """A discrete distribution on an even grid.

    Attributes:
        start: The first value of the grid.
        step: The distance between neighboring values.
        masses: The probability of start + i step, for each i.
        lost: Mass that counts as beyond every quantile.
        slack: The most by which the grid moves a value.
    """

    start: float
    step: float
    masses: Floats
    lost: float = 0.0
    slack: float = 0.0

    @property
    def values(self) -> Floats:
        """The grid's points, shape as `masses`."""
        return np.asarray(self.start + self.step * np.arange(self.masses.size, dtype=np.float64))

    def above(self, points: Floats) -> Floats:
        """Return the probability that the grid's value is above each of several points.

        Args:
            points: The points.
        Returns:
            Probabilities, with the shape of the points.
        """
        beyond = np.concatenate([np.cumsum(self.masses[::-1])[::-1], [0.0]])
        first = np.floor((points - self.start) / self.step) + 1
        return np.asarray(beyond[np.clip(first, 0, self.masses.size).astype(np.int64)])

    def quantile(self, failure: float) -> float:
        """Return a number that the value exceeds with at most this probability.

        Args:
            failure: The probability.
        Returns:
            A quantile, never below the exact one.
        Raises:
            ValueError: More mass was lost than a probability of `failure` allows.
        """
        beyond = np.concatenate([np.cumsum(self.masses[::-1])[::-1][1:], [0.0]])
        allowed = failure * (1 - _TOLERANCE) - self.lost
        if allowed < 0:
            raise ValueError(f"mass of {self.lost:g} was dropped, more than a failure of {failure:g} allows")
        return float(self.values[np.argmax(beyond <= allowed)]) + self.slack


def repeated_sum(term: T, terms: int, added: Callable[[T, T], T]) -> T:
    """Return the sum of equal terms, by doubling.

    Args:
        term: A single term.
        terms: The number of terms, at least 1.
        added: A function that adds two sums.
    Returns:
        The sum.
    """
    if terms == 1:
        return term
    half = repeated_sum(term, terms // 2, added)
    doubled = added(half, half)
    if terms % 2:
        return added(doubled, term)
    return doubled


def _on_grid(distribution: Distribution, step: float) -> Distribution:
    """Return the distribution with each value moved to the nearest multiple of `step`."""
    places = np.rint(distribution.values / step).astype(np.int64)
    masses = np.bincount(places - places[0], distribution.masses).astype(np.float64)
    furthest = float(np.abs(places * step - distribution.values).max())
    return Distribution(
        start=float(places[0] * step),
        step=step,
        masses=masses,
        lost=distribution.lost,
        slack=distribution.slack + furthest,
    )


def _added(first: Distribution, second: Distribution) -> Distribution:
    """Return the distribution of the sum of two independent values on grids of the same step."""
    total = Distribution(
        start=first.start + second.start,
        step=first.step,
        masses=np.convolve(first.masses, second.masses),
        lost=first.lost + second.lost,
        slack=first.slack + second.slack,
    )
    return without_ends(total, _CUT)


def without_ends(distribution: Distribution, mass: float) -> Distribution:
    """Drop values at both ends, whose mass counts as lost.

    Args:
        distribution: The distribution.
        mass: The most mass that is dropped on each side.
    Returns:
        The distribution of the values that are left.
    """
    first = int(np.searchsorted(np.cumsum(distribution.masses), mass))
    last = distribution.masses.size - int(np.searchsorted(np.cumsum(distribution.masses[::-1]), mass))
    return Distribution(
        start=distribution.start + first * distribution.step,
        step=distribution.step,
        masses=distribution.masses[first:last],
        lost=distribution.lost + 2 * mass,
        slack=distribution.slack,
    )


@lru_cache(maxsize=64)
def noise_sum(noise: Noise, terms: int) -> Distribution:
    """Return the distribution of the sum of independent errors.

    Guarantees: a quantile is never below the exact one.
    [test: tests/protocols/test_added_noise.py]

    Args:
        noise: The noise of each term.
        terms: The number of terms, at least 1.
    Returns:
        The distribution.
    """
    return repeated_sum(without_ends(law_of(noise).errors(), _CUT), terms, _added)


def simulated_noise(noise: Noise, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw independent errors in the clear, for what-ifs: they protect nobody.

    Args:
        noise: The noise.
        rng: The source of randomness.
        shape: The shape of the result.
    Returns:
        Errors, of mean 0.
    """
    return law_of(noise).simulated(rng, shape)
