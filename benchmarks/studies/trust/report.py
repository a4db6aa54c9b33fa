"""What the study of trust models shows: error against clients under each, and the clients needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator
from rich.table import Table

from benchmarks.figures import panels
from benchmarks.studies.outcome import SUMMARY, Outcome, rounded
from benchmarks.studies.trust.models import (
    AGGREGATORS,
    DELTA,
    IN_COMPUTATION,
    LAPLACE,
    MODELS,
    MOST,
    PER_AGGREGATOR,
    PUBLISHED,
    REPAIRED,
    STEPS,
)
from benchmarks.studies.trust.study import FAILURE, RUNS_OF_NEEDED, Cell, Need
from benchmarks.studies.utility.study import SEED
from harness.cli import terminal as cli
from harness.cli.terminal import say
from harness.views.palette import COLOURS, GREY, MARKERS
from protocols.accounting.rounding import digits_up, float_up

NEEDED, PLOT = "clients.csv", "trust.png"
_DIGITS = 3  # of an error that is kept
_SHOWN = (10**4, 10**6)  # clients of the table
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


def outcome(cells: Sequence[Cell], needs: Sequence[Need]) -> Outcome:
    """Return a line per cell, with its errors, and one per number of clients needed."""
    about = {
        "seed": SEED,
        "runs": len(cells[0].errors),
        "runs_of_clients_simulated": RUNS_OF_NEEDED,
        "neighboring_relation": "replace_one",
        "delta": float_up(DELTA),
        "confidence": 1 - FAILURE,
        "scale": "values from -1 to 1",
        "steps": STEPS,
        "aggregators": AGGREGATORS,
        "measures": {
            "bound_99": "exceeded with probability 1 % at most, by proof, whatever the values; empty: none",
            "simulated_99": "error that all but 1 % of the runs keep to, of the simulated population",
            "simulated_rms": "root of the mean square error of the runs",
            "predicted_rms": "the same in closed form; of noisy sizes to first order",
            "clients_proven": "by bound_99, to 1 %",
            "clients_simulated": "by simulated_99, to about 5 %",
        },
    }
    errors, clients = [cell.summary() for cell in cells], [need.summary() for need in needs]
    return Outcome(
        about,
        {"errors": errors, "clients": clients},
        lambda: _show(cells, needs),
        ({**c.parameters(), "errors": [rounded(e, _DIGITS) for e in c.errors.tolist()]} for c in cells),
        {SUMMARY: errors, NEEDED: clients},
        figures={PLOT: lambda: plot(cells)},
    )


def plot(cells: Sequence[Cell]) -> Figure:
    """Draw a panel per epsilon: lines are proven bounds, markers simulated, both axes logarithmic."""
    epsilons = list(dict.fromkeys(cell.epsilon for cell in cells))
    title = "The gap between two groups' means, values from −1 to 1"
    figure, (row,) = panels(1, len(epsilons), (max(7.0, 1 + 4 * len(epsilons)), 5.6), title, sharey=True)
    for axes, epsilon in zip(row, epsilons, strict=True):
        _draw(axes, [cell for cell in cells if cell.epsilon == epsilon])
        axes.set(title=f"ε = {float(epsilon):g}", xlabel="clients, half of them in each group")
    row[0].set_ylabel("error of the gap, not exceeded in 99 % of runs")
    figure.legend(
        handles=_legend(), loc="outside lower center", ncols=min(3, 1 + len(epsilons)), frameon=False
    )
    return figure


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


def _show(cells: Sequence[Cell], needs: Sequence[Need]) -> None:
    errors = list(dict.fromkeys(need.error for need in needs))
    table = Table("", "", "its ε")
    for error in errors:
        table.add_column(f"clients for an\nerror of {error:g}", justify="right")
    shown = [number for number in dict.fromkeys(cell.clients for cell in cells) if number in _SHOWN]
    for clients in shown:
        table.add_column(f"error with\n{powers(clients)} clients", justify="right")
    for epsilon in dict.fromkeys(need.epsilon for need in needs):
        table.add_section()
        for row, name in enumerate(MODELS):
            own = [need for need in needs if (need.epsilon, need.name) == (epsilon, name)]
            of_cells = [c for c in cells if (c.epsilon, c.name) == (epsilon, name) and c.clients in shown]
            table.add_row(
                "" if row else f"ε = {float(epsilon):g}",
                name,
                digits_up(own[0].epsilon_exact, 4),
                *(f"{powers(need.proven)}\n[dim]{powers(need.simulated)}[/]" for need in own),
                *(f"{_bound(cell.bound)}\n[dim]{cell.exceeded():.2g}[/]" for cell in of_cells),
            )
    cli.out.print(table)
    say(
        "Errors of the gap between two groups' means, values from -1 to 1, that are not exceeded in 99 % of "
        "runs: above, proven whatever the values; below, simulated for one population. All protect a "
        "client's group and value, replaced by any other, at the ε shown; δ is 0, of noise in the "
        "computation below 2^-40."
    )
    wanted = errors[len(errors) // 2]
    for epsilon in dict.fromkeys(need.epsilon for need in needs):
        at = [need for need in needs if (need.epsilon, need.error) == (epsilon, wanted)]
        proven = {need.name: need.proven for need in at}
        say(
            f"At ε = {float(epsilon):g}, an error of {wanted:g}: {powers(proven[IN_COMPUTATION])} clients "
            f"with noise in the computation, {powers(proven[PER_AGGREGATOR])} with noise per aggregator, "
            f"{powers(proven[REPAIRED])} under local DP (M_R, repaired), "
            f"{powers(float(f'{proven[REPAIRED] / proven[IN_COMPUTATION]:.2g}'))} times as many."
        )


def powers(number: float) -> str:
    """Return a number to three digits, as 4.7·10^6 from a million on."""
    if number < 10**6:
        return f"{float(f'{number:.3g}'):,.0f}"
    mantissa, exponent = f"{number:.2e}".split("e")
    power = f"10^{int(exponent)}"
    return power if float(mantissa) == 1 else f"{float(mantissa):g}·{power}"


def _bound(bound: float | None) -> str:
    return "none" if bound is None else f"{bound:.2g}"
