"""Noise that parties drew and opened is of its distribution, and not of one with another scale."""

from fractions import Fraction
from pathlib import Path

import pytest

from harness.engines.registry import engine_of
from harness.pipeline.noise_samples import noise_job
from harness.releases.noise_samples import distance, own_sampler
from harness.security_models import SecurityModel
from protocols.noise.added import NoiseDistribution
from tests.support.distribution import dkw_bound
from tests.support.running import RUN_TIMEOUT_S, model_parameters

N = 20_000
DELTA = Fraction(1, 2**40)
EPSILON = Fraction(1, 2)


@pytest.mark.parametrize("distribution", NoiseDistribution)
@pytest.mark.parametrize("model", model_parameters())
def test_what_parties_open_is_of_the_distribution_of_all_their_noises(
    model: SecurityModel, distribution: NoiseDistribution, tmp_path: Path
) -> None:
    """n = 20 000: DKW at 10^-9 accepts it, and rejects 0.7 and 1.3 times the scale; and one party's too few.

    Each party draws in its own process: the job that reaches it holds public numbers only.
    """
    sampler = own_sampler(distribution, EPSILON, DELTA, model)
    job = noise_job(sampler, N, model)
    assert job.given_bits is None and job.fair_bits == ()
    result = engine_of(model).run(job, model, tmp_path / "run", RUN_TIMEOUT_S, lambda step: None)
    (opened,) = result.outputs.values()
    assert distance(opened, sampler.cumulative) <= dkw_bound(N)
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        other = own_sampler(distribution, EPSILON / factor, DELTA, model)
        assert distance(opened, other.cumulative) > dkw_bound(N)
