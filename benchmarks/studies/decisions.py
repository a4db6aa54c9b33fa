"""The price of decisions for which nobody looks up a person's group: one threshold for all.

Mortgage applicants' curves are released as in the quickstart. Rules are chosen on them, and judged on the
other applicants, whose groups the rules of the last kind do not take.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.studies.outcome import SUMMARY, StudyResult
from benchmarks.studies.utility.curves import TREE, computed, curves_of, histogram_of
from fairshares.data.loanapp import load_loanapp
from fairshares.harness.errors import InfeasibleError, TooNoisyError, UndefinedRateError
from fairshares.harness.evaluation.before_after import (
    Fold,
    Mitigation,
    Thresholded,
    evaluate,
    held_out_scores,
    summary,
)
from fairshares.harness.inputs.record_schema import even_grid
from fairshares.harness.postprocessing.curves import GroupCurves
from fairshares.harness.postprocessing.thresholds.choose import choose_thresholds
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.postprocessing.thresholds.search import BALANCED_ACCURACY
from fairshares.harness.views.parts import Part, Table
from fairshares.protocols.accounting.calibration import NeighboringRelation

EPSILON = Fraction(3)  # the epsilon that the quickstart spends on curves
GRID = even_grid(21)  # the quickstart's grid
SHOWN = ("accuracy", "balanced_accuracy", "equalized_odds_difference", "demographic_parity_difference")

OWN = "own group's thresholds"
FOR_ALL = {  # the balanced accuracy that may be given up for a smaller gap
    0.0: "one threshold for all, the most accurate",
    0.05: "one threshold for all, up to 0.05 less accurate",
    0.1: "one threshold for all, up to 0.1 less accurate",
}


def threshold_for_all(curves: pd.DataFrame, lost: float) -> float:
    """Return a single threshold for all groups, with the least worst gap among accurate enough ones.

    Computes: argmin of the largest difference between groups in a rate, over the thresholds whose balanced
    accuracy is at most `lost` below the best. Without that bound it would accept everybody or nobody.

    Args:
        curves: The columns true_positives and false_positives by (group, threshold), as in a
            `ThresholdsResult`. The least threshold is 0, and counts everybody.
        lost: How much balanced accuracy may be given up, from 0 to 1.
    """
    counts = curves[["true_positives", "false_positives"]]
    everybody = counts.groupby("threshold").sum()
    rates = everybody / everybody.iloc[0]
    balanced = (1 + rates.true_positives - rates.false_positives) / 2
    of_groups = (counts / counts.groupby("group").transform("first")).groupby("threshold")
    gap = (of_groups.max() - of_groups.min()).max(axis="columns")
    return float(gap[balanced >= balanced.max() - lost].idxmin())


@lru_cache(maxsize=1)
def released_curves(fold: Fold) -> GroupCurves:
    """Return curves of the training applicants with a release's noise, which depends on the split alone."""
    data = fold.data
    group = np.searchsorted(data.groups, data.sensitive_feature[fold.train])
    scores = held_out_scores(data, fold.train)
    histogram = histogram_of(group, data.y_true[fold.train], scores, GRID, len(data.groups))
    release = computed(TREE, len(GRID), EPSILON, NeighboringRelation.REPLACE_ONE)
    (counts,) = release.estimate(histogram[np.newaxis], np.random.default_rng(fold.seed))
    return replace(curves_of(data.groups, np.array(GRID), counts), noise=release.noise)


def table_of(curves: GroupCurves) -> pd.DataFrame:
    """Return curves as `ThresholdsResult.curves` has them."""
    index = pd.MultiIndex.from_product([curves.groups, curves.thresholds], names=["group", "threshold"])
    columns = {"true_positives": curves.tp.ravel(), "false_positives": curves.fp.ravel()}
    return pd.DataFrame(columns, index)


class OwnGroups(Thresholded):
    """Each group's own thresholds, as the quickstart chooses them; 0.5 where noise hides a group."""

    def rules(self, fold: Fold) -> Mapping[str, ThresholdRule]:
        try:
            return choose_thresholds(released_curves(fold), "equalized_odds", BALANCED_ACCURACY, 0.0).rules
        except (UndefinedRateError, TooNoisyError, InfeasibleError):
            return dict.fromkeys(fold.data.groups, ThresholdRule((0.5,)))


@dataclass(frozen=True)
class ForAll(Thresholded):
    """The same threshold for all groups.

    Args:
        lost: How much balanced accuracy may be given up for a smaller gap.
    """

    lost: float

    def rules(self, fold: Fold) -> Mapping[str, ThresholdRule]:
        threshold = threshold_for_all(table_of(released_curves(fold)), self.lost)
        return dict.fromkeys(fold.data.groups, ThresholdRule((threshold,)))


def study(splits: range, progress: Callable[[int, int], None]) -> StudyResult:
    """Judge the model's own decisions, and those by each kind of rule."""
    mitigations: dict[str, Mitigation] = {OWN: OwnGroups()}
    mitigations |= {name: ForAll(lost) for lost, name in FOR_ALL.items()}
    runs = evaluate(load_loanapp(), mitigations, splits, progress)
    table = summary(runs)
    means = table.pivot_table("mean", "model", "metric", sort=False)
    deviations = table.pivot_table("std", "model", "metric", sort=False)
    rows = []
    for model in means.index:
        cells = [f"{means.loc[model, name]:.3f} ± {deviations.loc[model, name]:.3f}" for name in SHOWN]
        rows.append([str(model), *cells])
    parts: list[Part] = [
        Table(["decisions by", *(name.replace("_", " ") for name in SHOWN)], rows),
        f"Mean and standard deviation over {len(splits)} splits of the mortgage applications. Computed in "
        f"the clear, on public data: curves have the noise of a release at ε = {EPSILON}, and no guarantee.",
    ]
    samples: Any = runs.astype(object).where(runs.notna(), None).to_dict("records")
    return StudyResult(
        {"epsilon": int(EPSILON), "splits": len(splits)},
        table.astype(object).where(table.notna(), None).to_dict("records"),
        parts,
        samples,
        {SUMMARY: table},
    )
