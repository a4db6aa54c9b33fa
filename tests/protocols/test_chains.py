"""Theorem 16: what all runs of a chain protect together, from all that they show."""

import itertools
from collections.abc import Iterator
from fractions import Fraction

import pytest

from fairshares.protocols.circuits.coins import Coin, exp_bounds
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.truncated import guarantee_of_clients, probability_mass

COINS = (Coin(1, 2), Coin(1, 4))  # of small support
MASS = probability_mass(COINS)
# What a client has in two uploads: the second may depend on what the run of the first revealed.
Second = dict[int, int]


def worst(first: int, second: Second, ratio: Fraction) -> Fraction:
    """Return the largest P(S) - ratio Q(S) over views of two runs, where a client is there, or not.

    Args: first: how many records it has in the first run; second: in the second run, by what the first
    revealed.
    """
    total = Fraction(0)
    for seen in range(min(MASS), max(MASS) + first + 1):
        moved = second.get(seen, 0)
        p, q = MASS.get(seen - first, Fraction(0)), MASS.get(seen, Fraction(0))
        shown = range(min(MASS), max(MASS) + moved + 1)
        pairs = [(p * MASS.get(x - moved, Fraction(0)), q * MASS.get(x, Fraction(0))) for x in shown]
        total += sum((one - ratio * other for one, other in pairs if one > ratio * other), Fraction(0))
    return total


def strategies(cap: int, *, together: bool) -> Iterator[tuple[int, Second]]:
    """Yield what a client may have in both runs. Args: together: whether the cap is for both."""
    for first in range(cap + 1):
        left = cap - first if together else cap
        for cut in range(min(MASS), max(MASS) + first + 2):
            for low, high in itertools.product(range(left + 1), repeat=2):
                seen = range(min(MASS), max(MASS) + first + 1)
                yield first, {noisy: low if noisy < cut else high for noisy in seen}


def most(cap: int, spent: Guarantee, *, together: bool) -> Fraction:
    ratio = exp_bounds(spent.epsilon)[1]
    return max(worst(*strategy, ratio) for strategy in strategies(cap, together=together))


@pytest.mark.parametrize("cap", [1, 2])
def test_theorem_16(cap: int) -> None:
    """With a cap of 1 it is of a record in one upload; a cap that each run keeps by itself is too little."""
    spent = guarantee_of_clients(COINS, 1, cap)
    assert most(cap, spent, together=True) <= spent.delta
    assert most(cap, spent, together=False) > spent.delta
    assert most(cap, spent + spent, together=False) <= 2 * spent.delta
