"""For all sequences of charges and budgets: what is charged is exactly what fits, and sums are exact."""

import unicodedata
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings, strategies as st

from harness.errors import BudgetError
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import PrivacyEvent, key_of
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.guarantee import Budget, Guarantee, compose

EPSILONS = st.fractions(0, 20, max_denominator=10**12)
DELTAS = st.fractions(0, Fraction(1, 2), max_denominator=2**60)
GUARANTEES = st.builds(Guarantee, EPSILONS, DELTAS)
BUDGETS = st.builds(Budget, EPSILONS, st.none() | DELTAS)
TINY = Fraction(1, 10**12)


def release(exact: Guarantee) -> PrivacyEvent:
    relation = NeighboringRelation.REPLACE_ONE
    return PrivacyEvent("test", "ring", exact, PrivacyUnit.RECORD, relation, Path("out"))


@given(st.lists(GUARANTEES, max_size=6), BUDGETS)
@example([Guarantee(Fraction(1, 3), Fraction(1, 8))] * 4, Budget(Fraction(1), Fraction(3, 8)))
@example([Guarantee(Fraction(1, 10), Fraction(0))] * 11, Budget(Fraction(1)))
@example([Guarantee(TINY, Fraction(0))] * 2, Budget(TINY))
@settings(max_examples=25)
def test_what_is_charged_is_what_fits(runs: list[Guarantee], budget: Budget) -> None:
    """A model of the ledger, in integers over a common denominator, says the same."""
    with TemporaryDirectory() as directory:
        ledger = Ledger(Path(directory) / "ledger.sqlite")
        ledger.set_budget("p", budget)
        kept: list[Guarantee] = []
        for exact in runs:
            epsilon = sum((one.epsilon for one in [*kept, exact]), Fraction(0))
            delta = sum((one.delta for one in [*kept, exact]), Fraction(0))
            if epsilon <= budget.epsilon and (budget.delta is None or delta <= budget.delta):
                ledger.charge("p", None, release(exact))
                kept.append(exact)
            else:
                with pytest.raises(BudgetError):
                    ledger.charge("p", None, release(exact))
        (found,) = ledger.populations()
    assert [charge.exact for charge in found.charges] == kept
    assert found.spent == compose(kept)
    left = found.left
    assert left is not None and budget.allows(found.spent)
    assert left.epsilon + found.spent.epsilon == budget.epsilon


@given(st.text(max_size=20))
def test_keys_of_names_are_settled(name: str) -> None:
    key = key_of(name)
    assert key_of(key) == key_of(name.casefold()) == key_of(unicodedata.normalize("NFD", name)) == key
