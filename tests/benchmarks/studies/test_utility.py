"""The utility study: measures on curves whose figures are visible fractions; no noise, no error."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.studies.utility.curves import (
    MEASURES,
    Sample,
    cumulative,
    curves_of,
    measure,
)
from fairshares.harness.inputs.record_schema import even_grid
from fairshares.harness.postprocessing.curves import GroupCurves

GROUPS = ("a", "b")
GRID = np.array([0.0, 0.5, 1.0])


def curves(tp: list[list[float]], fp: list[list[float]]) -> GroupCurves:
    """Return curves of two groups; the first count of each is its total."""
    positives, negatives = np.array(tp, dtype=float), np.array(fp, dtype=float)
    return GroupCurves(GROUPS, GRID, positives, negatives, positives[:, 0], negatives[:, 0])


# Rates at thresholds 0, 1/2, 1 and none: a: TPR 1, 3/4, 0; FPR 1, 1/4, 0. b: TPR 1, 1/2, 0; FPR 1, 1/2, 0.
EXACT = curves([[4, 3, 0], [10, 5, 0]], [[8, 2, 0], [10, 5, 0]])


def test_errors_by_hand() -> None:
    """One count of a's positives is 2 off, of 4: at the one inner threshold but 1 its rate is off by 1/2."""
    errors = measure(curves([[4, 1, 0], [10, 5, 0]], [[8, 2, 0], [10, 5, 0]]), EXACT, EXACT.points())
    assert set(errors) == set(MEASURES)
    assert errors["count_rmse"] == pytest.approx((2**2 / 12) ** 0.5)
    assert errors["tpr_rmse"] == pytest.approx((0.5**2 / 4) ** 0.5)  # two groups, thresholds 1/2 and 1
    assert errors["fpr_rmse"] == 0
    assert errors["auc_error"] == pytest.approx((0.25**2 / 2) ** 0.5)  # a's area falls from 3/4 to 1/2
    assert errors["chosen"] == 1


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    groups, bins = draw(st.integers(2, 4)), draw(st.integers(2, 12))
    histogram = draw(arrays(np.int64, (1, groups, 2, bins), elements=st.integers(0, 60)))
    histogram[..., 0] += 1  # nobody's rates are 0/0
    whole = curves_of(tuple("abcd"[:groups]), np.array(even_grid(bins)), np.ones((groups, 2, bins + 1)))
    return Sample(histogram, whole)


@settings(deadline=None, max_examples=30)
@given(samples())
def test_without_noise_errors_are_zero_and_the_gap_is_what_choosing_leaves(sample: Sample) -> None:
    """Choosing leaves 2 * 10^-4, or one record's share, as `choose_thresholds` says."""
    counts = cumulative(sample.histograms)[0]
    exact = sample.counted(0)
    measured = measure(curves_of(exact.groups, exact.thresholds, counts), exact, exact.points())
    assert [measured[name] for name in ("count_rmse", "tpr_rmse", "fpr_rmse", "auc_error")] == [0, 0, 0, 0]
    fewest = min(exact.positives.min(), exact.negatives.min())
    assert measured["gap_counted"] == measured["gap_whole"] <= max(2e-4, 1 / fewest) + 1e-9
    assert measured["chosen"] == 1
