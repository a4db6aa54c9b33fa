"""What a release noises, whom a guarantee protects, and how epsilon and delta spread over noisy values."""

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

_EPSILON_GRID = 10**12  # a node's epsilon is rounded down to this grid: it names the compiled program


@dataclass(frozen=True)
class LinearQueries:
    """Noisy nodes that are integer combinations of disjoint cells; a record is in one cell.

    Attributes: columns: per cell, the nodes that one more record in it changes, each by 1 (a node never
    counts a record twice), or by `amounts`, as many per cell; shared: whether the cells listed are the
    corners alone of what a record can be, which shares its amount among them (theorem 11).
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
        """How many cells there are."""
        return len(self.columns)

    @property
    def most_nodes_of_a_record(self) -> int:
        """How many nodes one record added or removed changes at most; each changes by 1."""
        return max(len(column) for column in self.columns)

    def record(self, cell: int) -> dict[int, int]:
        """Return by how much one more record in this cell changes each node."""
        amounts = self.amounts[cell] if self.amounts else (1,) * len(self.columns[cell])
        return dict(zip(self.columns[cell], amounts, strict=True))


@dataclass(frozen=True)
class AboveThreshold:
    """The index of the first of `queries` counts that is, with noise, at or below a bound with noise.

    Nothing else is opened. A client that comes or goes moves the counts that it moves all the same way, each
    by 1, so that it does not matter how many (`calibration.guarantee_of_first_below`).
    """

    queries: int

    @property
    def nodes(self) -> int:
        """How many values get noise: the counts, and the bound."""
        return self.queries + 1


def each_cell_once(cells: int) -> LinearQueries:
    """Return the release of every cell with noise of its own (π_RW, π_CF)."""
    return LinearQueries(cells, tuple((cell,) for cell in range(cells)))


def sums_from_ends(groups: int, steps: int) -> LinearQueries:
    """Return the release of sums of values' distances from either end of the range, per group (π_GAP).

    Computes: a client of group g with value v, a whole number from -steps to steps, adds steps + v to node
    2 g and steps - v to node 2 g + 1: 2 steps in all, whatever v is. The corners are v = steps and -steps.
    """
    return LinearQueries(
        2 * groups, tuple((node,) for node in range(2 * groups)), ((2 * steps,),) * (2 * groups), True
    )


def logarithms(cells: int, step: int) -> LinearQueries:
    """Return the release of a logarithm per cell that one more record moves by `step` at most (π_COUNT)."""
    return LinearQueries(cells, tuple((cell,) for cell in range(cells)), ((step,),) * cells)


class NeighboringRelation(StrEnum):
    """Which two data sets the released values must not tell apart."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"
    ZERO_OUT_ONE = "zero_out_one"  # a client takes part with all its records, or without any


def default_relation(max_count: int) -> NeighboringRelation:
    """Return whom a release protects unless the user says otherwise.

    With one record per client at most, who takes part is known to have one (the number of clients is
    public), so what it says is what needs protection; else how many a client has is secret too.
    [test: tests/protocols/test_calibration.py]
    """
    return NeighboringRelation.REPLACE_ONE if max_count == 1 else NeighboringRelation.ADD_OR_REMOVE_ONE


class PrivacyUnit(StrEnum):
    """What is added, removed or replaced."""

    RECORD = "record"
    CLIENT = "client"


def unit_of(relation: NeighboringRelation) -> PrivacyUnit:
    """Return what a relation adds, removes or replaces: all records of a client where it zeroes one out."""
    return PrivacyUnit.CLIENT if relation is NeighboringRelation.ZERO_OUT_ONE else PrivacyUnit.RECORD


@dataclass(frozen=True)
class Neighbors:
    """Two data sets that the released values must not tell apart.

    Attributes: cap: the most records of a client that are counted, where clients are zeroed out;
    malleable_slots: whether a party can change what a client's slots hold, so that a record that is gone
    leaves another in its place: where it flips bits m, a code x becomes x ^ m, and 0 for nothing becomes m.
    """

    relation: NeighboringRelation
    cap: int = 1
    malleable_slots: bool = False

    @property
    def are_replaced(self) -> bool:
        """Whether a record that goes may leave another in its place."""
        return self.malleable_slots or self.relation is NeighboringRelation.REPLACE_ONE


@dataclass(frozen=True)
class NoisePlan:
    """The noise of one release: its coins, and the guarantee that they add up to.

    Attributes: nodes: how many values get noise; changed: by how much two neighbours' values differ at
    most, in all: the L1 sensitivity; largest: by how much a single one does, 1 for counts where a record is
    the unit; node_epsilon, node_delta_bits: what the program is compiled with; exact: the realised
    guarantee of the whole release; opened: whether the noisy values are, not only what follows from them;
    release: what gets the noise, None if that is an index; own: distributed noise, None if it is
    joint; then there are no coins.
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
    opened: bool = True
    release: LinearQueries | None = field(default=None, repr=False, compare=False)
    own: DistributedNoise | None = None

    @property
    def relation(self) -> NeighboringRelation:
        """Which data sets it does not tell apart."""
        return self.neighbors.relation

    @property
    def unit(self) -> PrivacyUnit:
        """What they differ in."""
        return unit_of(self.relation)

    @property
    def noise(self) -> tuple[Coin, ...] | DistributedNoise:
        """What is added to a value."""
        return self.own or self.coins

    @property
    def if_replaced(self) -> Guarantee:
        """What the same noise protects if one record is replaced by another.

        Twice as much of both for counts; not of delta where a value moves by twice as much.
        [test: tests/harness/pipeline/test_manifest.py]
        """
        assert self.release is not None
        moves = possible_moves(self.release, Neighbors(NeighboringRelation.REPLACE_ONE))
        if self.own:
            return guarantee_of_distributed(self.own, Moves(moves), 2 * self.exact.epsilon)
        return guarantee_of_moves(self.coins, moves, self.release.shared)


def nodes_changed(release: LinearQueries, neighbors: Neighbors) -> int:
    """Return by how much two neighbours' counts differ at most, in all.

    A replaced record is one removed and one added: twice the nodes of one, which a record that moves
    between cells without a common node reaches. A client that is zeroed out is `cap` records removed.
    [test: tests/protocols/test_calibration.py, tests/harness/clients/test_exchanged_records.py]
    """
    return neighbors.cap * release.most_nodes_of_a_record * (2 if neighbors.are_replaced else 1)


def possible_moves(release: LinearQueries, neighbors: Neighbors) -> frozenset[tuple[int, ...]]:
    """Return by how much one record has the values of neighbours differ, for all that may be furthest apart.

    Computes: of counts of records, `nodes_changed` ones; else, of each record or pair of records in listed
    cells, the amounts that are not 0, sorted.  [test: tests/protocols/test_exact_moves.py]
    """
    if not release.amounts:
        return frozenset([(1,) * nodes_changed(release, replace(neighbors, cap=1))])
    records = [release.record(cell) for cell in range(release.cells)]
    always = neighbors.relation is NeighboringRelation.REPLACE_ONE
    before: list[dict[int, int]] = [*records * neighbors.are_replaced, *[{}] * (not always)]
    return frozenset(
        move
        for one in records
        for other in before
        if (
            move := tuple(
                sorted(filter(None, (abs(one.get(n, 0) - other.get(n, 0)) for n in {*one, *other})))
            )
        )
    )


def moves_of(release: LinearQueries, neighbors: Neighbors) -> Moves:
    """Return how far the noisy values of neighbours are apart.

    Raises: ValueError: a client has one value, not a few.
    """
    cap, zeroed = neighbors.cap, neighbors.relation is NeighboringRelation.ZERO_OUT_ONE
    if cap < 1 or (cap > 1 and (release.amounts or not zeroed)):
        raise ValueError(f"a cap of {cap} records is for counts, where a client is zeroed out")
    return Moves(possible_moves(release, neighbors), cap)


def plan_noise(
    release: LinearQueries | AboveThreshold, neighbors: Neighbors, epsilon: Fraction, delta: Fraction
) -> NoisePlan:
    """Choose the coins for a release, and compute its guarantee exactly.

    Computes: epsilon and delta shared evenly among the units by which two neighbours' nodes differ. A node
    that moves by s uncovers its s outermost atoms, each at most e^(epsilon of a unit) times its outer
    neighbour.
    Guarantees: exact.epsilon <= epsilon and exact.delta <= delta.
    [test: tests/protocols/test_calibration.py, tests/harness/releases/test_client_unit.py,
    tests/harness/clients/test_exchanged_records.py]
    Args: epsilon: total, > 0; delta: total, in (0, 1).
    Raises: ValueError: no coins reach them; the message says which bound.
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
    """Choose the table from which each party draws its own noise, and compute what the honest ones protect.

    Guarantees: exact.epsilon <= epsilon and exact.delta <= delta, whoever is corrupted, up to `tolerated`.
    [test: tests/protocols/test_distributed_noise.py]
    Args: distribution: of the sum; parties, tolerated: of the model; else as for `plan_noise`.
    Raises: ValueError: no table reaches them; the message says why.
    """
    if isinstance(release, AboveThreshold):
        raise ValueError("which count is the first below a bound is found inside, with joint noise only")
    moves = moves_of(release, neighbors)
    noise, exact = design_distributed(distribution, moves, epsilon, delta, parties, parties - tolerated)
    return NoisePlan(
        *(neighbors, epsilon, release.nodes, moves.units, noise.rate, 0, (), exact, moves.largest),
        release=release,
        own=noise,
    )


def _plan_first_below(
    release: AboveThreshold, neighbors: Neighbors, epsilon: Fraction, delta: Fraction
) -> NoisePlan:
    """Choose the coins for an index: half of epsilon for each of two ratios, delta shared by all samples.

    A party that flips bits of a slot has two neighbours differ in another pair of codes: of two codes one
    still exceeds all caps that the other does, so that all counts move the same way.
    """
    if neighbors.relation is not NeighboringRelation.ZERO_OUT_ONE:
        raise ValueError(
            f"which count is the first below a bound is revealed of clients, not under {neighbors.relation}"
        )
    node_epsilon, bits, coins = _coins(epsilon, 2, delta / release.nodes)
    exact = guarantee_of_first_below(coins, release.queries)
    if not exact.within(Guarantee(epsilon, delta)):
        raise ValueError("the coins that were found do not keep to epsilon and delta")
    one_way = replace(neighbors, malleable_slots=False)
    return NoisePlan(one_way, epsilon, release.nodes, 2, node_epsilon, bits, coins, exact, opened=False)


def _coins(
    epsilon: Fraction, units: int, delta: Fraction, largest: int = 1
) -> tuple[Fraction, int, tuple[Coin, ...]]:
    """Return a value's epsilon and delta_bits, and coins that keep to them.

    Args: epsilon: of so many units; delta: of a unit of a value that moves by `largest`.
    Raises: ValueError: there are no such coins.
    """
    node_epsilon = Fraction(epsilon * _EPSILON_GRID // units, _EPSILON_GRID)
    bits = bits_at_most(delta / exp_bounds(node_epsilon * (largest - 1))[1])
    if bits > MAX_DELTA_BITS:
        raise ValueError(f"delta per noisy value must be at least 2^-{MAX_DELTA_BITS}, not 2^-{bits}")
    return node_epsilon, bits, design_coins(node_epsilon, bits)


def bits_at_most(delta: Fraction) -> int:
    """Return the least delta_bits of coins, b, with 2^-b <= delta."""
    return max(MIN_DELTA_BITS, (math.ceil(1 / delta) - 1).bit_length())


def guarantee_of_first_below(coins: tuple[Coin, ...], queries: int) -> Guarantee:
    """Return what the index of the first noisy count at or below a noisy bound gives away.

    Source: AboveThreshold (Dwork and Roth 2014, Algorithm 1), for counts that all move the same way.
    Computes: B_i = [E_i + X_i <= c + X_0], X_0 .. X_n independent of one distribution; the least i with B_i
    is opened. Let one client less lower some E_i by 1, and none rises. From more to less: with X_0 lower by
    1 no earlier index becomes likelier to stop, and the i-th bound moves by at most 1. From less to more:
    earlier indices stop less likely already, and the i-th bound moves by at most 1. So two ratios of
    neighbouring atoms, and what truncation leaves uncovered: an outermost atom of X_0, and one of each X_i.
    Guarantees: (epsilon, delta) for every such pair of counts; counts that move both ways would take a third
    ratio.  [test: tests/protocols/test_above_threshold.py, by enumeration]
    """
    return Guarantee(2 * log_upper_bound(worst_ratio(coins)), (queries + 1) * edge_mass(coins))
