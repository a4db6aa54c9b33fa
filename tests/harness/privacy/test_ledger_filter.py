"""The ledger is a privacy filter: whatever is run and opened, in whatever order, the budget holds.

An analyst sees all that is opened, and chooses after each: to begin a run of which distribution, to open one
that has begun, which way the count moves in it, to leave it unopened, to stop. All such analysts are tried,
and the best of them is found exactly, for neighbors n and n + 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest

from fairshares.harness.errors import BudgetError
from fairshares.harness.privacy.ledger.accountants import Loss, NoiseEvent, RenyiFilter
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent, Status
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.circuits.coins import Coin, exp_bounds
from fairshares.protocols.guarantee import Budget, Guarantee, compose
from fairshares.protocols.noise.truncated import guarantee, probability_mass

DISTRIBUTIONS = {"a": (Coin(1, 2), Coin(1, 3)), "b": (Coin(3, 3),)}
EXACT = {name: guarantee(coins) for name, coins in DISTRIBUTIONS.items()}
MASS = {name: probability_mass(coins) for name, coins in DISTRIBUTIONS.items()}
ONE_OF_EACH = compose(EXACT.values())
BUDGET = Budget(ONE_OF_EACH.epsilon, ONE_OF_EACH.delta)
RUNS = 4  # more than fit


@cache
def ledger_admits(budget: Budget, charged: str, run: str) -> bool:
    """Ask a ledger that runs were charged to, all of them aborted, whether it takes one more."""
    with TemporaryDirectory() as directory:
        ledger = Ledger(Path(directory) / "ledger.sqlite")
        for one in charged:
            number, _ = ledger.charge("p", budget if budget.order or budget.runs else None, event(one))
            ledger.settle(number, Status.ABORTED)
        try:
            ledger.check("p", budget, event(run))
        except BudgetError:
            return False
        return True


def event(run: str) -> PrivacyEvent:
    relation, noise = NeighboringRelation.ADD_OR_REMOVE_ONE, NoiseEvent(DISTRIBUTIONS[run], 1)
    return PrivacyEvent("test", "ring", EXACT[run], PrivacyUnit.RECORD, relation, Path("out"), noise)


@dataclass(frozen=True)
class TheLedger:
    """What the ledger does: a run is charged before it begins, and stays charged."""

    budget: Budget = BUDGET
    charged_when_opened: ClassVar = False
    takes_aborted_back: ClassVar = False

    def admits(self, charged: str, run: str) -> bool:
        return ledger_admits(self.budget, charged, run)


class ChargedWhenOpened(TheLedger):
    charged_when_opened = True


class TakesAbortedBack(TheLedger):
    takes_aborted_back = True


class EpsilonAlone(TheLedger):
    def admits(self, charged: str, run: str) -> bool:
        return Budget(self.budget.epsilon).allows(compose(EXACT[one] for one in charged + run))


class OneTooMany(TheLedger):
    """Takes a run while anything is left."""

    def admits(self, charged: str, _run: str) -> bool:
        return self.budget.left(compose(EXACT[one] for one in charged)).epsilon > 0


@dataclass(frozen=True)
class View:
    """What is known: Q/P of what was opened, runs charged and runs that have begun, sorted, runs to begin."""

    ratio: Fraction
    charged: str = ""
    begun: str = ""
    left: int = RUNS


def delta_of_the_best_analyst(rule: TheLedger, e_epsilon: Fraction) -> Fraction:
    """Return the most that P - e^epsilon Q is over events of a view, for all analysts under this rule."""

    @cache
    def most(view: View) -> Fraction:
        stopping = max(1 - e_epsilon * view.ratio, Fraction(0))
        return max([stopping, *continuations(view)])

    def continuations(view: View) -> Iterator[Fraction]:
        for run in DISTRIBUTIONS:
            if view.left and rule.admits(view.charged, run):
                charged = view.charged if rule.charged_when_opened else more(view.charged, run)
                yield most(View(view.ratio, charged, more(view.begun, run), view.left - 1))
        for run in set(view.begun):
            begun, charged = view.begun.replace(run, "", 1), view.charged
            if rule.charged_when_opened:
                charged = more(charged, run)
            if rule.takes_aborted_back:
                charged = charged.replace(run, "", 1)
            rest = charged, begun, view.left
            for move in (1, -1):
                yield sum(
                    (
                        p * most(View(view.ratio * MASS[run].get(x - move, Fraction(0)) / p, *rest))
                        for x, p in MASS[run].items()
                    ),
                    Fraction(0),
                )

    return most(View(Fraction(1)))


def more(runs: str, run: str) -> str:
    return "".join(sorted(runs + run))


@pytest.mark.parametrize(
    "most_delta", [ONE_OF_EACH.delta, 2 * EXACT["b"].delta], ids=["a and b", "or b twice"]
)
def test_no_analyst_gets_more_than_the_budget(most_delta: Fraction) -> None:
    budget = Budget(ONE_OF_EACH.epsilon, most_delta)
    delta = delta_of_the_best_analyst(TheLedger(budget), exp_bounds(budget.epsilon)[0])
    assert most_delta * Fraction(3, 4) < delta <= most_delta


def test_less_than_the_budget_would_be_false() -> None:
    less = BUDGET.epsilon - Fraction(1, 10)
    assert delta_of_the_best_analyst(TheLedger(), exp_bounds(less)[1]) > ONE_OF_EACH.delta


@pytest.mark.parametrize("rule", [ChargedWhenOpened(), TakesAbortedBack(), EpsilonAlone(), OneTooMany()])
def test_any_other_rule_is_beaten(rule: TheLedger) -> None:
    assert delta_of_the_best_analyst(rule, exp_bounds(BUDGET.epsilon)[1]) > ONE_OF_EACH.delta


RENYI = [Budget(Fraction(3, 2), Fraction(1, 4), order=3), Budget(Fraction(2), Fraction(1, 4), order=3)]
DECLARED = [Budget(Fraction(1), Fraction(1, 3), runs=2), Budget(Fraction(2), Fraction(1, 5), runs=3)]


class ForgetsTheLost(TheLedger):
    """Adds up divergences, not the masses that they leave out."""

    def admits(self, charged: str, run: str) -> bool:
        assert self.budget.delta is not None
        losses = tuple(Loss(EXACT[one], NoiseEvent(DISTRIBUTIONS[one], 1)) for one in charged + run)
        return RenyiFilter(self.budget, losses).deltas[1] <= self.budget.delta


class NotAsDeclared(TheLedger):
    """Takes as many runs as were declared, of whatever noise."""

    def admits(self, charged: str, _run: str) -> bool:
        return len(charged) < 2


@pytest.mark.parametrize("budget", [*RENYI, *DECLARED])
def test_nor_by_a_rule_that_admits_more(budget: Budget) -> None:
    """Also runs that basic composition refuses."""
    assert budget.delta is not None
    delta = delta_of_the_best_analyst(TheLedger(budget), exp_bounds(budget.epsilon)[0])
    assert budget.delta / 5 < delta <= budget.delta
    assert ledger_admits(budget, "a", "a")
    assert not Budget(budget.epsilon, budget.delta).allows(compose([EXACT["a"]] * 2))


def test_rules_that_leave_something_out_are_beaten() -> None:
    for rule in (ForgetsTheLost(Budget(Fraction(2), Fraction(1, 4), order=3)), NotAsDeclared(DECLARED[0])):
        assert rule.budget.delta is not None
        delta = delta_of_the_best_analyst(rule, exp_bounds(rule.budget.epsilon)[1])
        assert delta > rule.budget.delta


class AllOfDeltaForEach(RenyiFilter):
    """Admits by sums with all of the budget's delta, too."""

    @property
    def kept(self) -> bool:
        return super().kept or self.budget.allows(compose(loss.exact for loss in self.losses))


def delta_by_either_rule(rule: type[RenyiFilter], budget: Budget, pure: Guarantee) -> Fraction:
    """Return the most that an analyst gets who loses by sums where it saw little, else by divergences.

    It has runs of randomized response; at the end of each branch one run that reveals all with probability
    delta, if there is room. Of a run the likelihoods' ratio is a little below e^epsilon: it is as private.
    """
    assert budget.delta is not None
    ratio, e_epsilon = exp_bounds(pure.epsilon)[0], exp_bounds(budget.epsilon)[1]
    likely, certain = ratio / (1 + ratio), [Guarantee(Fraction(0), budget.delta / part) for part in (1, 16)]

    @cache
    def kept(runs: int, last: Guarantee | None = None) -> bool:
        return rule(budget, (Loss(pure),) * runs + ((Loss(last),) if last else ())).kept

    @cache
    def most(runs: int, net: int) -> Fraction:
        told = max(Fraction(0), 1 - e_epsilon / ratio**net)
        ends = [told, *(last.delta + (1 - last.delta) * told for last in certain if kept(runs, last))]
        if kept(runs + 1):
            ends.append(likely * most(runs + 1, net + 1) + (1 - likely) * most(runs + 1, net - 1))
        return max(ends)

    return most(0, 0)


def test_either_rule_keeps_to_a_delta_that_both_share() -> None:
    """With all of delta for each, an analyst that loses by one rule here, by the other there, gets more."""
    budget, pure = Budget(Fraction(3), Fraction(1, 100), order=8), Guarantee(Fraction(2, 5), Fraction(0))
    assert Fraction(1, 2000) < delta_by_either_rule(RenyiFilter, budget, pure) <= Fraction(1, 100)
    assert delta_by_either_rule(AllOfDeltaForEach, budget, pure) > Fraction(1, 100)
