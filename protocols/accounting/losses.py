"""The privacy loss of many independent noises together, never too low.

Source: Doroshenko et al. 2022, "Connect the dots". An outcome whose loss lies between two multiples of a step
becomes two outcomes with these two losses. All computations are in integers, rounded towards larger losses.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from fairshares.protocols.circuits.coins import exp_bounds
from fairshares.protocols.noise.added import convolution, repeated_sum

BITS = 192  # masses are multiples of 2^-192
_NEGLIGIBLE = 1 << BITS - 150  # so much mass at either end is moved towards larger losses
_FIXED = 256  # powers of e are multiples of 2^-256
_ONE = 1 << _FIXED


@dataclass(frozen=True)
class LossDistribution:
    """A distribution of the privacy loss that no adversary beats.

    Args:
        step: The unit of losses.
        lowest: The least loss, in steps.
        masses: The probability of each loss from the lowest up, times 2^192.
        certain: The probability, times 2^192, of an infinite loss, which tells the data sets apart.
    """

    step: Fraction
    lowest: int
    masses: tuple[int, ...]
    certain: int

    def delta(self, epsilon: Fraction) -> Fraction:
        """Return an upper bound of delta at an epsilon.

        Args:
            epsilon: The epsilon, at least 0.
        Returns:
            The bound, exact.
        """
        first = max(int(epsilon / self.step) + 1, self.lowest)  # the least loss above epsilon
        beyond = first * self.step - epsilon
        shrunk = 0  # e^(epsilon - loss), rounded down
        if beyond <= 64:
            shrunk = _reciprocal(exp_bounds(beyond)[1])
        per_step = _reciprocal(exp_bounds(self.step)[1])
        bound = self.certain * _ONE
        for mass in self.masses[first - self.lowest :]:
            bound += mass * (_ONE - shrunk)
            shrunk = shrunk * per_step >> _FIXED
        return Fraction(bound, 1 << BITS + _FIXED)

    def composed(self, other: "LossDistribution") -> "LossDistribution":
        """Return the distribution of both losses together.

        Args:
            other: The other loss, independent of this one and with the same step.
        Returns:
            The distribution of the sum, rounded towards larger losses.
        """
        products = convolution([self.masses, other.masses])
        return _trimmed(
            self.step,
            lowest=self.lowest + other.lowest,
            masses=[-(-product >> BITS) for product in products],  # rounded up
            certain=self.certain + other.certain,
        )

    def times(self, n: int) -> "LossDistribution":
        """Return the distribution of several such losses together.

        Args:
            n: The number of losses, at least 1.
        Returns:
            The distribution of the sum, rounded towards larger losses.
        """
        return repeated_sum(self, n, LossDistribution.composed)


def loss_distribution(
    outcomes: Iterable[tuple[int, int]], total: int, step: Fraction, most: int = 1 << 13
) -> LossDistribution:
    """Return the distribution of the privacy loss of some outcomes.

    Guarantees: `delta` is never below the delta of the outcomes themselves.
    [test: tests/protocols/test_losses.py]

    Args:
        outcomes: For each outcome its mass under the data set and under its neighbor, times `total`.
        total: The integer that stands for a mass of 1.
        step: The unit of losses, at most 1.
        most: Losses of more steps count as infinite. Losses below minus so many steps are raised to it.
    Returns:
        The distribution of the loss.
    """
    powers = _powers(step, most)
    apart = _ONE - 1 - _reciprocal(exp_bounds(step)[0])  # 1 - e^-step, rounded down
    infinite = 2 * most
    masses = [0] * (infinite + 2)
    certain = 0
    for p, q in outcomes:
        mass = _up(p << BITS, total)
        place = infinite
        if q:
            place = bisect_right(powers, (p << _FIXED) // q) - 1
        if place == infinite:
            certain += mass
        elif p:
            above = 0  # the part of the mass that gets the larger one of two losses
            if place >= 0:
                excess = (p << _FIXED) - q * powers[place]
                above = min(mass, max(0, _up(excess << BITS, total * apart)))
            masses[max(0, place)] += mass - above
            masses[max(0, place) + 1] += above
    return _trimmed(step, -most, masses, certain)


@lru_cache(maxsize=8)
def _powers(step: Fraction, most: int) -> list[int]:
    """Return e^(step i) for i from -most to most, rounded down."""
    low, high = exp_bounds(step)
    factor_up = int(low * _ONE)
    factor_down = _reciprocal(high)
    rising = [_ONE]
    falling = [_ONE]
    for _ in range(most):
        rising.append(rising[-1] * factor_up >> _FIXED)
        falling.append(falling[-1] * factor_down >> _FIXED)
    return falling[:0:-1] + rising  # 1 is listed once


def _up(numerator: int, denominator: int) -> int:
    """Return the quotient, rounded up."""
    return -(-numerator // denominator)


def _reciprocal(x: Fraction) -> int:
    """Return 1 / x, rounded down."""
    return (x.denominator << _FIXED) // x.numerator


def _trimmed(step: Fraction, lowest: int, masses: list[int], certain: int) -> LossDistribution:
    """Raise the lowest losses, and make the highest certain, as far as their masses are negligible."""
    below = list(accumulate(masses))
    above = list(accumulate(reversed(masses)))
    end = len(masses) - bisect_right(above, _NEGLIGIBLE)
    start = min(bisect_right(below, _NEGLIGIBLE), max(0, end - 1))
    kept = masses[start:end] or [0]
    if start:
        kept[0] += below[start - 1]
    return LossDistribution(step, lowest + start, tuple(kept), certain + sum(masses[end:]))
