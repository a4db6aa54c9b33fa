"""Composition: what a release's epsilon and delta add up to, against the joint distribution of its noise."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from fairshares.protocols.accounting.calibration import (
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    default_relation,
    each_cell_once,
    nodes_changed,
    plan_noise,
)
from fairshares.protocols.circuits.coins import MAX_DELTA_BITS, Coin, edge_mass, worst_ratio
from fairshares.protocols.guarantee import NOTHING, Budget, Guarantee, compose
from fairshares.protocols.noise.truncated import guarantee, probability_mass

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
DELTA = Fraction(1, 2**40)

# Cell 0 counts in nodes 0 and 2, cell 1 in nodes 1 and 2, cell 2 in node 3 alone.
TREE = LinearQueries(4, ((0, 2), (1, 2), (3,)))

# Few atoms, 8 and 16, and outermost ones that weigh enough to be seen: 2^-6 and 3 * 2^-11.
TINY = [(Coin(1, 2), Coin(1, 3)), (Coin(3, 3), Coin(1, 2), Coin(1, 5))]


def joint(coins: tuple[Coin, ...], nodes: int) -> dict[tuple[int, ...], Fraction]:
    """Return the distribution of independent noise on so many nodes, all outcomes."""
    distribution: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for _ in range(nodes):
        distribution = {
            (*outcome, x): p * mass
            for outcome, p in distribution.items()
            for x, mass in probability_mass(coins).items()
        }
    return distribution


def least_delta(
    distribution: dict[tuple[int, ...], Fraction], shift: tuple[int, ...], ratio: Fraction
) -> Fraction:
    """Return the least delta at e^epsilon = ratio, between counts and counts + shift."""
    moved = {
        tuple(x + s for x, s in zip(outcome, shift, strict=True)): p for outcome, p in distribution.items()
    }
    return sum(
        (max(p - ratio * moved.get(outcome, 0), Fraction(0)) for outcome, p in distribution.items()),
        Fraction(0),
    )


def shifts(release: LinearQueries, relation: NeighboringRelation) -> set[tuple[int, ...]]:
    """Return every difference between the nodes of two neighbours, from the columns."""

    def column(cell: int) -> list[int]:
        return [int(node in release.columns[cell]) for node in range(release.nodes)]

    none = [0] * release.nodes
    pairs = itertools.permutations(range(release.cells), 2)
    moves = (
        [(column(a), column(b)) for a, b in pairs]
        if relation is REPLACE
        else [pair for c in range(release.cells) for pair in ((column(c), none), (none, column(c)))]
    )
    return {tuple(x - y for x, y in zip(to, of, strict=True)) for to, of in moves}


@pytest.mark.parametrize("coins", TINY, ids=["2 coins", "3 coins"])
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_two_cells_by_enumeration(coins: tuple[Coin, ...], relation: NeighboringRelation) -> None:
    """(epsilon, delta) of the composition holds for every pair of neighbours, and is not loose."""
    release = each_cell_once(2)
    nodes = nodes_changed(release, Neighbors(relation))
    ratio, claimed = worst_ratio(coins) ** nodes, guarantee(coins, nodes)
    distribution = joint(coins, 2)
    assert sum(distribution.values()) == 1
    needed = {shift: least_delta(distribution, shift, ratio) for shift in shifts(release, relation)}
    assert len(needed) == (2 if relation is REPLACE else 4)
    assert all(
        claimed.delta - edge_mass(coins) ** nodes * (nodes - 1) <= d <= claimed.delta for d in needed.values()
    )
    with localcontext(prec=60):
        assert Fraction(Decimal(ratio.numerator) / ratio.denominator) <= Fraction(
            (Decimal(claimed.epsilon.numerator) / claimed.epsilon.denominator).exp()
        )


@pytest.mark.parametrize("relation", NeighboringRelation)
def test_nodes_of_a_tree_by_enumeration(relation: NeighboringRelation) -> None:
    coins = TINY[0]
    nodes = nodes_changed(TREE, Neighbors(relation))
    claimed = nodes * edge_mass(coins)
    distribution = joint(coins, TREE.nodes)
    for shift in shifts(TREE, relation):
        assert sum(map(abs, shift)) <= nodes
        assert least_delta(distribution, shift, worst_ratio(coins) ** nodes) <= claimed


@pytest.mark.parametrize(
    ("release", "adding", "replacing"),
    [
        (each_cell_once(1), 1, 2),
        (each_cell_once(4), 1, 2),
        (TREE, 2, 4),
        (LinearQueries(1, ((), (0,))), 1, 2),
    ],
)
def test_nodes_changed(release: LinearQueries, adding: int, replacing: int) -> None:
    assert nodes_changed(release, Neighbors(ADD)) == adding
    assert nodes_changed(release, Neighbors(REPLACE)) == replacing


@pytest.mark.parametrize("column", [(0, 0), (-1,), (4,), (0, 1, 0)])
def test_a_column_names_distinct_nodes(column: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not name distinct nodes below 4"):
        LinearQueries(4, ((0,), column))


def below(plan: NoisePlan, epsilon: Fraction, delta: Fraction, nodes: int) -> None:
    """Assert that the coins, taken `nodes` times, stay within what was asked; e^epsilon from decimal."""
    with localcontext(prec=100):
        worst = worst_ratio(plan.coins) ** nodes
        total = (Decimal(worst.numerator) / worst.denominator).ln()
        assert total <= Decimal(epsilon.numerator) / epsilon.denominator
        assert Fraction(total) <= plan.exact.epsilon < Fraction(total) + Fraction(1, 10**12)
    assert plan.exact.epsilon <= epsilon
    assert plan.exact.delta == nodes * edge_mass(plan.coins) <= delta


@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize("release", [each_cell_once(4), TREE], ids=["cells", "tree"])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (Fraction(1), DELTA),
        (Fraction(1, 3), DELTA),
        (Fraction(1, 10), Fraction(1, 10**9)),
        (Fraction(20), Fraction(1, 2)),
        (Fraction(2, 7), Fraction(3, 2**42)),
        (Fraction(12345678901234567, 10**16), Fraction(1, 2**100)),
    ],
    ids=str,
)
def test_totals_never_exceed_what_was_asked(
    relation: NeighboringRelation, release: LinearQueries, epsilon: Fraction, delta: Fraction
) -> None:
    plan = plan_noise(release, Neighbors(relation), epsilon, delta)
    below(plan, epsilon, delta, nodes_changed(release, Neighbors(relation)))
    assert (plan.relation, plan.unit) == (
        relation,
        "client" if relation is NeighboringRelation.ZERO_OUT_ONE else "record",
    )


@pytest.mark.parametrize(
    ("delta", "nodes", "bits"),
    [
        (DELTA, 1, 40),
        (DELTA - Fraction(1, 2**90), 1, 41),
        (DELTA + Fraction(1, 2**90), 1, 40),
        (Fraction(3, 2**42), 2, 42),
        (Fraction(9, 10), 1, 20),
        (Fraction(1, 2**MAX_DELTA_BITS), 1, MAX_DELTA_BITS),
    ],
    ids=str,
)
def test_delta_bits(delta: Fraction, nodes: int, bits: int) -> None:
    relation = REPLACE if nodes == 2 else ADD
    assert plan_noise(each_cell_once(2), Neighbors(relation), Fraction(1), delta).node_delta_bits == bits


@pytest.mark.parametrize("relation", NeighboringRelation)
def test_half_of_the_budget_per_count_when_one_is_replaced(relation: NeighboringRelation) -> None:
    plan = plan_noise(each_cell_once(4), Neighbors(relation), Fraction(1), DELTA)
    assert plan.node_epsilon * nodes_changed(each_cell_once(4), Neighbors(relation)) == 1
    assert plan.exact.epsilon > Fraction(98, 100)


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (Fraction(1), Fraction(0), "delta must be between 0 and 1"),
        (Fraction(1), Fraction(1), "delta must be between 0 and 1"),
        (Fraction(1), Fraction(-1, 2), "delta must be between 0 and 1"),
        (Fraction(1), Fraction(1, 2**129), r"delta per noisy value must be at least 2\^-128, not 2\^-129"),
        (Fraction(0), DELTA, "epsilon per unit must be between"),
        (Fraction(-1), DELTA, "epsilon per unit must be between"),
        (Fraction(1, 10**13), DELTA, "epsilon per unit must be between"),
        (Fraction(21), DELTA, "epsilon per unit must be between"),
    ],
)
def test_budgets_that_no_noise_fits(epsilon: Fraction, delta: Fraction, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_noise(each_cell_once(2), Neighbors(ADD), epsilon, delta)


def test_one_record_each_is_protected_in_what_it_says() -> None:
    assert default_relation(1) is REPLACE
    assert default_relation(2) is default_relation(2**31) is ADD


ONE, OTHER = TINY


def worst_of_both(ratio: Fraction, adaptive: bool) -> Fraction:
    """Return the least delta at e^epsilon = ratio of two releases of one count, between n and n + 1.

    Args: adaptive: whether the second's count moves the other way after a positive first.
    """
    needed = Fraction(0)
    first, second = probability_mass(ONE), probability_mass(OTHER)
    for x in range(min(first) - 1, max(first) + 2):
        move = -1 if adaptive and x > 0 else 1
        for y in range(min(second) - 1, max(second) + 2):
            here = first.get(x, Fraction(0)) * second.get(y, Fraction(0))
            there = first.get(x - 1, Fraction(0)) * second.get(y - move, Fraction(0))
            needed += max(here - ratio * there, Fraction(0))
    return needed


@pytest.mark.parametrize("adaptive", [False, True])
def test_two_releases_by_enumeration(adaptive: bool) -> None:
    claimed = compose([guarantee(ONE), guarantee(OTHER)])
    ratio = worst_ratio(ONE) * worst_ratio(OTHER)
    with localcontext(prec=60):
        spent = Decimal(claimed.epsilon.numerator) / claimed.epsilon.denominator
        assert Fraction(spent.exp()) >= ratio
    needed = worst_of_both(ratio, adaptive)
    assert claimed.delta == edge_mass(ONE) + edge_mass(OTHER)
    assert claimed.delta - edge_mass(ONE) * edge_mass(OTHER) <= needed <= claimed.delta


def test_composition_is_exact_and_of_nothing_nothing() -> None:
    tenth = Guarantee(Fraction(1, 10), Fraction(1, 2**40))
    assert compose(itertools.repeat(tenth, 10)) == Guarantee(Fraction(1), Fraction(10, 2**40))
    assert compose([]) == Guarantee(Fraction(0), Fraction(0)) == NOTHING


def test_guarantees_are_scaled_subtracted_and_compared_in_both_figures() -> None:
    less_epsilon = Guarantee(Fraction(1), Fraction(1, 4))
    less_delta = Guarantee(Fraction(3), Fraction(1, 8))
    assert less_epsilon * 3 == compose([less_epsilon] * 3)
    assert less_epsilon * Fraction(1, 2) == Guarantee(Fraction(1, 2), Fraction(1, 8))
    assert less_delta - less_epsilon == Guarantee(Fraction(2), Fraction(-1, 8))
    both = Guarantee(Fraction(3), Fraction(1, 4))
    assert less_epsilon.within(both) and less_delta.within(both) and both.within(both)
    assert not less_epsilon.within(less_delta) and not less_delta.within(less_epsilon)


@pytest.mark.parametrize(
    ("budget", "spent", "allowed", "left"),
    [
        (Budget(Fraction(1)), ("1", "1/2"), True, Budget(Fraction(0))),
        (Budget(Fraction(1)), ("1000000000001/1000000000000", "0"), False, Budget(Fraction(0))),
        (Budget(Fraction(1), Fraction(1, 8)), ("1/4", "1/8"), True, Budget(Fraction(3, 4), Fraction(0))),
        (Budget(Fraction(1), Fraction(1, 8)), ("1/4", "1/4"), False, Budget(Fraction(3, 4), Fraction(0))),
        (Budget(Fraction(0)), ("0", "0"), True, Budget(Fraction(0))),
    ],
)
def test_budgets(budget: Budget, spent: tuple[str, str], allowed: bool, left: Budget) -> None:
    total = Guarantee(*map(Fraction, spent))
    assert budget.allows(total) is allowed
    assert budget.left(total) == left
