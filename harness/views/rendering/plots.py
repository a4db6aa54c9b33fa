"""Figures of score curves, of what thresholds do, and of what mitigations change; drawn without a display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.evaluation.before_after import Evaluation
from harness.postprocessing.curve_intervals import noise_bands
from harness.postprocessing.curves import GroupCurves
from harness.postprocessing.thresholds.choose import CONFIDENCE, GroupThresholds
from harness.postprocessing.thresholds.rules import in_words
from harness.views.palette import COLOURS, GREY, MARKERS

Floats = npt.NDArray[np.float64]


class Drawing(Figure):
    """A figure that a notebook shows by itself, without pyplot."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", bbox_inches="tight")
        return picture.getvalue()


RATES = {
    "true_positive_rate": "True positive rate",
    "false_positive_rate": "False positive rate",
    "selection_rate": "Selection rate",
}


def roc_figure(curves: GroupCurves, chosen: GroupThresholds | None = None) -> Figure:
    """Draw each group's ROC curve, where the noise allows it to be, and the chosen points.

    Computes: around the monotone curve, for every threshold the rates that `noise_bands` allows at
    95 %; exact curves have no band. A point off its curve is reached by randomisation.
    Edge cases: a group with an undefined rate has no curve; the legend says so. Beyond seven groups
    colours repeat.
    """
    figure = Drawing(figsize=(6.2, 5.8), layout="constrained")
    axes = figure.add_subplot()
    points = curves.points()
    bands = noise_bands(curves, float(1 - CONFIDENCE)) if curves.noise is not None else None
    legend: list[tuple[Line2D, str]] = []
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":")
    axes.annotate("scores that say nothing", (0.62, 0.56), rotation=45, color=GREY, fontsize="small")
    for i, group in enumerate(curves.groups):
        colour = COLOURS[i % len(COLOURS)]
        fpr, tpr = points.false_positive_rate[i], points.true_positive_rate[i]
        undefined = not (fpr[0] == tpr[0] == 1)
        name = f"{group} (a rate is 0/0)" if undefined else group
        legend += [(line, name) for line in axes.plot(fpr, tpr, color=colour, linewidth=1.6)]
        if bands is not None and not undefined:
            low, high = bands.false_positive_rate[i].T
            lowest, highest = bands.true_positive_rate[i].T
            axes.fill([*low, *high[::-1]], [*highest, *lowest[::-1]], color=colour, alpha=0.16, linewidth=0)
    if chosen is not None:
        for i, group in enumerate(curves.groups):
            at = (chosen.rates["false_positive_rate"][i], chosen.rates["true_positive_rate"][i])
            drawn = axes.plot(
                *([value] for value in at),
                marker=MARKERS[i % len(MARKERS)],
                markersize=8 + 3 * (i % len(MARKERS)),  # so that points on one spot all show
                markerfacecolor="none",
                markeredgecolor=COLOURS[i % len(COLOURS)],
                markeredgewidth=1.8,
                linestyle="none",
            )
            legend += [(line, f"{group}: chosen") for line in drawn]
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.set(xlabel="False positive rate", ylabel="True positive rate")
    axes.set_title(
        "Score curves, and what the noise allows with 95 % probability"
        if bands is not None
        else "Score curves"
    )
    _finish(axes, legend, loc="lower right")
    return figure


def intervals_figure(names: Sequence[str], values: Floats, low: Floats, high: Floats, what: str) -> Figure:
    """Draw estimates, a row each, with their intervals. Args: values, low, high: (n,); what: they are."""
    figure = Drawing(figsize=(6.2, 1.2 + 0.28 * len(names)), layout="constrained")
    axes, rows = figure.add_subplot(), np.arange(len(names))
    axes.hlines(rows, low, high, color=COLOURS[0], linewidth=2, alpha=0.5)
    axes.plot(values, rows, marker=MARKERS[0], color=COLOURS[0], linestyle="none")
    axes.set_yticks(rows, names, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set(xlabel=f"{what}, with 95 % intervals")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def rates_figure(chosen: GroupThresholds) -> Figure:
    """Draw each group's rates under its thresholds, with intervals for the noise and the sample."""
    groups = list(chosen.rules)
    figure = Drawing(figsize=(6.2, 1.4 + 0.28 * len(groups) * len(RATES)), layout="constrained")
    axes = figure.add_subplot()
    ticks, legend = [], []
    for row, (name, title) in enumerate(RATES.items()):
        middle = row * (len(groups) + 1) + (len(groups) - 1) / 2
        ticks.append((middle, title))
        for i, group in enumerate(groups):
            y = row * (len(groups) + 1) + i
            colour = COLOURS[i % len(COLOURS)]
            axes.plot(chosen.intervals[name][i], [y, y], color=colour, linewidth=2, alpha=0.5)
            drawn = axes.plot(
                [chosen.rates[name][i]], [y], marker=MARKERS[i % len(MARKERS)], color=colour, linestyle="none"
            )
            legend += [(line, group) for line in drawn if row == 0]
    axes.set_yticks([middle for middle, _ in ticks], [title for _, title in ticks])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set(xlim=(-0.02, 1.02), xlabel="rate, with 95 % intervals that hold all at once")
    axes.set_title(f"Under {in_words(chosen.constraint)}")
    _finish(axes, legend, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def before_after_figure(evaluation: Evaluation, names: Sequence[str], metrics: Mapping[str, str]) -> Figure:
    """Draw balanced accuracy and the differences between groups, of each model, over the splits."""
    summary = evaluation.summary().set_index(["model", "metric"])
    figure = Drawing(figsize=(8.2, 1.1 + 0.48 * len(names)), layout="constrained")
    panels = figure.subplots(1, len(metrics), sharey=True)
    for axes, metric in zip(panels, metrics, strict=True):
        for row, name in enumerate(names):
            mean, spread = summary.loc[(name, metric), ["mean", "std"]]
            colour = GREY if row == 0 else COLOURS[(row - 1) % len(COLOURS)]
            axes.errorbar(mean, row, xerr=spread, fmt="o", markersize=7, color=colour, capsize=3)
        accuracy = metric == "balanced_accuracy"
        axes.set_title(metrics[metric].replace(" difference", "\ndifference"), loc="left", fontsize="medium")
        axes.set_xlabel("higher is better;\n0.5 is guessing" if accuracy else "0 is best")
        axes.set_xlim(left=min(0.5 if accuracy else 0.0, axes.get_xlim()[0]))
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def _finish(axes: Axes, entries: list[tuple[Line2D, str]], **where: Any) -> None:
    """Add the legend, with names as they are: a dollar or a first underscore means nothing in them."""
    legend = axes.legend([line for line, _ in entries], [name for _, name in entries], frameon=False, **where)
    for text in legend.get_texts():
        text.set_parse_math(False)
    axes.spines[["top", "right"]].set_visible(False)
