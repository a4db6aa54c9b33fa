"""What the reproduction shows: each published number beside ours, for people and as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from benchmarks.figures import panel, panels
from benchmarks.papers import gaps
from benchmarks.studies.gaps.figures import (
    AS_PUBLISHED,
    EPSILONS,
    RATIOS,
    SIZE_OF_FIGURE_3,
    Claim,
    Convergence,
    allocated,
    band,
    with_ratio,
)
from benchmarks.studies.gaps.published import Allocation, Budgets, l_of_two, published_r, repaired_r
from benchmarks.studies.gaps.rates import NAMES, SYNTHETIC
from benchmarks.studies.gaps.study import SEED, Extent, Reproduction, Stated
from benchmarks.studies.gaps.tables import Errors, Table1Cell, Table2Cell
from benchmarks.studies.local_simulation import Floats
from benchmarks.studies.outcome import Outcome
from harness.cli.terminal import out, say
from harness.views.palette import COLOURS, GREY, MARKERS
from protocols.accounting.rounding import digits_up

RESULT = "gaps.json"
_SAME, _OTHER = "[green]✓[/]", "[red]✗[/]"
_RARE = 0.01  # two-sided, of the paper's figures among as many runs of ours
_COLOUR = dict(zip((*AS_PUBLISHED, "M_R, repaired"), COLOURS, strict=False))
_INCHES = (10.5, 4.6)
_GRID = np.linspace(0.02, 2, 100)  # of Figure 3's budgets


def outcome(found: Reproduction, extent: Extent) -> Outcome:
    """Return every number beside the published one, and the four figures."""
    about = {
        "population": found.rates.about,
        "seed": SEED,
        "extent": asdict(extent),
        "paper": gaps()["paper"],
    }
    figures = {f"{name}.png": partial(draw, found.figure4) for name, draw in FIGURES.items()}
    return Outcome(about, found.to_json(), lambda: show(found), result=RESULT, figures=figures)


def show(found: Reproduction) -> None:
    """Print all tables, each published number beside ours."""
    say(f"Population of Table 2: {NAMES[found.rates.source]}.")
    if found.activity:
        out.print(_activity(found.activity))
    out.print(_table1(found.table1))
    out.print(_table2(found.table2, synthetic=found.rates.source == SYNTHETIC))
    say(
        "Errors: mean (deviation) of one run; P is how often as many runs as the paper's have a mean as far "
        "out as the published one, twice. α: Chebyshev's bound at 99 %, worst values, two groups of "
        "5,000,000, gap of rates from 0 to 1, which is what the published code computes; the text's "
        "groups and scale give the α in brackets. As coded: the published code exchanges the two scales of "
        "M_L's noise; that fault is emulated here."
    )
    out.print(_figures(found))
    say(summary(found))


def _figures(found: Reproduction) -> Table:
    claims = Table("figure", "what", "published", "reproduced", "", "what holds", title="What figures show")
    for claim in found.claims:
        same = _mark(agrees=claim.agrees)
        claims.add_row(str(claim.figure), claim.what, claim.published, claim.reproduced, same, claim.true)
    printed = gaps()["figure4"]
    for curve in found.figure4:
        ours = f"{curve.empirical[-1]:.3f} over {curve.runs[-1]:,} runs; Eq. 20: {curve.theory:.3f}"
        theirs = f"{printed['runs']['100000']}; Eq. 20: {printed['theory']}"
        claims.add_row(
            "4",
            f"MSE of a group's mean by M_R, {curve.name}",
            theirs if curve is found.figure4[0] else "",
            ours,
            "",
            f"true ε {_epsilon(curve.epsilon)}",
        )
    return claims


def summary(found: Reproduction) -> str:
    """Say in a few sentences what is reproduced and what is not."""
    cells, bounds, claims = found.table1, found.table2, found.claims
    errors = [cell.coded or cell.errors for cell in bounds]
    fit = sum((each.fits_mean or 0) >= _RARE for each in errors)
    spread = sum((each.fits_deviation or 0) >= _RARE for each in errors)
    return (
        f"Table 1: {_count(cells)} cells as published. Table 2: {_count(bounds)} α as published, by the "
        f"reading of the published code; {fit} of {len(errors)} mean errors and {spread} of {len(errors)} "
        f"deviations are such as the mechanism in that code has (P ≥ {_RARE:g}). Figures: {_count(claims)} "
        "statements hold. The ε that is published is not the ε of these settings, but for M_L with k = 2: "
        "see the true ε."
    )


def _count(judged: Sequence[Table1Cell] | Sequence[Table2Cell] | Sequence[Claim]) -> str:
    return f"{sum(each.agrees for each in judged)} of {len(judged)}"


def _activity(rows: Sequence[Stated]) -> Table:
    table = Table("activity data and model", "published", "found", "over splits", "", title="Appendix D")
    for row in rows:
        spread = "" if row.deviation is None else f"± {row.deviation:.2f}"
        what = row.what.replace("_", " ")
        table.add_row(what, row.published, f"{row.found:.2f}", spread, _mark(agrees=row.agrees))
    return table


def _table1(cells: Sequence[Table1Cell]) -> Table:
    table = Table(title="Table 1: least ε for an error α of the gap, with probability 0.99")
    for name in ("", "clients", "α", "published", "reproduced", "", "true ε of that"):
        table.add_column(name, justify="left" if not name else "right")
    for name in ("repaired: α at that ε", "repaired: ε for α", "the same, Chernoff"):
        table.add_column(name, justify="right")
    for i, cell in enumerate(cells):
        if i % 15 == 0:
            table.add_section()
        exact = "-" if cell.reproduced is None else _epsilon(cell.true_epsilon)
        table.add_row(
            cell.mechanism if i % 3 == 0 else "",
            f"10^{len(str(cell.clients)) - 1}" if i % 3 == 0 else "",
            f"{cell.alpha:g}",
            cell.published or "-",
            _number(cell.reproduced),
            _mark(agrees=cell.agrees),
            exact,
            _number(cell.repaired_alpha),
            _number(cell.repaired),
            _number(cell.tight),
        )
    return table


def _table2(cells: Sequence[Table2Cell], *, synthetic: bool) -> Table:
    label = " — SYNTHETIC POPULATION" if synthetic else ""
    table = Table(title=f"Table 2: error of the gap, 10^7 clients{label}")
    for name in ("", "ε", "α published", "reproduced", "", "true ε", "α repaired", "error published"):
        table.add_column(name, justify="left" if not name else "right")
    for name in ("as printed", "as coded", "repaired"):
        table.add_column(name, justify="right")
    for i, cell in enumerate(cells):
        printed = cell.published
        exact = _epsilon(cell.true_epsilon)
        if cell.coded is not None:
            exact += f"\n[dim]as coded: {_epsilon(cell.coded_epsilon)}[/]"
        table.add_row(
            cell.mechanism if i % 4 == 0 else "",
            cell.epsilon,
            printed["alpha"],
            f"{cell.alpha:.4f}\n[dim]({cell.alpha_of_the_text:.4f})[/]",
            _mark(agrees=cell.agrees),
            exact,
            f"{cell.repaired_alpha:.4f}",
            f"{printed['error']}\n({printed['deviation']})",
            _errors(cell.errors),
            _errors(cell.coded) if cell.coded else "",
            _errors(cell.repaired),
        )
    return table


def _errors(errors: Errors) -> str:
    shown = f"{errors.mean:.2g} ({errors.deviation:.2g})"
    return shown if errors.fits_mean is None else f"{shown}\n[dim]P = {errors.fits_mean:.2g}[/]"


def _epsilon(epsilon: Fraction | None) -> str:
    return "none" if epsilon is None else digits_up(epsilon, 4)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _mark(*, agrees: bool) -> str:
    return _SAME if agrees else _OTHER


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
