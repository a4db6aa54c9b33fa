"""Noise as the real engines open it: its exact distribution, neither less nor more, and independent."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.engines.execution import PROGRAMS, Conditions
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.pipeline.noise_samples import noise_job
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.gap.spec import PI_GAP
from fairshares.harness.releases.noise_samples import distance as distance_from, own_sampler
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols import reference
from fairshares.protocols.circuits.coins import NoiseFamily, design_noise, family_for
from fairshares.protocols.circuits.noise import fair_bits_per_sample, input_widths
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import PI_LAP, ProtocolSpec
from tests.support.distribution import (
    DELTA_BITS,
    distance,
    distance_between,
    dkw_bound,
    hoeffding_bound,
    noise_distribution,
)
from tests.support.running import OF_OTHER_NUMBERS, RUN_TIMEOUT_S, Inputs, model_parameters, run

EPSILON, HALF = Fraction(1), Fraction(1, 2)
LARGER = Fraction(3, 2)  # of symmetric noise
DISTRIBUTION = noise_distribution(EPSILON)
# How many samples, and the factors by which a wrong scale must be off to be told apart for certain.
LARGE, NEAR = 20_000, (Fraction(7, 10), Fraction(13, 10))
SMALL, FAR = 4_000, (Fraction(1, 2), Fraction(2))
SLOW = ("spdz2k", "mpyc")  # 2 to 3 ms a sample of ours


def drawn(lanes: int, epsilon: Fraction = EPSILON, **fed: Any) -> Inputs:
    """Return what parties feed in that draw noise for so many lanes. Args: fed: what else."""
    widths = input_widths(fair_bits_per_sample(design_noise(epsilon, DELTA_BITS)))
    return Inputs(fair_bits=tuple((width, lanes) for width in widths), **fed)


@pytest.mark.parametrize("epsilon", [EPSILON, LARGER], ids=["signed", "symmetric"])
@pytest.mark.parametrize("model", model_parameters())
def test_samples_are_of_the_distribution_of_no_other_scale_and_independent(
    model: SecurityModel, epsilon: Fraction, tmp_path: Path
) -> None:
    """DKW at 1e-9: t = 0.0231 for n = 20 000, 0.0518 for n = 4 000.

    Wrong scales are 0.7 and 1.3 times it at n = 20 000, 0.5 and 2 at n = 4 000. Their exact distance is more
    than twice DKW's t, so samples that are within t of the right distribution are further than t from theirs:
    this fails with probability 1e-9 at most. So are they told from noise of the other family.

    Lags are of one lane, and of one and two machine words, where lanes could be reused. Over disjoint pairs,
    two samples are equal with probability sum p^2, and both or neither are negative with probability
    p^2 + (1-p)^2, p = P(X < 0). Hoeffding at 1e-9 for all lags together: t = 0.034 for n = 20 000, 0.077 for
    n = 4 000.
    """
    n, factors = (SMALL, FAR) if model.name in SLOW else (LARGE, NEAR)
    arguments = (model.parties, n, epsilon, DELTA_BITS)
    inputs = drawn(n, epsilon)
    result = run(PI_LAP, PROGRAMS / "pi_lap.mpc", arguments, inputs, model=model, work=tmp_path / "run")
    samples = result.outputs["noise"]
    exact = noise_distribution(epsilon)
    assert len(samples) == n and set(samples) <= set(exact)
    assert distance(samples, exact) < dkw_bound(n)
    others = [noise_distribution(epsilon / factor) for factor in factors]
    others.append(noise_distribution(epsilon, other_family(epsilon)))
    for wrong in others:
        assert distance_between(wrong, exact) > 2 * dkw_bound(n)
        assert distance(samples, wrong) > dkw_bound(n)
    x, lags = np.array(samples), (1, 2, 63, 64, 128)
    collision = sum(p * p for p in exact.values())
    negative = sum(p for value, p in exact.items() if value < 0)
    for lag in lags:
        pairs = x[: n // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
        equal = pairs[:, 0] == pairs[:, 1]
        bound = hoeffding_bound(equal.size, len(lags))
        assert abs(equal.mean() - collision) < bound, lag
        alike = (pairs[:, 0] < 0) == (pairs[:, 1] < 0)
        assert abs(alike.mean() - negative**2 - (1 - negative) ** 2) < bound, lag


def other_family(epsilon: Fraction) -> NoiseFamily:
    """Return the family that joint noise at this epsilon does not have."""
    (other,) = {*NoiseFamily} - {family_for(epsilon)}
    return other


OFFSET, MOST = 20, 1000  # of the logarithm


@dataclass(frozen=True)
class Released:
    """A program whose noise is looked at, its arguments for so many samples, and what it opens without."""

    spec: ProtocolSpec
    arguments: Callable[[SecurityModel, int], tuple[object, ...]]
    opened: Callable[[int], int] = int


RELEASED = {
    "counts": Released(PI_RW, lambda model, n: ("split", "shares", model.parties, 0, 0, n // 2, 2)),
    "gaps": Released(PI_GAP, lambda model, n: (model.parties, n // 2)),
    "logarithms": Released(
        PI_COUNT,
        lambda model, n: (model.parties, n // 2, 2, OFFSET, MOST),
        lambda count: reference.shifted_log(count, OFFSET, MOST),
    ),
}


@pytest.mark.parametrize("epsilon", [EPSILON, LARGER], ids=["signed", "symmetric"])
@pytest.mark.parametrize("released", RELEASED.values(), ids=RELEASED)
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_what_is_released_carries_noise_of_that_distribution(
    model: SecurityModel, released: Released, epsilon: Fraction, tmp_path: Path
) -> None:
    """Opened less true values; DKW at 1e-9, n = 20 000: t = 0.0231, n = 4 000: t = 0.0518.

    Noise of wrong scales, and of the other family, is told from it.
    """
    is_quick = model.name not in SLOW and released.spec is not PI_COUNT
    n, factors = (LARGE, NEAR) if is_quick else (SMALL, FAR)
    values = np.random.default_rng(11).integers(0, MOST, n).tolist()
    arguments = (*released.arguments(model, n), epsilon, DELTA_BITS)
    inputs = drawn(n, epsilon, values=values)
    program = PROGRAMS / f"{released.spec.name}.mpc"
    result = run(released.spec, program, arguments, inputs, model=model, work=tmp_path / "run")
    (opened,) = result.outputs.values()
    noise = [value - released.opened(true) for value, true in zip(opened, values, strict=True)]
    exact = noise_distribution(epsilon)
    assert set(noise) <= set(exact)
    assert distance(noise, exact) < dkw_bound(n)
    others = [noise_distribution(epsilon / factor) for factor in factors]
    for wrong in (*others, noise_distribution(epsilon, other_family(epsilon))):
        assert distance(noise, wrong) > dkw_bound(n)


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_two_runs_on_one_input_open_different_noise(model: SecurityModel, tmp_path: Path) -> None:
    """Two of 100 samples are all equal with probability (sum p^2)^100 < 1e-50."""
    assert sum(p * p for p in DISTRIBUTION.values()) ** 100 < 1e-50
    arguments = (model.parties, 100, EPSILON, DELTA_BITS)
    one, other = (
        run(PI_LAP, PROGRAMS / "pi_lap.mpc", arguments, drawn(100), model=model, work=tmp_path / name).outputs
        for name in ("one", "other")
    )
    assert one != other


@pytest.mark.parametrize("distribution", NoiseDistribution)
@pytest.mark.parametrize("model", model_parameters(models=[*MODELS.values(), *OF_OTHER_NUMBERS]))
def test_distributed_noise_is_of_the_distribution_of_all_parties(
    model: SecurityModel, distribution: NoiseDistribution, tmp_path: Path
) -> None:
    """n = 20 000: DKW at 10^-9 accepts it, and rejects 0.7 and 1.3 times the scale; and one party's too few.

    Each party draws in its own process: the job that reaches it holds public numbers only.
    """
    sampler = own_sampler(distribution, HALF, Fraction(1, 2**DELTA_BITS), model)
    job = noise_job(sampler, LARGE, model)
    assert job.fair_bits == ()
    result = engine_of(model).run(job, model, Conditions(tmp_path / "run", RUN_TIMEOUT_S, lambda step: None))
    (opened,) = result.outputs.values()
    assert distance_from(opened, sampler.cumulative) <= dkw_bound(LARGE)
    for factor in NEAR:
        other = own_sampler(distribution, HALF / factor, Fraction(1, 2**DELTA_BITS), model)
        assert distance_from(opened, other.cumulative) > dkw_bound(LARGE)
