"""Draws Figures 1 to 4 on gaps under local privacy: as published beside what protects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.figures import panel, panels
from benchmarks.papers import gaps
from benchmarks.studies.gaps.figures import (
    AS_PUBLISHED,
    EPSILONS,
    RATIOS,
    SIZE_OF_FIGURE_3,
    Convergence,
    allocated,
    band,
    with_ratio,
)
from benchmarks.studies.gaps.published import Allocation, Budgets, l_of_two, published_r, repaired_r
from benchmarks.studies.local_simulation import Floats
from harness.views.palette import COLOURS, GREY, MARKERS
from protocols.accounting.rounding import digits_up

_COLOUR = dict(zip((*AS_PUBLISHED, "M_R, repaired"), COLOURS, strict=False))
_INCHES = (10.5, 4.6)
_GRID = np.linspace(0.02, 2, 100)  # of Figure 3's budgets


def figure_1() -> Figure:
    """Draw bounds of the MSE by epsilon: as published; and at the epsilon that each really has."""
    sizes = tuple(float(size) for size in gaps()["figure1"]["sizes"])
    title = "Figure 1: bounds of the gap's MSE, two groups of 10,000"
    figure, ((left, right),) = panels(1, 2, _INCHES, title)
    for name, allocation in AS_PUBLISHED.items():
        _band(left, name, allocation, (sizes[0], sizes[1]), EPSILONS)
    for at in ("m_r_is_best_from", "m_r_is_best_to"):
        left.axvline(float(gaps()["figure1"][at]), color=GREY, linewidth=1, linestyle=":")
    left.annotate("the paper has\nM_R opt. lowest\nbetween these", (0.34, 0.9), fontsize="small")
    left.set_title("as published, at the ε stated")
    true = [float(published_r(epsilon).true_epsilon() or 0) for epsilon in EPSILONS]
    _band(right, "M_R opt.", published_r, (sizes[0], sizes[1]), true)
    _band(right, "M_R, repaired", repaired_r, (sizes[0], sizes[1]), EPSILONS)
    _band(right, "M_L, k = 2", l_of_two, (sizes[0], sizes[1]), EPSILONS)
    right.annotate("M_L opt. has no ε,\nbut at 2", (0.06, 2e-5), fontsize="small")
    right.set_title("at the true ε")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="ε", ylim=(5e-6, 20), xlim=(0.05, 12))
        axes.legend(frameon=False, fontsize="small")
    left.set_ylabel("MSE, gap on the scale from −1 to 1")
    return figure


def figure_2() -> Figure:
    """Draw the largest MSE by epsilon for groups of unequal size."""
    clients = gaps()["figure2"]["clients"]
    figure, (row,) = panels(1, 2, _INCHES, f"Figure 2: largest MSE of the gap, {clients:,} clients")
    drawn: tuple[tuple[str, Allocation, Allocation | None], ...] = (
        ("M_R opt.", published_r, repaired_r),
        ("M_L, k = 2", l_of_two, None),
    )
    for axes, (name, allocation, repaired) in zip(row, drawn, strict=True):
        for ratio, colour in zip(RATIOS, COLOURS, strict=False):
            sizes = with_ratio(ratio)
            style = ":" if ratio == RATIOS[1] else "-"
            mse = [allocation(epsilon).variance(sizes) for epsilon in EPSILONS]
            axes.plot(EPSILONS, mse, color=colour, linestyle=style, label=f"groups 1:{ratio}")
            if repaired is not None:
                mse = [repaired(epsilon).variance(sizes) for epsilon in EPSILONS]
                axes.plot(EPSILONS, mse, color=colour, linewidth=0.8, linestyle="--")
        axes.set(xscale="log", yscale="log", xlabel="ε", ylim=(1e-5, 1e6))
        axes.set_title(f"{name}; dashed: repaired" if repaired else f"{name}, which keeps to ε")
        axes.legend(frameon=False, fontsize="small")
    row[0].set_ylabel("MSE, gap on the scale from −1 to 1")
    return figure


def figure_3() -> Figure:
    """Draw the MSE of M_L over its two budgets, and where they are said to keep to epsilon_2."""
    figure, (row,) = panels(1, 2, _INCHES, "Figure 3: largest MSE of the gap by M_L, two groups of 10,000")
    first, second = np.meshgrid(_GRID, _GRID)
    for axes, k, name in zip(row, (2.0, 2 / 3), ("2", "2/3"), strict=True):
        mse = np.vectorize(lambda e1, e2, k=k: Budgets(e1, e2, k).variance((SIZE_OF_FIGURE_3,) * 2))
        levels = np.geomspace(3e-4, 10, 14)
        lines = axes.contour(first, second, mse(first, second), levels=levels, colors=GREY, linewidths=0.8)
        axes.clabel(lines, fmt="%.1g", fontsize="x-small")
        at = [allocated(k)(epsilon).epsilon_1 for epsilon in _GRID]
        if k == 2:
            axes.fill_betweenx(_GRID, 0, at, color=COLOURS[2], alpha=0.25, linewidth=0)
            axes.annotate("keeps to ε = ε₂,\nas published", (0.1, 1.5), fontsize="small")
            axes.plot(at, _GRID, color=COLOURS[2], linestyle=":", linewidth=2.2, label="best, k = 2")
        else:
            label = "Eq. (1) holds on this line only;\nno ε holds anywhere"
            axes.plot(at, _GRID, color=COLOURS[1], linestyle="--", linewidth=2.2, label=label)
            axes.axhline(2 / 3, color="black", linewidth=0.6)
            axes.annotate(
                "as published: best below ε = 2/3",
                (1.0, 2 / 3 + 0.03),
                fontsize="small",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
        axes.set(xlim=(0, 2), ylim=(0, 2), xlabel="ε₁, for the group")
        axes.set_title(f"k = {name}")
        axes.legend(frameon=True, framealpha=1, fontsize="small", loc="upper right")
    row[0].set_ylabel("ε₂, for the value")
    return figure


def figure_4(curves: Sequence[Convergence]) -> Figure:
    """Draw the MSE over more and more runs beside its closed form."""
    figure, axes = panel((6.6, 4.6))
    printed = gaps()["figure4"]["runs"]
    runs = [int(each) for each in printed]
    values = [float(value) for value in printed.values()]
    axes.plot(
        runs, values, color=GREY, marker="x", linestyle="none", markersize=8, label="published code's run"
    )
    for curve, colour, marker in zip(curves, COLOURS, MARKERS, strict=False):
        label = f"{curve.name}, true ε = {digits_up(curve.epsilon, 3)}"
        axes.plot(curve.runs, curve.empirical, color=colour, marker=marker, label=label)
        axes.axhline(curve.theory, color=colour, linestyle="--", linewidth=1)
    axes.set(xscale="log", ylim=(0, None), xlabel="runs", ylabel="MSE of a group's mean")
    axes.set_title("Figure 4: M_R, two groups of 10, ε stated as 0.5\n(dashed: Eq. 20)", fontsize="medium")
    axes.legend(frameon=False)
    return figure


def _band(
    axes: Axes,
    name: str,
    allocation: Allocation,
    sizes: tuple[float, float],
    at: Sequence[float] | Floats,
) -> None:
    """Fill between the bounds at EPSILONS, placed at other epsilons."""
    low, high = np.array([band(allocation, epsilon, sizes) for epsilon in EPSILONS]).T
    axes.fill_between(at, low, high, color=_COLOUR[name], alpha=0.3, linewidth=0)
    axes.plot(at, high, color=_COLOUR[name], linewidth=1.6, label=name)


FIGURES: dict[str, Callable[[Sequence[Convergence]], Figure]] = {
    "figure-1": lambda _: figure_1(),
    "figure-2": lambda _: figure_2(),
    "figure-3": lambda _: figure_3(),
    "figure-4": figure_4,
}
