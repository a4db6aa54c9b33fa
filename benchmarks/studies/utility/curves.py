"""Populations with known score curves, samples of them, and how good released curves are.

Samples are histograms of records over score bins. What released curves are worth, and what thresholds
chosen on them do, is a number per repetition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from benchmarks.studies.arrays import Floats, Integers
from harness.errors import UndefinedRateError
from harness.evaluation.before_after import fit, held_out_scores
from harness.evaluation.loanapp import FIXED_SPLIT, load_loanapp
from harness.inputs.record_schema import DEFAULT_THRESHOLDS, Grid, bins_of, even_grid
from harness.postprocessing.curves import GroupCurves, OperatingPoints, exact_curves
from harness.postprocessing.thresholds.choose import choose_thresholds
from harness.postprocessing.thresholds.rules import ThresholdRule

CONSTRAINT, OBJECTIVE = "equalized_odds", "balanced_accuracy_score"
UNMITIGATED = ThresholdRule((0.5,))

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


@dataclass(frozen=True, eq=False)
class Sample:
    """Records that are counted, several times over, and whom they stand for.

    Attributes: histograms: shape (repetitions, k, 2, T), records per group, label (0, 1) and score bin;
    whole: the curves of the population, or of people who were not counted.
    """

    histograms: Integers
    whole: GroupCurves

    def counted(self, repetition: int) -> GroupCurves:
        """Return one repetition's exact curves."""
        return curves_of(self.whole.groups, self.whole.thresholds, cumulative(self.histograms[repetition]))


def cumulative(histograms: npt.NDArray[np.generic]) -> Floats:
    """Return how many records are in each bin and above, and last the total: T + 1 values along the end."""
    above = np.flip(np.cumsum(np.flip(histograms, -1), -1, dtype=np.float64), -1)
    return np.concatenate([above, above[..., :1]], axis=-1)


def curves_of(groups: tuple[str, ...], thresholds: Floats, counts: Floats) -> GroupCurves:
    """Return score curves. Args: counts: shape (k, 2, T + 1), as `cumulative` returns them."""
    negatives, positives = counts[:, 0], counts[:, 1]
    return GroupCurves(
        groups, thresholds, positives[:, :-1], negatives[:, :-1], positives[:, -1], negatives[:, -1]
    )


@dataclass(frozen=True)
class SyntheticPopulation:
    """Groups that differ in size, in how many are positive, and in how well the scores tell them.

    Computes: sizes in proportion to k, k - 1 ... 1. Scores follow Kumaraswamy's distribution, which is
    shaped like the beta distribution and has an elementary tail: P(score >= t) = (1 - t^a)^b. So every
    rate at every threshold is known exactly.
    Args: groups: k, at least 2; thresholds: T, from 0 to 1 in equal steps.
    """

    groups: int
    thresholds: int = DEFAULT_THRESHOLDS
    name = "synthetic"

    def shares(self) -> Floats:
        """Return the share of each group and label, shape (k, 2)."""
        sizes = np.arange(self.groups, 0, -1) / np.arange(1, self.groups + 1).sum()
        positive = np.linspace(0.4, 0.2, self.groups)  # the planted gap
        return np.stack([sizes * (1 - positive), sizes * positive], axis=1)

    def tails(self) -> Floats:
        """Return P(score >= t) for each group, label and threshold, shape (k, 2, T)."""
        t = np.array(even_grid(self.thresholds))
        along = np.linspace(0, 1, self.groups)[:, np.newaxis, np.newaxis]
        # Of negatives and positives, of the largest and the smallest group: (a, b).
        ends = np.array([[(1.2, 3.0), (1.2, 2.0)], [(3.0, 2.0), (2.0, 2.0)]])
        a, b = np.moveaxis((1 - along) * ends[:, 0] + along * ends[:, 1], -1, 0)
        return np.asarray((1 - t ** a[..., np.newaxis]) ** b[..., np.newaxis])

    def sample(self, records: int, repetitions: int, rng: np.random.Generator) -> Sample:
        """Draw records independently, anew for each repetition."""
        in_bins = -np.diff(self.tails(), axis=-1, append=0.0) * self.shares()[..., np.newaxis]
        drawn = rng.multinomial(records, in_bins.ravel() / in_bins.sum(), size=repetitions)
        names = tuple(f"group {i}" for i in range(1, self.groups + 1))
        whole = curves_of(names, np.array(even_grid(self.thresholds)), cumulative(in_bins))
        return Sample(drawn.reshape(repetitions, *in_bins.shape), whole)


@dataclass(frozen=True)
class LoanPopulation:
    """The loan applications: the training applicants' held-out scores are counted, the same each time.

    `whole` is what the model, fitted on the training applicants, says of the test applicants.
    """

    name = "loanapp"
    groups = 2

    def sample(self, _records: int, repetitions: int, _rng: np.random.Generator) -> Sample:
        """Return the same histogram for each repetition; nothing is drawn."""
        histogram, whole = _loan_applications()
        return Sample(np.broadcast_to(histogram, (repetitions, *histogram.shape)), whole)

    @staticmethod
    def records() -> int:
        """Return how many training applicants there are."""
        return int(_loan_applications()[0].sum())


Population = SyntheticPopulation | LoanPopulation


@lru_cache(maxsize=1)
def _loan_applications() -> tuple[Integers, GroupCurves]:
    data, grid = load_loanapp(), even_grid(21)  # as the quickstart; 1,393 applicants do not fill a finer one
    train, test = data.split(FIXED_SPLIT)
    group = np.searchsorted(data.groups, data.sensitive_feature[train])
    counted = histogram_of(group, data.y_true[train], held_out_scores(data, train), grid, len(data.groups))
    unseen = fit(data, train).predict_proba(data.features.iloc[test])[:, 1]
    return counted, exact_curves(data.y_true[test], unseen, data.sensitive_feature[test], data.groups, grid)


def histogram_of(group: Integers, y_true: Integers, y_score: Floats, grid: Grid, groups: int) -> Integers:
    """Count records per group, label and score bin, shape (k, 2, T). Args: group: numbers from 0."""
    counts = np.zeros((groups, 2, len(grid)), dtype=np.int64)
    np.add.at(counts, (group, y_true, bins_of(y_score, grid)), 1)
    return counts


def measure(estimated: GroupCurves, counted: GroupCurves, whole: OperatingPoints) -> dict[str, float]:
    """Return each of `MEASURES` for one repetition.

    Args: counted: exact curves of the records that `estimated` is about; whole: whom they stand for.
    """
    found, exact = estimated.points(), counted.points()
    try:
        rules, chosen = choose_thresholds(estimated, CONSTRAINT, OBJECTIVE).rules, 1.0
    except UndefinedRateError:
        rules, chosen = dict.fromkeys(estimated.groups, UNMITIGATED), 0.0
    tpr, fpr = rates_under(rules, whole)
    of_positives, of_negatives = rates_at_grid(found) - rates_at_grid(exact)
    return {
        "count_rmse": _rms(np.array([estimated.tp - counted.tp, estimated.fp - counted.fp])),
        "tpr_rmse": _rms(of_positives),
        "fpr_rmse": _rms(of_negatives),
        "auc_error": _rms(found.area_under_curve - exact.area_under_curve),
        "gap_counted": gap(*rates_under(rules, exact)),
        "gap_whole": gap(tpr, fpr),
        "balanced_accuracy": balanced_accuracy(tpr, fpr, whole),
        "chosen": chosen,
    }


def unmitigated(whole: OperatingPoints) -> tuple[float, float]:
    """Return the gap and the balanced accuracy of the threshold 0.5 for all groups."""
    rates = rates_under(dict.fromkeys(whole.groups, UNMITIGATED), whole)
    return gap(*rates), balanced_accuracy(*rates, whole)


def _rms(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def rates_under(rules: Mapping[str, ThresholdRule], points: OperatingPoints) -> tuple[Floats, Floats]:
    """Return each group's true and false positive rate, (k,) each, averaged over its rule's draws.

    Args: points: whose thresholds the rules' are among.
    """
    shares = np.zeros((len(points.groups), len(points.thresholds)))
    for row, group in zip(shares, points.groups, strict=True):
        rule = rules[group]
        row[np.searchsorted(points.thresholds, rule.thresholds)] = rule.probabilities
    return (
        (shares * points.true_positive_rate).sum(axis=1),
        (shares * points.false_positive_rate).sum(axis=1),
    )


def gap(tpr: Floats, fpr: Floats) -> float:
    """Return the equalized odds difference: the largest between two groups, in the worse of both rates."""
    return float(max(np.ptp(tpr), np.ptp(fpr)))


def balanced_accuracy(tpr: Floats, fpr: Floats, points: OperatingPoints) -> float:
    """Return the mean of the true positive and the true negative rate of all groups together."""
    positives, negatives = points.positives, points.negatives
    return float((tpr @ positives / positives.sum() + 1 - fpr @ negatives / negatives.sum()) / 2)


def rates_at_grid(points: OperatingPoints) -> Floats:
    """Return true and false positive rates at the grid's own thresholds: shape (2, k, bins).

    At the ends, which are left out, they are 1 and 0 whatever the data; where there is no rate it is 1/2.
    """
    rates = np.array([points.true_positive_rate, points.false_positive_rate])
    return np.asarray(np.nan_to_num(rates[..., 1:-1], nan=0.5))
