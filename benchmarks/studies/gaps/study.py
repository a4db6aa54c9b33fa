"""`./inv reproduce.gaps`: Juarez and Korolova's tables and figures, each number beside the published one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
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
    Panel,
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
    Claim,
    Convergence,
    Errors,
    Table1Cell,
    Table2Cell,
    allocated,
    bounds,
    claims,
    figure4,
    table1,
    table2,
    with_ratio,
)
from benchmarks.studies.local_simulation import Floats
from benchmarks.studies.outcome import Outcome, grouped
from harness.views.palette import COLOURS, GREY, MARKERS
from harness.views.parts import Bad, Good, Part, Stacked, Table
from protocols.accounting.rounding import digits_up, float_up

SCHEMA = 1
SEED = 20_230_417  # any; fixed, so that figures can be repeated
RESULT = "gaps.json"
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


@dataclass(frozen=True)
class Stated:
    """What the paper says of the data or the model, and what was found.

    Attributes: deviation: over splits, None where there is none, or where nothing was measured.
    """

    what: str
    published: str
    found: float
    deviation: float | None

    @property
    def agrees(self) -> bool:
        """Whether it is the same, rounded; or within three deviations over the splits."""
        near = self.deviation is not None and abs(self.found - float(self.published)) <= 3 * self.deviation
        return near or rounds_to(self.found, self.published)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """All of it. Attributes: activity: empty where the population is synthetic."""

    rates: Rates
    activity: list[Stated]
    table1: list[Table1Cell]
    table2: list[Table2Cell]
    claims: list[Claim]
    figure4: list[Convergence]

    def to_json(self) -> dict[str, Any]:
        """Return every number beside the published one; epsilons are rounded up."""
        return {
            "schema": SCHEMA,
            "population": {"source": self.rates.source, "is": NAMES[self.rates.source]},
            "table1": [_plain(cell) for cell in self.table1],
            "table2": [{"population": self.rates.source, **_plain(cell)} for cell in self.table2],
            "claims": [_plain(claim) for claim in self.claims],
            "figure4": [_plain(curve) for curve in self.figure4],
            "activity": [_plain(stated) for stated in self.activity],
            "caveats": gaps()["caveats"],
        }


def reproduce(
    data: Path | None,
    extent: Extent,
    begin: Callable[[str], None] = lambda _: None,
    detail: Callable[[str], None] = lambda _: None,
) -> Reproduction:
    """Compute all of it.

    Args: data: the activity archive, None: a synthetic population; begin: called with "table1", "table2" and
    "figures" as each begins; detail: with how far the data are.
    Raises: DataSetError: the archive cannot be used.
    """
    of_table2, of_figure4 = np.random.default_rng(SEED).spawn(2)
    rates = (
        synthetic_rates()
        if data is None
        else activity_rates(data, extent.splits, lambda done: detail(f"{done} of {extent.splits} splits"))
    )
    begin("table1")
    first = table1()
    begin("table2")
    second = list(table2(rates, RATES[0], extent.runs, of_table2))
    begin("figures")
    stated = [
        Stated(name, printed, rates.figures[name].value, rates.figures[name].deviation)
        for name, printed in printed_figures().items()
        if name in rates.figures
    ]
    return Reproduction(rates, stated, first, second, claims(), figure4(extent.runs_of_figure_4, of_figure4))


def _plain(value: Any) -> Any:
    """Return a dataclass as JSON has it, with what it says of its agreement."""
    if is_dataclass(value):
        plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {**plain, "agrees": value.agrees} if hasattr(value, "agrees") else plain
    if isinstance(value, Fraction):
        return float_up(value)
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return list(value) if isinstance(value, tuple) else value


def outcome(found: Reproduction, extent: Extent) -> Outcome:
    """Return every number beside the published one, and the four figures."""
    about = {
        "population": found.rates.about,
        "seed": SEED,
        "extent": asdict(extent),
        "paper": gaps()["paper"],
    }
    figures = {f"{name}.png": partial(draw_it, found.figure4) for name, draw_it in FIGURES.items()}
    return Outcome(about, found.to_json(), view(found), result=RESULT, figures=figures)


def view(found: Reproduction) -> Iterator[Part]:
    """View all tables, each published number beside ours, and what follows."""
    yield f"Population of Table 2: {NAMES[found.rates.source]}."
    if found.activity:
        yield _activity(found.activity)
    yield _table1(found.table1)
    yield _table2(found.table2, synthetic=found.rates.source == SYNTHETIC)
    yield (
        "Errors: mean (deviation) of one run; P is how often as many runs as the paper's have a mean as far "
        "out as the published one, twice. α: Chebyshev's bound at 99 %, worst values, two groups of "
        "5,000,000, gap of rates from 0 to 1, which is what the published code computes; the text's "
        "groups and scale give the α in brackets. As coded: the published code exchanges the two scales of "
        "M_L's noise; that fault is emulated here."
    )
    yield _figures(found)
    errors = [cell.coded or cell.errors for cell in found.table2]
    fit, spread = (
        f"{sum((getattr(each, name) or 0) >= _RARE for each in errors)} of {len(errors)}"
        for name in ("fits_mean", "fits_deviation")
    )
    yield (
        f"Table 1: {_count(found.table1)} cells as published. Table 2: {_count(found.table2)} α as "
        f"published, by the reading of the published code; {fit} mean errors and {spread} deviations are "
        f"such as the mechanism in that code has (P ≥ {_RARE:g}). Figures: {_count(found.claims)} "
        "statements hold. The ε that is published is not the ε of these settings, but for M_L with k = 2: "
        "see the true ε."
    )


def _count(judged: Sequence[Table1Cell] | Sequence[Table2Cell] | Sequence[Claim]) -> str:
    return f"{sum(each.agrees for each in judged)} of {len(judged)}"


def _activity(rows: Sequence[Stated]) -> Table:
    cells = [
        [
            row.what.replace("_", " "),
            row.published,
            f"{row.found:.2f}",
            "" if row.deviation is None else f"± {row.deviation:.2f}",
            _mark(row.agrees),
        ]
        for row in rows
    ]
    columns = ["activity data and model", "published", "found", "over splits", ""]
    return Table(columns, cells, title="Appendix D")


def _table1(cells: Sequence[Table1Cell]) -> Table:
    columns = ["", "clients", "α", "published", "reproduced", "", "true ε of that", "repaired: α at that ε"]
    rows = [
        [
            cell.mechanism,
            f"10^{len(str(cell.clients)) - 1}",
            f"{cell.alpha:g}",
            cell.published or "-",
            _number(cell.reproduced),
            _mark(cell.agrees),
            "-" if cell.reproduced is None else _epsilon(cell.true_epsilon),
            _number(cell.repaired_alpha),
            _number(cell.repaired),
            _number(cell.tight),
        ]
        for cell in cells
    ]
    title = "Table 1: least ε for an error α of the gap, with probability 0.99"
    return grouped([*columns, "repaired: ε for α", "the same, Chernoff"], rows, 2, title=title)


def _table2(cells: Sequence[Table2Cell], *, synthetic: bool) -> Table:
    columns = ["", "ε", "α published", "reproduced", "", "true ε", "α repaired", "error published"]
    rows = [
        [
            cell.mechanism,
            cell.epsilon,
            cell.published["alpha"],
            Stacked(f"{cell.alpha:.4f}\n({cell.alpha_of_the_text:.4f})"),
            _mark(cell.agrees),
            Stacked(f"{_epsilon(cell.true_epsilon)}\nas coded: {_epsilon(cell.coded_epsilon)}")
            if cell.coded
            else _epsilon(cell.true_epsilon),
            f"{cell.repaired_alpha:.4f}",
            Stacked(f"{cell.published['error']}\n({cell.published['deviation']})"),
            *(_errors(each) if each else "" for each in (cell.errors, cell.coded, cell.repaired)),
        ]
        for cell in cells
    ]
    title = f"Table 2: error of the gap, 10^7 clients{' — SYNTHETIC POPULATION' if synthetic else ''}"
    return grouped([*columns, "as printed", "as coded", "repaired"], rows, title=title)


def _figures(found: Reproduction) -> Table:
    rows = [
        [f"{each.figure}", each.what, each.published, each.reproduced, _mark(each.agrees), each.true]
        for each in found.claims
    ]
    printed = gaps()["figure4"]
    rows += [
        [
            "4",
            f"MSE of a group's mean by M_R, {curve.name}",
            f"{printed['runs']['100000']}; Eq. 20: {printed['theory']}" if curve is found.figure4[0] else "",
            f"{curve.empirical[-1]:.3f} over {curve.runs[-1]:,} runs; Eq. 20: {curve.theory:.3f}",
            "",
            f"true ε {_epsilon(curve.epsilon)}",
        ]
        for curve in found.figure4
    ]
    columns = ["figure", "what", "published", "reproduced", "", "what holds"]
    return grouped(columns, rows, alignment="llllll", title="What figures show")


def _errors(errors: Errors) -> str:
    told = f"{errors.mean:.2g} ({errors.deviation:.2g})"
    return told if errors.fits_mean is None else Stacked(f"{told}\nP = {errors.fits_mean:.2g}")


def _epsilon(epsilon: Fraction | None) -> str:
    return "none" if epsilon is None else digits_up(epsilon, 4)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _mark(agrees: bool) -> str:
    return Good("✓") if agrees else Bad("✗")


def figure_1() -> Figure:
    """Draw bounds of the MSE by epsilon: as published; and at the epsilon that each really has."""
    first, second = map(float, gaps()["figure1"]["sizes"])
    true = [float(published_r(epsilon).true_epsilon() or 0) for epsilon in EPSILONS]
    repaired = {"M_R, repaired": repaired_r, "M_L, k = 2": l_of_two}

    def at(name: str, allocation: Allocation, epsilons: Sequence[float] | Floats) -> list[Mark]:
        """Fill between the bounds at EPSILONS, placed at these."""
        low, high = np.array([bounds(allocation, epsilon, (first, second)) for epsilon in EPSILONS]).T
        of_name = {"color": _COLOUR[name]}
        return [
            band(epsilons, low, high, alpha=0.3, **of_name),
            line(epsilons, high, linewidth=1.6, label=name, **of_name),
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
        *(mark for name, allocation in repaired.items() for mark in at(name, allocation, EPSILONS)),
        note("M_L opt. has no ε,\nbut at 2", (0.06, 2e-5)),
        shown(title="at the true ε"),
    ]
    both = [LOGARITHMIC, shown(ylim=(5e-6, 20), xlim=(0.05, 12)), LEGEND]
    title = "Figure 1: bounds of the gap's MSE, two groups of 10,000"
    return draw([[left + both, right + both]], _INCHES, title, x="ε", y=_HEIGHT)


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

    of_r = [*lines(published_r), *lines(repaired_r, linewidth=0.8, linestyle="--", label=None)]
    titles = ("M_R opt.; dashed: repaired", "M_L, k = 2, which keeps to ε")
    panels = [
        [*marks, LOGARITHMIC, shown(ylim=(1e-5, 1e6), title=title), LEGEND]
        for marks, title in zip((of_r, lines(l_of_two)), titles, strict=True)
    ]
    title = f"Figure 2: largest MSE of the gap, {gaps()['figure2']['clients']:,} clients"
    return draw([panels], _INCHES, title, x="ε", y=_HEIGHT)


def figure_3() -> Figure:
    """Draw the MSE of M_L over its two budgets, and where they are said to keep to epsilon_2."""
    two, two_thirds = ([allocated(k)(epsilon).epsilon_1 for epsilon in _GRID] for k in (2.0, 2 / 3))
    wrong = "Eq. (1) holds on this line only;\nno ε holds anywhere"
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    marks: dict[float, list[Mark]] = {
        2.0: [
            lambda axes: axes.fill_betweenx(_GRID, 0, two, color=COLOURS[2], alpha=0.25, linewidth=0),
            note("keeps to ε = ε₂,\nas published", (0.1, 1.5)),
            line(two, _GRID, color=COLOURS[2], linestyle=":", linewidth=2.2, label="best, k = 2"),
            shown(title="k = 2"),
        ],
        2 / 3: [
            line(two_thirds, _GRID, color=COLOURS[1], linestyle="--", linewidth=2.2, label=wrong),
            level(2 / 3, color="black", linewidth=0.6),
            note("as published: best below ε = 2/3", (1.0, 2 / 3 + 0.03), bbox=box),
            shown(title="k = 2/3"),
        ],
    }
    frame = [shown(xlim=(0, 2), ylim=(0, 2)), legend(frameon=True, framealpha=1, loc="upper right")]
    panels: list[Panel] = [[partial(_contours, k=k), *of_k, *frame] for k, of_k in marks.items()]
    title = "Figure 3: largest MSE of the gap by M_L, two groups of 10,000"
    return draw([panels], _INCHES, title, x="ε₁, for the group", y=["ε₂, for the value"])


def _contours(axes: Axes, k: float) -> None:
    mse = np.vectorize(lambda e1, e2: Budgets(e1, e2, k).variance((SIZE_OF_FIGURE_3,) * 2))
    levels = np.geomspace(3e-4, 10, 14)
    lines = axes.contour(_GRID, _GRID, mse(*np.meshgrid(_GRID, _GRID)), levels, colors=GREY, linewidths=0.8)
    axes.clabel(lines, fmt="%.1g", fontsize="x-small")


def figure_4(curves: Sequence[Convergence]) -> Figure:
    """Draw the MSE over more and more runs beside its closed form."""
    runs, values = zip(*((int(n), float(mse)) for n, mse in gaps()["figure4"]["runs"].items()), strict=True)
    theirs = {"label": "published code's run", "color": GREY, "markersize": 8}
    marks = [line(runs, values, "x", **theirs)]
    for curve, colour, marker in zip(curves, COLOURS, MARKERS, strict=False):
        label = f"{curve.name}, true ε = {digits_up(curve.epsilon, 3)}"
        marks += [
            line(curve.runs, curve.empirical, color=colour, marker=marker, label=label),
            level(curve.theory, color=colour, linestyle="--", linewidth=1),
        ]
    title = "Figure 4: M_R, two groups of 10, ε stated as 0.5\n(dashed: Eq. 20)"
    marks += [shown(xscale="log", ylim=(0, None), title=title), legend(fontsize="medium")]
    return draw([[marks]], (6.6, 4.6), x="runs", y=["MSE of a group's mean"])


FIGURES: dict[str, Callable[[Sequence[Convergence]], Figure]] = {
    "figure-1": lambda _: figure_1(),
    "figure-2": lambda _: figure_2(),
    "figure-3": lambda _: figure_3(),
    "figure-4": figure_4,
}
