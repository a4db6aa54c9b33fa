"""`./inv reproduce gaps`: Juarez and Korolova's tables and figures, each number beside the published one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.figures import (
    LEGEND,
    LOGARITHMIC,
    Mark,
    band,
    draw,
    legend,
    level,
    line,
    note,
    place,
    shown,
)
from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.gaps.published import Allocation, Budgets, l_of_two, published_r, repaired_r
from benchmarks.studies.gaps.rates import (
    NAMES,
    RATES,
    SYNTHETIC,
    Rates,
    activity_rates,
    printed_figures,
    synthetic_rates,
)
from benchmarks.studies.gaps.reproduced import (
    AS_PUBLISHED,
    EPSILONS,
    RATIOS,
    SIZE_OF_FIGURE_3,
    allocated,
    bounds,
    claims,
    figure4,
    table1,
    table2,
    with_ratio,
)
from benchmarks.studies.outcome import Outcome, Row, grouped
from harness.views.palette import COLOURS, GREY, MARKERS
from harness.views.parts import Bad, Good, Part, Stacked, Table
from protocols.accounting.rounding import digits_up, float_up
from protocols.arrays import Floats

SEED = 20_230_417  # any; fixed, so that figures can be repeated
RESULT = "gaps.json"
MARKS = {True: Good("✓"), False: Bad("✗")}
_RARE = 0.01  # two-sided, of the paper's figures among as many runs of ours
_COLOUR = dict(zip((*AS_PUBLISHED, "M_R, repaired"), COLOURS, strict=False))
_INCHES = (10.5, 4.6)
_GRID = np.linspace(0.02, 2, 100)  # of Figure 3's budgets
_HEIGHT = ["MSE, gap on the scale from −1 to 1"]


@dataclass(frozen=True)
class Extent:
    """How much is simulated. Attributes: runs: of Table 2's cells; splits: of the activity data."""

    runs: int
    splits: int
    runs_of_figure_4: int


WHOLE = Extent(10_000, gaps()["activity"]["splits"], 100_000)
QUICK = Extent(200, 1, 1_000)


def close(found: float, published: str, deviation: float | None) -> bool:
    """Whether a figure of the data is what is published, rounded; or within three deviations over splits."""
    near = deviation is not None and abs(found - float(published)) <= 3 * deviation
    return near or rounds_to(found, published)


def reproduce(
    data: Path | None,
    extent: Extent,
    begin: Callable[[str], None] = lambda _: None,
    detail: Callable[[str], None] = lambda _: None,
) -> tuple[Rates, dict[str, Any]]:
    """Compute all of it.

    Args: data: the activity archive, None: a synthetic population; begin: called with "table1", "table2" and
    "figures" as each begins; detail: with how far the data are.
    Returns: the rates; every number beside the published one.
    Raises: DataSetError: the archive cannot be used.
    """
    of_table2, of_figure4 = np.random.default_rng(SEED).spawn(2)
    rates = (
        synthetic_rates()
        if data is None
        else activity_rates(data, extent.splits, lambda done: detail(f"{done} of {extent.splits} splits"))
    )
    found: dict[str, Any] = {
        "schema": 1,
        "population": {"source": rates.source, "is": NAMES[rates.source]},
    }
    begin("table1")
    found["table1"] = table1()
    begin("table2")
    found["table2"] = table2(rates, RATES[0], extent.runs, of_table2)
    begin("figures")
    found["claims"] = claims()
    found["figure4"] = figure4(extent.runs_of_figure_4, of_figure4)
    found["activity"] = [
        {
            "what": name,
            "published": printed,
            "found": rates.figures[name].value,
            "deviation": rates.figures[name].deviation,
            "agrees": close(rates.figures[name].value, printed, rates.figures[name].deviation),
        }
        for name, printed in printed_figures().items()
        if name in rates.figures
    ]
    return rates, {**found, "caveats": gaps()["caveats"]}


def _plain(value: Any) -> Any:
    """Return numbers as JSON has them: epsilons are rounded up, and others to six digits but in a tuple."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Fraction):
        return float_up(value)
    return float(f"{value:.6g}") if isinstance(value, float) else value


def outcome(rates: Rates, found: Mapping[str, Any], extent: Extent) -> Outcome:
    """Return every number beside the published one, and the four figures."""
    return Outcome(
        {
            "population": rates.about,
            "seed": SEED,
            "extent": asdict(extent),
            "paper": gaps()["paper"],
        },
        _plain(dict(found)),
        view(found),
        result=RESULT,
        figures={f"{name}.png": partial(drawn, found["figure4"]) for name, drawn in FIGURES.items()},
    )


def view(found: Mapping[str, Any]) -> Iterator[Part]:
    """View all tables, each published number beside ours, and what follows."""
    yield f"Population of Table 2: {found['population']['is']}."
    if found["activity"]:
        yield _activity(found["activity"])
    yield _table1(found["table1"])
    yield _table2(found["table2"], synthetic=found["population"]["source"] == SYNTHETIC)
    yield (
        "Errors: mean (deviation) of one run; P is how often as many runs as the paper's have a mean as far "
        "out as the published one, twice. α: Chebyshev's bound at 99 %, worst values, two groups of "
        "5,000,000, gap of rates from 0 to 1, which is what the published code computes; the text's "
        "groups and scale give the α in brackets. As coded: the published code exchanges the two scales of "
        "M_L's noise; that fault is emulated here."
    )
    yield _figures(found["claims"], found["figure4"])
    errors = [cell["coded"] or cell["errors"] for cell in found["table2"]]
    fit, spread = (
        f"{sum(each[name] >= _RARE for each in errors)} of {len(errors)}"
        for name in ("fits_mean", "fits_deviation")
    )
    first, second, judged = (
        f"{sum(each['agrees'] for each in found[name])} of {len(found[name])}"
        for name in ("table1", "table2", "claims")
    )
    yield (
        f"Table 1: {first} cells as published. Table 2: {second} α as "
        f"published, by the reading of the published code; {fit} mean errors and {spread} deviations are "
        f"such as the mechanism in that code has (P ≥ {_RARE:g}). Figures: {judged} "
        "statements hold. The ε that is published is not the ε of these settings, but for M_L with k = 2: "
        "see the true ε."
    )


def _activity(rows: Sequence[Row]) -> Table:
    return Table(
        ["activity data and model", "published", "found", "over splits", ""],
        [
            [
                row["what"].replace("_", " "),
                row["published"],
                f"{row['found']:.2f}",
                "" if row["deviation"] is None else f"± {row['deviation']:.2f}",
                MARKS[row["agrees"]],
            ]
            for row in rows
        ],
        title="Appendix D",
    )


def _table1(cells: Sequence[Row]) -> Table:
    return grouped(
        (
            *("", "clients", "α", "published", "reproduced", "", "true ε of that"),
            *("repaired: α at that ε", "repaired: ε for α", "the same, Chernoff"),
        ),
        [
            [
                cell["mechanism"],
                f"10^{len(str(cell['clients'])) - 1}",
                f"{cell['alpha']:g}",
                cell["published"] or "-",
                _number(cell["reproduced"]),
                MARKS[cell["agrees"]],
                "-" if cell["reproduced"] is None else _epsilon(cell["true_epsilon"]),
                *(_number(cell[name]) for name in ("repaired_alpha", "repaired", "tight")),
            ]
            for cell in cells
        ],
        2,
        title="Table 1: least ε for an error α of the gap, with probability 0.99",
    )


def _table2(cells: Sequence[Row], *, synthetic: bool) -> Table:
    return grouped(
        (
            *("", "ε", "α published", "reproduced", "", "true ε", "α repaired", "error published"),
            *("as printed", "as coded", "repaired"),
        ),
        [
            [
                cell["mechanism"],
                cell["epsilon"],
                cell["published"]["alpha"],
                Stacked(f"{cell['alpha']:.4f}\n({cell['alpha_of_the_text']:.4f})"),
                MARKS[cell["agrees"]],
                Stacked(f"{_epsilon(cell['true_epsilon'])}\nas coded: {_epsilon(cell['coded_epsilon'])}")
                if cell["coded"]
                else _epsilon(cell["true_epsilon"]),
                f"{cell['repaired_alpha']:.4f}",
                Stacked(f"{cell['published']['error']}\n({cell['published']['deviation']})"),
                *(_errors(cell[name]) for name in ("errors", "coded", "repaired")),
            ]
            for cell in cells
        ],
        title=f"Table 2: error of the gap, 10^7 clients{' — SYNTHETIC POPULATION' if synthetic else ''}",
    )


def _figures(judged: Sequence[Row], curves: Sequence[Row]) -> Table:
    rows = [
        [
            *(f"{each[name]}" for name in ("figure", "what", "published", "reproduced")),
            MARKS[each["agrees"]],
            each["true"],
        ]
        for each in judged
    ]
    printed = gaps()["figure4"]
    rows += [
        [
            "4",
            f"MSE of a group's mean by M_R, {curve['name']}",
            f"{printed['runs']['100000']}; Eq. 20: {printed['theory']}" if curve is curves[0] else "",
            f"{curve['empirical'][-1]:.3f} over {curve['runs'][-1]:,} runs; Eq. 20: {curve['theory']:.3f}",
            "",
            f"true ε {_epsilon(curve['epsilon'])}",
        ]
        for curve in curves
    ]
    columns = ["figure", "what", "published", "reproduced", "", "what holds"]
    return grouped(columns, rows, alignment="llllll", title="What figures show")


def _errors(errors: Row | None) -> str:
    if errors is None:
        return ""
    told = f"{errors['mean']:.2g} ({errors['deviation']:.2g})"
    return told if errors["fits_mean"] is None else Stacked(f"{told}\nP = {errors['fits_mean']:.2g}")


def _epsilon(epsilon: Fraction | None) -> str:
    return "none" if epsilon is None else digits_up(epsilon, 4)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def figure_1() -> Figure:
    """Draw bounds of the MSE by epsilon: as published; and at the epsilon that each really has."""
    first, second = map(float, gaps()["figure1"]["sizes"])
    true = [float(published_r(epsilon).true_epsilon() or 0) for epsilon in EPSILONS]

    def at(name: str, allocation: Allocation, epsilons: Sequence[float] | Floats) -> list[Mark]:
        """Fill between the bounds at EPSILONS, placed at these."""
        low, high = np.array([bounds(allocation, epsilon, (first, second)) for epsilon in EPSILONS]).T
        return [
            band(epsilons, low, high, alpha=0.3, color=_COLOUR[name]),
            line(epsilons, high, linewidth=1.6, label=name, color=_COLOUR[name]),
        ]

    left = [
        *(mark for name, allocation in AS_PUBLISHED.items() for mark in at(name, allocation, EPSILONS)),
        *(
            place(float(gaps()["figure1"][end]), color=GREY, linewidth=1, linestyle=":")
            for end in ("m_r_is_best_from", "m_r_is_best_to")
        ),
        note("the paper has\nM_R opt. lowest\nbetween these", (0.34, 0.9)),
        shown(title="as published, at the ε stated"),
    ]
    right = [
        *at("M_R opt.", published_r, true),
        *at("M_R, repaired", repaired_r, EPSILONS),
        *at("M_L, k = 2", l_of_two, EPSILONS),
        note("M_L opt. has no ε,\nbut at 2", (0.06, 2e-5)),
        shown(title="at the true ε"),
    ]
    both = [LOGARITHMIC, shown(ylim=(5e-6, 20), xlim=(0.05, 12)), LEGEND]
    return draw(
        [[left + both, right + both]],
        _INCHES,
        "Figure 1: bounds of the gap's MSE, two groups of 10,000",
        x="ε",
        y=_HEIGHT,
    )


def figure_2() -> Figure:
    """Draw the largest MSE by epsilon for groups of unequal size."""

    def lines(allocation: Allocation, **style: Any) -> list[Mark]:
        return [
            line(
                EPSILONS,
                [allocation(epsilon).variance(with_ratio(ratio)) for epsilon in EPSILONS],
                color=colour,
                **{"linestyle": ":" if ratio == RATIOS[1] else "-", "label": f"groups 1:{ratio}"} | style,
            )
            for ratio, colour in zip(RATIOS, COLOURS, strict=False)
        ]

    panels = {
        "M_R opt.; dashed: repaired": [
            *lines(published_r),
            *lines(repaired_r, linewidth=0.8, linestyle="--", label=None),
        ],
        "M_L, k = 2, which keeps to ε": lines(l_of_two),
    }
    return draw(
        [
            [
                [*marks, LOGARITHMIC, shown(ylim=(1e-5, 1e6), title=title), LEGEND]
                for title, marks in panels.items()
            ]
        ],
        _INCHES,
        f"Figure 2: largest MSE of the gap, {gaps()['figure2']['clients']:,} clients",
        x="ε",
        y=_HEIGHT,
    )


def figure_3() -> Figure:
    """Draw the MSE of M_L over its two budgets, and where they are said to keep to epsilon_2."""
    two, two_thirds = ([allocated(k)(epsilon).epsilon_1 for epsilon in _GRID] for k in (2.0, 2 / 3))
    marks: dict[float, list[Mark]] = {
        2.0: [
            lambda axes: axes.fill_betweenx(_GRID, 0, two, color=COLOURS[2], alpha=0.25, linewidth=0),
            note("keeps to ε = ε₂,\nas published", (0.1, 1.5)),
            line(two, _GRID, color=COLOURS[2], linestyle=":", linewidth=2.2, label="best, k = 2"),
            shown(title="k = 2"),
        ],
        2 / 3: [
            line(
                two_thirds,
                _GRID,
                color=COLOURS[1],
                linestyle="--",
                linewidth=2.2,
                label="Eq. (1) holds on this line only;\nno ε holds anywhere",
            ),
            level(2 / 3, color="black", linewidth=0.6),
            note(
                "as published: best below ε = 2/3",
                (1.0, 2 / 3 + 0.03),
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            ),
            shown(title="k = 2/3"),
        ],
    }
    frame = [shown(xlim=(0, 2), ylim=(0, 2)), legend(frameon=True, framealpha=1, loc="upper right")]
    return draw(
        [[[partial(_contours, k=k), *of_k, *frame] for k, of_k in marks.items()]],
        _INCHES,
        "Figure 3: largest MSE of the gap by M_L, two groups of 10,000",
        x="ε₁, for the group",
        y=["ε₂, for the value"],
    )


def _contours(axes: Axes, k: float) -> None:
    mse = np.vectorize(lambda e1, e2: Budgets(e1, e2, k).variance((SIZE_OF_FIGURE_3,) * 2))
    heights = mse(*np.meshgrid(_GRID, _GRID))
    levels = np.geomspace(3e-4, 10, 14)
    lines = axes.contour(_GRID, _GRID, heights, levels, colors=GREY, linewidths=0.8)
    axes.clabel(lines, fmt="%.1g", fontsize="x-small")


def figure_4(curves: Sequence[Row]) -> Figure:
    """Draw the MSE over more and more runs beside its closed form."""
    runs, values = zip(*((int(n), float(mse)) for n, mse in gaps()["figure4"]["runs"].items()), strict=True)
    marks = [line(runs, values, "x", label="published code's run", color=GREY, markersize=8)]
    for curve, colour, marker in zip(curves, COLOURS, MARKERS, strict=False):
        label = f"{curve['name']}, true ε = {digits_up(curve['epsilon'], 3)}"
        marks += [
            line(curve["runs"], curve["empirical"], color=colour, marker=marker, label=label),
            level(curve["theory"], color=colour, linestyle="--", linewidth=1),
        ]
    frame = [
        shown(xscale="log", ylim=(0, None)),
        shown(title="Figure 4: M_R, two groups of 10, ε stated as 0.5\n(dashed: Eq. 20)"),
        legend(fontsize="medium"),
    ]
    return draw([[[*marks, *frame]]], (6.6, 4.6), x="runs", y=["MSE of a group's mean"])


FIGURES: dict[str, Callable[[Sequence[Row]], Figure]] = {
    "figure-1": lambda _: figure_1(),
    "figure-2": lambda _: figure_2(),
    "figure-3": lambda _: figure_3(),
    "figure-4": figure_4,
}
