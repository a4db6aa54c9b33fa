"""Noise as the real engines open it: its exact distribution, neither less nor more, and independent."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isclose
from pathlib import Path

import numpy as np
import pytest

from harness.engines.base import PROGRAMS
from harness.security_models import MODELS, SecurityModel
from protocols.circuits.coins import design_coins
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.spec import PI_LAP, PI_RW
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
SLOW = ("spdz2k", "mpyc")  # 2 to 3 ms a sample


def inputs(lanes: int) -> Inputs:
    bits = fair_bits_per_sample(design_coins(EPSILON, DELTA_BITS))
    return Inputs(fair_bits=tuple((width, lanes) for width in input_widths(bits)))


@dataclass(frozen=True)
class Opened:
    """The samples that one run opened, their distribution, and those of noise of a wrong scale."""

    samples: tuple[int, ...]
    distribution: Distribution
    wrong: dict[str, Distribution]


@pytest.fixture(scope="module", params=model_parameters())
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Return what one run opens in each model."""
    model: SecurityModel = request.param
    n, factors = (SMALL, FAR) if model.name in SLOW else (LARGE, NEAR)
    work = tmp_path_factory.mktemp("noise") / "run"
    arguments = (model.parties, n, EPSILON, DELTA_BITS)
    result = run(PI_LAP, PROGRAMS / "pi_lap.mpc", arguments, inputs(n), model, work)
    wrong = {f"{float(f)} times": noise_distribution(EPSILON / f) for f in factors}
    return Opened(result.outputs["noise"], DISTRIBUTION, wrong)


def test_follows_the_exact_distribution(opened: Opened) -> None:
    """DKW at 1e-9: t = 0.0231 for n = 20 000, 0.0518 for n = 4 000."""
    assert set(opened.samples) <= set(opened.distribution)
    assert distance(opened.samples, opened.distribution) < dkw_bound(len(opened.samples))


def test_is_told_apart_from_wrong_scales(opened: Opened) -> None:
    """0.7 and 1.3 times the scale at n = 20 000, 0.5 and 2 at n = 4 000.

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
    n = 20 000, 0.077 for n = 4 000.
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
    given = replace(inputs(truth.size), values=truth.tolist())
    result = run(PI_RW, PROGRAMS / "pi_rw.mpc", arguments, given, model, tmp_path / "run")
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
        run(PI_LAP, PROGRAMS / "pi_lap.mpc", arguments, inputs(100), model, tmp_path / name).outputs
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
