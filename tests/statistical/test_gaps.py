"""Intervals of means and gaps hold the truth as often as they say, over the noise.

N runs a case, noise from its probability mass function. If an interval holds with probability 95 %, the share
that does is below x with probability at most exp(-N KL(x, 0.95)) (Chernoff), 10^-9 for the x used here.
"""

from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest

from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, Rounding, ValueGrid
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.releases.gap.intervals import LEVELS, Group, difference_holds, difference_intervals
from fairshares.harness.releases.gap.statistic import gaps, groups_of
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_noise,
    sums_from_ends,
)
from fairshares.protocols.noise.added import simulated_noise
from tests.support.distribution import accepted

N = 400
STEPS = 20
DOMAIN = RecordDomain(("a", "b", "c"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, STEPS))
SIZES = (300, 90, 6)
RELEASES_OF_A_CELL = 500  # of 70 cells


def plan(epsilon: Fraction) -> NoisePlan:
    relation = NeighboringRelation.REPLACE_ONE
    return plan_noise(sums_from_ends(3, STEPS), Neighbors(relation), epsilon, Fraction(1, 2**40))


def shares(noise: NoisePlan, claimed: NoisePlan) -> np.ndarray:
    """Return the share of runs in which each mean, and each gap, is in its interval."""
    rng = np.random.default_rng(5)
    values = [rng.beta(a, b, n) for (a, b), n in zip(((8, 1), (2, 3), (1, 9)), SIZES, strict=True)]
    means = [float(of_group.mean()) for of_group in values]
    assert DOMAIN.values is not None
    steps = [DOMAIN.values.nearest(of_group) for of_group in values]
    truth = [x for of_group in steps for x in ((STEPS + of_group).sum(), (STEPS - of_group).sum())]
    covered = np.zeros(6)
    for opened in np.array(truth) + simulated_noise(noise.coins, rng, (N, 6)):
        estimated = gaps(opened, DOMAIN, claimed)
        wanted = [*means, *(means[a] - means[b] for a, b in estimated.gaps)]
        pairs = zip([*estimated.means, *estimated.gaps.values()], wanted, strict=True)
        covered += [one.low <= value <= one.high for one, value in pairs]
    return covered / N


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(6)])
def test_intervals_hold_as_often_as_they_say(epsilon: Fraction) -> None:
    assert shares(plan(epsilon), plan(epsilon)).min() >= accepted(N, float(CONFIDENCE))


@pytest.mark.parametrize(
    ("clients", "epsilon", "most"),
    [
        (1000, Fraction(3), 1.15),
        (10_000, Fraction(1), 1.15),
        (300, Fraction(3), 1.15),
        (15, Fraction(1), 1.6),
    ],
)
def test_half_widths_are_near_the_true_errors(clients: int, epsilon: Fraction, most: float) -> None:
    """Against the 95 % quantile of 40,000 simulated errors; of means within 1.1 at all sizes."""
    grid = ValueGrid(-1.0, 1.0, 1000, Rounding.RANDOM)
    domain = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=grid)
    noise = plan_noise(
        sums_from_ends(2, 1000), Neighbors(NeighboringRelation.REPLACE_ONE), epsilon, Fraction(1, 2**40)
    )
    truth = 1000.0 * clients * np.array([1.6, 0.4, 0.8, 1.2])
    runs = truth + simulated_noise(noise.coins, np.random.default_rng(6), (40_000, 4))
    means = np.clip((runs[:, ::2] - runs[:, 1::2]) / (runs[:, ::2] + runs[:, 1::2]), -1, 1)
    errors = [np.quantile(abs(means[:, 0] - 0.6), 0.95), np.quantile(abs(means @ [1, -1] - 0.8), 0.95)]
    widths = []
    for opened in runs[:60]:
        result = gaps(opened, domain, noise)
        for interval in (result.means[0], *result.gaps.values()):
            widths.append((interval.high - interval.low) / 2)
    mean, gap = np.median(np.array(widths).reshape(-1, 2), axis=0)
    assert 0.95 < mean / errors[0] < 1.15 and 0.98 < gap / errors[1] < most


@pytest.mark.parametrize(
    ("clients", "means", "least", "most"),
    [
        (10_000, (1, 1), 1.06, 1.15),
        (300, (1, 1), 1.06, 1.15),
        (300, (1, 0), 1.0, 1.15),
        (300, (0.95, 0.95), 1.1, 1.2),  # 15 clients from the end: the worst place is near
        (15, (1, 1), 1.2, 1.6),
        (15, (0, 0), 1.2, 1.6),
    ],
)
def test_half_widths_near_an_end_and_of_small_groups_are_near_the_true_errors(
    clients: int, means: tuple[float, float], least: float, most: float
) -> None:
    """Of gaps at epsilon = 1, against the 95 % quantile of 40,000 simulated errors of estimates in the range.

    An interval that is cut at the range's end, and whose level does not pay for it, is below `least`.
    """
    noise = plan_noise(
        sums_from_ends(2, 1000), Neighbors(NeighboringRelation.REPLACE_ONE), Fraction(1), Fraction(1, 2**40)
    ).noise
    ends = np.array([[1 + mean, 1 - mean] for mean in means])
    runs = 1000.0 * clients * ends.ravel() + simulated_noise(noise, np.random.default_rng(6), (40_000, 4))
    sizes = runs[:, ::2] + runs[:, 1::2]
    estimates = np.clip((runs[:, ::2] - runs[:, 1::2]) / np.where(sizes > 0, sizes, np.nan), -1, 1)
    errors = np.nan_to_num(abs(estimates @ [1, -1] - (means[0] - means[1])), nan=2.0)
    grid = ValueGrid(-1.0, 1.0, 1000, Rounding.RANDOM)
    releases = 60
    pairs = [(2 * release, 2 * release + 1) for release in range(releases)]
    intervals = difference_intervals(groups_of(runs[:releases].ravel(), noise, grid), pairs)
    widths = np.diff(np.clip(intervals, -2, 2), axis=1)
    assert least < np.median(widths) / 2 / np.quantile(errors, 0.95) < most


def misses(pair: tuple[Group, Group], gap: float) -> bool:
    """Return whether the interval of a difference leaves out its true value.

    The interval is that of the largest level that holds, and those of larger levels are within it. So it
    leaves out the truth if the least level whose interval does so holds. That is one test of a level, where
    the interval takes seven.
    """
    group, other = pair
    if group.near_zero or other.near_zero:
        return False
    least = bisect_left(LEVELS, True, key=lambda level: leaves_out(pair, gap, level))
    return least == 0 or (least < LEVELS.size and difference_holds(group, other, LEVELS[least]))


def leaves_out(pair: tuple[Group, Group], gap: float, level: float) -> bool:
    """Return whether a difference's interval of this level, cut to the range, leaves out the true value."""
    (low, high), (other_low, other_high) = (group.ends(level) for group in pair)
    return not max(low - other_high, -2.0) <= gap <= min(high - other_low, 2.0)


@pytest.mark.parametrize("sizes", [(15, 15), (15, 400), (60, 25), (300, 300), (300, 3000)])
@pytest.mark.parametrize("means", [(0, 0), (0.6, -0.2), (0.95, 0.95), (1, 1), (1, 0), (1, -1), (-0.9, 1)])
@pytest.mark.parametrize("epsilon", [1, 8])
def test_every_cell_of_a_grid_is_covered(
    epsilon: int, means: tuple[float, float], sizes: tuple[int, int]
) -> None:
    """Sizes are over epsilon. A miss is told by `misses`, which is quicker than the interval."""
    clients = np.maximum(1, np.round(np.array(sizes) / epsilon))
    steps = 1000
    noise = plan_noise(
        sums_from_ends(2, steps),
        Neighbors(NeighboringRelation.REPLACE_ONE),
        Fraction(epsilon),
        Fraction(1, 2**40),
    ).noise
    ends = np.array([[1 + mean, 1 - mean] for mean in means])
    truth = (steps * clients[:, np.newaxis] * ends).ravel()
    opened = truth + simulated_noise(noise, np.random.default_rng(7), (RELEASES_OF_A_CELL, 4))
    grid = ValueGrid(-1.0, 1.0, steps, Rounding.RANDOM)
    gap = means[0] - means[1]
    groups = groups_of(opened.ravel(), noise, grid)
    missed = sum(misses(pair, gap) for pair in zip(groups[::2], groups[1::2], strict=True))
    assert 1 - missed / len(opened) >= accepted(len(opened), float(CONFIDENCE))


def test_a_miss_is_what_the_whole_interval_says() -> None:
    """Of gaps at both ends of intervals, a hundredth of their width inside and outside."""
    noise = plan_noise(
        sums_from_ends(2, 1000), Neighbors(NeighboringRelation.REPLACE_ONE), Fraction(1), Fraction(1, 2**40)
    ).noise
    grid = ValueGrid(-1.0, 1.0, 1000, Rounding.RANDOM)
    for sums in ([96e3, 24e3, 48e3, 72e3], [480e3, 120e3, 120e3, 180e3]):
        first, second = groups_of(np.array(sums), noise, grid)
        ((low, high),) = difference_intervals([first, second], [(0, 1)])
        step = (high - low) / 100
        told = [misses((first, second), gap) for gap in (low - step, low + step, high - step, high + step)]
        assert told == [True, False, False, True]


def test_random_rounding_is_covered_where_it_is_most_of_the_error() -> None:
    """Of 1,000,000 clients whose values are halfway between two steps, at an epsilon of 8."""
    grid = ValueGrid(-1.0, 1.0, 100, Rounding.RANDOM)
    domain = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=grid)
    chosen = plan_noise(
        sums_from_ends(2, 100), Neighbors(NeighboringRelation.REPLACE_ONE), Fraction(8), Fraction(1, 2**40)
    )
    rng = np.random.default_rng(8)
    clients = 10**6
    up = rng.binomial(clients, 0.5, (N, 2))  # of so many, the coin says up
    sums = np.stack([100 * clients + up, 100 * clients - up], axis=-1).reshape(N, 4).astype(float)
    held = 0
    for opened in sums + simulated_noise(chosen.noise, rng, (N, 4)):
        result = gaps(opened, domain, chosen)
        held += result.means[0].low <= 0.005 <= result.means[0].high
    assert held / N >= accepted(N, float(CONFIDENCE))


def test_intervals_for_less_noise_are_noticed() -> None:
    assert shares(plan(Fraction(1, 2)), plan(Fraction(4))).min() < 0.7
