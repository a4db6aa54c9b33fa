"""Figures of the study of caps: errors by the cap, what choosing it costs, and what bounds are worth."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from operator import methodcaller

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import (
    LEGEND,
    LOGARITHMIC,
    Panel,
    draw,
    heights_as_numbers,
    legend,
    level,
    line,
    note,
    place,
    shown,
    ticks,
)
from benchmarks.studies.capping.bounds import (
    Simulated,
    bias,
    proposition_1,
    proposition_2,
    sharper_1,
    sharper_2,
    users_of_theorem_1,
    variance,
    variance_term,
    worst_bias,
    worst_of_all,
    zipf_shares,
)
from benchmarks.studies.capping.choices import AIMS, COLUMNS, PI_CAP, SHARES, TRIED, Found, Setting, by_rule
from benchmarks.studies.capping.errors import (
    COUNTS,
    CURVES,
    GAP,
    QUANTITIES,
    RATES,
    SUM,
    THRESHOLDS,
    WEIGHTS,
)
from benchmarks.studies.outcome import Row
from harness.releases.contribution_cap import CAP_SHARE
from harness.views.palette import COLOURS, GREY, MARKERS

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
    **{name: label.partition(":")[0] for name, label in _LABELS.items()},
    COUNTS: "four counts",
    THRESHOLDS: "gap left by thresholds",
}
_REGRET = "expected error / least, all ε for the release"
_GAMMA = np.geomspace(1e-3, 1, 200)


def errors_by_cap(found: Found, about: Row, quantities: Sequence[str]) -> Figure:
    """Draw the error of quantities by the cap, an epsilon a column; in passive models.

    Args: about: what results say of the population.
    """
    settings = [setting for setting in found.errors if not setting.active]
    return draw(
        [[_errors(found, setting, quantity) for setting in settings] for quantity in quantities],
        (11, 3 * len(quantities) + 0.4),
        f"{about['name']}: {about['records']:,} records; of a client {about['median']:g} in the middle, "
        f"{about['largest']:,} at most",
        x="cap: records of a client that count",
        y=[_LABELS[quantity] for quantity in quantities],
        columns=[f"ε = {float(setting.epsilon):g}" for setting in settings],
        legend_columns=3,
        sharex=True,
    )


def _errors(found: Found, setting: Setting, quantity: str) -> Panel:
    errors = found.errors[setting][quantity]
    choice = found.choices[PI_CAP, quantity, setting, CAP_SHARE, AIMS[quantity]]
    rule = by_rule(found.population, errors.caps, setting.left(Fraction(0)), quantity)
    total, noise, missing, _, chosen, *_ = COLOURS
    least = float(errors.total.min())
    return [
        methodcaller(
            "axvspan",
            choice.low / 1.09,
            choice.high * 1.09,
            color=chosen,
            alpha=0.22,
            linewidth=0,
            label=f"π_CAP with {CAP_SHARE} of ε: 5 to 95 %; line: middle",
        ),
        place(choice.middle, color=chosen, linewidth=1.5),
        place(rule, color="black", linestyle="-.", linewidth=1, label="the paper's rule, not private"),
        line(errors.caps, errors.noise, color=noise, linestyle=":", linewidth=1.8, label="noise alone"),
        line(errors.caps, errors.bias, color=missing, linestyle="--", label="left-out records alone"),
        line(errors.caps, errors.total, color=total, linewidth=2, label="expected error"),
        line(*([errors.best], [least], MARKERS[0]), color=total, markersize=7, label="least, by brute force"),
        LOGARITHMIC,
        shown(ylim=(least / 10, float(errors.total.max()) * 2)),
        lambda axes: axes.xaxis.set_major_formatter("{x:,.0f}"),
    ]


def targets(rows: Sequence[Row]) -> Figure:
    """Draw what aiming at so many times as many clients costs, where it was chosen and held out."""
    of_quantities = [
        [row for row in rows if row["quantity"] == name] for name in (WEIGHTS, GAP, RATES, THRESHOLDS)
    ]
    return draw(
        [[_target(of_quantity) for of_quantity in of_quantities]],
        (14, 4.2),
        f"How low to aim, passive models, {CAP_SHARE} of ε for π_CAP: geometric mean and worst",
        x="clients above, over the rule's",
        y=[_REGRET],
        legend_columns=4,
        sharey=True,
    )


def _target(rows: Sequence[Row]) -> Panel:
    quantity = rows[0]["quantity"]
    kinds = {"chosen": "populations that it was chosen by", "held_out": "held out"}
    return [
        *(
            line(
                TRIED[quantity],
                [row[kind + suffix] for row in rows],
                color=colour,
                linestyle=style,
                marker=MARKERS[0],
                markersize=4,
                label=f"{label}{': worst' if suffix else ''}",
            )
            for colour, (kind, label) in zip(COLOURS, kinds.items(), strict=False)
            for suffix, style in (("", "-"), ("_worst", ":"))
            if kind in rows[0]
        ),
        place(AIMS[quantity], color=GREY, linewidth=1, zorder=0),
        LOGARITHMIC,
        shown(title=_SHORT[quantity]),
        ticks({aim: str(aim) for aim in TRIED[quantity]}),
        heights_as_numbers,
    ]


def shares(rows: Sequence[Row], found: Sequence[Found]) -> Figure:
    """Draw the price of choosing the cap, by the share of epsilon that is spent on it."""
    epsilons = ", ".join(f"{float(each.epsilon):g}" for each in found[0].errors if not each.active)
    populations = sum(not each.held_out for each in found)
    first, second, third, fourth = (
        _price([row for row in rows if row["quantity"] == quantity]) for quantity in QUANTITIES
    )
    return draw(
        [[first, second], [third, fourth]],
        (11, 7.6),
        f"What choosing the cap costs: geometric mean, {populations} populations and ε = {epsilons}",
        x="share of ε spent on choosing the cap",
        y=[_REGRET] * 2,
        sharex=True,
    )


def _price(rows: Sequence[Row]) -> Panel:
    quantity = rows[0]["quantity"]
    two = AIMS[quantity] > 1
    aims = {1: ", B/ε clients above", AIMS[quantity]: f", {AIMS[quantity]} B/ε clients above"}
    names = {float(share): str(share) for share in SHARES}
    highest = max(row[name] for row in rows for name in COLUMNS)
    return [
        *(
            line(
                list(names),
                [row[name] for row in rows if row["aim"] == aim],
                color=colour,
                linestyle=style,
                marker=marker,
                markersize=5,
                label=mechanism + target * two,
            )
            for colour, (aim, target) in zip(COLOURS, aims.items(), strict=False)
            for (name, mechanism), style, marker in zip(COLUMNS.items(), ("-", "--"), MARKERS, strict=False)
        ),
        LOGARITHMIC,
        ticks(names),
        heights_as_numbers,
        # Room for the legend, above all lines.
        shown(ylim=(1, (2 if two else 1.25) * highest), title=_SHORT[quantity]),
        legend(loc="upper left" if two else "upper right"),
    ]


def bounds(simulated: Sequence[Simulated]) -> Figure:
    """Draw Propositions 1 and 2 and Theorem 1 beside what they bound."""
    panels = (_proposition_1(), _proposition_2(), _theorem_1(simulated))
    return draw([[[*panel, LEGEND] for panel in panels]], (15, 5))


def _proposition_1() -> Panel:
    p = zipf_shares(1000)
    lines: dict[str, tuple[Callable[[float], float], str, str]] = {
        "Proposition 1: √(½ ln 1/γ)": (proposition_1, "black", "-"),
        "worst users: (1 − √γ)²": (worst_of_all, COLOURS[1], "-"),
        "Zipf: √(½ ln 1/Q)": (partial(sharper_1, p), COLOURS[0], "--"),
        "Zipf, 1,000 users: exact": (partial(worst_bias, p), COLOURS[0], "-"),
    }
    return [
        *(
            line(_GAMMA, [bound(gamma) for gamma in _GAMMA], color=colour, linestyle=style, label=name)
            for name, (bound, colour, style) in lines.items()
        ),
        level(1, color=GREY, linestyle=":", linewidth=1),
        note("no bias is larger", (1, 1.02), ha="right", color=GREY),
        shown(
            xscale="log", ylim=(0, 2), xlabel="γ, the cap as a share of all examples", ylabel="largest bias"
        ),
        shown(title="Proposition 1, losses from 0 to 1\n(users alike: no bias)"),
    ]


def _proposition_2() -> Panel:
    p, thresholds = users_of_theorem_1()
    losses = np.abs(thresholds - 0.2)  # right for the most active user
    spread, below = variance(p, losses), _GAMMA[p.max() > _GAMMA]
    return [
        line(
            _GAMMA,
            [proposition_2(spread, gamma) for gamma in _GAMMA],
            color="black",
            label="Proposition 2: √(2 Var / γ)",
        ),
        line(
            below,
            [sharper_2(p, spread, gamma) for gamma in below],
            color=COLOURS[0],
            linestyle="--",
            label="√(Var (1 − Q) / Q)",
        ),
        line(below, [bias(p, gamma, losses) for gamma in below], color=COLOURS[0], label="bias, exact"),
        place(p.max(), color=GREY, linestyle=":", linewidth=1),
        note("nobody is\ncapped", (p.max() * 1.08, 2e-3), color=GREY),
        LOGARITHMIC,
        shown(ylim=(1e-3, 20), xlabel="γ, the cap as a share of all examples", ylabel="bias"),
        shown(title=f"Proposition 2, {len(p)} users by Zipf,\nVar(h) = {spread:.2g}"),
    ]


def _theorem_1(simulated: Sequence[Simulated]) -> Panel:
    fine = np.geomspace(min(simulated[0].errors), max(simulated[0].errors), 60)
    marks = [
        LOGARITHMIC,
        shown(ylim=(2e-3, 500), xlabel="n, examples", ylabel="largest |L_S(h) − L(h)|"),
        shown(title="Theorem 1, simulated; dotted: bias term;\ndashed: both terms, with the constant 1"),
    ]
    for colour, marker, each in zip(COLOURS, MARKERS, simulated, strict=False):
        terms = [variance_term(int(n), each.gamma, 1) + each.bias for n in fine]
        n, errors = zip(*each.errors.items(), strict=True)
        marks += [
            line(fine, terms, color=colour, linestyle="--", linewidth=1.2),
            line(n, errors, color=colour, marker=marker, label=f"γ = {each.gamma:g}"),
            *([level(each.bias, color=colour, linestyle=":", linewidth=1)] if each.bias else []),
        ]
    return marks
