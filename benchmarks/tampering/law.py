"""The law of the default noise, and whether it explains what parties opened."""

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

FALSE_ALARM = 1e-9  # of each comparison


@dataclass(frozen=True)
class Law:
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
        """Return whether values are as many as a run opens, possible, and near the law."""
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
    """Return t with P(sup |F_n - F| > t) <= 1e-9, of n samples, whatever the law.

    Source: Dvoretzky, Kiefer and Wolfowitz 1956, with the constant of Massart 1990.
    """
    return sqrt(log(2 / FALSE_ALARM) / (2 * n))
