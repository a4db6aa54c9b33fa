"""The example of a Flower federation, without Flower: its clients' training, averaged by hand."""

import numpy as np
import pandas as pd
import pytest

from examples.flower.federation import training
from fairshares import sample_weight
from fairshares.data.loanapp import load_loanapp
from fairshares.harness.reweighing.formulas import weights_of_counts

CLIENTS, SPLITS = 10, range(3)


def federated(split: int, weights: pd.Series | None) -> dict[str, float]:
    rows, model = training.applicants("train", split), training.START
    parts = [rows.iloc[client::CLIENTS] for client in range(CLIENTS)]
    for _ in range(training.ROUNDS):
        trained = []
        for part in parts:
            per_row = None if weights is None else sample_weight(weights, part["group"], part["label"])
            trained.append(training.train_locally(model, part, per_row))
        sizes = [len(part) for part in parts]
        model = [np.average(arrays, axis=0, weights=sizes) for arrays in zip(*trained, strict=True)]
    return training.metrics(model, split)


@pytest.fixture(scope="module")
def weights() -> pd.Series:
    data = load_loanapp()
    counts = data.clients(data.split()[0]).groupby(["group", "label"]).size()
    table = weights_of_counts(counts.unstack().to_numpy(dtype=float), "kamiran-calders")
    return pd.Series(table.ravel(), index=counts.index, name="weight")


def test_weights_narrow_the_gap_of_a_model_that_is_not_constant(weights):
    constant, before, after = (
        pd.DataFrame([judge(split) for split in SPLITS])
        for judge in (
            lambda split: training.metrics(None, split),
            lambda split: federated(split, None),
            lambda split: federated(split, weights),
        )
    )
    assert (constant["demographic_parity_difference"] == 0).all() and (constant["selection_rate"] == 1).all()
    assert (before["balanced_accuracy"] > 0.53).all() and (before["accuracy"] > 0.87).all()
    change = (after - before).mean()
    assert change["demographic_parity_difference"] < 0 and change["equalized_odds_difference"] < 0
    assert abs(change["accuracy"]) < 0.01
    told = training.report(constant, before, after)
    assert "approve everybody" in told and len(told.splitlines()) <= 7
