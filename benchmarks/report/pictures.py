"""Pictures of pages, from recorded results and from what a page shows: a function for each picture.

They are as wide as pictures of results, so that their text can be read on a phone. `benchmarks.report.paper`
writes them.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import methodcaller
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from benchmarks.figures import GRID, Panel, draw, line, shown
from benchmarks.measure.samples import SAMPLES, Summary, load_lines
from benchmarks.papers import privfairfl, table3
from benchmarks.studies.outcome import SUMMARY
from benchmarks.studies.training.study import A_DRAW, Draw
from benchmarks.tampering.attack import Reaction
from benchmarks.tampering.walk import Attempt, load as load_attempts
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.side_by_side import PROTOCOLS, Ratio, table2_rows
from benchmarks.validation.texts import TITLES
from fairshares.harness.security_models import MODELS
from fairshares.harness.views.palette import COLOURS, INK, MARKERS
from fairshares.harness.views.rendering.plots import WIDTH, figure_of, intervals

_TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
_LINE = 0.36  # inches of a row's bar
_ROW = 0.3  # inches of a row of marks
_ROW_OF_WEIGHTS = re.compile(r"│ (\w+) +│ (\w+) +│ +[\d,.]+ │ +([\d.]+) │ ([\d.]+) – ([\d.]+) │")
_NETWORKS = ("none", "lan", "wan")
_DRAWS_OF_FLOWER = (0, 1)  # seeds

Drawing = Callable[[Measured], Figure]


def consortium(_: Measured) -> Figure:
    """Draw the weights that the page of five organizations shows, with their intervals."""
    page = (_TUTORIALS / "consortium.md").read_text(encoding="utf-8")
    rows = _ROW_OF_WEIGHTS.findall(page)
    ends = np.array([row[2:] for row in rows], dtype=float)
    names = [f"{group}, {label}" for group, label, *_ in rows]
    return figure_of(intervals("consortium", names, {"": ends}, "weight (kamiran-calders)", "", at=1.0))


def gain(measured: Measured) -> Figure:
    """Draw the fastest literal form's time of curves over ours, by model and federation."""
    rows = [row for row in table2_rows(measured) if row.protocol == "pi_roc"]
    models = list(dict.fromkeys(row.model for row in rows))
    series = {}
    for shape, of_paper in privfairfl().shapes.items():
        found = {row.model: row.gain for row in rows if row.shape == shape}
        series[of_paper.title] = np.array([_ends(found[model]) for model in models])
    what = "the fastest literal form's seconds ÷ ours"
    return figure_of(intervals("gain", models, series, what, "", at=1.0, logarithmic=True))


def network(measured: Measured) -> Figure:
    """Draw median seconds of weights and of curves with joint noise, by model, a mark for each network."""
    by_protocol = {protocol: _seconds_by_network(measured, protocol) for protocol in PROTOCOLS}
    panels = [[_network_of(protocol, found)] for protocol, found in by_protocol.items()]
    height = 2.2 + _ROW * sum(map(len, by_protocol.values()))
    return draw(panels, (WIDTH, height), legend_columns=len(_NETWORKS))


def _network_of(protocol: str, found: Mapping[str, Mapping[str, float]]) -> Panel:
    """Return a row of marks for each model, from what `_seconds_by_network` found."""
    marks = []
    for row, seconds in enumerate(found.values()):
        marks.append(
            line(list(seconds.values()), [row] * len(seconds), color="#cccccc", linewidth=2, zorder=1)
        )
    for number, name in enumerate(_NETWORKS):
        rows_there = [row for row, seconds in enumerate(found.values()) if name in seconds]
        seconds_there = [seconds[name] for seconds in found.values() if name in seconds]
        look = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": "none", "label": name}
        marks.append(line(seconds_there, rows_there, **look))
    marks.append(methodcaller("set_yticks", range(len(found)), list(found)))
    marks.append(methodcaller("tick_params", axis="y", length=0))
    marks.append(
        shown(xscale="log", xlabel=f"{TITLES[protocol].lower()}, seconds", ylim=(len(found) - 0.5, -0.5))
    )
    return [*marks, _plain_seconds, GRID]


def _plain_seconds(axes: Axes) -> None:
    axes.xaxis.set_major_formatter("{x:,.10g}")
    axes.xaxis.set_minor_locator(NullLocator())


def _seconds_by_network(measured: Measured, protocol: str) -> dict[str, dict[str, float]]:
    """Return the median seconds with joint noise, by model and network, where they were measured."""
    found: dict[str, dict[str, float]] = {}
    for model in MODELS:
        for name in _NETWORKS:
            where = {"protocol": protocol, "security": model, "noise": "joint", "variant": "default"}
            for cell in measured.where("network", network=name, **where):
                if cell.median_s is not None:
                    found.setdefault(model, {})[name] = cell.median_s
    return found


def uploads(_: Measured) -> Figure:
    """Draw the seconds of each step for sealed uploads, by their number, counts and keys."""
    found = pd.read_csv(RESULTS / "uploads" / SUMMARY)
    steps = {
        "seal_s": "all clients seal",
        "list_s": "a party lists",
        "add_s": "a party adds up",
        "weights_s": "weights, by the clock",
    }
    series = {}
    for row in found.to_dict("records"):
        keys = "hybrid" if row["hybrid"] else "X25519"
        name = f"{row['uploads']:,} of {row['counts']:,} counts, {keys} keys"
        series[name] = np.array([[row[step], math.nan, math.nan] for step in steps])
    return figure_of(intervals("uploads", list(steps.values()), series, "seconds", "", logarithmic=True))


def decisions(_: Measured) -> Figure:
    """Draw each way to decide by the gap between groups and the balanced accuracy that it leaves."""
    found = pd.read_csv(RESULTS / "decisions" / SUMMARY).set_index(["metric", "model"])
    gaps = found.loc["equalized_odds_difference"]
    accuracies = found.loc["balanced_accuracy"]
    figure = Figure(figsize=(WIDTH, 5.4), layout="constrained")
    axes = figure.add_subplot()
    for number, model in enumerate(gaps.index):
        axes.errorbar(
            gaps.loc[model, "mean"],
            accuracies.loc[model, "mean"],
            xerr=gaps.loc[model, "std"],
            yerr=accuracies.loc[model, "std"],
            color=COLOURS[number],
            marker=MARKERS[number],
            markersize=8,
            elinewidth=1,
            linestyle="none",
            label=str(model),
        )
    axes.set(
        xlim=(0, None),
        xlabel="equalized odds difference, 0 is best",
        ylabel="balanced accuracy, 1 is best",
    )
    axes.spines[["top", "right"]].set_visible(False)
    GRID(axes)
    figure.legend(loc="outside lower left", ncols=1, frameon=False)
    return figure


def flower(_: Measured) -> Figure:
    """Draw the gap of each row of Table 3, in two draws, in Flower and in the study."""
    in_flower = load_lines(RESULTS / "flower-privfairfl" / SAMPLES, Draw, A_DRAW)
    study = [
        run
        for run in load_lines(RESULTS / "reproduce-training" / SAMPLES, Draw, A_DRAW)
        if (run.data, run.way, run.epsilon) == ("MovieLens 100K", "paper", 1.0)
    ]
    rows = list(table3()["rows"])
    series = {}
    for name, runs in {"in Flower": in_flower, "the study": study}.items():
        series[name] = np.array([_two_draws(runs, row) for row in rows])
    what = "equalized odds difference: two draws, and their mean"
    return figure_of(intervals("flower", rows, series, what, "", at=0.0))


def _two_draws(runs: Sequence[Draw], row: str) -> list[float]:
    """Return the mean of a row's gaps in the two draws, the least and the most."""
    gaps = []
    for seed in _DRAWS_OF_FLOWER:
        (run,) = [run for run in runs if run.seed == seed]
        gap = run.models[row]["odds"]
        gaps.append(math.nan if gap is None else gap)
    return [sum(gaps) / len(gaps), min(gaps), max(gaps)]


_OUTCOMES = {
    Reaction.ABORTED: COLOURS[0],
    Reaction.OPENED: COLOURS[5],
    Reaction.RIGHT: "#cccccc",
    Reaction.WRONG: COLOURS[1],
}


@cache
def attempts() -> tuple[Attempt, ...]:
    """Return all changes of messages that were tried, without those of messages that a run had not."""
    tried: list[Attempt] = []
    for directory in sorted((RESULTS / "tampering").iterdir()):
        if directory.is_dir():
            tried += load_attempts(directory / SAMPLES)
    return tuple(attempt for attempt in tried if attempt.outcome is not Reaction.UNTOUCHED)


def tampering(_: Measured) -> Figure:
    """Draw what followed changed messages, by model."""
    return _outcomes([(attempt.security, attempt.outcome) for attempt in attempts()])


def changes(_: Measured) -> Figure:
    """Draw what followed changed messages, by the kind of change."""
    return _outcomes([(str(attempt.change.kind), attempt.outcome) for attempt in attempts()])


def _outcomes(tried: Sequence[tuple[str, Reaction]]) -> Figure:
    """Draw a bar for each name: the shares of outcomes, and how many were wrong of how many.

    Names go from those that had the fewest wrong to those that had the most.
    """
    by_name: dict[str, Counter[Reaction]] = {}
    for name, outcome in tried:
        by_name.setdefault(name, Counter())[outcome] += 1
    names = sorted(by_name, key=lambda name: (by_name[name][Reaction.WRONG], -by_name[name].total()))
    figure = Figure(figsize=(WIDTH, 1.6 + _LINE * len(names)), layout="constrained")
    axes = figure.add_subplot()
    begins = np.zeros(len(names))
    for outcome, color in _OUTCOMES.items():
        shares = np.array([100 * by_name[name][outcome] / by_name[name].total() for name in names])
        axes.barh(range(len(names)), shares, left=begins, color=color, label=str(outcome))
        begins += shares
    for row, name in enumerate(names):
        wrong = by_name[name][Reaction.WRONG]
        text = f"{wrong:,} of {by_name[name].total():,}"
        axes.text(103, row, text, va="center", color=COLOURS[1] if wrong else INK)
    axes.text(103, -0.95, "wrong", va="center")
    titles = [name.replace(" of ", "\nof ") for name in names]
    axes.set_yticks(range(len(names)), titles)
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, 140), ylim=(len(names) - 0.5, -1.4), xlabel="% of the changed messages")
    axes.set_xticks(range(0, 101, 25))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", ncols=2, frameon=False)
    return figure


def _ends(found: Summary | Ratio | None) -> tuple[float, float, float]:
    """Return the median, the least and the most; NaN if nothing was measured."""
    if found is None:
        return math.nan, math.nan, math.nan
    return found.median, found.low, found.high


PICTURES: Mapping[str, Drawing] = {
    "consortium": consortium,
    "gain": gain,
    "network": network,
    "uploads": uploads,
    "decisions": decisions,
    "flower": flower,
    "tampering": tampering,
    "changes": changes,
}
