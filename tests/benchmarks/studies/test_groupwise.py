"""The open problem's noise: its density, and that the numerical figures agree with what is known."""

import itertools

import numpy as np
import pytest

from benchmarks.studies.groupwise import PROVEN_RHO, density, numerical_rho, sampled


@pytest.mark.parametrize("count", [0, 20, 1000])
def test_density_is_that_of_samples(count: int) -> None:
    drawn = sampled(count, 40_000, np.random.default_rng(count))
    edges = np.quantile(drawn, [0.02, 0.2, 0.5, 0.8, 0.98])
    for low, high in itertools.pairwise(edges):
        y = np.linspace(low, high, 2001)
        mass = np.trapezoid(density(y, count), y)
        seen = ((drawn >= low) & (drawn < high)).mean()
        assert mass == pytest.approx(seen, abs=0.02)  # 8 standard deviations


def test_near_zero_it_is_about_the_first_stage_s_and_falls_with_the_count() -> None:
    """The first stage's rho is proven, so what is above it here is numerical error: 6 % at 0."""
    found = [numerical_rho(count) for count in (0, 10, 50, 300)]
    assert found == sorted(found, reverse=True)
    assert 0.9 * PROVEN_RHO < found[0] < 1.06 * PROVEN_RHO
    assert PROVEN_RHO == 1 / 200
