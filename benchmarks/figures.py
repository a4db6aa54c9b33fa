"""Figures as data: lists of marks, each a call of a matplotlib method."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

Mark = Callable[[Axes], object]
Panel = Sequence[Mark]

Marker = Callable[..., Mark]

line: Marker = partial(methodcaller, "plot")
band: Marker = partial(methodcaller, "fill_between", linewidth=0)
level: Marker = partial(methodcaller, "axhline")
place: Marker = partial(methodcaller, "axvline")
note: Marker = partial(methodcaller, "annotate", fontsize="small")
shown: Marker = partial(methodcaller, "set")
LOGARITHMIC = shown(xscale="log", yscale="log")
GRID: Mark = methodcaller("grid", alpha=0.3, linewidth=0.6)


def legend(**style: Any) -> Mark:
    """Return a legend with each label once."""

    def mark(axes: Axes) -> object:
        signs, labels = _labels([axes])
        return axes.legend(signs, labels, **{"frameon": False, "fontsize": "small", **style})

    return mark


LEGEND = legend()
LEGEND_BESIDE = legend(loc="upper left", bbox_to_anchor=(1, 1))


def draw(
    panels: Sequence[Sequence[Panel]],
    inches: tuple[float, float],
    title: str = "",
    *,
    x: str = "",
    y: Sequence[str] = (),
    columns: Sequence[str] = (),
    legend_columns: int = 0,
    **shared: Any,
) -> Figure:
    """Draw rows of panels.

    Args:
        panels: The marks of each panel, row by row.
        inches: The figure's width and height.
        title: The figure's title; empty for none.
        x: The label below the last row; empty for none.
        y: The labels beside the rows.
        columns: The titles above the columns.
        legend_columns: The columns of the figure's legend; 0 for no legend.
        shared: Further arguments of `Figure.subplots`, which say which axes are shared.
    """
    figure = Figure(figsize=inches, layout="constrained")
    grid = figure.subplots(len(panels), len(panels[0]), squeeze=False, **shared)
    for axes_of_row, panels_of_row in zip(grid, panels, strict=True):
        for axes, marks in zip(axes_of_row, panels_of_row, strict=True):
            axes.spines[["top", "right"]].set_visible(False)
            for mark in marks:
                mark(axes)
    for axes, name in zip(grid[:, 0], y, strict=False):
        axes.set_ylabel(name)
    for axes, name in zip(grid[0], columns, strict=False):
        axes.set_title(name, fontsize="medium")
    if x:
        for axes in grid[-1]:
            axes.set_xlabel(x)
    if title:
        figure.suptitle(title, fontweight="bold")
    if legend_columns:
        signs, labels = _labels(grid.flat)
        figure.legend(signs, labels, loc="outside lower center", ncols=legend_columns, frameon=False)
    return figure


def _labels(panels: Iterable[Axes]) -> tuple[list[Any], list[str]]:
    """Return the signs and the labels of a legend that has each label once."""
    sign_of_label: dict[str, Any] = {}
    for axes in panels:
        signs, labels = axes.get_legend_handles_labels()
        for sign, label in zip(signs, labels, strict=True):
            sign_of_label.setdefault(label, sign)
    return list(sign_of_label.values()), list(sign_of_label)


def ticks(names: Mapping[float, str], **style: Any) -> Mark:
    """Return a mark that names only these places on the horizontal axis."""

    def mark(axes: Axes) -> None:
        axes.set_xticks(list(names), list(names.values()), **style)
        axes.xaxis.set_minor_locator(NullLocator())

    return mark


def heights_as_numbers(axes: Axes) -> None:
    """Label a logarithmic vertical axis with plain numbers."""
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.grid(alpha=0.3, linewidth=0.6, which="both")


def each_power_of_ten(axes: Axes) -> None:
    """Label only the powers of 10 of both axes."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=20))
        axis.set_minor_locator(NullLocator())


def ones_and_threes(axes: Axes) -> None:
    """Label 1 and 3 times each power of 10."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=20))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
