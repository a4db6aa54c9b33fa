"""Pictures: what they draw is what was computed, names are shown as they are, and no two texts overlap."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from fairshares.harness.evaluation.before_after import UNMITIGATED, summary
from fairshares.harness.evaluation.metrics import METRICS
from fairshares.harness.postprocessing.curves import CurveNoise, GroupCurves, exact_curves, noise_bands
from fairshares.harness.postprocessing.thresholds.choose import choose_thresholds
from fairshares.harness.privacy.audit.samplers import audit_sampler
from fairshares.harness.privacy.ledger.populations import Charge, Population, Status
from fairshares.harness.views import audit as audit_view, run_summary as run_view
from fairshares.harness.views.parts import Picture
from fairshares.harness.views.quickstart import METRICS as NAMES, TOLD, before_after
from fairshares.harness.views.rendering.plots import WIDTH, intervals, matrices, roc, spent, with_ends
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.guarantee import Budget, Guarantee

GRID = np.arange(21) / 20


def curves(groups: tuple[str, ...] = ("a", "b")) -> GroupCurves:
    """Make noisy curves whose noise happens to be 0."""
    rng = np.random.default_rng(1)
    y, feature = rng.integers(2, size=4000), rng.choice(groups, 4000)
    score = np.clip(rng.normal(0.4 + 0.2 * y, 0.2), 0, 1)
    linear = np.vstack([np.triu(np.ones((21, 21))), np.ones(21)])
    exact = exact_curves(y, score, feature, groups, GRID)
    return replace(exact, noise=CurveNoise(linear, design_coins(Fraction(1), 40)))


def drawn(picture: Picture) -> Axes:
    """Draw a picture as a page does."""
    figure = Figure(figsize=(WIDTH, picture.height), layout="constrained")
    picture.draw(axes := figure.add_subplot())
    FigureCanvasAgg(figure).draw()
    return axes


def points(axes: Axes) -> list[list[list[float]]]:
    """Return each line's points."""
    return [np.asarray(line.get_xydata()).tolist() for line in axes.get_lines()]


def in_legend(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_curves_bands_and_points_are_the_computed_ones() -> None:
    noisy = curves()
    chosen = choose_thresholds(noisy)
    axes = drawn(roc(noisy, chosen))
    computed, bands = noisy.points(), noise_bands(noisy, 0.05)
    lines = axes.get_lines()[1:]  # the first is the diagonal
    for i, line in enumerate(lines[::2]):
        expected = np.column_stack([computed.false_positive_rate[i], computed.true_positive_rate[i]])
        assert np.array_equal(line.get_xydata(), expected)
    for i, band in enumerate(patch for patch in axes.patches if isinstance(patch, Polygon)):
        corner = [bands["false_positive_rate"][i, 5, 0], bands["true_positive_rate"][i, 5, 1]]
        assert (band.get_xy() == corner).all(axis=1).any()
        x, y = axes.transData.transform(np.asarray(lines[2 * i].get_xydata()))[5].tolist()
        assert band.contains_point((x, y))
    for i, marker in enumerate(lines[1::2]):
        at = [chosen.rates["false_positive_rate"][i], chosen.rates["true_positive_rate"][i]]
        assert np.asarray(marker.get_xydata()).tolist() == [at]
    assert len(lines) == 4 and in_legend(axes) == ["a", "b"]


def test_estimates_and_ends_are_those_given() -> None:
    """An estimate that is no number has its interval only; one without an interval is a point."""
    values = {"a": with_ends([0.5, np.nan], [[0.25, 0.75], [0.0, 1.0]]), "b": with_ends([0.125, 0.25], None)}
    axes = drawn(intervals("x", ["one", "other"], values, "rate", "", at=0.5))
    line, *lines = points(axes)
    assert [x for x, _ in line] == [0.5, 0.5]
    assert [[x for x, _ in ends] for ends in lines[:2]] == [[0.25, 0.75], [0.0, 1.0]]
    assert lines[2][0] == [0.5, 0] and math.isnan(lines[2][1][0])
    assert [x for x, _ in lines[5]] == [0.125, 0.25] and np.isnan(lines[3:5])[..., 0].all()
    ticks = [label.get_text() for label in axes.get_yticklabels()]
    assert ticks == ["one", "other"] and in_legend(axes) == ["a", "b"] and axes.get_xlabel() == "rate"
    heights = [y for drawn_line in lines for _, y in drawn_line]
    assert heights == [0, 0, 2.5, 2.5, 0, 2.5, 1, 1, 3.5, 3.5, 1, 3.5] and axes.yaxis_inverted()


def test_matrices_say_the_counts_and_shade_shares() -> None:
    counts = np.array([[[30.5, 9.5], [-0.5, 0.5]], [[1234.5, 0.5], [-3.5, -0.5]]])
    axes = drawn(matrices(["a", "b"], ["0", "1"], counts))
    said = {text.get_position(): text.get_text() for text in axes.texts}
    assert said[1, 0] == "9.5" and said[0, 2] == "1,234.5" and said[0, 3] == "-3.5" and len(said) == 8
    shares = np.asarray(axes.images[0].get_array())
    assert shares.tolist()[:2] == [[30.5 / 40, 9.5 / 40], [0, 1]] and shares.tolist()[3] == [0, 0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a, 0", "a, 1", "b, 0", "b, 1"]


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("3.5", "0.01")])
def test_a_guarantee_implies_what_the_worst_mechanism_with_it_has(epsilon: str, delta: str) -> None:
    """That mechanism has four outcomes: each data set has one that the other has not, of mass δ."""
    stated = Guarantee(Fraction(epsilon), Fraction(delta))
    axes = drawn(run_view.at_every_epsilon({"weights": stated}))
    curve, dot = points(axes)
    ratio, d = math.exp(float(epsilon)), float(delta)
    one = [d, (1 - d) * ratio / (1 + ratio), (1 - d) / (1 + ratio), 0]
    for x, y in curve:
        delta_at = sum(max(p - math.exp(x) * q, 0) for p, q in zip(one, reversed(one), strict=True))
        assert y == pytest.approx(delta_at, rel=1e-9)
    assert dot == [[float(epsilon), pytest.approx(d)]] and curve[-1][0] > float(epsilon)


def test_an_audits_curve_is_the_exact_one() -> None:
    audits = [audit_sampler(Fraction(epsilon), Fraction(1, 2**40), 1) for epsilon in (1, 2)]
    (picture,) = (part for part in audit_view.audit(audits) if isinstance(part, Picture))
    axes = drawn(picture)
    assert in_legend(axes) == ["default, ε = 1", "default, ε = 2"]
    assert len({line.get_linestyle() for line in axes.get_lines()}) == 2
    for audited, curve, dot in zip(audits, *(points(axes)[k::2] for k in (0, 1)), strict=True):
        assert audited.curve is not None
        exact = float(audited.curve.delta_bounds(audited.requested.epsilon)[1])
        assert dot == [[audited.requested.epsilon, exact]] and dot[0] in curve
        assert curve[-1] == [pytest.approx(8 / 3), float(audited.curve.impossible)]


def population(name: str, epsilons: Sequence[float], budget: Budget | None = None) -> Population:
    charges = [
        Charge(
            "weights",
            "ring",
            Guarantee(Fraction(epsilon), Fraction(0)),
            PrivacyUnit.RECORD,
            NeighboringRelation.ADD_OR_REMOVE_ONE,
            Path("runs/x"),
            id=day,
            time=f"2026-11-{day}T08:00:00+00:00",
            status=Status.DONE,
        )
        for day, epsilon in enumerate(epsilons, 20)
    ]
    return Population(name, budget, tuple(charges))


def test_what_was_spent_rises_to_what_is_left_of_the_budget() -> None:
    charged = [population("loans", (0.5, 0.25), Budget(Fraction(3))), population("others", (1.0,))]
    axes = drawn(spent(charged))
    loans, budget, others = axes.get_lines()
    assert np.asarray(loans.get_ydata()).tolist() == [0, 0.5, 0.75] and loans.get_drawstyle() == "steps-post"
    at = [f"2026-11-{day}T08:00:00" for day in (20, 20, 21)]
    assert np.asarray(loans.get_xdata()).astype(str).tolist() == at and np.asarray(
        others.get_ydata()
    ).tolist() == [0, 1]
    assert set(np.asarray(budget.get_ydata()).tolist()) == {3.0} and in_legend(axes) == ["loans", "others"]


ODD = ("$x$", "_b", "c_{2}", "\x1b[31m", "")


def test_names_are_shown_as_they_are() -> None:
    noisy = curves(ODD)
    shown = [name.replace("\x1b", "\N{REPLACEMENT CHARACTER}") for name in ODD]
    assert in_legend(drawn(roc(noisy, choose_thresholds(noisy)))) == shown
    rows = drawn(intervals("x", ODD, {"": with_ends([0.0] * 5, None)}, "rate", ""))
    assert [label.get_text() for label in rows.get_yticklabels()] == shown


def texts(axes: Axes) -> list[Any]:
    """Return all texts of a picture that has been drawn."""
    legend, every = axes.get_legend(), []
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        every += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    every += [
        *axes.texts,
        axes.xaxis.label,
        axes.yaxis.label,
        *([] if legend is None else legend.get_texts()),
    ]
    return [text for text in every if text.get_text() and text.get_visible()]


LONG = ("Native Hawaiian or Other Pacific Islander alone or in any combination with others", "x" * 70)


@pytest.mark.parametrize("groups", [("a", "b"), tuple(f"group {i}" for i in range(12)), LONG])
def test_no_text_is_clipped_or_on_another(groups: tuple[str, ...]) -> None:
    noisy = curves(groups)
    chosen = choose_thresholds(noisy, "demographic_parity")
    rates = {
        group: with_ends(noisy.points().true_positive_rate[i, :3], None) for i, group in enumerate(groups)
    }
    counts = {"": with_ends([10.0 ** (i % 8) for i in range(len(groups))], None)}
    for picture in (
        roc(noisy, chosen),
        intervals("rates", ["one", "two", "three"], rates, "rate", ""),
        intervals("counts", groups, counts, "count", "", logarithmic=True),
        matrices(groups, ["approved", "denied"], np.full((len(groups), 2, 2), 123456.5)),
        run_view.at_every_epsilon({group: Guarantee(Fraction(1), Fraction(1, 10**6)) for group in groups}),
        spent([population(group, (1, 2), Budget(Fraction(9))) for group in groups]),
    ):
        axes = drawn(picture)
        boxes = [text.get_window_extent() for text in texts(axes)]
        width, height = axes.figure.bbox.size
        for box in boxes:
            assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        for one, other in combinations(boxes, 2):
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            down = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert across < 1 or down < 2, picture.name  # pixels, of 100 an inch


@pytest.fixture
def evaluation() -> pd.DataFrame:
    rows = [
        [
            split,
            model,
            *(float(Fraction(i + split + 5 * (model != UNMITIGATED), 20)) for i in range(len(METRICS))),
        ]
        for split in (0, 1)
        for model in (UNMITIGATED, "m")
    ]
    runs = pd.DataFrame(rows, columns=["split", "model", *METRICS])
    return runs.astype(dict.fromkeys(METRICS, float))


def test_before_and_after_shows_each_model_in_each_picture(evaluation: pd.DataFrame) -> None:
    pictures = [part for part in before_after(evaluation, 2) if isinstance(part, Picture)]
    figures = summary(evaluation).set_index("metric")
    assert [picture.name for picture in pictures] == list(TOLD)
    for picture, metric in zip(pictures, TOLD, strict=True):
        axes = drawn(picture)
        assert axes.get_xlabel().startswith(NAMES[metric])
        assert [label.get_text() for label in axes.get_yticklabels()] == [UNMITIGATED, "m"]
        _, *spreads, means = axes.get_lines()  # the first is the line to compare them with
        expected = figures.loc[[metric]]
        assert np.asarray(means.get_xdata()).tolist() == expected["mean"].tolist()
        ends = np.array([line.get_xdata() for line in spreads])
        assert np.allclose(np.diff(ends)[:, 0] / 2, expected["std"])
