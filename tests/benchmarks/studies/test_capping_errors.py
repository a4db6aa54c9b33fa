"""Expected errors by the cap: against the noise's distribution, all choices of records, and of clients."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from benchmarks.studies.capping.errors import (
    COUNTS,
    GAP,
    QUANTITIES,
    SUM,
    WEIGHTS,
    ExpectedErrors,
    Population,
    draw_noise,
    gap_of,
    noise_error,
    total_error,
    weight_errors,
    zipf,
)
from harness.inputs.record_schema import Cap
from protocols.accounting.calibration import NeighboringRelation, Neighbors, each_cell_once, plan_noise
from protocols.noise.truncated import magnitude_moments
from tests.support.exact_weights import balanced_weights

SMALL = Population(
    "small", np.array([0, 0, 1, 1]), np.array([[3, 2], [1, 0], [0, 4], [2, 2]])
)  # 5, 1, 4 and 4 records


@pytest.mark.parametrize("missing", [0, 1, 3, 50])
@pytest.mark.parametrize(("epsilon", "cap"), [(1.0, 1), (0.5, 7), (4.0, 1), (4.0, 2)])
def test_total_error_is_the_definition(epsilon: float, cap: int, missing: int) -> None:
    q = np.exp(-epsilon / cap)
    g = np.arange(2000)
    mass = (1 - q) / 2 * q**g
    expected = (mass * (np.abs(g + 0.5 - missing) + np.abs(-g - 0.5 - missing))).sum()
    assert total_error(epsilon, cap, missing) == pytest.approx(expected, rel=1e-9)
    assert noise_error(epsilon, cap) == pytest.approx(float(total_error(epsilon, cap, 0)))


def test_adding_up_overstates_the_error_by_up_to_a_half() -> None:
    """The largest ratio, over all epsilons and caps, lies between these; for small epsilon / cap at 1.466."""
    ratios = [
        (b + noise_error(epsilon, 1)) / float(total_error(epsilon, 1, b))
        for epsilon in np.geomspace(1e-3, 20, 2000)
        for b in {*range(1, 5), *(round(x / epsilon) for x in (0.9, 1.15, 1.4))}
    ]
    assert 1.51 < max(ratios) <= 1.53 and min(ratios) >= 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("cap", [1, 16, 256])
def test_the_default_coins_err_as_much(epsilon: Fraction, cap: int) -> None:
    plan = plan_noise(
        each_cell_once(4), Neighbors(NeighboringRelation.ZERO_OUT_ONE, cap), epsilon, Fraction(1, 1 << 40)
    )
    exact = float(magnitude_moments(plan.coins)[0]) + 0.5
    assert exact == pytest.approx(noise_error(float(epsilon), cap), rel=0.02)


def test_drawn_noise_has_the_distribution() -> None:
    """DKW: at 10^-9, 40,000 draws are within 0.0164 of the distribution; another scale by a tenth is not."""
    drawn = np.sort(draw_noise(1.0, 10, np.random.default_rng(1).random((2, 40_000))))

    def distribution(x: float, epsilon: float) -> float:  # of X + 1/2, at x whole
        tail = np.exp(-epsilon / 10 * abs(x)) / 2
        return float(1 - tail if x >= 0 else tail)

    def distance(epsilon: float) -> float:
        return max(
            abs(np.searchsorted(drawn, x, side="right") / drawn.size - distribution(x, epsilon))
            for x in range(-80, 81)
        )

    assert distance(1.0) < 0.0164
    assert min(distance(0.9), distance(1.1)) > 0.0164


def kept_tables(cap: int) -> dict[tuple[int, ...], Fraction]:
    """Every capped table of SMALL and its probability: all choices of records of each client."""
    found: dict[tuple[int, ...], Fraction] = {(0, 0, 0, 0): Fraction(1)}
    for group, (zeros, ones) in zip(SMALL.group, SMALL.records.tolist(), strict=True):
        records = [0] * zeros + [1] * ones
        ways = list(itertools.combinations(records, min(cap, len(records))))
        assert len(ways) == comb(len(records), min(cap, len(records)))
        after: dict[tuple[int, ...], Fraction] = {}
        for table, chance in found.items():
            for way in ways:
                now = list(table)
                now[2 * group] += way.count(0)
                now[2 * group + 1] += way.count(1)
                after[tuple(now)] = after.get(tuple(now), Fraction(0)) + chance / len(ways)
        found = after
    return found


@pytest.mark.parametrize("cap", [1, 2, 3, 4, 5])
def test_capped_tables_have_the_distribution_of_all_choices(cap: int) -> None:
    distribution, draws = kept_tables(cap), 20_000
    drawn = SMALL.capped_tables(cap, draws, np.random.default_rng(cap)).reshape(draws, 4)
    for table, chance in distribution.items():
        p = float(chance)
        seen = (drawn == table).all(axis=1).mean()
        assert abs(seen - p) < 6 * np.sqrt(p * (1 - p) / draws) + 1e-12, table
    assert {*map(tuple, drawn.tolist())} <= set(distribution)
    means = drawn.mean(axis=0)
    shares = np.minimum(1, cap / SMALL.sizes)
    expected = [
        (SMALL.records[SMALL.group == g] * shares[SMALL.group == g, None]).sum(axis=0) for g in (0, 1)
    ]
    assert np.abs(means - np.ravel(expected)).max() < 0.05
    assert SMALL.missing(cap) == SMALL.sizes.sum() - drawn[0].sum()


def test_gap_and_weights_on_visible_tables() -> None:
    table = np.array([[30.0, 10.0], [20.0, 20.0]])
    assert gap_of(table) == pytest.approx(0.25 - 0.5)
    assert gap_of(np.array([[-4.0, 9.0], [1.0, 1.0]])) == pytest.approx(0.9 - 0.5)  # raised to 1
    other = np.array([[25.0, 15.0], [20.0, 20.0]])
    wanted, found = (
        np.array([[float(w) for w in row] for row in balanced_weights(each.astype(int).tolist())])
        for each in (table, other)
    )
    assert weight_errors(other, table) == pytest.approx(np.abs(np.log(found / wanted)).mean())
    assert weight_errors(3 * table, table) == pytest.approx(0)


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
