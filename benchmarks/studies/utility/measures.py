"""How good released curves are, and what thresholds chosen on them do: each a number per repetition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from harness.errors import UndefinedRateError
from harness.postprocessing.curves import GroupCurves, OperatingPoints
from harness.postprocessing.thresholds.choose import choose_thresholds
from harness.postprocessing.thresholds.rules import ThresholdRule

Floats = npt.NDArray[np.float64]

CONSTRAINT, OBJECTIVE = "equalized_odds", "balanced_accuracy_score"
UNMITIGATED = ThresholdRule((0.5,))
KNOWS_NOTHING = 0.5  # what an undefined rate or area counts as

MEASURES = {
    "count_rmse": "RMS error of the cumulative counts, in records, before the monotone fit",
    "tpr_rmse": "RMS error of the true positive rate over groups and thresholds",
    "fpr_rmse": "RMS error of the false positive rate over groups and thresholds",
    "auc_error": "RMS error of the groups' areas under the ROC curve",
    "gap_counted": "equalized odds difference that remains among the records that were counted",
    "gap_whole": "the same in the population, or among people who were not counted",
    "balanced_accuracy": "of the population under the chosen thresholds",
    "chosen": "1 if thresholds could be chosen, 0 if a rate was 0/0 and all groups keep 0.5",
}


def measure(estimated: GroupCurves, counted: GroupCurves, whole: OperatingPoints) -> dict[str, float]:
    """Return each of `MEASURES` for one repetition.

    Args: counted: exact curves of the records that `estimated` is about; whole: whom they stand for.
    """
    found, exact = estimated.points(), counted.points()
    try:
        rules = choose_thresholds(estimated, CONSTRAINT, OBJECTIVE).rules
        chosen = True
    except UndefinedRateError:
        rules, chosen = dict.fromkeys(estimated.groups, UNMITIGATED), False
    tpr, fpr = rates_under(rules, whole)
    return {
        "count_rmse": rms(
            np.array([estimated.tp, estimated.fp]) - np.array([counted.tp, counted.fp]),
        ),
        "tpr_rmse": rms(_defined(found.true_positive_rate) - _defined(exact.true_positive_rate)),
        "fpr_rmse": rms(_defined(found.false_positive_rate) - _defined(exact.false_positive_rate)),
        "auc_error": rms(areas(found) - areas(exact)),
        "gap_counted": gap(*rates_under(rules, exact)),
        "gap_whole": gap(tpr, fpr),
        "balanced_accuracy": balanced_accuracy(tpr, fpr, whole),
        "chosen": float(chosen),
    }


def unmitigated(whole: OperatingPoints) -> tuple[float, float]:
    """Return the gap and the balanced accuracy of the threshold 0.5 for all groups."""
    rates = rates_under(dict.fromkeys(whole.groups, UNMITIGATED), whole)
    return gap(*rates), balanced_accuracy(*rates, whole)


def rms(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def areas(points: OperatingPoints) -> Floats:
    """Return each group's area under its ROC curve, by trapezia, shape (k,); 1/2 where it is undefined."""
    tpr, fpr = points.true_positive_rate, points.false_positive_rate
    found = ((tpr[:, 1:] + tpr[:, :-1]) / 2 * (fpr[:, :-1] - fpr[:, 1:])).sum(axis=1)
    return np.where(np.isnan(found), KNOWS_NOTHING, found)


def rates_under(rules: Mapping[str, ThresholdRule], points: OperatingPoints) -> tuple[Floats, Floats]:
    """Return each group's true and false positive rate under its rule, averaged over the rule's draws.

    Args: points: whose thresholds the rules' are among.
    """
    shares = np.zeros((len(points.groups), len(points.thresholds)))
    for row, group in zip(shares, points.groups, strict=True):
        rule = rules[group]
        row[np.searchsorted(points.thresholds, rule.thresholds)] = rule.probabilities
    rates = (points.true_positive_rate, points.false_positive_rate)
    tpr, fpr = ((shares * rate).sum(axis=1) for rate in rates)
    return tpr, fpr


def gap(tpr: Floats, fpr: Floats) -> float:
    """Return the equalized odds difference: the largest between two groups, in the worse of both rates."""
    return float(max(np.ptp(tpr), np.ptp(fpr)))


def balanced_accuracy(tpr: Floats, fpr: Floats, points: OperatingPoints) -> float:
    """Return the mean of the true positive and the true negative rate of all groups together."""
    positives, negatives = points.positives, points.negatives
    return float((tpr @ positives / positives.sum() + 1 - fpr @ negatives / negatives.sum()) / 2)


def _defined(rates: Floats) -> Floats:
    """Return the rates at the grid's own thresholds: at the ends they are 1 and 0 whatever the data."""
    return np.where(np.isnan(rates[:, 1:-1]), KNOWS_NOTHING, rates[:, 1:-1])
