"""Whom one trusts and how many clients that takes: the gap between two groups, under three trust models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.figures import GRID, LOGARITHMIC, Panel, draw, level, line, shown
from benchmarks.studies.outcome import SUMMARY, Outcome, grouped, rounded
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
    Floats,
    TrustModel,
    trust_model,
)
from benchmarks.studies.utility.study import SEED, generator
from harness.views.palette import COLOURS, GREY, MARKERS
from harness.views.parts import Part, Stacked
from protocols.accounting.rounding import digits_up, float_up
from protocols.local_dp.estimators import least_enough

FAILURE = 0.01
EPSILONS = tuple(map(Fraction, ("1/10", "1", "4")))
CLIENTS = tuple(10**power for power in range(2, 9))
ERRORS = (0.1, 0.01, 0.001)
RUNS_OF_NEEDED = 10_000  # in which an error is exceeded 100 times, give or take 10
_START = 8  # times fewer clients than by the bound: there the search among simulated ones starts

NEEDED, PLOT = "clients.csv", "trust.png"
_DIGITS = 3  # of an error that is kept
_SHOWN = (10**4, 10**6)  # clients of the table
_LABELS = {  # in the figure, in the order of its colours
    IN_COMPUTATION: "noise in the computation (π_GAP)",
    REPAIRED: "local: M_R, repaired",
    PER_AGGREGATOR: "noise per aggregator (2)",
    LAPLACE: "local: M_L, k = 2",
    PUBLISHED: "local: M_R as published (its ε is larger)",
}
_WANTED = 0.01
_LEAST = 1e-5
_POINTS = 60


@dataclass(frozen=True, eq=False)
class Setting:
    """What is measured: every model at these ε, numbers of clients and errors."""

    epsilons: tuple[Fraction, ...] = EPSILONS
    clients: tuple[int, ...] = CLIENTS
    errors: tuple[float, ...] = ERRORS


QUICK = Setting((Fraction(1),), CLIENTS[:3], ERRORS[:1])


@dataclass(frozen=True, eq=False)
class Cell:
    """One model's error for so many clients.

    Attributes: bound: exceeded with probability `FAILURE` at most, by proof, whatever the values; None: none
    is known; deviation: predicted, of the simulated population; errors: simulated, a run each.
    """

    name: str
    epsilon: Fraction
    model: TrustModel
    clients: int
    bound: float | None
    deviation: float
    errors: Floats

    def parameters(self) -> dict[str, Any]:
        """Return what identifies the cell, as JSON; ε and δ are rounded up."""
        exact = self.model.guarantee
        return {
            "model": self.name,
            "epsilon": float(self.epsilon),
            "epsilon_exact": float_up(exact.epsilon),
            "delta_exact": float_up(exact.delta),
            "clients": self.clients,
        }

    def exceeded(self) -> float:
        """Return the error that all but 1 % of the simulated runs keep to."""
        return exceeded(self.errors)

    def summary(self) -> dict[str, Any]:
        """Return the cell in numbers."""
        return {
            **self.parameters(),
            "bound_99": None if self.bound is None else rounded(self.bound),
            "simulated_99": rounded(self.exceeded()),
            "simulated_rms": rounded(float(np.sqrt(np.mean(self.errors**2)))),
            "predicted_rms": rounded(self.deviation),
        }


@dataclass(frozen=True)
class Need:
    """How many clients one model needs for an error that is not exceeded in 99 % of runs.

    Attributes: proven: by the bound, whatever the values; simulated: for the simulated population.
    """

    name: str
    epsilon: Fraction
    epsilon_exact: Fraction
    error: float
    proven: int
    simulated: int

    def summary(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "epsilon": float(self.epsilon),
            "epsilon_exact": float_up(self.epsilon_exact),
            "error": self.error,
            "clients_proven": self.proven,
            "clients_simulated": self.simulated,
        }


def run(setting: Setting, runs: int, progress: Callable[[int, int], None]) -> tuple[list[Cell], list[Need]]:
    """Compute and simulate all. Args: progress: called with how many results there are, out of how many."""
    cells, needs = list[Cell](), list[Need]()
    total = len(setting.epsilons) * len(MODELS) * (len(setting.clients) + len(setting.errors))
    for epsilon in setting.epsilons:
        for name in MODELS:
            model = trust_model(name, epsilon)
            for clients in setting.clients:
                cells.append(_cell(name, epsilon, model, clients, runs))
                progress(len(cells) + len(needs), total)
            for error in setting.errors:
                needs.append(_need(name, epsilon, model, error))
                progress(len(cells) + len(needs), total)
    return cells, needs


def _cell(name: str, epsilon: Fraction, model: TrustModel, clients: int, runs: int) -> Cell:
    bound = model.half_width(clients, FAILURE)
    errors = model.errors(clients, runs, generator(name, epsilon, clients))
    return Cell(
        name, epsilon, model, clients, bound if bound < MOST else None, model.deviation(clients), errors
    )


def _need(name: str, epsilon: Fraction, model: TrustModel, error: float) -> Need:
    proven = least_enough(lambda clients: model.half_width(clients, FAILURE) <= error)

    def enough(clients: float) -> bool:
        drawn = model.errors(int(clients), RUNS_OF_NEEDED, generator(name, epsilon, error))
        return exceeded(drawn) <= error

    simulated = least_enough(enough, proven / _START)
    return Need(name, epsilon, model.guarantee.epsilon, error, proven, simulated)


def exceeded(errors: Floats) -> float:
    """Return what the sizes of all but 1 % of these errors keep to."""
    return float(np.quantile(abs(errors), 1 - FAILURE))


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
        view(cells, needs),
        ({**c.parameters(), "errors": [rounded(e, _DIGITS) for e in c.errors.tolist()]} for c in cells),
        {SUMMARY: errors, NEEDED: clients},
        figures={PLOT: lambda: plot(cells)},
    )


def plot(cells: Sequence[Cell]) -> Figure:
    """Draw a panel per epsilon: lines are proven bounds, markers simulated, both axes logarithmic."""
    epsilons = list(dict.fromkeys(cell.epsilon for cell in cells))
    return draw(
        [[_panel(epsilon, [cell for cell in cells if cell.epsilon == epsilon]) for epsilon in epsilons]],
        (max(7.0, 1 + 4 * len(epsilons)), 5.6),
        "The gap between two groups' means, values from −1 to 1",
        x="clients, half of them in each group",
        y=["error of the gap, not exceeded in 99 % of runs"],
        legend_columns=min(3, 1 + len(epsilons)),
        sharey=True,
    )


def _panel(epsilon: Fraction, cells: Sequence[Cell]) -> Panel:
    marks = [level(_WANTED, color=GREY, linestyle=":", linewidth=1)]
    for (name, label), colour, marker in zip(_LABELS.items(), COLOURS, MARKERS, strict=False):
        of_model = {cell.clients: cell for cell in cells if cell.name == name}
        along = np.geomspace(min(of_model), max(of_model), _POINTS)
        model = next(iter(of_model.values())).model
        bounds = np.array([model.half_width(clients, FAILURE) for clients in along])
        signs = {"color": colour, "markersize": 5.5}
        marks += [
            line(along, np.where(bounds < MOST, bounds, np.nan), linewidth=1.8, **signs),
            line(list(of_model), [cell.exceeded() for cell in of_model.values()], marker, alpha=0.8, **signs),
            line([], [], marker=marker, linewidth=1.8, label=label, **signs),
        ]
    frame = {"ylim": (_LEAST, MOST), "title": f"ε = {float(epsilon):g}"}
    said = line([], [], linestyle="none", label="lines: proven for all values; markers: simulated")
    return [*marks, said, LOGARITHMIC, shown(**frame), _each_power_of_ten, GRID]


def _each_power_of_ten(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=20))
        axis.set_minor_locator(NullLocator())


def view(cells: Sequence[Cell], needs: Sequence[Need]) -> Iterator[Part]:
    """View the clients needed for each error, and the errors with some numbers of clients."""
    errors = list(dict.fromkeys(need.error for need in needs))
    exact = {(need.epsilon, need.name): need.epsilon_exact for need in needs}
    clients = [number for number in dict.fromkeys(cell.clients for cell in cells) if number in _SHOWN]
    rows = [
        [
            f"ε = {float(epsilon):g}",
            name,
            digits_up(exact[epsilon, name], 4),
            *(
                Stacked(f"{powers(need.proven)}\n{powers(need.simulated)}")
                for need in needs
                if (need.epsilon, need.name) == (epsilon, name)
            ),
            *(
                Stacked(f"{'none' if cell.bound is None else f'{cell.bound:.2g}'}\n{cell.exceeded():.2g}")
                for cell in cells
                if (cell.epsilon, cell.name) == (epsilon, name) and cell.clients in clients
            ),
        ]
        for epsilon, name in exact
    ]
    columns = [
        *("", "", "its ε"),
        *(f"clients for an error of {error:g}" for error in errors),
        *(f"error with {powers(number)} clients" for number in clients),
    ]
    yield grouped(columns, rows, alignment="lll" + "r" * (len(columns) - 3))
    yield (
        "Errors of the gap between two groups' means, values from -1 to 1, that are not exceeded in 99 % of "
        "runs: above, proven whatever the values; below, simulated for one population. All protect a "
        "client's group and value, replaced by any other, at the ε shown; δ is 0, of noise in the "
        "computation below 2^-40."
    )
    wanted = errors[len(errors) // 2]
    for epsilon in dict.fromkeys(need.epsilon for need in needs):
        proven = {n.name: n.proven for n in needs if (n.epsilon, n.error) == (epsilon, wanted)}
        yield (
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
