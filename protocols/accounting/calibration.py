"""Noisy values of a release, whom they protect, and how epsilon and delta spread over them.

Theorems are in docs/explanation/theorems.md; a node is a value that gets noise.
"""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from fairshares.protocols.accounting.distributed_noise import (
    Moves,
    design_distributed,
    guarantee_of_distributed,
)
from fairshares.protocols.accounting.rounds import RoundsPlan
from fairshares.protocols.circuits.coins import (
    MAX_DELTA_BITS,
    MIN_DELTA_BITS,
    Coins,
    NoiseFamily,
    design_noise,
    edge_mass,
    exp_bounds,
    family_of,
    worst_ratio,
)
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import DistributedNoise, NoiseDistribution
from fairshares.protocols.noise.truncated import (
    guarantee,
    guarantee_of_clients,
    guarantee_of_moves,
    log_upper_bound,
)

# A value's epsilon is rounded down to a multiple of 1 / this. It is part of a compiled program's name.
_EPSILON_GRID = 10**12


@dataclass(frozen=True)
class LinearQueries:
    """Nodes, each of which is the sum of some cells' records times integers. A record is in one cell.

    Attributes:
        nodes: The number of nodes.
        columns: For each cell, the nodes that a record in it changes.
        amounts: For each cell, by how much a record in it changes each of these nodes. Without amounts each
            node changes by 1.
        shared: Whether a record can also lie between the cells, which then are the corners of what is
            possible (theorem 11).
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
        """Return what a record in a cell changes.

        Args:
            cell: The cell's number, from 0 on.
        Returns:
            The amount by which each changed node moves, by the node's number.
        """
        nodes = self.columns[cell]
        if not self.amounts:
            return dict.fromkeys(nodes, 1)
        return dict(zip(nodes, self.amounts[cell], strict=True))


@dataclass(frozen=True)
class AboveThreshold:
    """The index of the first of several noisy counts that is at most a noisy bound.

    A neighbor moves each count by 1 at most.

    Attributes:
        counts: The number of counts.
    """

    counts: int

    @property
    def nodes(self) -> int:
        """The number of noisy values: the counts and the bound."""
        return self.counts + 1


def each_cell_once(cells: int) -> LinearQueries:
    """Return the release of every cell (π_RW, π_CF).

    Args:
        cells: The number of cells.
    Returns:
        Queries with a node for each cell.
    """
    return LinearQueries(cells, tuple((cell,) for cell in range(cells)))


def sums_from_ends(groups: int, steps: int) -> LinearQueries:
    """Return the release of sums of distances from either end of the range, per group (π_GAP).

    A client of group g, v steps from the center, adds steps + v to node 2g, and steps - v to node 2g + 1.
    Its corners are 2 steps in either of the two nodes.

    Args:
        groups: The number of groups.
        steps: The steps on each side of the center, at least 1.
    Returns:
        Queries with two nodes for each group.
    """
    nodes = 2 * groups
    return LinearQueries(
        nodes=nodes,
        columns=tuple((node,) for node in range(nodes)),
        amounts=((2 * steps,),) * nodes,
        shared=True,
    )


def logarithms(cells: int, step: int) -> LinearQueries:
    """Return the release of a logarithm per cell (π_COUNT).

    Args:
        cells: The number of cells.
        step: The most by which a record moves a logarithm, in its units.
    Returns:
        Queries with a node for each cell.
    """
    return LinearQueries(cells, tuple((cell,) for cell in range(cells)), ((step,),) * cells)


class NeighboringRelation(StrEnum):
    """How two data sets differ that released values must not tell apart."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"
    ZERO_OUT_ONE = "zero_out_one"  # a client takes part with all its records, or without any


def default_relation(max_count: int) -> NeighboringRelation:
    """Return the relation that a release protects by default.

    If each client has one record, the number of records is public, and only a record's content can be hidden.
    [test: tests/protocols/test_calibration.py]

    Args:
        max_count: The most records of a client.
    Returns:
        The relation: replacement if each client has one record, else addition or removal.
    """
    if max_count == 1:
        return NeighboringRelation.REPLACE_ONE
    return NeighboringRelation.ADD_OR_REMOVE_ONE


class PrivacyUnit(StrEnum):
    """What is added, removed or replaced."""

    RECORD = "record"
    CLIENT = "client"


@dataclass(frozen=True)
class Neighbors:
    """Two data sets that the released values must not tell apart.

    Args:
        relation: How they differ.
        cap: If clients are zeroed out, how many records of each client count.
        malleable_slots: Whether a party can flip bits of a client's slot. Then a record that goes may leave
            another in its place.
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
    """The noise of one release, and its guarantee.

    Joint noise has `coins`. Distributed noise is each party's `own`, and has no coins.

    Args:
        neighbors: Whom the noise protects.
        nodes: The number of noisy values.
        changed: The L1 sensitivity: the most by which all values of two neighbors differ together.
        node_epsilon: The epsilon of a value that moves by 1; for distributed noise the rate of its table.
        node_delta_bits: The coins' delta of a value that moves by 1 is at most 2^-this; 0 without coins.
        coins: The joint noise of each value.
        exact: The guarantee of all values together.
        largest: The most by which a single value moves.
        queries: How records change the values; None for an index.
        own: The noise of each party; None for joint noise.
        rounds: The noise of one of several rounds that have one loss together, which is `exact`; None outside
            of rounds. Joint noise of rounds has no coins.
    """

    neighbors: Neighbors
    nodes: int
    changed: int
    node_epsilon: Fraction
    node_delta_bits: int
    coins: Coins
    exact: Guarantee
    largest: int = 1
    queries: LinearQueries | None = field(default=None, repr=False, compare=False)
    own: DistributedNoise | None = None
    rounds: RoundsPlan | None = None

    @property
    def relation(self) -> NeighboringRelation:
        """The neighboring relation."""
        return self.neighbors.relation

    @property
    def unit(self) -> PrivacyUnit:
        """The privacy unit."""
        if self.relation is NeighboringRelation.ZERO_OUT_ONE:
            return PrivacyUnit.CLIENT
        return PrivacyUnit.RECORD

    @property
    def noise(self) -> Coins | DistributedNoise:
        """The noise of each value."""
        return self.own or self.coins

    @property
    def family(self) -> NoiseFamily | None:
        """The family of joint noise of counts; None of distributed noise, and of rounds."""
        return None if self.own or self.rounds else family_of(self.coins)

    @property
    def if_replaced(self) -> Guarantee:
        """The guarantee of the same noise if a record is replaced.

        For counts epsilon and delta double. Delta does not double if a single value moves by twice as much.
        [test: tests/harness/pipeline/test_manifest.py]
        """
        assert self.queries is not None
        moves = possible_moves(self.queries, Neighbors(NeighboringRelation.REPLACE_ONE))
        if self.own:
            return guarantee_of_distributed(self.own, Moves(moves), 2 * self.exact.epsilon)
        return guarantee_of_moves(self.coins, moves, self.queries.shared)


def nodes_changed(queries: LinearQueries, neighbors: Neighbors) -> int:
    """Return the most by which all counts of two neighbors differ together.

    [test: tests/protocols/test_calibration.py, tests/harness/online/test_exchanged_records.py]

    Args:
        queries: How records change the counts.
        neighbors: Whom the noise protects.
    Returns:
        The L1 sensitivity.
    """
    nodes_of_record = max(map(len, queries.columns))
    records = neighbors.cap
    if neighbors.are_replaced:
        records *= 2  # each record that goes, and the record in its place
    return records * nodes_of_record


def possible_moves(queries: LinearQueries, neighbors: Neighbors) -> frozenset[tuple[int, ...]]:
    """Return by how much one record moves each value, in all ways that may be the worst.

    [test: tests/protocols/test_exact_moves.py]

    Args:
        queries: How records change the values.
        neighbors: Whom the noise protects.
    Returns:
        Moves, each the sorted amounts of those values that do move.
    """
    if not queries.amounts:
        return frozenset([(1,) * nodes_changed(queries, replace(neighbors, cap=1))])
    records = [queries.record(cell) for cell in range(queries.cells)]
    replaced: list[dict[int, int]] = []  # the records that a record may take the place of
    if neighbors.are_replaced:
        replaced += records
    if neighbors.relation is not NeighboringRelation.REPLACE_ONE:
        replaced.append({})  # nothing
    moves = set()
    for new in records:
        for old in replaced:
            amounts = [abs(new.get(node, 0) - old.get(node, 0)) for node in new.keys() | old.keys()]
            move = tuple(sorted(amount for amount in amounts if amount))
            if move:
                moves.add(move)
    return frozenset(moves)


def moves_of(queries: LinearQueries, neighbors: Neighbors) -> Moves:
    """Return how far neighbors' noisy values are apart.

    Args:
        queries: How records change the values.
        neighbors: Whom the noise protects.
    Returns:
        The moves of one record, and how many records move at once.
    Raises:
        ValueError: The cap is below 1, or above 1 where it has no meaning.
    """
    cap = neighbors.cap
    are_counts_of_clients = not queries.amounts and neighbors.relation is NeighboringRelation.ZERO_OUT_ONE
    if cap < 1 or (cap > 1 and not are_counts_of_clients):
        raise ValueError(f"a cap of {cap} records is for counts, where a client is zeroed out")
    return Moves(possible_moves(queries, neighbors), cap)


def plan_noise(
    queries: LinearQueries | AboveThreshold,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    family: NoiseFamily | None = None,
) -> NoisePlan:
    """Choose the coins of the answers to queries, and compute their guarantee exactly.

    Computes: epsilon and delta shared evenly among the units by which neighbors differ (theorem 8).
    Guarantees: the plan's `exact` is within epsilon and delta.
    [test: tests/protocols/test_calibration.py, tests/harness/releases/test_client_unit.py,
    tests/harness/online/test_exchanged_records.py]

    Args:
        queries: What is answered with noise.
        neighbors: Whom the noise protects.
        epsilon: The most that all answers together may spend, above 0.
        delta: The most delta that all answers together may spend, above 0 and below 1.
        family: The family of the noise; None: the one for a value's epsilon.
    Returns:
        The coins of each answer's noise, and the guarantee of all answers.
    Raises:
        ValueError: No coins reach epsilon and delta. The message says which bound they miss.
    """
    if not 0 < delta < 1:
        raise ValueError("delta must be between 0 and 1")
    if isinstance(queries, AboveThreshold):
        return _plan_first_below(queries, neighbors, epsilon, delta, family)
    moves = moves_of(queries, neighbors)
    node_epsilon, bits, coins = _coins(epsilon, moves.units, delta / moves.units, moves.largest, family)
    if moves.cap > 1:
        exact = guarantee_of_clients(coins, moves.levels, moves.cap)
    elif moves.largest == 1:
        exact = guarantee(coins, moves.units)
    else:
        exact = guarantee_of_moves(coins, moves.each, queries.shared)
    if not exact.within(Guarantee(epsilon, delta)):
        raise ValueError("the coins that were found do not keep to epsilon and delta")
    return NoisePlan(
        neighbors=neighbors,
        nodes=queries.nodes,
        changed=moves.units,
        node_epsilon=node_epsilon,
        node_delta_bits=bits,
        coins=coins,
        exact=exact,
        largest=moves.largest,
        queries=queries,
    )


def plan_distributed_noise(
    queries: LinearQueries | AboveThreshold,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    distribution: NoiseDistribution,
    parties: int,
    tolerated: int,
) -> NoisePlan:
    """Choose the table of each party's noise and compute the guarantee of the honest parties' noises.

    Guarantees: the plan's `exact` is within epsilon and delta, whichever `tolerated` parties are corrupted.
    [test: tests/protocols/test_distributed_noise.py]

    Args:
        queries: What is answered with noise.
        neighbors: Whom the noise protects.
        epsilon: The most that all answers together may spend, above 0.
        delta: The most delta that all answers together may spend, above 0 and below 1.
        distribution: What the honest parties' noises add up to.
        parties: The number of parties.
        tolerated: How many of them may be corrupted.
    Returns:
        Each party's noise, and the guarantee of all answers.
    Raises:
        ValueError: No table reaches epsilon and delta, or the answer is an index.
    """
    if isinstance(queries, AboveThreshold):
        raise ValueError("which count is the first below a bound is found inside, with joint noise only")
    moves = moves_of(queries, neighbors)
    noise, exact = design_distributed(
        distribution, moves, epsilon, delta, parties=parties, honest=parties - tolerated
    )
    return NoisePlan(
        neighbors=neighbors,
        nodes=queries.nodes,
        changed=moves.units,
        node_epsilon=noise.rate,
        node_delta_bits=0,
        coins=(),
        exact=exact,
        largest=moves.largest,
        queries=queries,
        own=noise,
    )


def _plan_first_below(
    queries: AboveThreshold,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    family: NoiseFamily | None,
) -> NoisePlan:
    """Choose coins for an index: each of two ratios gets half of epsilon, and all samples share delta.

    A party that flips a slot's bits does not double the loss, because two clients' counts never move in
    opposite directions: of any two, one exceeds all caps that the other exceeds.
    """
    if neighbors.relation is not NeighboringRelation.ZERO_OUT_ONE:
        raise ValueError(
            f"which count is the first below a bound is revealed of clients, not under {neighbors.relation}"
        )
    node_epsilon, bits, coins = _coins(epsilon, 2, delta / queries.nodes, family=family)
    exact = guarantee_of_first_below(coins, queries.counts)
    if not exact.within(Guarantee(epsilon, delta)):
        raise ValueError("the coins that were found do not keep to epsilon and delta")
    return NoisePlan(
        neighbors=replace(neighbors, malleable_slots=False),
        nodes=queries.nodes,
        changed=2,
        node_epsilon=node_epsilon,
        node_delta_bits=bits,
        coins=coins,
        exact=exact,
    )


def _coins(
    epsilon: Fraction,
    units: int,
    delta: Fraction,
    largest: int = 1,
    family: NoiseFamily | None = None,
) -> tuple[Fraction, int, Coins]:
    """Return the epsilon, the bits of delta and the coins of a single value that moves by 1.

    Args:
        epsilon: For all units together.
        units: By how much all values move together.
        delta: For one unit of a value that moves by `largest`.
        largest: The most by which a single value moves.
        family: The family of the noise; None: the one for the epsilon of a value.
    """
    node_epsilon = Fraction(epsilon * _EPSILON_GRID // units, _EPSILON_GRID)
    bits = bits_at_most(delta / exp_bounds(node_epsilon * (largest - 1))[1])
    if bits > MAX_DELTA_BITS:
        raise ValueError(f"delta per noisy value must be at least 2^-{MAX_DELTA_BITS}, not 2^-{bits}")
    return node_epsilon, bits, design_noise(node_epsilon, bits, family)


def bits_at_most(delta: Fraction) -> int:
    """Return the least delta_bits b with 2^-b <= delta, at least `MIN_DELTA_BITS`.

    Args:
        delta: The delta, above 0.
    Returns:
        The number of bits.
    """
    return max(MIN_DELTA_BITS, (math.ceil(1 / delta) - 1).bit_length())


def guarantee_of_first_below(coins: Coins, counts: int) -> Guarantee:
    """Return the guarantee of the index of the first of several noisy counts at or below a noisy bound.

    Source: theorem 12; AboveThreshold (Dwork and Roth 2014, Algorithm 1) for counts that move alike.
    [test: tests/protocols/test_above_threshold.py, by enumeration]

    Args:
        coins: The noise of each count and of the bound.
        counts: The number of counts.
    Returns:
        The guarantee, if a neighbor moves each count by 1 at most and all counts the same way.
    """
    return Guarantee(2 * log_upper_bound(worst_ratio(coins)), (counts + 1) * edge_mass(coins))
