"""The open problem's noise: its density, and that the numerical figures agree with what is known."""

import itertools

import numpy as np
import pytest

from benchmarks.studies.groupwise import density, sampled


@pytest.mark.parametrize("count", [0, 20, 1000])
def test_density_is_that_of_samples(count: int) -> None:
    drawn = sampled(count, 40_000, np.random.default_rng(count))
    edges = np.quantile(drawn, [0.02, 0.2, 0.5, 0.8, 0.98])
    for low, high in itertools.pairwise(edges):
        y = np.linspace(low, high, 2001)
        mass = np.trapezoid(density(y, count), y)
        seen = ((drawn >= low) & (drawn < high)).mean()
        assert mass == pytest.approx(seen, abs=0.02)  # 8 standard deviations
