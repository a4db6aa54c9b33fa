"""A client's computation on rows that are made up, and the assessment of models."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

FEATURES = 3
ROWS = 20  # of a client
STEP = 2.0
CLIP = 2.0  # of a model's change
START = np.zeros(FEATURES + 1)
TRUTH = np.array([1.0, -1.0, 0.5, 0.2])  # coefficients and intercept by which rows are made up


def rows_of(number: int) -> tuple[Array, Array]:
    """Return a client's made-up inputs and labels.

    The inputs have the shape (ROWS, FEATURES + 1). Their last column is 1.
    """
    rng = np.random.default_rng(number)
    inputs = np.column_stack([rng.normal(size=(ROWS, FEATURES)), np.ones(ROWS)])
    probabilities = 1 / (1 + np.exp(-inputs @ TRUTH * 3))
    labels = rng.random(ROWS) < probabilities
    return inputs, labels.astype(np.float64)


def train_locally(model: Array, number: int) -> Array:
    """Return a model that has taken a step along the gradient of the log-likelihood of a client's rows."""
    inputs, labels = rows_of(number)
    probabilities = 1 / (1 + np.exp(-inputs @ model))
    return np.asarray(model + STEP * (labels - probabilities) @ inputs / ROWS)


def accuracy(model: Array) -> float:
    """Return the share of right answers on rows of 100 clients who did not train."""
    others = range(10**6, 10**6 + 100)
    right_rows = 0
    for number in others:
        inputs, labels = rows_of(number)
        right_rows += int(((inputs @ model > 0) == labels).sum())
    return right_rows / (len(others) * ROWS)
