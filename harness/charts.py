"""Pictures of score curves and of what mitigations changed."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.before_after import METRICS, TOLD, models
from harness.curves import GroupCurves
from harness.evaluation import Evaluation
from harness.intervals import noise_bands
from harness.thresholds import GroupThresholds

# Told apart by colour-blind readers, too (Okabe and Ito).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_LOOK: dict[Any, Any] = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
}


def roc(curves: GroupCurves, chosen: GroupThresholds | None, confidence: float) -> Figure:
    """Draw each group's ROC curve with the band that the noise leaves, and where the chosen rules are.

    Computes: the band joins the corners of the boxes that hold all true points of the counted records
    with probability `confidence`, for all groups and thresholds at once.
    """
    points = curves.points()
    bands = noise_bands(curves, 1 - confidence)
    with mpl.rc_context(_LOOK):
        figure = Figure(figsize=(6.6, 5.8), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color="#8a94a3", lw=1, ls=(0, (2, 3)))
        for i, group in enumerate(curves.groups):
            colour = _COLOURS[i % len(_COLOURS)]
            fpr, tpr = points.false_positive_rate[i], points.true_positive_rate[i]
            low, high = (
                np.moveaxis(bands.false_positive_rate[i], -1, 0),
                np.moveaxis(bands.true_positive_rate[i], -1, 0),
            )
            across = np.concatenate([low[0], low[1][::-1]])
            up = np.concatenate([high[1], high[0][::-1]])
            axes.fill(across, up, color=colour, alpha=0.13, lw=0)
            axes.plot(fpr, tpr, color=colour, lw=2, marker="o", ms=3.5, label=group)
            if chosen is not None:
                at = [chosen.rates[f"{name}_positive_rate"][i] for name in ("false", "true")]
                # Smaller for each further group, as rules that treat groups alike are in one place.
                axes.plot(*at, marker="D", ms=12 - 3 * i, mfc=colour, mec="white", mew=1.4, ls="", zorder=5)
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        axes.set(xlabel="false positive rate", ylabel="true positive rate")
        axes.grid(alpha=0.3, lw=0.6)
        axes.legend(loc="lower right", frameon=False, title="group")
    return figure


def before_after(evaluation: Evaluation) -> Figure:
    """Draw balanced accuracy and the differences between groups, of each model, over the splits."""
    names = models(evaluation)
    summary = evaluation.summary().set_index(["model", "metric"])
    with mpl.rc_context(_LOOK):
        figure = Figure(figsize=(10.5, 0.9 + 0.48 * len(names)), layout="constrained")
        panels = figure.subplots(1, len(TOLD), sharey=True)
        for axes, metric in zip(panels, TOLD, strict=True):
            accuracy = metric == "balanced_accuracy"
            better = "higher is better; 0.5 is guessing" if accuracy else "0 is best"
            for row, name in enumerate(names):
                mean, spread = summary.loc[(name, metric), ["mean", "std"]]
                colour = "#5a6575" if row == 0 else _COLOURS[(row - 1) % len(_COLOURS)]
                axes.errorbar(mean, row, xerr=spread, fmt="o", ms=7, color=colour, capsize=3, lw=1.6)
            _tidy(axes, METRICS[metric], better, 0.5 if accuracy else 0.0)
            axes.set_yticks(range(len(names)), names)
        panels[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def _tidy(axes: Axes, title: str, better: str, start: float) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(better, color="#5a6575", fontsize=10)
    axes.set_xlim(left=min(start, axes.get_xlim()[0]))
    axes.grid(axis="x", alpha=0.3, lw=0.6)
    axes.tick_params(axis="y", length=0)
