"""Errors of 10^7 simulated clients have the deviation that Eqs. 19 and 20 give them.

N runs against the normal distribution with that deviation: Dvoretzky, Kiefer and Wolfowitz at 10^-9, plus
SLACK for what the distribution of 10^7 clients may differ from the normal one: Berry and Esseen's 0.56
E|x|^3 / (s^3 sqrt(n)) is below 0.001, as n is at least 5 * 10^6 and E|x|^3 / s^3 at most 3.1, of the code's
M_L with its two scales.
"""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.studies.gaps.published import (
    RATE_RANGE,
    Budgets,
    coded_l,
    published_l,
    published_r,
    resampled,
)
from benchmarks.studies.gaps.study import RATES, synthetic_rates
from benchmarks.studies.local_simulation import simulate
from fairshares.protocols.arrays import Floats
from tests.support.distribution import dkw_bound

N = 20_000
SLACK = 0.005
HALF = 5_000_000


def distance(errors: Floats, deviation: float) -> float:
    points = np.sort(errors)
    at = norm.cdf(points / deviation)
    steps = np.arange(len(points) + 1) / len(points)
    return float(max((steps[1:] - at).max(), (at - steps[:-1]).max()))


@pytest.mark.parametrize(
    "budgets",
    [published_r(1.0), published_l(0.1), coded_l(0.1), coded_l(10.0)],
    ids=["M_R", "M_L as printed", "M_L as coded", "M_L as coded, k = 2"],
)
def test_errors_have_the_deviation_of_the_closed_form(budgets: Budgets) -> None:
    values = synthetic_rates().values[RATES[0]]
    population = resampled(values, (HALF, HALF))
    (simulated,) = simulate([budgets.simulable(RATE_RANGE)], population, N, np.random.default_rng(3))
    squares = [float(np.mean((2 * of_sex - 1) ** 2)) for of_sex in values]
    deviation = budgets.variance((HALF, HALF), (squares[0], squares[1])) ** 0.5 * RATE_RANGE.radius
    errors = simulated.estimated_gaps() - simulated.gap()
    bound = dkw_bound(N) + SLACK
    assert distance(errors, deviation) < bound
    assert distance(errors, 0.7 * deviation) > bound
    assert distance(errors, 1.3 * deviation) > bound
