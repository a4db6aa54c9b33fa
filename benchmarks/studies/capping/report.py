"""What the study of caps shows: its tables, for people and as files, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter
from rich.table import Column, Table

from benchmarks.figures import label_ticks, panels
from benchmarks.studies.capping.bounds import (
    bias,
    proposition_1,
    proposition_2,
    sharper_1,
    sharper_2,
    variance,
    variance_term,
    worst_bias,
    worst_of_all,
    zipf_shares,
)
from benchmarks.studies.capping.choices import AIMS, PI_CAP, SHARES, TRIED, Setting, by_rule
from benchmarks.studies.capping.curves import BINS, CURVE_QUANTITIES, CURVES, DRAWS, RATES, THRESHOLDS
from benchmarks.studies.capping.errors import CHOICES, COUNTS, GAP, NOISES, QUANTITIES, SUM, WEIGHTS, Errors
from benchmarks.studies.capping.population import Population
from benchmarks.studies.capping.study import EPSILONS, RUNS, SEED, SIZES, Found, Study, users_of_theorem_1
from benchmarks.studies.outcome import Outcome
from harness.cli.terminal import out, say
from harness.releases.contribution_cap import CAP_SHARE, CURVE_RATIOS, RATIOS
from harness.views.palette import COLOURS, GREY, MARKERS

RESULT, ERRORS = "capping.json", "errors.csv"
BOUNDS, PRICE, TARGETS = "bounds.png", "shares.png", "targets.png"
_SHOWN = "1"  # epsilon of the table that is printed
_MARKS = {True: "[green]holds[/]", False: "[yellow]no[/]", None: ""}
_TOTAL, _NOISE, _BIAS, _CHOSEN, _RULE = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[4], "black"
_LABELS = {
    SUM: "number of records:\nerror, records",
    COUNTS: "4 counts together:\nerror, records",
    WEIGHTS: "sample weights:\nmean |ln(weight / true)|",
    GAP: "gap between groups:\nerror of the rates' difference",
    CURVES: "curves' counts:\nmean error, records",
    RATES: "true and false positive rates:\nmean error",
    THRESHOLDS: "thresholds for equal opportunity:\ngap left",
}
_SHORT = {
    SUM: "number of records",
    COUNTS: "four counts",
    WEIGHTS: "sample weights",
    GAP: "gap between groups",
    CURVES: "curves' counts",
    RATES: "true and false positive rates",
    THRESHOLDS: "gap left by thresholds",
}
_RATIOS = (WEIGHTS, GAP, RATES, THRESHOLDS)
_KINDS = {"chosen": "populations that it was chosen by", "held_out": "held out"}
_GAMMA = np.geomspace(1e-3, 1, 200)


def figures_of(population: Population) -> dict[str, tuple[str, ...]]:
    """Return the names of a population's figures, and the quantities in each."""
    return {
        f"errors-{population.slug}.png": QUANTITIES,
        f"curves-{population.slug}.png": CURVE_QUANTITIES,
    }


def outcome(study: Study) -> Outcome:
    """Return all numbers, the errors at every cap, and figures of each population but those held out."""
    about = {
        "seed": SEED,
        "epsilons": [str(epsilon) for epsilon in EPSILONS],
        "drawn_per_cap": {"choices_of_records": CHOICES, "noises": NOISES, "curves": DRAWS},
        "thresholds": BINS,
        "runs_of_theorem_1": RUNS,
    }
    figures = {
        name: partial(errors_by_cap, found, quantities)
        for found in study.found
        if not found.held_out
        for name, quantities in figures_of(found.population).items()
    }
    of_all = {TARGETS: draw_targets, PRICE: draw_shares, BOUNDS: draw_bounds}
    figures |= {name: partial(draw, study) for name, draw in of_all.items()}
    return Outcome(
        about,
        study.to_json(),
        lambda: show(study),
        tables={ERRORS: study.errors()},
        result=RESULT,
        figures=figures,
        dpi=90,
    )


def show(study: Study) -> None:
    """Print what the caps are at epsilon 1, what choosing costs, and what the paper states."""
    out.print(_caps(study.rows()))
    out.print(_shares(study.shares()))
    out.print(_targets(study.targets()))
    out.print(_claims(study))
    say(
        "Regret: the expected error over the least that any cap leaves with all of ε. π_CAP and histograms "
        f"spend {CAP_SHARE} of ε on the cap; for weights and gaps they let {RATIOS} times as many "
        f"clients exceed it as the rule does, for curves {CURVE_RATIOS} times. The rule reads the "
        "contributions themselves: it is not private."
    )


def _caps(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=f"Caps at ε = {_SHOWN}")
    for name in ("", "of", "best cap", "error", "rule: cap", "regret", "π_CAP: 5, 50, 95 %", "regret"):
        table.add_column(name, justify="left" if name in ("", "of") else "right")
    table.add_column("histogram: regret", justify="right")
    before = ""
    for row in rows:
        if (row["epsilon"], row["models"]) == (_SHOWN, "passive"):
            name = row["population"]
            if name != before:
                table.add_section()
            table.add_row(
                name if name != before else "",
                row["quantity"],
                f"{row['best_cap']:,}",
                f"{row['least_error']:,.3g}" if row["least_error"] < 1000 else f"{row['least_error']:,.0f}",
                f"{row['rule_cap']:,}",
                f"{row['rule_regret']:.2f}",
                ", ".join(f"{row[f'pi_cap_{at}']:,}" for at in (5, 50, 95)),
                f"{row['pi_cap_regret']:.2f}",
                f"{row['histogram_regret']:.2f}",
            )
            before = name
    return table


def _shares(rows: Sequence[dict[str, Any]]) -> Table:
    names = ("of", "clients above", "share", "π_CAP: regret", "worst", "histogram: regret", "worst")
    table = Table(
        *(Column(name, justify="left" if name == "of" else "right") for name in names),
        title="The price of choosing the cap, over all populations and ε",
    )
    before = ("", 0)
    for row in rows:
        key = (row["quantity"], row["aim"])
        if row["aim"] not in (1, AIMS[row["quantity"]]):
            continue
        if key != before:
            table.add_section()
        table.add_row(
            row["quantity"] if key != before else "",
            ("B/ε" if row["aim"] == 1 else f"{row['aim']} B/ε") if key != before else "",
            row["share"],
            *(f"{row[name]:.2f}" for name in ("pi_cap", "pi_cap_worst", "histogram", "histogram_worst")),
        )
        before = key
    return table


def _targets(rows: Sequence[dict[str, Any]]) -> Table:
    """Of what was held out, if anything was."""
    kinds = {"chosen": "chosen by", "chosen_active": "active, ε = 1"}
    kinds |= {"held_out": "held out", "held_out_active": "active, ε = 1"} if "held_out" in rows[0] else {}
    table = Table(title=f"How low to aim: π_CAP's regret with {CAP_SHARE} of ε, and the worst")
    for name in ("of", "clients above", *kinds.values()):
        table.add_column(name, justify="left" if name == "of" else "right")
    before = ""
    for row in rows:
        quantity, aim = row["quantity"], row["aim"]
        if quantity != before:
            table.add_section()
        table.add_row(
            quantity if quantity != before else "",
            f"{aim}{' *' * (aim == AIMS[quantity])}",
            *(f"{row[kind]:.2f} ({row[f'{kind}_worst']:.1f})" for kind in kinds),
        )
        before = quantity
    return table


def _claims(study: Study) -> Table:
    table = Table("", "stated", "", "found", title="What the paper states", show_lines=True)
    for claim in study.claims:
        table.add_row(claim.where, claim.published, _MARKS[claim.holds], claim.found)
    return table


def errors_by_cap(found: Found, quantities: Sequence[str]) -> Figure:
    """Draw the error of quantities by the cap, an epsilon a column; in passive models."""
    settings = [setting for setting in found.errors if not setting.active]
    about = found.about()
    figure, axes_of = panels(
        len(quantities),
        len(settings),
        (11, 3 * len(quantities) + 0.4),
        f"{about['name']}: {about['records']:,} records; of a client {about['median']:g} in the middle, "
        f"{about['largest']:,} at most",
        sharex=True,
    )
    for column, setting in zip(zip(*axes_of, strict=True), settings, strict=True):
        for axes, quantity in zip(column, quantities, strict=True):
            _draw_errors(axes, found, setting, quantity, found.errors[setting][quantity])
        column[0].set_title(f"ε = {float(setting.epsilon):g}")
        column[-1].set_xlabel("cap: records of a client that count")
    for row, quantity in zip(axes_of, quantities, strict=True):
        row[0].set_ylabel(_LABELS[quantity])
    handles = [
        Line2D([], [], color=_TOTAL, linewidth=2, label="expected error"),
        Line2D([], [], color=_NOISE, linestyle=":", linewidth=1.8, label="noise alone"),
        Line2D([], [], color=_BIAS, linestyle="--", label="left-out records alone"),
        Line2D([], [], color=_TOTAL, linestyle="none", marker=MARKERS[0], label="least, by brute force"),
        Line2D([], [], color=_RULE, linestyle="-.", linewidth=1, label="the paper's rule, not private"),
        Patch(color=_CHOSEN, alpha=0.35, label=f"π_CAP with {CAP_SHARE} of ε: 5 to 95 %; line: middle"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_errors(axes: Axes, found: Found, setting: Setting, quantity: str, drawn: Errors) -> None:
    choice = found.choice(PI_CAP, quantity, setting, CAP_SHARE, AIMS[quantity])
    rule = by_rule(found.population, drawn.caps, setting.left(Fraction(0)), quantity)
    axes.axvspan(choice.low / 1.09, choice.high * 1.09, color=_CHOSEN, alpha=0.22, linewidth=0)
    axes.axvline(choice.middle, color=_CHOSEN, linewidth=1.5)
    axes.axvline(rule, color=_RULE, linestyle="-.", linewidth=1)
    axes.plot(drawn.caps, drawn.noise, color=_NOISE, linestyle=":", linewidth=1.8)
    axes.plot(drawn.caps, drawn.bias, color=_BIAS, linestyle="--")
    axes.plot(drawn.caps, drawn.total, color=_TOTAL, linewidth=2)
    least = float(drawn.total.min())
    axes.plot([drawn.best], [least], color=_TOTAL, marker=MARKERS[0], markersize=7)
    axes.set(xscale="log", yscale="log", ylim=(least / 10, float(drawn.total.max()) * 2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def draw_targets(study: Study) -> Figure:
    """Draw what aiming at so many times as many clients costs, where it was chosen and held out."""
    title = f"How low to aim, passive models, {CAP_SHARE} of ε for π_CAP: geometric mean and worst"
    figure, (row_of_panels,) = panels(1, len(_RATIOS), (14, 4.2), title, sharey=True)
    rows = study.targets()
    for axes, quantity in zip(row_of_panels, _RATIOS, strict=True):
        of_quantity = [row for row in rows if row["quantity"] == quantity]
        for colour, kind, label in zip(COLOURS, _KINDS, _KINDS.values(), strict=False):
            for suffix, style in (("", "-"), ("_worst", ":")):
                if kind in of_quantity[0]:
                    axes.plot(
                        TRIED[quantity],
                        [row[kind + suffix] for row in of_quantity],
                        color=colour,
                        linestyle=style,
                        marker=MARKERS[0],
                        markersize=4,
                        label=f"{label}{': worst' if suffix else ''}",
                    )
        axes.axvline(AIMS[quantity], color=GREY, linewidth=1, zorder=0)
        axes.set(xscale="log", yscale="log", title=_SHORT[quantity], xlabel="clients above, over the rule's")
        label_ticks(axes, {aim: str(aim) for aim in TRIED[quantity]})
    first = row_of_panels[0]
    first.set_ylabel("expected error / least, all ε for the release")
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_shares(study: Study) -> Figure:
    """Draw the price of choosing the cap, by the share of epsilon that is spent on it."""
    epsilons = ", ".join(f"{float(each.epsilon):g}" for each in study.found[0].errors if not each.active)
    populations = sum(not each.held_out for each in study.found)
    title = f"What choosing the cap costs: geometric mean, {populations} populations and ε = {epsilons}"
    figure, found = panels(2, 2, (11, 7.6), title, sharex=True)
    ticks = {float(share): str(share) for share in SHARES}
    for axes, quantity in zip(chain.from_iterable(found), QUANTITIES, strict=True):
        for colour, aim in zip(COLOURS, sorted({1, AIMS[quantity]}), strict=False):
            rows = [row for row in study.shares() if (row["quantity"], row["aim"]) == (quantity, aim)]
            target = "" if AIMS[quantity] == 1 else f", {'' if aim == 1 else f'{aim} '}B/ε clients above"
            for name, style, label in (("pi_cap", "-", "π_CAP"), ("histogram", "--", "noisy histogram")):
                marker = MARKERS[0] if style == "-" else MARKERS[1]
                axes.plot(
                    list(ticks),
                    [row[name] for row in rows],
                    color=colour,
                    linestyle=style,
                    marker=marker,
                    markersize=5,
                    label=label + target,
                )
        axes.set(xscale="log", yscale="log", title=_SHORT[quantity])
        label_ticks(axes, ticks)
        rows = [row for row in study.shares() if row["quantity"] == quantity]
        room = 1.25 if AIMS[quantity] == 1 else 2  # for the legend, above all lines
        axes.set_ylim(1, room * max(row[name] for row in rows for name in ("pi_cap", "histogram")))
        axes.legend(
            frameon=False, fontsize="small", loc="upper right" if AIMS[quantity] == 1 else "upper left"
        )
    for axes in found[1]:
        axes.set_xlabel("share of ε spent on choosing the cap")
    for first, _ in found:
        first.set_ylabel("expected error / least, all ε for the release")
    return figure


def draw_bounds(study: Study) -> Figure:
    """Draw Propositions 1 and 2 and Theorem 1 beside what they bound."""
    figure, ((first, second, third),) = panels(1, 3, (15, 5))
    _draw_proposition_1(first)
    _draw_proposition_2(second)
    _draw_theorem_1(third, study)
    for axes in (first, second, third):
        axes.legend(frameon=False, fontsize="small")
    return figure


def _draw_proposition_1(axes: Axes) -> None:
    p = zipf_shares(1000)
    axes.plot(_GAMMA, [proposition_1(g) for g in _GAMMA], color="black", label="Proposition 1: √(½ ln 1/γ)")
    axes.plot(_GAMMA, [worst_of_all(g) for g in _GAMMA], color=COLOURS[1], label="worst users: (1 − √γ)²")
    axes.plot(
        _GAMMA, [sharper_1(p, g) for g in _GAMMA], color=COLOURS[0], linestyle="--", label="Zipf: √(½ ln 1/Q)"
    )
    axes.plot(_GAMMA, [worst_bias(p, g) for g in _GAMMA], color=COLOURS[0], label="Zipf, 1,000 users: exact")
    axes.axhline(1, color=GREY, linestyle=":", linewidth=1)
    axes.annotate("no bias is larger", (1, 1.02), ha="right", fontsize="small", color=GREY)
    axes.set(xscale="log", ylim=(0, 2), xlabel="γ, the cap as a share of all examples", ylabel="largest bias")
    axes.set_title("Proposition 1, losses from 0 to 1\n(users alike: no bias)")


def _draw_proposition_2(axes: Axes) -> None:
    p, thresholds = users_of_theorem_1()
    losses = np.abs(thresholds - 0.2)  # right for the most active user
    spread, below = variance(p, losses), _GAMMA[p.max() > _GAMMA]
    axes.plot(
        _GAMMA, [proposition_2(spread, g) for g in _GAMMA], color="black", label="Proposition 2: √(2 Var / γ)"
    )
    axes.plot(
        below,
        [sharper_2(p, spread, g) for g in below],
        color=COLOURS[0],
        linestyle="--",
        label="√(Var (1 − Q) / Q)",
    )
    axes.plot(below, [bias(p, g, losses) for g in below], color=COLOURS[0], label="bias, exact")
    axes.axvline(p.max(), color=GREY, linestyle=":", linewidth=1)
    axes.annotate("nobody is\ncapped", (p.max() * 1.08, 2e-3), fontsize="small", color=GREY)
    axes.set(
        xscale="log",
        yscale="log",
        ylim=(1e-3, 20),
        xlabel="γ, the cap as a share of all examples",
        ylabel="bias",
    )
    axes.set_title(f"Proposition 2, {len(p)} users by Zipf,\nVar(h) = {spread:.2g}")


def _draw_theorem_1(axes: Axes, study: Study) -> None:
    fine = np.geomspace(SIZES[0], SIZES[-1], 60)
    for colour, marker, each in zip(COLOURS, MARKERS, study.simulated, strict=False):
        terms = [variance_term(int(n), each.gamma, 1) + each.bias for n in fine]
        axes.plot(fine, terms, color=colour, linestyle="--", linewidth=1.2)
        axes.plot(
            list(each.errors),
            list(each.errors.values()),
            color=colour,
            marker=marker,
            label=f"γ = {each.gamma:g}",
        )
        if each.bias:
            axes.axhline(each.bias, color=colour, linestyle=":", linewidth=1)
    axes.set(
        xscale="log", yscale="log", ylim=(2e-3, 500), xlabel="n, examples", ylabel="largest |L_S(h) − L(h)|"
    )
    axes.set_title("Theorem 1, simulated; dotted: bias term;\ndashed: both terms, with the constant 1")
