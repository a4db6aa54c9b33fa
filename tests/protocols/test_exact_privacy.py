"""The auditor against what it must equal: every event, every atom, another accountant; it finds faults."""

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions
from hypothesis import given, strategies as st

from fairshares.protocols.accounting.exact_privacy import (
    MAX_SENSITIVITY,
    composed,
    cost,
    curve_of_coins,
    curve_of_distribution,
)
from fairshares.protocols.circuits.coins import Coin, design_coins, edge_mass, worst_ratio
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from fairshares.protocols.noise.truncated import guarantee, probability_mass

Distribution = Mapping[int, Fraction]

DEFAULT = design_coins(Fraction(1), 40)


@st.composite
def small_coins(draw: st.DrawFn) -> tuple[Coin, ...]:
    """Return one to four coins of up to six fair bits, private or not."""
    coins = []
    for _ in range(draw(st.integers(1, 4))):
        bits = draw(st.integers(1, 6))
        coins.append(Coin(2 * draw(st.integers(0, 2 ** (bits - 1) - 1)) + 1, bits))
    return tuple(coins)


@st.composite
def distributions(draw: st.DrawFn) -> dict[int, Fraction]:
    """Return a distribution on a few integers near 0, gaps and ties included."""
    weights = draw(st.dictionaries(st.integers(-3, 3), st.integers(1, 5), min_size=1, max_size=5))
    return {x: Fraction(w, sum(weights.values())) for x, w in weights.items()}


ratios = st.fractions(min_value=1, max_value=40, max_denominator=30)


def worst_event(distribution: Distribution, shift: int, ratio: Fraction) -> Fraction:
    """Return the most of P(E) - ratio Q(E) over all events E, P and Q either way round."""
    moved = {x + shift: mass for x, mass in distribution.items()}
    outcomes = sorted(distribution.keys() | moved)
    events = itertools.chain.from_iterable(
        itertools.combinations(outcomes, size) for size in range(len(outcomes) + 1)
    )
    return max(
        max(p - ratio * q, q - ratio * p)
        for p, q in (
            (sum(distribution.get(x, 0) for x in event), sum(moved.get(x, 0) for x in event))
            for event in events
        )
    )


@given(distributions(), st.integers(1, 3), ratios)
def test_delta_is_the_worst_event(distribution: Distribution, shift: int, ratio: Fraction) -> None:
    assert curve_of_distribution(distribution, [shift]).delta(ratio) == worst_event(
        distribution, shift, ratio
    )


@given(distributions(), ratios)
def test_several_shifts_are_as_bad_as_the_worst(distribution: Distribution, ratio: Fraction) -> None:
    one_by_one = max(curve_of_distribution(distribution, [shift]).delta(ratio) for shift in (1, 2, 3))
    assert curve_of_distribution(distribution, [1, 2, 3]).delta(ratio) == one_by_one


def test_a_shift_is_taken_both_ways() -> None:
    """A distribution that rises and then ends is worse one way than the other."""
    distribution = {0: Fraction(1, 10), 1: Fraction(3, 10), 2: Fraction(6, 10)}
    up, down = (
        sum(
            (
                max(mass - distribution.get(x - move, Fraction(0)), Fraction(0))
                for x, mass in distribution.items()
            ),
            Fraction(0),
        )
        for move in (1, -1)
    )
    assert curve_of_distribution(distribution, [1]).delta(Fraction(1)) == max(up, down)
    # At e^epsilon = 3: the value 2 has 6/10 against 3/10 one way; the other way it has 6/10 against none.
    assert (
        curve_of_distribution(distribution, [1]).delta(Fraction(3))
        == curve_of_distribution(distribution, [-1]).delta(Fraction(3))
        == Fraction(6, 10)
    )


def test_visible_distribution() -> None:
    """A quarter at -1, a half at 0, a quarter at 1; moved by 1 it is told apart for certain by a quarter."""
    curve = curve_of_distribution({-1: Fraction(1, 4), 0: Fraction(1, 2), 1: Fraction(1, 4)}, [1])
    quarter, half, none = Fraction(1, 4), Fraction(1, 2), Fraction(0)
    assert curve.pairs[0] == ((quarter, none), (half, quarter), (quarter, half), (none, quarter))
    assert curve.impossible == quarter
    assert [curve.delta(Fraction(r)) for r in (1, Fraction(3, 2), 2, 100)] == [
        half,
        Fraction(3, 8),
        quarter,
        quarter,
    ]
    assert curve.least_ratio(quarter) == 2
    assert curve.least_ratio(Fraction(3, 8)) == Fraction(3, 2)
    assert curve.least_ratio(half) == 1
    assert curve.least_ratio(Fraction(1)) == 1
    assert curve.least_ratio(Fraction(1, 5)) is None is curve.least_epsilon(Fraction(1, 5))
    assert curve.least_epsilon(quarter) == Fraction(693147180560, 10**12)  # ln 2, rounded up


@given(small_coins(), st.fractions(min_value=0, max_value=1, max_denominator=10**6))
def test_least_ratio_is_the_least(coins: tuple[Coin, ...], delta: Fraction) -> None:
    curve = curve_of_coins(coins)
    least = curve.least_ratio(delta)
    if least is None:
        assert curve.delta(Fraction(10**30)) > delta
    else:
        assert curve.delta(least) <= delta
        assert least == 1 or curve.delta(least * Fraction(999_999, 10**6)) > delta


@given(small_coins(), st.data())
def test_curve_of_coins_equals_the_enumerated_distributions(
    coins: tuple[Coin, ...], data: st.DataObject
) -> None:
    """Both ways round, so the distribution is as private when a count falls as when it rises."""
    sensitivity = data.draw(st.integers(1, 2 ** len(coins) - 1))
    distribution = probability_mass(coins)
    for shift, pair in enumerate(curve_of_coins(coins, sensitivity).pairs, 1):
        assert curve_of_distribution(distribution, [shift]).pairs == (pair, pair)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(1, 50), Fraction(1, 10**6)])
def test_audit_confirms_the_design(epsilon: Fraction) -> None:
    """Two derivations: the design's k inequalities, and the groups of the whole distribution."""
    coins = design_coins(epsilon, 40)
    curve = curve_of_coins(coins)
    assert curve.impossible == edge_mass(coins)
    assert curve.least_ratio(edge_mass(coins)) == worst_ratio(coins)
    assert curve.least_epsilon(edge_mass(coins)) == guarantee(coins).epsilon <= epsilon
    low, high = curve.delta_bounds(epsilon)
    assert low == high == edge_mass(coins)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3)])
def test_another_accountant_agrees(epsilon: Fraction) -> None:
    """Google's, in floats; its discretisation may only add to delta, by 10^-4 of epsilon at most."""
    coins = design_coins(epsilon, 40)
    distribution = probability_mass(coins)
    logs = {x: math.log(mass) for x, mass in distribution.items()}
    theirs = from_two_probability_mass_functions(
        {x + 1: log for x, log in logs.items()}, logs, value_discretization_interval=1e-4
    )
    ours = curve_of_coins(coins)
    for share in (0.05, 0.3, 0.7, 0.95):
        at = share * float(epsilon)
        exact = float(ours.delta_bounds(Fraction(at))[1])
        assert exact * (1 - 1e-9) <= theirs.get_delta_for_epsilon(at)
        before = float(ours.delta_bounds(Fraction(at - 2e-4))[1])
        assert theirs.get_delta_for_epsilon(at) <= before * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(
    ("coins", "found"),
    [
        pytest.param(DEFAULT[1:], Fraction(19, 10), id="lowest forgotten"),
        pytest.param(DEFAULT[::-1], Fraction(3), id="highest first"),
        pytest.param((Coin(17, 6), *DEFAULT[1:]), Fraction(101, 100), id="lowest coin 17/64 < q/(1+q)"),
        pytest.param((Coin(1, 1), *DEFAULT[1:]), Fraction(19, 10), id="lowest coin fair"),
        pytest.param(design_coins(Fraction(11, 10), 40), Fraction(109, 100), id="designed for 1.1"),
        pytest.param(DEFAULT[:-1], None, id="highest forgotten"),
        pytest.param((Coin(1, 60),), Fraction(41), id="next to no noise"),
        pytest.param((Coin(3, 2),) * 3, None, id="few atoms"),
    ],
)
def test_broken_coins_are_found(coins: tuple[Coin, ...], found: Fraction | None) -> None:
    """A larger epsilon than 1 at delta = 2^-40, or none at all."""
    epsilon = curve_of_coins(coins).least_epsilon(Fraction(1, 2**40))
    if found is None:
        assert epsilon is None
    else:
        assert epsilon is not None and epsilon > found > 1


def test_masses_that_are_no_distribution_are_refused() -> None:
    with pytest.raises(ValueError, match="do not add up to 1"):
        curve_of_distribution({0: Fraction(1, 2), 1: Fraction(1, 3)}, [1])


@pytest.mark.parametrize("sensitivity", [0, -1, MAX_SENSITIVITY + 1])
def test_sensitivity_out_of_range(sensitivity: int) -> None:
    with pytest.raises(ValueError, match=f"at most 64, and below the largest noise, not {sensitivity}"):
        curve_of_coins(design_coins(Fraction(1, 100), 40), sensitivity)


TINY = (Coin(1, 2), Coin(1, 3))


@pytest.mark.parametrize("moves", [(1, 1), (1, -1), (-1, 1, 1)])
@pytest.mark.parametrize("ratio", [1, Fraction(3, 2), 3, 9, 100])
def test_composition_equals_the_joint_distribution(moves: tuple[int, ...], ratio: Fraction) -> None:
    """Over all outcomes of several values, whichever way each moves."""
    distribution = probability_mass(TINY)
    delta = Fraction(0)
    moved = [{x + move: mass for x, mass in distribution.items()} for move in moves]
    for outcome in itertools.product(*(sorted(distribution.keys() | other) for other in moved)):
        p = math.prod((distribution.get(x, Fraction(0)) for x in outcome), start=Fraction(1))
        q = math.prod(
            (other.get(x, Fraction(0)) for x, other in zip(outcome, moved, strict=True)), start=Fraction(1)
        )
        delta += max(p - ratio * q, Fraction(0))
    assert composed([curve_of_coins(TINY)] * len(moves)).delta(Fraction(ratio)) == delta


def test_composition_that_is_too_large_to_list() -> None:
    with pytest.raises(ValueError, match="9 noisy values have too many likelihood ratios"):
        composed([curve_of_coins(DEFAULT)] * 9)


@pytest.mark.parametrize(
    ("coins", "ands", "depth", "fair_bits"),
    [
        (DEFAULT, 53, 5, 59),
        ((Coin(1, 1), Coin(3, 3)), 2, 2, 5),
        ((Coin(1, 1),), 0, 0, 2),  # the fair bit itself
        ((Coin(1, 3),), 2, 2, 4),  # all three bits are 0
        ((Coin(3, 2), Coin(1, 5)), 5, 3, 8),
    ],
)
def test_cost_is_the_circuits(coins: tuple[Coin, ...], ands: int, depth: int, fair_bits: int) -> None:
    gates = cost(coins)
    assert (gates.ands, gates.depth, fair_bits_per_sample(coins)) == (ands, depth, fair_bits)
