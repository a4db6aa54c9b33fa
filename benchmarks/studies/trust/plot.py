"""Draws error against clients under each trust model: a panel per epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.studies.trust.models import IN_COMPUTATION, LAPLACE, MOST, PER_AGGREGATOR, PUBLISHED, REPAIRED
from benchmarks.studies.trust.study import FAILURE, Cell
from harness.views.palette import COLOURS, GREY, MARKERS

_ORDER = (IN_COMPUTATION, REPAIRED, PER_AGGREGATOR, LAPLACE, PUBLISHED)
_STYLE = {name: (COLOURS[i], MARKERS[i]) for i, name in enumerate(_ORDER)}
_LABEL = {
    IN_COMPUTATION: "noise in the computation (π_GAP)",
    PER_AGGREGATOR: "noise per aggregator (2)",
    REPAIRED: "local: M_R, repaired",
    LAPLACE: "local: M_L, k = 2",
    PUBLISHED: "local: M_R as published (its ε is larger)",
}
_WANTED = 0.01
_LEAST = 1e-5
_POINTS = 60


def plot(cells: Sequence[Cell], path: Path) -> None:
    """Write a PNG: lines are proven bounds, markers are simulated, both axes are logarithmic."""
    epsilons = list(dict.fromkeys(cell.epsilon for cell in cells))
    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(max(7.0, 1 + 4 * len(epsilons)), 5.6), layout="constrained")
        panels = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
        for axes, epsilon in zip(panels, epsilons, strict=True):
            _draw(axes, [cell for cell in cells if cell.epsilon == epsilon])
            axes.set_title(f"ε = {float(epsilon):g}")
            axes.set_xlabel("clients, half of them in each group")
        panels[0].set_ylabel("error of the gap, not exceeded in 99 % of runs")
        figure.suptitle(
            "The gap between two groups' means, values from −1 to 1", fontsize=12, fontweight="bold"
        )
        figure.legend(
            handles=_legend(), loc="outside lower center", ncols=min(3, 1 + len(epsilons)), frameon=False
        )
        figure.savefig(path, dpi=110)


def _draw(axes: Axes, cells: Sequence[Cell]) -> None:
    axes.axhline(_WANTED, color=GREY, linestyle=":", linewidth=1)
    for name, (colour, marker) in _STYLE.items():
        of_model = [cell for cell in cells if cell.name == name]
        clients = [cell.clients for cell in of_model]
        along = np.geomspace(min(clients), max(clients), _POINTS)
        bounds = np.array([of_model[0].model.half_width(each, FAILURE) for each in along])
        axes.plot(along, np.where(bounds < MOST, bounds, np.nan), color=colour, linewidth=1.8)
        found = [cell.exceeded() for cell in of_model]
        axes.plot(clients, found, color=colour, marker=marker, linestyle="none", markersize=5.5, alpha=0.8)
    axes.set(xscale="log", yscale="log", ylim=(_LEAST, MOST))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=20))
        axis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3, linewidth=0.6)


def _legend() -> list[Line2D]:
    lines = [
        Line2D([], [], color=colour, marker=marker, linewidth=1.8, markersize=5.5, label=_LABEL[name])
        for name, (colour, marker) in _STYLE.items()
    ]
    return [
        *lines,
        Line2D([], [], linestyle="none", label="lines: proven for all values; markers: simulated"),
    ]
