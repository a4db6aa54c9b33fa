"""Optimal rules under a constraint: every tuple tried, and a linear program, as oracles."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog

from fairshares.harness.postprocessing.thresholds.geometry import (
    Hull,
    mixed_one_rate,
    mixed_two_rates,
    pure_one_rate,
    pure_two_rates,
)

Floats = npt.NDArray[np.float64]
Points = tuple[Floats, Floats]

TOLERANCES = pytest.mark.parametrize("tolerance", [0, 0.02, 0.2, 1])
SEEDS = pytest.mark.parametrize("seed", range(3))


def random_curves(rng: np.random.Generator, groups: int, steps: int, denominator: int = 20) -> list[Points]:
    """ROC points with few distinct values, so that ties and vertical and horizontal parts are common."""
    curves = []
    for _ in range(groups):
        x, y = (np.sort(rng.integers(0, denominator + 1, steps)) / denominator for _ in range(2))
        x, y = np.concatenate([[0], x, [1]]), np.concatenate([[0], np.maximum(x, y), [1]])
        curves.append((x, np.maximum.accumulate(y)))
    return curves


def linear_program(
    curves: list[Points], gain: Floats, loss: Floats, tolerance: float, *, y_too: bool
) -> float:
    """Return the optimum over all mixtures of each group's points: a probability for each is a variable."""
    sizes = [len(x) for x, _ in curves]
    owner = np.repeat(np.arange(len(curves)), sizes)
    x, y = (np.concatenate([curve[axis] for curve in curves]) for axis in (0, 1))
    value = np.concatenate([g * py - c * px for (px, py), g, c in zip(curves, gain, loss, strict=True)])
    rows = [
        rate * ((owner == i).astype(float) - (owner == j))
        for rate in ((x, y) if y_too else (x,))
        for i, j in itertools.permutations(range(len(curves)), 2)
    ]
    optimum = linprog(
        -value,
        A_ub=np.array(rows),
        b_ub=np.full(len(rows), tolerance),
        A_eq=np.array([owner == i for i in range(len(curves))], dtype=float),
        b_eq=np.ones(len(curves)),
    )
    assert optimum.success
    return -float(optimum.fun)


@pytest.mark.parametrize("groups", [2, 3, 5])
@TOLERANCES
@SEEDS
def test_mixed_two_rates_is_the_linear_programs_optimum(groups: int, tolerance: float, seed: int) -> None:
    rng = np.random.default_rng([groups, seed])
    curves = random_curves(rng, groups, 12)
    gain, loss = rng.random(groups), rng.random(groups)
    hulls = [Hull.over(x, y) for x, y in curves]
    x, y = mixed_two_rates(hulls, gain, loss, tolerance)
    assert np.ptp(x) <= tolerance + 1e-12 and np.ptp(y) <= tolerance + 1e-12
    assert all(yi <= hull.at(xi) + 1e-12 for hull, xi, yi in zip(hulls, x, y, strict=True))
    expected = linear_program(curves, gain, loss, tolerance, y_too=True)
    assert float(gain @ y - loss @ x) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("groups", [2, 3, 5])
@TOLERANCES
@SEEDS
def test_mixed_one_rate_is_the_linear_programs_optimum(groups: int, tolerance: float, seed: int) -> None:
    rng = np.random.default_rng([groups, seed])
    curves = [(x, y - x * rng.random()) for x, y in random_curves(rng, groups, 12)]
    hulls = [Hull.over(x, y) for x, y in curves]
    x = mixed_one_rate(hulls, tolerance)
    assert np.ptp(x) <= tolerance + 1e-12
    value = sum(float(hull.at(xi)) for hull, xi in zip(hulls, x, strict=True))
    expected = linear_program(curves, np.ones(groups), np.zeros(groups), tolerance, y_too=False)
    assert value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("groups", [2, 3])
@TOLERANCES
@SEEDS
def test_pure_two_rates_is_the_best_of_all_tuples(groups: int, tolerance: float, seed: int) -> None:
    rng = np.random.default_rng([groups, seed])
    curves = random_curves(rng, groups, 10)
    gain, loss = rng.random(groups), rng.random(groups)
    chosen = pure_two_rates(curves, gain, loss, tolerance)
    assert chosen is not None

    def judged(indices: tuple[int, ...]) -> tuple[bool, float]:
        x = np.array([curve[0][i] for curve, i in zip(curves, indices, strict=True)])
        y = np.array([curve[1][i] for curve, i in zip(curves, indices, strict=True)])
        return max(np.ptp(x), np.ptp(y)) <= tolerance + 1e-9, float(gain @ y - loss @ x)

    feasible, value = judged(tuple(chosen.tolist()))
    tuples = itertools.product(*[range(len(x)) for x, _ in curves])
    best = max(value for allowed, value in map(judged, tuples) if allowed)
    assert feasible and value == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("groups", [2, 3])
@TOLERANCES
@SEEDS
def test_pure_one_rate_is_the_best_of_all_tuples(groups: int, tolerance: float, seed: int) -> None:
    rng = np.random.default_rng([groups, seed])
    curves = [(x, rng.normal(size=len(x))) for x, _ in random_curves(rng, groups, 10)]
    chosen = pure_one_rate(curves, tolerance)
    assert chosen is not None
    tuples = itertools.product(*[list(zip(x.tolist(), y.tolist(), strict=True)) for x, y in curves])
    best = max(
        sum(y for _, y in of_groups)
        for of_groups in tuples
        if max(x for x, _ in of_groups) - min(x for x, _ in of_groups) <= tolerance + 1e-9
    )
    at = [(x[i], y[i]) for (x, y), i in zip(curves, chosen.tolist(), strict=True)]
    assert sum(y for _, y in at) == pytest.approx(best, abs=1e-9)
    assert max(x for x, _ in at) - min(x for x, _ in at) <= tolerance + 1e-9


def test_equally_good_rules_are_the_closest_together() -> None:
    hulls = [
        Hull.over(np.array([0.0, 0.25, 1]), np.array([0.0, 1, 1])),
        Hull.over(np.array([0.0, 1]), np.zeros(2)),
    ]
    assert mixed_one_rate(hulls, 1.0).tolist() == [0.25, 0.0]
    assert np.ptp(mixed_one_rate(hulls, 0.1)) <= 0.1
    flat = (np.array([0.0, 0.5, 1]), np.zeros(3))
    chosen = pure_one_rate([flat, flat], 1.0)
    assert chosen is not None and chosen[0] == chosen[1]


def test_no_tuple_at_all() -> None:
    apart = [(np.array([0.1, 0.2]), np.array([0.1, 0.2])), (np.array([0.5]), np.array([0.9]))]
    assert pure_one_rate(apart, 0.2) is None
    assert pure_two_rates(apart, np.ones(2), np.ones(2), 0.2) is None
    chosen = pure_two_rates(apart, np.ones(2), np.ones(2), 0.7)
    assert chosen is not None and chosen.tolist() == [1, 0]


def test_hull_mixes_its_corners() -> None:
    hull = Hull.over(np.array([0, 0, 0.5, 0.6, 1]), np.array([0, 0.25, 0.75, 0.5, 1]))
    assert hull.corners.tolist() == [1, 2, 4]
    assert hull.mix(0.25) == [(1, 0.5), (2, 0.5)] and hull.mix(0.5) == [(2, 1.0)]
    assert hull.mix(0.0) == [(1, 1.0)] and hull.mix(1.0) == [(4, 1.0)]
    assert hull.first_reach(np.array([0, 0.25, 0.5, 1, 2])).tolist() == [0, 0, 0.25, 1, 1]
