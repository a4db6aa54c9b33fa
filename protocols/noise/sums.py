"""Sums of independent variables: their distribution on a grid, and its quantiles.

Masses are added and multiplied as floats, all of them positive, so that every tail is right within a relative
10^-9, by which quantiles are taken more strictly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from protocols.arrays import Floats

T = TypeVar("T")

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
