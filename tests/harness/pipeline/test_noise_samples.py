"""Samplers as the command offers them, and how opened samples are held against their exact distribution."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import isclose

import pytest

from harness.engines.base import PROGRAMS, EngineResult
from harness.errors import OptionError, OutputError
from harness.pipeline.noise_samples import _read as read, noise_job
from harness.releases.noise_samples import WARNING, Sampler, choose_sampler, distance, summarise, to_json
from harness.security_models import MODELS, SecurityModel
from protocols.accounting.exact_privacy import curve_of_distribution
from protocols.circuits.coins import design_coins
from protocols.circuits.noise import fair_bits_per_sample
from protocols.noise import truncated as noise
from protocols.published_baselines import ONE, laplace_distribution, mp_spdz_log
from protocols.spec import PI_LAP, PI_LAP_PUBLISHED

EPSILON, DELTA = Fraction(1), Fraction(1, 2**40)
SPECS = {
    "default": PI_LAP,
    "raw": PI_LAP_PUBLISHED,
    "rounded": PI_LAP_PUBLISHED,
}
UNITS = {"default": 1, "raw": ONE, "rounded": 1}

every = pytest.mark.parametrize("name", SPECS)


@cache
def distribution_of(name: str) -> Mapping[int, Fraction]:
    """Return the exact probability of every value that a sampler opens."""
    if name == "default":
        return noise.probability_mass(design_coins(EPSILON, 40))
    return laplace_distribution(Fraction(1), mp_spdz_log, rounded=name == "rounded")


def sampler_of(name: str) -> Sampler:
    published = name in ("raw", "rounded")
    return choose_sampler("published" if published else name, EPSILON, DELTA, name == "rounded")


@every
def test_a_sampler_is_its_distribution(name: str) -> None:
    sampler, distribution = sampler_of(name), distribution_of(name)
    mean = sum(p * x for x, p in distribution.items())
    assert sampler.spec is SPECS[name]
    assert sampler.unit == Fraction(1, UNITS[name])
    assert sampler.centre == mean
    assert sampler.mean_square == sum(p * (x - mean) ** 2 for x, p in distribution.items())
    assert sampler.edges == (min(distribution), max(distribution))
    for x in sorted(distribution)[:: max(1, len(distribution) // 50)]:
        assert sampler.cumulative(x) == sum(p for value, p in distribution.items() if value <= x)
    assert sampler.cumulative(min(distribution) - 1) == 0
    assert sampler.cumulative(max(distribution)) == 1


@every
def test_what_is_stated_holds(name: str) -> None:
    """By the auditor, from the distribution alone: delta at the stated epsilon is at most the stated one."""
    sampler, distribution = sampler_of(name), distribution_of(name)
    stated = sampler.guarantee
    low, high = curve_of_distribution(distribution, [UNITS[name]]).delta_bounds(stated.epsilon)
    assert low <= stated.delta <= high * (1 + Fraction(1, 10**9))
    assert stated.epsilon <= EPSILON
    if name == "raw":
        assert stated.delta > Fraction(4, 5)
    elif name != "rounded":
        assert stated.delta <= DELTA


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_program_is_compiled_for_what_is_stated(model: SecurityModel) -> None:
    job = noise_job(sampler_of("default"), 7, model)
    assert job.source == PROGRAMS / f"{job.spec.name}.mpc"
    assert job.arguments == (str(model.parties), "7", "1", "40")
    assert sum(width for width, _ in job.fair_bits) == fair_bits_per_sample(design_coins(EPSILON, 40))
    assert {lanes for _, lanes in job.fair_bits} == {7}
    assert job.party_inputs == (None,) * model.parties
    job = noise_job(sampler_of("rounded"), 7, model)
    assert (job.arguments, job.fair_bits) == (("rounded", "7", "1"), ())


def test_epsilon_is_rounded_down_to_what_names_a_program() -> None:
    long = Fraction(1, 3) + Fraction(1, 10**20)
    sampler = choose_sampler("default", long, DELTA, False)
    assert sampler.arguments["epsilon"] == Fraction(333333333333, 10**12)


@pytest.mark.parametrize(
    ("name", "epsilon", "delta"),
    [
        ("default", Fraction(1, 10**8), DELTA),
        ("default", EPSILON, Fraction(1, 2**200)),
        ("published", Fraction(1, 1001), DELTA),
    ],
)
def test_what_no_noise_fits_is_refused(name: str, epsilon: Fraction, delta: Fraction) -> None:
    with pytest.raises(OptionError, match="--epsilon"):
        choose_sampler(name, epsilon, delta, False)


def test_summary_of_rigged_samples() -> None:
    """Three samples of the default noise: 0, 2, -4; its mean is -1/2."""
    found = summarise([0, 2, -4], sampler_of("default"))
    assert isclose(found.mean, -2 / 3)
    assert isclose(found.mean_square, (0.25 + 6.25 + 12.25) / 3)
    assert (found.exact_mean, found.extremes, found.exact_extremes) == (-0.5, (-4, 2), (-32, 31))
    # The root of a sixth of the logarithm of 2e9.
    assert isclose(found.bound, 1.889286, rel_tol=1e-6)
    raw = summarise([ONE // 2, -ONE], sampler_of("raw"))
    assert (raw.mean, raw.extremes) == (-0.25, (-1, 0.5))


def test_distance_on_a_rigged_example() -> None:
    distribution = {-1: Fraction(1, 2), 0: Fraction(1, 4), 3: Fraction(1, 4)}

    def cumulative(x: int) -> Fraction:
        return sum((p for value, p in distribution.items() if value <= x), Fraction(0))

    assert distance([-1, 0, -1, 3], cumulative) == 0
    assert distance([3, 3, 3, 3], cumulative) == 0.75
    assert distance([-9, -1, 0, 3], cumulative) == 0.25
    assert distance([0, 0, 0, 9], cumulative) == 0.5


def test_json_says_that_it_protects_nothing() -> None:
    sampler = sampler_of("default")
    found = to_json(sampler, [1, -2], summarise([1, -2], sampler))
    assert found["warning"] == WARNING
    assert found["samples"] == [1, -2]
    stated = found["guarantee_of_one_secret_sample"]
    assert Fraction(stated["delta_exact"]) == sampler.guarantee.delta <= Fraction(stated["delta"])
    assert Fraction(stated["epsilon_exact"]) == sampler.guarantee.epsilon <= Fraction(stated["epsilon"])


@pytest.mark.parametrize("opened", [(), (1,), (1, 2, 3), (1, 32), (-33, 0)])
def test_what_cannot_be_noise_is_refused(opened: tuple[int, ...]) -> None:
    result = EngineResult(MODELS["ring"], {"noise": opened})
    with pytest.raises(OutputError, match="sample"):
        read(result, sampler_of("default"), 2)
