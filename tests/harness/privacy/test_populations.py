"""Populations and policies of clients: what adds up, what is refused, and what an upload has spent."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.errors import BudgetError, FairSharesError, PopulationError, ShareError
from fairshares.harness.privacy.ledger.accountants import NoiseEvent, of_two_steps
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import (
    Charge,
    Population,
    PrivacyEvent,
    RunChain,
    Status,
    key_of,
    left_text,
    refuse_contradictions,
    refuse_misspelt,
    refuse_other_terms,
    refuse_overspending,
    spent_text,
    uncovered,
)
from fairshares.harness.system.documents import Refusal
from fairshares.harness.uploads.policy import ClientPolicies, ClientPolicy, client_policy_from_json
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.accounting.rounds import Concentrated
from fairshares.protocols.circuits.coins import Coin, NoiseFamily, SymmetricCoins, exp_bounds
from fairshares.protocols.guarantee import Budget, Guarantee
from fairshares.protocols.noise.added import DistributedNoise, NoiseDistribution
from tests.support.sharing import allowing, policies_of

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
    assert key_of(one) == key_of(other) == key_of(key_of(one)) != key_of(f"{one} ")


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
    refuse_overspending(spent, replace(release(), exact=third))
    for more in (Guarantee(Fraction(1, 3) + tiny, Fraction(0)), Guarantee(tiny, Fraction(1, 8) + tiny)):
        with pytest.raises(BudgetError) as error:
            refuse_overspending(spent, replace(release(), exact=more))
        assert "'loans' has ε = 0.3333 and δ = 0.125 left of its budget of 1,0.375, after 2 runs" in str(
            error.value
        )
        assert "No party computed anything." in str(error.value)


def test_aborted_runs_are_spent() -> None:
    spent = population(Budget(Fraction(1)), guarantee("1"))
    assert spent.charges[0].status is Status.ABORTED
    with pytest.raises(
        BudgetError, match=r"has ε = 0 left of its budget of 1, after 1 run; this run needs ε = 0\.01 "
    ):
        refuse_overspending(spent, replace(release(), exact=guarantee("1/100")))


@pytest.mark.parametrize("epsilon", ["1/100", "1", "8", "20"])
def test_two_steps_lose_what_the_worst_release_loses(epsilon: str) -> None:
    """The chances of one outcome under three data sets, each as far from the next as a guarantee allows."""
    step = guarantee(epsilon, f"1/{10**30}")
    ratio, _ = exp_bounds(step.epsilon)
    chances = [Fraction(1, 10**25)]
    for _ in range(2):
        chances.append(ratio * chances[-1] + step.delta)
    assert 1 - chances[0] <= ratio * (1 - chances[1]) + step.delta  # and so for the outcome's opposite
    lost = chances[2] - ratio**2 * chances[0]
    two = of_two_steps(step)
    assert two.epsilon == 2 * step.epsilon
    assert lost <= two.delta <= lost * (1 + Fraction(1, 10**20))


def test_two_steps_of_a_release_that_protects_nobody() -> None:
    assert of_two_steps(guarantee("65", "1/8")) == guarantee("130", "1")
    assert of_two_steps(guarantee("20", "1/8")).delta == 1


def test_a_population_of_whether_records_exist_has_a_second_total() -> None:
    """By sums over its runs; noise that is known to be of counts loses less: twice each δ."""
    runs = guarantee("1", "1/1000000"), guarantee("1/2", "1/1000000000")
    replaced = population(None, *runs).spent_if_replaced
    assert replaced is not None and replaced.epsilon == 3
    assert replaced.delta == of_two_steps(runs[0]).delta + of_two_steps(runs[1]).delta
    assert 2 * population(None, *runs).spent.delta < replaced.delta < 4 * population(None, *runs).spent.delta
    assert population(None).spent_if_replaced is None
    for relation in (REPLACE, NeighboringRelation.ZERO_OUT_ONE):
        charges = [replace(charge, relation=relation) for charge in population(None, *runs).charges]
        assert Population("loans", None, tuple(charges)).spent_if_replaced is None


SIGNED = NoiseEvent((Coin(69, 8), Coin(31, 8)), 1)
SYMMETRIC = NoiseEvent(SymmetricCoins((Coin(69, 8), Coin(31, 8)), Coin(69, 8)), 1)
OF_PARTIES = NoiseEvent(DistributedNoise(NoiseDistribution.LAPLACE, Fraction(1, 2), 40, 3, 2), 1)
ROUNDS = Concentrated(Fraction(1, 10), Fraction(1, 10**9), Fraction(1, 10**9))
MORE_ROUNDS = replace(ROUNDS, rho=Fraction(1, 5))
BY_FAMILY = 'If version 1.0 ran it, add noise_family="signed".'
BY_DELTA = "If version 1.0 ran it, take a delta= that is a tenth smaller."
BY_BOTH = f"{BY_FAMILY[:-1]}, and take a delta= that is a tenth smaller."


@pytest.mark.parametrize(
    ("first", "noise", "family", "way_out"),
    [
        (SIGNED, SYMMETRIC, NoiseFamily.SYMMETRIC, BY_FAMILY),
        (None, None, NoiseFamily.SYMMETRIC, BY_FAMILY),
        (None, None, None, ""),  # distributed noise has no family
        (SIGNED, OF_PARTIES, None, ""),
        (OF_PARTIES, SYMMETRIC, NoiseFamily.SYMMETRIC, ""),
        (SYMMETRIC, SYMMETRIC, NoiseFamily.SYMMETRIC, ""),
        (SYMMETRIC, SIGNED, NoiseFamily.SIGNED, ""),
        (ROUNDS, MORE_ROUNDS, None, BY_DELTA),
        (None, None, NoiseFamily.SYMMETRIC, BY_BOTH),  # of weights, beside rounds
    ],
)
def test_a_run_that_loses_more_than_the_first_reads_of_ways_that_it_has(
    first: NoiseEvent | Concentrated | None,
    noise: NoiseEvent | Concentrated | None,
    family: NoiseFamily | None,
    way_out: str,
) -> None:
    declared = Budget(Fraction(3), Fraction(1, 10**6), runs=2)
    (charge,) = population(declared, guarantee("1", "1/1000000000")).charges
    before = replace(population(declared), charges=(replace(charge, noise=first),))
    other = replace(release(), exact=guarantee("2", "1/1000000000"), noise=noise, family=family)
    other = replace(other, has_rounds=way_out in (BY_DELTA, BY_BOTH))
    with pytest.raises(BudgetError, match="Repeat what the first run was asked for") as refusal:
        refuse_overspending(before, other)
    with pytest.raises(PopulationError, match="or begin another chain by") as refusal_of_chain:
        refuse_other_terms(before.charges[0], other, RunChain("monthly", ""))
    for said in (str(refusal.value), str(refusal_of_chain.value)):
        named = [way for way in (BY_FAMILY, BY_DELTA, BY_BOTH) if way in said]
        assert named == [way_out] * bool(way_out), said


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


CLIENT = PrivacyUnit.CLIENT
TINY = Fraction(1, 2**40)
A, B, C, D = (digit * 64 for digit in "abcd")  # identities of uploads
POLICY = allowing(("weights", "count"), "1", "3/1099511627776", RECORD)


def event(
    epsilon: Fraction | int = 1,
    *uploads: str,
    task: str = "weights",
    unit: PrivacyUnit = RECORD,
    delta: Fraction = TINY,
    policies: dict[str, ClientPolicy] | None = None,
) -> PrivacyEvent:
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE if unit is RECORD else NeighboringRelation.ZERO_OUT_ONE
    spends = Guarantee(Fraction(epsilon), delta)
    of_clients = None if policies is None else policies_of(policies)
    return PrivacyEvent(task, "ring", spends, unit, relation, Path("out"), None, uploads, of_clients)


def policy(tasks: tuple[str, ...] = ("weights",), unit: PrivacyUnit = RECORD) -> ClientPolicy:
    return allowing(tasks, "1", "1/2", unit)


@pytest.mark.parametrize(
    ("release", "asked", "spent", "covered"),
    [
        (event(), policy(), None, True),
        (event(task="count"), policy(), None, False),
        (event(task="count"), policy(("gap", "count")), None, True),
        (event(), policy(()), None, False),
        (event(unit=CLIENT), policy(), None, True),  # which protects more
        (event(unit=RECORD), policy(unit=CLIENT), None, False),
        (event(unit=CLIENT), policy(unit=CLIENT), None, True),
        (event(1 + Fraction(1, 10**12)), policy(), None, False),
        (event(Fraction(2, 3)), policy(), Guarantee(Fraction(1, 3), Fraction(0)), True),
        (event(Fraction(2, 3)), policy(), Guarantee(Fraction(1, 3) + Fraction(1, 10**30), TINY), False),
        (event(delta=Fraction(1, 2)), policy(), None, True),
        (event(delta=Fraction(1, 2)), policy(), Guarantee(Fraction(0), Fraction(1, 10**30)), False),
    ],
)
def test_what_a_policy_covers(
    release: PrivacyEvent, asked: ClientPolicy, spent: Guarantee | None, covered: bool
) -> None:
    not_covered = uncovered(policies_of({"a": asked}), release, {"a": spent} if spent else {})
    assert not_covered == (frozenset() if covered else {"a"})


def test_each_upload_is_judged_by_its_own_policy_and_past() -> None:
    policies = ClientPolicies(("a", "b", "c", "d"), policy(), {"b": policy(("gap",)), "e": policy(())})
    spent = {"c": Guarantee(Fraction(1, 2), Fraction(0)), "e": Guarantee(Fraction(9), Fraction(0))}
    assert uncovered(policies, event(Fraction(3, 4)), spent) == {"b", "c"}
    assert uncovered(policies.among(("a", "d")), event(Fraction(3, 4)), spent) == frozenset()
    assert uncovered(policies_of({}), event(20), spent) == frozenset()


def test_what_two_policies_allow_is_what_each_does() -> None:
    one = allowing(("weights", "count", "gap"), "1/3", "1/2", RECORD)
    two = allowing(("gap", "weights"), "3/10", "2/3", CLIENT)
    both = allowing(("weights", "gap"), "3/10", "1/2", CLIENT)
    assert one.and_also(two) == both
    assert set(two.and_also(one).tasks) == set(both.tasks) and two.and_also(one).total == both.total


@pytest.mark.parametrize("number", ["", "-1", "1/0", "1.5", "1e3", "nan", " 1", "1/2/3", "9" * 201])
def test_what_is_no_number_is_refused(number: str) -> None:
    refusal = Refusal(ShareError, "it", "a policy", "write another")
    for name in ("epsilon", "delta"):
        fields = {**POLICY.to_json(), name: number}
        with pytest.raises(ShareError, match="have to be rational numbers"):
            client_policy_from_json(fields, refusal)
    assert client_policy_from_json(POLICY.to_json(), refusal) == POLICY


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def test_the_ledger_adds_up_all_that_an_upload_spent(ledger: Ledger) -> None:
    assert ledger.spent_on([A, B]) == {}
    for epsilon, uploads in (
        (Fraction(1, 3), [A, B]),
        (Fraction(1, 2), [A]),
        (2, [C, B]),
        (3, [D]),
        (5, [A]),
    ):
        ledger.charge("people", None, event(epsilon, *uploads))
    assert ledger.spent_on([A, B, B, "ee" * 32]) == {
        A: Guarantee(Fraction(35, 6), 3 * TINY),
        B: Guarantee(Fraction(7, 3), 2 * TINY),
    }
    assert not Ledger(ledger.path.with_name("none")).spent_on([A])


def test_runs_that_race_for_the_rest_of_a_clients_total_do_not_both_get_it(ledger: Ledger) -> None:
    """Both were covered when they looked: whoever is charged second is refused, and nothing is written."""
    release = event(Fraction(3, 4), A, B, policies={A: POLICY})
    assert uncovered(policies_of({A: POLICY}), release, ledger.spent_on([A, B])) == frozenset()
    ledger.check("people", None, release)
    ledger.charge("people", None, release)
    for step in (ledger.check, ledger.charge):
        with pytest.raises(
            BudgetError, match=r"policies .* do not cover this run, in 1 of its 2 uploads; aaaa.* is one"
        ):
            step("people", None, release)
    assert ledger.spent_on([A, B])[B].epsilon == Fraction(3, 4)
    ledger.charge("people", None, event(Fraction(1, 4), A, policies={A: POLICY}))


def test_a_policy_holds_where_there_is_no_ledger_yet(ledger: Ledger) -> None:
    with pytest.raises(FairSharesError, match="do not cover this run"):
        ledger.check(None, None, event(2, A, policies={A: POLICY}))
    ledger.check(None, None, event(1, A, policies={A: POLICY}))
    assert not ledger.path.exists()
