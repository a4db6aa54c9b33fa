"""Confusion matrices: what is multiplied, the rates, their intervals, whom the guarantee protects."""

from fractions import Fraction

import numpy as np
import pytest

from fairshares.harness.errors import OptionError
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts
from fairshares.harness.releases.confusion.statistic import ConfusionStatistic, confusion
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.spec import PRODUCT_PER_RECORD, SPLIT
from tests.support.requests import request_of
from tests.support.stated import only_file

COINS = design_coins(Fraction(1), 40)
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), kind=RecordKind.PREDICTION)


def test_rates_by_hand() -> None:
    """Group a: 30 + 10 of label 0, 20 + 40 of label 1; nobody of group b has label 0."""
    table = np.array([[[30.0, 10.0], [20.0, 40.0]], [[0.0, -0.5], [1.0, 3.0]]])
    matrices = confusion(NoisyCounts(DOMAIN, table, COINS))
    assert matrices.rates["true_positive_rate"][0].tolist() == [30 / 40, 40 / 60]
    assert matrices.rates["false_positive_rate"][0].tolist() == [20 / 60, 10 / 40]
    assert matrices.rates["selection_rate"][0].tolist() == [50 / 100, 50 / 100]
    assert np.isnan(matrices.rates["true_positive_rate"][1, 0])
    json = only_file(matrices)
    assert json["rates"]["b"]["0"]["true_positive_rate"] == {"estimate": None, "interval": [0.0, 1.0]}
    assert json["rates"]["a"]["1"]["selection_rate"]["estimate"] == 0.5


def test_three_labels_each_against_the_rest() -> None:
    domain = RecordDomain(("a", "b"), ("0", "1", "2"), kind=RecordKind.PREDICTION)
    table = np.arange(1.0, 19.0).reshape(2, 3, 3)  # group a: rows 1 2 3, 4 5 6, 7 8 9
    rates = confusion(NoisyCounts(domain, table, COINS)).rates
    assert rates["true_positive_rate"][0].tolist() == [1 / 6, 5 / 15, 9 / 24]
    assert rates["false_positive_rate"][0].tolist() == [11 / 39, 10 / 30, 9 / 21]
    assert rates["selection_rate"][0].tolist() == [12 / 45, 15 / 45, 18 / 45]


@pytest.mark.parametrize(
    ("labels", "named", "positive"),
    [(("0", "1"), "", 1), (("0", "1"), "0", 0), (("0", "1", "2"), "", None), (("0", "1", "2"), "1", 1)],
)
def test_whose_rates_are_meant(labels: tuple[str, ...], named: str, positive: int | None) -> None:
    domain = RecordDomain(("a", "b"), labels, kind=RecordKind.PREDICTION)
    prepared = ConfusionStatistic(positive_label=named).prepare(settings(None, per_record=False), domain)
    assert prepared.read({"counts": (0,) * (2 * len(labels) ** 2)}, 1).positive == positive


def settings(relation: NeighboringRelation | None, *, per_record: bool) -> Request:
    form = PRODUCT_PER_RECORD if per_record else SPLIT
    return request_of(MODELS["ring"], form, Fraction(1), Fraction(1, 2**40), relation=relation)


def test_whom_the_guarantee_protects() -> None:
    """With a row per record everybody sees how many there are: what one says is protected, not that it is."""
    statistic, add = ConfusionStatistic(), NeighboringRelation.ADD_OR_REMOVE_ONE
    replace = NeighboringRelation.REPLACE_ONE
    assert statistic.prepare(settings(None, per_record=False), DOMAIN).plan.relation is add
    for relation in (None, replace):
        plan = statistic.prepare(settings(relation, per_record=True), DOMAIN).plan
        assert (plan.relation, plan.nodes) == (replace, 8)
        assert plan.node_epsilon == Fraction(1, 2)
    with pytest.raises(OptionError, match="shows how many records there are"):
        statistic.prepare(settings(add, per_record=True), DOMAIN)
