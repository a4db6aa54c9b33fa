"""Whom one trusts and how many clients that takes: the gap between two groups, under three trust models."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import GRID, LOGARITHMIC, Panel, draw, each_power_of_ten, level, line, shown
from benchmarks.studies.arrays import Floats
from benchmarks.studies.outcome import SUMMARY, Outcome, Row, grouped, rounded
from benchmarks.studies.trust.models import (
    AGGREGATORS,
    DELTA,
    IN_COMPUTATION,
    LAPLACE,
    MODELS,
    MOST,
    OWN_OF_THREE,
    PER_AGGREGATOR,
    PUBLISHED,
    REPAIRED,
    STEPS,
    TrustModel,
    trust_model,
)
from benchmarks.studies.utility.study import SEED, generator
from harness.privacy.statement import SHIFTED
from harness.views.palette import COLOURS, GREY, MARKERS
from harness.views.parts import Part, Stacked
from protocols.accounting.rounding import digits_up, float_up
from protocols.local_dp.estimators import least_enough

FAILURE = 0.01
RUNS_OF_NEEDED = 10_000  # in which an error is exceeded 100 times, give or take 10

NEEDED, PLOT = "clients.csv", "trust.png"
_LABELS = {  # in the figure, in the order of its colours
    IN_COMPUTATION: "noise in the computation (π_GAP)",
    REPAIRED: "local: M_R, repaired",
    PER_AGGREGATOR: "noise per aggregator (2)",
    LAPLACE: "local: M_L, k = 2",
    PUBLISHED: "local: M_R as published (its ε is larger)",
    OWN_OF_THREE: "own noise of three parties",
}


@dataclass(frozen=True, eq=False)
class Setting:
    """What is measured: every model at these ε, numbers of clients and errors."""

    epsilons: tuple[Fraction, ...] = (Fraction(1, 10), Fraction(1), Fraction(4))
    clients: tuple[int, ...] = tuple(10**power for power in range(2, 9))
    errors: tuple[float, ...] = (0.1, 0.01, 0.001)


QUICK = Setting((Fraction(1),), (100, 1_000, 10_000), (0.1,))


@dataclass(frozen=True, eq=False)
class Cell:
    """One model's error for so many clients. Attributes: row: in numbers; errors: simulated, a run each."""

    model: TrustModel
    row: Row
    errors: Floats


def run(setting: Setting, runs: int, progress: Callable[[int, int], None]) -> tuple[list[Cell], list[Row]]:
    """Return each cell, and a row of how many clients each model needs for an error.

    Args: progress: called with how many results there are, out of how many.
    """
    cells, needs = list[Cell](), list[Row]()
    total = len(setting.epsilons) * len(MODELS) * (len(setting.clients) + len(setting.errors))
    for epsilon, name in product(setting.epsilons, MODELS):
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
    row = {
        "model": name,
        "epsilon": float(epsilon),
        "epsilon_exact": float_up(model.guarantee.epsilon),
        "delta_exact": float_up(model.guarantee.delta),
        "clients": clients,
        "bound_99": rounded(bound) if bound < MOST else None,
        "simulated_99": rounded(exceeded(errors)),
        "simulated_rms": rounded(float(np.sqrt(np.mean(errors**2)))),
        "predicted_rms": rounded(model.deviation(clients)),
    }
    return Cell(model, row, errors)


def _need(name: str, epsilon: Fraction, model: TrustModel, error: float) -> Row:
    proven = least_enough(lambda clients: model.half_width(clients, FAILURE) <= error)

    def enough(clients: float) -> bool:
        drawn = model.errors(int(clients), RUNS_OF_NEEDED, generator(name, epsilon, error))
        return exceeded(drawn) <= error

    return {
        "model": name,
        "epsilon": float(epsilon),
        "epsilon_exact": float_up(model.guarantee.epsilon),
        "error": error,
        "clients_proven": proven,
        # The search starts among eight times fewer clients than by the bound.
        "clients_simulated": least_enough(enough, proven / 8),
    }


def exceeded(errors: Floats) -> float:
    """Return what the sizes of all but 1 % of these errors keep to."""
    return float(np.quantile(abs(errors), 1 - FAILURE))


def outcome(cells: Sequence[Cell], needs: Sequence[Row]) -> Outcome:
    """Return a line per cell, with its errors, and one per number of clients needed."""
    errors = [cell.row for cell in cells]
    which = ("model", "epsilon", "epsilon_exact", "delta_exact", "clients")
    return Outcome(
        {
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
                "bound_99": "exceeded with probability 1 % at most, by proof, whatever the values; "
                "empty: none",
                "simulated_99": "error that all but 1 % of the runs keep to, of the simulated population",
                "simulated_rms": "root of the mean square error of the runs",
                "predicted_rms": "the same in closed form; of noisy sizes to first order",
                "clients_proven": "by bound_99, to 1 %",
                "clients_simulated": "by simulated_99, to about 5 %",
            },
        },
        {"errors": errors, "clients": needs},
        view(cells, needs),
        (
            {name: cell.row[name] for name in which}
            | {"errors": [rounded(error, 3) for error in cell.errors.tolist()]}
            for cell in cells
        ),
        {SUMMARY: errors, NEEDED: needs},
        figures={PLOT: lambda: plot(cells)},
    )


def plot(cells: Sequence[Cell]) -> Figure:
    """Draw a panel per epsilon: lines are proven bounds, markers simulated, both axes logarithmic."""
    by_epsilon: dict[float, list[Cell]] = {}
    for cell in cells:
        by_epsilon.setdefault(cell.row["epsilon"], []).append(cell)
    return draw(
        [[[*_marks(of), shown(title=f"ε = {epsilon:g}")] for epsilon, of in by_epsilon.items()]],
        (max(7.0, 1 + 4 * len(by_epsilon)), 5.6),
        "The gap between two groups' means, values from −1 to 1",
        x="clients, half of them in each group",
        y=["error of the gap, not exceeded in 99 % of runs"],
        legend_columns=min(3, 1 + len(by_epsilon)),
        sharey=True,
    )


def _marks(cells: Sequence[Cell]) -> Panel:
    marks = [level(0.01, color=GREY, linestyle=":", linewidth=1)]
    for (name, label), colour, marker in zip(_LABELS.items(), COLOURS, MARKERS, strict=False):
        of_model = [cell for cell in cells if cell.row["model"] == name]
        errors = {cell.row["clients"]: exceeded(cell.errors) for cell in of_model}
        along = np.geomspace(min(errors), max(errors), 60)
        bounds = np.array([of_model[0].model.half_width(clients, FAILURE) for clients in along])
        signs = {"color": colour, "markersize": 5.5}
        marks += [
            line(along, np.where(bounds < MOST, bounds, np.nan), linewidth=1.8, **signs),
            line(list(errors), list(errors.values()), marker, alpha=0.8, **signs),
            line([], [], marker=marker, linewidth=1.8, label=label, **signs),
        ]
    return [
        *marks,
        line([], [], linestyle="none", label="lines: proven for all values; markers: simulated"),
        LOGARITHMIC,
        shown(ylim=(1e-5, MOST)),
        each_power_of_ten,
        GRID,
    ]


def view(cells: Sequence[Cell], needs: Sequence[Row]) -> Iterator[Part]:
    """View the clients needed for each error, and the errors with some numbers of clients."""
    errors = list(dict.fromkeys(need["error"] for need in needs))
    clients = sorted({c.row["clients"] for c in cells} & {10**4, 10**6})  # of the table
    exact = {(c.row["epsilon"], c.row["model"]): c.model.guarantee.epsilon for c in cells}
    rows = [
        [
            f"ε = {epsilon:g}",
            name,
            digits_up(true, 4),
            *(
                Stacked(f"{powers(need['clients_proven'])}\n{powers(need['clients_simulated'])}")
                for need in needs
                if (need["epsilon"], need["model"]) == (epsilon, name)
            ),
            *(
                Stacked(f"{_bound(row['bound_99'])}\n{row['simulated_99']:.2g}")
                for row in (cell.row for cell in cells)
                if (row["epsilon"], row["model"]) == (epsilon, name) and row["clients"] in clients
            ),
        ]
        for (epsilon, name), true in exact.items()
    ]
    yield grouped(
        [
            *("", "", "its ε"),
            *(f"clients for an error of {error:g}" for error in errors),
            *(f"error with {powers(number)} clients" for number in clients),
        ],
        rows,
        alignment="lll" + "r" * (len(errors) + len(clients)),
    )
    yield (
        "Errors of the gap between two groups' means, values from -1 to 1, that are not exceeded in 99 % of "
        "runs: above, proven whatever the values; below, simulated for one population. All protect a "
        "client's group and value, replaced by any other, at the ε shown; δ is 0, of noise in the "
        f"computation below 2^-40. With noise per aggregator, or of the parties' own, {SHIFTED}."
    )
    wanted = errors[len(errors) // 2]
    for epsilon in dict.fromkeys(need["epsilon"] for need in needs):
        proven = {
            need["model"]: need["clients_proven"]
            for need in needs
            if (need["epsilon"], need["error"]) == (epsilon, wanted)
        }
        yield (
            f"At ε = {epsilon:g}, an error of {wanted:g}: {powers(proven[IN_COMPUTATION])} clients "
            f"with noise in the computation, {powers(proven[OWN_OF_THREE])} with three parties' own noise, "
            f"{powers(proven[PER_AGGREGATOR])} with noise per aggregator, which is two parties' own, "
            f"{powers(proven[REPAIRED])} under local DP (M_R, repaired), "
            f"{powers(float(f'{proven[REPAIRED] / proven[IN_COMPUTATION]:.2g}'))} times as many."
        )


def _bound(bound: float | None) -> str:
    return "none" if bound is None else f"{bound:.2g}"


def powers(number: float) -> str:
    """Return a number to three digits, as 4.7·10^6 from a million on."""
    if number < 10**6:
        return f"{float(f'{number:.3g}'):,.0f}"
    mantissa, exponent = f"{number:.2e}".split("e")
    power = f"10^{int(exponent)}"
    return power if float(mantissa) == 1 else f"{float(mantissa):g}·{power}"
