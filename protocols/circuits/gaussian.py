"""Joint Gaussian noise, as a circuit and as a table; `protocols.accounting.rounds` has its privacy.

Source: inversion from a table of cumulative probabilities; subdivision by binomial weights, as of B-splines
(Lane and Riesenfeld 1980). The choice of both is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from fairshares.protocols.circuits.coins import Coin, exp_bounds
from fairshares.protocols.circuits.integers import sum_of_bits
from fairshares.protocols.circuits.noise import default_noise, flip, xor_of_inputs

JOINT_ARGUMENTS = ("law", "shape")  # arguments of a program with joint Gaussian noise
JOINT_GAUSSIAN = "joint-gaussian"
_DIGITS = 14  # significant bits of a probability
_ONE = 1 << 512


def refinements(levels: int) -> list[int]:
    """Return how many fair bits are added at each doubling.

    Args:
        levels: How often a sample is doubled, at least 1.
    Returns:
        An even number of bits for each doubling.
    """
    return [8, 8, *[6] * levels][:levels]


@dataclass(frozen=True)
class JointGaussian:
    """Noise near a discrete Gaussian, made by all parties and known to none; its mean is 0.

    The coarse sample is k or -1 - k, k = 0, .., steps, with a probability nearly proportional to e^(-rate (k
    + 1/2)^2).

    Attributes:
        rate: The rate of the coarse sample, above 0.
        steps: The largest k, at least 1.
        levels: How often the coarse sample is refined, at least 1.
    """

    rate: Fraction
    steps: int
    levels: int

    @classmethod
    def of(cls, shape: str) -> JointGaussian:
        """Read the noise from a program's argument.

        Args:
            shape: The rate, the steps and the levels in text, as `arguments` writes them.
        Returns:
            The noise.
        """
        rate, steps, levels = shape.split(".")
        return cls(Fraction(rate), int(steps), int(levels))

    def arguments(self) -> dict[str, object]:
        """Return the program's arguments for this noise, by name."""
        return dict(zip(JOINT_ARGUMENTS, (JOINT_GAUSSIAN, f"{self.rate}.{self.steps}.{self.levels}")))

    @cached_property
    def coins(self) -> list[Coin]:
        """The probabilities P(k >= 1), .., P(k >= steps), each with 14 significant bits."""
        parts = range(1, 2 * self.steps + 2, 2)
        masses, coins = [int(_ONE / exp_bounds(self.rate * n * n / 16)[0] ** 4) for n in parts], []
        for k in range(1, len(masses)):
            beyond = Fraction(sum(masses[k:]), sum(masses))
            bits = _DIGITS + int(1 / beyond).bit_length()
            rounded = Fraction(int(beyond * (1 << bits)), 1 << bits)
            coins.append(Coin(rounded.numerator, rounded.denominator.bit_length() - 1))
        return coins

    @property
    def bits(self) -> int:
        """The number of fair bits per sample: a sign, a word, and the bits that are added."""
        return 1 + max(coin.bits for coin in self.coins) + sum(refinements(self.levels))

    @cached_property
    def weights(self) -> list[int]:
        """The probabilities P(-largest), .., P(largest), times 2^bits; exact and symmetric."""
        chances = [Fraction(1), *(coin.probability for coin in self.coins), Fraction(0)]
        word = max(chance.denominator for chance in chances)
        half = [int((most - least) * word) for most, least in zip(chances, chances[1:])]
        weights = [*reversed(half), *half]
        for bits in refinements(self.levels):
            doubled = [0] * (2 * len(weights) - 1)
            doubled[::2] = weights
            weights = doubled
            for _ in range(bits):
                weights = [a + b for a, b in zip([0, *weights], [*weights, 0])]
        return weights

    @property
    def largest(self) -> int:
        """The largest noise; the smallest is its negative."""
        return len(self.weights) // 2


def gaussian(noise: JointGaussian, fair, secret_integer):
    """Map fair bits to one noise sample per lane.

    Computes: M is the number of probabilities that the word is below. The coarse sample is M, or -1 - M by
    the sign. It is doubled `levels` times, and each time a sum of fair bits, less its mean, is added.
    [test: tests/protocols/test_joint_gaussian.py]

    Args:
        noise: The noise.
        fair: Secret fair bits, `noise.bits` of them: the sign, the word, lowest bit first, then the bits to
            add.
        secret_integer: MP-SPDZ's sint, or a stand-in.
    Returns:
        Secret samples, a lane each.
    """
    rest = fair[len(fair) - sum(refinements(noise.levels)) :]
    sign, word = fair[0], fair[1 : len(fair) - len(rest)]
    above = [flip(coin, word[len(word) - coin.bits :]) ^ sign for coin in noise.coins]  # M, or steps less M
    doubled = 1 << noise.levels
    terms = [(bit, doubled) for bit in above]
    terms.append((sign, -doubled * (noise.steps + 1)))
    mean = doubled // 2  # the coarse sample's is -1/2
    for i, bits in enumerate(refinements(noise.levels), 1):
        weight = 1 << noise.levels - i
        terms += [(bit, weight) for bit in rest[:bits]]
        rest = rest[bits:]
        mean -= bits // 2 * weight
    return sum_of_bits(terms, secret_integer) + mean


def noise_by_law(secret_integer, bit_vector, parties: int, lanes: int, *law, turn=0):
    """Make `default_noise`, or joint Gaussian noise by the `JOINT_ARGUMENTS`.

    Guarantees: as `default_noise`. `protocols.accounting.rounds` has the privacy of joint Gaussian noise.
    [test: tests/protocols/test_joint_gaussian.py]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        bit_vector: MP-SPDZ's sbitvec, or a stand-in.
        parties: The number of parties.
        lanes: The number of samples.
        law: The program's last arguments, which say which noise it is.
        turn: How many rounds took noise from the same file before.
    Returns:
        Secret samples, shape (lanes,).
    """
    if law[0] != JOINT_GAUSSIAN:
        return default_noise(secret_integer, bit_vector, parties, lanes, *law, turn=turn)
    noise = JointGaussian.of(law[1])
    return gaussian(
        noise, xor_of_inputs(secret_integer, bit_vector, parties, lanes, noise.bits), secret_integer
    )
