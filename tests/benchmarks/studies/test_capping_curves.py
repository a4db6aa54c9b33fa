"""Expected errors of score curves by the cap: what a cap leaves of scores, noise by the tree, thresholds."""

import numpy as np
import pytest

from benchmarks.studies.capping.errors import (
    CURVES,
    RATES,
    THRESHOLDS,
    ExpectedCurveErrors,
    Population,
    ScoredClients,
    lognormal,
    tree_of_curves,
)


def test_a_cap_leaves_records_of_each_client_with_their_scores() -> None:
    """A score of a client that is cut is kept as often as any of its records."""
    two = Population("two", np.array([0, 1]), np.array([[30, 20], [200, 200]]))
    scored = ScoredClients(two, np.random.default_rng(1))
    np.testing.assert_array_equal(scored.histogram.sum(axis=-1), two.table)
    draws = 500
    kept = scored.capped(40, draws, np.random.default_rng(2))
    assert (kept <= scored.histogram).all() and (kept.sum(axis=(2, 3)) == 40).all()
    expected = np.array([40 / 50, 40 / 400])[:, np.newaxis, np.newaxis] * scored.histogram
    assert (np.abs(kept.mean(axis=0) - expected) < 6 * np.sqrt(np.maximum(expected, 1) / draws)).all()
    np.testing.assert_array_equal(scored.capped(399, 1, np.random.default_rng(3))[0, 0], scored.histogram[0])


def test_errors_of_curves() -> None:
    """At a cap that leaves all, noise errs as the tree's variance says; at a small one, bias remains."""
    found = ExpectedCurveErrors(lognormal(1000, 1.0, 1), (1, 1000), np.random.default_rng(1))
    large, small = found.at(100.0), found.at(1.0, noise_alone=False)
    tree, scale = tree_of_curves(), 2 * 1000 / 100.0
    expected = np.sqrt(tree.mean_variance() * (2 * scale**2))  # two-sided geometric, little rounded
    counts = large[CURVES]
    assert 0.6 * expected < counts["noise"].iloc[1] < expected  # a mean of absolute values, over thresholds
    assert counts["bias"].iloc[1] == 0 and counts["total"].iloc[1] == counts["noise"].iloc[1]
    for quantity in (CURVES, RATES, THRESHOLDS):
        assert large[quantity]["bias"].iloc[0] > 5 * large[quantity]["bias"].iloc[1]
        assert small[quantity]["total"].iloc[1] > 2 * large[quantity]["total"].iloc[1]
        np.testing.assert_array_equal(small[quantity]["bias"], large[quantity]["bias"])
    assert large[RATES]["bias"].iloc[1] == 0 and large[THRESHOLDS]["bias"].iloc[1] == pytest.approx(
        0, abs=1e-9
    )
    assert large[THRESHOLDS]["total"].iloc[0] == pytest.approx(large[THRESHOLDS]["bias"].iloc[0], abs=0.01)
    assert np.isnan(small[RATES]["noise"]).all() and np.isnan(large[THRESHOLDS]["noise"]).all()
