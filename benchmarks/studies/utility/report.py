"""What the study of utility shows: every method by epsilon, a column per setting, a row per measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from rich.table import Table

from benchmarks.figures import panels
from benchmarks.studies.outcome import SUMMARY, Outcome
from benchmarks.studies.utility.measures import CONSTRAINT, MEASURES, OBJECTIVE
from benchmarks.studies.utility.releases import DELTA, FLAT, LOCAL, METHODS, NOISE_FREE, PER_THRESHOLD, TREE
from benchmarks.studies.utility.study import SEED, Floats, Measured, Values, summary_of
from harness.cli import terminal as cli
from harness.cli.terminal import say
from harness.views.palette import COLOURS, GREY, MARKERS
from protocols.accounting.calibration import NeighboringRelation
from protocols.accounting.rounding import float_up

_SHOWN = Fraction(1)  # the epsilon of the table
NAMES = {
    TREE: "tree (default)",
    FLAT: "flat histogram",
    PER_THRESHOLD: "noise per threshold",
    LOCAL: "local DP",
}
_COLOUR = dict(zip((TREE, LOCAL, FLAT, PER_THRESHOLD), COLOURS, strict=False))
_MARKER = dict(zip(METHODS, MARKERS, strict=False))
_TICKS = (1.0, 3.0)  # times powers of ten
_MARGIN = 1.6
_INCHES = (2.75, 2.5)  # of a panel


def rate_errors(outcome: Measured) -> Floats:
    """Return the RMS error of both rates together, per repetition."""
    both = [np.array(outcome.samples[name]) for name in ("tpr_rmse", "fpr_rmse")]
    return np.asarray(np.sqrt(np.mean(np.square(both), axis=0)))


def _measure(name: str) -> Values:
    return lambda outcome: np.array(outcome.samples[name])


_WHOLE = "Gap in the\npopulation"
FIGURES: Mapping[str, Values] = {
    "TPR and FPR,\nRMS error": rate_errors,
    "AUC,\nRMS error": _measure("auc_error"),
    "Gap among\nthose counted": _measure("gap_counted"),
    _WHOLE: _measure("gap_whole"),
}


def title_of(outcome: Measured) -> str:
    """Name an outcome's setting."""
    kind = "real data: " if outcome.population == "loanapp" else ""
    return f"{kind}{outcome.records:,} records,\n{outcome.groups} groups, {outcome.thresholds} thresholds"


def by_setting(outcomes: Sequence[Measured]) -> list[list[Measured]]:
    """Return the outcomes of each setting, in their order."""
    found: dict[tuple[str, int, int], list[Measured]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.population, outcome.records, outcome.groups), []).append(outcome)
    return list(found.values())


def outcome(outcomes: Sequence[Measured], relation: NeighboringRelation) -> Outcome:
    """Return a line per outcome with its samples, and one with their quartiles."""
    about = {
        "seed": SEED,
        "repetitions": len(outcomes[0].samples["chosen"]),
        "neighboring_relation": {"of the noise made in the computation": relation, LOCAL: "replace_one"},
        "delta": float_up(DELTA),
        "constraint": CONSTRAINT,
        "objective": OBJECTIVE,
        "measures": MEASURES,
    }
    summaries, columns = [summary_of(outcome) for outcome in outcomes], by_setting(outcomes)
    return Outcome(
        about,
        summaries,
        lambda: _show(columns),
        ({**outcome.parameters(), **outcome.samples} for outcome in outcomes),
        {SUMMARY: summaries},
        figures={
            "utility.png": lambda: plot(_of_two_groups(columns), "records"),
            "utility-groups.png": lambda: plot(_of_most_records(columns), "groups"),
        },
    )


def _of_two_groups(columns: Sequence[Sequence[Measured]]) -> list[Sequence[Measured]]:
    return [column for column in columns if column[0].population == "synthetic" and column[0].groups == 2]


def _of_most_records(columns: Sequence[Sequence[Measured]]) -> list[Sequence[Measured]]:
    """Return the settings with more groups or real data, after that of two groups with as many records."""
    two = _of_two_groups(columns)
    rest = [column for column in columns if column not in two]
    most = max((column[0].records for column in rest), default=0)
    return [*(column for column in two if column[0].records == most), *rest]


def plot(columns: Sequence[Sequence[Measured]], by: str) -> Figure:
    """Draw medians over the repetitions, shaded between the quartiles, both axes logarithmic.

    Args: columns: the outcomes of one setting each; by: what the settings differ in.
    """
    width, height = _INCHES
    inches = (max(7.0, 1 + width * len(columns)), height * len(FIGURES))
    title = f"Released score curves and thresholds from them, by ε and {by}"
    figure, found = panels(len(FIGURES), len(columns), inches, title, sharex=True, sharey="row")
    for row, (label, values) in zip(found, FIGURES.items(), strict=True):
        for axes, outcomes in zip(row, columns, strict=True):
            _draw(axes, outcomes, values)
            if label == _WHOLE:
                _references(axes, outcomes, values)
            axes.grid(alpha=0.3, linewidth=0.6)
        row[0].set(ylim=(_least(columns, values), None), ylabel=label)
        row[0].yaxis.set_major_locator(LogLocator(subs=_TICKS, numticks=20))
        row[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        row[0].yaxis.set_minor_locator(NullLocator())
    for axes, outcomes in zip(found[0], columns, strict=True):
        axes.set_title(title_of(outcomes[0]), fontsize=10)
    epsilons = sorted({float(o.epsilon) for outcomes in columns for o in outcomes if o.epsilon})
    for axes in found[-1]:
        axes.set(xscale="log", xlabel="ε of the whole release")
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons], fontsize=8)
        axes.xaxis.set_minor_locator(NullLocator())
    figure.legend(handles=_legend(), loc="outside lower center", ncols=min(3, len(columns)), frameon=False)
    return figure


def _draw(axes: Axes, outcomes: Sequence[Measured], values: Values) -> None:
    for method in METHODS:
        of_method = [outcome for outcome in outcomes if outcome.method == method]
        epsilons = [float(outcome.epsilon or 0) for outcome in of_method]
        low, middle, high = np.array([np.quantile(values(o), [0.25, 0.5, 0.75]) for o in of_method]).T
        colour = _COLOUR[method]
        axes.fill_between(epsilons, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(epsilons, middle, color=colour, marker=_MARKER[method], markersize=5, linewidth=1.8)
    axes.set_yscale("log")


def _least(columns: Sequence[Sequence[Measured]], values: Values) -> float:
    """Return where a row of panels ends below: under all medians but local DP's at the largest epsilon.

    Local DP has hardly any noise there, and protects hardly anybody: its lines may leave the frame.
    """
    medians = [
        float(np.median(values(outcome)))
        for outcomes in columns
        for outcome in outcomes
        if outcome.method not in (NOISE_FREE, LOCAL)
    ]
    return min(medians) / _MARGIN


def _references(axes: Axes, outcomes: Sequence[Measured], values: Values) -> None:
    """Draw what thresholds from exact curves leave, and what the threshold 1/2 for everybody does."""
    (exact,) = (outcome for outcome in outcomes if outcome.method == NOISE_FREE)
    axes.axhline(float(np.median(values(exact))), color="black", linestyle=":", linewidth=1.6)
    axes.axhline(exact.unmitigated_gap, color=GREY, linestyle="--", linewidth=1.4)


def _legend() -> list[Line2D]:
    lines = [
        Line2D([], [], color=_COLOUR[method], marker=_MARKER[method], linewidth=1.8, label=NAMES[method])
        for method in METHODS
    ]
    exact = Line2D([], [], color="black", linestyle=":", label="no noise: what the sample leaves")
    before = Line2D([], [], color=GREY, linestyle="--", label="before: one threshold, 0.5, for all")
    return [*lines, exact, before]


def _show(columns: Sequence[Sequence[Measured]]) -> None:
    table = Table(f"ε = {_SHOWN}", "")
    for name in (*METHODS, NOISE_FREE):
        table.add_column(name, justify="right")
    for outcomes in columns:
        at = {o.method: o for o in outcomes if o.epsilon in (_SHOWN, None)}
        table.add_section()
        for row, (name, values) in enumerate(FIGURES.items()):
            setting = "" if row else title_of(outcomes[0])
            table.add_row(
                setting, _one_line(name), *(_spread(values(at[method])) for method in (*METHODS, NOISE_FREE))
            )
        accuracies = [_spread(np.array(at[m].samples["balanced_accuracy"])) for m in (*METHODS, NOISE_FREE)]
        table.add_row("", "Balanced accuracy, population", *accuracies)
        table.add_row("", "Gap before", f"{outcomes[0].unmitigated_gap:.3g}")
    cli.out.print(table)
    say(
        "Medians and quartiles. Errors: RMS over groups and thresholds, against the exact curves of the "
        "records that were counted. Gap: the equalized odds difference under thresholds chosen on the "
        "released curves, among the records that were counted and in the population (real data: among "
        "people who were not counted). Before: under 0.5 for all groups, which stays where a rate is 0/0. "
        "Decisions by lot have a small gap and a balanced accuracy of 0.5."
    )
    for name, values in FIGURES.items():
        say(f"Best by the median, {_one_line(name)}: {_winners(columns, values)}.")
    say("Computed in the clear, on synthetic and public data: nothing here needs or has a guarantee.")


def _one_line(name: str) -> str:
    return name.replace("\n", " ")


def _spread(values: Floats) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.2g}\n[dim]{low:.2g} – {high:.2g}[/]" if high else "0"


def _winners(columns: Sequence[Sequence[Measured]], values: Values) -> str:
    """Say in how many of the settings and epsilons each method is best."""
    best: Counter[str] = Counter()
    for outcomes in columns:
        for epsilon in dict.fromkeys(o.epsilon for o in outcomes if o.epsilon):
            rivals = [o for o in outcomes if o.epsilon == epsilon]
            best[min(rivals, key=lambda o: float(np.median(values(o)))).method] += 1
    counted = [f"{NAMES[method]} {best[method]}" for method in METHODS]
    return f"{', '.join(counted)} (of {best.total()})"
