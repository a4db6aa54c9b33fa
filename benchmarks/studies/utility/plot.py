"""Draws what released score curves are worth: a column per setting, a row per measure, a line per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.studies.utility.releases import FLAT, LOCAL, METHODS, NOISE_FREE, PER_THRESHOLD, TREE
from benchmarks.studies.utility.study import Floats, Outcome, Values
from harness.views.palette import COLOURS, GREY, MARKERS

NAMES = {
    TREE: "tree (default)",
    FLAT: "flat histogram",
    PER_THRESHOLD: "noise per threshold",
    LOCAL: "local DP",
}
_COLOUR = dict(zip((TREE, LOCAL, FLAT, PER_THRESHOLD), COLOURS, strict=False))
_MARKER = dict(zip(METHODS, MARKERS, strict=False))
_TICKS = (1.0, 3.0)  # times powers of ten
_MARGIN = 1.6
_INCHES = (2.75, 2.5)  # of a panel


def rate_errors(outcome: Outcome) -> Floats:
    """Return the RMS error of both rates together, per repetition."""
    both = [np.array(outcome.samples[name]) for name in ("tpr_rmse", "fpr_rmse")]
    return np.asarray(np.sqrt(np.mean(np.square(both), axis=0)))


def _measure(name: str) -> Values:
    return lambda outcome: np.array(outcome.samples[name])


_WHOLE = "Gap in the\npopulation"
FIGURES: Mapping[str, Values] = {
    "TPR and FPR,\nRMS error": rate_errors,
    "AUC,\nRMS error": _measure("auc_error"),
    "Gap among\nthose counted": _measure("gap_counted"),
    _WHOLE: _measure("gap_whole"),
}


def title_of(outcome: Outcome) -> str:
    """Name an outcome's setting."""
    kind = "real data: " if outcome.population == "loanapp" else ""
    return f"{kind}{outcome.records:,} records,\n{outcome.groups} groups, {outcome.thresholds} thresholds"


def by_setting(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Return the outcomes of each setting, in their order."""
    found: dict[tuple[str, int, int], list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.population, outcome.records, outcome.groups), []).append(outcome)
    return list(found.values())


def plot(columns: Sequence[Sequence[Outcome]], title: str, path: Path) -> None:
    """Write a PNG: medians over the repetitions, shaded between the quartiles, both axes logarithmic.

    Args: columns: the outcomes of one setting each.
    """
    width, height = _INCHES
    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(
            figsize=(max(7.0, 1 + width * len(columns)), height * len(FIGURES)), layout="constrained"
        )
        panels = figure.subplots(len(FIGURES), len(columns), sharex=True, sharey="row", squeeze=False)
        for row, (label, values) in zip(panels, FIGURES.items(), strict=True):
            for axes, outcomes in zip(row, columns, strict=True):
                _draw(axes, outcomes, values)
                if label == _WHOLE:
                    _references(axes, outcomes, values)
                axes.grid(alpha=0.3, linewidth=0.6)
            row[0].set_ylim(bottom=_least(columns, values))
            row[0].set_ylabel(label)
            row[0].yaxis.set_major_locator(LogLocator(subs=_TICKS, numticks=20))
            row[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            row[0].yaxis.set_minor_locator(NullLocator())
        for axes, outcomes in zip(panels[0], columns, strict=True):
            axes.set_title(title_of(outcomes[0]), fontsize=10)
        epsilons = sorted({float(o.epsilon) for outcomes in columns for o in outcomes if o.epsilon})
        for axes in panels[-1]:
            axes.set_xscale("log")
            axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons], fontsize=8)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlabel("ε of the whole release")
        figure.suptitle(title, fontsize=12, fontweight="bold")
        figure.legend(
            handles=_legend(), loc="outside lower center", ncols=min(3, len(columns)), frameon=False
        )
        figure.savefig(path, dpi=110)


def _draw(axes: Axes, outcomes: Sequence[Outcome], values: Values) -> None:
    for method in METHODS:
        of_method = [outcome for outcome in outcomes if outcome.method == method]
        epsilons = [float(outcome.epsilon or 0) for outcome in of_method]
        low, middle, high = np.array([np.quantile(values(o), [0.25, 0.5, 0.75]) for o in of_method]).T
        colour = _COLOUR[method]
        axes.fill_between(epsilons, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(epsilons, middle, color=colour, marker=_MARKER[method], markersize=5, linewidth=1.8)
    axes.set_yscale("log")


def _least(columns: Sequence[Sequence[Outcome]], values: Values) -> float:
    """Return where a row of panels ends below: under all medians but local DP's at the largest epsilon.

    Local DP has hardly any noise there, and protects hardly anybody: its lines may leave the frame.
    """
    medians = [
        float(np.median(values(outcome)))
        for outcomes in columns
        for outcome in outcomes
        if outcome.method not in (NOISE_FREE, LOCAL)
    ]
    return min(medians) / _MARGIN


def _references(axes: Axes, outcomes: Sequence[Outcome], values: Values) -> None:
    """Draw what thresholds from exact curves leave, and what the threshold 1/2 for everybody does."""
    (exact,) = (outcome for outcome in outcomes if outcome.method == NOISE_FREE)
    axes.axhline(float(np.median(values(exact))), color="black", linestyle=":", linewidth=1.6)
    axes.axhline(exact.unmitigated_gap, color=GREY, linestyle="--", linewidth=1.4)


def _legend() -> list[Line2D]:
    lines = [
        Line2D([], [], color=_COLOUR[method], marker=_MARKER[method], linewidth=1.8, label=NAMES[method])
        for method in METHODS
    ]
    exact = Line2D([], [], color="black", linestyle=":", label="no noise: what the sample leaves")
    before = Line2D([], [], color=GREY, linestyle="--", label="before: one threshold, 0.5, for all")
    return [*lines, exact, before]
