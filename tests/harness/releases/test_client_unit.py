"""Clients as the privacy unit: what all records of one move, exactly, and noise that would be too small."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from fairshares.harness.privacy.audit.releases import audit_command
from fairshares.protocols.accounting.calibration import (
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    PrivacyUnit,
    each_cell_once,
    moves_of,
    nodes_changed,
    plan_noise,
    sums_from_ends,
)
from fairshares.protocols.accounting.distributed_noise import Moves
from fairshares.protocols.accounting.exact_privacy import impossible_mass_of_clients, values_moved
from fairshares.protocols.circuits.coins import Coin, exp_bounds, worst_ratio
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.noise.truncated import guarantee_of_clients, most_uncovered, probability_mass

ADD, REPLACE, ZERO_OUT = NeighboringRelation
DELTA = Fraction(1, 2**40)
# Coins whose atoms get lighter inwards in places (bits are more often 1 than 0), and ordinary ones.
ODD, TINY = (Coin(3, 2), Coin(5, 3)), (Coin(3, 3), Coin(1, 2), Coin(1, 5))
TREE = LinearQueries(3, ((0, 2), (1, 2)))
RELEASES = {"one cell": each_cell_once(1), "cells": each_cell_once(2), "tree": TREE}


def moves(release: LinearQueries, cap: int) -> Iterator[tuple[int, ...]]:
    """Yield by how much each noisy value moves, for all that a client of up to `cap` records may have."""
    for records in range(1, cap + 1):
        for cells in itertools.combinations_with_replacement(range(release.cells), records):
            yield tuple(sum(node in release.columns[c] for c in cells) for node in range(release.nodes))


@pytest.mark.parametrize("cap", [1, 2, 3, 5])
@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_sensitivity_over_all_clients(release: LinearQueries, cap: int) -> None:
    most = max(map(sum, moves(release, cap)))
    assert (
        nodes_changed(release, Neighbors(ZERO_OUT, cap))
        == values_moved(release, Neighbors(ZERO_OUT, cap))
        == most
    )


@pytest.mark.parametrize("coins", [ODD, TINY], ids=["odd", "tiny"])
@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
@pytest.mark.parametrize("cap", [1, 2, 3])
def test_guarantee_holds_for_the_joint_distribution(
    release: LinearQueries, cap: int, coins: tuple[Coin, ...]
) -> None:
    """Every outcome, for a client of every kind that is there or not, in both directions."""
    if release.nodes > 2:
        coins = coins[:2]
    mass = probability_mass(coins)
    joint = {outcome: mass_of(mass, outcome) for outcome in itertools.product(mass, repeat=release.nodes)}
    stated = guarantee_of_clients(coins, max(map(len, release.columns)), cap)
    ratio = worst_ratio(coins) ** nodes_changed(release, Neighbors(ZERO_OUT, cap))
    assert ratio <= exp_bounds(stated.epsilon)[1]

    def excess(move: tuple[int, ...]) -> Fraction:
        shifted = {tuple(x + m for x, m in zip(at, move, strict=True)): p for at, p in joint.items()}
        terms = (p - ratio * shifted.get(at, Fraction(0)) for at, p in joint.items())
        return sum((term for term in terms if term > 0), Fraction(0))

    both = [tuple(sign * m for m in move) for move in set(moves(release, cap)) for sign in (1, -1)]
    assert 0 < max(map(excess, both)) <= stated.delta


def mass_of(mass: dict[int, Fraction], outcome: tuple[int, ...]) -> Fraction:
    total = Fraction(1)
    for x in outcome:
        total *= mass[x]
    return total


@pytest.mark.parametrize("coins", [ODD, TINY], ids=["odd", "tiny"])
@pytest.mark.parametrize("cap", range(1, 12))
def test_what_is_uncovered_over_all_ways_to_spread(coins: tuple[Coin, ...], cap: int) -> None:
    """The audit's is the heaviest partition; the plan's is no less."""
    mass = probability_mass(coins)
    alone = [sum((p for x, p in mass.items() if x + s not in mass), Fraction(0)) for s in range(cap + 1)]
    heaviest = max(sum(alone[s] for s in partition) for partition in partitions(cap))
    assert impossible_mass_of_clients(coins, 3, cap) == 3 * heaviest
    assert most_uncovered(coins, cap) >= heaviest


def partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for part in range(min(total, largest or total), 0, -1):
        for rest in partitions(total - part, part):
            yield (part, *rest)


@pytest.mark.parametrize("cap", [1, 2, 10, 60, 1000])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(20)])
def test_plans_keep_to_epsilon_and_delta(cap: int, epsilon: Fraction) -> None:
    for release, levels in ((each_cell_once(4), 1), (CountTree(20, (1, 4)).release(2), 2)):
        plan = plan_noise(release, Neighbors(ZERO_OUT, cap), epsilon, DELTA)
        assert (plan.changed, plan.largest, plan.unit) == (levels * cap, cap, PrivacyUnit.CLIENT)
        assert worst_ratio(plan.coins) ** plan.changed <= exp_bounds(epsilon)[0]
        assert plan.exact.epsilon <= epsilon and plan.exact.delta <= DELTA
        if epsilon <= 1:
            assert plan.exact.epsilon > epsilon * Fraction(99, 100)
            heaviest = impossible_mass_of_clients(plan.coins, levels, cap)
            assert heaviest <= plan.exact.delta <= heaviest * Fraction(101, 100)


@pytest.mark.parametrize(
    ("release", "relation", "cap"),
    [
        (each_cell_once(2), ADD, 2),
        (each_cell_once(2), REPLACE, 2),
        (each_cell_once(2), ZERO_OUT, 0),
        (sums_from_ends(2, 5), ZERO_OUT, 2),
    ],
)
def test_caps_that_mean_nothing_are_refused(
    release: LinearQueries, relation: NeighboringRelation, cap: int
) -> None:
    with pytest.raises(ValueError, match=f"a cap of {cap} records"):
        plan_noise(release, Neighbors(relation, cap), Fraction(1), DELTA)


@pytest.mark.parametrize(
    "name", ["weights", "confusion", "confusion-of-clients", "thresholds", "thresholds-of-records"]
)
def test_the_audit_finds_noise_for_one_record_less(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"thresholds": 20} if "thresholds" in name else {}
    assert audit_command(name, sizes, ZERO_OUT, epsilon=Fraction(1), delta=DELTA, cap=10).fault is None

    def of_one_less(release: LinearQueries, neighbors: Neighbors) -> Moves:
        return moves_of(release, replace(neighbors, cap=neighbors.cap - 1))

    monkeypatch.setattr("fairshares.protocols.accounting.calibration.moves_of", of_one_less)
    audited = audit_command(name, sizes, ZERO_OUT, epsilon=Fraction(1), delta=DELTA, cap=10)
    assert audited.fault is not None and "a client moves" in audited.fault and "units in all" in audited.fault
