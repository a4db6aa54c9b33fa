"""Exact distribution, privacy and error of joint noise X, which is signed or symmetric (`circuits.coins`).

Noise of k magnitude bits has all whole values from -2^k to 2^k - 1 if it is signed, and to 2^k if it is
symmetric. It is its own mirror image about its mean, -1/2 or 0. Theorems are those of
docs/explanation/theorems.md.
"""

from bisect import bisect_left
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate
from operator import mul

import gmpy2

from fairshares.protocols.circuits.coins import (
    Coin,
    Coins,
    SymmetricCoins,
    chance_of_sign,
    coins_of_magnitude,
    edge_mass,
    exp_bounds,
    worst_ratio,
)
from fairshares.protocols.guarantee import Guarantee

ENUMERABLE_COINS = 12

_EPSILON_GRID = 10**12  # an epsilon is rounded up to a multiple of 1 / this


def guarantee(coins: Coins, units: int = 1) -> Guarantee:
    """Return the guarantee of counts that move by 1 each at most (basic composition).

    Guarantees: exact for one count; an upper bound for several.
    [test: tests/protocols/test_truncated_noise.py]

    Args:
        coins: The noise of each count.
        units: The most by which all counts move in all.
    Returns:
        The guarantee of all counts.
    """
    return Guarantee(log_upper_bound(worst_ratio(coins) ** units), edge_mass(coins) * units)


def outer_mass(coins: Coins, values: int) -> Fraction:
    """Return the mass of the outermost values on one side.

    A count that moves by so much uncovers it: its neighbor cannot have these outcomes.

    Args:
        coins: The noise.
        values: The number of outermost values.
    Returns:
        The mass, exactly.
    """
    return cumulative(coins, smallest_noise(coins) + values - 1)


def guarantee_of_moves(coins: Coins, moves: Iterable[tuple[int, ...]], shared: bool = False) -> Guarantee:
    """Return the guarantee if counts move by any of `moves` (theorem 8).

    Guarantees: deltas are exact. The delta of shared amounts is exact if no value is less likely than a value
    further out; else it is an upper bound.
    [test: tests/protocols/test_exact_moves.py]

    Args:
        coins: The noise of each count.
        moves: Each lists the amounts by which counts move.
        shared: Whether an amount may be spread over several counts.
    Returns:
        The guarantee of all counts.
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


def uncovered_at_most(coins: Coins, amount: int) -> Fraction:
    """Return a bound of the mass uncovered by a count that moves by an amount, or by counts that share it.

    Computes: what a single count uncovers, if no value is less likely than a value further out; else a bound
    by theorem 11.
    [test: tests/protocols/test_exact_moves.py]

    Args:
        coins: The noise of each count.
        amount: The amount, at least 1.
    Returns:
        The bound.
    """
    magnitude = coins_of_magnitude(coins)
    odds_below = accumulate((coin.odds for coin in magnitude), mul, initial=Fraction(1))
    # No power of 2 is likelier than the magnitude below it, in which all lower bits are set.
    no_power_is_likelier = all(
        coin.odds <= product for coin, product in zip(magnitude, odds_below, strict=False)
    )
    probabilities_fall = amount <= 1 << len(magnitude) and no_power_is_likelier
    if amount == 1 or probabilities_fall:
        return outer_mass(coins, amount)
    ratio = worst_ratio(coins)
    return edge_mass(coins) * (exp_bounds(amount * log_upper_bound(ratio))[1] - 1) / (ratio - 1)


def guarantee_of_clients(coins: Coins, nodes: int, cap: int) -> Guarantee:
    """Return the guarantee of counts for a client with several records.

    Computes: theorem 9. For exchanged records, `nodes` is twice as large (theorem 10).
    Guarantees: holds for every way in which a client's records can be spread over cells.
    [test: tests/harness/releases/test_client_unit.py, tests/harness/online/test_exchanged_records.py]

    Args:
        coins: The noise of each count.
        nodes: How many counts a record changes.
        cap: How many records of a client count at most.
    Returns:
        The guarantee of all counts.
    """
    epsilon = nodes * cap * log_upper_bound(worst_ratio(coins))
    return Guarantee(epsilon, nodes * most_uncovered(coins, cap))


def most_uncovered(coins: Coins, units: int) -> Fraction:
    """Return û of theorem 9, a bound of the mass uncovered by counts that move together.

    Args:
        coins: The noise of each count.
        units: By how much the counts move in all.
    Returns:
        The bound.
    """
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
    """Return the least multiple of 10^-12 that is at least ln(ratio).

    Args:
        ratio: A number of at least 1.
    Returns:
        The multiple.
    """
    with gmpy2.context(precision=256, round=gmpy2.RoundUp):
        return Fraction(int(gmpy2.ceil(gmpy2.log(gmpy2.mpq(ratio)) * _EPSILON_GRID)), _EPSILON_GRID)


def magnitude_mass(magnitude: tuple[Coin, ...]) -> list[Fraction]:
    """Return the distribution of a magnitude G.

    Args:
        magnitude: The coin of each bit of G, lowest first; at most 12.
    Returns:
        P(G = 0), P(G = 1), .., exactly.
    Raises:
        ValueError: There are more than 12 coins.
    """
    if len(magnitude) > ENUMERABLE_COINS:
        raise ValueError(f"{len(magnitude)} coins have too many atoms to list; at most {ENUMERABLE_COINS}")
    masses = [Fraction(1)]
    for coin in magnitude:
        p = coin.probability
        with_zero = [mass * (1 - p) for mass in masses]
        with_one = [mass * p for mass in masses]
        masses = with_zero + with_one
    return masses


def probability_mass(coins: Coins) -> dict[int, Fraction]:
    """Return the exact probability mass function of joint noise.

    Args:
        coins: The noise, of at most 12 coins of the magnitude.
    Returns:
        The probability of each value.
    Raises:
        ValueError: There are more than 12 coins.
    """
    one_side = [mass * chance_of_sign(coins) for mass in magnitude_mass(coins_of_magnitude(coins))]
    at_zero: list[Fraction] = []
    if isinstance(coins, SymmetricCoins):
        at_zero = [1 - coins.nonzero.probability]
    return dict(enumerate([*reversed(one_side), *at_zero, *one_side], start=-len(one_side)))


def twice_center(coins: Coins) -> int:
    """Return twice the mean, about which the noise is its own mirror image.

    Args:
        coins: The noise.
    Returns:
        -1 for signed noise, 0 for symmetric noise.
    """
    if isinstance(coins, SymmetricCoins):
        return 0
    return -1


def smallest_noise(coins: Coins) -> int:
    """Return the smallest value of joint noise.

    Args:
        coins: The noise.
    Returns:
        The value.
    """
    return -(1 << len(coins_of_magnitude(coins)))


def largest_noise(coins: Coins) -> int:
    """Return the largest value of joint noise.

    Args:
        coins: The noise.
    Returns:
        The value.
    """
    return twice_center(coins) - smallest_noise(coins)


def mean_square_error(coins: Coins) -> Fraction:
    """Return the mean squared distance from the mean, exactly.

    Computes: E[(G + 1/2)^2] of signed noise, P(X is not 0) E[(G + 1)^2] of symmetric noise.

    Args:
        coins: The noise.
    Returns:
        The mean square error.
    """
    chances = [coin.probability for coin in coins_of_magnitude(coins)]
    variance = sum(((1 << 2 * i) * p * (1 - p) for i, p in enumerate(chances)), Fraction(0))
    mean = sum(((1 << i) * p for i, p in enumerate(chances)), Fraction(0))
    if isinstance(coins, SymmetricCoins):
        return coins.nonzero.probability * ((mean + 1) ** 2 + variance)
    return (mean + Fraction(1, 2)) ** 2 + variance


def magnitude_below(magnitude: tuple[Coin, ...], n: int) -> Fraction:
    """Return P(G < n) for the magnitude G, exactly.

    Args:
        magnitude: The coin of each bit of G, lowest first.
        n: The bound, at least 0.
    Returns:
        The probability.
    """
    if n >= 1 << len(magnitude):
        return Fraction(1)
    below = Fraction(0)
    equal_so_far = Fraction(1)  # the probability that the higher bits of G and n are equal
    for i, coin in reversed(list(enumerate(magnitude))):
        if n >> i & 1:
            below += equal_so_far * (1 - coin.probability)
            equal_so_far *= coin.probability
        else:
            equal_so_far *= 1 - coin.probability
    return below


def cumulative(coins: Coins, x: int) -> Fraction:
    """Return P(X <= x), exactly.

    Computes: for x < 0, P(X <= x) is the chance of a sign times P(G >= -1 - x). The rest is mirrored.

    Args:
        coins: The noise.
        x: Any whole number.
    Returns:
        The probability.
    """
    if x < 0:
        return chance_of_sign(coins) * (1 - magnitude_below(coins_of_magnitude(coins), -1 - x))
    return 1 - cumulative(coins, twice_center(coins) - x - 1)


def error_bound(coins: Coins, failure: Fraction) -> Fraction:
    """Return the least t >= 0 with P(|X - mean| > t) <= failure, exactly.

    Computes: |X - mean| is G + 1/2 of signed noise, and 0 or G + 1 of symmetric noise.
    [test: tests/protocols/test_truncated_noise.py, tests/protocols/test_symmetric_noise.py]

    Args:
        coins: The noise.
        failure: The probability that the error is larger, above 0.
    Returns:
        The bound t.
    """
    magnitude = coins_of_magnitude(coins)
    either_sign = 2 * chance_of_sign(coins)
    if isinstance(coins, SymmetricCoins) and either_sign <= failure:
        return Fraction(0)
    least = bisect_left(
        range(1, 1 << len(magnitude)),
        1 - failure / either_sign,
        key=lambda n: magnitude_below(magnitude, n),
    )
    if isinstance(coins, SymmetricCoins):
        return Fraction(least + 1)
    return least + Fraction(1, 2)
