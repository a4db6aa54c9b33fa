"""What is added to a revealed value: one joint noise, from coins, or the sum of the parties' own; or several.

`offset` is what makes it right on average; errors are those of value + offset.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from protocols.circuits.coins import Coin
from protocols.noise import sums, truncated
from protocols.noise.tables import BITS, Floats, Integers, OwnNoise

_PLACES = 2048  # of the grid of a sum

Single = tuple[Coin, ...] | OwnNoise


@dataclass(frozen=True)
class Several:
    """What is in a sum of revealed values: their noises, all independent."""

    each: tuple[Single, ...]


Noise = Single | Several


def offset(noise: Noise) -> float:
    """Return minus the noise's mean."""
    if isinstance(noise, Several):
        return sum(map(offset, noise.each))
    return 0.0 if isinstance(noise, OwnNoise) else 0.5


def smallest(noise: Noise) -> int:
    """Return the smallest value of the noise."""
    if isinstance(noise, Several):
        return sum(map(smallest, noise.each))
    return -noise.largest if isinstance(noise, OwnNoise) else -1 - truncated.largest_noise(noise)


def largest(noise: Noise) -> int:
    """Return the largest value of the noise."""
    if isinstance(noise, Several):
        return sum(map(largest, noise.each))
    return noise.largest if isinstance(noise, OwnNoise) else truncated.largest_noise(noise)


def mean_square_error(noise: Noise) -> Fraction:
    """Return the mean square error, exactly."""
    if isinstance(noise, Several):
        return sum(map(mean_square_error, noise.each), Fraction(0))
    return noise.mean_square_error if isinstance(noise, OwnNoise) else truncated.mean_square_error(noise)


def error_bound(noise: Noise, failure: Fraction) -> Fraction:
    """Return the least t such that the error is beyond it with probability at most `failure`, exactly.

    Of several noises a t that is not below it: both sides are alike, and `noise_sum` bounds one.
    """
    if isinstance(noise, Several):
        return Fraction(noise_sum(noise, 1).quantile(float(failure) / 2))
    if isinstance(noise, OwnNoise):
        return noise.error_bound(failure)
    return truncated.error_bound(noise, failure)


@lru_cache(maxsize=64)
def noise_sum(noise: Noise, terms: int, positive: bool = False) -> sums.Law:
    """Return the law of a sum of `terms` independent errors, or of their positive parts.

    Computes: of own noise with over 2,048 values, errors rounded to multiples of a width; that is the slack.
    Several noises are brought onto one grid.
    Guarantees: a quantile is never below the exact one.  [test: tests/protocols/test_added_noise.py]
    """
    if isinstance(noise, Several):
        return sums.repeated(_law_of(noise, positive), terms)
    if not isinstance(noise, OwnNoise):
        return sums.noise_sum(noise, terms, positive)
    errors, found = _values(noise), _masses(noise)
    width = -(-found.size // _PLACES)
    places = np.rint((np.maximum(errors, 0) if positive else errors) / width).astype(np.int64)
    grid: Floats = np.bincount(places - places.min(), found).astype(np.float64)
    slack = 0.0 if width == 1 else width / 2
    return sums.repeated(sums.Law(float(places.min() * width), width, grid, slack=slack), terms)


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


def _law_of(several: Several, positive: bool) -> sums.Law:
    """Return the law of the sum of all these errors, or of its positive part."""
    laws = [noise_sum(each, terms) for each, terms in Counter(several.each).items()]
    found = sums.weighted_sum(laws, [1.0] * len(laws))
    if not positive:
        return found
    above = found.values > found.step / 2  # of a grid that 0 is on
    return replace(found, start=0.0, masses=np.append(found.masses[~above].sum(), found.masses[above]))


def _values(own: OwnNoise) -> Integers:
    return np.arange(-own.largest, own.largest + 1)


def _masses(own: OwnNoise) -> Floats:
    """Return the mass of each of these values of the sum of all parties' noises."""
    return np.array([mass / (1 << BITS * own.parties) for mass in own.summed(own.parties)])
