"""PrivFairFL's figures: visible fractions, and Fairlearn as oracle of what the field defines."""

import fairlearn.metrics as oracle
import numpy as np
import pytest

from benchmarks.papers.metrics import corrected_metrics, published_metrics
from tests.support.predictions import RIGGED, table

FOUR = ("one_minus_di", "delta_eop", "delta_eodd", "delta_sp")


def test_paper_metrics_in_visible_fractions() -> None:
    """Hits of all: a 3/6, b 1/5."""
    published = published_metrics(*RIGGED, ["a", "b"])
    assert published == pytest.approx(
        {"one_minus_di": 1 / 2, "delta_eop": 1 / 4, "delta_eodd": 1 / 4, "delta_sp": 3 / 6 - 1 / 5}
    )
    corrected = corrected_metrics(*RIGGED, ["a", "b"])
    assert corrected == pytest.approx(
        {"one_minus_di": 1 - 3 / 10, "delta_eop": 1 / 4, "delta_eodd": 3 / 8, "delta_sp": 4 / 6 - 1 / 5}
    )


def test_published_metrics_call_fair_what_is_not() -> None:
    """Equal true positive rates; but of the negatives, all of a and none of b are predicted positive."""
    cells = table(("a", 1, 1, 1), ("a", 0, 1, 1), ("b", 1, 1, 1), ("b", 0, 0, 1))
    assert published_metrics(*cells, ["a", "b"]) == dict.fromkeys(FOUR, 0)
    assert corrected_metrics(*cells, ["a", "b"]) == dict(zip(FOUR, (1 / 2, 0, 1 / 2, 1 / 2), strict=True))


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_corrected_metrics_are_fairlearns(groups: int) -> None:
    rng = np.random.default_rng(groups)
    names = [f"group {i}" for i in range(groups)]
    feature, y_true = rng.choice(names, 500), rng.integers(2, size=500)
    y_pred = (rng.random(500) < 0.3 + 0.2 * y_true + 0.2 * (feature == names[0])).astype(np.int64)
    metrics = corrected_metrics(y_true, y_pred, feature, names)
    of_groups = {"y_true": y_true, "y_pred": y_pred, "sensitive_features": feature}
    assert metrics["one_minus_di"] == pytest.approx(1 - oracle.demographic_parity_ratio(**of_groups))
    assert metrics["delta_eop"] == pytest.approx(oracle.equal_opportunity_difference(**of_groups))
    assert metrics["delta_eodd"] == pytest.approx(oracle.equalized_odds_difference(**of_groups, agg="mean"))
    assert metrics["delta_sp"] == pytest.approx(oracle.demographic_parity_difference(**of_groups))
    rates = oracle.MetricFrame(metrics=oracle.true_positive_rate, **of_groups)
    published = published_metrics(y_true, y_pred, feature, names)
    assert published["one_minus_di"] == pytest.approx(1 / rates.ratio() - 1)
    assert published["delta_eop"] == published["delta_eodd"] == pytest.approx(rates.difference())
