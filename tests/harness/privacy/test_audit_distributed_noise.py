"""Audits of distributed noise, from its distributions; wrong tables are found."""

from dataclasses import replace
from fractions import Fraction

import pytest

from harness.errors import OptionError
from harness.privacy.audit import releases
from harness.privacy.audit.releases import audit_distributed_noise
from protocols.accounting.calibration import NeighboringRelation, Neighbors, NoisePlan, plan_distributed_noise
from protocols.noise.added import NoiseDistribution
from protocols.spec import PI_GAP, PI_ROC, PI_RW

ADD, REPLACE, ZERO_OUT = NeighboringRelation
DELTA = Fraction(1, 2**40)
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
    audited = audit_distributed_noise(
        "x",
        spec,
        arguments,
        Neighbors(relation),
        epsilon=Fraction(1),
        delta=DELTA,
        distribution=distribution,
        parties=3,
        tolerated=1,
    )
    assert audited.fault is None and audited.claimed
    assert isinstance(audited.figures["delta"], Fraction) and 0 < audited.figures["delta"] <= DELTA


@DISTRIBUTIONS
@pytest.mark.parametrize("malleable", [False, True])
def test_of_clients(distribution: NoiseDistribution, malleable: bool) -> None:
    audited = audit_distributed_noise(
        "x",
        PI_RW,
        TABLE,
        Neighbors(ZERO_OUT, 4, malleable),
        epsilon=Fraction(1),
        delta=DELTA,
        distribution=distribution,
        parties=4,
        tolerated=1,
    )
    assert audited.fault is None and audited.figures["units_moved"] == (8 if malleable else 4)


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
    audited = audit_distributed_noise(
        "x",
        PI_RW,
        TABLE,
        Neighbors(REPLACE),
        epsilon=Fraction(1),
        delta=DELTA,
        distribution=distribution,
        parties=2,
        tolerated=1,
    )
    assert audited.fault is not None and "not" in audited.fault


def test_what_is_not_audited() -> None:
    with pytest.raises(OptionError, match="cap 12 at most"):
        audit_distributed_noise(
            "x",
            PI_RW,
            TABLE,
            Neighbors(ZERO_OUT, 13),
            epsilon=Fraction(1),
            delta=DELTA,
            distribution=LAPLACE,
            parties=2,
            tolerated=1,
        )
    with pytest.raises(OptionError, match=r"^No noise fits --epsilon 1 and --delta 0: Gaussian noise"):
        audit_distributed_noise(
            "x",
            PI_RW,
            TABLE,
            Neighbors(ADD),
            epsilon=Fraction(1),
            delta=Fraction(0),
            distribution=GAUSSIAN,
            parties=2,
            tolerated=1,
        )
