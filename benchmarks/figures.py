"""What all figures of benchmarks have in common."""

from __future__ import annotations

from itertools import chain
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator


def panels(
    rows: int, columns: int, inches: tuple[float, float], title: str = "", **shared: Any
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure and its panels, row by row, without lines above and at the right of each.

    Args: inches: width and height of the figure; shared: sharex, sharey as `Figure.subplots` takes them.
    """
    figure = Figure(figsize=inches, layout="constrained")
    found: list[list[Axes]] = figure.subplots(rows, columns, squeeze=False, **shared).tolist()
    for axes in chain.from_iterable(found):
        axes.spines[["top", "right"]].set_visible(False)
    if title:
        figure.suptitle(title, fontweight="bold")
    return figure, found


def panel(inches: tuple[float, float]) -> tuple[Figure, Axes]:
    """Return a figure of one panel, as `panels` has them."""
    figure, ((axes,),) = panels(1, 1, inches)
    return figure, axes


def label_ticks(axes: Axes, ticks: dict[float, str]) -> None:
    """Name these places of a logarithmic horizontal axis and no others, and write heights as numbers."""
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    for write in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        write(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(alpha=0.3, linewidth=0.6, which="both")
