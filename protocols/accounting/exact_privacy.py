"""The exact privacy of noise, computed from its probability mass function alone.

It shares no formula with `calibration.py`, which it audits, and the cost of the circuit of joint noise.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, lcm

import numpy as np

from fairshares.protocols.accounting.calibration import LinearQueries, Neighbors
from fairshares.protocols.circuits.coins import Coin, Coins, SymmetricCoins, exp_bounds
from fairshares.protocols.circuits.noise import fair_bits_per_sample, joint_sample
from fairshares.protocols.noise.truncated import log_upper_bound

MAX_SENSITIVITY = 64  # work grows with its square
MAX_PRODUCTS = 50_000  # the most pairs of likelihood ratios that adding one noisy value may take

_ZERO = Fraction(0)

Masses = tuple[Fraction, Fraction]  # probability of some outcomes, under a data set and under its neighbor


@dataclass
class Gates:
    """How many ANDs a circuit takes.

    Attributes:
        gates: The number of operations on vectors.
        ands: The number of operations on single bits.
        depth: The longest chain of ANDs that wait for each other.
    """

    gates: int = 0
    ands: int = 0
    depth: int = 0


class Wire:
    """A vector of `lanes` bits that stands for a circuit's value, and adds each AND to `counted`.

    Args:
        counted: Where ANDs are counted.
        lanes: The number of bits.
        depth: The number of ANDs on the longest way to this value.
    """

    def __init__(self, counted: Gates, lanes: int = 1, depth: int = 0) -> None:
        self.counted = counted
        self.lanes = lanes
        self.depth = depth
        counted.depth = max(counted.depth, depth)

    def __and__(self, other: "Wire") -> "Wire":
        self.counted.gates += 1
        self.counted.ands += self.lanes
        return Wire(self.counted, self.lanes, max(self.depth, other.depth) + 1)

    def __xor__(self, other: "Wire") -> "Wire":
        return Wire(self.counted, self.lanes, max(self.depth, other.depth))

    def __invert__(self) -> "Wire":
        return self

    @property
    def n(self) -> int:
        """The number of lanes, as MP-SPDZ calls it."""
        return self.lanes

    def reveal(self) -> "Opened":
        """Return what stands for the opened bits."""
        return Opened()

    def store_in_mem(self, _address: object) -> None:
        """Do nothing; engines store the value in memory.

        Args:
            _address: Not used.
        """


class Opened:
    """Opened bits, and the integers that they make, without a value."""

    def to_regint_by_bit(self) -> "Opened":
        """Return itself; engines return integers."""
        return self

    def __lshift__(self, _place: int) -> "Opened":
        return self

    def __radd__(self, _other: "int | Opened") -> "Opened":
        return self

    __add__ = __radd__


@dataclass(frozen=True)
class PrivacyCurve:
    """Delta as an exact function of epsilon: the largest P(E) - e^epsilon Q(E) over events E.

    Attributes:
        pairs: The pairs of neighbors. For each, the masses (p, q) of all outcomes that have the same ratio p
            / q, the largest ratio first; where q = 0, the ratio counts as infinite.
    """

    pairs: tuple[tuple[Masses, ...], ...]

    def delta(self, ratio: Fraction) -> Fraction:
        """Return delta at an epsilon, exactly.

        Args:
            ratio: e^epsilon, at least 1.
        Returns:
            Delta of the worst pair.
        """
        return max(_delta_of_pair(pair, ratio) for pair in self.pairs)

    def delta_bounds(self, epsilon: Fraction) -> tuple[Fraction, Fraction]:
        """Enclose delta at an epsilon between rationals.

        Args:
            epsilon: The epsilon, from 0 to 64.
        Returns:
            A lower bound and an upper bound.
        """
        low, high = exp_bounds(epsilon)
        return self.delta(high), self.delta(low)

    @property
    def impossible(self) -> Fraction:
        """The probability of outcomes that the neighbor cannot have, which tell the two apart for certain."""
        return max(_impossible_of_pair(pair) for pair in self.pairs)

    def least_ratio(self, delta: Fraction) -> Fraction | None:
        """Return the least e^epsilon with at most this delta, exactly.

        Args:
            delta: The largest delta, from 0 to 1.
        Returns:
            The ratio, at least 1; None if no epsilon has so small a delta.
        """
        if self.impossible > delta:
            return None
        least = Fraction(1)
        for pair in self.pairs:
            # The least ratio solves P - ratio Q = delta, with P and Q the masses of all outcomes above it.
            p_above = _ZERO
            q_above = _ZERO
            for p, q in pair:
                if q and p_above - p / q * q_above > delta:
                    break
                p_above += p
                q_above += q
            least = max(least, (p_above - delta) / q_above)
        return least

    def least_epsilon(self, delta: Fraction) -> Fraction | None:
        """Return the least epsilon at a delta, rounded up by at most 10^-12.

        Args:
            delta: The largest delta, from 0 to 1.
        Returns:
            The epsilon; None if no epsilon has so small a delta.
        """
        ratio = self.least_ratio(delta)
        if ratio is None:
            return None
        return log_upper_bound(ratio)


def _delta_of_pair(pair: tuple[Masses, ...], ratio: Fraction) -> Fraction:
    """Return delta of a pair of neighbors at e^epsilon = ratio, exactly."""
    return sum((max(p - ratio * q, _ZERO) for p, q in pair), _ZERO)


def _impossible_of_pair(pair: tuple[Masses, ...]) -> Fraction:
    """Return the mass of outcomes that the second neighbor of a pair can't have."""
    return sum((p for p, q in pair if not q), _ZERO)


def curve_of_distribution(distribution: Mapping[int, Fraction], shifts: Iterable[int]) -> PrivacyCurve:
    """Return the privacy of a count with noise of any distribution.

    Args:
        distribution: The probability of each value of the noise.
        shifts: Differences of neighbors' counts, in the distribution's units; each is taken both ways.
    Returns:
        The curve, with a pair for each difference and direction.
    """
    scale = lcm(*(mass.denominator for mass in distribution.values()))
    # As integers, because there may be 10^5 values.
    whole = {value: int(mass * scale) for value, mass in distribution.items()}
    pairs = []
    for shift in shifts:
        for moved in (shift, -shift):
            values = whole.keys() | {value + moved for value in whole}
            alike = Counter((whole.get(value, 0), whole.get(value - moved, 0)) for value in values)
            masses = [(Fraction(p * n, scale), Fraction(q * n, scale)) for (p, q), n in alike.items()]
            pairs.append(_grouped(masses))
    return PrivacyCurve(tuple(pairs))


def curve_of_coins(coins: Coins, sensitivity: int = 1) -> PrivacyCurve:
    """Return the privacy of joint noise, for any number k of coins, without listing its 2^k magnitudes.

    Computes: signed noise X is n or -1 - n, and symmetric noise is n + 1, -1 - n or 0, where the coins are
    the bits of n. If a count moves by s and X stays on one side of zero, the likelihood ratio depends only on
    the bits that s has, and on how far the carry runs. The few values that reach or cross zero, or leave the
    range, are taken one by one.
    Guarantees: equal to `curve_of_distribution` of the enumerated distribution, for moves up and down.
    [test: tests/protocols/test_exact_privacy.py]

    Args:
        coins: The coins of the noise.
        sensitivity: The most by which a count moves, from 1 to `MAX_SENSITIVITY`.
    Returns:
        The curve, with a pair for each difference.
    Raises:
        ValueError: The sensitivity is not from 1 to 64 and below 2^k.
    """
    law = _Law.of(coins)
    if not 1 <= sensitivity <= min(MAX_SENSITIVITY, law.largest_magnitude):
        raise ValueError(
            f"the sensitivity must be at least 1, at most {MAX_SENSITIVITY}, and below the largest noise, "
            f"not {sensitivity}"
        )
    chance = law.chance_of_sign
    pairs = []
    for moved in range(1, sensitivity + 1):
        groups = []
        for x in range(-moved, law.first_above_zero):
            groups.append((law.atom(x), law.atom(x + moved)))  # X reaches, leaves or crosses zero
        for up, down in _one_side(law.magnitude, moved):
            groups.append((chance * up, chance * down))
            groups.append((chance * down, chance * up))
        edge = sum((law.atom(law.largest - n) for n in range(moved)), _ZERO)
        groups.append((edge, _ZERO))
        groups.append((_ZERO, edge))
        pairs.append(_grouped(groups))  # the same for a move down: the distribution is its own mirror image
    return PrivacyCurve(tuple(pairs))


@dataclass(frozen=True)
class _Law:
    """The probabilities of joint noise, value by value.

    Attributes:
        magnitude: The coins of the bits of n.
        chance_of_sign: The probability that noise is on one side of zero.
        at_zero: The probability of neither side; None if signed noise has no such outcome.
    """

    magnitude: tuple[Coin, ...]
    chance_of_sign: Fraction
    at_zero: Fraction | None

    @classmethod
    def of(cls, coins: Coins) -> "_Law":
        """Return the probabilities of these coins' noise."""
        if isinstance(coins, SymmetricCoins):
            nonzero = coins.nonzero.probability
            return cls(coins.magnitude, nonzero / 2, 1 - nonzero)
        return cls(coins, Fraction(1, 2), None)

    @property
    def largest_magnitude(self) -> int:
        """The largest n."""
        return (1 << len(self.magnitude)) - 1

    @property
    def first_above_zero(self) -> int:
        """The smallest value of the upper side, at which n = 0. The lower side begins with -1."""
        if self.at_zero is None:
            return 0
        return 1

    @property
    def largest(self) -> int:
        """The largest value."""
        return self.first_above_zero + self.largest_magnitude

    def atom(self, x: int) -> Fraction:
        """Return P(X = x)."""
        n = x - self.first_above_zero
        if x < 0:
            n = -1 - x
        if n > self.largest_magnitude:
            return _ZERO
        if n < 0:  # between the sides
            assert self.at_zero is not None
            return self.at_zero
        return self.chance_of_sign * _mass(self.magnitude, n)


def _mass(coins: tuple[Coin, ...], n: int) -> Fraction:
    """Return the probability that the coins show the bits of n, the first coin the lowest."""
    mass = Fraction(1)
    for i, coin in enumerate(coins):
        if n >> i & 1:
            mass *= coin.probability
        else:
            mass *= 1 - coin.probability
    return mass


def _one_side(coins: tuple[Coin, ...], moved: int) -> list[Masses]:
    """Return the masses of n + moved and of n, for all n with n + moved < 2^k, grouped by their ratio."""
    bits = moved.bit_length()
    low_coins = coins[:bits]
    high_coins = coins[bits:]
    groups = []
    for low in range(1 << bits):
        carry, sum_low = divmod(low + moved, 1 << bits)
        p = _mass(low_coins, sum_low)
        q = _mass(low_coins, low)
        if not carry:
            groups.append((p, q))
            continue
        # The carry turns ones of n into zeros, up to n's first zero, which becomes a one.
        for coin in high_coins:
            groups.append((p * coin.probability, q * (1 - coin.probability)))
            p *= 1 - coin.probability
            q *= coin.probability
    return groups


def _grouped(masses: Iterable[Masses]) -> tuple[Masses, ...]:
    """Add up masses with the same ratio p / q, the largest ratio first."""
    by_ratio: dict[Fraction | float, Masses] = {}
    for p, q in masses:
        if p or q:
            ratio = p / q if q else inf
            seen_p, seen_q = by_ratio.get(ratio, (_ZERO, _ZERO))
            by_ratio[ratio] = seen_p + p, seen_q + q
    if any(sum(side) != 1 for side in zip(*by_ratio.values(), strict=True)):
        raise ValueError("the masses are no distribution: they do not add up to 1")
    return tuple(by_ratio[ratio] for ratio in sorted(by_ratio, reverse=True))


def composed(curves: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """Return the exact privacy of independent noisy values together.

    Args:
        curves: A curve for each value, with the same pairs of neighbors in the same order.
    Returns:
        The curve of all values.
    Raises:
        ValueError: The values have so many likelihood ratios that listing them would take too long.
    """
    pairs = []
    for pair_by_value in zip(*(curve.pairs for curve in curves), strict=True):
        together: tuple[Masses, ...] = ((Fraction(1), Fraction(1)),)
        for pair in pair_by_value:
            if len(together) * len(pair) > MAX_PRODUCTS:
                raise ValueError(f"{len(curves)} noisy values have too many likelihood ratios to list")
            together = _grouped((p * value_p, q * value_q) for p, q in together for value_p, value_q in pair)
        pairs.append(together)
    return PrivacyCurve(tuple(pairs))


def values_moved(queries: LinearQueries, neighbors: Neighbors) -> int:
    """Return the largest L1 distance between the noisy values of any two neighboring data sets.

    [test: tests/harness/privacy/test_audit_releases.py, tests/harness/online/test_exchanged_records.py]

    Args:
        queries: How records change the values.
        neighbors: Which data sets are neighbors.
    Returns:
        The distance.
    """
    if queries.amounts:
        return max(map(sum, amounts_moved(queries, neighbors)))
    columns = sorted(set(map(frozenset, queries.columns)), key=len, reverse=True)
    most_of_a_record = len(columns[0])
    if not neighbors.are_replaced:
        return neighbors.cap * most_of_a_record
    most = 0
    if neighbors.malleable_slots:
        most = most_of_a_record  # a record that leaves no other in its place
    for i, column in enumerate(columns):
        for other in columns[i + 1 :]:
            if len(column) + len(other) <= most:
                break  # no further column is larger
            most = max(most, len(column ^ other))
    return neighbors.cap * most


def amounts_moved(queries: LinearQueries, neighbors: Neighbors) -> set[tuple[int, ...]]:
    """Return the amounts by which neighbors' noisy values differ, for each pair of neighbors.

    Args:
        queries: How records change the values.
        neighbors: Which data sets are neighbors.
    Returns:
        For each pair the amounts that are not 0, sorted; equal ones once.
    """
    rows = np.zeros((queries.cells, queries.nodes), dtype=np.int64)
    for cell, column in enumerate(queries.columns):
        if queries.amounts:
            np.add.at(rows[cell], list(column), queries.amounts[cell])
        else:
            np.add.at(rows[cell], list(column), 1)
    if neighbors.malleable_slots:
        rows = np.concatenate([rows, np.zeros((1, queries.nodes), dtype=np.int64)])
    if neighbors.are_replaced:
        rows = np.unique(np.concatenate([rows - row for row in rows]), axis=0)
    return {tuple(sorted(np.abs(row[row != 0]).tolist())) for row in rows if row.any()}


def impossible_mass(coins: Coins, amounts: Iterable[int]) -> Fraction:
    """Return a bound of the mass that tells neighbors apart for certain.

    Args:
        coins: The noise of each value.
        amounts: By how much each value moves.
    Returns:
        The bound, which may be above 1.
    """
    law = _Law.of(coins)
    return sum((law.atom(law.largest - n) for amount in amounts for n in range(amount)), _ZERO)


def impossible_mass_of_clients(coins: Coins, nodes: int, cap: int) -> Fraction:
    """Return a bound of the mass that tells neighbors apart for certain, if a client has several records.

    Args:
        coins: The noise of each count.
        nodes: How many counts a record changes.
        cap: How many records of a client count.
    Returns:
        The bound, which may be above 1.
    """
    law = _Law.of(coins)
    scale = 1 << fair_bits_per_sample(coins)  # masses times this are integers
    uncovered = [0]  # at place s: the mass that one count uncovers if it moves by s
    heaviest = [0]  # at place s: the most that any number of counts uncover if they move by s in all
    for n in range(cap):
        uncovered.append(uncovered[-1] + int(law.atom(law.largest - n) * scale))
        units = n + 1
        heaviest.append(max(uncovered[s] + heaviest[units - s] for s in range(1, units + 1)))
    return Fraction(nodes * heaviest[cap], scale)


def cost(coins: Coins) -> Gates:
    """Return the cost of the circuit of joint noise.

    Args:
        coins: The coins of the noise.
    Returns:
        The ANDs of a sample in one lane.
    """
    gates = Gates()
    fair = [Wire(gates) for _ in range(fair_bits_per_sample(coins))]
    joint_sample(coins, fair, _no_integer)
    return gates


def _no_integer(_bit: Wire) -> int:
    """Stand for the conversion of a bit, which takes no AND."""
    return 0
