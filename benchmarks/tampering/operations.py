"""What is tampered with: a program, what two parties feed it, and what it opens; small programs; noise.

Inputs are of honest parties alone, so that there is one right result. Programs that users run are in
`production`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import log, sqrt

import numpy as np

from protocols.circuits.coins import design_coins
from protocols.circuits.noise import fair_bits_per_sample
from protocols.noise.truncated import probability_mass

Integers = tuple[int, ...]
FALSE_ALARM = 1e-9  # of each comparison


@dataclass(frozen=True)
class Distribution:
    """The default noise of a run.

    Attributes: epsilon, delta_bits: of its coins; samples: how many a run opens.
    """

    epsilon: Fraction
    delta_bits: int
    samples: int

    @property
    def fair_bits(self) -> int:
        """How many bits a party draws for each sample."""
        return fair_bits_per_sample(design_coins(self.epsilon, self.delta_bits))

    def explains(self, opened: Iterable[int]) -> bool:
        """Return whether values are as many as a run opens, possible, and near the distribution."""
        counted = Counter(opened)
        return counted.total() == self.samples and self.distance(counted) <= largest_distance(self.samples)

    def distance(self, counted: Counter[int]) -> float:
        """Return sup |F_n - F|, which is 1 if there is a value that the noise never has."""
        values, cumulative = self._distribution
        if not counted.keys() <= set(values):
            return 1.0
        share = np.cumsum([counted[value] for value in values]) / counted.total()
        return float(np.abs(share - cumulative).max())

    @cached_property
    def _distribution(self) -> tuple[list[int], np.ndarray]:
        mass = sorted(probability_mass(design_coins(self.epsilon, self.delta_bits)).items())
        return [value for value, _ in mass], np.cumsum([float(p) for _, p in mass])


def largest_distance(n: int) -> float:
    """Return t with P(sup |F_n - F| > t) <= 1e-9, of n samples, whatever the distribution.

    Source: Dvoretzky, Kiefer and Wolfowitz 1956, with the constant of Massart 1990.
    """
    return sqrt(log(2 / FALSE_ALARM) / (2 * n))


@dataclass(frozen=True)
class Operation:
    """A program, what two parties feed it, and what it opens then.

    Attributes: name: of its file, and a form; values, bits: what each of the two inputs, of bits block by
    block; right: what is opened; arguments: of a production program its own, after the two parties;
    distribution: in place of these, of the noise that is opened. Then one of the two tampers and inputs
    zeros, and the other's bits are random.
    """

    name: str
    values: tuple[Integers, ...] = ()
    bits: tuple[tuple[Integers, Integers], ...] = ()
    right: Integers = ()
    arguments: tuple[object, ...] = ()
    distribution: Distribution | None = None

    @property
    def program(self) -> str:
        """The name of the program's file."""
        return self.name.partition(" ")[0]

    def is_right(self, opened: Integers) -> bool:
        """Return whether an honest party may take that."""
        return self.distribution.explains(opened) if self.distribution else opened == self.right


_X, _Y = (3, -5, 7, 11), (13, 17, -19, 23)
_A, _B = (0b1011, 0b0101, 0b1111, 0b0011), (0b1101, 0b1010, 0b1111, 0b0001)  # four bits in each of four lanes


def _lanes(words: tuple[int, ...], i: int) -> tuple[int, ...]:
    """Return bit i of each lane."""
    return tuple(word >> i & 1 for word in words)


def _opened() -> tuple[int, ...]:
    steps = [tuple(x + y for x, y in zip(_X, _Y, strict=True))]
    for _ in range(3):
        steps.append(tuple(x - y + last for x, y, last in zip(_X, _Y, steps[-1], strict=True)))
    return tuple(value for step in steps for value in step)


_PAIRS = tuple(a & b for a, b in zip(_A, _B, strict=True))


OPERATIONS = (
    Operation("input", (_X, _Y), right=(*_X, *_Y)),
    Operation("opening", (_X, _Y), right=_opened()),
    Operation(
        "multiplication",
        (_X, _Y),
        right=(
            *(x * y * x for x, y in zip(_X, _Y, strict=True)),
            sum(x * y for x, y in zip(_X, _Y, strict=True)),
        ),
    ),
    Operation(
        "and",
        bits=((_A, _B),),
        right=(
            *(bit for i in range(4) for bit in _lanes(_PAIRS, i)),
            *(int(word == 15) for word in _PAIRS),
        ),
    ),
    Operation("conversion", bits=((_A, _B),), right=tuple(a ^ b for a, b in zip(_A, _B, strict=True))),
    Operation("comparison", (_X, _Y), right=tuple(int(x < y) for x, y in zip(_X, _Y, strict=True))),
)
