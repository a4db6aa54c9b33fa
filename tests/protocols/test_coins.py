"""Coins: the enclosure of e^x, the search for coins, and the check that decides whether they are private.

Everything that `check` claims is derived here a second time: ratios from products of bit probabilities,
e^epsilon from `decimal`.
"""

import ast
import inspect
import random
from decimal import Decimal, localcontext
from fractions import Fraction
from math import prod

import pytest

from fairshares.protocols.circuits import coins as module
from fairshares.protocols.circuits.coins import (
    MAX_COINS,
    MAX_DELTA_BITS,
    MAX_EPSILON,
    MIN_DELTA_BITS,
    MIN_EPSILON,
    Coin,
    check,
    design_coins,
    exp_bounds,
    worst_ratio,
)

DIGITS = 150  # of the reference values; the enclosures are about 10^-77 wide
ARGUMENTS = [
    Fraction(*pair)
    for pair in [
        (0, 1), (1, 10**30), (1, 10**12), (1, 10**7), (1, 1000), (1, 7), (1, 3), (1, 2), (693147, 10**6),
        (1, 1), (10**12 + 1, 10**12), (3, 2), (27, 10), (5, 1), (19, 1), (20, 1), (127, 4),
        (64 * 10**9 - 1, 10**9), (64, 1),
    ]
]  # fmt: skip

GRID = [
    *[(Fraction(1), bits) for bits in (20, 40, 64, 90, 128)],
    *[(Fraction(20), bits) for bits in (20, 40, 128)],
    *[(Fraction(1, 10**7), bits) for bits in (20, 40, 128)],
    *[(Fraction(1, 3), bits) for bits in (20, 41, 128)],
    *[(Fraction(1, n), 40) for n in (2, 10, 20, 100, 1000, 10**5)],
    (Fraction(333333333333, 10**12), 40), (Fraction(1, 2001), 51), (Fraction(19, 2), 33), (Fraction(5), 64),
    (Fraction(693147, 10**6), 40), (Fraction(999999, 10**6), 77),
]  # fmt: skip


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def neighbours_within(coins: tuple[Coin, ...], limit: Decimal) -> bool:
    """Whether P(G = n + 1) / P(G = n) is in [1/limit, limit] for one n per number of trailing ones.

    The bits of n above its lowest zero are drawn at random, since they must not matter.
    """
    rng = random.Random(7)

    def mass(n: int) -> Fraction:
        return prod(
            (coin.probability if n >> i & 1 else 1 - coin.probability for i, coin in enumerate(coins)),
            start=Fraction(1),
        )

    for trailing in range(len(coins)):
        above = rng.getrandbits(len(coins) - trailing - 1) if trailing < len(coins) - 1 else 0
        n = (above << trailing + 1) + (1 << trailing) - 1
        ratio = decimal(mass(n + 1) / mass(n))
        if not 1 / limit <= ratio <= limit:
            return False
    return True


def error(coins: tuple[Coin, ...]) -> Fraction:
    """Return E[(G + 1/2)^2] from the first two moments, adding one bit after the other."""
    first, second = Fraction(0), Fraction(0)
    for i, coin in enumerate(coins):
        step = (1 << i) * coin.probability
        second += 2 * step * first + (1 << i) * step
        first += step
    return second + first + Fraction(1, 4)


def ideal_error(epsilon: Fraction) -> Decimal:
    """Return E[(G + 1/2)^2] for P(G = g) = (1 - q) q^g, q = e^-epsilon."""
    q = (-decimal(epsilon)).exp()
    return q * (1 + q) / (1 - q) ** 2 + q / (1 - q) + Decimal("0.25")


@pytest.mark.parametrize("x", ARGUMENTS, ids=str)
def test_exp_bounds_enclose_tightly(x: Fraction) -> None:
    low, high = exp_bounds(x)
    with localcontext(prec=DIGITS):
        exact = decimal(x).exp()
        if x == 0:
            assert low == high == 1
        else:
            assert decimal(low) < exact < decimal(high)
    assert high - low < low / 2**100


def test_exp_bounds_count_the_tail() -> None:
    """x is one step of the grid, so that no rounding hides that the series goes on."""
    x = Fraction(1, 2**256)
    assert exp_bounds(x)[1] > 1 + x + x**2 / 2


@pytest.mark.parametrize(
    "x", [Fraction(-1, 10**9), Fraction(64) + Fraction(1, 10**9), Fraction(1000)], ids=str
)
def test_exp_bounds_refuse_other_arguments(x: Fraction) -> None:
    with pytest.raises(ValueError, match="exp_bounds takes 0 <= x <= 64"):
        exp_bounds(x)


@pytest.mark.parametrize(("epsilon", "delta_bits"), GRID, ids=str)
def test_designed_coins_are_private_and_accurate(epsilon: Fraction, delta_bits: int) -> None:
    """The docstring's three promises: (epsilon, 2^-delta_bits), at most 2 % more error, at most 30 coins."""
    coins = design_coins(epsilon, delta_bits)
    assert 1 <= len(coins) <= MAX_COINS
    with localcontext(prec=DIGITS):
        assert neighbours_within(coins, decimal(epsilon).exp())
        assert decimal(error(coins)) <= Decimal("1.02") * ideal_error(epsilon)
    outermost = Fraction(1, 2) * prod((c.probability for c in coins), start=Fraction(1))
    assert outermost <= Fraction(1, 2**delta_bits)


def test_default_coins() -> None:
    """A vector: another machine's Python must find the same, or program and manifest disagree."""
    expected = [(69, 8), (31, 8), (19, 10), (1, 11), (1, 21)]
    assert [(coin.numerator, coin.bits) for coin in design_coins(Fraction(1), 40)] == expected


def test_search_uses_exactly_rounded_operations_only() -> None:
    """Powers and functions of floats may differ between C libraries; + - * / may not."""
    tree = ast.parse(inspect.getsource(module))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    powers = [
        n for f in functions for n in ast.walk(f) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)
    ]
    assert not powers
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    assert imported == {
        "annotations",
        "Iterator",
        "dataclass",
        "Enum",
        "Fraction",
        "lru_cache",
        "prod",
        "Tuple",
        "Union",
    }


@pytest.mark.parametrize(
    ("numerator", "bits"), [(0, 4), (16, 4), (17, 4), (-1, 4), (2, 4), (8, 4), (1, 0), (0, 0)]
)
def test_coin_must_be_a_probability_in_lowest_terms(numerator: int, bits: int) -> None:
    with pytest.raises(ValueError, match="not a probability in"):
        Coin(numerator, bits)


@pytest.mark.parametrize(
    ("epsilon", "delta_bits", "names"),
    [
        (MIN_EPSILON - Fraction(1, 10**12), 40, "epsilon"),
        (MAX_EPSILON + Fraction(1, 10**12), 40, "epsilon"),
        (Fraction(0), 40, "epsilon"),
        (Fraction(-1), 40, "epsilon"),
        (Fraction(1), MIN_DELTA_BITS - 1, "delta"),
        (Fraction(1), MAX_DELTA_BITS + 1, "delta"),
        (Fraction(1), 0, "delta"),
    ],
)
def test_out_of_range_is_refused_by_name(epsilon: Fraction, delta_bits: int, names: str) -> None:
    with pytest.raises(ValueError, match=f"^{names} .*must be between"):
        design_coins(epsilon, delta_bits)


def test_more_bits_than_there_may_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COINS", 3)
    with pytest.raises(
        ValueError, match=r"no coins with at most 3 bits reach epsilon = 0.7 at delta = 2\^-40"
    ):
        design_coins.__wrapped__(Fraction(7, 10), 40)


def test_what_the_search_finds_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that went wrong, here by taking any coin, ends in an error and not in coins."""
    monkeypatch.setattr(module, "_candidates", lambda *_: [Coin(1, 41)])
    with pytest.raises(ValueError, match="the coins exceed epsilon = 1"):
        design_coins.__wrapped__(Fraction(1), 40)


def test_check_is_sharp() -> None:
    """One coin p = 2^-21 and e^epsilon just at, above and below its odds (2^21 - 1)."""
    coins = (Coin(1, 21),)
    log = Fraction(14556090314, 10**9)  # ln(2^21 - 1) = 14.55609031...
    assert (
        exp_bounds(log - Fraction(1, 10**8))[1] < worst_ratio(coins) < exp_bounds(log + Fraction(1, 10**8))[0]
    )
    check(coins, log + Fraction(1, 10**8), 22)
    with pytest.raises(ValueError, match="exceed epsilon"):
        check(coins, log - Fraction(1, 10**8), 22)
    with pytest.raises(ValueError, match="exceed delta"):
        check(coins, log + Fraction(1, 10**8), 23)
    with pytest.raises(ValueError, match="exceed epsilon"):
        check((), Fraction(20), 20)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("side", [-1, 1])
def test_check_refuses_a_coin_just_beyond_the_bound(place: int, side: int) -> None:
    """Each default coin in turn, 2^-62 on either side of the odds at which its ratio is e^-1 or e."""
    below = design_coins(Fraction(1), 40)[:place]
    odds = prod((coin.odds for coin in below), start=Fraction(1))
    with localcontext(prec=DIGITS):
        bound = decimal(odds) * Decimal(side).exp()
        at = int(bound / (1 + bound) * 2**62)
    within, beyond = [(at - side * step) // 2 * 2 + 1 for step in (2, -2)]
    check((*below, Coin(within, 62)), Fraction(1), 1)
    with pytest.raises(ValueError, match="exceed epsilon = 1"):
        check((*below, Coin(beyond, 62)), Fraction(1), 1)
