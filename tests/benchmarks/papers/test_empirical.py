"""Estimates from samples: intervals hold as often as they say, and bound the exact delta from below."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from benchmarks.papers.empirical import Tally, chernoff_interval, estimate_delta
from fairshares.protocols.accounting.exact_privacy import curve_of_distribution

DISTRIBUTION = {-1: Fraction(1, 4), 0: Fraction(1, 2), 1: Fraction(1, 4)}


@pytest.mark.parametrize("n", [10, 1000, 10**6])
@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.5, 1])
@pytest.mark.parametrize("miss", [0.05, 1e-9])
def test_interval_holds_the_exact_one(n: int, share: float, miss: float) -> None:
    """Clopper and Pearson's, which is exact for a binomial count, lies inside."""
    hits = round(share * n)
    low, high = chernoff_interval(hits / n, math.log(1 / miss) / n)
    assert 0 <= low <= (beta.ppf(miss, hits, n - hits + 1) if hits else 0) + 1e-9
    assert 1 >= high >= (beta.ppf(1 - miss, hits + 1, n - hits) if hits < n else 1) - 1e-9


def test_confidence_is_shared_by_four_tails() -> None:
    """Half of 10 000 samples, none if moved: 5000 +- sqrt(n ln(4e9) / 2), and at most ln(4e9) if moved."""
    n, log = 10_000, math.log(4e9)
    estimate = estimate_delta(Tally(n, n // 2, 0), 0.0, 1 - 1e-9)
    assert estimate.low == pytest.approx(0.5 - math.sqrt(log / (2 * n)) - log / n, rel=1e-3)
    assert estimate.high == pytest.approx(0.5 + math.sqrt(log / (2 * n)), rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_estimate_is_below_the_exact_delta_and_near(seed: int) -> None:
    """100 000 samples; fails with probability 10^-9 at most for each seed."""
    ratio = math.exp(0.25)
    samples = np.random.default_rng(seed).choice(
        list(DISTRIBUTION), 100_000, p=[float(mass) for mass in DISTRIBUTION.values()]
    )
    event = [-1, 0]  # whose masses are 3/4, and 1/4 under the neighbour
    tally = Tally(len(samples), int(np.isin(samples, event).sum()), int(np.isin(samples + 1, event).sum()))
    estimate = estimate_delta(tally, 0.25, 1 - 1e-9)
    exact = float(curve_of_distribution(DISTRIBUTION, [1]).delta(Fraction(ratio)))
    assert estimate.low <= exact <= estimate.high
    assert estimate.high - estimate.low < 0.06
