"""Samplers as the command offers them, and how opened samples are held against their exact distribution."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import isclose

import pytest

from fairshares.harness.engines.execution import EngineResult
from fairshares.harness.errors import OptionError, OutputError
from fairshares.harness.pipeline.noise_samples import _read as read
from fairshares.harness.releases.noise_samples import Sampler, distance, joint_sampler, summarise
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.exact_privacy import curve_of_distribution
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.noise import truncated as noise
from fairshares.protocols.spec import PI_LAP

pytestmark = pytest.mark.usefixtures("in_shell")

EPSILON, DELTA = Fraction(1), Fraction(1, 2**40)


@cache
def distribution() -> Mapping[int, Fraction]:
    """Return the exact probability of every value that joint noise takes."""
    return noise.probability_mass(design_coins(EPSILON, 40))


def sampler_of() -> Sampler:
    return joint_sampler(EPSILON, DELTA)


def test_a_sampler_is_its_distribution() -> None:
    sampler, masses = sampler_of(), distribution()
    mean = sum(p * x for x, p in masses.items())
    assert sampler.spec is PI_LAP and sampler.center == mean
    assert sampler.mean_square == sum(p * (x - mean) ** 2 for x, p in masses.items())
    assert sampler.edges == (min(masses), max(masses))
    for x in sorted(masses)[:: max(1, len(masses) // 50)]:
        assert sampler.cumulative(x) == sum(p for value, p in masses.items() if value <= x)
    assert sampler.cumulative(min(masses) - 1) == 0 and sampler.cumulative(max(masses)) == 1


def test_what_is_stated_holds() -> None:
    """By the auditor, from the distribution alone: delta at the stated epsilon is at most the stated one."""
    stated = sampler_of().guarantee
    low, high = curve_of_distribution(distribution(), [1]).delta_bounds(stated.epsilon)
    assert low <= stated.delta <= high * (1 + Fraction(1, 10**9))
    assert stated.epsilon <= EPSILON and stated.delta <= DELTA


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(Fraction(1, 10**8), DELTA), (EPSILON, Fraction(1, 2**200))],
)
def test_what_no_noise_fits_is_refused(epsilon: Fraction, delta: Fraction) -> None:
    with pytest.raises(OptionError, match="--epsilon"):
        joint_sampler(epsilon, delta)


def test_summary_of_rigged_samples() -> None:
    """Three samples of the default noise: 0, 2, -4; its mean is -1/2."""
    summary = summarise([0, 2, -4], sampler_of())
    assert isclose(summary.mean, -2 / 3) and isclose(summary.mean_square, (0.25 + 6.25 + 12.25) / 3)
    assert (summary.exact_mean, summary.extremes, summary.exact_extremes) == (
        -0.5,
        (-4, 2),
        (-32, 31),
    )
    # The root of a sixth of the logarithm of 2e9.
    assert isclose(summary.distance_bound, 1.889286, rel_tol=1e-6)


def test_distance_on_a_rigged_example() -> None:
    distribution = {-1: Fraction(1, 2), 0: Fraction(1, 4), 3: Fraction(1, 4)}

    def cumulative(x: int) -> Fraction:
        return sum((p for value, p in distribution.items() if value <= x), Fraction(0))

    assert distance([-1, 0, -1, 3], cumulative) == 0 and distance([3, 3, 3, 3], cumulative) == 0.75
    assert distance([-9, -1, 0, 3], cumulative) == 0.25 and distance([0, 0, 0, 9], cumulative) == 0.5


@pytest.mark.parametrize("opened", [(), (1,), (1, 2, 3), (1, 32), (-33, 0)])
def test_what_cannot_be_noise_is_refused(opened: tuple[int, ...]) -> None:
    result = EngineResult(
        model=MODELS["ring"],
        outputs={"noise": opened},
        engine="mp-spdz",
        engine_version="rigged",
        program_hash="",
    )
    with pytest.raises(OutputError, match="sample"):
        read(result, sampler_of(), 2)
