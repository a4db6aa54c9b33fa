"""Which runs a client's policy covers, and what the ledger knows of what its upload has spent."""

from fractions import Fraction
from pathlib import Path

import pytest

from harness.errors import BudgetError, FairSharesError, ShareError
from harness.inputs.shares.file_format import ClientPolicy, client_policy_from_json
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import PrivacyEvent, uncovered
from harness.system.documents import Refusal
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.guarantee import Guarantee
from tests.support.sharing import allowing

RECORD, CLIENT = PrivacyUnit
TINY = Fraction(1, 2**40)
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
    return PrivacyEvent(task, "ring", spends, unit, relation, Path("out"), None, uploads, policies or {})


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
    found = uncovered({"a": asked}, release, {"a": spent} if spent else {})
    assert found == (frozenset() if covered else {"a"})


def test_each_upload_is_judged_by_its_own_policy_and_past() -> None:
    policies = {"a": policy(), "b": policy(("gap",)), "c": policy(), "d": policy()}
    spent = {"c": Guarantee(Fraction(1, 2), Fraction(0)), "e": Guarantee(Fraction(9), Fraction(0))}
    assert uncovered(policies, event(Fraction(3, 4)), spent) == {"b", "c"}
    assert uncovered({}, event(20), spent) == frozenset()


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
    assert ledger.spent_on(["a", "b"]) == {}
    for epsilon, uploads in ((Fraction(1, 3), "ab"), (Fraction(1, 2), "a"), (2, "cb"), (3, "d"), (5, "a")):
        ledger.charge("people", None, event(epsilon, *uploads))
    assert ledger.spent_on(["a", "b", "b", "x"]) == {
        "a": Guarantee(Fraction(35, 6), 3 * TINY),
        "b": Guarantee(Fraction(7, 3), 2 * TINY),
    }
    assert not Ledger(ledger.path.with_name("none")).spent_on(["a"])


def test_runs_that_race_for_the_rest_of_a_clients_total_do_not_both_get_it(ledger: Ledger) -> None:
    """Both were covered when they looked: whoever is charged second is refused, and nothing is written."""
    release = event(Fraction(3, 4), "a", "b", policies={"a": POLICY})
    assert uncovered(release.policies, release, ledger.spent_on("ab")) == frozenset()
    ledger.check("people", None, release)
    ledger.charge("people", None, release)
    for step in (ledger.check, ledger.charge):
        with pytest.raises(
            BudgetError, match=r"policies .* do not cover this run, in 1 of its 2 uploads; a is one"
        ):
            step("people", None, release)
    assert ledger.spent_on("ab")["b"].epsilon == Fraction(3, 4)
    ledger.charge("people", None, event(Fraction(1, 4), "a", policies={"a": POLICY}))


def test_a_policy_holds_where_there_is_no_ledger_yet(ledger: Ledger) -> None:
    with pytest.raises(FairSharesError, match="do not cover this run"):
        ledger.check(None, None, event(2, "a", policies={"a": POLICY}))
    ledger.check(None, None, event(1, "a", policies={"a": POLICY}))
    assert not ledger.path.exists()
