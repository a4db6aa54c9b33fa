"""Pictures of released and public results.

They draw on given axes, so that matplotlib, which takes a second to load, is not loaded here.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.views.palette import COLOURS, GREY, INK, MARKERS, STYLES
from fairshares.harness.views.parts import Picture
from fairshares.harness.views.rendering.text import printable
from fairshares.protocols.arrays import Floats

if TYPE_CHECKING:  # slow to load
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.typing import LineStyleType

    from fairshares.harness.postprocessing.curves import GroupCurves
    from fairshares.harness.postprocessing.thresholds.choose import GroupThresholds
    from fairshares.harness.privacy.ledger.populations import Population


WIDTH = 5.0  # inches of every picture; legible on a phone
_LINE = 0.27  # inches
_BANDS = "where the true points of all groups and thresholds are with 95 % probability, over the noise"
_LONGEST = 28  # characters of a name in a picture; a table beside it has the whole name


def figure_of(picture: Picture) -> Figure:
    """Draw one picture."""
    from matplotlib.figure import Figure  # takes a second to load

    figure = Figure(figsize=(WIDTH, picture.height), layout="constrained")
    picture.draw(figure.add_subplot())
    return figure


def with_ends(values: npt.ArrayLike, ends: npt.ArrayLike | None) -> Floats:
    """Return estimates with their intervals' ends, shape (n, 3), NaN without any."""
    estimates = np.asarray(values, dtype=float)[..., np.newaxis]
    if ends is None:
        known = np.full((*estimates.shape[:-1], 2), np.nan)
    else:
        known = np.asarray(ends, dtype=float)
    return np.concatenate([estimates, known], axis=-1).reshape(-1, 3)


def intervals(
    name: str,
    rows: Sequence[str],
    series: Mapping[str, Floats],
    what: str,
    caption: str,
    *,
    at: float | None = None,
    logarithmic: bool = False,
) -> Picture:
    """Picture estimates with their intervals, one below the other, beside a line at `at`.

    `series` have shape (rows, 3): estimate, low, high, above 0 on a logarithmic axis; NaN is not drawn.
    """
    lines_per_row = float(len(series))
    if len(series) > 1 or max(len(row) for row in rows) > _LONGEST:
        lines_per_row += 0.5  # room between rows, or for names of two lines
    return Picture(
        name,
        _Intervals(rows, series, what, line=at, logarithmic=logarithmic).draw,
        f"{what}, of {', '.join(rows)}",
        caption,
        0.8 + _LINE * (len(rows) * lines_per_row) + _height_of_legend(series),
    )


@dataclass(frozen=True)
class _Intervals:
    """The picture of `intervals`."""

    rows: Sequence[str]
    series: Mapping[str, Floats]
    what: str
    line: float | None
    logarithmic: bool

    def draw(self, axes: Axes) -> None:
        pitch = float(len(self.series))  # the distance from a row to the next, in lines
        if len(self.series) > 1:
            pitch += 0.5
        first_lines = pitch * np.arange(len(self.rows))  # the first line of each row
        entries: list[Line2D] = []
        if self.line is not None:
            axes.axvline(self.line, color=GREY, linewidth=0.8, linestyle=":")
        for i, ends in enumerate(self.series.values()):
            at = first_lines + i
            colour, marker, _ = _look(i)
            axes.plot(ends[:, 1:].T, [at, at], color=colour, linewidth=2, alpha=0.6, marker="|", markersize=7)
            entries += axes.plot(
                ends[:, 0],
                at,
                color=colour,
                marker=marker,
                fillstyle="full" if i < len(MARKERS) else "none",
                linestyle="none",
            )
        middles = first_lines + (len(self.series) - 1) / 2  # the middle of each row
        axes.set_yticks(middles, [_short(row) for row in self.rows], parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel=self.what, ylim=(pitch * (len(self.rows) - 1) + len(self.series) - 0.4, -0.6))
        if self.logarithmic:
            from matplotlib.ticker import LogLocator

            axes.set_xscale("log")
            low, high = axes.get_xlim()
            ticks_of_decade = (1, 3) if high < 100 * low else (1,)
            axes.xaxis.set_major_locator(LogLocator(subs=ticks_of_decade, numticks=5))
            axes.xaxis.set_major_formatter("{x:,.10g}")
            axes.xaxis.set_minor_formatter("")
        _finish(axes, entries, self.series)


def matrices(groups: Sequence[str], labels: Sequence[str], counts: Floats) -> Picture:
    """Picture noisy confusion matrices, (groups, labels, predicted labels)."""
    return Picture(
        "matrices",
        _Matrices(groups, labels, counts).draw,
        f"noisy counts by label and prediction, of {', '.join(groups)}",
        "Noisy counts; the darker, the larger the share of that label's records.",
        0.9 + 1.2 * _LINE * len(groups) * len(labels),
    )


@dataclass(frozen=True)
class _Matrices:
    """The picture of `matrices`."""

    groups: Sequence[str]
    labels: Sequence[str]
    counts: Floats

    def draw(self, axes: Axes) -> None:
        rows = self.counts.reshape(-1, len(self.labels))
        not_negative = np.maximum(rows, 0)
        shares = not_negative / np.maximum(not_negative.sum(axis=1, keepdims=True), 1e-9)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.6, aspect="auto")  # to 1.6, so that text can be read
        for row, column in np.ndindex(*rows.shape):
            axes.text(column, row, f"{rows[row, column]:,.1f}", ha="center", va="center", color=INK)
        for group in range(1, len(self.groups)):
            axes.axhline(group * len(self.labels) - 0.5, color="black", linewidth=1)
        names = [_short(f"{group}, {label}") for group in self.groups for label in self.labels]
        axes.set_yticks(range(len(names)), names, parse_math=False)
        axes.set_xticks(range(len(self.labels)), [_short(label) for label in self.labels], parse_math=False)
        axes.tick_params(length=0)
        axes.set(xlabel="predicted label", ylabel="group, label")


def roc(curves: GroupCurves, chosen: GroupThresholds | None = None) -> Picture:
    """Picture each group's ROC curve, its possible area given the noise, and the chosen points.

    Bands hold the rates that `noise_bands` allows at 95 %. Randomization reaches points off a curve. A group
    with an undefined rate has no curve.
    """
    caption = "Score curves of the groups; those on the dotted line say nothing."
    if curves.noise is not None:
        caption += f" Bands: {_BANDS}."
    if chosen:
        caption += " Markers: what the chosen thresholds do."
    return Picture(
        "roc",
        _Roc(curves, chosen).draw,
        f"ROC curves of {', '.join(curves.groups)}",
        caption,
        5.4 + _height_of_legend(curves.groups),
    )


@dataclass(frozen=True)
class _Roc:
    """The picture of `roc`."""

    curves: GroupCurves
    chosen: GroupThresholds | None

    def draw(self, axes: Axes) -> None:
        from fairshares.harness.postprocessing.curves import noise_bands

        points = self.curves.points()
        bands = None if self.curves.noise is None else noise_bands(self.curves, float(1 - CONFIDENCE))
        entries: list[Line2D] = []
        names = []
        shade = min(0.16, 0.6 / len(self.curves.groups))  # lighter with more groups, whose bands overlap
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":")
        for i, group in enumerate(self.curves.groups):
            colour, marker, style = _look(i)
            fpr = points.false_positive_rate[i]
            tpr = points.true_positive_rate[i]
            undefined = not (fpr[0] == tpr[0] == 1)
            entries += axes.plot(fpr, tpr, color=colour, linewidth=1.6, linestyle=style)
            names.append(f"{group} (a rate is 0/0)" if undefined else group)
            if bands is not None and not undefined:
                low, high = bands["false_positive_rate"][i].T
                lowest, highest = bands["true_positive_rate"][i].T
                axes.fill(
                    [*low, *high[::-1]], [*highest, *lowest[::-1]], color=colour, alpha=shade, linewidth=0
                )
            if self.chosen is not None:
                entries[-1:] = axes.plot(
                    [self.chosen.rates["false_positive_rate"][i]],
                    [self.chosen.rates["true_positive_rate"][i]],
                    color=colour,
                    linestyle=style,
                    marker=marker,
                    markersize=6 + 1.5 * (i % len(MARKERS)),  # equal points all show
                    markerfacecolor="none",
                    markeredgewidth=1.8,
                )
        axes.set(xlabel="False positive rate", ylabel="True positive rate", aspect="equal")
        _finish(axes, entries, names)


Curve = tuple[Fraction, Callable[[Fraction], float]]
"""A curve δ(ε): the requested or claimed ε, and δ at each ε."""


def deltas(name: str, curves: Mapping[str, Curve], caption: str) -> Picture:
    """Picture up to 28 curves of δ at each ε, and the requested ε."""
    return Picture(
        name,
        _Deltas(curves).draw,
        f"δ as a function of ε, of {'; '.join(curves)}",
        caption,
        3.6 + _height_of_legend(curves),
    )


@dataclass(frozen=True)
class _Deltas:
    """The picture of `deltas`."""

    curves: Mapping[str, Curve]

    def draw(self, axes: Axes) -> None:
        requested = {at for at, _ in self.curves.values()}
        steps = {max(requested) * i / 240 for i in range(321)}  # to a third beyond the last
        grid = sorted(steps | requested)
        entries: list[Line2D] = []
        for i, (at, delta) in enumerate(self.curves.values()):
            colour, marker, style = _look(i)
            epsilons = [float(epsilon) for epsilon in grid]
            deltas_at = [delta(epsilon) for epsilon in grid]
            axes.plot(epsilons, deltas_at, color=colour, linestyle=style, linewidth=1.8)
            entries += axes.plot(
                float(at), delta(at), color=colour, linestyle=style, marker=marker, clip_on=False
            )
        axes.set(xlabel="ε", ylabel="δ", yscale="log", ylim=(None, 2), xlim=(0, None))
        _finish(axes, entries, self.curves)


def spent(populations: Sequence[Population]) -> Picture:
    """Picture populations' spending over time, and their budgets."""
    names = [population.name for population in populations]
    return Picture(
        "spent",
        _Spent(populations, names).draw,
        f"ε spent over time by {', '.join(names)}",
        "ε spent, by basic composition; a line across is a budget.",
        3.4 + _height_of_legend(names),
    )


@dataclass(frozen=True)
class _Spent:
    """The picture of `spent`."""

    populations: Sequence[Population]
    names: Sequence[str]

    def draw(self, axes: Axes) -> None:
        from matplotlib.dates import ConciseDateFormatter

        entries: list[Line2D] = []
        for i, population in enumerate(self.populations):
            colour, marker, style = _look(i)
            times = [np.datetime64(charge.time.partition("+")[0]) for charge in population.charges]
            epsilons = [float(charge.exact.epsilon) for charge in population.charges]
            entries += axes.plot(
                np.array([times[0], *times]),
                np.cumsum([0.0, *epsilons]),
                color=colour,
                marker=marker,
                markevery=slice(1, None),
                drawstyle="steps-post",
            )
            if population.budget is not None:
                axes.axhline(float(population.budget.epsilon), color=colour, linewidth=1, linestyle=style)
        axes.set(xlabel="time of the run (UTC)", ylabel="ε spent", ylim=(0, None))
        axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))  # type: ignore[no-untyped-call]
        _finish(axes, entries, self.names)


def _look(i: int) -> tuple[str, str, LineStyleType]:
    """Return the color, marker and line style of the i-th series; the first 28 differ in at least one."""
    colours = len(COLOURS)
    rounds = i // colours  # how often all colors were used before
    return COLOURS[i % colours], MARKERS[(i + rounds) % colours], STYLES[i % len(STYLES)]


def _short(name: str) -> str:
    """Return a name in at most two lines, of a longer one its beginning and its end."""
    lines = textwrap.wrap(printable(name), _LONGEST)
    if len(lines) > 2:
        return f"{lines[0]}\n… {lines[-1]}"
    return "\n".join(lines)


def _columns(names: Collection[str]) -> int:
    """Return how many columns a legend has, the more, the shorter the names are."""
    longest = max(len(name) for name in names)
    if longest <= _LONGEST // 2:
        return 3
    if longest <= _LONGEST - 4:
        return 2
    return 1


def _height_of_legend(names: Collection[str]) -> float:
    """Return a legend's height in inches; a single series needs none."""
    if len(names) < 2:
        return 0
    return _LINE * math.ceil(len(names) / _columns(names))


def _finish(axes: Axes, entries: Sequence[Line2D], names: Collection[str]) -> None:
    """Add a grid, and a legend that shows names literally."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.6)
    if len(names) > 1:
        legend = axes.legend(
            entries,
            [_short(name) for name in names],
            frameon=False,
            ncols=_columns(names),
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            borderaxespad=3.6,  # below the axis's name
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
