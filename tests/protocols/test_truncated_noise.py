"""The noise's distribution, by full enumeration: what it protects, its size; that the circuit has it."""

import itertools
import random
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.protocols.circuits import noise
from fairshares.protocols.circuits.coins import Coin, check, design_coins, edge_mass, exp_bounds, worst_ratio
from fairshares.protocols.circuits.noise import (
    default_noise,
    fair_bits_per_sample,
    flip,
    input_widths,
    two_sided_geometric,
    xor_of_inputs,
)
from fairshares.protocols.noise.truncated import (
    cumulative,
    error_bound,
    largest_noise,
    log_upper_bound,
    magnitude_below,
    mean_square_error,
    probability_mass,
)
from fairshares.protocols.reference import noise_of_bits
from tests.support.clear import PartyInputs

Coins = tuple[Coin, ...]
Lanes = npt.NDArray[np.bool_]

# Few fair bits, so that every pattern of them can be tried; runs of ones and zeros of many lengths.
SMALL = {
    "one coin": (Coin(3, 3),),
    "one fair bit each": (Coin(1, 1), Coin(1, 1), Coin(1, 1)),
    "short": (Coin(3, 3), Coin(5, 4)),
    "zeros": (Coin(1, 5), Coin(17, 6)),
    "ones": (Coin(15, 4), Coin(31, 6)),
    "alternating": (Coin(43, 6), Coin(21, 5)),
    "three": (Coin(27, 6), Coin(3, 4), Coin(1, 2)),
}
DESIGNED = {
    f"epsilon {epsilon}, delta 2^-{bits}": (design_coins(epsilon, bits), epsilon, bits)
    for epsilon, bits in [
        (Fraction(1), 40),
        (Fraction(1, 2), 40),
        (Fraction(1, 3), 21),
        (Fraction(1, 20), 40),
        (Fraction(5), 64),
        (Fraction(20), 20),
        (Fraction(3, 2), 128),
        (Fraction(333333333333, 10**12), 41),
        (Fraction(1, 100), 40),
    ]
}

designed = pytest.mark.parametrize("coins", [row[0] for row in DESIGNED.values()], ids=DESIGNED)
designed_for = pytest.mark.parametrize(("coins", "epsilon", "bits"), DESIGNED.values(), ids=DESIGNED)
small = pytest.mark.parametrize("coins", SMALL.values(), ids=SMALL)


def hockey_stick(mass: dict[int, Fraction], shift: int, ratio: Fraction) -> Fraction:
    """Return the most of P(X in E) - ratio P(X + shift in E) over all E: delta at epsilon = ln ratio."""
    return sum((max(p - ratio * mass.get(x - shift, 0), Fraction(0)) for x, p in mass.items()), Fraction(0))


def magnitudes(coins: Coins) -> list[Fraction]:
    """Return P(G = g) for every g, one product per pattern of the coins' results."""
    distribution = {}
    for shown in itertools.product((0, 1), repeat=len(coins)):
        g = sum(bit << i for i, bit in enumerate(shown))
        distribution[g] = Fraction(1)
        for bit, coin in zip(shown, coins, strict=True):
            distribution[g] *= Fraction(
                coin.numerator if bit else 2**coin.bits - coin.numerator, 2**coin.bits
            )
    return [distribution[g] for g in range(len(distribution))]


@designed
def test_mass_is_a_two_sided_distribution(coins: Coins) -> None:
    mass, one_side = probability_mass(coins), magnitudes(coins)
    assert sum(mass.values()) == 1
    assert list(mass) == list(range(-(2 ** len(coins)), 2 ** len(coins)))
    assert all(mass[g] == mass[-1 - g] == p / 2 for g, p in enumerate(one_side))
    assert max(mass) == largest_noise(coins)


@designed_for
def test_delta_is_the_edge_and_no_less(coins: Coins, epsilon: Fraction, bits: int) -> None:
    mass, worst, edge = probability_mass(coins), worst_ratio(coins), edge_mass(coins)
    assert edge == mass[largest_noise(coins)] <= Fraction(1, 2**bits)
    for shift in (1, -1):
        assert hockey_stick(mass, shift, worst) == edge
        assert hockey_stick(mass, shift, exp_bounds(epsilon)[0]) == edge
        assert hockey_stick(mass, shift, worst * Fraction(999, 1000)) > edge


@pytest.mark.parametrize(
    ("coins", "why"),
    [
        pytest.param(
            (Coin(17, 6), *design_coins(Fraction(1), 40)[1:]), "epsilon", id="lowest coin 17/64 < q/(1+q)"
        ),
        pytest.param((Coin(1, 1), *design_coins(Fraction(1), 40)[1:]), "epsilon", id="lowest coin fair"),
        pytest.param(design_coins(Fraction(1), 40)[::-1], "epsilon", id="highest first"),
        pytest.param(design_coins(Fraction(1), 40)[1:], "epsilon", id="lowest forgotten"),
        pytest.param(design_coins(Fraction(1), 40)[:-1], "delta", id="highest forgotten"),
        pytest.param(design_coins(Fraction(11, 10), 40), "epsilon", id="designed for 1.1"),
        pytest.param(design_coins(Fraction(1), 20), "delta", id="designed for 2^-20"),
        pytest.param((Coin(1, 60),), "epsilon", id="next to no noise"),
    ],
)
def test_wrong_coins_are_refused(coins: Coins, why: str) -> None:
    with pytest.raises(ValueError, match=f"the coins exceed {why}"):
        check(coins, Fraction(1), 40)


@pytest.mark.parametrize("name", [name for name in DESIGNED if "1/100" not in name])
def test_errors_equal_enumeration(name: str) -> None:
    coins = DESIGNED[name][0]
    mass = probability_mass(coins)
    half = Fraction(1, 2)
    assert mean_square_error(coins) == sum(p * (x + half) ** 2 for x, p in mass.items())
    assert sum(p * (x + half) for x, p in mass.items()) == 0
    at_most = itertools.accumulate(mass.values())
    assert all(cumulative(coins, x) == p for x, p in itertools.islice(zip(mass, at_most, strict=True), 300))
    assert cumulative(coins, -largest_noise(coins) - 2) == 0
    assert cumulative(coins, largest_noise(coins)) == cumulative(coins, 10**6) == 1
    below = list(itertools.accumulate(magnitudes(coins), initial=Fraction(0)))
    assert [magnitude_below(coins, n) for n in range(len(below))] == below
    assert magnitude_below(coins, 2 * len(below)) == 1


@designed
def test_error_bound_is_the_least(coins: Coins) -> None:
    mass = probability_mass(coins)
    half = Fraction(1, 2)
    for failure in (Fraction(1, n) for n in (2, 20, 80, 1000, 10**9, 10**30)):
        t = error_bound(coins, failure)
        beyond = sum(p for x, p in mass.items() if abs(x + half) > t)
        assert beyond <= failure < beyond + sum(p for x, p in mass.items() if abs(x + half) == t)


@pytest.mark.parametrize(
    "ratio",
    [
        Fraction(1),
        Fraction(10**13 + 1, 10**13),
        Fraction(2),
        Fraction(271828182846, 10**11),
        Fraction(10**27, 7),
    ],
    ids=str,
)
def test_log_upper_bound_is_above_and_tight(ratio: Fraction) -> None:
    bound = log_upper_bound(ratio)
    with localcontext(prec=100):
        exact = Fraction((Decimal(ratio.numerator) / ratio.denominator).ln())
    assert exact <= bound < exact + Fraction(1, 10**12)
    assert (bound * 10**12).denominator == 1


def patterns(bits: int) -> list[Lanes]:
    """Return `bits` arrays that hold every pattern of bits once, one pattern per lane."""
    lanes = np.arange(1 << bits)
    return [(lanes >> i & 1).astype(bool) for i in range(bits)]


def as_integers(bits: list[Lanes]) -> npt.NDArray[np.int64]:
    """Read two's complement, lowest bit first."""
    weights = [1 << i for i in range(len(bits) - 1)] + [-(1 << len(bits) - 1)]
    total = np.zeros(len(bits[0]), dtype=np.int64)
    for bit, weight in zip(bits, weights, strict=True):
        total += bit.astype(np.int64) * weight
    return total


def int_of_bit(bit: Lanes) -> npt.NDArray[np.int64]:
    """Stand for sint, which makes integers of secret bits."""
    return bit.astype(np.int64)


def distribution(values: npt.NDArray[np.int64]) -> dict[int, Fraction]:
    return {x: Fraction(n, len(values)) for x, n in sorted(Counter(values.tolist()).items())}


@small
def test_circuit_has_exactly_this_distribution(coins: Coins) -> None:
    fair = patterns(fair_bits_per_sample(coins))
    assert distribution(as_integers(two_sided_geometric(coins, fair))) == probability_mass(coins)


@small
def test_circuit_agrees_with_the_reference_on_every_pattern(coins: Coins) -> None:
    fair = patterns(fair_bits_per_sample(coins))
    plain = [(coin.numerator, coin.bits) for coin in coins]
    lanes = np.array(fair).T.astype(int).tolist()
    assert as_integers(two_sided_geometric(coins, fair)).tolist() == [
        noise_of_bits(plain, lane) for lane in lanes
    ]


@designed
def test_circuit_agrees_with_the_reference_on_long_coins(coins: Coins) -> None:
    """Random patterns, half of them with long runs of zeros, which rare results take."""
    rng = np.random.default_rng(20)
    fair = rng.random((fair_bits_per_sample(coins), 4000)) < np.where(np.arange(4000) % 2, 0.5, 0.04)
    plain = [(coin.numerator, coin.bits) for coin in coins]
    expected = [noise_of_bits(plain, lane) for lane in fair.T.astype(int).tolist()]
    assert as_integers(two_sided_geometric(coins, list(fair))).tolist() == expected
    assert min(expected) < 0 < max(expected)


@pytest.mark.parametrize("bits", range(1, 9))
def test_flip_compares_every_integer_with_every_numerator(bits: int) -> None:
    drawn = np.arange(1 << bits)
    fair = [(drawn >> i & 1).astype(bool) for i in range(bits)]
    for numerator in range(1, 1 << bits, 2):
        assert flip(Coin(numerator, bits), fair).tolist() == (drawn < numerator).tolist()


@pytest.mark.parametrize(
    ("parties", "honest"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (5, 2), (10, 9), (16, 0)]
)
def test_noise_keeps_its_distribution_whatever_all_parties_but_one_put_in(
    parties: int, honest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The honest party's bits take every pattern once; the others' are the same in all lanes, or copied.

    Its coins are small ones here, in place of those for its epsilon and delta.
    """
    coins = SMALL["three"]
    designed = {("1/3", "40"): coins}
    monkeypatch.setattr(noise, "coins_of_arguments", lambda epsilon, bits: designed[epsilon, bits])
    n = fair_bits_per_sample(coins)
    rng = random.Random(honest)
    for _ in range(4):
        fixed = [[np.full(1 << n, rng.random() < 0.5) for _ in range(n)] for _ in range(parties)]
        fixed[honest] = patterns(n)
        values = default_noise(int_of_bit, PartyInputs(fixed), parties, 1 << n, "1/3", "40")
        assert distribution(values) == probability_mass(coins)


def test_every_party_counts_and_every_bit_is_taken_once() -> None:
    rng = np.random.default_rng(5)
    parties = [list(rng.random((130, 7)) < 0.5) for _ in range(4)]
    inputs = PartyInputs(parties)
    drawn = xor_of_inputs(int_of_bit, inputs, 4, 7, 130)
    assert (np.array(drawn) == np.logical_xor.reduce(np.array(parties), axis=0)).all()
    assert inputs.queues == [[], [], [], []]


@pytest.mark.parametrize(
    ("bits", "widths"), [(1, [1]), (62, [62]), (63, [63]), (64, [63, 1]), (126, [63, 63]), (130, [63, 63, 4])]
)
def test_input_widths(bits: int, widths: list[int]) -> None:
    assert input_widths(bits) == widths
