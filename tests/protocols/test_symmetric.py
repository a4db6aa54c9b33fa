"""The symmetric discrete Laplace, by full enumeration: its law, its privacy, its error, its circuit."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from protocols.accounting.exact_privacy import curve_of_law
from protocols.circuits import symmetric
from protocols.circuits.coins import Coin, exp_bounds
from protocols.circuits.symmetric import (
    SymmetricCoins,
    check,
    design_symmetric_coins,
    edge_mass,
    fair_bits_per_symmetric_sample,
    symmetric_geometric,
    symmetric_integer,
    symmetric_noise,
    worst_ratio,
    zero_ratio,
)
from protocols.noise.symmetric import (
    cumulative,
    guarantee,
    largest_noise,
    mean_square_error,
    probability_mass,
)
from protocols.reference import symmetric_noise_of_bits
from tests.protocols.test_truncated_noise import PartyInputs, Wire, int_of_bit, law, patterns

# Few fair bits, so that every pattern of them can be tried.
SMALL = {
    "one coin": SymmetricCoins(Coin(1, 2), (Coin(3, 3),)),
    "fair": SymmetricCoins(Coin(1, 1), (Coin(1, 1), Coin(1, 1))),
    "two": SymmetricCoins(Coin(5, 3), (Coin(3, 3), Coin(5, 4))),
    "three": SymmetricCoins(Coin(7, 4), (Coin(11, 4), Coin(3, 4), Coin(1, 2))),
}
DESIGNED = {
    f"epsilon {epsilon}, delta 2^-{bits}": (design_symmetric_coins(epsilon, bits), epsilon, bits)
    for epsilon, bits in [
        (Fraction(1), 40),
        (Fraction(1, 3), 60),
        (Fraction(1, 20), 40),
        (Fraction(5), 64),
        (Fraction(20), 20),
        (Fraction(3, 2), 128),
        (Fraction(1, 100), 40),
    ]
}
GRID = [
    (epsilon, bits)
    for epsilon in (
        *(Fraction(20), Fraction(19, 2), Fraction(5), Fraction(2), Fraction(1), Fraction(7, 10)),
        *(Fraction(1, n) for n in (2, 3, 10, 20, 100, 1000, 10**5, 10**7)),
    )
    for bits in (20, 40, 128)
]

small = pytest.mark.parametrize("coins", SMALL.values(), ids=SMALL)
designed = pytest.mark.parametrize(("coins", "epsilon", "bits"), DESIGNED.values(), ids=DESIGNED)


def run_circuit(coins: SymmetricCoins, fair: list[npt.NDArray[np.bool_]]) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = symmetric_integer(symmetric_geometric(coins, fair), int_of_bit)
    return values


@small
def test_circuit_has_exactly_this_distribution(coins: SymmetricCoins) -> None:
    """The law from its definition: zero by its coin, else a sign and the magnitude's bits plus 1."""
    expected: dict[int, Fraction] = {0: coins.zero.probability}
    for shown in itertools.product((0, 1), repeat=len(coins.magnitude)):
        mass = (1 - coins.zero.probability) / 2
        for bit, coin in zip(shown, coins.magnitude, strict=True):
            mass *= coin.probability if bit else 1 - coin.probability
        g = sum(bit << i for i, bit in enumerate(shown))
        expected |= {g + 1: mass, -(g + 1): mass}
    expected = dict(sorted(expected.items()))
    assert probability_mass(coins) == expected
    assert law(run_circuit(coins, patterns(fair_bits_per_symmetric_sample(coins)))) == expected
    assert max(expected) == -min(expected) == largest_noise(coins)


@small
def test_circuit_agrees_with_the_reference_on_every_pattern(coins: SymmetricCoins) -> None:
    fair = patterns(fair_bits_per_symmetric_sample(coins))
    plain = [(coin.numerator, coin.bits) for coin in (coins.zero, *coins.magnitude)]
    lanes = np.array(fair).T.astype(int).tolist()
    assert run_circuit(coins, fair).tolist() == [symmetric_noise_of_bits(plain, lane) for lane in lanes]


@pytest.mark.parametrize("honest", range(3))
def test_noise_keeps_its_law_whatever_all_parties_but_one_put_in(
    honest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The honest party's bits take every pattern once; the others' are the same in all lanes.

    Its coins are small ones here, in place of those for its epsilon and delta.
    """
    coins = SMALL["three"]
    designed = {(Fraction(1, 3), 40): coins}
    monkeypatch.setattr(symmetric, "design_symmetric_coins", lambda epsilon, bits: designed[epsilon, bits])
    n = fair_bits_per_symmetric_sample(coins)
    rng = random.Random(honest)
    for _ in range(4):
        fixed = [[np.full(1 << n, rng.random() < 0.5) for _ in range(n)] for _ in range(3)]
        fixed[honest] = patterns(n)
        values = symmetric_noise(int_of_bit, PartyInputs(fixed), 3, 1 << n, "1/3", "40")
        assert law(values) == probability_mass(coins)


@designed
def test_all_neighbouring_atoms_are_within_epsilon(
    coins: SymmetricCoins, epsilon: Fraction, bits: int
) -> None:
    """Those around zero and those at the edges are among them."""
    mass = probability_mass(coins)
    assert sum(mass.values()) == 1
    assert list(mass) == list(range(-largest_noise(coins), largest_noise(coins) + 1))
    atoms = list(mass.values())
    worst = max(max(a / b, b / a) for a, b in itertools.pairwise(atoms))
    assert worst == worst_ratio(coins)
    assert mass[1] / mass[0] == mass[-1] / mass[0] == zero_ratio(coins)
    with localcontext(prec=100):
        bound = (Decimal(epsilon.numerator) / epsilon.denominator).exp()
        assert Decimal(worst.numerator) / worst.denominator <= bound
    assert guarantee(coins).epsilon <= epsilon


@designed
def test_delta_is_the_edge_and_no_less(coins: SymmetricCoins, epsilon: Fraction, bits: int) -> None:
    """By the auditor, which knows the law only: at the realised epsilon, at the requested one, and below."""
    curve = curve_of_law(probability_mass(coins), [1])
    edge = edge_mass(coins)
    assert edge == probability_mass(coins)[largest_noise(coins)] == guarantee(coins).delta
    assert edge <= Fraction(1, 2**bits)
    assert curve.delta(worst_ratio(coins)) == curve.delta_bounds(epsilon)[1] == curve.impossible == edge
    assert curve.delta(worst_ratio(coins) * Fraction(999, 1000)) > edge


@designed
def test_errors_equal_enumeration(coins: SymmetricCoins, epsilon: Fraction, bits: int) -> None:
    mass = probability_mass(coins)
    assert sum(p * x for x, p in mass.items()) == 0
    assert mean_square_error(coins) == sum(p * x * x for x, p in mass.items())
    below = itertools.accumulate(mass.values())
    every = max(1, len(mass) // 200)
    for x, expected in itertools.islice(zip(mass, below, strict=True), 0, None, every):
        assert cumulative(coins, x) == expected
    edge = largest_noise(coins)
    assert cumulative(coins, -edge - 1) == 0
    assert cumulative(coins, edge) == cumulative(coins, edge + 9) == 1


@pytest.mark.parametrize(("epsilon", "bits"), GRID, ids=str)
def test_designed_coins_are_private_and_accurate(epsilon: Fraction, bits: int) -> None:
    """`check` has passed them; the untruncated discrete Laplace has mean square error 2q/(1-q)^2."""
    coins = design_symmetric_coins(epsilon, bits)
    with localcontext(prec=60):
        q = (-Decimal(epsilon.numerator) / epsilon.denominator).exp()
        error = mean_square_error(coins)
        ideal = 2 * q / (1 - q) ** 2
        assert Decimal(error.numerator) / error.denominator <= Decimal("1.05") * ideal
    check(coins, epsilon, bits)
    assert exp_bounds(epsilon)[0] >= worst_ratio(coins)


@pytest.mark.parametrize(
    ("zero", "why"),
    [
        (Coin(1, 1), "epsilon"),  # zero too likely: 29/64 is the most at epsilon = 1
        (Coin(15, 5), "epsilon"),
        (Coin(1, 4), "epsilon"),  # too unlikely
        (Coin(1, 60), "epsilon"),  # next to never
        ((1 << 60) - 1, "epsilon"),  # nearly always
    ],
)
def test_wrong_coins_are_refused(zero: Coin | int, why: str) -> None:
    right = design_symmetric_coins(Fraction(1), 40)
    wrong = zero if isinstance(zero, Coin) else Coin(zero, 60)
    with pytest.raises(ValueError, match=f"the coins exceed {why}"):
        check(SymmetricCoins(wrong, right.magnitude), Fraction(1), 40)
    with pytest.raises(ValueError, match="the coins exceed delta"):
        check(right, Fraction(1), 60)
    with pytest.raises(ValueError, match="the coins exceed epsilon"):
        check(SymmetricCoins(right.zero, ()), Fraction(1), 1)


@designed
def test_one_and_per_bit_beyond_the_flips(coins: SymmetricCoins, epsilon: Fraction, bits: int) -> None:
    Wire.ands = 0
    symmetric_geometric(coins, [Wire() for _ in range(fair_bits_per_symmetric_sample(coins))])
    flips = sum(coin.bits - 1 for coin in (coins.zero, *coins.magnitude))
    assert Wire.ands == flips + len(coins.magnitude)


def test_a_vector() -> None:
    """Another machine's Python must find the same coins, or program and manifest disagree."""
    coins = design_symmetric_coins(Fraction(1), 40)
    assert coins.zero == Coin(29, 6)
    assert [(c.numerator, c.bits) for c in coins.magnitude] == [(69, 8), (31, 8), (19, 10), (1, 11), (1, 21)]


def test_bits_must_be_as_many_as_the_coins_take() -> None:
    coins = SMALL["two"]
    with pytest.raises(AssertionError):
        symmetric_geometric(coins, patterns(fair_bits_per_symmetric_sample(coins) + 1))
