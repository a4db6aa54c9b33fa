"""Exact distribution, privacy and error of the default noise X, which is G or -1 - G, equally likely.

The magnitude G has k bits, each of them a coin. Theorems are those of docs/explanation/theorems.md.
"""

from bisect import bisect_left
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate
from operator import mul

import gmpy2

from fairshares.protocols.circuits.coins import Coin, edge_mass, exp_bounds, worst_ratio
from fairshares.protocols.guarantee import Guarantee

ENUMERABLE_COINS = 12

_EPSILON_GRID = 10**12  # an epsilon is rounded up to a multiple of 1 / this


def guarantee(coins: tuple[Coin, ...], units: int = 1) -> Guarantee:
    """Return the guarantee if counts move by `units` in all, each by at most 1 (basic composition).

    Guarantees: exact for one count; an upper bound for several.
    [test: tests/protocols/test_truncated_noise.py]
    """
    return Guarantee(log_upper_bound(worst_ratio(coins) ** units), edge_mass(coins) * units)


def outer_mass(coins: tuple[Coin, ...], values: int) -> Fraction:
    """Return the mass of the outermost `values` on one side.

    A count that moves by so much uncovers it: its neighbor can't have these outcomes.
    """
    return cumulative(coins, values - 1 - (1 << len(coins)))


def guarantee_of_moves(
    coins: tuple[Coin, ...], moves: Iterable[tuple[int, ...]], shared: bool = False
) -> Guarantee:
    """Return the guarantee if counts move by any of `moves` (theorem 8).

    Args:
        coins: The noise of each count.
        moves: Each lists the amounts by which counts move.
        shared: Whether an amount may be spread over several counts.

    Guarantees: deltas are exact. The delta of shared amounts is exact if no value is less likely than a value
    further out; else it is an upper bound.
    [test: tests/protocols/test_exact_moves.py]
    """
    listed = set(moves)
    bound = uncovered_at_most if shared else outer_mass
    uncovered = {amount: bound(coins, amount) for move in listed for amount in move}
    delta = Fraction(0)
    for move in listed:
        uncovered_by_move = sum((uncovered[amount] for amount in move), Fraction(0))
        delta = max(delta, uncovered_by_move)
    most_units = max(map(sum, listed))
    return Guarantee(most_units * log_upper_bound(worst_ratio(coins)), delta)


def uncovered_at_most(coins: tuple[Coin, ...], amount: int) -> Fraction:
    """Return a bound of the mass uncovered by a count that moves by this amount, or by counts that share it.

    Computes: what a single count uncovers, if no value is less likely than a value further out; else a bound
    by theorem 11.
    [test: tests/protocols/test_exact_moves.py]
    """
    odds_below = accumulate((coin.odds for coin in coins), mul, initial=Fraction(1))
    # No power of 2 is likelier than the magnitude below it, in which all lower bits are set.
    no_power_is_likelier = all(coin.odds <= product for coin, product in zip(coins, odds_below, strict=False))
    probabilities_fall = amount <= 1 << len(coins) and no_power_is_likelier
    if amount == 1 or probabilities_fall:
        return outer_mass(coins, amount)
    ratio = worst_ratio(coins)
    return edge_mass(coins) * (exp_bounds(amount * log_upper_bound(ratio))[1] - 1) / (ratio - 1)


def guarantee_of_clients(coins: tuple[Coin, ...], nodes: int, cap: int) -> Guarantee:
    """Return the guarantee of counts for a client with up to `cap` records, each in `nodes` counts.

    Computes: theorem 9. For exchanged records, `nodes` is twice as large (theorem 10).
    Guarantees: holds for every way in which a client's records can be spread over cells.
    [test: tests/harness/releases/test_client_unit.py, tests/harness/online/test_exchanged_records.py]
    """
    epsilon = nodes * cap * log_upper_bound(worst_ratio(coins))
    return Guarantee(epsilon, nodes * most_uncovered(coins, cap))


def most_uncovered(coins: tuple[Coin, ...], units: int) -> Fraction:
    """Return û of theorem 9, a bound of the mass uncovered by counts that move by `units` in all."""
    total = Fraction(0)
    heaviest = Fraction(0)
    before = Fraction(0)
    for moved in range(1, units + 1):
        uncovered = outer_mass(coins, moved)
        heaviest = max(heaviest, uncovered - before)
        total += heaviest
        before = uncovered
    return total


def log_upper_bound(ratio: Fraction) -> Fraction:
    """Return the least multiple of 10^-12 that is at least ln(ratio), ratio >= 1."""
    with gmpy2.context(precision=256, round=gmpy2.RoundUp):
        return Fraction(int(gmpy2.ceil(gmpy2.log(gmpy2.mpq(ratio)) * _EPSILON_GRID)), _EPSILON_GRID)


def probability_mass(coins: tuple[Coin, ...]) -> dict[int, Fraction]:
    """Return the exact probability mass function of at most 12 coins' noise, or raise ValueError."""
    if len(coins) > ENUMERABLE_COINS:
        raise ValueError(f"{len(coins)} coins have too many atoms to list; at most {ENUMERABLE_COINS}")
    magnitudes = [Fraction(1)]
    for coin in coins:
        p = coin.probability
        with_zero = [mass * (1 - p) for mass in magnitudes]
        with_one = [mass * p for mass in magnitudes]
        magnitudes = with_zero + with_one
    halves = [mass / 2 for mass in magnitudes]  # X is G, or as likely -1 - G
    return dict(enumerate([*reversed(halves), *halves], start=-len(halves)))


def largest_noise(coins: tuple[Coin, ...]) -> int:
    """Return the largest value n; the smallest is -1 - n."""
    return (1 << len(coins)) - 1


def mean_square_error(coins: tuple[Coin, ...]) -> Fraction:
    """Return E[(X + 1/2)^2] = E[(G + 1/2)^2], exactly."""
    chances = [coin.probability for coin in coins]
    mean = sum(((1 << i) * p for i, p in enumerate(chances)), Fraction(1, 2))
    return mean**2 + sum((1 << 2 * i) * p * (1 - p) for i, p in enumerate(chances))


def magnitude_below(coins: tuple[Coin, ...], n: int) -> Fraction:
    """Return P(G < n) for the magnitude G, exactly."""
    if n >= 1 << len(coins):
        return Fraction(1)
    below = Fraction(0)
    equal_so_far = Fraction(1)  # the probability that the higher bits of G and n are equal
    for i, coin in reversed(list(enumerate(coins))):
        if n >> i & 1:
            below += equal_so_far * (1 - coin.probability)
            equal_so_far *= coin.probability
        else:
            equal_so_far *= 1 - coin.probability
    return below


def cumulative(coins: tuple[Coin, ...], x: int) -> Fraction:
    """Return P(X <= x), exactly."""
    if x < 0:
        return (1 - magnitude_below(coins, -1 - x)) / 2
    return (1 + magnitude_below(coins, x + 1)) / 2


def error_bound(coins: tuple[Coin, ...], failure: Fraction) -> Fraction:
    """Return the least t with P(|X + 1/2| > t) <= failure, exactly; |X + 1/2| = G + 1/2.

    [test: tests/protocols/test_truncated_noise.py]
    """
    least = bisect_left(range(1, 1 << len(coins)), 1 - failure, key=lambda n: magnitude_below(coins, n))
    return least + Fraction(1, 2)
