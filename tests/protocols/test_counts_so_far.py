"""Counts so far: what each release counts, the least error of them, and what all of them protect, exactly."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest

from protocols.accounting.calibration import NeighboringRelation
from protocols.circuits.coins import Coin, exp_bounds
from protocols.guarantee import Guarantee
from protocols.mechanisms.counts_so_far import Part, Schedule, best_schedule
from protocols.noise.truncated import guarantee_of_clients, probability_mass

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
# Noise of small support, by share; nothing here depends on how a share becomes noise.
NOISE = {
    Fraction(1, 4): (Coin(3, 3), Coin(1, 2), Coin(1, 5)),
    Fraction(1, 2): (Coin(1, 2), Coin(1, 4)),
    Fraction(1): (Coin(1, 3), Coin(1, 6)),
}
THREE = Schedule((Part(0, Fraction(1, 2)), Part(0, Fraction(1, 4)), Part(0, Fraction(1, 4))))
NEST = Schedule((Part(0, Fraction(1, 2)), Part(0, Fraction(1, 2)), Part(2, Fraction(1))))


def flat(horizon: int) -> Schedule:
    """Return the schedule that counts each epoch by itself."""
    return Schedule(tuple(Part(t, Fraction(1)) for t in range(horizon)))


def variances(schedule: Schedule, each: dict[Fraction, float]) -> list[float]:
    """Return that of the count after each epoch. Args: each: of a release, by its share."""
    horizon = len(schedule.parts)
    return [sum(each[schedule.parts[t].share] for t in schedule.adds_up(n)[0]) for n in range(1, horizon + 1)]


def ideal(schedule: Schedule) -> float:
    """Return the sum of all variances where that of a share s is 1/s^2."""
    return sum(variances(schedule, {part.share: float(part.share) ** -2 for part in schedule.parts}))


def epochs_of(schedule: Schedule, added: Sequence[int]) -> list[int]:
    return [epoch for t in added for epoch in range(schedule.parts[t].first, t + 1)]


@pytest.mark.parametrize("horizon", [1, 2, 7, 40, 100])
def test_every_count_so_far_has_every_epoch_once(horizon: int) -> None:
    for schedule in (best_schedule(horizon), flat(horizon)):
        for n in range(1, horizon + 1):
            added, missing = schedule.adds_up(n)
            assert sorted(epochs_of(schedule, added)) == list(range(n)) and not missing


@pytest.mark.parametrize("schedule", [THREE, NEST, best_schedule(9), best_schedule(11)])
def test_lost_epochs_are_missing_until_a_later_part_counts_them(schedule: Schedule) -> None:
    """Whatever is lost, each other epoch counts once, and a lost one where a later part has it."""
    horizon, back = len(schedule.parts), set()
    for n in range(1, horizon + 1):
        for lost in itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(n + 1)):
            added, missing = schedule.adds_up(n, lost)
            assert not {*added} & {*lost} and {*missing} <= {*lost}
            assert sorted(epochs_of(schedule, added) + missing) == list(range(n))
            back |= {*lost} - {*missing}
    assert back == {t for t, part in enumerate(schedule.parts) if any(
        later.first <= t for later in schedule.parts[t + 1:])}  # fmt: skip


@pytest.mark.parametrize("horizon", [9, 17, 40])
def test_no_share_that_is_moved_makes_the_error_smaller(horizon: int) -> None:
    """Between a part and all those directly inside it."""
    best = best_schedule(horizon)
    for t, part in enumerate(best.parts):
        inside = [u for u in range(part.first, t) if best.parts[u].first >= part.first]
        for moved in (Fraction(1, 50), Fraction(-1, 50)) if inside else ():
            parts = list(best.parts)
            parts[t] = Part(part.first, part.share + moved)
            for u in inside:
                parts[u] = Part(parts[u].first, parts[u].share - moved)
            assert ideal(Schedule(tuple(parts))) > ideal(best)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [(1, "1")],
        [(0, "1"), (2, "1/2")],
        [(-1, "1")],
        [(0, "0")],
        [(0, "1"), (0, "1/1000000")],
        [(0, "1/2"), (0, "1/2"), (0, "1/1000000")],
    ],
)
def test_schedules_that_release_an_epoch_too_well_are_refused(parts: list[tuple[int, str]]) -> None:
    with pytest.raises(ValueError, match="more than all of epsilon"):
        Schedule(tuple(Part(first, Fraction(share)) for first, share in parts))


def spent(cap: int) -> Callable[[Fraction], Guarantee]:
    """Return what a release protects of a client with so many records, from its share."""
    return lambda share: guarantee_of_clients(NOISE[share], 1, cap)


def worst(schedule: Schedule, moves: Sequence[int], epsilon: Fraction) -> Fraction:
    """Return the largest P(S) - e^epsilon Q(S) over all that all releases show, if they move so far each."""
    ratio, pairs = exp_bounds(epsilon)[1], [(Fraction(1), Fraction(1))]
    for part, move in zip(schedule.parts, moves, strict=True):
        if move:
            mass = probability_mass(NOISE[part.share])
            pairs = [
                (p * own, q * mass.get(x - move, Fraction(0))) for p, q in pairs for x, own in mass.items()
            ]
    return sum((p - ratio * q for p, q in pairs if p > ratio * q), Fraction(0))


def moved(schedule: Schedule, records: Sequence[int]) -> list[int]:
    """Return by how much each release moves, if a client has so many records in each epoch."""
    return [sum(records[part.first : t + 1]) for t, part in enumerate(schedule.parts)]


@pytest.mark.parametrize("schedule", [THREE, NEST])
@pytest.mark.parametrize("cap", [1, 2])
def test_theorem_16(schedule: Schedule, cap: int) -> None:
    """All that a client with up to `cap` records in three epochs moves; and that releases do add up."""
    total = schedule.total(spent(cap))
    held = [own for own in itertools.product(range(cap + 1), repeat=3) if 0 < sum(own) <= cap]
    assert max(worst(schedule, moved(schedule, own), total.epsilon) for own in held) <= total.delta
    largest = max(spent(cap)(part.share).epsilon for part in schedule.parts[:2])
    assert max(worst(schedule, moved(schedule, own), largest) for own in held) > total.delta
