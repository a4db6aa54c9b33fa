"""Populations: which names are one, what does not add up, what a budget refuses and says then."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from harness.errors import BudgetError, PopulationError
from harness.privacy.ledger.accountants import Loss
from harness.privacy.ledger.populations import (
    Charge,
    Population,
    PrivacyEvent,
    Status,
    budget_text,
    key_of,
    left_text,
    refuse_contradictions,
    refuse_misspelt,
    refuse_overspending,
    spent_text,
)
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.guarantee import Budget, Guarantee

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
RECORD = PrivacyUnit.RECORD


def guarantee(epsilon: str, delta: str = "0") -> Guarantee:
    return Guarantee(Fraction(epsilon), Fraction(delta))


def release(relation: NeighboringRelation = ADD) -> PrivacyEvent:
    return PrivacyEvent("weights", "ring", guarantee("1"), RECORD, relation, Path("out"))


def population(budget: Budget | None, *spent: Guarantee) -> Population:
    time, where = "2026-01-01T00:00:00+00:00", Path("out")
    charges = [
        Charge("weights", "ring", exact, RECORD, ADD, where, id=i, time=time, status=Status.ABORTED)
        for i, exact in enumerate(spent, 1)
    ]
    return Population("loans", budget, tuple(charges))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loans", "Loans"),
        ("loans", "LOANS"),
        ("STRASSE", "straße"),
        ("K\u00f6ln", "Ko\u0308ln"),  # one letter, or a letter and a mark
        ("ﬁle", "FILE"),
        ("\u212b", "å"),  # the unit of length, and the letter
        ("２０２６", "2026"),
    ],
)
def test_names_that_look_alike_are_one(one: str, other: str) -> None:
    assert key_of(one) == key_of(other) == key_of(key_of(one))


@pytest.mark.parametrize(("one", "other"), [("loans", "loan"), ("a b", "ab"), ("a", "а"), ("a-b", "a_b")])
def test_other_names_are_others(one: str, other: str) -> None:
    assert key_of(one) != key_of(other)


def test_one_relation_per_population() -> None:
    refuse_contradictions(population(None, guarantee("1")), None, release(ADD))
    refuse_contradictions(Population("loans"), None, release(REPLACE))
    of_clients = replace(release(NeighboringRelation.ZERO_OUT_ONE), unit=PrivacyUnit.CLIENT)
    for other in (release(REPLACE), of_clients):
        with pytest.raises(PopulationError, match=f"per {other.unit} under {other.relation}, and the two"):
            refuse_contradictions(population(None, guarantee("1")), None, other)


def test_a_run_does_not_change_the_budget() -> None:
    refuse_contradictions(population(Budget(Fraction(2))), Budget(Fraction(2)), release())
    refuse_contradictions(population(None), Budget(Fraction(2)), release())
    for other in (Budget(Fraction(3)), Budget(Fraction(1)), Budget(Fraction(2), Fraction(1, 10**6))):
        with pytest.raises(PopulationError, match="'loans' has a budget of 2, not "):
            refuse_contradictions(population(Budget(Fraction(2))), other, release())


def test_all_of_a_budget_may_be_spent_and_no_more() -> None:
    third, tiny = guarantee("1/3", "1/8"), Fraction(1, 10**30)
    spent = population(Budget(Fraction(1), Fraction(3, 8)), third, third)
    refuse_overspending(spent, Loss(third))
    for more in (Guarantee(Fraction(1, 3) + tiny, Fraction(0)), Guarantee(tiny, Fraction(1, 8) + tiny)):
        with pytest.raises(BudgetError) as error:
            refuse_overspending(spent, Loss(more))
        assert "'loans' has ε = 0.3333 and δ = 0.125 left of its budget of 1,0.375, after 2 runs" in str(
            error.value
        )
        assert "No party was started." in str(error.value)


def test_aborted_runs_are_spent() -> None:
    spent = population(Budget(Fraction(1)), guarantee("1"))
    assert spent.charges[0].status is Status.ABORTED
    with pytest.raises(
        BudgetError, match=r"has ε = 0 left of its budget of 1, after 1 run; this run needs ε = 0\.01 "
    ):
        refuse_overspending(spent, Loss(guarantee("1/100")))


def test_a_new_name_beside_budgets_needs_one() -> None:
    others = [Population("b"), Population("loans", budget=Budget(Fraction(1)))]
    refuse_misspelt("loasn", others[:1], Path("l"))
    with pytest.raises(PopulationError, match="l has no population 'loasn', but budgets for 'loans'"):
        refuse_misspelt("loasn", others, Path("l"))


def test_figures_are_rounded_to_the_safe_side() -> None:
    """What a message says is spent is no less, and what it says is left is no more, than what is."""
    odd = Guarantee(Fraction(99999999, 10**8), Fraction(7, 10**13) / 3)
    assert spent_text(odd) == "ε = 1.000 and δ = 2.334e-13"
    assert left_text(Budget(odd.epsilon, odd.delta)) == "ε = 0.9999 and δ = 2.333e-13"
    assert left_text(Budget(Fraction(1))) == "ε = 1"


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (None, "none"),
        (Budget(Fraction(3)), "3"),
        (Budget(Fraction(5, 2), Fraction(1, 10**6)), "2.5,1e-6"),
        (Budget(Fraction(1, 3), Fraction(1, 2**40)), "1/3,1/1099511627776"),
    ],
)
def test_budgets_are_said_exactly(budget: Budget | None, text: str) -> None:
    assert budget_text(budget) == text
