"""Expected errors by the cap: against the noise's distribution, all choices of records, and of clients."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.capping.errors import (
    COUNTS,
    GAP,
    QUANTITIES,
    SUM,
    WEIGHTS,
    ExpectedErrors,
    gap_of,
    noise_error,
    total_error,
    weight_errors,
    zipf,
)
from harness.inputs.record_schema import Cap
from protocols.accounting.calibration import NeighboringRelation, Neighbors, each_cell_once, plan_noise
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
