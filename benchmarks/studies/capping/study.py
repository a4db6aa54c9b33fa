"""The study of caps."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import gmean

from benchmarks.figures import (
    LOGARITHMIC,
    Panel,
    draw,
    line,
    place,
    shown,
)
from benchmarks.studies.capping.bounds import claims
from benchmarks.studies.capping.choices import (
    AIMS,
    ALL_QUANTITIES,
    LABELS,
    PI_CAP,
    SHARES,
    TRIED,
    Chooser,
    Setting,
    shares,
    target,
    targets,
)
from benchmarks.studies.capping.errors import (
    BINS,
    CHOICES,
    CURVE_QUANTITIES,
    DRAWS,
    MOST,
    NOISES,
    QUANTITIES,
    CountedClients,
    ExpectedCurveErrors,
    ExpectedErrors,
)
from benchmarks.studies.outcome import Row, StudyResult, grouped, rounded
from fairshares.harness.releases.base import RATIOS
from fairshares.harness.releases.cap.statistic import CAP_SHARE
from fairshares.harness.releases.thresholds.statistic import CURVE_RATIOS
from fairshares.harness.views.palette import COLOURS, MARKERS
from fairshares.harness.views.parts import Bad, Good, Part
from fairshares.protocols.mechanisms.above_threshold import best_cap, caps_up_to

SEED = 20_191_210  # any
CAPS = caps_up_to(MOST)
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))
SETTINGS = (*map(Setting, EPSILONS), Setting(Fraction(1), active=True))
RESULT, ERRORS = "capping.json", "errors.csv"
PRICE, TARGETS = "shares.png", "targets.png"
_SHOWN = "1"  # epsilon of the table that is printed

Errors = dict[tuple[Setting, str], pd.DataFrame]  # expected errors by setting and quantity


def study(
    populations: Sequence[CountedClients],
    held_out: Sequence[CountedClients] = (),
    detail: Callable[[str], None] = lambda _: None,
) -> StudyResult:
    """Study each population, also those held out from all choices."""
    about, caps, tried, by_cap = list[Row](), list[Row](), list[Row](), list[pd.DataFrame]()
    drawn: dict[str, Callable[[], Figure]] = {}
    for population in (*populations, *held_out):
        detail(population.name)
        sizes, kind = population.sizes, "held_out" if population in held_out else "chosen"
        errors, chosen = _study_of(population, population in held_out)
        of = {
            "name": population.name,
            "held_out": population in held_out,
            "clients": len(sizes),
            "records": int(sizes.sum()),
            "median": float(np.median(sizes)),
            "largest": int(sizes.max()),
            "table": population.table.tolist(),
        }
        rows = [_caps(population, *at, of_one, chosen) for at, of_one in errors.items()]
        by_cap += [
            of_one.map(rounded).assign(**{name: row[name] for name in _OF})
            for row, of_one in zip(rows, errors.values(), strict=True)
        ]
        tried += [{**row, "kind": kind + "_active" * row["setting"].active} for row in chosen]
        about.append(of)
        caps += rows
        if population not in held_out:
            slug = re.sub("[^a-z0-9.]+", "-", population.name.lower().replace(",", ""))
            for name, quantities in (("errors", QUANTITIES), ("curves", CURVE_QUANTITIES)):
                drawn[f"{name}-{slug}.png"] = partial(errors_by_cap, of, errors, rows, quantities)
    ordered = sorted(tried, key=lambda row: (ALL_QUANTITIES.index(row["quantity"]), row["aim"], row["share"]))
    regrets = pd.DataFrame(ordered).astype({"share": str})
    several = regrets["quantity"].isin([quantity for quantity, aims in TRIED.items() if len(aims) > 1])
    by_aim = several & (regrets["mechanism"] == PI_CAP) & (regrets["share"] == str(CAP_SHARE))
    numbers: dict[str, Any] = {
        "populations": about,
        "choices": caps,
        "shares": _regrets(
            regrets[((regrets["kind"] == "chosen") & regrets["quantity"].isin(QUANTITIES))],
            ["quantity", "aim", "share"],
            "mechanism",
        ),
        "targets": _regrets(regrets[by_aim], ["quantity", "aim"], "kind"),
        "claims": claims(),
    }
    drawn[TARGETS] = partial(targets, numbers["targets"])
    drawn[PRICE] = partial(
        shares,
        numbers["shares"],
        len(populations),
        ", ".join(f"{float(epsilon):g}" for epsilon in EPSILONS),
    )
    return StudyResult(
        {
            "seed": SEED,
            "epsilons": [str(epsilon) for epsilon in EPSILONS],
            "drawn_per_cap": {"choices_of_records": CHOICES, "noises": NOISES, "curves": DRAWS},
            "thresholds": BINS,
        },
        numbers,
        view(numbers),
        tables={
            ERRORS: pd.concat(by_cap)
            .rename_axis("cap")
            .reset_index()[[*_OF, "cap", "noise", "bias", "total"]]
        },
        result=RESULT,
        figures=drawn,
        dpi=90,
    )


_OF = ("population", "epsilon", "models", "quantity")


def _study_of(population: CountedClients, held_out: bool) -> tuple[Errors, list[Row]]:
    seed = [SEED, *population.table.ravel()]  # independent of other populations
    rng = np.random.default_rng(seed)
    expected = ExpectedErrors(population, CAPS, rng)
    chooser = Chooser(population, CAPS, rng)
    curves = ExpectedCurveErrors(population, CAPS, np.random.default_rng([*seed, 1]))
    errors, chosen = Errors(), list[Row]()
    for setting in SETTINGS:
        epsilon = float(setting.left(Fraction(0)))
        least = expected.at(epsilon) | curves.at(epsilon)
        errors |= {(setting, quantity): of_one for quantity, of_one in least.items()}
        for share in (CAP_SHARE,) if held_out or setting.active else SHARES:
            epsilon = float(setting.left(share))
            left = expected.at(epsilon)
            if share == CAP_SHARE:  # curves take longer
                left |= curves.at(epsilon, noise_alone=False)
            chosen += chooser.choices(setting, share, left, least)
    return errors, chosen


def _caps(
    population: CountedClients, setting: Setting, quantity: str, errors: pd.DataFrame, chosen: Sequence[Row]
) -> Row:
    # The paper's rule, from the contributions themselves: it is not private.
    rule = best_cap(population.sizes, CAPS, target(setting.left(Fraction(0)), quantity, 1))
    least = float(errors["total"].min())
    row = {
        "population": population.name,
        "epsilon": str(setting.epsilon),
        "models": "active" if setting.active else "passive",
        "quantity": quantity,
        "best_cap": CAPS[int(errors["total"].argmin())],
        "least_error": rounded(least),
        "rule_cap": rule,
        "rule_regret": rounded(float(errors["total"][rule]) / least),
    }
    how = {"quantity": quantity, "setting": setting, "share": CAP_SHARE, "aim": AIMS[quantity]}
    for choice in chosen:
        if how.items() <= choice.items():
            row |= {f"{choice['mechanism']}_{at}": choice[at] for at in ("5", "50", "95")}
            row[f"{choice['mechanism']}_regret"] = rounded(choice["regret"])
    return row


def _regrets(regrets: pd.DataFrame, by: list[str], across: str) -> list[Any]:
    """Return regrets' geometric mean and worst, a row per `by`."""
    means = regrets.groupby([*by, across], sort=False)["regret"].agg([gmean, "max"])
    table = pd.DataFrame(means.map(rounded).unstack(across, sort=False))
    table.columns = [at[1] + "_worst" * (at[0] == "max") for at in table.columns]
    return table.reset_index().to_dict("records")


def view(numbers: Mapping[str, Any]) -> Iterator[Part]:
    """View caps, prices and the paper's statements."""
    yield grouped(
        (
            *("", "of", "best cap", "error", "rule: cap", "regret"),
            *("π_CAP: 5, 50, 95 %", "regret", "histogram: regret"),
        ),
        [
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
            for row in numbers["choices"]
            if (row["epsilon"], row["models"]) == (_SHOWN, "passive")
        ],
        alignment="llrrrrrrr",
        title=f"Caps at ε = {_SHOWN}",
    )
    yield grouped(
        ("of", "clients above", "share", "π_CAP: regret", "worst", "histogram: regret", "worst"),
        [
            [
                row["quantity"],
                "B/ε" if row["aim"] == 1 else f"{row['aim']} B/ε",
                row["share"],
                *(f"{row[name]:.2f}" for name in ("pi_cap", "pi_cap_worst", "histogram", "histogram_worst")),
            ]
            for row in numbers["shares"]
            if row["aim"] in (1, AIMS[row["quantity"]])
        ],
        2,
        title="The price of choosing the cap, over all populations and ε",
    )
    heads = {"chosen": "chosen by", "chosen_active": "active, ε = 1"}
    if "held_out" in numbers["targets"][0]:
        heads |= {"held_out": "held out", "held_out_active": "active, ε = 1"}
    yield grouped(
        ["of", "clients above", *heads.values()],
        [
            [
                row["quantity"],
                f"{row['aim']}{' *' * (row['aim'] == AIMS[row['quantity']])}",
                *(f"{row[kind]:.2f} ({row[f'{kind}_worst']:.1f})" for kind in heads),
            ]
            for row in numbers["targets"]
        ],
        title=f"How low to aim: π_CAP's regret with {CAP_SHARE} of ε, and the worst",
    )
    marks = {True: Good("holds"), False: Bad("no"), None: ""}
    yield grouped(
        ["", "stated", "", "found"],
        [
            [claim["where"], claim["published"], marks[claim["holds"]], claim["found"]]
            for claim in numbers["claims"]
        ],
        alignment="llll",
        title="What the paper states",
    )
    yield (
        "Regret: the expected error over the least that any cap leaves with all of ε. π_CAP and histograms "
        f"spend {CAP_SHARE} of ε on the cap; for weights and gaps they let {RATIOS} times as many "
        f"clients exceed it as the rule does, for curves {CURVE_RATIOS} times. The rule reads the "
        "contributions themselves: it is not private."
    )


def errors_by_cap(about: Row, errors: Errors, rows: Sequence[Row], quantities: Sequence[str]) -> Figure:
    """Draw the error of quantities by the cap, in passive models."""
    panels = {
        at: _error_panel(of_one, row)
        for (at, of_one), row in zip(errors.items(), rows, strict=True)
        if not at[0].active
    }
    settings = SETTINGS[: len(EPSILONS)]
    return draw(
        [[panels[setting, quantity] for setting in settings] for quantity in quantities],
        (11, 3 * len(quantities) + 0.4),
        f"{about['name']}: {about['records']:,} records; of a client {about['median']:g} in the middle, "
        f"{about['largest']:,} at most",
        x="cap: records of a client that count",
        y=[LABELS[quantity] for quantity in quantities],
        columns=[f"ε = {float(epsilon):g}" for epsilon in EPSILONS],
        legend_columns=3,
        sharex=True,
    )


def _error_panel(errors: pd.DataFrame, row: Row) -> Panel:
    total, noise, missing, _, chosen, *_ = COLOURS
    least = row["least_error"]
    return [
        methodcaller(
            "axvspan",
            row["pi_cap_5"] / 1.09,
            row["pi_cap_95"] * 1.09,
            color=chosen,
            alpha=0.22,
            linewidth=0,
            label=f"π_CAP with {CAP_SHARE} of ε: 5 to 95 %; line: middle",
        ),
        place(row["pi_cap_50"], color=chosen, linewidth=1.5),
        place(
            row["rule_cap"], color="black", linestyle="-.", linewidth=1, label="the paper's rule, not private"
        ),
        line(CAPS, errors["noise"], color=noise, linestyle=":", linewidth=1.8, label="noise alone"),
        line(CAPS, errors["bias"], color=missing, linestyle="--", label="left-out records alone"),
        line(CAPS, errors["total"], color=total, linewidth=2, label="expected error"),
        line(row["best_cap"], least, MARKERS[0], color=total, markersize=7, label="least, by brute force"),
        LOGARITHMIC,
        shown(ylim=(least / 10, float(errors["total"].max()) * 2)),
        lambda axes: axes.xaxis.set_major_formatter("{x:,.0f}"),
    ]
