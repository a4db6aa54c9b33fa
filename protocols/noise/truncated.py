"""What the default noise is, exactly: its distribution, its privacy, its error.

`circuits.coins` decides, during compilation, that coins are private; here the same facts are derived
a second time, from the probability mass function, and turned into the numbers that a manifest prints.
"""

from bisect import bisect_left
from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from itertools import accumulate
from operator import mul

from protocols.circuits.coins import Coin, edge_mass, exp_bounds, worst_ratio
from protocols.guarantee import Guarantee

ENUMERABLE_COINS = 12

_EPSILON_GRID = 10**12  # a printed epsilon is rounded up to this many parts


def guarantee(coins: tuple[Coin, ...], units: int = 1) -> Guarantee:
    """Return what one release protects whose counts move by `units` in all, each by at most 1.

    Computes: the worst likelihood ratio to the power `units`; `units` edge atoms (basic composition).
    Guarantees: exact for one count; an upper bound for several.
    [test: tests/protocols/test_truncated_noise.py]
    """
    return Guarantee(log_upper_bound(worst_ratio(coins) ** units), edge_mass(coins) * units)


def outer_mass(coins: tuple[Coin, ...], values: int) -> Fraction:
    """Return the mass of so many outermost values from one side: what a count that moves by them uncovers."""
    return cumulative(coins, values - 1 - (1 << len(coins)))


def guarantee_of_moves(
    coins: tuple[Coin, ...], moves: Iterable[tuple[int, ...]], shared: bool = False
) -> Guarantee:
    """Return what one release protects whose counts move by any of these, an amount per count that moves.

    Computes: over all possible moves the most of: the worst ratio of neighbouring atoms, once per unit; what
    each count uncovers (basic composition).
    Guarantees: exact deltas, of shared amounts where no atom is lighter than one further out; epsilon up to
    the rounding of `log_upper_bound`, once per unit.  [test: tests/protocols/test_exact_moves.py]
    Args: shared: whether each amount may be that of several counts together.
    """
    listed = set(moves)
    units = max(map(sum, listed))
    bound = uncovered_at_most if shared else outer_mass
    uncovered = {amount: bound(coins, amount) for move in listed for amount in move}
    delta = max(sum((uncovered[amount] for amount in move), Fraction(0)) for move in listed)
    return Guarantee(units * log_upper_bound(worst_ratio(coins)), delta)


def uncovered_at_most(coins: tuple[Coin, ...], amount: int) -> Fraction:
    """Return a bound of what a count uncovers that moves by so much, or counts that share the amount.

    Computes: what one count uncovers, where no atom is lighter than one further out, as the odds of each bit
    of the magnitude are at most those of all lower ones together; else a geometric series of the worst ratio.
    Proof: docs/explanation/theorems.md, theorem 11.  [test: tests/protocols/test_exact_moves.py]
    """
    odds = accumulate((coin.odds for coin in coins), mul, initial=Fraction(1))
    falls = amount <= 1 << len(coins) and all(
        coin.odds <= below for coin, below in zip(coins, odds, strict=False)
    )
    if amount == 1 or falls:
        return outer_mass(coins, amount)
    ratio = worst_ratio(coins)
    return edge_mass(coins) * (exp_bounds(amount * log_upper_bound(ratio))[1] - 1) / (ratio - 1)


def guarantee_of_clients(coins: tuple[Coin, ...], nodes: int, cap: int) -> Guarantee:
    """Return what one release of counts protects from which `cap` records may be missing at once.

    Computes: a record is in `nodes` counts, one of each level; the records of a client spread over a level
    in any way. The worst ratio of neighbouring atoms, once per record and level; per level the most that
    counts uncover which move by `cap` in all. Records that are exchanged move twice as many: on each level
    counts that fall, by `cap` in all, and counts that rise.
    Guarantees: deltas of basic composition, for every way to spread.
    [test: tests/harness/releases/test_client_unit.py, tests/harness/clients/test_exchanged_records.py]
    """
    epsilon = nodes * cap * log_upper_bound(worst_ratio(coins))
    return Guarantee(epsilon, nodes * most_uncovered(coins, cap))


def most_uncovered(coins: tuple[Coin, ...], units: int) -> Fraction:
    """Return a bound of the mass that counts uncover which move by so many units in all.

    Computes: with each outer atom raised to the heaviest further out, what s units uncover is convex in s,
    so that it is most when one count moves by all of them. Where atoms do not get lighter inwards nothing
    is raised, and the bound is what that count uncovers.
    """
    total = heaviest = before = Fraction(0)
    for uncovered in (outer_mass(coins, s) for s in range(1, units + 1)):
        heaviest = max(heaviest, uncovered - before)
        total, before = total + heaviest, uncovered
    return total


def log_upper_bound(ratio: Fraction) -> Fraction:
    """Return the least multiple of 10^-12 that provably is at least ln(ratio), 1 <= ratio <= e^64."""
    with localcontext() as context:
        context.prec = 60
        guess = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln() * _EPSILON_GRID
        parts = max(0, int(guess.to_integral_value(rounding=ROUND_CEILING)) - 1)
    while exp_bounds(Fraction(parts, _EPSILON_GRID))[0] < ratio:
        parts += 1
    return Fraction(parts, _EPSILON_GRID)


def probability_mass(coins: tuple[Coin, ...]) -> dict[int, Fraction]:
    """Return the noise's probability mass function, every atom exactly, by full enumeration.

    Raises: ValueError: more than 12 coins, whose 2^13 atoms and more are not worth listing.
    """
    if len(coins) > ENUMERABLE_COINS:
        raise ValueError(f"{len(coins)} coins have too many atoms to list; at most {ENUMERABLE_COINS}")
    magnitudes = [Fraction(1)]
    for coin in coins:
        p = coin.probability
        magnitudes = [mass * (1 - p) for mass in magnitudes] + [mass * p for mass in magnitudes]
    halves = [mass / 2 for mass in magnitudes]  # X is G, or as likely -1 - G
    return dict(enumerate([*reversed(halves), *halves], start=-len(halves)))


def largest_noise(coins: tuple[Coin, ...]) -> int:
    """Return the largest value; the smallest is its complement."""
    return (1 << len(coins)) - 1


def magnitude_moments(coins: tuple[Coin, ...]) -> tuple[Fraction, Fraction]:
    """Return E[G] and E[G^2], from the independence of the bits."""
    chances = [coin.probability for coin in coins]
    mean = sum(((1 << i) * p for i, p in enumerate(chances)), Fraction(0))
    variance = sum(((1 << 2 * i) * p * (1 - p) for i, p in enumerate(chances)), Fraction(0))
    return mean, variance + mean**2


def mean_square_error(coins: tuple[Coin, ...]) -> Fraction:
    """Return E[(X + 1/2)^2], the error of opened + 1/2."""
    mean, square = magnitude_moments(coins)
    return square + mean + Fraction(1, 4)


def magnitude_below(coins: tuple[Coin, ...], n: int) -> Fraction:
    """Return P(G < n) for the magnitude G, exactly, for any number of coins.

    Computes: digit by digit from the highest, since the bits are independent.
    """
    if n >= 1 << len(coins):
        return Fraction(1)
    below, equal_so_far = Fraction(0), Fraction(1)
    for i, coin in reversed(list(enumerate(coins))):
        one, p = n >> i & 1, coin.probability
        below += one * equal_so_far * (1 - p)
        equal_so_far *= p if one else 1 - p
    return below


def cumulative(coins: tuple[Coin, ...], x: int) -> Fraction:
    """Return P(X <= x), exactly, for any number of coins."""
    if x < 0:
        return (1 - magnitude_below(coins, -1 - x)) / 2
    return (1 + magnitude_below(coins, x + 1)) / 2


def error_bound(coins: tuple[Coin, ...], failure: Fraction) -> Fraction:
    """Return the least t with P(|X + 1/2| > t) <= failure, exactly.

    Computes: |X + 1/2| = G + 1/2 whatever the sign; bisection on P(G < n).
    [test: tests/protocols/test_truncated_noise.py]
    """
    values = range(1, 1 << len(coins))
    least = bisect_left(values, 1 - failure, key=lambda n: magnitude_below(coins, n))
    return least + Fraction(1, 2)
