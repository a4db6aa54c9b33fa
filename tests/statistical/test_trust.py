"""Errors under each trust model: bounds against simulated runs.

N runs each. False-alarm rates of 10^-9: a bound that holds with probability 99 % is exceeded in more than
EXCEEDED of N runs with probability exp(-N KL(EXCEEDED, 1 %)) at most (Chernoff).
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.trust import MODELS, trust_model

N = 20_000
EXCEEDED = 0.0151
FAILURE = 0.01

models = pytest.mark.parametrize("name", MODELS)


@models
@pytest.mark.parametrize("clients", [1000, 10**6])
def test_bounds_hold(name: str, clients: int) -> None:
    model = trust_model(name, Fraction(1))
    errors = abs(model.errors(clients, N, np.random.default_rng(12)))
    assert np.mean(errors > model.half_width(clients, FAILURE)) <= EXCEEDED


def test_what_is_accepted() -> None:
    x, p = EXCEEDED, FAILURE
    assert N * (x * math.log(x / p) + (1 - x) * math.log((1 - x) / (1 - p))) > math.log(1e9)
