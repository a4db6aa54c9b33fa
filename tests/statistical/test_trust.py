"""Errors under each trust model: closed forms against simulated runs.

N runs each. False-alarm rates of 10^-9: a bound that holds with probability 99 % is exceeded in more than
EXCEEDED of N runs with probability exp(-N KL(EXCEEDED, 1 %)) at most (Chernoff); a mean square of N runs is
nearly normal, its deviation sqrt((kurtosis - 1) / N), the kurtosis 6 at most (a single Laplace variable's).
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.trust import MODELS, trust_model

N = 20_000
EXCEEDED = 0.0151
SQUARE = 6.2 * math.sqrt(5 / N)
FAILURE = 0.01

models = pytest.mark.parametrize("name", MODELS)


@models
def test_root_mean_square_is_as_predicted(name: str) -> None:
    model = trust_model(name, Fraction(1))
    clients = 10**6
    square = float(np.mean(model.errors(clients, N, np.random.default_rng(11)) ** 2))
    assert square == pytest.approx(model.deviation(clients) ** 2, rel=SQUARE)
    assert square != pytest.approx((1.15 * model.deviation(clients)) ** 2, rel=SQUARE)


@models
@pytest.mark.parametrize("clients", [1000, 10**6])
def test_bounds_hold(name: str, clients: int) -> None:
    model = trust_model(name, Fraction(1))
    errors = abs(model.errors(clients, N, np.random.default_rng(12)))
    assert np.mean(errors > model.half_width(clients, FAILURE)) <= EXCEEDED


def test_what_is_accepted() -> None:
    x, p = EXCEEDED, FAILURE
    assert N * (x * math.log(x / p) + (1 - x) * math.log((1 - x) / (1 - p))) > math.log(1e9)
