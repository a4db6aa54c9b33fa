"""A party that changes its share of a slot moves what is in it: the noise that this takes, by enumeration.

All that a client may send, against nothing, under all masks of a server: every outcome of the joint
distribution.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import xor
from typing import Any

import pytest

from fairshares.harness.privacy.audit import releases as audit_release
from fairshares.harness.privacy.audit.releases import audit_command
from fairshares.protocols.accounting.calibration import (
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    each_cell_once,
    nodes_changed,
    plan_noise,
    possible_moves,
    sums_from_ends,
)
from fairshares.protocols.accounting.exact_privacy import amounts_moved, values_moved
from fairshares.protocols.circuits.coins import Coin, Coins, NoiseFamily, exp_bounds
from fairshares.protocols.circuits.slots import cell_of_code, slot_bits, value_bits
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.mechanisms.count_tree import CountTree, best_tree
from fairshares.protocols.noise.truncated import guarantee_of_clients, guarantee_of_moves, probability_mass

ADD, REPLACE, ZERO_OUT = NeighboringRelation
DELTA = Fraction(1, 2**17)
# Coins whose atoms get lighter inwards in places, and ordinary ones; both far from what a plan would choose.
GIVEN = {"odd": (Coin(3, 2), Coin(5, 3)), "tiny": (Coin(3, 3), Coin(1, 5))}

Move = tuple[int, ...]


@dataclass(frozen=True)
class Sent:
    """What clients send of a release: `cap` slots of `width` bits.

    Attributes: empty: what is in a slot without a record; changed: what it holds after a server changed its
    share; values: what a slot adds to each noisy value.
    """

    release: LinearQueries
    cap: int
    width: int
    values: Callable[[int], list[int]]
    changed: Callable[[int, int], int] = xor
    empty: int = 0

    def moves(self, masks: bool = True) -> set[Move]:
        """Return by how much each noisy value differs, for all clients, against none, for all masks."""
        words = range(1 << self.width)
        values = {word: self.values(word) for word in words}
        slot = {
            tuple(a - b for a, b in zip(values[there], values[gone], strict=True))
            for sent, mask in itertools.product(words, words if masks else [0])
            for there, gone in [(self.changed(sent, mask), self.changed(self.empty, mask))]
        }
        return {
            tuple(map(sum, zip(*slots, strict=True))) for slots in itertools.product(slot, repeat=self.cap)
        }

    def plan(self, epsilon: int, malleable_slots: bool) -> NoisePlan:
        return plan_noise(
            self.release, Neighbors(ZERO_OUT, self.cap, malleable_slots), Fraction(epsilon), DELTA
        )

    def guarantee(self, coins: tuple[Coin, ...]) -> Guarantee:
        """Return what is stated of any coins."""
        if self.release.amounts:
            moves = possible_moves(self.release, Neighbors(ZERO_OUT, malleable_slots=True))
            return guarantee_of_moves(coins, moves, self.release.shared)
        nodes = nodes_changed(self.release, Neighbors(ZERO_OUT, malleable_slots=True))
        return guarantee_of_clients(coins, nodes, self.cap)


def table(cells: int, cap: int) -> Sent:
    def values(code: int) -> list[int]:
        return [int(cell_of_code(code, cells) == cell) for cell in range(cells)]

    return Sent(each_cell_once(cells), cap, slot_bits(cells), values)


def gaps(groups: int, steps: int) -> Sent:
    def values(word: int) -> list[int]:
        group = cell_of_code(word % (1 << slot_bits(groups)), groups)
        v = (word >> slot_bits(groups)) - steps
        counted = [g == group and v <= steps for g in range(groups)]
        return [x * there for there in counted for x in (steps + v, steps - v)]

    return Sent(sums_from_ends(groups, steps), 1, slot_bits(groups) + value_bits(steps), values)


def curves(histograms: int, bins: int, blocks: tuple[int, ...]) -> Sent:
    """A server adds to its share of a key, whose lowest bits are used; the key after the last is none."""
    release, cells = CountTree(bins, blocks).release(histograms), histograms * bins
    width = cells.bit_length()

    def values(key: int) -> list[int]:
        return [int(key < cells and node in release.columns[key]) for node in range(release.nodes)]

    return Sent(release, 1, width, values, lambda key, added: (key + added) % (1 << width), cells)


FORMS = {
    "2 cells": table(2, 1),
    "2 cells, cap 2": table(2, 2),
    "2 x 2 cells": table(4, 1),
    "2 x 2 cells, cap 2": table(4, 2),
    "2 x 2 x 2 cells": table(8, 1),
    "gaps": gaps(2, 1),
    "gaps of 3 groups, 2 steps": gaps(3, 2),
    "curves": curves(2, 2, (1, 2)),
}
EVERY_FORM = pytest.mark.parametrize("sent", FORMS.values(), ids=FORMS)


def worst_excess(coins: Coins, moves: set[Move], ratio: Fraction) -> Fraction:
    """Return delta at e^epsilon = ratio: over all moves, both ways, what the most telling event gives.

    Values that do not move tell nothing; they and the order of the others are left out.
    """
    mass = probability_mass(coins)
    scale = 1 << max(p.denominator.bit_length() - 1 for p in mass.values())
    whole = {x: int(p * scale) for x, p in mass.items()}
    listed = {tuple(sorted(sign * m for m in move if m)) for move in moves for sign in (1, -1)}
    return max(_excess(whole, scale, move, ratio) for move in listed)


def _excess(whole: dict[int, int], scale: int, move: Move, ratio: Fraction) -> Fraction:
    joint = Counter({(1, 1): 1})  # how many outcomes have these masses with the client, and without
    for m in move:
        one = Counter((p, whole.get(x - m, 0)) for x, p in whole.items())
        with_one_more: Counter[tuple[int, int]] = Counter()
        for ((p, q), n), ((a, b), k) in itertools.product(joint.items(), one.items()):
            with_one_more[p * a, q * b] += n * k
        joint = with_one_more
    up, down = ratio.numerator, ratio.denominator
    excess = sum(n * max(0, down * p - up * q) for (p, q), n in joint.items())
    return Fraction(excess, down * scale ** len(move))


def stated(sent: Sent) -> Iterator[tuple[Coins, Guarantee]]:
    for epsilon in (20, 10) if sent.release.amounts else (20, 10, 4):
        plan = sent.plan(epsilon, malleable_slots=True)
        assert plan.exact.epsilon <= epsilon and plan.exact.delta <= DELTA
        yield plan.coins, plan.exact
    for coins in GIVEN.values():
        yield coins, sent.guarantee(coins)


@EVERY_FORM
def test_no_mask_exceeds_noise_for_exchanged_records(sent: Sent) -> None:
    for coins, claim in stated(sent):
        worst = worst_excess(coins, sent.moves(), exp_bounds(claim.epsilon)[0])
        assert 0 < worst <= claim.delta


@EVERY_FORM
@pytest.mark.parametrize("epsilon", [20, 10, 4])
def test_a_mask_exceeds_noise_for_records_that_are_there_or_not(sent: Sent, epsilon: int) -> None:
    """By far, at all that was asked for. Where servers keep to the protocol such noise is enough."""
    plan = sent.plan(epsilon, malleable_slots=False)
    enough = worst_excess(plan.coins, sent.moves(masks=False), exp_bounds(plan.exact.epsilon)[0])
    assert 0 < enough <= plan.exact.delta
    exceeded = worst_excess(plan.coins, sent.moves(), exp_bounds(plan.exact.epsilon)[1])
    assert exceeded > 100 * plan.exact.delta
    if epsilon == 4:
        assert worst_excess(plan.coins, sent.moves(), exp_bounds(Fraction(epsilon))[1]) > 100 * DELTA


@EVERY_FORM
def test_sensitivity_over_all_clients_and_masks(sent: Sent) -> None:
    most = max(sum(map(abs, move)) for move in sent.moves())
    alone = max(sum(map(abs, move)) for move in sent.moves(masks=False))
    assert most == values_moved(sent.release, Neighbors(ZERO_OUT, sent.cap, True))
    assert alone == values_moved(sent.release, Neighbors(ZERO_OUT, sent.cap))
    assert sent.plan(4, malleable_slots=True).changed == most == 2 * alone
    assert sent.plan(4, malleable_slots=False).changed == alone
    largest = max(max(map(abs, move)) for move in sent.moves())
    assert sent.plan(4, malleable_slots=True).largest == largest


def test_gaps_of_exchanged_clients_move_as_those_of_replaced_ones_or_of_none() -> None:
    release = sums_from_ends(2, 3)
    moves = possible_moves(release, Neighbors(ZERO_OUT, malleable_slots=True))
    assert moves == amounts_moved(release, Neighbors(ZERO_OUT, malleable_slots=True))
    assert moves == possible_moves(release, Neighbors(REPLACE)) | possible_moves(release, Neighbors(ADD))
    exchanged, replaced = (
        plan_noise(release, Neighbors(relation, malleable_slots=relation is ZERO_OUT), Fraction(1), DELTA)
        for relation in (ZERO_OUT, REPLACE)
    )
    assert (exchanged.coins, exchanged.exact) == (replaced.coins, replaced.exact)


def test_blocks_are_chosen_for_the_noise_of_exchanged_records() -> None:
    for epsilon in (Fraction(1), Fraction(5), Fraction(10)):
        tree = best_tree(1001, Neighbors(ZERO_OUT, malleable_slots=True), epsilon, DELTA)
        assert tree == best_tree(1001, Neighbors(REPLACE), epsilon, DELTA)
    assert best_tree(1001, Neighbors(ZERO_OUT), Fraction(10), DELTA) != tree


def test_one_record_that_is_exchanged_is_one_that_is_replaced() -> None:
    for release in (each_cell_once(4), CountTree(20, (1, 4)).release(2)):
        for relation in (ADD, REPLACE, ZERO_OUT):
            exchanged = plan_noise(release, Neighbors(relation, malleable_slots=True), Fraction(1), DELTA)
            replaced = plan_noise(release, Neighbors(REPLACE), Fraction(1), DELTA)
            assert (exchanged.coins, exchanged.exact, exchanged.changed) == (
                replaced.coins,
                replaced.exact,
                replaced.changed,
            )


def made_for_records_there_or_not(
    release: Any,
    neighbors: Neighbors,
    epsilon: Fraction,
    delta: Fraction,
    family: NoiseFamily | None = None,
) -> NoisePlan:
    assert neighbors.malleable_slots
    return plan_noise(release, replace(neighbors, malleable_slots=False), epsilon, delta, family)


def with_a_delta_that_forgets_counts(*arguments: Any) -> NoisePlan:
    """Those that rise while others fall, for example."""
    plan = plan_noise(*arguments)
    return replace(plan, exact=replace(plan.exact, delta=plan.exact.delta * 2 / 3))


@pytest.mark.parametrize(
    ("name", "sizes", "cap"),
    [
        ("weights-of-clients-active", {}, 1),
        ("weights-of-clients-active", {}, 3),
        ("confusion-of-clients-active", {}, 3),
        ("thresholds-of-clients-active", {"thresholds": 20}, 1),
        ("thresholds-of-clients-active", {"thresholds": 20}, 3),
        ("gap-of-clients-active", {"steps": 50}, 1),
    ],
)
def test_the_audit_finds_noise_for_less(
    name: str, sizes: dict[str, int], cap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert audit_command(name, sizes, ZERO_OUT, epsilon=Fraction(1), delta=DELTA, cap=cap).fault is None
    for forgetful in (made_for_records_there_or_not, with_a_delta_that_forgets_counts):
        monkeypatch.setattr(audit_release, "plan_noise", forgetful)
        fault = audit_command(name, sizes, ZERO_OUT, epsilon=Fraction(1), delta=DELTA, cap=cap).fault
        assert fault is not None and "a client moves" in fault
