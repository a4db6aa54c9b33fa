"""Weights of groups while a model is trained: FairGrad's, within the norm that noise is made for."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairshares.harness.errors import OptionError
from fairshares.harness.inputs.updates import UpdateRule, units_for
from fairshares.harness.training.fairness import FAIRNESS, OF_TWO_LABELS, FairGrad
from fairshares.harness.training.logistic import Descent, Examples, fit, probabilities, with_constant
from fairshares.protocols.accounting.calibration import PrivacyUnit

RECORD, CLIENT = PrivacyUnit.RECORD, PrivacyUnit.CLIENT


def constants(fairness: str, n: np.ndarray, positive: int):
    """Return C_k0 and C_kk' of the paper, section 3.1, for error rates; gaps that are alike once."""
    groups, labels = n.shape
    cells = [(s, y) for s in range(groups) for y in range(labels)]
    rows: list[tuple[float, list[float]]] = []
    wanted = {"equal_opportunity": {positive}, "false_positive_rate_parity": {1 - positive}}
    if fairness == "equalized_odds" or fairness in wanted:
        for s, y in cells:
            if y in wanted.get(fairness, range(labels)):
                of_label = n[:, y].sum()
                rows.append((0.0, [(y == y2) * (n[s2, y2] / of_label - (s == s2)) for s2, y2 in cells]))
    else:
        parity = fairness == "demographic_parity"
        for s in range(groups):
            row = [n[s2, y2] * (1 / n.sum() - (s == s2) / n[s].sum()) for s2, y2 in cells]
            if parity:
                row = [value if y2 == positive else -value for value, (_, y2) in zip(row, cells, strict=True)]
            first = n[s, positive] / n[s].sum() - n[:, positive].sum() / n.sum() if parity else 0.0
            rows.append((first, row))
    return np.array([first for first, _ in rows]), np.array([row for _, row in rows])


@pytest.mark.parametrize(
    ("fairness", "labels"),
    [(notion, 2) for notion in FAIRNESS]
    + [(notion, 3) for notion in FAIRNESS if notion not in OF_TWO_LABELS],
)
def test_weights_are_the_papers(fairness: str, labels: int) -> None:
    rng = np.random.default_rng(7)
    n = rng.integers(50, 500, (3, labels)).astype(float)
    fairgrad = FairGrad(fairness, 3, labels, positive=1, step=0.01)
    first, matrix = constants(fairness, n, positive=1)
    counts, multipliers = np.zeros(fairgrad.cells), np.zeros(len(first))
    for rounds in range(1, 9):
        wrong = np.floor(n * rng.random(n.shape))
        counts += np.stack([n - wrong, wrong]).ravel()
        multipliers += 0.01 * (first + matrix @ (wrong / n).ravel())
        shares = (n / n.sum()).ravel()
        expected = (shares + multipliers @ matrix) / shares
        weights = fairgrad.weights(0.3 * counts, rounds)  # whatever a count's unit is
        assert weights.ravel() == pytest.approx(expected)


def records(n: int = 4000, clients: int = 500) -> Examples:
    """Return records of two groups whose labels the features predict, and the group, too."""
    rng = np.random.default_rng(3)
    group = (rng.random(n) < 0.3).astype(np.int64)
    features = np.column_stack([rng.uniform(-1, 1, (n, 2)), 2.0 * group - 1])
    label = (rng.logistic(size=n) < features @ [3.0, 1.0, 1.0]).astype(np.int64)
    return Examples(features, label, rng.integers(0, clients, n), clients, 2, None, group)


def gap(of: Examples, parameters: np.ndarray, fairness: str) -> float:
    assert of.group is not None
    predicted = probabilities(parameters, with_constant(of.features)).argmax(axis=1)
    counted = predicted == of.label if fairness == "accuracy_parity" else predicted
    labels = {"equalized_odds": (0, 1), "equal_opportunity": (1,), "false_positive_rate_parity": (0,)}
    wanted = labels.get(fairness, (None,))
    masks = [np.full(len(counted), True) if label is None else of.label == label for label in wanted]
    return max(
        abs(counted[mask & (of.group == 1)].mean() - counted[mask & (of.group == 0)].mean()) for mask in masks
    )


def exact_sum(rows: np.ndarray) -> np.ndarray:
    return rows.sum(axis=0)


@pytest.mark.parametrize("unit", PrivacyUnit)
@pytest.mark.parametrize("fairness", [notion for notion in FAIRNESS if notion != "accuracy_parity"])
def test_without_noise_the_gap_closes(fairness: str, unit: PrivacyUnit) -> None:
    of = records()
    how = Descent(400, clip=10.0, largest_weight=20.0, learning_rate=0.1 if unit is RECORD else 1.0)
    fairgrad = FairGrad(fairness, 2, 2, positive=1, step=0.01)
    plain, fair = (fit(of, exact_sum, how, unit, weighting) for weighting in (None, fairgrad))
    assert gap(of, plain, fairness) > 0.15
    assert gap(of, fair, fairness) < 0.03


@given(
    seed=st.integers(0, 10**6),
    unit=st.sampled_from(PrivacyUnit),
    clip=st.floats(0.01, 10),
    largest_weight=st.floats(0.1, 5),
    share=st.floats(0.01, 0.9),
    labels=st.integers(2, 3),
)
def test_an_update_and_its_counts_move_the_sum_no_farther_than_declared(
    *, seed: int, unit: PrivacyUnit, clip: float, largest_weight: float, share: float, labels: int
) -> None:
    """Weights below 0 and beyond the cap, of whatever groups: the noise is made for the norm of both."""
    rng = np.random.default_rng(seed)
    size, clients = 30, 7
    label, group = rng.integers(0, labels, size), rng.integers(0, 2, size)
    features = rng.uniform(-1, 1, (size, 3))
    of = Examples(features, label, rng.integers(0, clients, size), clients, labels, None, group)
    fairgrad = FairGrad("equalized_odds", 2, labels, 0, share=share)
    weights = rng.normal(0, 10, (2, labels))
    rows = of.updates(
        rng.normal(0, 3, of.shape), clip, largest_weight, unit, fairgrad=fairgrad, weights=weights
    )
    norm = clip * largest_weight
    length = math.hypot(norm, fairgrad.unit(norm))
    assert length == pytest.approx(norm / math.sqrt(1 - share))
    assert np.linalg.norm(rows, axis=1).max() <= length * (1 + 1e-12)
    d = rows.shape[1]
    assert d == of.shape[0] * of.shape[1] + fairgrad.cells
    rule = UpdateRule(d, length, 1.0, units_for(d, 1.0), unit, unit)
    assert (rule.encode(rows) ** 2).sum(axis=1).max() <= rule.squares
    unclipped = np.rint(rows / length * rule.units)
    assert np.abs(rule.encode(rows) - unclipped).max() <= 1  # so that none is cut again


@pytest.mark.parametrize("unit", PrivacyUnit)
def test_counts_are_of_what_the_rounds_model_gets_right(unit: PrivacyUnit) -> None:
    of = records(200, 20)
    assert of.group is not None
    fairgrad = FairGrad("equalized_odds", 2, 2, positive=1)
    parameters = np.array([[1.0, 0.0, 0.0, 0.0]])
    rows = of.updates(parameters, 1.0, 2.0, unit, fairgrad=fairgrad)[:, -fairgrad.cells :] / fairgrad.unit(
        2.0
    )
    right = (of.features[:, 0] > 0) == of.label
    weight = np.ones(200) if unit is RECORD else 1 / np.bincount(of.client, minlength=20)[of.client]
    expected = [
        weight[(right == told) & (of.group == s) & (of.label == y)].sum()
        for told in (True, False)
        for s in (0, 1)
        for y in (0, 1)
    ]
    assert rows.sum(axis=0) == pytest.approx(expected)


def test_weights_are_numbers_whatever_noise_says() -> None:
    fairgrad = FairGrad("demographic_parity", 3, 2, positive=1)
    for counts in (np.zeros(12), -np.ones(12), np.array([1e300, -1e300] * 6)):
        assert np.isfinite(fairgrad.weights(counts, 40)).all()


@pytest.mark.parametrize("fairness", OF_TWO_LABELS)
def test_what_does_not_follow_from_accuracies_takes_two_labels(fairness: str) -> None:
    with pytest.raises(OptionError, match=rf"{fairness} takes two labels, not 3"):
        FairGrad(fairness, 2, 3, positive=1)
