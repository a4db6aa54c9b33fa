"""Basic composition, by enumeration: what two releases protect together, and that less would be false."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from protocols.circuits.coins import Coin, edge_mass, worst_ratio
from protocols.guarantee import NOTHING, Budget, Guarantee, compose, weakest
from protocols.noise.truncated import guarantee, probability_mass

ONE, OTHER = (Coin(1, 2), Coin(1, 3)), (Coin(3, 3), Coin(1, 2), Coin(1, 5))


def worst_of_both(ratio: Fraction, adaptive: bool) -> Fraction:
    """Return the least delta at e^epsilon = ratio of two releases of one count, between n and n + 1.

    Args: adaptive: whether the second's count moves the other way after a positive first.
    """
    needed = Fraction(0)
    first, second = probability_mass(ONE), probability_mass(OTHER)
    for x in range(min(first) - 1, max(first) + 2):
        move = -1 if adaptive and x > 0 else 1
        for y in range(min(second) - 1, max(second) + 2):
            here = first.get(x, Fraction(0)) * second.get(y, Fraction(0))
            there = first.get(x - 1, Fraction(0)) * second.get(y - move, Fraction(0))
            needed += max(here - ratio * there, Fraction(0))
    return needed


@pytest.mark.parametrize("adaptive", [False, True])
def test_two_releases_by_enumeration(adaptive: bool) -> None:
    claimed = compose([guarantee(ONE), guarantee(OTHER)])
    ratio = worst_ratio(ONE) * worst_ratio(OTHER)
    with localcontext(prec=60):
        spent = Decimal(claimed.epsilon.numerator) / claimed.epsilon.denominator
        assert Fraction(spent.exp()) >= ratio
    needed = worst_of_both(ratio, adaptive)
    assert claimed.delta == edge_mass(ONE) + edge_mass(OTHER)
    assert claimed.delta - edge_mass(ONE) * edge_mass(OTHER) <= needed <= claimed.delta


def test_composition_is_exact_and_of_nothing_nothing() -> None:
    tenth = Guarantee(Fraction(1, 10), Fraction(1, 2**40))
    assert compose(itertools.repeat(tenth, 10)) == Guarantee(Fraction(1), Fraction(10, 2**40))
    assert compose([]) == Guarantee(Fraction(0), Fraction(0)) == NOTHING


def test_guarantees_are_scaled_subtracted_and_compared_in_both_figures() -> None:
    less_epsilon = Guarantee(Fraction(1), Fraction(1, 4))
    less_delta = Guarantee(Fraction(3), Fraction(1, 8))
    assert less_epsilon * 3 == compose([less_epsilon] * 3)
    assert less_epsilon * Fraction(1, 2) == Guarantee(Fraction(1, 2), Fraction(1, 8))
    assert less_delta - less_epsilon == Guarantee(Fraction(2), Fraction(-1, 8))
    both = weakest([less_epsilon, less_delta])
    assert both == Guarantee(Fraction(3), Fraction(1, 4))
    assert less_epsilon.within(both) and less_delta.within(both) and both.within(both)
    assert not less_epsilon.within(less_delta) and not less_delta.within(less_epsilon)


@pytest.mark.parametrize(
    ("budget", "spent", "allowed", "left"),
    [
        (Budget(Fraction(1)), ("1", "1/2"), True, Budget(Fraction(0))),
        (Budget(Fraction(1)), ("1000000000001/1000000000000", "0"), False, Budget(Fraction(0))),
        (Budget(Fraction(1), Fraction(1, 8)), ("1/4", "1/8"), True, Budget(Fraction(3, 4), Fraction(0))),
        (Budget(Fraction(1), Fraction(1, 8)), ("1/4", "1/4"), False, Budget(Fraction(3, 4), Fraction(0))),
        (Budget(Fraction(0)), ("0", "0"), True, Budget(Fraction(0))),
    ],
)
def test_budgets(budget: Budget, spent: tuple[str, str], allowed: bool, left: Budget) -> None:
    total = Guarantee(*map(Fraction, spent))
    assert budget.allows(total) is allowed
    assert budget.left(total) == left
