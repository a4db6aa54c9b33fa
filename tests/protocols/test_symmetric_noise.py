"""Symmetric noise: its exact law, its privacy by enumeration, its size, and that the circuit has it."""

import itertools
import math
from collections import Counter, defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    each_cell_once,
    plan_noise,
)
from fairshares.protocols.accounting.exact_privacy import (
    PrivacyCurve,
    composed,
    cost,
    curve_of_coins,
    curve_of_distribution,
    impossible_mass,
    impossible_mass_of_clients,
)
from fairshares.protocols.circuits.coins import (
    MAX_COINS,
    MOST_SIGNED,
    Coin,
    Coins,
    NoiseFamily,
    SymmetricCoins,
    check,
    design_coins,
    design_noise,
    design_symmetric_coins,
    edge_mass,
    exp_bounds,
    family_for,
    family_of,
    worst_ratio,
)
from fairshares.protocols.circuits.noise import (
    coins_of_arguments,
    fair_bits_per_sample,
    joint_sample,
    noise_arguments,
)
from fairshares.protocols.noise import added
from fairshares.protocols.noise.truncated import (
    cumulative,
    error_bound,
    guarantee,
    guarantee_of_moves,
    largest_noise,
    mean_square_error,
    most_uncovered,
    outer_mass,
    probability_mass,
    smallest_noise,
)
from fairshares.protocols.reference import noise_of_bits

DIGITS = 60  # of reference values
RATIO = Decimal("1.10")  # of the root mean square error to that of discrete Laplace noise, at most

# Few fair bits, so that every pattern of them can be tried.
SMALL = {
    "one coin": SymmetricCoins((Coin(3, 3),), Coin(5, 3)),
    "fair": SymmetricCoins((Coin(1, 1), Coin(1, 1)), Coin(1, 1)),
    "short": SymmetricCoins((Coin(3, 3), Coin(5, 4)), Coin(11, 4)),
    "rarely 0": SymmetricCoins((Coin(1, 2), Coin(1, 3)), Coin(63, 6)),
    "mostly 0": SymmetricCoins((Coin(1, 4), Coin(1, 5)), Coin(1, 5)),
    "three": SymmetricCoins((Coin(27, 6), Coin(3, 4), Coin(1, 2)), Coin(3, 2)),
}
GRID = [
    (Fraction(epsilon), bits)
    for epsilon, bits in (
        *(("1.16", bits) for bits in (20, 40, 128)),
        *((text, 40) for text in ("1.3", "1.5", "2", "2.5", "3", "4", "5", "6", "7", "8", "9", "10")),
        ("1999999999999/1000000000000", 42),
        ("10/3", 64),
        *(("4", bits) for bits in (20, 64, 128)),
        *(("8", bits) for bits in (20, 64, 128)),
        *(("20", bits) for bits in (20, 40, 128)),
    )
]

small = pytest.mark.parametrize("coins", SMALL.values(), ids=SMALL)
designed = pytest.mark.parametrize(
    ("epsilon", "bits"), GRID, ids=[f"epsilon {epsilon}, delta 2^-{bits}" for epsilon, bits in GRID]
)


def law(coins: SymmetricCoins) -> dict[int, Fraction]:
    """Return the probability of every value, a product for each pattern of what the coins show."""
    chances = [Fraction(coin.numerator, 2**coin.bits) for coin in (coins.nonzero, *coins.magnitude)]
    masses: defaultdict[int, Fraction] = defaultdict(Fraction)
    for nonzero, *bits in itertools.product((0, 1), repeat=len(chances)):
        mass = Fraction(1)
        for shown, chance in zip((nonzero, *bits), chances, strict=True):
            mass *= chance if shown else 1 - chance
        magnitude = 1 + sum(bit << i for i, bit in enumerate(bits))
        if nonzero:
            masses[magnitude] += mass / 2
            masses[-magnitude] += mass / 2
        else:
            masses[0] += mass
    return dict(sorted(masses.items()))


def hockey_stick(mass: dict[int, Fraction], shift: int, ratio: Fraction) -> Fraction:
    """Return the most of P(X in E) - ratio P(X + shift in E) over all E: delta at epsilon = ln ratio."""
    return sum((max(p - ratio * mass.get(x - shift, 0), Fraction(0)) for x, p in mass.items()), Fraction(0))


@small
def test_mass_is_the_product_of_coins(coins: SymmetricCoins) -> None:
    assert probability_mass(coins) == law(coins)
    assert sum(law(coins).values()) == 1
    assert smallest_noise(coins) == -largest_noise(coins) == -(2 ** len(coins.magnitude))


@small
def test_it_is_symmetric_about_0(coins: SymmetricCoins) -> None:
    mass = probability_mass(coins)
    assert all(p == mass[-x] for x, p in mass.items())
    assert added.offset(coins) == 0
    assert added.smallest(coins) == -added.largest(coins) == min(mass)


@small
def test_errors_equal_enumeration(coins: SymmetricCoins) -> None:
    mass = law(coins)
    assert mean_square_error(coins) == sum(p * x**2 for x, p in mass.items())
    at_most = list(itertools.accumulate(mass.values()))
    assert [cumulative(coins, x) for x in mass] == at_most
    assert cumulative(coins, min(mass) - 1) == 0
    assert cumulative(coins, max(mass)) == cumulative(coins, 10**6) == 1
    assert [outer_mass(coins, values) for values in range(1, len(mass) + 1)] == at_most


@small
def test_error_bound_is_the_least(coins: SymmetricCoins) -> None:
    mass = law(coins)
    for failure in (Fraction(99, 100), *(Fraction(1, n) for n in (2, 5, 20, 80, 1000, 10**9))):
        t = error_bound(coins, failure)
        assert t >= 0
        beyond = sum(p for x, p in mass.items() if abs(x) > t)
        assert beyond <= failure < beyond + sum(p for x, p in mass.items() if abs(x) == t)


@small
def test_worst_ratio_is_that_of_neighboring_atoms(coins: SymmetricCoins) -> None:
    masses = list(law(coins).values())
    ratios = [one / other for one, other in itertools.pairwise(masses)]
    assert worst_ratio(coins) == max(max(ratio, 1 / ratio) for ratio in ratios)


@small
def test_delta_is_the_outermost_atom(coins: SymmetricCoins) -> None:
    """It is P(X is not 0) times what signed noise of the same magnitude has."""
    mass = law(coins)
    edge = edge_mass(coins)
    assert edge == mass[max(mass)] == mass[min(mass)]
    assert edge == coins.nonzero.probability * edge_mass(coins.magnitude) < edge_mass(coins.magnitude)
    for shift in (1, -1):
        assert hockey_stick(mass, shift, worst_ratio(coins)) == edge
        if worst_ratio(coins) > 1:
            assert hockey_stick(mass, shift, worst_ratio(coins) * Fraction(999, 1000)) > edge


@designed
def test_designs_are_private(epsilon: Fraction, bits: int) -> None:
    coins = design_symmetric_coins(epsilon, bits)
    mass = law(coins)
    assert len(coins.magnitude) <= MAX_COINS
    for shift in (1, -1):
        delta = hockey_stick(mass, shift, exp_bounds(epsilon)[0])
        assert delta == max(mass[max(mass)], mass[min(mass)]) <= Fraction(1, 2**bits)


@designed
def test_designs_are_accurate(epsilon: Fraction, bits: int) -> None:
    coins = design_symmetric_coins(epsilon, bits)
    with localcontext(prec=DIGITS):
        assert _relative_error(coins, epsilon) <= Decimal("1.0489")  # its square is at most 1.1


def _relative_error(coins: Coins, epsilon: Fraction) -> Decimal:
    """Return the root mean square error over that of discrete Laplace noise with this epsilon."""
    q = (-Decimal(epsilon.numerator) / epsilon.denominator).exp()
    square = mean_square_error(coins)
    ours = Decimal(square.numerator) / square.denominator
    return (ours * (1 - q) ** 2 / (2 * q)).sqrt()


@pytest.mark.parametrize("bits", [20, 40, 64, 128])
def test_joint_noise_is_at_most_a_tenth_larger_than_the_geometric_mechanism(bits: int) -> None:
    """For a value's epsilon from 0.1 to 10, in steps that are not those of the coins."""
    for percent in (*range(10, 120, 7), *range(114, 118), *range(120, 1001, 41), 1000):
        epsilon = Fraction(percent, 100)
        coins = design_noise(epsilon, bits)
        assert exp_bounds(epsilon)[0] >= worst_ratio(coins)
        assert edge_mass(coins) <= Fraction(1, 2**bits)
        with localcontext(prec=DIGITS):
            assert _relative_error(coins, epsilon) <= RATIO


@pytest.mark.parametrize("epsilon", ["2", "4", "8"])
def test_signed_noise_would_be_too_large(epsilon: str) -> None:
    with localcontext(prec=DIGITS):
        assert _relative_error(design_coins(Fraction(epsilon), 40), Fraction(epsilon)) > Decimal("1.3")


@pytest.mark.parametrize(
    ("epsilon", "ands"), [("0.1", 82), ("1", 53), ("2", 40), ("4", 43), ("8", 40), ("10", 40)]
)
def test_cost(epsilon: str, ands: int) -> None:
    assert cost(design_noise(Fraction(epsilon), 40)).ands == ands


def test_symmetric_coins() -> None:
    """A vector: another machine's Python must find the same, or program and manifest disagree."""
    coins = design_symmetric_coins(Fraction(4), 40)
    listed = [(coin.numerator, coin.bits) for coin in (*coins.magnitude, coins.nonzero)]
    assert listed == [(1, 5), (1, 10), (1, 20), (19, 9)]


def test_the_family_follows_from_epsilon() -> None:
    assert family_for(MOST_SIGNED) is NoiseFamily.SIGNED
    assert family_for(MOST_SIGNED + Fraction(1, 10**12)) is NoiseFamily.SYMMETRIC
    for epsilon in (Fraction(1), Fraction(2)):
        assert family_of(design_noise(epsilon, 40)) is family_for(epsilon)
        assert design_noise(epsilon, 40, NoiseFamily.SIGNED) == design_coins(epsilon, 40)


@pytest.mark.parametrize("family", NoiseFamily)
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(2)])
def test_arguments_of_programs_name_the_noise(epsilon: Fraction, family: NoiseFamily) -> None:
    if family is NoiseFamily.SYMMETRIC and family_for(epsilon) is NoiseFamily.SIGNED:
        return  # which no plan asks for
    coins = design_noise(epsilon, 40, family)
    arguments = noise_arguments(epsilon, 40, family)
    assert coins_of_arguments(*arguments) == coins
    if family is NoiseFamily.SIGNED and epsilon == 2:
        assert arguments == ("2", "40-signed")
    else:
        assert arguments == (str(epsilon), "40")


OF_FOUR = (Coin(1, 5), Coin(1, 10), Coin(1, 20))  # for epsilon = 4 and delta = 2^-40, with 19/2^9


@pytest.mark.parametrize(
    ("coins", "why"),
    [
        (SymmetricCoins((Coin(1, 7), Coin(1, 40)), Coin(1, 7)), "epsilon"),
        (SymmetricCoins(OF_FOUR, Coin(1, 10)), "epsilon"),
        (SymmetricCoins(OF_FOUR, Coin(255, 8)), "epsilon"),
        (SymmetricCoins((Coin(1, 6), *OF_FOUR[1:]), Coin(19, 9)), "epsilon"),
        (SymmetricCoins(OF_FOUR[:2], Coin(19, 9)), "delta"),
    ],
    ids=["next to no noise", "0 is too likely", "0 is too rare", "lowest coin 1/64", "highest forgotten"],
)
def test_wrong_coins_are_refused(coins: SymmetricCoins, why: str) -> None:
    with pytest.raises(ValueError, match=f"the coins exceed {why}"):
        check(coins, Fraction(4), 40)


Lanes = npt.NDArray[np.bool_]


def patterns(bits: int) -> list[Lanes]:
    """Return `bits` arrays that hold every pattern of bits once, one pattern per lane."""
    lanes = np.arange(1 << bits)
    return [(lanes >> i & 1).astype(bool) for i in range(bits)]


def int_of_bit(bit: Lanes) -> npt.NDArray[np.int64]:
    """Stand for sint, which makes integers of secret bits."""
    return bit.astype(np.int64)


def by_reference(coins: SymmetricCoins, fair: list[Lanes]) -> list[int]:
    plain = [(coin.numerator, coin.bits) for coin in coins.magnitude]
    nonzero = (coins.nonzero.numerator, coins.nonzero.bits)
    return [noise_of_bits(plain, lane, nonzero) for lane in np.array(fair).T.astype(int).tolist()]


@small
def test_circuit_has_exactly_this_distribution(coins: SymmetricCoins) -> None:
    fair = patterns(fair_bits_per_sample(coins))
    values = joint_sample(coins, fair, int_of_bit)
    found = {x: Fraction(n, len(values)) for x, n in Counter(values.tolist()).items()}
    assert found == law(coins)


@small
def test_circuit_agrees_with_the_reference_on_every_pattern(coins: SymmetricCoins) -> None:
    fair = patterns(fair_bits_per_sample(coins))
    assert joint_sample(coins, fair, int_of_bit).tolist() == by_reference(coins, fair)


@designed
def test_circuit_agrees_with_the_reference_on_long_coins(epsilon: Fraction, bits: int) -> None:
    """Random patterns, half of them with long runs of zeros, which rare results take."""
    coins = design_symmetric_coins(epsilon, bits)
    rng = np.random.default_rng(20)
    chance = np.where(np.arange(2000) % 2, 0.5, 0.04)
    fair = list(rng.random((fair_bits_per_sample(coins), 2000)) < chance)
    fair[0] = rng.random(2000) < 0.5
    expected = by_reference(coins, fair)
    assert joint_sample(coins, fair, int_of_bit).tolist() == expected
    assert min(expected) < 0 < max(expected)


@small
def test_audit_equals_the_enumerated_distribution_both_ways(coins: SymmetricCoins) -> None:
    distribution = law(coins)
    for shift, pair in enumerate(curve_of_coins(coins, 2 ** len(coins.magnitude) - 1).pairs, 1):
        assert curve_of_distribution(distribution, [shift]).pairs == (pair, pair)


@designed
def test_audit_confirms_the_design(epsilon: Fraction, bits: int) -> None:
    """Two derivations: the design's inequalities, and the groups of the whole distribution."""
    coins = design_symmetric_coins(epsilon, bits)
    curve = curve_of_coins(coins)
    assert curve.impossible == edge_mass(coins)
    assert curve.least_ratio(edge_mass(coins)) == worst_ratio(coins)
    assert curve.least_epsilon(edge_mass(coins)) == guarantee(coins).epsilon <= epsilon


PAIRS = SMALL["mostly 0"], SMALL["short"]


@pytest.mark.parametrize("coins", PAIRS)
@pytest.mark.parametrize("moves", [(1, 1), (1, -1), (-1, -1), (-1, 1, 1)])
@pytest.mark.parametrize("ratio", [1, Fraction(3, 2), 3, 9, 100])
def test_values_that_move_both_ways_lose_what_is_composed(
    coins: SymmetricCoins, moves: tuple[int, ...], ratio: Fraction
) -> None:
    """As a replaced record does, over all outcomes of several values."""
    assert _delta_of(law(coins), moves, Fraction(ratio)) == composed(
        [curve_of_coins(coins)] * len(moves)
    ).delta(Fraction(ratio))


def _delta_of(mass: dict[int, Fraction], moves: tuple[int, ...], ratio: Fraction) -> Fraction:
    """Return the largest P(E) - ratio Q(E), where each value of Q moves, over all outcomes."""
    moved = [{x + move: p for x, p in mass.items()} for move in moves]
    delta = Fraction(0)
    for outcome in itertools.product(*(sorted(mass.keys() | other) for other in moved)):
        p = math.prod((mass.get(x, Fraction(0)) for x in outcome), start=Fraction(1))
        q = math.prod(
            (other.get(x, Fraction(0)) for x, other in zip(outcome, moved, strict=True)), start=Fraction(1)
        )
        delta += max(p - ratio * q, Fraction(0))
    return delta


def test_a_biased_sign_would_not_lose_the_same_both_ways() -> None:
    """Why the law has to be its own mirror image: G or -1 - G, where the sign is no fair bit, is not."""
    negative = Fraction(1, 4)
    magnitudes = [Fraction(21, 32), Fraction(7, 32), Fraction(3, 32), Fraction(1, 32)]
    biased = {}
    for g, mass in enumerate(magnitudes):
        biased[g] = (1 - negative) * mass
        biased[-1 - g] = negative * mass
    up, down = curve_of_distribution(biased, [1]).pairs
    assert PrivacyCurve((up,)).delta(Fraction(3)) != PrivacyCurve((down,)).delta(Fraction(3))
    assert max(biased[3], biased[-4]) != magnitudes[3] / 2, "its delta is not that of a fair sign"


@small
def test_moves_by_several_units_keep_to_theorem_8(coins: SymmetricCoins) -> None:
    mass = law(coins)
    for moves in ((2,), (1, 2), (3,)):
        if max(moves) > largest_noise(coins):
            continue
        claim = guarantee_of_moves(coins, [moves])
        ratio = exp_bounds(claim.epsilon)[0]
        for signs in itertools.product((1, -1), repeat=len(moves)):
            moved = tuple(sign * move for sign, move in zip(signs, moves, strict=True))
            delta = _delta_of(mass, moved, ratio)
            assert delta <= claim.delta
            if len(moves) == 1:
                assert delta == claim.delta
        assert impossible_mass(coins, moves) == claim.delta


@small
@pytest.mark.parametrize("cap", [1, 2, 3])
def test_clients_with_several_records_uncover_at_most_this(coins: SymmetricCoins, cap: int) -> None:
    exact = impossible_mass_of_clients(coins, 1, cap)
    spread = [
        sum(outer_mass(coins, part) for part in parts)
        for length in range(1, cap + 1)
        for parts in itertools.product(range(1, cap + 1), repeat=length)
        if sum(parts) == cap
    ]
    assert exact == max(spread) <= most_uncovered(coins, cap)


@small
def test_distribution_of_errors(coins: SymmetricCoins) -> None:
    noise = added.JointNoise(coins)
    errors = noise.errors()
    assert dict(zip(errors.values.tolist(), errors.masses.tolist(), strict=True)) == pytest.approx(
        {float(x): float(p) for x, p in law(coins).items()}
    )
    drawn = noise.simulated(np.random.default_rng(3), (200_000,))
    assert set(np.unique(drawn)) <= set(map(float, law(coins)))
    assert np.mean(drawn**2) == pytest.approx(float(mean_square_error(coins)), rel=0.05)


def test_coarse_errors_of_many_coins_are_no_smaller() -> None:
    """Of more coins than the grid has bits, as only a file can name them."""
    coins = SymmetricCoins((*(Coin(1, 1) for _ in range(12)),), Coin(1, 1))
    mass = probability_mass(coins)
    for failure in (0.4, 0.1, 0.01):
        bound = added.JointNoise(coins).errors().quantile(failure)
        assert sum(p for x, p in mass.items() if x > bound) <= failure


def test_a_replaced_record_of_a_plan_moves_both_ways() -> None:
    plan = plan_noise(
        each_cell_once(4), Neighbors(NeighboringRelation.REPLACE_ONE), Fraction(4), Fraction(1, 2**40)
    )
    assert isinstance(plan.coins, SymmetricCoins)
    ratio = exp_bounds(plan.exact.epsilon)[0]
    assert 0 < _delta_of(law(plan.coins), (1, -1), ratio) <= plan.exact.delta
