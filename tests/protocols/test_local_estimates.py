"""Estimates from local reports: by hand, by enumeration of all outcomes, and against the paper's tables."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fairshares.protocols.local_dp.estimators import (
    ReportTally,
    estimate_gaps,
    estimate_means,
    estimate_sizes,
    gap_weights,
    half_width,
    size_half_width,
    tally,
    variance,
)
from fairshares.protocols.local_dp.exact_privacy import distribution_of_r
from fairshares.protocols.local_dp.randomizers import Grr, MechanismL, MechanismR, Reports, ValueRange

ONE = Fraction(1)
EASY = MechanismR(Grr(2, Fraction(3, 4)), Fraction(3, 4))  # a c = 3/8


def test_reports_are_counted_and_added_up() -> None:
    counted = tally(Reports(np.array([0, 1, 1, 0]), np.array([1, -1, -1, -1])), EASY)
    assert counted.counts.tolist() == [2, 2] and counted.sums.tolist() == [0, -2]
    both = counted + counted
    assert both.counts.tolist() == [4, 4] and both.sums.tolist() == [0, -4] and both.clients == 8
    grid = MechanismL(Grr(2, Fraction(3, 4)), ONE, steps=4)
    assert tally(Reports(np.array([1]), np.array([6])), grid).sums.tolist() == [0, 1.5]
    with pytest.raises(ValueError, match="none of the declared 0 to 1"):
        tally(Reports(np.array([2]), np.array([1])), EASY)


def test_estimates_by_hand() -> None:
    """Sums 6 and -3 over a c n = 3/8 * 40 and 3/8 * 80; sizes (55 - 30) / (1/2) and (65 - 30) / (1/2)."""
    tallied = ReportTally(np.array([55, 65]), np.array([6.0, -3.0]))
    means = estimate_means(tallied, EASY, [40, 80])
    assert [mean.value for mean in means] == pytest.approx([0.4, -0.1])
    (gap,) = estimate_gaps(tallied, EASY, [40, 80])
    assert gap.groups == (0, 1) and gap.value == pytest.approx(0.5)
    assert estimate_sizes(tallied, EASY).tolist() == [50, 70]
    assert [mean.value for mean in estimate_means(tallied, EASY)] == pytest.approx([0.32, -8 / 70])
    assert size_half_width(EASY, 120, 0.1) == pytest.approx(2 * math.sqrt(60 * math.log(20)))


def test_estimates_are_in_the_declared_range() -> None:
    tallied = ReportTally(np.array([5500, 6500]), np.array([600.0, -300.0]))
    rate = MechanismR(EASY.grr, EASY.truth, ValueRange(0, 1))
    for sizes in ([4000, 8000], None):
        for estimate, start in ((estimate_means, 1 / 2), (estimate_gaps, 0)):
            scaled, base = (
                [x for one in estimate(tallied, mechanism, sizes) for x in (one.value, one.low, one.high)]
                for mechanism in (rate, EASY)
            )
            assert scaled == pytest.approx([start + x / 2 for x in base])
        assert estimate_gaps(tallied, rate, sizes)[0].says_something


def test_what_is_too_little_to_say_anything() -> None:
    tallied = ReportTally(np.array([5, 7]), np.array([2.0, -3.0]))
    for sizes in ([1, 11], None):
        (gap,) = estimate_gaps(tallied, EASY, sizes)
        assert (gap.low, gap.high, gap.says_something) == (-2, 2, False)
    unseen = estimate_means(ReportTally(np.array([0, 12]), np.array([0.0, 1.0])), EASY)[0]
    assert math.isnan(unseen.value) and not unseen.says_something
    absent = estimate_means(tallied, EASY, [0, 12])[0]
    assert math.isnan(absent.value) and (absent.low, absent.high) == (-1, 1)
    nobody = ReportTally(np.array([0, 0]), np.array([0.0, 0.0]))
    assert not estimate_means(nobody, EASY)[0].says_something
    assert math.isnan(estimate_gaps(nobody, EASY, [0, 0])[0].value)
    for sizes in ([6, 7], [12], [-1, 13]):
        with pytest.raises(ValueError, match="must add up to the 12 clients"):
            estimate_means(tallied, EASY, sizes)


def moments(
    mechanism: MechanismR, clients: list[tuple[int, Fraction]], weights: list[Fraction]
) -> tuple[Fraction, Fraction]:
    """Return mean and variance of sum of weight x value / (a c) over all joint outcomes, exactly."""
    scale = mechanism.grr.keep * (2 * mechanism.truth - 1)
    mean = square = Fraction(0)
    distributions = [distribution_of_r(mechanism, *client).items() for client in clients]
    for outcomes in product(*distributions):
        mass, total = ONE, Fraction(0)
        for (said, told), chance in outcomes:
            mass *= chance
            total += weights[said] * told / scale
        mean, square = mean + mass * total, square + mass * total**2
    return mean, square - mean**2


@pytest.mark.parametrize("groups", [2, 3])
def test_means_and_gaps_are_unbiased_with_the_variance_stated(groups: int) -> None:
    mechanism = MechanismR(Grr(groups, Fraction(5, 8)), Fraction(7, 8))
    clients = [(0, Fraction(1, 2)), (0, Fraction(-1)), (1, Fraction(1, 4)), (groups - 1, Fraction(1))][:3]
    sizes = [2, 1, 0][:groups]
    squares = [5 / 8, 1 / 16, 0.0][:groups]
    rest = [Fraction(0)] * (groups - 2)
    for weights, truth in (
        ([Fraction(1, 2), Fraction(0), *rest], Fraction(-1, 4)),
        ([Fraction(0), ONE, *rest], Fraction(1, 4)),
        ([Fraction(1, 2), -ONE, *rest], Fraction(-1, 2)),
    ):
        mean, exact = moments(mechanism, clients, weights)
        assert mean == truth
        stated = variance(mechanism, sizes, np.array(weights, dtype=np.float64), squares)
        assert stated == pytest.approx(float(exact), rel=1e-12)
        assert stated <= variance(mechanism, sizes, np.array(weights, dtype=np.float64))


def test_a_half_width_bounds_the_exact_tail() -> None:
    """Three clients, all outcomes: the tail beyond t weighs at most what t was made for."""
    mechanism = MechanismR.with_budgets(2, Fraction(3), Fraction(3))
    clients = [(0, Fraction(1)), (0, Fraction(-1, 2)), (1, Fraction(1))]
    scale = float(mechanism.grr.keep) * mechanism.gain
    distributions = [distribution_of_r(mechanism, *client).items() for client in clients]
    weights = gap_weights([2, 1], 0, 1)
    for failure in (0.5, 0.1, 0.01):
        t, tail = half_width(mechanism, [2, 1], weights, failure), 0.0
        for outcomes in product(*distributions):
            total = sum(weights[said] * told for (said, told), _ in outcomes) / scale
            if abs(total - (0.25 - 1)) >= t:
                tail += math.prod(float(chance) for _, chance in outcomes)
        assert tail <= failure
