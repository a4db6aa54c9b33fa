"""π_LAP and Protocol 4 as published: the figures of what they really protect, and how each comes about."""

import math
from fractions import Fraction

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

from protocols.accounting.exact_privacy import curve_of_distribution
from protocols.published_baselines import (
    ONE,
    Logarithm,
    composed_laplace,
    ideal_log,
    laplace_distribution,
    mp_spdz_log,
    nearest,
)


@pytest.mark.parametrize(("x", "log"), [(ONE, 0), (ONE // 2, -45426), (2, -681391), (ONE - 2, -2)])
def test_ideal_logarithm(x: int, log: int) -> None:
    assert ideal_log(x) == log


@pytest.mark.parametrize("log", [ideal_log, mp_spdz_log])
def test_logarithms_are_near_the_real_one(log: Logarithm) -> None:
    """Half a unit for the ideal one; MP-SPDZ's is off by 2.5 units of 2^-16 at most."""
    worst = max(abs(log(x) - math.log(x / ONE) * ONE) for x in range(2, ONE + 1, 2))
    assert worst <= (0.5 if log is ideal_log else 2.5)


def test_logarithm_of_zero() -> None:
    assert round(mp_spdz_log(0) / ONE, 2) == -4.03
    with pytest.raises(ValueError, match="no logarithm of 0"):
        ideal_log(0)


@pytest.mark.parametrize("x", [-1, 1 << 30])
def test_logarithm_out_of_range(x: int) -> None:
    with pytest.raises(ValueError, match="must be in"):
        mp_spdz_log(x)


@pytest.mark.parametrize(
    ("value", "rounded"), [(0, 0), (7, 0), (8, 1), (23, 1), (24, 2), (-8, 0), (-9, -1), (-24, -1)]
)
def test_rounds_half_up(value: int, rounded: int) -> None:
    assert nearest(value, 4) == rounded


def test_a_product_that_wraps_is_noticed() -> None:
    with pytest.raises(OverflowError, match="64 bits"):
        nearest(1 << 62, 16)


@pytest.mark.parametrize(("log", "draws"), [(ideal_log, ONE - 1), (mp_spdz_log, ONE)])
def test_distribution_is_that_of_all_draws(log: Logarithm, draws: int) -> None:
    """One draw of 2^16 asks for ln(0): MP-SPDZ answers, the ideal logarithm does not."""
    distribution = laplace_distribution(Fraction(1), log, rounded=False)
    assert sum(distribution.values()) == 1
    assert min(mass for mass in distribution.values()) == Fraction(1, draws)
    assert round(max(distribution) / ONE, 1) == 10.4  # the largest noise, 10.4 b


@pytest.mark.parametrize(
    ("log", "raw", "rounded"), [(ideal_log, "0.8174", "1.188e-04"), (mp_spdz_log, "0.8277", "1.188e-04")]
)
def test_delta_at_epsilon_1(log: Logarithm, raw: str, rounded: str) -> None:
    """Errata: 0.82 raw at every finite epsilon, 1.19e-4 when rounded to an integer, sensitivity 1."""
    curve = curve_of_distribution(laplace_distribution(Fraction(1), log, rounded=False), [ONE])
    assert f"{float(curve.impossible):.4f}" == raw
    assert all(curve.delta_bounds(Fraction(epsilon)) == (curve.impossible,) * 2 for epsilon in (1, 5, 60))
    assert curve.least_epsilon(Fraction(8, 10)) is None
    curve = curve_of_distribution(laplace_distribution(Fraction(1), log, rounded=True), [1])
    low, high = curve.delta_bounds(Fraction(1))
    assert f"{float(low):.3e}" == f"{float(high):.3e}" == rounded
    assert curve.least_epsilon(Fraction(1, 10**6)) is None


def test_a_scale_of_10_opens_the_count_modulo_5() -> None:
    """Every value is a multiple of 10 units, and 2^16 is 6 modulo 10: counts differ modulo 5 for certain."""
    distribution = laplace_distribution(Fraction(10), ideal_log, rounded=False)
    assert {x % 10 for x in distribution} == {0}
    for count in (1, 2, 3, 4, 5):
        certain = curve_of_distribution(distribution, [count * ONE]).impossible == 1
        assert certain == (count % 5 != 0)


def test_scale_that_does_not_fit() -> None:
    with pytest.raises(OverflowError, match="noise of scale 2000 does not fit 31 bits"):
        laplace_distribution(Fraction(2000), ideal_log, rounded=True)


@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 1001), (0.5, 100), (2.0, 1)])
def test_another_accountant_composes_to_the_same(epsilon: float, times: int) -> None:
    """Google's, which overflows above epsilon = 709."""
    theirs = from_laplace_mechanism(1 / epsilon, value_discretization_interval=1e-3).self_compose(times)
    ours = composed_laplace(epsilon, times, 1e-6)
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(1e-6), abs=0.01)
