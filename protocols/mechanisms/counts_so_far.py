"""Counts so far, epoch by epoch, with one epsilon for all epochs: which of them each release counts.

Each epoch ends with one release, of the records of that epoch and of some before it. A count so far is the
sum of few releases, so its noise grows with their number, not with that of the epochs.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import cbrt

from protocols.guarantee import Guarantee, compose, weakest

MAX_HORIZON = 1000
_GRID = 100  # of shares: few different ones, each of which takes a design of noise, and no larger errors


@dataclass(frozen=True)
class Part:
    """What one epoch releases. Attributes: first: of the epochs that it counts, from 0; share: of epsilon."""

    first: int
    share: Fraction


@dataclass(frozen=True)
class Schedule:
    """What each of a number of epochs releases, fixed before the first: the horizon.

    Attributes: parts: by epoch; part t counts the epochs from its first to t, and has a share of epsilon and
    delta.
    Guarantees: no epoch is in parts whose shares exceed 1 in all, or there is no such schedule (ValueError).
    [test: tests/protocols/test_counts_so_far.py]
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        bad = any(not (0 <= part.first <= t and part.share > 0) for t, part in enumerate(self.parts))
        if not self.parts or bad or max(map(sum, self._shares)) > 1:
            raise ValueError("an epoch is released with more than all of epsilon, or a part is none")

    @property
    def shares(self) -> frozenset[Fraction]:
        """All shares, of which there are few."""
        return frozenset(part.share for part in self.parts)

    @cached_property
    def _shares(self) -> list[list[Fraction]]:
        """The shares of the parts that each epoch is in."""
        shares: list[list[Fraction]] = [[] for _ in self.parts]
        for t, part in enumerate(self.parts):
            for of_epoch in shares[part.first : t + 1]:
                of_epoch.append(part.share)
        return shares

    def to_json(self) -> list[tuple[int, str]]:
        """Return each part's first epoch and its share."""
        return [(part.first, str(part.share)) for part in self.parts]

    def total(self, spent: Callable[[Fraction], Guarantee]) -> Guarantee:
        """Return what all releases protect together. Args: spent: by a release, from its share.

        Computes: the largest sum over the parts that one epoch is in.
        Guarantees: theorem 16.  [test: tests/protocols/test_counts_so_far.py]
        """
        known = {share: spent(share) for share in self.shares}
        epochs = set(map(tuple, self._shares))
        return weakest(compose(known[share] for share in shares) for shares in epochs)

    def adds_up(self, epochs: int, lost: Container[int] = ()) -> tuple[list[int], list[int]]:
        """Return whose releases add up to the count after so many epochs, and which epochs are missing in it.

        Args: lost: the epochs that revealed nothing; a later part that counts one of them brings it back.
        """
        added: list[int] = []
        missing: list[int] = []
        t = epochs - 1
        while t >= 0:
            (missing if t in lost else added).append(t)
            t = t - 1 if t in lost else self.parts[t].first - 1
        return added, missing


@lru_cache(maxsize=8)
def best_schedule(horizon: int) -> Schedule:
    """Return the parts and shares whose counts so far have the least mean square error over all epochs.

    Computes: noise of share s has a variance as 1/s^2. Let g(r) be the least sum, over r epochs, of the
    variances of counts since these began, with all of epsilon for them: the first part counts l epochs, is in
    r - l + 1 counts, and leaves to the l - 1 inside it what it does not take. The best division of epsilon
    between variances a/x^2 and b/(1 - x)^2 has the sum (a^(1/3) + b^(1/3))^3.
    Guarantees: the least, within a thousandth, of all schedules whose parts do not overlap but for being
    inside one another.
    [test: tests/protocols/test_counts_so_far.py]
    Args: horizon: from 1 to `MAX_HORIZON`.
    """
    least, lengths = [0.0], [0]
    for r in range(1, horizon + 1):
        sums = [
            (cbrt(r - length + 1) + cbrt(least[length - 1])) ** 3 + least[r - length]
            for length in range(1, r + 1)
        ]
        least.append(min(sums))
        lengths.append(1 + sums.index(least[r]))
    parts: dict[int, Part] = {}
    blocks = [(0, horizon, Fraction(1))]  # the first epoch, how many, and what they may take of epsilon
    while blocks:
        first, r, left = blocks.pop()
        if not r:
            continue
        length = lengths[r]
        portion = cbrt(r - length + 1) / (cbrt(r - length + 1) + cbrt(least[length - 1]))
        share = left if length == 1 else Fraction(round(portion * left * _GRID), _GRID)
        parts[first + length - 1] = Part(first, share)
        blocks += [(first, length - 1, left - share), (first + length, r - length, left)]
    return Schedule(tuple(parts[t] for t in range(horizon)))
