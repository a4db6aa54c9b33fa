"""Noise as the real engines open it: its exact distribution, neither less nor more, and independent."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isclose
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from harness.engines.base import PROGRAMS
from harness.security_models import MODELS, SecurityModel
from protocols.circuits.coins import design_coins
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.published_baselines import laplace_distribution, mp_spdz_log
from protocols.spec import PI_LAP, PI_LAP_PUBLISHED, PI_RW, ProtocolSpec
from tests.support.distribution import (
    DELTA_BITS,
    Distribution,
    distance,
    distance_between,
    dkw_bound,
    hoeffding_bound,
    noise_distribution,
)
from tests.support.running import Inputs, model_parameters, run

EPSILON = Fraction(1)
DISTRIBUTION = noise_distribution(EPSILON)
# How many samples, and the factors by which a wrong scale must be off to be told apart for certain.
LARGE, NEAR = 20_000, (Fraction(7, 10), Fraction(13, 10))
SMALL, FAR = 4_000, (Fraction(1, 2), Fraction(2))
LEAST, FARTHEST = 2_000, (Fraction(1, 3), Fraction(3))
SLOW = ("spdz2k", "mpyc")  # 2 to 3 ms a sample of ours
ALL_BUT_RING = tuple(name for name in MODELS if name != "ring")


def published_distribution(epsilon: Fraction) -> Distribution:
    """Return the probability of every value that π_LAP as published opens raw, in units of 2^-16."""
    return {x: float(p) for x, p in laplace_distribution(1 / epsilon, mp_spdz_log, rounded=False).items()}


@dataclass(frozen=True)
class Sampler:
    """A program that opens noise, how many fair bits a sample takes of each party, and its distribution."""

    spec: ProtocolSpec
    distribution: Callable[[Fraction], Distribution]
    fair_bits: int
    slow: tuple[str, ...] = SLOW  # models in which there are few samples
    few: tuple[int, tuple[Fraction, ...]] = (SMALL, FAR)

    def inputs(self, lanes: int) -> Inputs:
        return Inputs(fair_bits=tuple((width, lanes) for width in input_widths(self.fair_bits)))

    def arguments(self, model: SecurityModel, n: int) -> tuple[object, ...]:
        given = {"parties": model.parties, "samples": n, "epsilon": EPSILON, "delta_bits": DELTA_BITS}
        return tuple({**given, "form": "raw"}[name] for name in self.spec.arguments)


DEFAULT = Sampler(PI_LAP, noise_distribution, fair_bits_per_sample(design_coins(EPSILON, DELTA_BITS)))
# Too slow for more: 1 to 2 ms a sample, and in `spdz2k` 1.6 s, so there it is not tested.
PUBLISHED = Sampler(PI_LAP_PUBLISHED, published_distribution, 0, ALL_BUT_RING, (LEAST, FARTHEST))
WITHOUT_PUBLISHED = ("spdz2k", "mpyc")


@dataclass(frozen=True)
class Opened:
    """The samples that one run opened, their distribution, and those of noise of a wrong scale."""

    samples: tuple[int, ...]
    distribution: Distribution
    wrong: dict[str, Distribution]


def pairs_to_test() -> list[ParameterSet]:
    """Return every sampler in every model that has it."""
    return [
        pytest.param((sampler, *chosen.values), id=f"{sampler.spec.name}-{chosen.id}", marks=chosen.marks)
        for sampler in (DEFAULT, PUBLISHED)
        for chosen in model_parameters(
            models=[
                model
                for model in MODELS.values()
                if sampler is not PUBLISHED or model.name not in WITHOUT_PUBLISHED
            ]
        )
    ]


@pytest.fixture(scope="module", params=pairs_to_test())
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Return what one run of each sampler opens in each model."""
    sampler: Sampler
    model: SecurityModel
    sampler, model = request.param
    n, factors = sampler.few if model.name in sampler.slow else (LARGE, NEAR)
    program = PROGRAMS / f"{sampler.spec.name}.mpc"
    work = tmp_path_factory.mktemp("noise") / "run"
    result = run(sampler.spec, program, sampler.arguments(model, n), sampler.inputs(n), model, work)
    wrong = {f"{float(f)} times": sampler.distribution(EPSILON / f) for f in factors}
    return Opened(result.outputs["noise"], sampler.distribution(EPSILON), wrong)


def test_follows_the_exact_distribution(opened: Opened) -> None:
    """DKW at 1e-9: t = 0.0231 for n = 20 000, 0.0518 for n = 4 000, 0.0732 for n = 2 000."""
    assert set(opened.samples) <= set(opened.distribution)
    assert distance(opened.samples, opened.distribution) < dkw_bound(len(opened.samples))


def test_is_told_apart_from_wrong_scales(opened: Opened) -> None:
    """0.7 and 1.3 times the scale at n = 20 000, 0.5 and 2 at n = 4 000, a third and 3 at n = 2 000.

    Their exact distance is more than twice DKW's t, so samples that are within t of the right distribution
    are further than t from theirs: this fails with probability 1e-9 at most.
    """
    t = dkw_bound(len(opened.samples))
    for name, distribution in opened.wrong.items():
        assert distance_between(distribution, opened.distribution) > 2 * t, name
        assert distance(opened.samples, distribution) > t, name


def test_samples_are_independent_of_each_other(opened: Opened) -> None:
    """Lags of one lane, and of one and two machine words, where lanes could be reused.

    Over disjoint pairs, two samples are equal with probability sum p^2, and both or neither are negative
    with probability p^2 + (1-p)^2, p = P(X < 0). Hoeffding at 1e-9 for all lags together: t = 0.034 for
    n = 20 000, 0.077 for n = 4 000, 0.113 for n = 2 000.
    """
    x = np.array(opened.samples)
    lags = (1, 2, 63, 64, 128)
    collision = sum(p * p for p in opened.distribution.values())
    negative = sum(p for value, p in opened.distribution.items() if value < 0)
    for lag in lags:
        pairs = x[: len(x) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
        equal = pairs[:, 0] == pairs[:, 1]
        bound = hoeffding_bound(equal.size, len(lags))
        assert abs(equal.mean() - collision) < bound, lag
        alike = (pairs[:, 0] < 0) == (pairs[:, 1] < 0)
        assert abs(alike.mean() - negative**2 - (1 - negative) ** 2) < bound, lag


@pytest.mark.mpspdz("ring")
def test_counts_carry_noise_of_that_distribution(tmp_path: Path) -> None:
    """π_RW: opened less true counts over 100 groups and 200 labels; DKW at 1e-9, n = 20 000, t = 0.0231."""
    model, groups, labels = MODELS["ring"], 100, 200
    truth = np.random.default_rng(11).integers(0, 2**31, groups * labels)
    arguments = ("split", "shares", model.parties, 0, 0, groups, labels, EPSILON, DELTA_BITS)
    inputs = replace(DEFAULT.inputs(truth.size), values=truth.tolist())
    result = run(PI_RW, PROGRAMS / "pi_rw.mpc", arguments, inputs, model, tmp_path / "run")
    noise = (np.array(result.outputs["counts"]) - truth).tolist()
    assert distance(noise, DISTRIBUTION) < dkw_bound(len(noise))
    for factor in NEAR:
        assert distance(noise, noise_distribution(EPSILON / factor)) > dkw_bound(len(noise))


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_two_runs_on_one_input_open_different_noise(model: SecurityModel, tmp_path: Path) -> None:
    """Two of 100 samples are all equal with probability (sum p^2)^100 < 1e-50."""
    assert sum(p * p for p in DISTRIBUTION.values()) ** 100 < 1e-50
    arguments = (model.parties, 100, EPSILON, DELTA_BITS)
    one, other = (
        run(PI_LAP, PROGRAMS / "pi_lap.mpc", arguments, DEFAULT.inputs(100), model, tmp_path / name).outputs
        for name in ("one", "other")
    )
    assert one != other


def test_distance_on_a_rigged_example() -> None:
    distribution = {-1: 0.5, 0: 0.25, 3: 0.25}
    assert distance([-1, -1, 0, 3], distribution) == 0
    assert isclose(distance([3, 3, 3, 3], distribution), 0.75)
    assert isclose(distance([-9, -1, 0, 3], distribution), 0.25)
    assert isclose(distance([0, 0, 0, 9], distribution), 0.5)
    assert isclose(distance_between(distribution, {-1: 0.5, 3: 0.5}), 0.25)
