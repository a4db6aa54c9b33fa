"""The reveals of a task in a ledger: one charge for all of them, and numbers that only go up."""

import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fairshares.harness.errors import BudgetError, PopulationError, UsedRevealError, UsedUploadsError
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent, RevealOfTask
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.accounting.rounds import Concentrated
from fairshares.protocols.guarantee import Budget, Guarantee
from tests.conftest import PROJECT
from tests.support.events import a_run

OF_1_0 = (PROJECT / "tests" / "golden" / "1.0" / "ledger.sql").read_text(encoding="utf-8")
TASK = "5" * 64
SPENT = Guarantee(Fraction(2), Fraction(1, 10**5))
FIRST = replace(
    a_run("sums"),
    exact=SPENT,
    unit=PrivacyUnit.CLIENT,
    relation=NeighboringRelation.ZERO_OUT_ONE,
    noise=Concentrated(Fraction(1, 3), Fraction(0), Fraction(1, 10**9)),
    has_rounds=True,
    chain=RevealOfTask(TASK, '{"vectors": {"reveals": 9}}', 1),
)


SAME = "a" * 64  # identities of uploads
OTHERS = "b" * 64


def reveal(number: int, *uploads: str, **changes: Any) -> PrivacyEvent:
    chain = RevealOfTask(TASK, '{"vectors": {"reveals": 9}}', number)
    return replace(FIRST, uploads=uploads or (f"{number:064x}",), **{"chain": chain, **changes})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite", timeout_s=0.2)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 5), max_size=8))
def test_numbers_only_go_up_and_all_are_charged_once(numbers: list[int]) -> None:
    """In any order, a reveal is begun if and only if it is above all that were begun."""
    with TemporaryDirectory() as place:
        ledger, last = Ledger(Path(place) / "ledger.sqlite"), 0
        for number in numbers:
            event = reveal(number)
            if number > last:
                ledger.check("loans", None, event)
                ledger.charge("loans", None, event)
                last = number
            else:
                head = ledger.head()
                for refused in (ledger.check, ledger.charge):
                    with pytest.raises(UsedRevealError, match=f"seal for reveal {last + 1}"):
                        refused("loans", None, event)
                assert ledger.head() == head
            assert ledger.last_reveal("loans", TASK) == last
        found = [charge for population in ledger.populations() for charge in population.charges]
        assert [charge.exact for charge in found] == [SPENT] * bool(numbers)


def test_a_reveal_that_is_not_settled_counts_as_used(ledger: Ledger) -> None:
    """As after a crash: nothing but the charge was written."""
    ledger.charge("loans", None, reveal(1))
    with pytest.raises(UsedRevealError):
        Ledger(ledger.path).charge("loans", None, reveal(1, OTHERS))


def test_a_task_s_reveals_are_of_one_population(ledger: Ledger) -> None:
    with pytest.raises(PopulationError, match="charged once, to a population"):
        ledger.charge(None, None, reveal(1))
    ledger.charge("loans", None, reveal(1))
    assert ledger.last_reveal("others", TASK) == 0
    ledger.charge("others", None, reveal(1, OTHERS))
    assert [len(population.charges) for population in ledger.populations()] == [1, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"exact": Guarantee(Fraction(1), SPENT.delta)},
        {"noise": Concentrated(Fraction(1, 4), Fraction(0), Fraction(1, 10**9))},
        {"chain": RevealOfTask(TASK, '{"vectors": {"reveals": 10}}', 2)},
        {"model": "mpyc"},
    ],
)
def test_later_reveals_are_like_the_first(changes: dict[str, Any], ledger: Ledger) -> None:
    """Else some would have more noise than they are charged for, and others less."""
    ledger.charge("loans", None, reveal(1))
    with pytest.raises(PopulationError, match=f"The reveals of task {TASK[:16]} were begun with another"):
        ledger.charge("loans", None, reveal(2, **changes))


def test_a_budget_pays_for_a_task_once(ledger: Ledger) -> None:
    budget = Budget(SPENT.epsilon, SPENT.delta)
    ledger.charge("loans", budget, reveal(1))
    ledger.charge("loans", None, reveal(2))
    with pytest.raises(BudgetError):
        ledger.charge("loans", None, reveal(1, chain=RevealOfTask("6" * 64, "", 1)))


def test_an_upload_is_in_one_reveal(ledger: Ledger) -> None:
    """Its task says so already, and the ledger, too."""
    ledger.charge("loans", None, reveal(1, SAME))
    with pytest.raises(UsedUploadsError):
        ledger.charge("loans", None, reveal(2, SAME, OTHERS))
    assert ledger.last_reveal("loans", TASK) == 1


def test_a_ledger_of_version_1_0_has_no_reveals_yet(ledger: Ledger) -> None:
    sqlite3.connect(ledger.path).executescript(OF_1_0).close()
    assert ledger.last_reveal("loans", TASK) == 0
    ledger.charge("loans", Budget(SPENT.epsilon, SPENT.delta), reveal(2))
    assert ledger.last_reveal("loans", TASK) == 2
