"""Audits of series of epochs and of distributed noise: from their distributions; faults are found."""

import itertools
from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest

from harness.errors import OptionError
from harness.privacy.audit import releases
from harness.privacy.audit.releases import SERIES, audit_command, audit_distributed_noise, audit_series
from harness.privacy.audit.samplers import Audited, Figure
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_distributed_noise,
    plan_noise,
)
from protocols.accounting.exact_privacy import curve_of_coins
from protocols.circuits.coins import Coin, design_coins
from protocols.guarantee import Guarantee
from protocols.mechanisms.counts_so_far import Part, Schedule
from protocols.noise.added import NoiseDistribution
from protocols.noise.truncated import guarantee, probability_mass
from protocols.spec import PI_GAP, PI_ROC, PI_RW

ADD, REPLACE, ZERO_OUT = NeighboringRelation
DELTA = Fraction(1, 2**40)
ONE = Fraction(1)
COINS = {  # of small support, by share
    Fraction(1, 4): (Coin(3, 3), Coin(1, 2), Coin(1, 5)),
    Fraction(1, 2): (Coin(1, 2), Coin(1, 4)),
    Fraction(3, 4): (Coin(1, 3), Coin(1, 6)),
}
NEST = Schedule(
    (Part(0, Fraction(1, 2)), Part(0, Fraction(1, 4)), Part(2, Fraction(3, 4)), Part(0, Fraction(1, 4)))
)


def of_coins(epsilon: Fraction, delta: Fraction) -> Audited:
    """Audit the release that moves one count with such noise; what it was asked for names the noise."""
    coins = COINS[epsilon]
    spent, curve = guarantee(coins, 1), curve_of_coins(coins)
    figures: dict[str, Figure] = {"values_moved": 1, "epsilon": spent.epsilon, "delta": spent.delta}
    return Audited("one", "one", Guarantee(epsilon, delta), {}, figures, curve)


def test_the_curve_is_that_of_all_that_an_epoch_is_in() -> None:
    """Every outcome of every epoch's releases, at several ratios."""
    found = audit_series(NEST, ONE, Fraction(1, 2), of_coins)
    assert found.curve is not None and found.figures["values_moved"] == 3
    for ratio in (ONE, Fraction(5, 4), Fraction(2), Fraction(4), Fraction(50)):
        worst = []
        for epoch in range(4):
            distributions = [
                probability_mass(COINS[part.share])
                for t, part in enumerate(NEST.parts)
                if part.first <= epoch <= t
            ]
            joint = [
                (
                    prod(distribution[x] for distribution, x in zip(distributions, each, strict=True)),
                    prod(
                        distribution.get(x - 1, Fraction(0))
                        for distribution, x in zip(distributions, each, strict=True)
                    ),
                )
                for each in itertools.product(*distributions)
            ]
            worst.append(sum((p - ratio * q for p, q in joint if p > ratio * q), Fraction(0)))
        assert found.curve.delta(ratio) == max(worst)
        assert min(worst) < max(worst)
    epsilons = {share: guarantee(coins, 1).epsilon for share, coins in COINS.items()}
    assert found.figures["epsilon"] == max(
        epsilons[Fraction(1, 2)] + 2 * epsilons[Fraction(1, 4)],
        epsilons[Fraction(3, 4)] + epsilons[Fraction(1, 4)],
    )


@pytest.mark.parametrize("relation", [ADD, REPLACE, ZERO_OUT])
@pytest.mark.parametrize("horizon", [4, 40])
def test_claims_hold(relation: NeighboringRelation, horizon: int) -> None:
    name = "weights-of-clients" if relation is ZERO_OUT else "weights"
    found, once = (audit_command(name, {}, relation, ONE, DELTA, horizon=n) for n in (horizon, None))
    assert found.fault is None and found.claimed and found.parameters["horizon"] == horizon
    for figure, asked in (("epsilon", ONE), ("delta", DELTA)):
        value = found.figures[figure]
        assert isinstance(value, Fraction) and 0 < value <= asked
        if horizon == 4:  # each epoch by itself, with all of it
            assert value == once.figures[figure]
    assert found.figures["values_moved"] == once.figures["values_moved"] * (2 if horizon == 40 else 1)  # type: ignore[operator]


@pytest.mark.parametrize("distribution", NoiseDistribution)
def test_distributed_noise_is_audited_epoch_by_epoch(distribution: NoiseDistribution) -> None:
    found = audit_command("weights", {}, ADD, ONE, DELTA, distributed=(distribution, 3, 1), horizon=40)
    assert found.fault is None and found.curve is None


@pytest.mark.parametrize("name", SERIES)
def test_noise_of_a_wrong_scale_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise for 5/4 of an epoch's ε, in each epoch or in those alone that have not all of it."""

    def wrong(*asked: object, **options: object) -> NoisePlan:
        plan = plan_noise(*asked, **options)  # type: ignore[arg-type]
        if plan.requested_epsilon == 1:
            return plan
        return replace(plan, coins=design_coins(plan.node_epsilon * Fraction(5, 4), plan.node_delta_bits))

    relation = ZERO_OUT if "clients" in name else ADD
    monkeypatch.setattr(releases, "plan_noise", wrong)
    found = audit_command(name, {}, relation, ONE, DELTA, horizon=40)
    assert found.fault is not None and "more than the ε and δ that are claimed" in found.fault


def test_a_schedule_that_releases_an_epoch_too_well_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Schedule, "__post_init__", lambda self: None)
    wrong = Schedule((Part(0, Fraction(3, 4)), Part(0, Fraction(3, 4))))
    found = audit_series(wrong, ONE, DELTA, lambda *asked: audit_command("weights", {}, ADD, *asked))
    assert found.fault == "its 2 epochs take more than the ε and δ that are claimed of all together"


def test_a_sum_that_leaves_a_release_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though each release keeps to its own part, and all to what was asked for."""
    total = Schedule.total
    least = Schedule(tuple(replace(part, share=min(NEST.shares)) for part in NEST.parts[:1]))
    monkeypatch.setattr(Schedule, "total", lambda self, spent: total(least, spent))
    found = audit_series(NEST, ONE, DELTA, lambda *asked: audit_command("weights", {}, ADD, *asked))
    assert found.fault is not None and isinstance(found.figures["epsilon"], Fraction)
    assert found.figures["epsilon"] <= 1


LAPLACE, GAUSSIAN = NoiseDistribution
TABLE = {"groups": 2, "labels": 2}
DISTRIBUTIONS = pytest.mark.parametrize("distribution", [LAPLACE, GAUSSIAN])


@DISTRIBUTIONS
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        (PI_RW, TABLE),
        (PI_ROC, {**TABLE, "bins": 8, "blocks": "1.2.4"}),
        (PI_GAP, {"groups": 2, "steps": 3}),
    ],
)
def test_claims_of_distributed_noise_hold(distribution, relation, spec, arguments) -> None:
    found = audit_distributed_noise(
        "x", spec, arguments, Neighbors(relation), Fraction(1), DELTA, distribution, 3, 1
    )
    assert found.fault is None and found.claimed
    assert isinstance(found.figures["delta"], Fraction) and 0 < found.figures["delta"] <= DELTA


@DISTRIBUTIONS
@pytest.mark.parametrize("malleable", [False, True])
def test_of_clients(distribution: NoiseDistribution, malleable: bool) -> None:
    found = audit_distributed_noise(
        "x", PI_RW, TABLE, Neighbors(ZERO_OUT, 4, malleable), Fraction(1), DELTA, distribution, 4, 1
    )
    assert found.fault is None and found.figures["units_moved"] == (8 if malleable else 4)


@DISTRIBUTIONS
@pytest.mark.parametrize("narrower", [True, False])
def test_wrong_tables_are_found(
    distribution: NoiseDistribution, narrower: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments, **options) -> NoisePlan:
        plan = plan_distributed_noise(*arguments, **options)
        assert plan.own is not None
        if narrower:
            return replace(plan, own=replace(plan.own, rate=plan.own.rate * Fraction(6, 5)))
        return replace(plan, own=replace(plan.own, edge=plan.own.edge * 7 // 10))

    monkeypatch.setattr(releases, "plan_distributed_noise", wrong)
    found = audit_distributed_noise(
        "x", PI_RW, TABLE, Neighbors(REPLACE), Fraction(1), DELTA, distribution, 2, 1
    )
    assert found.fault is not None and "not" in found.fault


def test_what_is_not_audited() -> None:
    with pytest.raises(OptionError, match="cap 12 at most"):
        audit_distributed_noise("x", PI_RW, TABLE, Neighbors(ZERO_OUT, 13), Fraction(1), DELTA, LAPLACE, 2, 1)
    with pytest.raises(OptionError, match=r"^No noise fits --epsilon 1 and --delta 0: Gaussian noise"):
        audit_distributed_noise("x", PI_RW, TABLE, Neighbors(ADD), Fraction(1), Fraction(0), GAUSSIAN, 2, 1)
