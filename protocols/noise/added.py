"""What is added to a revealed value: one joint noise, from coins, or the sum of the parties' own; or several.

`offset` is what makes it right on average; errors are those of value + offset. Sums of errors are on a grid:
masses are added and multiplied as floats, all of them positive, so that every tail is right within a relative
10^-9, by which quantiles are taken more strictly.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

import numpy as np

from protocols.arrays import Floats, Integers
from protocols.circuits.coins import Coin
from protocols.noise import truncated
from protocols.noise.tables import BITS, OwnNoise
from protocols.noise.truncated import probability_mass

_FINE_BITS = 10  # of a magnitude that the grid of a sum tells apart
_PLACES = 2048  # of the grid of a sum
_CUT = 1e-10  # mass that one convolution may drop, on either side
_TOLERANCE = 1e-9
_GRID = 2048  # cells of the grid on which sums with different factors are brought together

T = TypeVar("T")

Single = tuple[Coin, ...] | OwnNoise


@dataclass(frozen=True)
class Several:
    """What is in a sum of revealed values: their noises, all independent."""

    each: tuple[Single, ...]


Noise = Single | Several


def singles(noise: Noise) -> tuple[Single, ...]:
    """Return the independent noises that it is the sum of."""
    return noise.each if isinstance(noise, Several) else (noise,)


def offset(noise: Noise) -> float:
    """Return minus the noise's mean."""
    return sum(0.0 if isinstance(one, OwnNoise) else 0.5 for one in singles(noise))


def smallest(noise: Noise) -> int:
    """Return the smallest value of the noise: by the mirror image, whose centre is minus the offset."""
    return -largest(noise) - round(2 * offset(noise))


def largest(noise: Noise) -> int:
    """Return the largest value of the noise."""
    return sum(
        one.largest if isinstance(one, OwnNoise) else truncated.largest_noise(one) for one in singles(noise)
    )


def mean_square_error(noise: Noise) -> Fraction:
    """Return the mean square error, exactly."""
    errors = (
        one.mean_square_error if isinstance(one, OwnNoise) else truncated.mean_square_error(one)
        for one in singles(noise)
    )
    return sum(errors, Fraction(0))


def error_bound(noise: Noise, failure: Fraction) -> Fraction:
    """Return the least t such that the error is beyond it with probability at most `failure`, exactly.

    Of several noises a t that is not below it: both sides are alike, and `noise_sum` bounds one.
    """
    if isinstance(noise, Several):
        return Fraction(noise_sum(noise, 1).quantile(float(failure) / 2))
    if isinstance(noise, OwnNoise):
        return noise.error_bound(failure)
    return truncated.error_bound(noise, failure)


@dataclass(frozen=True)
class Law:
    """A discrete distribution on an even grid.

    Attributes: start, step: of the grid; masses: of start + i step; lost: mass that is not there, which
    counts as beyond every quantile; slack: how far the sum may be from what stands for it on the grid.
    """

    start: float
    step: float
    masses: Floats
    lost: float = 0.0
    slack: float = 0.0

    @property
    def values(self) -> Floats:
        """The grid's points, shape as `masses`."""
        grid: Floats = self.start + self.step * np.arange(self.masses.size, dtype=np.float64)
        return grid

    def above(self, points: Floats) -> Floats:
        """Return P(on the grid, > point) for each point."""
        beyond = np.concatenate([np.cumsum(self.masses[::-1])[::-1], [0.0]])
        first = np.floor((points - self.start) / self.step) + 1
        result: Floats = beyond[np.clip(first, 0, self.masses.size).astype(np.int64)]
        return result

    def quantile(self, failure: float) -> float:
        """Return t such that the sum is above t with probability at most `failure`.

        Raises: ValueError: more mass is lost than that.
        """
        beyond = np.concatenate([np.cumsum(self.masses[::-1])[::-1][1:], [0.0]])
        allowed = failure * (1 - _TOLERANCE) - self.lost
        if allowed < 0:
            raise ValueError(f"mass of {self.lost:g} was dropped, more than a failure of {failure:g} allows")
        return float(self.values[np.argmax(beyond <= allowed)]) + self.slack


def repeated(law: Law, terms: int) -> Law:
    """Return the law of the sum of `terms` independent variables of this law."""
    return repeated_sum(_cut(law), terms, _added)


def weighted_sum(laws: Sequence[Law], factors: Sequence[float]) -> Law:
    """Return the law of the sum of independent variables, each times a factor >= 0.

    Computes: on a common grid, whose rounding is added to the slack.
    """
    width = sum(f * law.step * law.masses.size for law, f in zip(laws, factors, strict=True))
    step = width / _GRID
    total = Law(0.0, step, np.ones(1))
    for law, factor in zip(laws, factors, strict=True):
        places = np.round(factor * law.values / step).astype(np.int64)
        masses = np.zeros(int(places.max() - places.min()) + 1)
        np.add.at(masses, places - places.min(), law.masses)
        rounded = Law(places.min() * step, step, masses, law.lost, factor * law.slack + step / 2)
        total = _added(total, rounded)
    return total


def repeated_sum(one: T, terms: int, added: Callable[[T, T], T]) -> T:
    """Add up `terms` >= 1 times the same, by doubling."""
    if terms == 1:
        return one
    half = repeated_sum(one, terms // 2, added)
    doubled = added(half, half)
    return added(doubled, one) if terms % 2 else doubled


def _added(one: Law, other: Law) -> Law:
    masses, lost = np.convolve(one.masses, other.masses), one.lost + other.lost
    return _cut(Law(one.start + other.start, one.step, masses, lost, one.slack + other.slack))


def _cut(law: Law) -> Law:
    """Drop the outermost masses."""
    first = int(np.searchsorted(np.cumsum(law.masses), _CUT))
    last = law.masses.size - int(np.searchsorted(np.cumsum(law.masses[::-1]), _CUT))
    return Law(law.start + first * law.step, law.step, law.masses[first:last], law.lost + 2 * _CUT, law.slack)


@lru_cache(maxsize=64)
def noise_sum(noise: Noise, terms: int, positive: bool = False) -> Law:
    """Return the law of a sum of `terms` independent errors, or of their positive parts.

    Guarantees: a quantile is never below the exact one.
    [test: tests/protocols/test_added_noise.py, tests/protocols/test_sums.py]
    """
    if isinstance(noise, Several):
        law = _errors_of_several(noise, positive)
    elif isinstance(noise, OwnNoise):
        law = _errors_of_tables(noise, positive)
    else:
        law = _errors_of_coins(noise, positive)
    return repeated(law, terms)


def simulated_noise(noise: Noise, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw independent errors, in the clear: for what-ifs and benchmarks, it protects nobody."""
    if isinstance(noise, Several):
        return sum((simulated_noise(each, rng, shape) for each in noise.each), np.zeros(shape))
    if isinstance(noise, OwnNoise):
        return np.asarray(rng.choice(_values(noise), shape, p=_masses(noise)), dtype=np.float64)
    magnitude = np.full(shape, 0.5)
    for i, coin in enumerate(noise):
        magnitude += (rng.random(shape) < float(coin.probability)) * float(1 << i)
    return np.where(rng.random(shape) < 0.5, magnitude, -magnitude)


def _errors_of_coins(coins: tuple[Coin, ...], positive: bool) -> Law:
    """Return the law of an error, or of its positive part.

    Computes: above 10 bits of magnitude the lowest are dropped, which are independent of the others: what
    they can do is the slack.
    """
    low = max(0, len(coins) - _FINE_BITS)
    magnitudes = np.array([float(p) for g, p in probability_mass(coins[low:]).items() if g >= 0])
    unit = float(1 << low)
    slack = unit / 2 if low else 0.0
    if positive:  # 0, or (g + 1/2) units
        halves = np.column_stack([np.zeros(magnitudes.size), magnitudes]).ravel()
        halves[0] = 0.5
        return Law(0.0, unit / 2, halves, slack=slack)
    masses = np.concatenate([magnitudes[::-1], magnitudes])
    return Law((0.5 - magnitudes.size) * unit, unit, masses, slack=slack)


def _errors_of_tables(own: OwnNoise, positive: bool) -> Law:
    """Return the law of an error, or of its positive part; over 2,048 values are put on a coarser grid."""
    errors, masses = _values(own), _masses(own)
    width = -(-masses.size // _PLACES)
    places = np.rint((np.maximum(errors, 0) if positive else errors) / width).astype(np.int64)
    grid = np.bincount(places - places.min(), masses).astype(np.float64)
    return Law(float(places.min() * width), width, grid, slack=0.0 if width == 1 else width / 2)


def _errors_of_several(several: Several, positive: bool) -> Law:
    """Return the law of the sum of all these errors, on one grid, or of its positive part."""
    laws = [noise_sum(each, terms) for each, terms in Counter(several.each).items()]
    found = weighted_sum(laws, [1.0] * len(laws))
    if not positive:
        return found
    above = found.values > found.step / 2  # of a grid that 0 is on
    return replace(found, start=0.0, masses=np.append(found.masses[~above].sum(), found.masses[above]))


def _values(own: OwnNoise) -> Integers:
    return np.arange(-own.largest, own.largest + 1)


def _masses(own: OwnNoise) -> Floats:
    """Return the mass of each of these values of the sum of all parties' noises."""
    return np.array([mass / (1 << BITS * own.parties) for mass in own.summed(own.parties)])
