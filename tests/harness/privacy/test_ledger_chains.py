"""Chains: charged once for all their runs, each upload in one of these; all else of a population adds up."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fairshares.harness.errors import (
    BudgetError,
    FairSharesError,
    PopulationError,
    UsedNoiseError,
    UsedUploadsError,
)
from fairshares.harness.privacy.ledger.accountants import NoiseEvent
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent, RunChain, Status
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.circuits.coins import Coin
from fairshares.protocols.guarantee import NOTHING, Budget, Guarantee, compose
from tests.support.sharing import allowing, policies_of

SPENT = Guarantee(Fraction(1), Fraction(1, 1 << 40))
RUN = PrivacyEvent(
    "weights",
    "ring",
    SPENT,
    PrivacyUnit.RECORD,
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    Path("/first"),
    NoiseEvent((Coin(1, 2), Coin(1, 3)), 1),
)


A, B, C, D, E, F = ALL = [digit * 64 for digit in "abcdef"]  # identities of uploads


def event(*uploads: str, chain: str = "monthly", **changes: Any) -> PrivacyEvent:
    return replace(RUN, uploads=uploads, chain=RunChain(chain, "a,b") if chain else None, **changes)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite", timeout_s=0.2)


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from(["", "one", "two"]), st.sets(st.sampled_from(ALL[:4]), max_size=3)),
        max_size=6,
    )
)
def test_a_population_spends_the_sum_of_all_runs_but_a_chain_once(runs: list[tuple[str, set[str]]]) -> None:
    """Whatever is run in whichever order; and no upload spends more than its population."""
    with TemporaryDirectory() as place:
        ledger, alone, chains = Ledger(Path(place) / "ledger.sqlite"), 0, dict[str, Counter[str]]()
        plain = Counter[str]()
        for chain, uploads in runs:
            repeated = bool(chain) and bool(uploads & set(chains.get(chain, ())))
            if repeated or (chain and not uploads):
                with pytest.raises((UsedUploadsError, PopulationError)):
                    ledger.charge("people", None, event(*sorted(uploads), chain=chain))
                continue
            ledger.charge("people", None, event(*sorted(uploads), chain=chain))
            alone += not chain
            (chains.setdefault(chain, Counter()) if chain else plain).update(uploads)
        spent = compose(population.spent for population in ledger.populations())
        assert spent == SPENT * (alone + len(chains))
        of_uploads = {u: plain[u] + sum(counted[u] for counted in chains.values()) for u in ALL[:4]}
        assert ledger.spent_on(ALL[:4]) == {u: SPENT * n for u, n in of_uploads.items() if n}
        assert all(counted.total() == len(counted) for counted in chains.values())
        assert max(of_uploads.values()) <= alone + len(chains) and (spent != NOTHING or not alone)
        for chain, counted in chains.items():
            assert ledger.counted("People", chain, ALL[:4]) == counted.keys()


def test_an_upload_of_an_earlier_run_is_refused_whatever_it_went_into_since(ledger: Ledger) -> None:
    ledger.charge("people", Budget(Fraction(2)), event(A))
    ledger.charge("people", None, event(B))
    ledger.charge("people", None, event(A, chain=""))
    with pytest.raises(
        UsedUploadsError, match="1 of these 2 uploads went into a run of chain 'monthly' before; aaaa"
    ):
        ledger.charge("people", None, event(A, C))
    assert C not in ledger.spent_on([C])
    with pytest.raises(BudgetError, match=r"has ε = 0 left of its budget of 2, after 2 runs"):
        ledger.charge("people", None, event(D, chain=""))
    ledger.charge("people", None, event(D))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"exact": replace(SPENT, epsilon=Fraction(2))}, "ε, δ or noise"),
        ({"exact": replace(SPENT, delta=Fraction(1, 1 << 39))}, "ε, δ or noise"),
        ({"noise": NoiseEvent((Coin(1, 2), Coin(1, 3)), 2)}, "ε, δ or noise"),
        ({"task": "confusion"}, "task"),
        ({"model": "mpyc"}, "security model"),
        ({"chain": RunChain("monthly", "a,b,c")}, "domain"),
    ],
)
def test_all_runs_are_what_the_first_was(ledger: Ledger, changes: dict[str, Any], what: str) -> None:
    ledger.charge("people", None, event(A))
    other = replace(event(B), **changes)
    with pytest.raises(PopulationError, match=f"Chain 'monthly' was begun with another {what} than .* once"):
        ledger.charge("people", None, other)
    ledger.charge("people", None, replace(other, chain=RunChain("another", "a,b")))
    assert [population.spent.epsilon for population in ledger.populations()] == [1 + other.exact.epsilon]


def test_a_chain_is_of_uploads_and_of_a_population(ledger: Ledger) -> None:
    for name, release in ((None, event(A)), ("people", event())):
        with pytest.raises(PopulationError, match="A chain is of uploads, and charged to a population"):
            ledger.charge(name, None, release)
    ledger.charge("people", None, event(A))
    ledger.charge("others", None, event(B))  # a chain of that name of its own
    ledger.charge(None, None, event(C, chain=""))
    with pytest.raises(PopulationError, match="charged to 'others', not to 'people'"):
        ledger.charge("people", None, event(B, D))
    ledger.charge("people", None, event(C))  # what it spent before is the population's, too
    assert [population.spent.epsilon for population in ledger.populations("people")] == [2]
    assert ledger.counted("people", "weekly", [A, C]) == frozenset()
    assert ledger.counted("people", None, [A, C, D]) == frozenset()
    assert ledger.counted("people", None, ALL) == ledger.counted("people", "weekly", ALL) == {B}
    assert ledger.counted(None, None, ALL) == {A, B, C}  # no run that nobody is charged for takes these


def test_a_run_that_fails_costs_its_own_uploads_and_no_more(ledger: Ledger) -> None:
    number, _ = ledger.charge("people", Budget(Fraction(1)), event(A, piece="p"))
    ledger.settle(number, Status.ABORTED)
    with pytest.raises(UsedUploadsError):
        ledger.charge("people", None, event(A))
    with pytest.raises(UsedNoiseError):
        ledger.charge("people", None, event(B, piece="p"))
    again, population = ledger.charge("people", None, event(B, piece="q"))
    assert population is not None and population.spent == SPENT
    assert again == number and population.charges[0].status is Status.RUNNING


def admits(ledger: Ledger, budget: Budget) -> int:
    """Return how many runs that are of no chain fit what is left."""
    for n in range(10):
        try:
            ledger.charge("people", budget, event(f"{n:064x}", chain="", noise=None))
        except BudgetError:
            return n
    return 10


@pytest.mark.parametrize(
    "budget",
    [Budget(Fraction(4), Fraction(1, 1 << 20), order=8), Budget(Fraction(4), Fraction(1, 1 << 20), runs=3)],
)
def test_a_chain_is_one_run_of_a_budget_with_a_rule(ledger: Ledger, budget: Budget) -> None:
    for upload in ALL:
        ledger.charge("people", budget, event(upload, noise=None))
    alone = Ledger(ledger.path.with_name("alone.sqlite"))
    admitted = [admits(place, budget) for place in (ledger, alone)]
    assert admitted[0] + 1 == admitted[1] < 10


def test_a_client_has_to_allow_the_run_and_a_lower_budget_ends_the_chain(ledger: Ledger) -> None:
    ledger.charge("people", Budget(Fraction(1)), event(A))
    policy = allowing(("weights",), "1/2", "1/2", PrivacyUnit.RECORD)
    with pytest.raises(
        FairSharesError, match="policies of clients do not cover this run, in 1 of its 2 uploads"
    ):
        ledger.charge("people", None, event(B, C, policies=policies_of({C: policy})))
    ledger.set_budget("people", Budget(Fraction(1, 2)))
    with pytest.raises(BudgetError):
        ledger.charge("people", None, event(B))
