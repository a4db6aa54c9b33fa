"""π_LAP and Protocol 4 as published: the figures of what they really protect, and how each comes about."""

import math
from fractions import Fraction

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

from benchmarks.papers.published_baselines import (
    ONE,
    Logarithm,
    composed_laplace,
    ideal_log,
    laplace_distribution,
    mp_spdz_log,
)
from fairshares.protocols.accounting.exact_privacy import curve_of_distribution


@pytest.mark.parametrize("log", [ideal_log, mp_spdz_log])
def test_logarithms_are_near_the_real_one(log: Logarithm) -> None:
    """Half a unit for the ideal one; MP-SPDZ's is off by 2.5 units of 2^-16 at most."""
    worst = max(abs(log(x) - math.log(x / ONE) * ONE) for x in range(2, ONE + 1, 2))
    assert worst <= (0.5 if log is ideal_log else 2.5)


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
        assert (curve_of_distribution(distribution, [count * ONE]).impossible == 1) == (count % 5 != 0)


@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 1001), (0.5, 100), (2.0, 1)])
def test_another_accountant_composes_to_the_same(epsilon: float, times: int) -> None:
    """Google's, which overflows above epsilon = 709."""
    theirs = from_laplace_mechanism(1 / epsilon, value_discretization_interval=1e-3).self_compose(times)
    ours = composed_laplace(epsilon, times, 1e-6)
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(1e-6), abs=0.01)
