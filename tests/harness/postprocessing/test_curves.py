"""Group score curves: visible counts, sklearn's isotonic regression and ROC curve as oracles."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.isotonic import isotonic_regression

from fairshares.harness.errors import RecordDomainError, ThresholdGridError
from fairshares.harness.postprocessing.curves import ACCEPT_NOBODY, CurveNoise, GroupCurves, exact_curves
from fairshares.harness.postprocessing.thresholds.geometry import Hull
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.noise.truncated import mean_square_error

GRID = [0, 0.5, 1]
COINS = design_coins(Fraction(1), 40)


def rigged() -> GroupCurves:
    """a: positives at 1/2 and 1, negatives at 0, 1/4, 1/2. b: a positive at 1, a negative at 0.9."""
    return exact_curves(
        [1, 1, 0, 0, 0, 1, 0], [0.5, 1, 0, 0.25, 0.5, 1, 0.9], list("aaaaabb"), ["a", "b"], GRID
    )


def curves(tp: npt.ArrayLike, positives: npt.ArrayLike, grid: npt.ArrayLike = GRID) -> GroupCurves:
    """Make curves of two groups whose negatives are like their positives."""
    counts, totals = np.array(tp, dtype=float), np.array(positives, dtype=float)
    return GroupCurves(("a", "b"), np.array(grid, dtype=float), counts, counts, totals, totals)


def test_counts_are_visible() -> None:
    counted = rigged()
    assert counted.tp.tolist() == [[2, 2, 1], [1, 1, 1]] and counted.positives.tolist() == [2, 1]
    assert counted.fp.tolist() == [[3, 1, 0], [1, 1, 0]] and counted.negatives.tolist() == [3, 1]


def test_points_end_at_nobody_although_a_score_is_one() -> None:
    points = rigged().points()
    assert points.thresholds.tolist() == [0, 0.5, 1, ACCEPT_NOBODY]
    assert points.true_positive_rate.tolist() == [[1, 1, 1 / 2, 0], [1, 1, 1, 0]]
    assert points.false_positive_rate.tolist() == [[1, 1 / 3, 0, 0], [1, 1, 0, 0]]
    assert points.selection_rate.tolist() == [[1, 3 / 5, 1 / 5, 0], [1, 1, 1 / 2, 0]]


def test_points_begin_at_everybody_although_the_grid_does_not() -> None:
    points = curves([[2], [1]], [4, 4], [0.5]).points()
    assert points.thresholds.tolist() == [0, 0.5, ACCEPT_NOBODY]
    assert points.true_positive_rate.tolist() == [[1, 1 / 2, 0], [1, 1 / 4, 0]]


def test_threshold_zero_accepts_everybody_whatever_the_noise_says() -> None:
    noisy = curves([[3, 2, 1], [4, 2, 1]], [4, 4])
    assert noisy.points().true_positive_rate.tolist() == [[1, 2 / 4, 1 / 4, 0], [1, 2 / 4, 1 / 4, 0]]


def test_group_without_positives_has_undefined_rates() -> None:
    points = curves([[0, 0, 0], [4, 2, 1]], [0, 4]).points()
    assert np.isnan(points.true_positive_rate).tolist() == [[True] * 4, [False] * 4]
    assert np.isnan(points.selection_rate[0]).all()
    one_label = replace(points, negatives=np.array([2.0, 4.0]), false_positive_rate=np.full((2, 4), 0.5))
    assert one_label.selection_rate[0].tolist() == [0.5] * 4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=30), st.floats(-50, 50))
def test_monotone_is_isotonic_regression(counts: list[float], total: float) -> None:
    grid = np.linspace(0, 1, len(counts)) if len(counts) > 1 else np.zeros(1)
    fitted = curves([counts, counts], [total, total], grid).monotone()
    expected = np.maximum(isotonic_regression(np.array([total, *counts]), increasing=False), 0)
    assert [fitted.positives[0], *fitted.tp[0]] == pytest.approx(expected.tolist(), abs=1e-9)
    assert (np.diff([fitted.positives[0], *fitted.tp[0]]) <= 0).all() and fitted.tp.min() >= 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.floats(-9, 9)), min_size=2, max_size=30))
def test_monotone_does_not_add_to_the_worst_error(steps: list[tuple[int, float]]) -> None:
    drops, errors = np.array(steps).T
    truth = np.cumsum(drops)[::-1]
    noisy = truth + errors
    fitted = curves([noisy[1:]] * 2, [noisy[0]] * 2, np.linspace(0, 1, len(noisy))[1:]).monotone()
    assert abs(np.array([fitted.positives[0], *fitted.tp[0]]) - truth).max() <= abs(errors).max() + 1e-9


def test_a_hull_keeps_corners_only() -> None:
    x = np.array([0, 0, 1, 2, 2, 4, 3, 1], dtype=float)
    assert Hull.over(x, np.array([0, 1, 3, 4, 2, 4, 4, 0], dtype=float)).corners.tolist() == [1, 2, 3, 5]
    assert Hull.over(np.zeros(1), np.zeros(1)).corners.tolist() == [0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=40))
def test_a_hull_is_above_all_points_and_bends_down(points: list[tuple[int, int]]) -> None:
    x, y = np.array(points, dtype=float).T
    corners = Hull.over(x, y).corners
    assert (np.diff(x[corners]) > 0).all() and {x[corners[0]], x[corners[-1]]} == {x.min(), x.max()}
    assert (np.interp(x, x[corners], y[corners]) >= y - 1e-9).all()
    assert (np.diff(np.diff(y[corners]) / np.diff(x[corners])) < 0).all()


def test_standard_errors_follow_from_the_linear_map() -> None:
    noise = CurveNoise(np.array([[1.0, 1], [0, 1], [0.5, 0.5]]), COINS)
    variance = float(mean_square_error(COINS))
    assert (noise.standard_errors() ** 2).tolist() == pytest.approx([2 * variance, variance, variance / 2])


@pytest.mark.parametrize("grid", [[], [0, 0.5, 0.5], [0.5, 0.2], [-0.1, 0.5], [0.5, 1.1], [0, float("nan")]])
def test_refuses_grid(grid: list[float]) -> None:
    with pytest.raises(ThresholdGridError):
        curves(np.zeros((2, len(grid))), [0, 0], grid)


@pytest.mark.parametrize("groups", [(), ("a",), ("a", "a")])
def test_refuses_fewer_than_two_groups(groups: tuple[str, ...]) -> None:
    with pytest.raises(RecordDomainError, match="at least two distinct groups"):
        replace(rigged(), groups=groups)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": np.zeros((2, 2))}, r"tp must hold finite numbers of shape \(2, 3\)"),
        ({"negatives": np.array([1.0, np.nan])}, "negatives must hold finite"),
        ({"noise": CurveNoise(np.eye(3), COINS)}, "one row for each of 3 counts"),
    ],
)
def test_refuses_shapes(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(rigged(), **change)  # type: ignore[arg-type]
