"""Releases whose values move by more than 1: what is uncovered, against the distribution's atoms."""

from fractions import Fraction
from itertools import product

import pytest

from fairshares.harness.privacy.audit.releases import audit_command
from fairshares.harness.releases.gap.spec import PI_GAP
from fairshares.protocols import reference
from fairshares.protocols.accounting.calibration import (
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    bits_at_most,
    plan_noise,
    possible_moves,
    sums_from_ends,
)
from fairshares.protocols.accounting.exact_privacy import amounts_moved, impossible_mass, values_moved
from fairshares.protocols.circuits.coins import Coin, design_coins, exp_bounds, worst_ratio
from fairshares.protocols.noise.truncated import (
    guarantee,
    guarantee_of_moves,
    mean_square_error,
    outer_mass,
    probability_mass,
    uncovered_at_most,
)

ADD, REPLACE, _ = NeighboringRelation
RELATIONS = pytest.mark.parametrize("relation", [ADD, REPLACE])
TINY = (Coin(3, 3), Coin(1, 2), Coin(1, 5))
DELTA = Fraction(1, 2**40)


@RELATIONS
@pytest.mark.parametrize(("groups", "steps"), [(2, 1), (2, 4), (3, 3)])
def test_sensitivity_of_sums_from_ends_over_all_clients(
    relation: NeighboringRelation, groups: int, steps: int
) -> None:
    """Not only its corners: every value of every group, replaced by every other."""
    values = product(range(groups), range(-steps, steps + 1))
    clients = [reference.sums_from_ends([group], [value], groups, steps) for group, value in values]
    others = clients if relation is REPLACE else [[0] * (2 * groups)]
    differences = [
        [abs(x - y) for x, y in zip(one, other, strict=True)] for one, other in product(clients, others)
    ]
    release = sums_from_ends(groups, steps)
    most = (4 if relation is REPLACE else 2) * steps
    assert max(map(sum, differences)) == values_moved(release, Neighbors(relation)) == most
    moves = possible_moves(release, Neighbors(relation))
    assert max(map(sum, moves)) == most and moves == amounts_moved(release, Neighbors(relation))
    spent = guarantee_of_moves(TINY, moves, release.shared)
    for difference in differences:
        if any(difference):
            spread = guarantee_of_moves(TINY, [tuple(filter(None, difference))])
            assert spread.epsilon <= spent.epsilon and spread.delta <= spent.delta


def test_what_a_count_that_moves_uncovers() -> None:
    mass = probability_mass(TINY)
    for amount in range(1, 20):
        exact = sum((p for x, p in mass.items() if x + amount not in mass), Fraction(0))
        assert outer_mass(TINY, amount) == exact
        if amount <= 8:
            assert impossible_mass(TINY, [amount]) == exact
    assert guarantee_of_moves(TINY, [(1, 1)]).delta == guarantee(TINY, 2).delta


@pytest.mark.parametrize("coins", [TINY[:2], (Coin(3, 2), Coin(5, 3))], ids=["tiny", "odd"])
def test_all_moves_of_two_values_keep_to_their_guarantee(coins: tuple[Coin, ...]) -> None:
    """Theorem 8, by the joint distribution: up and down, also by more than all that the noise can be."""
    mass, met = probability_mass(coins), []
    for move in product((-9, *range(-3, 4), 8), repeat=2):
        amounts = tuple(abs(s) for s in move if s)
        if not amounts:
            continue
        stated = guarantee_of_moves(coins, [amounts])
        ratio = worst_ratio(coins) ** sum(amounts)  # no more than e^epsilon
        excess = sum(
            max(p * q - ratio * mass.get(x - move[0], Fraction(0)) * mass.get(y - move[1], Fraction(0)), 0)
            for (x, p), (y, q) in product(mass.items(), mass.items())
        )
        assert excess <= stated.delta
        met.append(len(amounts) == 1 and excess == stated.delta)
    assert any(met)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_inner_atoms_are_heavier(steps: int) -> None:
    """At a large epsilon much: a design for so many outermost atoms alone would exceed delta."""
    plan = plan_noise(sums_from_ends(2, steps), Neighbors(REPLACE), Fraction(20), DELTA)
    assert plan.exact.delta <= DELTA
    units = DELTA / plan.changed
    assert (
        guarantee_of_moves(design_coins(plan.node_epsilon, bits_at_most(units)), [(2 * steps,)]).delta > DELTA
    )


@RELATIONS
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 10), Fraction(20)])
def test_plans_keep_to_epsilon_and_delta(epsilon: Fraction, relation: NeighboringRelation) -> None:
    plan = plan_noise(sums_from_ends(2, 50), Neighbors(relation), epsilon, DELTA)
    assert plan.nodes == 4
    assert plan.changed == (200 if relation is REPLACE else 100)
    assert plan.largest == 100
    assert 0.9 * epsilon < plan.exact.epsilon <= epsilon and plan.exact.delta <= DELTA
    assert worst_ratio(plan.coins) ** plan.changed <= exp_bounds(epsilon)[0]
    moves = amounts_moved(sums_from_ends(2, 50), Neighbors(relation))
    uncovered = max(impossible_mass(plan.coins, move) for move in moves)
    assert uncovered <= plan.exact.delta <= (DELTA if epsilon > 1 else uncovered * Fraction(11, 10))


@RELATIONS
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("steps", [100, 1000])
def test_distances_from_both_ends_have_half_the_variance_of_sums_and_sizes(
    steps: int, epsilon: Fraction, relation: NeighboringRelation
) -> None:
    """Half a difference of two noises, against the noise that a sum of values and a scaled size need."""
    corners = [(g, end) for g in range(2) for end in (-steps, steps)]
    before = LinearQueries(
        4, tuple((2 * g, 2 * g + 1) for g, _ in corners), tuple((end, steps) for _, end in corners)
    )
    one, other = (
        mean_square_error(plan_noise(release, Neighbors(relation), epsilon, DELTA).coins)
        for release in (sums_from_ends(2, steps), before)
    )
    assert 1.97 < other / (one / 2) < 2.03


def test_what_values_that_share_an_amount_uncover() -> None:
    """Theorem 11, for coins whose atoms do not fall outwards as well: all ways to share an amount."""
    for coins in (TINY, (Coin(1, 1), Coin(3, 2), Coin(1, 3)), (Coin(1, 2), Coin(1, 4))):
        for amount in range(1, 20):
            shared = max(outer_mass(coins, a) + outer_mass(coins, amount - a) for a in range(amount))
            assert shared <= uncovered_at_most(coins, amount)
    falling = (Coin(1, 2), Coin(1, 4))
    assert all(uncovered_at_most(falling, amount) == outer_mass(falling, amount) for amount in range(1, 5))


def test_amounts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="an amount for each node"):
        LinearQueries(2, ((0,), (1,)), ((1,), (1, 2)))


def test_pi_gap_declares_this_release() -> None:
    assert PI_GAP.release is not None
    assert PI_GAP.release({"groups": "3", "steps": "7"}) == sums_from_ends(3, 7)


@pytest.mark.parametrize("claimed", [[(1, 1, 1, 1)], [(25, 25), (50,)], [(1,) * 199]])
def test_a_wrong_sensitivity_is_found(
    claimed: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fairshares.protocols.accounting.calibration.possible_moves", lambda *_: frozenset(claimed)
    )
    audited = audit_command("gap", {"steps": 50}, REPLACE, epsilon=Fraction(1), delta=DELTA)
    assert audited.fault is not None and "moves 200 units in all" in audited.fault
