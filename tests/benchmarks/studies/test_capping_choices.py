"""Caps that are chosen: by the rule, by π_CAP and from a noisy histogram; and what they leave."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.capping.choices import (
    AIMS,
    Chooser,
    Setting,
    by_rule,
    target,
)
from benchmarks.studies.capping.errors import (
    BINS,
    COUNTS,
    CURVE_QUANTITIES,
    SUM,
    WEIGHTS,
    Population,
    zipf,
)
from harness.inputs.record_schema import RecordDomain
from harness.releases.contribution_cap import CapTarget
from protocols.guarantee import Guarantee
from protocols.mechanisms.above_threshold import caps_up_to

CAPS = caps_up_to(64)
POPULATION = zipf(300, 1.5, 1)


@pytest.fixture(scope="module")
def chooser() -> Chooser:
    return Chooser(POPULATION, CAPS, np.random.default_rng(1))


@pytest.mark.parametrize("active", [False, True])
def test_targets_are_those_of_the_command(active: bool) -> None:
    epsilon = Fraction(1)
    domain, setting = RecordDomain(("a", "b"), ("0", "1"), 1000), Setting(epsilon, active)
    for task, quantities in (("weights", (WEIGHTS,)), ("thresholds", CURVE_QUANTITIES)):
        release = CapTarget(task, Guarantee(epsilon * Fraction(4, 5), Fraction(1, 2**40)), BINS, active)
        for quantity in quantities:
            wanted = target(setting.left(Fraction(1, 5)), quantity, AIMS[quantity])
            assert wanted == pytest.approx(
                release.allowed_above(domain), rel=0.01
            )  # rounded noise, small cap


def test_targets() -> None:
    assert target(Fraction(1), SUM, 1) == 0 and target(Fraction(1, 10), SUM, 1) == 9
    assert target(Fraction(1), COUNTS, 1) == 3 and target(Fraction(1, 2), WEIGHTS, 8) == 63
    sizes = np.array([9, 7, 7, 5, 3, 2, 1])
    population = Population("few", np.zeros(7, int), np.stack([sizes, 0 * sizes], axis=1))
    assert by_rule(population, tuple(range(1, 11)), Fraction(1, 3), SUM) == 7  # the third largest
    assert by_rule(population, tuple(range(1, 11)), Fraction(1), COUNTS) == 5  # the fourth largest


def test_the_histogram_has_its_distribution() -> None:
    """Three caps, two noisy buckets: against all noise listed. 6 standard deviations."""
    sizes = np.array([1] * 5 + [2] * 3 + [4] * 2)
    population = Population("few", np.zeros(10, int), np.stack([sizes, 0 * sizes], axis=1))
    rng = np.random.default_rng(3)
    chooser = Chooser(population, (1, 2, 4), rng)
    q, expected = np.exp(-1.0), np.zeros(3)
    noise = {x: (1 - q) / 2 * q ** (x if x >= 0 else -1 - x) for x in range(-40, 40)}
    for (a, p), (b, r) in itertools.product(noise.items(), repeat=2):
        first, second = 3 + a + 2 + b + 1, 2 + b + 0.5
        expected[0 if first <= 2 else 1 if second <= 2 else 2] += p * r
    found = chooser.distribution_of_histogram(1.0, 2)
    assert np.abs(found - expected).max() < 6 * 0.5 / 64  # of 4096 histograms
