"""Accuracy and group fairness of predictions, in the field's names, for k groups.

A rate without records, and every difference or ratio over it, is NaN: it never looks like a fair zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairshares.protocols.arrays import Bools, Integers

Rates = npt.NDArray[np.float64]

# Metrics that a report compares. Differences are best at 0, the ratio at 1.
METRICS = (
    "accuracy",
    "balanced_accuracy",
    "selection_rate",
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
    "disparate_impact_ratio",
)


@dataclass(frozen=True, eq=False)
class GroupRates:
    """The rates of a binary predictor by group; NaN where undefined."""

    groups: tuple[str, ...]
    selection_rate: Rates
    true_positive_rate: Rates
    false_positive_rate: Rates


def group_rates(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sensitive_feature: npt.ArrayLike, groups: Sequence[str]
) -> GroupRates:
    """Compute each group's rates.

    Args:
        y_true: Each record's label, 0 or 1.
        y_pred: Each record's prediction, 0 or 1.
        sensitive_feature: Each record's group.
        groups: All groups, in the order of the rates.

    Raises:
        ValueError: A record has another group.
    """
    truth = np.asarray(y_true)
    predicted = np.asarray(y_pred)
    feature = np.asarray(sensitive_feature)
    undeclared = sorted(set(feature.tolist()) - set(groups))
    if undeclared:
        raise ValueError(f"sensitive_feature has the groups {undeclared}, which are not among {list(groups)}")

    def rates(where: npt.NDArray[np.bool_]) -> Rates:
        return np.array([_share(predicted[where & (feature == group)]) for group in groups])

    return GroupRates(
        groups=tuple(groups),
        selection_rate=rates(truth >= 0),
        true_positive_rate=rates(truth == 1),
        false_positive_rate=rates(truth == 0),
    )


def difference(rates: Rates) -> float:
    """Return the largest less the smallest rate; NaN if any is NaN."""
    return float(np.max(rates) - np.min(rates))


def ratio(rates: Rates) -> float:
    """Return the smallest over the largest rate; NaN if any is NaN, or all are 0."""
    largest = float(np.max(rates))
    return float(np.min(rates)) / largest if largest else float("nan")


def assess(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, sensitive_feature: npt.ArrayLike, groups: Sequence[str]
) -> dict[str, float]:
    """Return `METRICS` of binary predictions, NaN where undefined.

    Source: Fairlearn's definitions, except for undefined rates, which Fairlearn counts as 0.
    [test: tests/harness/evaluation/test_metrics.py::test_agrees_with_fairlearn]
    """
    by_group = group_rates(y_true, y_pred, sensitive_feature, groups)
    truth = np.asarray(y_true)
    predicted = np.asarray(y_pred)
    positive = truth == 1
    opportunity = difference(by_group.true_positive_rate)
    return {
        "accuracy": _share(truth == predicted),
        "balanced_accuracy": (_share(predicted[positive]) + _share(1 - predicted[~positive])) / 2,
        "selection_rate": _share(predicted),
        "demographic_parity_difference": difference(by_group.selection_rate),
        # NaN if either difference is, since a maximum over the other alone could be too small.
        "equalized_odds_difference": float(np.maximum(opportunity, difference(by_group.false_positive_rate))),
        "equal_opportunity_difference": opportunity,
        "disparate_impact_ratio": ratio(by_group.selection_rate),
    }


def _share(values: Bools | Integers) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
