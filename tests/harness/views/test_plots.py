"""Figures: what they draw is what was computed, and names are shown as they are."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from harness.postprocessing.curve_intervals import noise_bands
from harness.postprocessing.curves import CurveNoise, GroupCurves, exact_curves
from harness.postprocessing.thresholds.choose import choose_thresholds
from harness.views.rendering.plots import rates_figure, roc_figure
from protocols.circuits.coins import design_coins

GRID = np.arange(21) / 20


def curves(groups: tuple[str, ...] = ("a", "b")) -> GroupCurves:
    """Make noisy curves whose noise happens to be 0."""
    rng = np.random.default_rng(1)
    y, feature = rng.integers(2, size=4000), rng.choice(groups, 4000)
    score = np.clip(rng.normal(0.4 + 0.2 * y, 0.2), 0, 1)
    linear = np.vstack([np.triu(np.ones((21, 21))), np.ones(21)])
    exact = exact_curves(y, score, feature, groups, GRID)
    return replace(exact, noise=CurveNoise(linear, design_coins(Fraction(1), 40)))


def png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def test_curves_bands_and_points_are_the_computed_ones() -> None:
    noisy = curves()
    chosen = choose_thresholds(noisy)
    (axes,) = (figure := roc_figure(noisy, chosen)).axes
    points, bands = noisy.points(), noise_bands(noisy, 0.05)
    _, *lines = axes.get_lines()  # the first is the diagonal
    for i, line in enumerate(lines[:2]):
        assert np.array_equal(
            line.get_xydata(), np.column_stack([points.false_positive_rate[i], points.true_positive_rate[i]])
        )
    for i, band in enumerate(patch for patch in axes.patches if isinstance(patch, Polygon)):
        corner = [bands.false_positive_rate[i, 5, 0], bands.true_positive_rate[i, 5, 1]]
        assert (band.get_xy() == corner).all(axis=1).any()
        x, y = axes.transData.transform(np.asarray(lines[i].get_xydata()))[5].tolist()
        assert band.contains_point((x, y))
    for i, marker in enumerate(lines[2:]):
        expected = [chosen.rates["false_positive_rate"][i], chosen.rates["true_positive_rate"][i]]
        assert np.asarray(marker.get_xydata()).tolist() == [expected]
    assert png(figure).startswith(b"\x89PNG")


def test_exact_curves_have_no_band_and_nothing_chosen_no_point() -> None:
    (axes,) = roc_figure(replace(curves(), noise=None)).axes
    assert not axes.patches and len(axes.get_lines()) == 3
    assert "noise" not in axes.get_title()


def test_names_are_shown_as_they_are() -> None:
    names = ("$x$", "_b", "c_{2}")
    noisy = curves(names)
    chosen = choose_thresholds(noisy)
    for figure in (roc_figure(noisy, chosen), rates_figure(chosen)):
        legend = figure.axes[0].get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()][:3] == list(names)
        assert png(figure)


def test_group_with_an_undefined_rate_says_so() -> None:
    noisy = curves()
    empty = replace(noisy, fp=noisy.fp * [[0], [1]], negatives=noisy.negatives * [0, 1])
    legend = roc_figure(empty).axes[0].get_legend()
    assert legend is not None and legend.get_texts()[0].get_text() == "a (a rate is 0/0)"
    assert png(roc_figure(empty))


@pytest.mark.parametrize("constraint", ["equalized_odds", "demographic_parity"])
def test_rates_and_intervals_are_the_computed_ones(constraint: str) -> None:
    chosen = choose_thresholds(curves(), constraint)
    lines = rates_figure(chosen).axes[0].get_lines()
    drawn = [np.asarray(line.get_xdata()).tolist() for line in lines]
    for row, name in enumerate(("true_positive_rate", "false_positive_rate", "selection_rate")):
        for i in range(2):
            interval, estimate = drawn[4 * row + 2 * i : 4 * row + 2 * i + 2]
            assert interval == chosen.intervals[name][i].tolist()
            assert estimate == [chosen.rates[name][i]]


def test_many_groups_can_be_drawn() -> None:
    noisy = curves(tuple(f"group {i}" for i in range(9)))
    assert png(roc_figure(noisy, choose_thresholds(noisy, "demographic_parity")))
