"""PrivFairFL's figures of unfairness between groups: as the paper prints them, and as the field has them."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from fairshares.harness.evaluation.metrics import difference, group_rates, ratio


class PaperMetrics(TypedDict):
    """The paper's four figures, which are best at 0, and NaN where undefined."""

    one_minus_di: float  # |1 - disparate impact|
    delta_eop: float  # equal opportunity difference
    delta_eodd: float  # average odds difference
    delta_sp: float  # statistical parity difference


def published_metrics(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sensitive_feature: npt.ArrayLike, groups: Sequence[str]
) -> PaperMetrics:
    """Compute the four figures as printed in the paper, which are for comparisons with the paper alone.

    Source: PrivFairFL, equations 3 to 6, with the groups of the largest and the smallest rate as its two
    groups. There DI is the ratio of true positive rates. Delta SP compares the shares of each group that are
    rightly predicted positive. Delta EODD averages two differences; by a slip of the paper, both are the
    difference of true positive rates.
    """
    truth = np.asarray(y_true)
    predicted = np.asarray(y_pred)
    tpr = group_rates(truth, predicted, sensitive_feature, groups).true_positive_rate
    hits = group_rates(truth, truth * predicted, sensitive_feature, groups).selection_rate
    inverse = ratio(tpr)
    return PaperMetrics(
        one_minus_di=abs(1 - 1 / inverse) if inverse else float("nan"),
        delta_eop=difference(tpr),
        delta_eodd=(difference(tpr) + difference(tpr)) / 2,
        delta_sp=difference(hits),
    )


def corrected_metrics(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sensitive_feature: npt.ArrayLike, groups: Sequence[str]
) -> PaperMetrics:
    """Compute the four figures as the field defines them.

    Source: Fairlearn's `demographic_parity_ratio`, `equal_opportunity_difference`,
    `equalized_odds_difference` with `agg="mean"`, and `demographic_parity_difference`, except for undefined
    rates.
    [test: tests/benchmarks/papers/test_metrics.py::test_corrected_metrics_are_fairlearns]
    """
    rates = group_rates(y_true, y_pred, sensitive_feature, groups)
    return PaperMetrics(
        one_minus_di=1 - ratio(rates.selection_rate),
        delta_eop=difference(rates.true_positive_rate),
        delta_eodd=(difference(rates.true_positive_rate) + difference(rates.false_positive_rate)) / 2,
        delta_sp=difference(rates.selection_rate),
    )
