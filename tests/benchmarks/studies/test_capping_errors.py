"""What caps leave, however chosen: against the distribution of noise, and clients that choose records."""

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
    GAP,
    QUANTITIES,
    SUM,
    WEIGHTS,
    ExpectedErrors,
    Population,
    ScoredClients,
    gap_of,
    noise_error,
    total_error,
    weight_errors,
    zipf,
)
from harness.inputs.record_schema import Cap, RecordDomain
from harness.releases.contribution_cap import CapTarget
from protocols.accounting.calibration import NeighboringRelation, Neighbors, each_cell_once, plan_noise
from protocols.guarantee import Guarantee
from protocols.mechanisms.above_threshold import caps_up_to
from protocols.noise.truncated import magnitude_moments


@pytest.mark.parametrize("missing", [0, 1, 3, 50])
@pytest.mark.parametrize(("epsilon", "cap"), [(1.0, 1), (0.5, 7), (4.0, 1), (4.0, 2)])
def test_total_error_is_the_definition(epsilon: float, cap: int, missing: int) -> None:
    q = np.exp(-epsilon / cap)
    g = np.arange(2000)
    mass = (1 - q) / 2 * q**g
    expected = (mass * (np.abs(g + 0.5 - missing) + np.abs(-g - 0.5 - missing))).sum()
    assert total_error(epsilon, cap, missing) == pytest.approx(expected, rel=1e-9)
    assert noise_error(epsilon, cap) == pytest.approx(float(total_error(epsilon, cap, 0)))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("cap", [1, 16, 256])
def test_the_default_coins_err_as_much(epsilon: Fraction, cap: int) -> None:
    plan = plan_noise(
        each_cell_once(4), Neighbors(NeighboringRelation.ZERO_OUT_ONE, cap), epsilon, Fraction(1, 1 << 40)
    )
    exact = float(magnitude_moments(plan.coins)[0]) + 0.5
    assert exact == pytest.approx(noise_error(float(epsilon), cap), rel=0.02)


def test_errors_are_those_of_clients_that_choose() -> None:
    """Against clients that fill slots as they do in a run, with noise from numpy's geometric variables."""
    population, epsilon, cap, runs = zipf(400, 1.5, 3), 2.0, 32, 400
    rng = np.random.default_rng(4)
    found = ExpectedErrors(population, (cap,), rng).at(epsilon)
    client = np.repeat(np.arange(400), population.sizes)
    cell = np.repeat(np.stack([2 * population.group, 2 * population.group + 1], axis=1), 1, axis=0).ravel()
    cells = np.repeat(cell, population.records.ravel())
    truth = population.table.astype(float)
    errors: dict[str, list[float]] = {name: [] for name in QUANTITIES}
    for _ in range(runs):
        slots = Cap(cap).choose(client, cells, 400)
        table = np.bincount(slots[slots >= 0], minlength=4).reshape(2, 2)
        q = np.exp(-epsilon / cap)

        def noise(*shape: int, q: float = q) -> np.ndarray:
            magnitude = rng.geometric(1 - q, shape) - 1
            return np.asarray(np.where(rng.random(shape) < 0.5, magnitude, -1 - magnitude) + 0.5)

        noisy = table + noise(2, 2)
        errors[SUM].append(abs(table.sum() + noise(1)[0] - truth.sum()))
        errors[COUNTS].append(float(np.abs(noisy - truth).sum()))
        errors[GAP].append(float(np.abs(gap_of(noisy) - gap_of(truth))))
        errors[WEIGHTS].append(float(weight_errors(noisy, truth)))
    for name, each in errors.items():
        slack = 6 * np.std(each) * np.sqrt(1 / runs + 1 / 24)  # 24 choices of records in `found`
        assert abs(np.mean(each) - found[name]["total"].iloc[0]) < slack, name
        assert found[name]["total"].iloc[0] <= (found[name]["noise"] + found[name]["bias"]).iloc[0] * 1.1


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


def test_a_cap_leaves_records_of_each_client_with_their_scores() -> None:
    """A score of a client that is cut is kept as often as any of its records."""
    two = Population("two", np.array([0, 1]), np.array([[30, 20], [200, 200]]))
    scored = ScoredClients(two, np.random.default_rng(1))
    np.testing.assert_array_equal(scored.histogram.sum(axis=-1), two.table)
    draws = 500
    kept = scored.capped(40, draws, np.random.default_rng(2))
    assert (kept <= scored.histogram).all() and (kept.sum(axis=(2, 3)) == 40).all()
    expected = np.array([40 / 50, 40 / 400])[:, np.newaxis, np.newaxis] * scored.histogram
    assert (np.abs(kept.mean(axis=0) - expected) < 6 * np.sqrt(np.maximum(expected, 1) / draws)).all()
    np.testing.assert_array_equal(scored.capped(399, 1, np.random.default_rng(3))[0, 0], scored.histogram[0])
