"""Noisy values of a release, whom they protect, and how epsilon and delta spread over them.

Theorems are in docs/explanation/theorems.md; a node is a value that gets noise.
"""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from protocols.accounting.distributed_noise import Moves, design_distributed, guarantee_of_distributed
from protocols.circuits.coins import (
    MAX_DELTA_BITS,
    MIN_DELTA_BITS,
    Coin,
    design_coins,
    edge_mass,
    exp_bounds,
    worst_ratio,
)
from protocols.guarantee import Guarantee
from protocols.noise.added import DistributedNoise, NoiseDistribution
from protocols.noise.truncated import guarantee, guarantee_of_clients, guarantee_of_moves, log_upper_bound

_EPSILON_GRID = 10**12  # a value's epsilon, which names the compiled program, is rounded down to this grid


@dataclass(frozen=True)
class LinearQueries:
    """Nodes that are integer combinations of disjoint cells; a record is in one cell.

    It changes the nodes of the cell's column by the cell's amounts, or by 1 if there are none. If `shared`,
    only the corners of a record's possible cells are listed (theorem 11).
    """

    nodes: int
    columns: tuple[tuple[int, ...], ...]
    amounts: tuple[tuple[int, ...], ...] = ()
    shared: bool = False

    def __post_init__(self) -> None:
        if self.amounts and [*map(len, self.amounts)] != [*map(len, self.columns)]:
            raise ValueError("there must be an amount for each node of each cell")
        for column in self.columns:
            if len(set(column)) != len(column) or not all(0 <= node < self.nodes for node in column):
                raise ValueError(f"column {column} does not name distinct nodes below {self.nodes}")

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.columns)

    def record(self, cell: int) -> dict[int, int]:
        """Return by how much a record in a cell changes each node."""
        amounts = self.amounts[cell] if self.amounts else (1,) * len(self.columns[cell])
        return dict(zip(self.columns[cell], amounts, strict=True))


@dataclass(frozen=True)
class AboveThreshold:
    """Index of the first of `queries` noisy counts up to a noisy bound, each moved by 1 at most."""

    queries: int

    @property
    def nodes(self) -> int:
        """The number of noisy values: the counts and the bound."""
        return self.queries + 1


def each_cell_once(cells: int) -> LinearQueries:
    """Return the release of every cell (π_RW, π_CF)."""
    return LinearQueries(cells, tuple((cell,) for cell in range(cells)))


def sums_from_ends(groups: int, steps: int) -> LinearQueries:
    """Return the release of sums of distances from either end of the range, per group (π_GAP).

    A client of group g, v steps from the center, adds steps + v to node 2g, and steps - v to the next.
    """
    return LinearQueries(
        2 * groups, tuple((node,) for node in range(2 * groups)), ((2 * steps,),) * (2 * groups), True
    )


def logarithms(cells: int, step: int) -> LinearQueries:
    """Return the release of a logarithm per cell, moved by `step` at most (π_COUNT)."""
    return LinearQueries(cells, tuple((cell,) for cell in range(cells)), ((step,),) * cells)


class NeighboringRelation(StrEnum):
    """How two data sets differ that released values must not tell apart."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"
    ZERO_OUT_ONE = "zero_out_one"  # a client takes part with all its records, or without any


def default_relation(max_count: int) -> NeighboringRelation:
    """Return the relation that a release protects by default.

    With a public number of clients, a client with one record can only hide its content.
    [test: tests/protocols/test_calibration.py]
    """
    return NeighboringRelation.REPLACE_ONE if max_count == 1 else NeighboringRelation.ADD_OR_REMOVE_ONE


class PrivacyUnit(StrEnum):
    """What is added, removed or replaced."""

    RECORD = "record"
    CLIENT = "client"


@dataclass(frozen=True)
class Neighbors:
    """Two data sets that the released values must not tell apart.

    If clients are zeroed out, `cap` records of each count. With `malleable_slots` a party can flip bits of a
    slot, so a record that goes may leave another in its place.
    """

    relation: NeighboringRelation
    cap: int = 1
    malleable_slots: bool = False

    @property
    def are_replaced(self) -> bool:
        """Whether another record may replace one that goes."""
        return self.malleable_slots or self.relation is NeighboringRelation.REPLACE_ONE


@dataclass(frozen=True)
class NoisePlan:
    """The noise of one release, joint by `coins` or distributed as `own`, and its guarantee.

    All values of two neighbors differ by `changed` (L1 sensitivity), each by `largest`. An index has no
    `release`.
    """

    neighbors: Neighbors
    requested_epsilon: Fraction
    nodes: int
    changed: int
    node_epsilon: Fraction
    node_delta_bits: int
    coins: tuple[Coin, ...]
    exact: Guarantee
    largest: int = 1
    release: LinearQueries | None = field(default=None, repr=False, compare=False)
    own: DistributedNoise | None = None

    @property
    def relation(self) -> NeighboringRelation:
        """The neighboring relation."""
        return self.neighbors.relation

    @property
    def unit(self) -> PrivacyUnit:
        """The privacy unit."""
        return PrivacyUnit.CLIENT if self.relation is NeighboringRelation.ZERO_OUT_ONE else PrivacyUnit.RECORD

    @property
    def noise(self) -> tuple[Coin, ...] | DistributedNoise:
        """The noise of each value."""
        return self.own or self.coins

    @property
    def if_replaced(self) -> Guarantee:
        """The guarantee of the same noise if a record is replaced.

        For counts epsilon and delta double; delta does not if a value moves by twice as much.
        [test: tests/harness/pipeline/test_manifest.py]
        """
        assert self.release is not None
        moves = possible_moves(self.release, Neighbors(NeighboringRelation.REPLACE_ONE))
        if self.own:
            return guarantee_of_distributed(self.own, Moves(moves), 2 * self.exact.epsilon)
        return guarantee_of_moves(self.coins, moves, self.release.shared)


def nodes_changed(release: LinearQueries, neighbors: Neighbors) -> int:
    """Return the most by which two neighbors' counts differ in all.

    [test: tests/protocols/test_calibration.py, tests/harness/online/test_exchanged_records.py]
    """
    return neighbors.cap * max(map(len, release.columns)) * (2 if neighbors.are_replaced else 1)


def possible_moves(release: LinearQueries, neighbors: Neighbors) -> frozenset[tuple[int, ...]]:
    """Return by how much a record moves each value, in all ways that may be the worst.

    [test: tests/protocols/test_exact_moves.py]
    """
    if not release.amounts:
        return frozenset([(1,) * nodes_changed(release, replace(neighbors, cap=1))])
    records = [release.record(cell) for cell in range(release.cells)]
    nothing: list[dict[int, int]] = [{}] * (neighbors.relation is not NeighboringRelation.REPLACE_ONE)
    before = [*records * neighbors.are_replaced, *nothing]
    moves = (
        sorted(filter(None, (abs(one.get(n, 0) - other.get(n, 0)) for n in {*one, *other})))
        for one in records
        for other in before
    )
    return frozenset(map(tuple, filter(None, moves)))


def moves_of(release: LinearQueries, neighbors: Neighbors) -> Moves:
    """Return how far neighbors' noisy values are apart, or raise ValueError for a cap that does not fit."""
    cap, zeroed = neighbors.cap, neighbors.relation is NeighboringRelation.ZERO_OUT_ONE
    if cap < 1 or (cap > 1 and (release.amounts or not zeroed)):
        raise ValueError(f"a cap of {cap} records is for counts, where a client is zeroed out")
    return Moves(possible_moves(release, neighbors), cap)


def plan_noise(
    release: LinearQueries | AboveThreshold, neighbors: Neighbors, epsilon: Fraction, delta: Fraction
) -> NoisePlan:
    """Choose a release's coins and compute its guarantee exactly.

    Computes: epsilon and delta shared evenly among the units by which neighbors differ (theorem 8).
    Guarantees: `exact` is within epsilon and delta; if no coins reach them, ValueError says which bound.
    [test: tests/protocols/test_calibration.py, tests/harness/releases/test_client_unit.py,
    tests/harness/online/test_exchanged_records.py]
    """
    if not 0 < delta < 1:
        raise ValueError("delta must be between 0 and 1")
    if isinstance(release, AboveThreshold):
        return _plan_first_below(release, neighbors, epsilon, delta)
    moves = moves_of(release, neighbors)
    node_epsilon, bits, coins = _coins(epsilon, moves.units, delta / moves.units, moves.largest)
    if moves.cap > 1:
        exact = guarantee_of_clients(coins, moves.levels, moves.cap)
    elif moves.largest == 1:
        exact = guarantee(coins, moves.units)
    else:
        exact = guarantee_of_moves(coins, moves.each, release.shared)
    if not exact.within(Guarantee(epsilon, delta)):
        raise ValueError("the coins that were found do not keep to epsilon and delta")
    return NoisePlan(
        *(neighbors, epsilon, release.nodes, moves.units, node_epsilon, bits, coins, exact, moves.largest),
        release=release,
    )


def plan_distributed_noise(
    release: LinearQueries | AboveThreshold,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    distribution: NoiseDistribution,
    parties: int,
    tolerated: int,
) -> NoisePlan:
    """Choose the table of each party's noise and compute the guarantee of the honest parties' noises.

    Guarantees: `exact` is within epsilon and delta, whichever `tolerated` parties are corrupted; else
    ValueError.
    [test: tests/protocols/test_distributed_noise.py]
    """
    if isinstance(release, AboveThreshold):
        raise ValueError("which count is the first below a bound is found inside, with joint noise only")
    moves = moves_of(release, neighbors)
    noise, exact = design_distributed(
        distribution, moves, epsilon, delta, parties=parties, honest=parties - tolerated
    )
    return NoisePlan(
        *(neighbors, epsilon, release.nodes, moves.units, noise.rate, 0, (), exact, moves.largest),
        release=release,
        own=noise,
    )


def _plan_first_below(
    release: AboveThreshold, neighbors: Neighbors, epsilon: Fraction, delta: Fraction
) -> NoisePlan:
    """Choose coins for an index: half of epsilon for each of two ratios, delta shared by all samples.

    Flipped bits double nothing: of any two codes one exceeds all caps that the other does.
    """
    if neighbors.relation is not NeighboringRelation.ZERO_OUT_ONE:
        raise ValueError(
            f"which count is the first below a bound is revealed of clients, not under {neighbors.relation}"
        )
    node_epsilon, bits, coins = _coins(epsilon, 2, delta / release.nodes)
    exact = guarantee_of_first_below(coins, release.queries)
    if not exact.within(Guarantee(epsilon, delta)):
        raise ValueError("the coins that were found do not keep to epsilon and delta")
    return NoisePlan(
        replace(neighbors, malleable_slots=False),
        *(epsilon, release.nodes, 2, node_epsilon, bits, coins, exact),
    )


def _coins(
    epsilon: Fraction, units: int, delta: Fraction, largest: int = 1
) -> tuple[Fraction, int, tuple[Coin, ...]]:
    """Return epsilon, delta_bits and coins of a value.

    `epsilon` is for all units; `delta` is for a unit of a value that moves by `largest`.
    """
    node_epsilon = Fraction(epsilon * _EPSILON_GRID // units, _EPSILON_GRID)
    bits = bits_at_most(delta / exp_bounds(node_epsilon * (largest - 1))[1])
    if bits > MAX_DELTA_BITS:
        raise ValueError(f"delta per noisy value must be at least 2^-{MAX_DELTA_BITS}, not 2^-{bits}")
    return node_epsilon, bits, design_coins(node_epsilon, bits)


def bits_at_most(delta: Fraction) -> int:
    """Return the least delta_bits b with 2^-b <= delta."""
    return max(MIN_DELTA_BITS, (math.ceil(1 / delta) - 1).bit_length())


def guarantee_of_first_below(coins: tuple[Coin, ...], queries: int) -> Guarantee:
    """Return the guarantee of the index of the first noisy count at or below a noisy bound.

    Source: theorem 12; AboveThreshold (Dwork and Roth 2014, Algorithm 1) for counts that move alike.
    [test: tests/protocols/test_above_threshold.py, by enumeration]
    """
    return Guarantee(2 * log_upper_bound(worst_ratio(coins)), (queries + 1) * edge_mass(coins))
