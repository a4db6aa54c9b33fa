"""Noise as the real engines open it: its exact distribution, neither less nor more, and independent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isclose
from pathlib import Path

import numpy as np
import pytest

from harness.engines.base import PROGRAMS
from harness.models import MODELS, Model
from protocols.circuits.coins import design_coins
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.spec import PI_LAP, PI_RW
from tests.running import Inputs, model_parameters, run
from tests.statistical.distribution import (
    DELTA_BITS,
    distance,
    distance_between,
    dkw_bound,
    hoeffding_bound,
    noise_law,
)

EPSILON = Fraction(1)
LAW = noise_law(EPSILON)
# How many samples, and the factors by which a wrong scale must be off to be told apart for certain.
LARGE, NEAR = 20_000, (Fraction(7, 10), Fraction(13, 10))
SMALL, FAR = 4_000, (Fraction(1, 2), Fraction(2))
SLOW = ("spdz2k", "mpyc")  # 2 to 3 ms a sample


@dataclass(frozen=True)
class Opened:
    """The samples that one run opened, and the laws of noise of a wrong scale that they are not from."""

    samples: tuple[int, ...]
    wrong: dict[str, dict[int, float]]


@pytest.fixture(scope="module", params=model_parameters())
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Return what one run of π_LAP opens in each model."""
    model: Model = request.param
    n, factors = (SMALL, FAR) if model.name in SLOW else (LARGE, NEAR)
    arguments = (model.parties, n, EPSILON, DELTA_BITS)
    work = tmp_path_factory.mktemp("pi_lap") / "run"
    result = run(PI_LAP, PROGRAMS / "pi_lap.mpc", arguments, fair_bits(n), model, work)
    return Opened(result.outputs["noise"], {f"{float(f)} times": noise_law(EPSILON / f) for f in factors})


def fair_bits(lanes: int) -> Inputs:
    bits = fair_bits_per_sample(design_coins(EPSILON, DELTA_BITS))
    return Inputs(fair_bits=tuple((width, lanes) for width in input_widths(bits)))


def test_follows_the_exact_distribution(opened: Opened) -> None:
    """DKW at 1e-9: t = 0.0231 for n = 20 000, 0.0518 for n = 4 000."""
    assert set(opened.samples) <= set(LAW)
    assert distance(opened.samples, LAW) < dkw_bound(len(opened.samples))


def test_is_told_apart_from_wrong_scales(opened: Opened) -> None:
    """0.7 and 1.3 times the scale at n = 20 000, 0.5 and 2 times at n = 4 000.

    Their exact distance is more than twice DKW's t, so samples that are within t of the right law are
    further than t from theirs: this fails with probability 1e-9 at most.
    """
    t = dkw_bound(len(opened.samples))
    for name, law in opened.wrong.items():
        assert distance_between(law, LAW) > 2 * t, name
        assert distance(opened.samples, law) > t, name


def test_samples_are_independent_of_each_other(opened: Opened) -> None:
    """Lags of one lane, and of one and two machine words, where lanes could be reused.

    Whether two samples' signs agree is a fair coin, and these coins are independent at one lag.
    Whether two samples are equal has probability sum p^2, independently over disjoint pairs. Hoeffding
    at 1e-9 for all lags together: t = 0.024 and 0.034 for n = 20 000, 0.055 and 0.077 for n = 4 000.
    """
    x = np.array(opened.samples)
    lags = (1, 2, 63, 64, 128)
    collision = sum(p * p for p in LAW.values())
    for lag in lags:
        agree = (x[lag:] < 0) == (x[:-lag] < 0)
        assert abs(agree.mean() - 0.5) < hoeffding_bound(agree.size, len(lags)), lag
        pairs = x[: len(x) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
        equal = pairs[:, 0] == pairs[:, 1]
        assert abs(equal.mean() - collision) < hoeffding_bound(equal.size, len(lags)), lag


@pytest.mark.mpspdz("ring")
def test_counts_carry_noise_of_that_distribution(tmp_path: Path) -> None:
    """π_RW: opened less true counts over 100 groups and 200 labels; DKW at 1e-9, n = 20 000, t = 0.0231."""
    model, groups, labels = MODELS["ring"], 100, 200
    truth = np.random.default_rng(11).integers(0, 2**31, groups * labels)
    arguments = ("split", model.parties, 0, groups, labels, EPSILON, DELTA_BITS)
    inputs = Inputs(fair_bits=fair_bits(truth.size).fair_bits, values=truth.tolist())
    result = run(PI_RW, PROGRAMS / "pi_rw.mpc", arguments, inputs, model, tmp_path / "run")
    noise = (np.array(result.outputs["counts"]) - truth).tolist()
    assert distance(noise, LAW) < dkw_bound(len(noise))
    for factor in NEAR:
        assert distance(noise, noise_law(EPSILON / factor)) > dkw_bound(len(noise))


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_two_runs_on_one_input_open_different_noise(model: Model, tmp_path: Path) -> None:
    """Two of 100 samples are all equal with probability (sum p^2)^100 < 1e-50."""
    assert sum(p * p for p in LAW.values()) ** 100 < 1e-50
    arguments = (model.parties, 100, EPSILON, DELTA_BITS)
    one, other = (
        run(PI_LAP, PROGRAMS / "pi_lap.mpc", arguments, fair_bits(100), model, tmp_path / name).outputs
        for name in ("one", "other")
    )
    assert one != other


def test_distance_on_a_rigged_example() -> None:
    law = {-1: 0.5, 0: 0.25, 3: 0.25}
    assert distance([-1, -1, 0, 3], law) == 0
    assert isclose(distance([3, 3, 3, 3], law), 0.75)
    assert isclose(distance([-9, -1, 0, 3], law), 0.25)
    assert isclose(distance([0, 0, 0, 9], law), 0.5)
    assert isclose(distance_between(law, {-1: 0.5, 3: 0.5}), 0.25)
