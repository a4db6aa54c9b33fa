"""Sums of independent noises of one release: their exact distribution on a grid, and its quantiles.

Masses come from the coins exactly and are added and multiplied as floats, all of them positive, so that
every tail is right within a relative 10^-9, by which quantiles are taken more strictly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from protocols.circuits.coins import Coin
from protocols.noise.truncated import probability_mass

Floats = npt.NDArray[np.float64]

_FINE_BITS = 10  # bits of a noise's magnitude that the grid tells apart
_CUT = 1e-10  # mass that one convolution may drop, on either side
_TOLERANCE = 1e-9
_GRID = 2048  # cells of the grid on which sums with different factors are brought together


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


@lru_cache(maxsize=64)
def noise_sum(coins: tuple[Coin, ...], terms: int, positive: bool = False) -> Law:
    """Return the law of a sum of `terms` noises X + 1/2, or of their positive parts.

    Computes: above 10 bits of magnitude the lowest are dropped, which are independent of the others: what
    they can do is the slack.
    Guarantees: a quantile is never below the exact one.  [test: tests/protocols/test_sums.py]
    """
    low = max(0, len(coins) - _FINE_BITS)
    mass = probability_mass(coins[low:])
    magnitudes = np.array([float(mass[g]) for g in range(len(mass) // 2)])
    unit = float(1 << low)
    if positive:  # 0, or (g + 1/2) units
        masses = np.zeros(2 * magnitudes.size)
        masses[0], masses[1::2] = 0.5, magnitudes
        one = Law(0.0, unit / 2, masses, slack=0.0 if low == 0 else unit / 2)
    else:
        masses = np.concatenate([magnitudes[::-1], magnitudes])
        one = Law((0.5 - magnitudes.size) * unit, unit, masses, slack=0.0 if low == 0 else unit / 2)
    return repeated(one, terms)


def repeated(law: Law, terms: int) -> Law:
    """Return the law of the sum of `terms` independent variables of this law."""
    return _times(_cut(law), terms)


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
        total = _cut(_added(total, rounded))
    return total


def _times(law: Law, terms: int) -> Law:
    if terms == 1:
        return law
    half = _times(law, terms // 2)
    doubled = _cut(_added(half, half))
    return _cut(_added(doubled, law)) if terms % 2 else doubled


def _added(one: Law, other: Law) -> Law:
    return Law(
        one.start + other.start,
        one.step,
        np.convolve(one.masses, other.masses),
        one.lost + other.lost,
        one.slack + other.slack,
    )


def _cut(law: Law) -> Law:
    """Drop the outermost masses."""
    first = int(np.searchsorted(np.cumsum(law.masses), _CUT))
    last = law.masses.size - int(np.searchsorted(np.cumsum(law.masses[::-1]), _CUT))
    return Law(law.start + first * law.step, law.step, law.masses[first:last], law.lost + 2 * _CUT, law.slack)
