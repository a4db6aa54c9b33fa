"""A client's group and value under local differential privacy: GRR, M_R and M_L.

Source: Juarez and Korolova 2022, Algorithm 1, for d groups. `private` makes a mechanism that keeps to a given
epsilon, by corrected budgets. `with_budgets` makes the published mechanism, whose real guarantee is
`epsilon`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fairshares.protocols.arrays import Bools, Floats, Integers
from fairshares.protocols.circuits.coins import exp_bounds
from fairshares.protocols.noise.exact_sampling import (
    WORD_BITS,
    below,
    coins,
    discrete_laplace,
    round_at_random,
)
from fairshares.protocols.noise.truncated import log_upper_bound

MAX_LOCAL_EPSILON = Fraction(20)
MAX_GROUPS = 1 << 16
MAX_STEPS = 1 << 18
DEFAULT_STEPS = 1 << 16

_EPSILON_GRID = 10**9  # budgets are rounded down to this grid, so that noise can be drawn exactly


@dataclass(frozen=True)
class ValueRange:
    """The declared, public range of performance values.

    Attributes:
        low: The least value.
        high: The largest value, above `low`.
    Raises:
        ValueError: The ends are not finite, or not in order.
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a range has two finite ends, the lower first, not {self.low} and {self.high}")

    @property
    def center(self) -> float:
        """The middle of the range."""
        return self.low / 2 + self.high / 2

    @property
    def radius(self) -> float:
        """Half of the range's width."""
        return self.high / 2 - self.low / 2

    def scaled(self, values: npt.ArrayLike) -> Floats:
        """Map the range to [-1, 1].

        Args:
            values: Values of the range, secret, shape (n,).
        Returns:
            Scaled values, shape (n,).
        Raises:
            ValueError: A value is outside the range.
        """
        array = np.asarray(values, dtype=np.float64)
        for value in array[~((self.low <= array) & (array <= self.high))][:1]:
            raise ValueError(
                f"value {value:g} is outside the declared range [{self.low:g}, {self.high:g}]; declare one "
                "that holds every client's value, or clip to it first"
            )
        return np.clip((array - self.center) / self.radius, -1.0, 1.0)


@dataclass(frozen=True)
class Reports:
    """A perturbed group and value of each client.

    Attributes:
        groups: The reported groups, in [0, d), shape (n,).
        values: The reported values, in units of 1 / the mechanism's `unit`, shape (n,).
    """

    groups: Integers
    values: Integers


@dataclass(frozen=True)
class Grr:
    """Generalized randomized response among groups.

    Attributes:
        groups: The number of groups d, from 2 to 2^16.
        keep: The probability that the true group is kept, a multiple of 2^-64, at least 1/d and below 1.
    Raises:
        ValueError: A number is out of range.
    """

    groups: int
    keep: Fraction

    def __post_init__(self) -> None:
        if not 2 <= self.groups <= MAX_GROUPS:
            raise ValueError(f"there must be 2 to {MAX_GROUPS} groups, not {self.groups}")
        if not Fraction(1, self.groups) <= self.keep < 1 or (self.keep * (1 << WORD_BITS)).denominator != 1:
            raise ValueError(f"the true group is kept with a multiple of 2^-{WORD_BITS} in [1/d, 1)")

    @classmethod
    def private(cls, groups: int, epsilon: Fraction) -> "Grr":
        """Return the epsilon-LDP response for the group.

        Args:
            groups: The number of groups, from 2 to 2^16.
            epsilon: The epsilon, from 10^-9 to `MAX_LOCAL_EPSILON`.
        Returns:
            The response, whose `keep` is within 2^-64 of the largest.
        """
        return cls(groups, _keep(groups, exp_bounds(_budget(epsilon))[0]))

    @property
    def move(self) -> Fraction:
        """The probability of each other group."""
        return (1 - self.keep) / (self.groups - 1)

    @property
    def odds(self) -> Fraction:
        """The worst likelihood ratio, e^epsilon, exactly."""
        return self.keep / self.move

    def perturb(self, groups: npt.ArrayLike) -> Integers:
        """Return a perturbed group for each client.

        Args:
            groups: The clients' true groups, secret, in [0, d), shape (n,).
        Returns:
            Reported groups, shape (n,).
        Raises:
            ValueError: A group is unknown, or the groups are no list of integers.
        """
        true = np.asarray(groups)
        if true.ndim != 1 or not (true.size == 0 or np.issubdtype(true.dtype, np.integer)):
            raise ValueError("groups are a list of integers, one per client")
        for unknown in true[(true < 0) | (true >= self.groups)][:1]:
            raise ValueError(f"group {unknown} is unknown; the declared ones are 0 to {self.groups - 1}")
        kept = coins(self.keep, true.size)
        other = below(self.groups - 1, true.size)
        return np.where(kept, true, other + (other >= true)).astype(np.int64)


class Mechanism(ABC):
    """GRR on the group, and a perturbed value, which is set to 0 first where the group moved.

    Members' docstrings call a client's value v, in the scale from -1 to 1, and its reported value v', in the
    same scale. A group is kept or moved. E[v' | kept] = gain v, and E[v' | moved] = 0.

    Attributes:
        grr: The response for the group.
        declared: The range of values.
    """

    grr: Grr
    declared: ValueRange

    def perturb(self, groups: npt.ArrayLike, values: npt.ArrayLike) -> Reports:
        """Perturb clients' tuples, each independently.

        Guarantees: `epsilon`-LDP per tuple and call. A client that reports twice spends epsilon twice.
        [test: tests/protocols/test_local_mechanisms.py]

        Args:
            groups: The clients' true groups, secret, in [0, d), shape (n,).
            values: The clients' true values, secret, in the declared range, shape (n,).
        Returns:
            The reports.
        Raises:
            ValueError: A group is unknown, a value is outside the range, or the shapes differ.
        """
        true = np.asarray(groups)
        scaled = self.declared.scaled(values)
        if true.shape != scaled.shape:
            raise ValueError("each client has one group and one value")
        reported = self.grr.perturb(true)
        return Reports(reported, self._perturb_values(scaled, reported == true))

    @property
    @abstractmethod
    def unit(self) -> int:
        """The value in a report that stands for 1 in the scale from -1 to 1."""

    @property
    @abstractmethod
    def epsilon(self) -> Fraction:
        """The exact guarantee, rounded up to a multiple of 10^-12."""

    @property
    @abstractmethod
    def gain(self) -> float:
        """The ratio E[v' | kept] / v."""

    @property
    @abstractmethod
    def moved_square(self) -> float:
        """The mean square E[v'^2 | moved]."""

    @abstractmethod
    def kept_square(self, mean_square: float) -> float:
        """Return E[v'^2 | kept], at the worst rounding.

        Args:
            mean_square: E[v^2], from 0 to 1.
        Returns:
            The mean square.
        """

    @property
    @abstractmethod
    def most_exponent(self) -> float:
        """The bound of |theta| below which the moments E[e^(theta v')] exist and can be computed."""

    @abstractmethod
    def worst_exponent(self, theta: Floats, rest: Floats) -> Floats:
        """Return max over v of ln(1 + rest + a E[e^(theta v') - 1 | kept]) - a gain v theta, a = grr.keep.

        Args:
            theta: The exponents, below `most_exponent` in size, of any shape.
            rest: The number in the logarithm, with the shape of theta.
        Returns:
            The maxima, with the shape of theta.
        """

    @abstractmethod
    def moved_moment(self, theta: Floats) -> Floats:
        """Return the moment E[e^(theta v') | moved].

        Args:
            theta: The exponents, below `most_exponent` in size, of any shape.
        Returns:
            The moments, with the shape of theta.
        """

    @abstractmethod
    def _perturb_values(self, scaled: Floats, kept: Bools) -> Integers: ...


@dataclass(frozen=True)
class MechanismR(Mechanism):
    """M_R: the value is rounded at random to -1 or 1, then reported truly with probability `truth`.

    P(g', v' | g, v) = keep (1 + (2 truth - 1) v v') / 2 if g' = g, else move / 2.

    Attributes:
        grr: The response for the group.
        truth: The probability that the rounded value is reported, a multiple of 2^-64 in (1/2, 1).
        declared: The range of values.
    Raises:
        ValueError: The truth is out of range.
    """

    grr: Grr
    truth: Fraction
    declared: ValueRange = ValueRange()
    unit = 1
    moved_square = 1.0
    most_exponent = 300.0

    def __post_init__(self) -> None:
        if not Fraction(1, 2) < self.truth < 1 or (self.truth * (1 << WORD_BITS)).denominator != 1:
            raise ValueError(f"the truth is told with a multiple of 2^-{WORD_BITS} in (1/2, 1)")

    @classmethod
    def with_budgets(
        cls, groups: int, epsilon_1: Fraction, epsilon_2: Fraction, declared: ValueRange = ValueRange()
    ) -> "MechanismR":
        """Return M_R with a budget for the group and a budget for the value.

        The paper's Theorem 5 says that `epsilon` is the larger budget, which is wrong.

        Args:
            groups: The number of groups, from 2 to 2^16.
            epsilon_1: The budget for the group, from 10^-9 to `MAX_LOCAL_EPSILON`.
            epsilon_2: The budget for the value, from 10^-9 to `MAX_LOCAL_EPSILON`.
            declared: The range of values.
        Returns:
            The published mechanism.
        """
        return cls(Grr.private(groups, epsilon_1), _keep(2, exp_bounds(_budget(epsilon_2))[0]), declared)

    @classmethod
    def private(cls, groups: int, epsilon: Fraction, declared: ValueRange = ValueRange()) -> "MechanismR":
        """Return the best epsilon-LDP M_R: epsilon_2 = epsilon, epsilon_1 = ln((e^epsilon + 1) / 2).

        Args:
            groups: The number of groups, from 2 to 2^16.
            epsilon: The epsilon of a report, from 10^-9 to `MAX_LOCAL_EPSILON`.
            declared: The range of values.
        Returns:
            The mechanism.
        """
        ratio = exp_bounds(_budget(epsilon))[0]
        truth = _keep(2, ratio)
        return cls(Grr(groups, _keep(groups, ratio / (2 * truth))), truth, declared)

    @property
    def worst_ratio(self) -> Fraction:
        """The exact e^epsilon. Probabilities are affine in v, so that ends of the range are worst."""
        odds = self.grr.odds
        return max(self.truth / (1 - self.truth), 2 * odds * self.truth, 1 / (2 * odds * (1 - self.truth)))

    @property
    def epsilon(self) -> Fraction:
        return log_upper_bound(self.worst_ratio)

    @property
    def gain(self) -> float:
        return float(2 * self.truth - 1)

    def kept_square(self, mean_square: float) -> float:  # noqa: ARG002
        return 1.0

    def worst_exponent(self, theta: Floats, rest: Floats) -> Floats:
        """Return the maximum as `Mechanism`; E[e^(theta v')] = cosh theta + gain v sinh theta is concave.

        Args:
            theta: As in `Mechanism`.
            rest: As in `Mechanism`.
        Returns:
            The maxima, with the shape of theta.
        """
        keep = float(self.grr.keep)
        base = rest + keep * (np.cosh(theta) - 1)
        slope = keep * self.gain
        rise = slope * np.sinh(theta)
        fall = slope * theta
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.clip(np.nan_to_num(1 / fall - (1 + base) / rise), -1.0, 1.0)
        exponents = [np.log1p(base + rise * v) - fall * v for v in (best, -1.0, 1.0)]
        return np.asarray(np.max(exponents, axis=0))

    def moved_moment(self, theta: Floats) -> Floats:
        return np.cosh(theta)

    def _perturb_values(self, scaled: Floats, kept: Bools) -> Integers:
        bits = round_at_random((1 + np.where(kept, scaled, 0.0)) / 2)
        return 2 * (bits ^ ~coins(self.truth, len(bits))) - 1


@dataclass(frozen=True)
class MechanismL(Mechanism):
    """M_L with k = 2, because no other k is LDP at any epsilon: the value plus discrete Laplace noise.

    v is rounded at random to a multiple of 1/steps. Its noise is X/steps, where P(X = x) is proportional to
    e^(-|x| epsilon_2 / (2 steps)).

    Attributes:
        grr: The response for the group.
        epsilon_2: The budget for the value, a multiple of 10^-9.
        steps: The steps of the grid on each side of the center.
        declared: The range of values.
    Raises:
        ValueError: A number is out of range.
    """

    grr: Grr
    epsilon_2: Fraction
    steps: int = DEFAULT_STEPS
    declared: ValueRange = ValueRange()
    gain = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MAX_STEPS:
            raise ValueError(
                f"the grid has 1 to {MAX_STEPS} steps on each side of the center, not {self.steps}"
            )
        if _budget(self.epsilon_2) != self.epsilon_2:
            raise ValueError("epsilon_2 must be a multiple of 10^-9")

    @classmethod
    def with_budgets(
        cls,
        groups: int,
        epsilon_1: Fraction,
        epsilon_2: Fraction,
        declared: ValueRange = ValueRange(),
        steps: int = DEFAULT_STEPS,
    ) -> "MechanismL":
        """Return M_L with a budget for the group and a budget for the value.

        Args:
            groups: The number of groups, from 2 to 2^16.
            epsilon_1: The budget for the group, from 10^-9 to `MAX_LOCAL_EPSILON`.
            epsilon_2: The budget for the value, from 10^-9 to `MAX_LOCAL_EPSILON`.
            declared: The range of values.
            steps: The steps of the grid on each side of the center.
        Returns:
            The published mechanism with k = 2.
        """
        return cls(Grr.private(groups, epsilon_1), _budget(epsilon_2), steps, declared)

    @classmethod
    def private(
        cls, groups: int, epsilon: Fraction, declared: ValueRange = ValueRange(), steps: int = DEFAULT_STEPS
    ) -> "MechanismL":
        """Return the epsilon-LDP M_L: epsilon_2 = epsilon, epsilon_1 = epsilon / 2.

        Args:
            groups: The number of groups, from 2 to 2^16.
            epsilon: The epsilon of a report, from 10^-9 to `MAX_LOCAL_EPSILON`.
            declared: The range of values.
            steps: The steps of the grid on each side of the center.
        Returns:
            The mechanism.
        """
        total = _budget(epsilon)
        return cls.with_budgets(groups, total / 2, total, declared, steps)

    @property
    def epsilon(self) -> Fraction:
        return max(self.epsilon_2, self.epsilon_2 / 2 + log_upper_bound(self.grr.odds))

    @property
    def scale(self) -> Fraction:
        """The noise's scale, in steps of the grid."""
        return 2 * self.steps / self.epsilon_2

    @property
    def unit(self) -> int:
        return self.steps

    @property
    def moved_square(self) -> float:
        return 1 / (2 * (self.steps * math.sinh(1 / (2 * float(self.scale)))) ** 2)

    def kept_square(self, mean_square: float) -> float:
        return mean_square + self.moved_square + 1 / (4 * self.steps**2)

    @property
    def most_exponent(self) -> float:
        return float(self.epsilon_2 / 2)

    def worst_exponent(self, theta: Floats, rest: Floats) -> Floats:
        """Return a bound of the maximum as `Mechanism`.

        By convexity an end of the range is worst. Rounding adds theta^2 / (8 steps^2) at most (Hoeffding).

        Args:
            theta: As in `Mechanism`.
            rest: As in `Mechanism`.
        Returns:
            The bounds, with the shape of theta.
        """
        keep = float(self.grr.keep)
        noise = np.log(self.moved_moment(theta)) + theta**2 / (8 * self.steps**2)
        ends = [np.log1p(rest + keep * np.expm1(noise + theta * v)) - keep * theta * v for v in (-1.0, 1.0)]
        return np.asarray(np.max(ends, axis=0))

    def moved_moment(self, theta: Floats) -> Floats:
        half = 1 / (2 * float(self.scale))
        x = theta / (2 * self.steps)
        return np.asarray(np.sinh(half) ** 2 / (np.sinh(half + x) * np.sinh(half - x)))

    def _perturb_values(self, scaled: Floats, kept: Bools) -> Integers:
        rounded = round_at_random(np.where(kept, scaled, 0.0) * self.steps)
        return rounded + discrete_laplace(self.scale, len(rounded))


def _budget(epsilon: Fraction) -> Fraction:
    """Return epsilon rounded down to the grid."""
    if not Fraction(1, _EPSILON_GRID) <= epsilon <= MAX_LOCAL_EPSILON:
        raise ValueError(f"epsilon must be from 10^-9 to {MAX_LOCAL_EPSILON}, not {float(epsilon):g}")
    return Fraction(epsilon * _EPSILON_GRID // 1, _EPSILON_GRID)


def _keep(choices: int, odds: Fraction) -> Fraction:
    """Return the probability of the true one of some choices at these odds to each other, rounded down."""
    return Fraction(odds / (odds + choices - 1) * (1 << WORD_BITS) // 1, 1 << WORD_BITS)
