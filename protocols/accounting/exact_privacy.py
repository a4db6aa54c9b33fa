"""Exact privacy of noise from its probability mass function alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, lcm, prod

import numpy as np

from protocols.accounting.calibration import LinearQueries, Neighbors
from protocols.circuits.coins import Coin, exp_bounds
from protocols.circuits.noise import fair_bits_per_sample, two_sided_geometric
from protocols.noise.truncated import log_upper_bound

MAX_SENSITIVITY = 64  # work grows with its square
MAX_PRODUCTS = 50_000  # of likelihood ratios, per value of a composition

_ZERO = Fraction(0)

Masses = tuple[Fraction, Fraction]  # of the same outcomes, under a data set and under its neighbor


@dataclass
class Gates:
    """A circuit's ANDs: of vectors, of single bits, and one after the other."""

    gates: int = 0
    ands: int = 0
    depth: int = 0


class Wire:
    """A vector of bits that counts the ANDs before it."""

    def __init__(self, counted: Gates, lanes: int = 1, depth: int = 0) -> None:
        self.counted, self.lanes, self.depth = counted, lanes, depth
        counted.depth = max(counted.depth, depth)

    def __and__(self, other: "Wire") -> "Wire":
        self.counted.gates += 1
        self.counted.ands += self.lanes
        return Wire(self.counted, self.lanes, max(self.depth, other.depth) + 1)

    def __xor__(self, other: "Wire") -> "Wire":
        return Wire(self.counted, self.lanes, max(self.depth, other.depth))

    def __invert__(self) -> "Wire":
        return self

    def store_in_mem(self, _address: object) -> None:
        """Do nothing; engines store it in memory."""


@dataclass(frozen=True)
class PrivacyCurve:
    """Delta as an exact function of epsilon: the largest P(E) - e^epsilon Q(E) over events E.

    Per pair of neighbors it has the masses (p, q) of all outcomes with the same p / q, falling, q = 0 first.
    """

    pairs: tuple[tuple[Masses, ...], ...]

    def delta(self, ratio: Fraction) -> Fraction:
        """Return delta at e^epsilon = ratio, exactly."""
        return max(sum((max(p - ratio * q, _ZERO) for p, q in pair), _ZERO) for pair in self.pairs)

    def delta_bounds(self, epsilon: Fraction) -> tuple[Fraction, Fraction]:
        """Enclose delta(epsilon), 0 <= epsilon <= 64, between rationals."""
        low, high = exp_bounds(epsilon)
        return self.delta(high), self.delta(low)

    @property
    def impossible(self) -> Fraction:
        """Mass that tells the neighbors apart for certain."""
        return max(sum((p for p, q in pair if not q), _ZERO) for pair in self.pairs)

    def least_ratio(self, delta: Fraction) -> Fraction | None:
        """Return the least e^epsilon >= 1 with at most this delta, exactly, if any."""
        if self.impossible > delta:
            return None
        least = Fraction(1)
        for pair in self.pairs:  # p - ratio q = delta, for p and q of all groups above the ratio
            above = _ZERO, _ZERO
            for p, q in pair:
                if q and above[0] - p / q * above[1] > delta:
                    break
                above = above[0] + p, above[1] + q
            least = max(least, (above[0] - delta) / above[1])
        return least

    def least_epsilon(self, delta: Fraction) -> Fraction | None:
        """Return an upper bound, within 10^-12, of the least epsilon at this delta, if any."""
        ratio = self.least_ratio(delta)
        return None if ratio is None else log_upper_bound(ratio)


def curve_of_distribution(distribution: Mapping[int, Fraction], shifts: Iterable[int]) -> PrivacyCurve:
    """Return the privacy of a count with noise of any distribution.

    `shifts` are differences of neighbors' counts, in the distribution's units; each is taken both ways.
    """
    scale = lcm(*(mass.denominator for mass in distribution.values()))
    whole = {
        x: int(mass * scale) for x, mass in distribution.items()
    }  # integers, as there may be 10^5 values
    pairs = []
    for shift in shifts:
        for moved in (shift, -shift):
            values = whole.keys() | {x + moved for x in whole}
            alike = Counter((whole.get(x, 0), whole.get(x - moved, 0)) for x in values)
            pairs.append(
                _grouped((Fraction(p * n, scale), Fraction(q * n, scale)) for (p, q), n in alike.items())
            )
    return PrivacyCurve(tuple(pairs))


def second_moment(distribution: Mapping[int, Fraction]) -> Fraction:
    """Return E[X^2], exactly, from the mass of every value."""
    scale = lcm(*(mass.denominator for mass in distribution.values()))  # integers, as for a curve
    return Fraction(sum(int(mass * scale) * x * x for x, mass in distribution.items()), scale)


def curve_of_coins(coins: tuple[Coin, ...], sensitivity: int = 1) -> PrivacyCurve:
    """Return the privacy of the default noise, for any number k of coins.

    Computes: for counts that differ by s, the ratio on one side of zero depends on low bits and the length of
    a carry. Else atom by atom.
    Guarantees: equal to `curve_of_distribution` of the enumerated distribution.

    Raises:
        ValueError: The sensitivity is not from 1 to 64 and below 2^k.
    [test: tests/protocols/test_exact_privacy.py]
    """
    if not 1 <= sensitivity <= min(MAX_SENSITIVITY, (1 << len(coins)) - 1):
        raise ValueError(
            f"the sensitivity must be at least 1, at most {MAX_SENSITIVITY}, and below the largest noise, "
            f"not {sensitivity}"
        )
    half, pairs = Fraction(1, 2), []
    for s in range(1, sensitivity + 1):
        near = [half * _mass(coins, n) for n in range(s)]  # of X = n and of X = -1-n
        groups = list(zip(near, reversed(near), strict=True))
        for up, down in _one_side(coins, s):
            groups += [(half * up, half * down), (half * down, half * up)]
        edge = half * sum(_mass(coins, (1 << len(coins)) - 1 - n) for n in range(s))
        groups += [(edge, _ZERO), (_ZERO, edge)]
        pairs.append(_grouped(groups))  # the same for a move down: the distribution is its own mirror image
    return PrivacyCurve(tuple(pairs))


def _mass(coins: tuple[Coin, ...], n: int) -> Fraction:
    return prod(
        (coin.probability if n >> i & 1 else 1 - coin.probability for i, coin in enumerate(coins)),
        start=Fraction(1),
    )


def _one_side(coins: tuple[Coin, ...], s: int) -> list[Masses]:
    """Return masses of {n + s} and of {n}, n + s < 2^k, grouped by their ratio."""
    bits = s.bit_length()
    low, high = coins[:bits], coins[bits:]
    groups = []
    for n in range(1 << bits):
        carry, moved = divmod(n + s, 1 << bits)
        p, q = _mass(low, moved), _mass(low, n)
        if not carry:
            groups.append((p, q))
        else:
            for coin in high:  # the carry runs over ones, up to the first zero
                groups.append((p * coin.probability, q * (1 - coin.probability)))
                p, q = p * (1 - coin.probability), q * coin.probability
    return groups


def _grouped(masses: Iterable[Masses]) -> tuple[Masses, ...]:
    by_ratio: dict[Fraction | float, Masses] = defaultdict(lambda: (_ZERO, _ZERO))
    for p, q in masses:
        if p or q:
            ratio = p / q if q else inf
            seen_p, seen_q = by_ratio[ratio]
            by_ratio[ratio] = seen_p + p, seen_q + q
    if any(sum(side) != 1 for side in zip(*by_ratio.values(), strict=True)):
        raise ValueError("the masses are no distribution: they do not add up to 1")
    return tuple(by_ratio[ratio] for ratio in sorted(by_ratio, reverse=True))


def composed(curves: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """Return the exact privacy of independent noisy values, or raise ValueError if it takes too long."""
    pairs = []
    for together in zip(*(curve.pairs for curve in curves), strict=True):
        total: tuple[Masses, ...] = ((Fraction(1), Fraction(1)),)
        for pair in together:
            if len(total) * len(pair) > MAX_PRODUCTS:
                raise ValueError(f"{len(curves)} noisy values have too many likelihood ratios to list")
            total = _grouped((p * a, q * b) for p, q in total for a, b in pair)
        pairs.append(total)
    return PrivacyCurve(tuple(pairs))


def values_moved(release: LinearQueries, neighbors: Neighbors) -> int:
    """Return the largest L1 distance between the noisy values of any two neighboring data sets.

    [test: tests/harness/privacy/test_audit_releases.py, tests/harness/online/test_exchanged_records.py]
    """
    if release.amounts:
        return max(map(sum, amounts_moved(release, neighbors)))
    columns = sorted(set(map(frozenset, release.columns)), key=len, reverse=True)
    if not neighbors.are_replaced:
        return neighbors.cap * len(columns[0])
    most = len(columns[0]) if neighbors.malleable_slots else 0  # for none
    for i, column in enumerate(columns):
        for other in columns[i + 1 :]:
            if len(column) + len(other) <= most:
                break  # all further ones are smaller still
            most = max(most, len(column ^ other))
    return neighbors.cap * most


def amounts_moved(release: LinearQueries, neighbors: Neighbors) -> set[tuple[int, ...]]:
    """Return the amounts by which neighbors' noisy values differ."""
    rows = np.zeros((release.cells, release.nodes), dtype=np.int64)
    for cell, column in enumerate(release.columns):
        np.add.at(rows[cell], list(column), release.amounts[cell] if release.amounts else 1)
    if neighbors.malleable_slots:
        rows = np.concatenate([rows, np.zeros((1, release.nodes), dtype=np.int64)])
    if neighbors.are_replaced:
        rows = np.unique(np.concatenate([rows - row for row in rows]), axis=0)
    return {tuple(sorted(np.abs(row[row != 0]).tolist())) for row in rows if row.any()}


def impossible_mass(coins: tuple[Coin, ...], amounts: Iterable[int]) -> Fraction:
    """Return a bound of the mass that tells neighbors apart for certain."""
    top = (1 << len(coins)) - 1
    return sum((_mass(coins, top - n) for a in amounts for n in range(a)), _ZERO) / 2


def impossible_mass_of_clients(coins: tuple[Coin, ...], nodes: int, cap: int) -> Fraction:
    """Return `impossible_mass` of `cap` records at once, in `nodes` counts each."""
    top, scale = (1 << len(coins)) - 1, 1 << sum(coin.bits for coin in coins)
    uncovered, heaviest = [0], [0]  # times the scale: by one count that moves by s; by counts, by s in all
    for n in range(cap):
        atom = _mass(coins, top - n) * scale if n <= top else _ZERO
        uncovered.append(uncovered[-1] + atom.numerator)
        heaviest.append(max(uncovered[s] + heaviest[n + 1 - s] for s in range(1, n + 2)))
    return Fraction(nodes * heaviest[cap], 2 * scale)


def cost(coins: tuple[Coin, ...]) -> Gates:
    """Return the cost of the default noise's circuit."""
    gates = Gates()
    two_sided_geometric(coins, [Wire(gates) for _ in range(fair_bits_per_sample(coins))])
    return gates
