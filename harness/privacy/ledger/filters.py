"""Which further run a budget allows: by basic composition, by a Renyi filter, or as declared beforehand.

All sums are of integers and rounded towards more that is spent; docs/explanation/theorems.md has the proofs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from protocols.accounting.exact_privacy import Masses, curve_of_coins
from protocols.accounting.losses import loss_law
from protocols.circuits.coins import Coin, exp_bounds
from protocols.guarantee import Budget, Guarantee, compose

MAX_ORDER = 1 << 12
MAX_RUNS = 10_000  # that are declared
MAX_EPSILON = Fraction(64)  # of a budget that is not kept by basic composition

_FIXED = 256
_ONE = 1 << _FIXED
_STEPS = 64  # of the loss, in epsilon of one value
_LOST = Fraction(1, 4)  # of a filter's delta, for masses that tell neighbours apart for certain
_PARTS = 1000  # of a budget, in which it is said what is left

Spent = tuple[tuple[tuple[Coin, ...], int] | None, Guarantee]
"""A run's coins and how many values a record moves, each by 1, if known; and what the run spends."""


def renyi_order(epsilon: Fraction, delta: Fraction) -> int:
    """Return the order that lets most runs alike into this budget, if their losses are nearly Gaussian.

    Computes: by floats; whichever order it is, a filter that keeps to it is valid.
    """
    need = -math.log(delta * (1 - _LOST))

    def room(order: int) -> float:
        rest = math.log1p(-1 / order) * (order - 1) - math.log(order)
        return (float(epsilon) - (need + rest) / (order - 1)) / order

    return max(range(2, MAX_ORDER + 1), key=room)


def allows(budget: Budget, spent: Sequence[Spent]) -> bool:
    """Return whether runs that spent this are within the budget, all together.

    Guarantees: theorem 5 for a budget with an order, theorem 6 for one with a number of runs, else theorem 2.
    [test: tests/harness/privacy/test_ledger_rules.py, tests/harness/privacy/test_ledger_filter.py]
    """
    if budget.delta is not None and budget.order is not None:
        lost, tail = _renyi_deltas(budget.order, spent, budget.epsilon)
        return lost <= budget.delta * _LOST and tail <= budget.delta * (1 - _LOST)
    if budget.delta is not None and budget.runs is not None and spent:
        alike = len(spent) <= budget.runs and len(set(spent)) == 1
        return alike and _delta_of_all(spent[0], budget.runs, budget.epsilon) <= budget.delta
    return budget.allows(compose(exact for _, exact in spent))


def left(budget: Budget, spent: Sequence[Spent]) -> Budget:
    """Return what a budget leaves: of runs their number; of a filter what one more run may spend.

    Computes: the latter in thousandths of the budget's epsilon, rounded down, at a delta of 0.
    """
    if budget.runs is not None:
        return Budget(budget.epsilon, budget.delta, runs=max(0, budget.runs - len(spent)))
    if budget.order is None:
        return budget.left(compose(exact for _, exact in spent))
    low, high = 0, _PARTS
    while low < high:
        middle = (low + high + 1) // 2
        more = Guarantee(budget.epsilon * middle / _PARTS, Fraction(0))
        low, high = (middle, high) if allows(budget, [*spent, (None, more)]) else (low, middle - 1)
    return Budget(budget.epsilon * low / _PARTS, order=budget.order)


def renyi_spent(order: int, spent: Sequence[Spent]) -> tuple[float, Fraction]:
    """Return rho and delta' of runs: but for masses of delta' in all, a divergence of order * rho at most.

    Computes: for this order alone, by theorem 5's moments; rho in floats, rounded up.
    [test: tests/harness/privacy/test_ledger_rules.py]
    """
    moment, lost = _moments(order, spent)
    near = moment < 2 * _ONE
    nats = math.log1p((moment - _ONE) / _ONE) if near else math.log(moment) - math.log(_ONE)
    return nats * (1 + 2**-40) / (order * (order - 1)), lost


def _moments(order: int, spent: Sequence[Spent]) -> tuple[int, Fraction]:
    """Return the product of all runs' moments in fixed point, and the mass that is lost in all."""
    moment, lost = _ONE, Fraction(0)
    for one, times in Counter(spent).items():
        more, apart = _moment(one, order)
        moment, lost = _product(moment, _power(more, times)), lost + times * apart
    return moment, lost


def _renyi_deltas(order: int, spent: Sequence[Spent], epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Return the mass that is lost in all runs, and delta at epsilon of the rest by its Renyi divergences."""
    moment, lost = _moments(order, spent)
    shrunk = _power(_up(1 / exp_bounds(epsilon)[0]), order - 1)
    factor = _power(_up(Fraction(order - 1, order)), order - 1)
    return lost, Fraction(_product(_product(moment, shrunk), factor), _ONE * order)


@lru_cache(maxsize=256)
def _moment(one: Spent, order: int) -> tuple[int, Fraction]:
    """Return E_Q[(R / Q)^order] of a run in fixed point, rounded up, and the mass that R takes off P.

    Never below 1: a run that begins and is not opened makes no room for others.
    """
    outcomes, values = _outcomes(one)
    moment = sum(_up(p * Fraction(_power(_up(p / q), order - 1), _ONE)) for p, q in outcomes if q)
    return max(_ONE, _power(moment, values)), values * sum((p for p, q in outcomes if not q), Fraction(0))


@lru_cache(maxsize=64)
def _delta_of_all(one: Spent, runs: int, epsilon: Fraction) -> Fraction:
    """Return the delta at epsilon of so many runs alike."""
    outcomes, values = _outcomes(one)
    total = math.lcm(*(mass.denominator for pair in outcomes for mass in pair))
    step = Fraction(max(1, round(one[1].epsilon * 10**12 / (_STEPS * values))), 10**12)
    law = loss_law([(int(p * total), int(q * total)) for p, q in outcomes], total, step)
    return law.times(runs * values).delta(epsilon)


def _outcomes(one: Spent) -> tuple[Sequence[Masses], int]:
    """Return masses of outcomes that no run which spends this tells apart better, and how often they occur.

    Source: Murtagh and Vadhan 2016, Lemma 3.2, where the noise is not known: of all that is
    (epsilon, delta)-DP, randomized response that fails with probability delta says most.
    """
    noise, exact = one
    if noise:
        coins, values = noise
        return curve_of_coins(coins).pairs[0], values
    if exact.epsilon > MAX_EPSILON:
        return [(Fraction(1), Fraction(0))], 1
    ratio = exp_bounds(exact.epsilon)[1]
    rest = (1 - exact.delta) / (1 + ratio)
    nothing = Fraction(0)
    return [(exact.delta, nothing), (ratio * rest, rest), (rest, ratio * rest), (nothing, exact.delta)], 1


def _up(x: Fraction) -> int:
    return -(-(x.numerator << _FIXED) // x.denominator)


def _product(x: int, y: int) -> int:
    return -(-x * y >> _FIXED)


def _power(x: int, n: int) -> int:
    """Return x^n in fixed point, rounded up."""
    found = _ONE
    while n:
        if n & 1:
            found = _product(found, x)
        x, n = _product(x, x), n >> 1
    return found
