"""Caps that are chosen: by the rule, by π_CAP and from a noisy histogram; and what they leave."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.reproduce.capping.choices import (
    CELLS,
    HISTOGRAM,
    MECHANISMS,
    PI_CAP,
    SHARES,
    Chooser,
    by_rule,
    geometric_mean,
    target,
)
from benchmarks.reproduce.capping.errors import COUNTS, QUANTITIES, SUM, WEIGHTS, ExpectedErrors
from benchmarks.reproduce.capping.population import Floats, Population, zipf
from protocols.capping import best_cap, caps_up_to

CAPS = caps_up_to(64)


@pytest.fixture(scope="module")
def chooser() -> Chooser:
    rng = np.random.default_rng(1)
    return Chooser(ExpectedErrors(zipf(300, 1.5, 1), CAPS, rng), rng)


def test_targets() -> None:
    assert target(Fraction(1), SUM, 1) == 0 and target(Fraction(1, 10), SUM, 1) == 9
    assert target(Fraction(1), COUNTS, 1) == 3 and target(Fraction(1, 2), WEIGHTS, 8) == 63
    sizes = np.array([9, 7, 7, 5, 3, 2, 1])
    population = Population("few", np.zeros(7, int), np.stack([sizes, 0 * sizes], axis=1))
    assert by_rule(population, tuple(range(1, 11)), Fraction(1, 3), SUM) == 7  # the third largest
    assert by_rule(population, tuple(range(1, 11)), Fraction(1), COUNTS) == 5  # the fourth largest


def test_with_much_epsilon_both_choose_what_the_rule_does(chooser: Chooser) -> None:
    sizes = zipf(300, 1.5, 1).sizes
    for above in (0, 3, 40):
        expected = chooser.caps.index(best_cap(sizes, chooser.caps, above))
        histogram = chooser.law_of_histogram(60.0, above)
        near = slice(max(0, expected - 1), expected + 2)  # noise is ½ at least, however large epsilon is
        assert histogram[near].sum() > 0.99 and histogram[expected] > 0.8
        law = chooser.law_of_pi_cap(Fraction(20), above)
        assert (
            law.sum() == pytest.approx(1) and law[expected] > 0.4
        )  # within one cap of it: X_0 - X_i is a tie
        assert law[near].sum() > 0.8


def test_the_histogram_has_its_law() -> None:
    """Three caps, two noisy buckets: against all noise listed. 6 standard deviations."""
    sizes = np.array([1] * 5 + [2] * 3 + [4] * 2)
    population = Population("few", np.zeros(10, int), np.stack([sizes, 0 * sizes], axis=1))
    rng = np.random.default_rng(3)
    chooser = Chooser(ExpectedErrors(population, (1, 2, 4), rng), rng)
    q, expected = np.exp(-1.0), np.zeros(3)
    noise = {x: (1 - q) / 2 * q ** (x if x >= 0 else -1 - x) for x in range(-40, 40)}
    for (a, p), (b, r) in itertools.product(noise.items(), repeat=2):
        first, second = 3 + a + 2 + b + 1, 2 + b + 0.5
        expected[0 if first <= 2 else 1 if second <= 2 else 2] += p * r
    found = chooser.law_of_histogram(1.0, 2)
    assert np.abs(found - expected).max() < 6 * 0.5 / 64  # of 4096 histograms


def test_choices(chooser: Chooser) -> None:
    epsilon = Fraction(2)
    errors = chooser._errors
    least = errors.at(2.0)
    found = list(chooser.choices(epsilon, least))
    assert len(found) == len(MECHANISMS) * len(SHARES) * 10  # weights and gaps with four aims
    assert {c.quantity for c in found} == set(QUANTITIES) == set(CELLS)
    one = next(c for c in found if (c.mechanism, c.quantity, c.share) == (PI_CAP, COUNTS, Fraction(1, 5)))
    law = chooser.law_of_pi_cap(Fraction(2, 5), target(Fraction(8, 5), COUNTS, 1))
    expected = float(law @ errors.at(1.6)[COUNTS].total) / least[COUNTS].total.min()
    assert one.regret == pytest.approx(expected) and one.regret > 1
    assert one.low <= one.middle <= one.high and {one.low, one.middle, one.high} <= set(CAPS)
    assert any(c.mechanism == HISTOGRAM and c.regret != one.regret for c in found)


def test_quantiles_and_means(chooser: Chooser) -> None:
    law: Floats = np.zeros(len(CAPS))
    law[[2, 5]] = 0.3, 0.7
    assert [chooser.quantile(law, at) for at in (0.05, 0.29, 0.5, 0.95)] == [CAPS[i] for i in (2, 2, 5, 5)]
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2)
