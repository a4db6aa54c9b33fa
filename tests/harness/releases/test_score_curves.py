"""From records to what π_ROC counts, and from what it opened to curves."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.errors import RecordDomainError
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, as_grid
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.sources import PartyInputs
from fairshares.harness.postprocessing.curves import exact_curves
from fairshares.harness.releases.thresholds.spec import PI_ROC, PI_ROC_RECORDS
from fairshares.harness.releases.thresholds.statistic import (
    CurvesStatistic,
    noisy_curves,
)
from fairshares.harness.request.request import BY_EPSILON, SIGNED, Randomness
from fairshares.harness.security_models import MODELS
from fairshares.protocols import reference
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.circuits.blocks import block_sizes, block_sums, count_blocks
from fairshares.protocols.circuits.coins import SymmetricCoins, design_coins
from fairshares.protocols.circuits.noise import coins_of_arguments, fair_bits_per_sample
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.spec import KEYS, SCORED_SPLIT, InputForm, declared_release
from tests.support.requests import request_of
from tests.support.stated import only_file

GRID = as_grid([0.1, 0.2, 0.35, 0.5, 0.8, 0.9, 1.0])
DOMAIN = RecordDomain(("a", "b", "c"), ("no", "yes"), 100, kind=RecordKind.SCORE, thresholds=GRID)
SETTINGS = request_of(MODELS["ring"], SCORED_SPLIT, Fraction(1), Fraction(1, 2**40))
COINS = design_coins(Fraction(1), 40)


class Vector:
    """A clear vector with the names that the circuit uses."""

    def __init__(self, values: npt.NDArray[np.int64]) -> None:
        self.values = values

    def get_vector(self, base: int, size: int) -> "Vector":
        assert base >= 0 and base + size <= len(self.values) and size > 0
        return Vector(self.values[base : base + size])

    def sum(self) -> "Vector":
        return Vector(self.values.sum(keepdims=True))

    @staticmethod
    def concat(parts: "list[Vector]") -> "Vector":
        return Vector(np.concatenate([part.values for part in parts]))


@pytest.mark.parametrize("blocks", ["1", "1.2", "1.3.6", "1.8", "1.7"])
@pytest.mark.parametrize("histograms", [1, 4])
def test_a_record_changes_the_sums_that_the_guarantee_counts(blocks: str, histograms: int) -> None:
    """The circuit's linear map is, column by column, the one that epsilon follows from."""
    arguments = {"groups": str(histograms), "labels": "1", "bins": "8", "blocks": blocks}
    release, sizes = declared_release(PI_ROC, arguments), block_sizes(blocks)
    assert release.nodes == count_blocks(histograms, 8, sizes)
    for cell, column in enumerate(release.columns):
        one = np.zeros(8 * histograms, dtype=np.int64)
        one[cell] = 1
        sums = block_sums(Vector, Vector(one), histograms, 8, sizes).values
        assert sums.tolist() == [int(node in column) for node in range(release.nodes)]


@pytest.mark.parametrize("positive", ["yes", "no"])
@pytest.mark.parametrize("blocks", [(1,), (1, 3), (1, 2, 4)])
def test_without_noise_the_curves_are_exact(positive: str, blocks: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    group, label = rng.integers(0, 3, 300), rng.integers(0, 2, 300)
    score = np.round(rng.random(300), 2)
    tree = CountTree(len(GRID), blocks)
    opened = reference.block_counts(group * 2 + label, score.tolist(), 6, GRID, blocks)
    curves = noisy_curves(np.array(opened, dtype=float), DOMAIN, positive, tree, COINS).curves
    truth = label == DOMAIN.labels.index(positive)
    exact = exact_curves(truth, score, np.array(DOMAIN.groups)[group], DOMAIN.groups, GRID)
    for name in ("tp", "fp", "positives", "negatives"):
        np.testing.assert_allclose(getattr(curves, name), getattr(exact, name), atol=1e-9)


def test_the_curves_errors_are_those_of_their_nodes() -> None:
    """One node more in each of two histograms: the curves move by the estimator's column, and only theirs."""
    tree = CountTree(len(GRID), (1, 3))
    zeros = np.zeros(6 * tree.nodes)
    zeros[5] = zeros[6 * 8 + 3 * 5 + 2] = 1  # group a, no, bin 5; group c, yes, block of the highest bins
    curves = noisy_curves(zeros, DOMAIN, "yes", tree, COINS).curves
    assert curves.noise is not None
    linear = curves.noise.linear
    np.testing.assert_allclose(curves.fp[0], linear[:-1, 5])
    np.testing.assert_allclose(curves.negatives[0], linear[-1, 5])
    assert not curves.tp[0].any() and not curves.fp[1:].any()


@pytest.mark.parametrize("relation", [None, *list(NeighboringRelation)[:2]])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("family", [BY_EPSILON, SIGNED])
def test_the_harness_compiles_what_it_accounts_for(
    flat: bool, relation: NeighboringRelation | None, family: str
) -> None:
    """With signed noise at epsilon 20 these bins have two levels; each node gets its share of epsilon."""
    settings = request_of(MODELS["ring"], SCORED_SPLIT, Fraction(20), Fraction(1, 2**40), relation=relation)
    settings = settings.but(Randomness.noise_family, family)
    prepared = CurvesStatistic(flat).prepare(settings, DOMAIN)
    plan = prepared.plan
    job = make_job(prepared, PartyInputs(DOMAIN, 10, 1, 10))
    arguments = dict(zip(PI_ROC.arguments, job.arguments, strict=True))
    tree = CountTree(8, tuple(map(int, arguments["blocks"].split("."))))
    assert (len(tree.blocks) == 1) == (flat or family == BY_EPSILON)
    changed = len(tree.blocks) * (2 if relation is NeighboringRelation.REPLACE_ONE else 1)
    assert Fraction(arguments["epsilon"]) <= Fraction(20, changed) < Fraction(arguments["epsilon"]) * 2
    assert isinstance(plan.coins, SymmetricCoins) == (family == BY_EPSILON)
    assert coins_of_arguments(arguments["epsilon"], arguments["delta_bits"]) == plan.coins
    assert {lanes for _, lanes in job.fair_bits} == {6 * tree.nodes}
    assert sum(width for width, _ in job.fair_bits) == fair_bits_per_sample(plan.coins)


@pytest.mark.parametrize("cap", [Cap(5), Cap(60, weight_one=True)])
@pytest.mark.parametrize("form", [SCORED_SPLIT, KEYS])
def test_clients_as_the_unit(cap: Cap, form: InputForm) -> None:
    """The noise is for all levels of all records of a client; one that weighs 1 counts as one."""
    client = PrivacyUnit.CLIENT
    settings = request_of(MODELS["ring"], form, Fraction(20), Fraction(1, 2**40), unit=client)
    domain = replace(DOMAIN, cap=cap)
    statistic = CurvesStatistic(spec=PI_ROC if form is SCORED_SPLIT else PI_ROC_RECORDS)
    prepared = statistic.prepare(settings, domain)
    plan, blocks = prepared.plan, str(prepared.arguments["blocks"])
    tree = CountTree(len(GRID), tuple(map(int, blocks.split("."))))
    assert (plan.unit, plan.changed) == (client, cap.slots * len(tree.blocks))
    job = make_job(prepared, PartyInputs(domain, 10, 1, 10))
    arguments = dict(zip(statistic.spec.arguments, job.arguments, strict=True))
    assert arguments["blocks"] == blocks
    assert arguments.get("records", "none") == (str(10 * cap.slots) if form is KEYS else "none")
    opened = np.full(plan.nodes, 3.0 * cap.scale)
    plain = noisy_curves(opened / cap.scale, DOMAIN, "yes", tree, plan.coins)
    scaled = noisy_curves(opened, domain, "yes", tree, plan.coins)
    assert scaled.curves.tp == pytest.approx(plain.curves.tp)
    errors = [np.array(only_file(noisy)["standard_error"]) for noisy in (scaled, plain)]
    assert errors[0] * cap.scale == pytest.approx(errors[1])


def test_the_positive_label_is_declared() -> None:
    with pytest.raises(RecordDomainError, match=r"'1' is not declared \(declared: no, yes\)"):
        CurvesStatistic(positive="1").prepare(SETTINGS, DOMAIN)


def test_what_only_garbage_gives_is_the_nearest_that_can_be() -> None:
    prepared = CurvesStatistic(flat=True).prepare(SETTINGS, DOMAIN)

    def read(value: int) -> object:
        return only_file(prepared.read({"nodes": (0,) * (prepared.plan.nodes - 1) + (value,)}, 10))

    with pytest.warns(UserWarning, match="beyond what the clients' declared maximum and the noise allow"):
        nearest = read(10**9)
    with pytest.warns(UserWarning, match="beyond"):
        assert read(10**12) == nearest
