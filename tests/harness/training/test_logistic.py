"""Logistic regression on noisy sums: what an update may be, where training ends, and what clipping does."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import LogisticRegression

from fairshares.harness.training.logistic import Descent, Examples, fit, probabilities, with_constant
from fairshares.protocols.accounting.calibration import PrivacyUnit

RECORD, CLIENT = PrivacyUnit.RECORD, PrivacyUnit.CLIENT


def examples(seed: int, labels: int = 2, records: int = 400, clients: int = 90) -> Examples:
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (records, 3))
    scores = features @ rng.normal(0, 2, (3, labels)) + rng.gumbel(size=(records, labels))
    weight = rng.uniform(0.2, 3, records)
    client = rng.integers(0, clients, records)
    return Examples(features, scores.argmax(axis=1), client, clients, labels, weight)


def weights(of: Examples):
    assert of.weight is not None
    return of.weight


def exact_sum(updates):
    return updates.sum(axis=0)


@pytest.mark.parametrize("labels", [2, 4])
def test_clip_then_weigh_is_weighted_logistic_regression_where_the_norm_is_large(labels):
    of = examples(1, labels)
    parameters = fit(of, exact_sum, Descent(3000, 100.0, 3.0, 0.02), RECORD)
    oracle = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000)
    oracle.fit(of.features, of.label, sample_weight=weights(of))
    expected = oracle.predict_proba(of.features)
    assert np.abs(probabilities(parameters, with_constant(of.features)) - expected).max() < 1e-3


@given(
    st.integers(0, 10**6),
    st.sampled_from([RECORD, CLIENT]),
    st.floats(1e-3, 50),
    st.floats(1e-3, 5),
    st.integers(2, 4),
)
def test_no_update_is_longer_than_declared(seed, unit, clip, largest_weight, labels):
    of = examples(seed, labels, records=30, clients=12)
    parameters = np.random.default_rng(seed).normal(0, 5, of.shape)
    rows = of.updates(parameters, clip, largest_weight, unit)
    assert rows.shape == (30 if unit is RECORD else 12, parameters.size)
    assert np.linalg.norm(rows, axis=1).max() <= clip * largest_weight * (1 + 1e-12)


def test_a_client_without_records_adds_nothing():
    of = Examples(np.ones((2, 1)), np.array([0, 1]), np.array([2, 2]), 4, 2)
    rows = of.updates(np.zeros((1, 2)), 1.0, 1.0, CLIENT)
    assert rows.shape == (4, 2) and not rows[[0, 1, 3]].any()
