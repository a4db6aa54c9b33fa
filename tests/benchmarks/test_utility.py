"""The noise-free column of the utility benchmark is exact, whatever the records."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.studies.utility.measures import measure
from benchmarks.studies.utility.populations import Sample, curves_of
from benchmarks.studies.utility.releases import NOISE_FREE, release_for
from harness.inputs.record_schema import even_grid
from protocols.accounting.calibration import NeighboringRelation


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    groups, bins = draw(st.integers(2, 4)), draw(st.integers(2, 12))
    histogram = draw(arrays(np.int64, (1, groups, 2, bins), elements=st.integers(0, 60)))
    histogram[..., 0] += 1  # nobody's rates are 0/0
    names = tuple("abcd"[:groups])
    whole = curves_of(names, np.array(even_grid(bins)), np.ones((groups, 2, bins + 1)))
    return Sample(histogram, whole)


@settings(deadline=None, max_examples=30)
@given(samples())
def test_without_noise_errors_are_zero_and_the_gap_is_what_choosing_leaves(sample: Sample) -> None:
    """Choosing leaves 2 * 10^-4, or one record's share, as `choose_thresholds` says."""
    groups, _, bins = sample.histograms.shape[1:]
    release = release_for(NOISE_FREE, bins, groups, 100, Fraction(1), NeighboringRelation.REPLACE_ONE)
    counts = release.estimate(sample.histograms, np.random.default_rng(0))[0]
    exact = sample.counted(0)
    estimated = curves_of(exact.groups, exact.thresholds, counts)
    found = measure(estimated, exact, exact.points())
    assert [found[name] for name in ("count_rmse", "tpr_rmse", "fpr_rmse", "auc_error")] == [0, 0, 0, 0]
    fewest = min(exact.positives.min(), exact.negatives.min())
    assert found["gap_counted"] == found["gap_whole"] <= max(2e-4, 1 / fewest) + 1e-9
    assert found["chosen"] == 1
