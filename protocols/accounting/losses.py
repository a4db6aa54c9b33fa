"""Privacy losses of many independent noises together, never too low.

An outcome whose loss lies between two multiples of a step is split into two with these losses (Doroshenko et
al. 2022, "Connect the dots"). All is in integers, rounded towards larger losses.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from protocols.circuits.coins import exp_bounds
from protocols.noise.added import convolution, repeated_sum

BITS = 192  # masses are multiples of 2^-192
_NEGLIGIBLE = 1 << BITS - 150  # mass at either end that is moved towards larger losses
_FIXED = 256
_ONE = 1 << _FIXED


@dataclass(frozen=True)
class LossDistribution:
    """A distribution of the privacy loss that no adversary beats.

    Masses, times 2^192, are of losses from `lowest` steps up; the mass `certain` tells the data sets apart.
    """

    step: Fraction
    lowest: int
    masses: tuple[int, ...]
    certain: int

    def delta(self, epsilon: Fraction) -> Fraction:
        """Return an upper bound of delta at epsilon >= 0."""
        first = max(int(epsilon / self.step) + 1, self.lowest)  # the least loss above epsilon
        beyond = first * self.step - epsilon
        shrunk = _reciprocal(exp_bounds(beyond)[1]) if beyond <= 64 else 0
        per_step, bound = _reciprocal(exp_bounds(self.step)[1]), self.certain * _ONE
        for mass in self.masses[first - self.lowest :]:
            bound += mass * (_ONE - shrunk)
            shrunk = shrunk * per_step >> _FIXED
        return Fraction(bound, 1 << BITS + _FIXED)

    def composed(self, other: "LossDistribution") -> "LossDistribution":
        """Return the distribution of both losses together."""
        return _trimmed(
            self.step,
            lowest=self.lowest + other.lowest,
            masses=[-(-product >> BITS) for product in convolution([self.masses, other.masses])],
            certain=self.certain + other.certain,
        )

    def times(self, n: int) -> "LossDistribution":
        """Return the distribution of n >= 1 such losses together."""
        return repeated_sum(self, n, LossDistribution.composed)


def loss_distribution(
    outcomes: Iterable[tuple[int, int]], total: int, step: Fraction, most: int = 1 << 13
) -> LossDistribution:
    """Return the distribution of the loss of outcomes, pairs of masses times `total`, in steps of at most 1.

    Losses of more than `most` steps count as infinite; smaller ones than -most are raised to it.
    Guarantees: `delta` is never below the outcomes' own.
    [test: tests/protocols/test_losses.py]
    """
    powers = _powers(step, most)
    apart = _ONE - 1 - _reciprocal(exp_bounds(step)[0])  # 1 - e^-step, rounded down
    masses, certain = [0] * (2 * most + 2), 0
    for p, q in outcomes:
        mass = _up(p << BITS, total)
        place = bisect_right(powers, (p << _FIXED) // q) - 1 if q else 2 * most
        if place == 2 * most:
            certain += mass
        elif p:
            above = 0
            if place >= 0:
                above = min(mass, max(0, _up(((p << _FIXED) - q * powers[place]) << BITS, total * apart)))
            masses[max(0, place)] += mass - above
            masses[max(0, place) + 1] += above
    return _trimmed(step, -most, masses, certain)


@lru_cache(maxsize=8)
def _powers(step: Fraction, most: int) -> list[int]:
    low, high = exp_bounds(step)
    up, down = int(low * _ONE), _reciprocal(high)
    rise = accumulate(range(most), lambda power, _: power * up >> _FIXED, initial=_ONE)
    fall = accumulate(range(most), lambda power, _: power * down >> _FIXED, initial=_ONE)
    return [*reversed([*fall][1:]), *rise]


def _up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _reciprocal(x: Fraction) -> int:
    return (x.denominator << _FIXED) // x.numerator


def _trimmed(step: Fraction, lowest: int, masses: list[int], certain: int) -> LossDistribution:
    """Raise negligible lowest losses; make negligible highest ones certain."""
    below, above = list(accumulate(masses)), list(accumulate(reversed(masses)))
    start, end = bisect_right(below, _NEGLIGIBLE), len(masses) - bisect_right(above, _NEGLIGIBLE)
    start = min(start, max(0, end - 1))
    kept = masses[start:end] or [0]
    if start:
        kept[0] += below[start - 1]
    return LossDistribution(step, lowest + start, tuple(kept), certain + sum(masses[end:]))
