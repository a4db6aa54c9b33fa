"""The study of caps: errors by the cap, caps by several rules, the paper's bounds; its tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from operator import methodcaller
from typing import Any

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
    Claim,
    Simulated,
    bias,
    claims,
    proposition_1,
    proposition_2,
    sharper_1,
    sharper_2,
    simulate,
    variance,
    variance_term,
    worst_bias,
    worst_of_all,
    zipf_shares,
)
from benchmarks.studies.capping.choices import (
    AIMS,
    ALL_QUANTITIES,
    HISTOGRAM,
    MECHANISMS,
    PI_CAP,
    SHARES,
    TRIED,
    Choice,
    Chooser,
    Key,
    Setting,
    by_rule,
    geometric_mean,
)
from benchmarks.studies.capping.errors import (
    BINS,
    CHOICES,
    COUNTS,
    CURVE_QUANTITIES,
    CURVES,
    DRAWS,
    GAP,
    NOISES,
    QUANTITIES,
    RATES,
    SUM,
    THRESHOLDS,
    WEIGHTS,
    Errors,
    ExpectedCurveErrors,
    ExpectedErrors,
)
from benchmarks.studies.capping.population import MOST, Floats, Population
from benchmarks.studies.outcome import Outcome, grouped, rounded
from harness.releases.contribution_cap import CAP_SHARE, CURVE_RATIOS, RATIOS
from harness.views.palette import COLOURS, GREY, MARKERS
from harness.views.parts import Bad, Good, Part, Table
from protocols.mechanisms.above_threshold import caps_up_to

SEED = 20_191_210  # any
CAPS = caps_up_to(MOST)
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))
SETTINGS = (*map(Setting, EPSILONS), Setting(Fraction(1), active=True))
COLUMNS = dict(zip(("pi_cap", "histogram"), MECHANISMS, strict=True))  # of results, by a mechanism's

# Of Theorem 1, simulated.
USERS = 100
GAMMAS = (0.3, 0.1, 0.03)
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)
RUNS = 20

RESULT, ERRORS = "capping.json", "errors.csv"
BOUNDS, PRICE, TARGETS = "bounds.png", "shares.png", "targets.png"
_SHOWN = "1"  # epsilon of the table that is printed
_MARKS = {True: Good("holds"), False: Bad("no"), None: ""}
_LABELS = {
    SUM: "number of records:\nerror, records",
    COUNTS: "4 counts together:\nerror, records",
    WEIGHTS: "sample weights:\nmean |ln(weight / true)|",
    GAP: "gap between groups:\nerror of the rates' difference",
    CURVES: "curves' counts:\nmean error, records",
    RATES: "true and false positive rates:\nmean error",
    THRESHOLDS: "thresholds for equal opportunity:\ngap left",
}
_SHORT = {name: label.partition(":")[0] for name, label in _LABELS.items()}
_SHORT |= {COUNTS: "four counts", THRESHOLDS: "gap left by thresholds"}
_RATIOS = (WEIGHTS, GAP, RATES, THRESHOLDS)
_KINDS = {"chosen": "populations that it was chosen by", "held_out": "held out"}
_GAMMA = np.geomspace(1e-3, 1, 200)


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of one population.

    Attributes: errors: by setting and quantity; choices: with epsilon the total of choice and release;
    held_out: whether nothing in `cap` was chosen by it.
    """

    population: Population
    errors: dict[Setting, dict[str, Errors]]
    choices: dict[Key, Choice]
    held_out: bool

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per setting and quantity: the best cap, the rule's, and what is chosen privately."""
        for setting, by_quantity in self.errors.items():
            for quantity, errors in by_quantity.items():
                rule = by_rule(self.population, errors.caps, setting.left(Fraction(0)), quantity)
                least = float(errors.total.min())
                row: dict[str, Any] = {
                    "population": self.population.name,
                    "epsilon": str(setting.epsilon),
                    "models": setting.models,
                    "quantity": quantity,
                    "best_cap": errors.best,
                    "least_error": rounded(least),
                    "rule_cap": rule,
                    "rule_regret": rounded(float(errors.total[errors.caps.index(rule)]) / least),
                }
                for name, mechanism in COLUMNS.items():
                    choice = self.choices[mechanism, quantity, setting, CAP_SHARE, AIMS[quantity]]
                    row |= {
                        f"{name}_5": choice.low,
                        f"{name}_50": choice.middle,
                        f"{name}_95": choice.high,
                        f"{name}_regret": rounded(choice.regret),
                    }
                yield row

    def about(self) -> dict[str, Any]:
        """Return what results say of the population: its size, how much its clients have, and its table."""
        sizes = self.population.sizes
        return {
            "name": self.population.name,
            "held_out": self.held_out,
            "clients": len(sizes),
            "records": int(sizes.sum()),
            "median": float(np.median(sizes)),
            "largest": int(sizes.max()),
            "table": self.population.table.tolist(),
        }


@dataclass(frozen=True, eq=False)
class Study:
    """All of it."""

    found: tuple[Found, ...]
    simulated: tuple[Simulated, ...]
    claims: tuple[Claim, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all populations."""
        return [row for each in self.found for row in each.rows()]

    def errors(self) -> list[dict[str, Any]]:
        """Return the errors at every cap; what was not computed is empty."""
        return [
            {
                "population": each.population.name,
                "epsilon": str(setting.epsilon),
                "models": setting.models,
                "quantity": quantity,
                "cap": cap,
                "noise": "" if np.isnan(noise) else rounded(noise),
                "bias": rounded(missing),
                "total": rounded(total),
            }
            for each in self.found
            for setting, by_quantity in each.errors.items()
            for quantity, e in by_quantity.items()
            for cap, noise, missing, total in zip(e.caps, e.noise, e.bias, e.total, strict=True)
        ]

    def shares(self) -> list[dict[str, Any]]:
        """Return, for each share of epsilon, the regret over the populations that it was chosen by."""
        return [
            {"quantity": quantity, "aim": aim, "share": str(share)}
            | self._regret("pi_cap", PI_CAP, quantity, share, aim)
            | self._regret("histogram", HISTOGRAM, quantity, share, aim)
            for quantity in QUANTITIES
            for aim in TRIED[quantity]
            for share in SHARES
        ]

    def targets(self) -> list[dict[str, Any]]:
        """Return, for each target of ratios and curves, π_CAP's regret where it was chosen and held out."""
        return [
            {"quantity": quantity, "aim": aim}
            | self._regret("chosen", PI_CAP, quantity, CAP_SHARE, aim)
            | self._regret("chosen_active", PI_CAP, quantity, CAP_SHARE, aim, active=True)
            | self._regret("held_out", PI_CAP, quantity, CAP_SHARE, aim, held_out=True)
            | self._regret("held_out_active", PI_CAP, quantity, CAP_SHARE, aim, held_out=True, active=True)
            for quantity in ALL_QUANTITIES
            if len(TRIED[quantity]) > 1
            for aim in TRIED[quantity]
        ]

    def _regret(
        self,
        name: str,
        mechanism: str,
        quantity: str,
        share: Fraction,
        aim: int,
        held_out: bool = False,
        active: bool = False,
    ) -> dict[str, Any]:
        """Return the geometric mean of these populations and settings, and the worst; nothing of none."""
        regrets = [
            each.choices[mechanism, quantity, setting, share, aim].regret
            for each in self.found
            for setting in each.errors
            if each.held_out is held_out and setting.active is active
        ]
        if not regrets:
            return {}
        return {name: rounded(geometric_mean(regrets)), f"{name}_worst": rounded(max(regrets))}

    def to_json(self) -> dict[str, Any]:
        """Return what `capping.json` holds."""
        return {
            "populations": [each.about() for each in self.found],
            "choices": self.rows(),
            "shares": self.shares(),
            "targets": self.targets(),
            "theorem_1": [
                {
                    "gamma": each.gamma,
                    "bias": rounded(each.bias),
                    "errors": {str(n): rounded(error) for n, error in each.errors.items()},
                }
                for each in self.simulated
            ],
            "claims": [asdict(claim) for claim in self.claims],
        }


def users_of_theorem_1() -> tuple[Floats, Floats]:
    """Return p_j, the most active first, and the thresholds t_j of users' labels: they grow as p_j falls."""
    return zipf_shares(USERS), np.linspace(0.2, 0.8, USERS)


def _study_of(population: Population, held_out: bool) -> Found:
    rng = np.random.default_rng([SEED, *population.table.ravel()])  # whatever else is studied
    expected = ExpectedErrors(population, CAPS, rng)
    chooser = Chooser(population, CAPS, rng)
    curves = ExpectedCurveErrors(
        population, CAPS, np.random.default_rng([SEED, *population.table.ravel(), 1])
    )

    errors: dict[Setting, dict[str, Errors]] = {}
    choices: dict[Key, Choice] = {}
    for setting in SETTINGS:
        epsilon = float(setting.left(Fraction(0)))
        errors[setting] = expected.at(epsilon) | curves.at(epsilon)
        for share in (CAP_SHARE,) if held_out or setting.active else SHARES:
            epsilon = float(setting.left(share))
            left = expected.at(epsilon)
            if share == CAP_SHARE:  # curves take longer
                left |= curves.at(epsilon, noise_alone=False)
            choices.update(chooser.choices(setting, share, left, errors[setting]))
    return Found(population, errors, choices, held_out)


def study(
    populations: Sequence[Population],
    held_out: Sequence[Population] = (),
    detail: Callable[[str], None] = lambda _: None,
) -> Study:
    """Compute all of it.

    Args: held_out: populations that no target or share was chosen by; detail: told how far it is.
    """
    found = []
    for population in (*populations, *held_out):
        detail(population.name)
        found.append(_study_of(population, population in held_out))
    detail("Theorem 1")
    p, thresholds = users_of_theorem_1()
    rng = np.random.default_rng(SEED)
    simulated = tuple(simulate(p, thresholds, gamma, SIZES, RUNS, rng) for gamma in GAMMAS)
    return Study(tuple(found), simulated, tuple(claims()))


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
        f"{name}-{found.population.slug}.png": partial(errors_by_cap, found, quantities)
        for found in study.found
        if not found.held_out
        for name, quantities in (("errors", QUANTITIES), ("curves", CURVE_QUANTITIES))
    }
    of_all = {TARGETS: draw_targets, PRICE: draw_shares, BOUNDS: draw_bounds}
    figures |= {name: partial(draw_it, study) for name, draw_it in of_all.items()}
    tables = {ERRORS: study.errors()}
    return Outcome(about, study.to_json(), view(study), tables=tables, result=RESULT, figures=figures, dpi=90)


def view(study: Study) -> Iterator[Part]:
    """View what the caps are at epsilon 1, what choosing costs, and what the paper states."""
    yield _caps(study.rows())
    yield _shares(study.shares())
    yield _targets(study.targets())
    stated = [[each.where, each.published, _MARKS[each.holds], each.found] for each in study.claims]
    yield grouped(["", "stated", "", "found"], stated, alignment="llll", title="What the paper states")
    yield (
        "Regret: the expected error over the least that any cap leaves with all of ε. π_CAP and histograms "
        f"spend {CAP_SHARE} of ε on the cap; for weights and gaps they let {RATIOS} times as many "
        f"clients exceed it as the rule does, for curves {CURVE_RATIOS} times. The rule reads the "
        "contributions themselves: it is not private."
    )


def _caps(rows: Sequence[dict[str, Any]]) -> Table:
    columns = ("", "of", "best cap", "error", "rule: cap", "regret", "π_CAP: 5, 50, 95 %", "regret")
    cells = [
        [
            row["population"],
            row["quantity"],
            f"{row['best_cap']:,}",
            f"{row['least_error']:,.3g}" if row["least_error"] < 1000 else f"{row['least_error']:,.0f}",
            f"{row['rule_cap']:,}",
            f"{row['rule_regret']:.2f}",
            ", ".join(f"{row[f'pi_cap_{at}']:,}" for at in (5, 50, 95)),
            f"{row['pi_cap_regret']:.2f}",
            f"{row['histogram_regret']:.2f}",
        ]
        for row in rows
        if (row["epsilon"], row["models"]) == (_SHOWN, "passive")
    ]
    title = f"Caps at ε = {_SHOWN}"
    return grouped([*columns, "histogram: regret"], cells, alignment="llrrrrrrr", title=title)


def _shares(rows: Sequence[dict[str, Any]]) -> Table:
    columns = ("of", "clients above", "share", "π_CAP: regret", "worst", "histogram: regret", "worst")
    cells = [
        [
            row["quantity"],
            "B/ε" if row["aim"] == 1 else f"{row['aim']} B/ε",
            row["share"],
            *(f"{row[name]:.2f}" for name in ("pi_cap", "pi_cap_worst", "histogram", "histogram_worst")),
        ]
        for row in rows
        if row["aim"] in (1, AIMS[row["quantity"]])
    ]
    return grouped(columns, cells, 2, title="The price of choosing the cap, over all populations and ε")


def _targets(rows: Sequence[dict[str, Any]]) -> Table:
    """Of what was held out, if anything was."""
    kinds = {"chosen": "chosen by", "chosen_active": "active, ε = 1"}
    kinds |= {"held_out": "held out", "held_out_active": "active, ε = 1"} if "held_out" in rows[0] else {}
    cells = [
        [
            row["quantity"],
            f"{row['aim']}{' *' * (row['aim'] == AIMS[row['quantity']])}",
            *(f"{row[kind]:.2f} ({row[f'{kind}_worst']:.1f})" for kind in kinds),
        ]
        for row in rows
    ]
    title = f"How low to aim: π_CAP's regret with {CAP_SHARE} of ε, and the worst"
    return grouped(["of", "clients above", *kinds.values()], cells, title=title)


def errors_by_cap(found: Found, quantities: Sequence[str]) -> Figure:
    """Draw the error of quantities by the cap, an epsilon a column; in passive models."""
    settings = [setting for setting in found.errors if not setting.active]
    about = found.about()
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
    drawn = found.errors[setting][quantity]
    choice = found.choices[PI_CAP, quantity, setting, CAP_SHARE, AIMS[quantity]]
    rule = by_rule(found.population, drawn.caps, setting.left(Fraction(0)), quantity)
    total, noise, missing, _, chosen, *_ = COLOURS
    least, name = float(drawn.total.min()), f"π_CAP with {CAP_SHARE} of ε: 5 to 95 %; line: middle"
    span = {"color": chosen, "alpha": 0.22, "linewidth": 0, "label": name}
    return [
        methodcaller("axvspan", choice.low / 1.09, choice.high * 1.09, **span),
        place(choice.middle, color=chosen, linewidth=1.5),
        place(rule, color="black", linestyle="-.", linewidth=1, label="the paper's rule, not private"),
        line(drawn.caps, drawn.noise, color=noise, linestyle=":", linewidth=1.8, label="noise alone"),
        line(drawn.caps, drawn.bias, color=missing, linestyle="--", label="left-out records alone"),
        line(drawn.caps, drawn.total, color=total, linewidth=2, label="expected error"),
        line(*([drawn.best], [least], MARKERS[0]), color=total, markersize=7, label="least, by brute force"),
        LOGARITHMIC,
        shown(ylim=(least / 10, float(drawn.total.max()) * 2)),
        lambda axes: axes.xaxis.set_major_formatter("{x:,.0f}"),
    ]


def draw_targets(study: Study) -> Figure:
    """Draw what aiming at so many times as many clients costs, where it was chosen and held out."""
    rows = {name: [row for row in study.targets() if row["quantity"] == name] for name in _RATIOS}
    panels: list[Panel] = [
        [
            *(
                line(
                    TRIED[quantity],
                    [row[kind + suffix] for row in of_quantity],
                    color=colour,
                    linestyle=style,
                    marker=MARKERS[0],
                    markersize=4,
                    label=f"{label}{': worst' if suffix else ''}",
                )
                for colour, (kind, label) in zip(COLOURS, _KINDS.items(), strict=False)
                for suffix, style in (("", "-"), ("_worst", ":"))
                if kind in of_quantity[0]
            ),
            place(AIMS[quantity], color=GREY, linewidth=1, zorder=0),
            LOGARITHMIC,
            shown(title=_SHORT[quantity]),
            ticks({aim: str(aim) for aim in TRIED[quantity]}),
            heights_as_numbers,
        ]
        for quantity, of_quantity in rows.items()
    ]
    title = f"How low to aim, passive models, {CAP_SHARE} of ε for π_CAP: geometric mean and worst"
    height = ["expected error / least, all ε for the release"]
    across = "clients above, over the rule's"
    return draw([panels], (14, 4.2), title, x=across, y=height, legend_columns=4, sharey=True)


def draw_shares(study: Study) -> Figure:
    """Draw the price of choosing the cap, by the share of epsilon that is spent on it."""
    epsilons = ", ".join(f"{float(each.epsilon):g}" for each in study.found[0].errors if not each.active)
    populations = sum(not each.held_out for each in study.found)
    title = f"What choosing the cap costs: geometric mean, {populations} populations and ε = {epsilons}"
    first, second, third, fourth = (_price(study, quantity) for quantity in QUANTITIES)
    y = ["expected error / least, all ε for the release"] * 2
    x = "share of ε spent on choosing the cap"
    return draw([[first, second], [third, fourth]], (11, 7.6), title, x=x, y=y, sharex=True)


def _price(study: Study, quantity: str) -> Panel:
    rows, two = [row for row in study.shares() if row["quantity"] == quantity], AIMS[quantity] > 1
    aims = {1: ", B/ε clients above", AIMS[quantity]: f", {AIMS[quantity]} B/ε clients above"}
    names = {float(share): str(share) for share in SHARES}
    room = 2 if two else 1.25  # for the legend, above all lines
    return [
        *(
            line(
                list(names),
                [row[name] for row in rows if row["aim"] == aim],
                color=colour,
                linestyle=style,
                marker=marker,
                markersize=5,
                label=label + target * two,
            )
            for colour, (aim, target) in zip(COLOURS, aims.items(), strict=False)
            for name, style, marker, label in zip(COLUMNS, ("-", "--"), MARKERS, MECHANISMS, strict=False)
        ),
        LOGARITHMIC,
        ticks(names),
        heights_as_numbers,
        shown(ylim=(1, room * max(row[name] for row in rows for name in COLUMNS)), title=_SHORT[quantity]),
        legend(loc="upper left" if two else "upper right"),
    ]


def draw_bounds(study: Study) -> Figure:
    """Draw Propositions 1 and 2 and Theorem 1 beside what they bound."""
    panels = (_proposition_1(), _proposition_2(), _theorem_1(study.simulated))
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
    bounds = [proposition_2(spread, g) for g in _GAMMA]
    sharper, exact = [sharper_2(p, spread, g) for g in below], [bias(p, g, losses) for g in below]
    return [
        line(_GAMMA, bounds, color="black", label="Proposition 2: √(2 Var / γ)"),
        line(below, sharper, color=COLOURS[0], linestyle="--", label="√(Var (1 − Q) / Q)"),
        line(below, exact, color=COLOURS[0], label="bias, exact"),
        place(p.max(), color=GREY, linestyle=":", linewidth=1),
        note("nobody is\ncapped", (p.max() * 1.08, 2e-3), color=GREY),
        LOGARITHMIC,
        shown(ylim=(1e-3, 20), xlabel="γ, the cap as a share of all examples", ylabel="bias"),
        shown(title=f"Proposition 2, {len(p)} users by Zipf,\nVar(h) = {spread:.2g}"),
    ]


def _theorem_1(simulated: Sequence[Simulated]) -> Panel:
    fine = np.geomspace(SIZES[0], SIZES[-1], 60)
    title = "Theorem 1, simulated; dotted: bias term;\ndashed: both terms, with the constant 1"
    marks = [LOGARITHMIC, shown(ylim=(2e-3, 500), xlabel="n, examples", ylabel="largest |L_S(h) − L(h)|")]
    for colour, marker, each in zip(COLOURS, MARKERS, simulated, strict=False):
        terms = [variance_term(int(n), each.gamma, 1) + each.bias for n in fine]
        n, errors = zip(*each.errors.items(), strict=True)
        marks += [
            line(fine, terms, color=colour, linestyle="--", linewidth=1.2),
            line(n, errors, color=colour, marker=marker, label=f"γ = {each.gamma:g}"),
            *([level(each.bias, color=colour, linestyle=":", linewidth=1)] if each.bias else []),
        ]
    return [*marks, shown(title=title)]
