"""Noise that each party draws by itself: laws as tables of exact probabilities, and what their sums are.

A table is its own definition. It is made near a law that is divisible, so that the noises of the honest
parties add up to (nearly) discrete Laplace or Gaussian noise; how near decides no guarantee, since every
guarantee is computed from the tables, by exact convolution.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil, prod
from typing import Any

import gmpy2
import numpy as np

from protocols.arrays import Integers, Words
from protocols.circuits.coins import MAX_EPSILON, exp_bounds

BITS = 128  # of a table's probabilities, which are multiples of 2^-128
MAX_EDGE = 1 << 16  # of a table, hence 131 073 entries at most

_ONE = 1 << 256  # fixed point, in which a law's terms are worked out before they are rounded
_CHUNK = 1 << 16  # draws at a time


class NoiseLaw(StrEnum):
    """What the noises of the honest parties add up to, nearly."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class OwnNoise:
    """The noise that each party draws of its own for a value, and adds before anything is revealed.

    Attributes: rate: of the sum over the honest parties: P(x) near e^(-rate |x|) for Laplace, near
    e^(-rate x^2) for Gaussian, times a constant; edge: a party's noise is from -edge to edge; parties: r;
    honest: how many of them, at least, nobody corrupts.
    """

    law: NoiseLaw
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
            raise ValueError(
                f"a party's noise would need a table up to {self.edge}, beyond {MAX_EDGE}; more ε, or a "
                "smaller cap, needs less"
            )

    @property
    def weights(self) -> tuple[int, ...]:
        """P(-edge), .., P(edge) of one party's noise, times 2^128; exact, and the same both ways."""
        return _weights(self.law, self.rate, self.edge, self.honest)

    def summed(self, terms: int) -> tuple[int, ...]:
        """Return P(-terms edge), .., P(terms edge) of so many parties' sum, times 2^(128 terms).

        Guarantees: exact.  [test: tests/protocols/test_tables.py]
        """
        return _summed(self.weights, terms)

    def draw(self, n: int) -> Integers:
        """Return n noises of one party, from the operating system's randomness.

        Computes: inversion: how many cumulative probabilities are at most a uniform word of 128 bits, by as
        many comparisons for every word, none of which branches. Which entries are read depends on the word.
        Guarantees: exact probabilities.  [test: tests/protocols/test_tables.py]
        Returns: shape (n,).
        """
        high, low = _cumulative(self.weights)
        steps = high.size.bit_length() - 1
        found = np.empty(n, dtype=np.int64)
        for start in range(0, n, _CHUNK):
            size = min(_CHUNK, n - start)
            words = np.frombuffer(os.urandom(size * BITS // 8), dtype=np.uint64).reshape(2, size)
            place = np.zeros(size, dtype=np.int64)
            for step in (1 << i for i in reversed(range(steps))):
                last, rest = high.take(place + (step - 1)), low.take(place + (step - 1))
                place += step * ((words[0] > last) | ((words[0] == last) & (words[1] > rest)))
            found[start : start + size] = place
        return found - self.edge

    @property
    def mean_square_error(self) -> Fraction:
        """E[X^2] of the sum of all parties' noises, whose mean is 0; exact."""
        squares = sum(w * (i - self.edge) ** 2 for i, w in enumerate(self.weights))
        return Fraction(self.parties * squares, 1 << BITS)

    @property
    def largest(self) -> int:
        """The largest sum of all parties' noises; the smallest is its negative."""
        return self.parties * self.edge

    def error_bound(self, failure: Fraction) -> Fraction:
        """Return the least t >= 0 with P(|sum of all parties' noises| > t) <= failure, exactly."""
        allowed = failure * (1 << BITS * self.parties) / 2
        outer = accumulate(self.summed(self.parties))  # from the lowest value inwards
        inside = sum(1 for mass in outer if mass <= allowed)
        return Fraction(max(0, self.largest - inside))

    def to_json(self) -> dict[str, Any]:
        """Return the parameters, from which the table follows."""
        return {**asdict(self), "law": str(self.law), "rate": str(self.rate)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "OwnNoise":
        """Return the noise of these parameters. Raises: ValueError, KeyError, TypeError: they are none."""
        edge, parties, honest = (int(fields[name]) for name in ("edge", "parties", "honest"))
        return cls(NoiseLaw(fields["law"]), Fraction(fields["rate"]), edge, parties, honest)


@lru_cache(maxsize=16)
def _weights(law: NoiseLaw, rate: Fraction, edge: int, honest: int) -> tuple[int, ...]:
    """Round a party's law to multiples of 2^-128: down, but at 0, which has the rest.

    Computes: in fixed point. Laplace: the difference of two negative binomials of shape 1 / honest, with
    ratio q = e^-rate rounded up, to which terms q^k (1/honest + k - 1 choose k) are worked out as far as
    twice the edge; Gaussian: g^(x^2), g = e^(-rate honest) rounded up.
    """
    if law is NoiseLaw.LAPLACE:
        ratio, terms = _exp_up(rate), [_ONE]
        for k in range(2 * edge):
            terms.append(terms[-1] * ratio * (k * honest + 1) // (_ONE * (k + 1) * honest))
        both = convolution([terms, terms[::-1]])
        half = both[2 * edge : 3 * edge + 1]
    else:
        ratio, half = _exp_up(rate * honest), [_ONE]
        step, square = ratio, ratio * ratio // _ONE
        for _ in range(edge):
            half.append(half[-1] * step // _ONE)
            step = step * square // _ONE
    total = 2 * sum(half) - half[0]
    sides = [(mass << BITS) // total for mass in half[1:]]
    if not sides[-1]:
        raise ValueError(f"a value of {edge} would have a probability below 2^-{BITS}")
    return (*reversed(sides), (1 << BITS) - 2 * sum(sides), *sides)


def _exp_up(rate: Fraction) -> int:
    return ceil(_ONE / exp_bounds(rate)[0])


@lru_cache(maxsize=16)
def _summed(weights: tuple[int, ...], terms: int) -> tuple[int, ...]:
    return tuple(convolution([weights] * terms))


def convolution(factors: Sequence[Sequence[int]]) -> list[int]:
    """Return the convolution of sequences of integers >= 0, exactly: as one product of long integers."""
    width = prod(map(sum, factors)).bit_length() + 1
    product = prod(gmpy2.pack(list(factor), width) for factor in factors)
    found = [int(value) for value in gmpy2.unpack(product, width)]
    length = sum(map(len, factors)) - len(factors) + 1
    return found + [0] * (length - len(found))


@lru_cache(maxsize=16)
def _cumulative(weights: tuple[int, ...]) -> tuple[Words, Words]:
    """Return high and low words of cumulative weights less 1, padded by what no word exceeds."""
    sums = [min(each, 1 << BITS) - 1 for each in accumulate(weights)]
    sums += [(1 << BITS) - 1] * ((1 << len(sums).bit_length()) - len(sums))
    high, low = ([each >> shift & ((1 << 64) - 1) for each in sums] for shift in (64, 0))
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)
