"""Budgets with a rule of their own: what they admit, refuse and keep; totals are close upper bounds."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as pld

from fairshares.harness.errors import BudgetError, OptionError, PopulationError
from fairshares.harness.privacy.ledger.accountants import (
    Loss,
    NoiseEvent,
    RenyiFilter,
    accountant_of,
    numerical_epsilon,
)
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent, Status, budget_text
from fairshares.harness.privacy.ledger.stated import state_budget
from fairshares.harness.request.readers import parse_budget
from fairshares.harness.system.documents import as_json
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    PrivacyUnit,
    each_cell_once,
    plan_distributed_noise,
)
from fairshares.protocols.accounting.exact_privacy import curve_of_coins
from fairshares.protocols.accounting.rounds import plan_rounds
from fairshares.protocols.circuits.coins import Coin, design_coins, worst_ratio
from fairshares.protocols.guarantee import Budget, Guarantee, compose, renyi_order
from fairshares.protocols.noise.added import DistributedNoise, NoiseDistribution
from fairshares.protocols.noise.truncated import guarantee, probability_mass

pytestmark = pytest.mark.usefixtures("in_shell")

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
DELTA = Fraction(1, 10**9)
COINS = design_coins(Fraction(1, 20), 40)
EXACT = guarantee(COINS)
WEIGHTS = Loss(EXACT, NoiseEvent(COINS, 1))  # a weights run at epsilon = 0.05
UNKNOWN = Loss(EXACT)
RENYI = parse_budget("3,1e-9,renyi")
DECLARED = parse_budget("2.9,1e-9,100")


def event(loss: Loss = WEIGHTS) -> PrivacyEvent:
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    return PrivacyEvent("weights", "ring", loss.exact, PrivacyUnit.RECORD, relation, Path("out"), loss.noise)


def allows(budget: Budget, losses: Sequence[Loss]) -> bool:
    """Return whether the last of these runs is allowed after the others."""
    *before, last = losses
    return accountant_of(budget).compose(before).allows(last)


def left(budget: Budget, losses: Sequence[Loss]) -> Budget:
    return accountant_of(budget, losses).left


def test_a_hundred_weight_runs() -> None:
    """At epsilon = 0.05 each, together 5 by basic composition."""
    assert allows(DECLARED, [WEIGHTS] * 100) and not allows(DECLARED, [WEIGHTS] * 101)
    assert allows(RENYI, [WEIGHTS] * 100) and not allows(RENYI, [WEIGHTS] * 110)
    for rule in (RENYI, DECLARED):
        assert not Budget(rule.epsilon, rule.delta).allows(compose([EXACT] * 100))


@pytest.mark.parametrize("one", [WEIGHTS, UNKNOWN])
def test_as_dp_accounting_adds_them_up(one: Loss) -> None:
    """A declared schedule needs what it finds at this delta, and 0.5% more at most; a filter 8% more."""
    if one.noise:
        (pair,) = curve_of_coins(COINS).pairs
        upper, lower = ({i: math.log(m[side]) for i, m in enumerate(pair) if m[side]} for side in (0, 1))
        theirs = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=1e-4)
    else:
        response = pld.common.DifferentialPrivacyParameters(float(EXACT.epsilon), float(EXACT.delta))
        theirs = pld.from_privacy_parameters(response, value_discretization_interval=1e-4)
    least = Fraction(theirs.self_compose(100).get_epsilon_for_delta(float(DELTA)))

    def enough(part: Fraction, rule: str) -> bool:
        epsilon = least * part
        chosen = {"order": renyi_order(epsilon, DELTA)} if rule == "renyi" else {"runs": 100}
        return allows(Budget(epsilon, DELTA, **chosen), [one] * 100)

    assert enough(Fraction(1005, 1000), "declared") and not enough(Fraction(99, 100), "declared")
    assert enough(Fraction(108, 100), "renyi") and not enough(Fraction(101, 100), "renyi")


def test_a_filter_adds_up_what_it_knows_and_what_it_does_not() -> None:
    wide = Loss(Guarantee(4 * EXACT.epsilon, 4 * EXACT.delta), NoiseEvent(COINS, 4))
    mixed = [WEIGHTS] * 40 + [UNKNOWN] * 40 + [wide] * 2
    assert allows(RENYI, mixed) and allows(RENYI, mixed[::-1])
    assert allows(RENYI, [wide] * 25) and not allows(RENYI, [wide] * 27)
    assert not allows(RENYI, [Loss(Guarantee(Fraction(1, 100), DELTA * 2))])
    assert not allows(RENYI, [Loss(Guarantee(Fraction(100), Fraction(0)))])


def test_declared_runs_lose_no_more_than_the_first() -> None:
    """In no parameter, of noise that is not known or of rounds; known noise stays the same."""
    less = Guarantee(EXACT.epsilon * Fraction(99, 100), EXACT.delta * Fraction(99, 100))
    for smaller in (Loss(less), Loss(less, NoiseEvent(COINS, 1)), WEIGHTS, UNKNOWN):
        assert allows(DECLARED, [UNKNOWN, smaller])
    for larger in (replace(EXACT, epsilon=2 * EXACT.epsilon), replace(EXACT, delta=2 * EXACT.delta)):
        assert not allows(DECLARED, [UNKNOWN, Loss(larger)])
        assert not allows(DECLARED, [UNKNOWN, Loss(less), Loss(larger)])  # whatever came between
    for other in (Loss(less), UNKNOWN, Loss(less, NoiseEvent(design_coins(Fraction(1, 21), 40), 1))):
        assert not allows(DECLARED, [WEIGHTS, other])

    rounds = plan_rounds(64**2, 45, 40, Fraction(1), Fraction(1, 10**5), distributed=(3, 2)).loss
    rounds = replace(rounds, certain=Fraction(1, 10**9))
    of_rounds = Loss(Guarantee(Fraction(1), Fraction(1, 10**5)), rounds)
    ten = parse_budget("10,1e-4,10")
    for name in ("rho", "certain", "apart"):
        part = getattr(rounds, name)
        assert part > 0
        halved = of_rounds._replace(noise=replace(rounds, **{name: part / 2}))
        doubled = of_rounds._replace(noise=replace(rounds, **{name: part * 2}))
        assert allows(ten, [of_rounds, halved]) and not allows(ten, [of_rounds, doubled])
    assert not allows(ten, [of_rounds, Loss(Guarantee(Fraction(1, 100), Fraction(0)))])
    assert not allows(ten, [Loss(of_rounds.exact), Loss(Guarantee(Fraction(2), Fraction(0)))])


def test_runs_that_lose_less_than_the_first_keep_to_what_it_declared() -> None:
    """By dp_accounting, of the worst runs of each loss: the sum of smaller ones is below N of the first."""
    budget = Budget(Fraction(3), Fraction(1, 10**3), runs=3)
    first = Loss(Guarantee(Fraction(3, 2), Fraction(1, 10**6)))
    smaller = Loss(Guarantee(Fraction(1), Fraction(1, 10**7)))
    assert not accountant_of(budget, [first]).kept
    fitting = replace(budget, epsilon=Fraction(9, 2))
    assert allows(fitting, [first, smaller, first])

    def pair(loss: Loss) -> pld.PrivacyLossDistribution:
        parameters = pld.common.DifferentialPrivacyParameters(
            float(loss.exact.epsilon), float(loss.exact.delta)
        )
        return pld.from_privacy_parameters(parameters, value_discretization_interval=1e-4)

    together = pair(first).compose(pair(smaller)).compose(pair(first))
    declared = pair(first).self_compose(3)
    for epsilon in (1.0, 2.0, 3.0, 4.0):
        assert together.get_delta_for_epsilon(epsilon) <= declared.get_delta_for_epsilon(epsilon)
    assert pair(first).self_compose(3).get_delta_for_epsilon(4.5) <= 1e-3


def test_declared_runs_count_each_value() -> None:
    """Fifty of two values are a hundred of one; sixty are too many."""
    wide = Loss(EXACT + EXACT, NoiseEvent(COINS, 2))
    kept = [accountant_of(replace(DECLARED, runs=runs), [wide]).kept for runs in (50, 60)]
    assert kept == [True, False]


def test_what_is_left() -> None:
    assert left(DECLARED, [WEIGHTS] * 30) == replace(DECLARED, runs=70)
    rest = left(RENYI, [WEIGHTS] * 100)
    assert 0 < rest.epsilon < 1 and rest.delta is None
    more = RENYI.epsilon / 1000
    assert allows(RENYI, [WEIGHTS] * 100 + [Loss(Guarantee(rest.epsilon, Fraction(0)))])
    assert not allows(RENYI, [WEIGHTS] * 100 + [Loss(Guarantee(rest.epsilon + more, Fraction(0)))])
    assert left(RENYI, [WEIGHTS] * 200).epsilon == 0


def test_a_ledger_keeps_to_them(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    small = parse_budget("0.6,1e-9,3")
    for _ in range(3):
        number, population = ledger.charge("loans", small, event())
        ledger.settle(number, Status.ABORTED)
        assert population is not None and population.budget == small
    with pytest.raises(BudgetError, match="3 runs with the noise of the first"):
        ledger.charge("loans", None, event())
    ledger.charge("others", small, event())
    other = Loss(Guarantee(2 * EXACT.epsilon, 2 * EXACT.delta), NoiseEvent(COINS, 2))
    for different in (other, UNKNOWN):
        with pytest.raises(BudgetError, match="has other noise"):
            ledger.check("others", None, event(different))
    with pytest.raises(BudgetError, match="so many like it exceed"):
        ledger.check("new", parse_budget("0.6,1e-9,100"), event())
    (kept,) = [candidate for candidate in ledger.populations() if candidate.name == "others"]
    assert kept.left == replace(small, runs=2) and kept.spent == EXACT


@pytest.mark.parametrize("rule", [RENYI, DECLARED])
def test_a_rule_is_declared_before_the_first_run_and_stays(rule: Budget, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("loans", parse_budget("5"))
    ledger.set_budget("loans", rule)  # nothing has been seen yet
    ledger.charge("loans", rule, event())
    for other in (parse_budget("50"), replace(rule, epsilon=Fraction(5))):
        with pytest.raises(PopulationError, match="declared before the first and stays"):
            ledger.set_budget("loans", other)
        with pytest.raises(PopulationError, match="declared before the first and stays"):
            ledger.check("loans", other, event())
    ledger.charge("plain", None if not ledger.populations() else parse_budget("5"), event())
    with pytest.raises(PopulationError, match="declared before the first and stays"):
        ledger.set_budget("plain", rule)
    assert {population.name: population.budget for population in ledger.populations()}["loans"] == rule


def test_as_they_are_written() -> None:
    assert (
        Budget(Fraction(3), DELTA, order=14) == RENYI
        and Budget(Fraction(29, 10), DELTA, runs=100) == DECLARED
    )
    assert budget_text(RENYI) == "3,1e-9,renyi" and budget_text(DECLARED) == "2.9,1e-9,100"
    assert as_json(state_budget(RENYI)) == {"epsilon": "3", "delta": "1/1000000000", "order": "14"}
    for text in (
        "3,1e-9,rdp",
        "3,renyi",
        "3,1e-9,0",
        "3,1e-9,1.5",
        "65,1e-9,renyi",
        "0,1e-9,5",
        "3,1e-9,5,5",
        "3,1e-9,20000",
    ):
        with pytest.raises(OptionError, match=r"^--budget must be"):
            parse_budget(text)


@pytest.mark.parametrize("rule", [RENYI, DECLARED])
def test_a_run_that_named_nobody_comes_before_a_rule(rule: Budget, tmp_path: Path) -> None:
    """Its uploads tell later whose it was; a rule that was chosen after it was seen proves nothing."""
    ledger, run = Ledger(tmp_path / "ledger.sqlite"), replace(event(), uploads=("ab" * 16,))
    ledger.charge(None, None, run)
    ledger.set_budget("people", rule)
    with pytest.raises(PopulationError, match=r"has runs already, and a budget of .* stays"):
        ledger.charge("people", None, run)
    ledger.charge("people", None, event())


SMALL, WIDER = (Coin(1, 2), Coin(1, 3)), (Coin(3, 3), Coin(1, 2), Coin(1, 5))


def loss(coins: tuple[Coin, ...], values: int = 1, known: bool = True) -> Loss:
    return Loss(guarantee(coins, values), NoiseEvent(coins, values) if known else None)


def least_delta(releases: list[tuple[Coin, ...]], ratio: Fraction) -> Fraction:
    """Return the least delta at e^epsilon = ratio of several noisy values that all move by 1."""
    pairs = [(Fraction(1), Fraction(1))]
    for coins in releases:
        mass = probability_mass(coins)
        atoms = [
            (mass.get(x, Fraction(0)), mass.get(x - 1, Fraction(0))) for x in range(min(mass), max(mass) + 2)
        ]
        pairs = [(p * here, q * there) for p, q in pairs for here, there in atoms]
    return sum((max(p - ratio * q, Fraction(0)) for p, q in pairs), Fraction(0))


@pytest.mark.parametrize(
    ("losses", "releases"),
    [
        ([loss(SMALL)], [SMALL]),
        ([loss(SMALL), loss(WIDER)], [SMALL, WIDER]),
        ([loss(SMALL, 2), loss(WIDER)], [SMALL, SMALL, WIDER]),
        ([loss(WIDER), loss(WIDER)], [WIDER, WIDER]),
    ],
)
def test_totals_are_those_of_the_actual_noise(losses: list[Loss], releases: list[tuple[Coin, ...]]) -> None:
    """The epsilon found at the exact delta of some epsilon is that epsilon, rounded up."""
    most = math.prod((worst_ratio(coins) for coins in releases), start=Fraction(1))
    for ratio in (1 + (most - 1) / 4, 1 + (most - 1) / 2):
        exact = least_delta(releases, ratio)
        epsilon = numerical_epsilon(losses, float(exact))
        assert epsilon is not None
        assert math.log(ratio) - 1e-9 <= epsilon <= math.log(ratio) + 0.005


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 3), Fraction(20)])
def test_never_above_basic_composition(epsilon: Fraction) -> None:
    losses = [loss(design_coins(epsilon, 40)), loss(SMALL, known=False)]
    total = compose(one_loss.exact for one_loss in losses)
    numerical = numerical_epsilon(losses, float(total.delta) * 1.01)
    assert numerical is not None and numerical <= float(total.epsilon)


def test_where_no_epsilon_will_do() -> None:
    assert numerical_epsilon([loss(SMALL)], 1e-9) is None
    assert numerical_epsilon([loss(SMALL, known=False)], 1e-9) is None


def admitted(budget: Budget, one: Loss) -> int:
    """Return how many runs like one are admitted."""
    return bisect_left(range(1, 20_000), True, key=lambda n: not accountant_of(budget, [one] * n).kept)


def of_gaussian(epsilon: Fraction, parties: int = 3) -> Loss:
    plan = plan_distributed_noise(
        each_cell_once(4), Neighbors(ADD), epsilon, Fraction(1, 2**40), NoiseDistribution.GAUSSIAN, parties, 1
    )
    return Loss(plan.exact, NoiseEvent(plan.noise, plan.changed))


def runs_by_zcdp(rho: float, epsilon: float, delta: float) -> float:
    """Return how many runs of rho-zCDP fit, at the best order (Canonne, Kamath and Steinke 2020)."""
    return max(
        (epsilon - (math.log(1 / delta) + (a - 1) * math.log1p(-1 / a) - math.log(a)) / (a - 1)) / (a * rho)
        for a in range(2, 200)
    )


@pytest.mark.parametrize(("epsilon", "runs", "by_response"), [("1/20", 3487, 101), ("1/10", 903, 30)])
def test_distributed_noise_counts_as_it_is(epsilon: str, runs: int, by_response: int) -> None:
    """Within 2 % of what ideal Gaussian noise takes, by zCDP and by dp_accounting; sums admit 60 and 30."""
    one = of_gaussian(Fraction(epsilon))
    runs_admitted = admitted(RENYI, one)
    assert isinstance(one.noise, NoiseEvent) and isinstance(one.noise.noise, DistributedNoise)
    table = np.array(one.noise.noise.summed(2), dtype=float)
    variance = float(table @ (np.arange(table.size) - table.size // 2) ** 2.0 / table.sum())
    assert 0.98 * runs < runs_admitted < 1.02 * runs
    assert 0.98 < runs_admitted / runs_by_zcdp(1 / (2 * variance), 3, 1e-9) < 1.001
    theirs = rdp.RdpAccountant(list(range(2, 64)))
    theirs.compose(dp_accounting.GaussianDpEvent(math.sqrt(variance)), runs_admitted)
    assert 2.95 < theirs.get_epsilon(1e-9) < 3.0
    assert admitted(RENYI, Loss(one.exact)) == by_response
    declared = replace(DECLARED, epsilon=Fraction(3), runs=runs_admitted)
    assert accountant_of(declared, [one]).kept and not accountant_of(declared, [Loss(one.exact)]).kept
    assert not accountant_of(replace(declared, runs=runs_admitted * 5 // 4), [one]).kept


def test_a_wrong_number_of_honest_parties_is_noticed() -> None:
    """What the tables of all three parties protect is not what a ledger may count."""
    one = of_gaussian(Fraction(1, 10))
    assert isinstance(one.noise, NoiseEvent) and isinstance(one.noise.noise, DistributedNoise)
    wrong = Loss(
        one.exact, NoiseEvent(replace(one.noise.noise, honest=3, rate=one.noise.noise.rate * 2 / 3), 1)
    )
    assert admitted(RENYI, wrong) > 1.4 * admitted(RENYI, one)


@pytest.mark.parametrize("parties", [None, (3, 2)])
def test_training_counts_by_zcdp(parties: tuple[int, int] | None) -> None:
    """57 trainings at (1, 1e-5) fit (10, 1e-4), or 67 declared ones, of which sums admit 10."""
    budget, plan = (
        parse_budget("10,1e-4,renyi"),
        plan_rounds(64**2, 45, 40, Fraction(1), Fraction(1, 10**5), distributed=parties),
    )
    assert 56 <= admitted(budget, Loss(plan.exact, plan.loss)) <= 58
    assert admitted(budget, Loss(plan.exact)) == 1
    assert 0.95 < 57 / runs_by_zcdp(float(plan.loss.rho), 10, 1e-4) < 1  # a whole order, a part of delta
    declared = Budget(Fraction(10), Fraction(1, 10**4), runs=67)
    one = [Loss(plan.exact, plan.loss)]
    assert accountant_of(declared, one).kept and not accountant_of(replace(declared, runs=69), one).kept
    deviation = 1 / math.sqrt(2 * 67 * float(plan.loss.rho))  # of continuous noise, for all declared runs
    assert 9.6 < pld.from_gaussian_mechanism(deviation).get_epsilon_for_delta(1e-4) < 10
    far = replace(plan.loss, certain=Fraction(1, 10**6))  # mass that one neighbor alone has counts
    assert admitted(budget, Loss(plan.exact, far)) == 12  # an eighth of delta, as the other neighbor's


def test_runs_that_sums_admit_are_admitted() -> None:
    """As long as their deltas add up to a sixteenth of the budget's."""
    few = Loss(Guarantee(Fraction(1), DELTA / 48))
    assert all(accountant_of(RENYI, [few] * n).kept for n in (1, 2, 3)) and not allows(RENYI, [few] * 4)
    much = Loss(Guarantee(Fraction(1), DELTA / 8))
    assert not accountant_of(RENYI, [much] * 3).kept


def test_what_both_rules_may_lose_adds_up_to_delta() -> None:
    """By sums, by either neighbor's certain mass, and by divergences, in 4,096ths of delta: theorem 5."""

    def part(lost: Fraction, losses: list[Loss]) -> int:
        def exceeds(n: int) -> bool:
            return not accountant_of(replace(RENYI, delta=lost * 4096 / n), losses).kept

        return bisect_left(range(1, 5000), True, key=exceeds)

    whole, certain = (Guarantee(epsilon, DELTA) for epsilon in (RENYI.epsilon, Fraction(0)))
    many = [Loss(Guarantee(RENYI.epsilon / 50, Fraction(0)))] * 60  # which sums do not admit
    tail = RenyiFilter(RENYI, tuple(many)).deltas[1]
    parts = [part(DELTA, [Loss(whole)]), 2 * part(DELTA, [Loss(certain)]), part(tail, many)]
    assert min(parts) > 0 and 4090 <= sum(parts) <= 4096


def test_a_ledger_has_each_kind_of_noise(tmp_path: Path) -> None:
    plan = plan_rounds(64**2, 45, 40, Fraction(1), Fraction(1, 10**5))
    kinds = [WEIGHTS, UNKNOWN, of_gaussian(Fraction(1, 10), 2), Loss(plan.exact, plan.loss)]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for one in kinds:
        ledger.charge("loans", None, event(one))
    (population,) = ledger.populations()
    assert population.losses == tuple(kinds)
