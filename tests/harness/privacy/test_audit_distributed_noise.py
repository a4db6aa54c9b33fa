"""Audits of distributed noise, from its distributions; wrong tables are found."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from fairshares.harness.errors import OptionError
from fairshares.harness.privacy.audit import releases
from fairshares.harness.privacy.audit.figures import ReleaseFigures
from fairshares.harness.privacy.audit.releases import audit_distributed_noise
from fairshares.harness.privacy.audit.samplers import Audited
from fairshares.harness.releases.gap.spec import PI_GAP
from fairshares.harness.releases.thresholds.spec import PI_ROC
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_distributed_noise,
)
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import ProtocolSpec

pytestmark = pytest.mark.usefixtures("in_shell")

ADD, REPLACE, ZERO_OUT = NeighboringRelation
DELTA = Fraction(1, 2**40)
LAPLACE, GAUSSIAN = NoiseDistribution
TABLE: Mapping[str, int | str] = {"groups": 2, "labels": 2}


def audit(
    neighbors: Neighbors,
    distribution: NoiseDistribution,
    parties: int,
    *,
    spec: ProtocolSpec = PI_RW,
    arguments: Mapping[str, int | str] = TABLE,
    delta: Fraction = DELTA,
) -> Audited:
    """Audit a protocol's distributed noise at ε = 1, where one party is corrupt."""
    return audit_distributed_noise(
        "x",
        spec,
        arguments,
        neighbors,
        epsilon=Fraction(1),
        delta=delta,
        distribution=distribution,
        parties=parties,
        tolerated=1,
    )


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
    audited = audit(Neighbors(relation), distribution, 3, spec=spec, arguments=arguments)
    assert audited.fault is None and audited.claimed
    assert isinstance(audited.figures, ReleaseFigures)
    assert audited.figures.delta is not None and 0 < audited.figures.delta <= DELTA


@DISTRIBUTIONS
@pytest.mark.parametrize("malleable", [False, True])
def test_of_clients(distribution: NoiseDistribution, malleable: bool) -> None:
    audited = audit(Neighbors(ZERO_OUT, 4, malleable), distribution, 4)
    assert audited.fault is None and isinstance(audited.figures, ReleaseFigures)
    assert audited.figures.units_moved == (8 if malleable else 4)


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
    audited = audit(Neighbors(REPLACE), distribution, 2)
    assert audited.fault is not None and "not" in audited.fault


def test_what_is_not_audited() -> None:
    with pytest.raises(OptionError, match="cap 12 at most"):
        audit(Neighbors(ZERO_OUT, 13), LAPLACE, 2)
    with pytest.raises(OptionError, match=r"^No noise fits --epsilon 1 and --delta 0: Gaussian noise"):
        audit(Neighbors(ADD), GAUSSIAN, 2, delta=Fraction(0))
