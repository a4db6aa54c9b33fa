"""Populations with known score curves, and samples of their records as histograms over score bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from data.loanapp import FIXED_SPLIT, load_loanapp
from harness.evaluation.splits import fit, held_out_scores
from harness.inputs.record_schema import DEFAULT_THRESHOLDS, Grid, bins_of, even_grid
from harness.postprocessing.curves import GroupCurves, exact_curves

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LOAN_THRESHOLDS = 21  # 1,393 applicants do not fill a finer grid; the quickstart's

# Of the largest and of the smallest group, those between evenly spaced: the planted gap.
_POSITIVE_SHARE = (0.4, 0.2)
_OF_POSITIVES = ((3.0, 2.0), (2.0, 2.0))  # shape (a, b) of the scores, see `SyntheticPopulation`
_OF_NEGATIVES = ((1.2, 3.0), (1.2, 2.0))


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

    @property
    def grid(self) -> Grid:
        return even_grid(self.thresholds)

    def shares(self) -> Floats:
        """Return the share of each group and label, shape (k, 2)."""
        sizes = np.arange(self.groups, 0, -1) / np.arange(1, self.groups + 1).sum()
        positive = np.linspace(*_POSITIVE_SHARE, self.groups)
        return np.stack([sizes * (1 - positive), sizes * positive], axis=1)

    def tails(self) -> Floats:
        """Return P(score >= t) for each group, label and threshold, shape (k, 2, T)."""
        t, along = np.array(self.grid), np.linspace(0, 1, self.groups)[:, np.newaxis, np.newaxis]
        ends = np.array([_OF_NEGATIVES, _OF_POSITIVES])  # (label, largest or smallest group, a or b)
        a, b = np.moveaxis((1 - along) * ends[:, 0] + along * ends[:, 1], -1, 0)
        return np.asarray((1 - t ** a[..., np.newaxis]) ** b[..., np.newaxis])

    def sample(self, records: int, repetitions: int, rng: np.random.Generator) -> Sample:
        """Draw records independently, anew for each repetition."""
        in_bins = -np.diff(self.tails(), axis=-1, append=0.0) * self.shares()[..., np.newaxis]
        drawn = rng.multinomial(records, in_bins.ravel() / in_bins.sum(), size=repetitions)
        names = tuple(f"group {i}" for i in range(1, self.groups + 1))
        whole = curves_of(names, np.array(self.grid), cumulative(in_bins))
        return Sample(drawn.reshape(repetitions, *in_bins.shape), whole)


@dataclass(frozen=True)
class LoanPopulation:
    """The loan applications: the training applicants' held-out scores are counted, the same each time.

    `whole` is what the model, fitted on the training applicants, says of the test applicants.
    """

    name = "loanapp"
    groups = 2

    def sample(self, _records: int, repetitions: int, _rng: np.random.Generator) -> Sample:
        histogram, whole = _loan_applications()
        return Sample(np.broadcast_to(histogram, (repetitions, *histogram.shape)), whole)

    @staticmethod
    def records() -> int:
        return int(_loan_applications()[0].sum())


Population = SyntheticPopulation | LoanPopulation


@lru_cache(maxsize=1)
def _loan_applications() -> tuple[Integers, GroupCurves]:
    data, grid = load_loanapp(), even_grid(LOAN_THRESHOLDS)
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
