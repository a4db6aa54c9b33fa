"""Expected errors of score curves by the cap: what a cap leaves of scores, noise by the tree, thresholds."""

import numpy as np

from benchmarks.studies.capping.errors import (
    Population,
    ScoredClients,
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
