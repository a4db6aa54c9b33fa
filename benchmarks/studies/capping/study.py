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
RESULT = "capping.json"
ERRORS = "errors.csv"
PRICE = "shares.png"
TARGETS = "targets.png"
_SHOWN = "1"  # epsilon of the table that is printed

Errors = dict[tuple[Setting, str], pd.DataFrame]  # expected errors by setting and quantity


def study(
    populations: Sequence[CountedClients],
    held_out: Sequence[CountedClients] = (),
    detail: Callable[[str], None] = lambda _: None,
) -> StudyResult:
    """Study each population.

    Args:
        populations: The populations by which the command `cap` was designed.
        held_out: The populations that no choice of the design has seen.
        detail: A function that is told the name of each population as it begins.
    """
    about = list[Row]()
    caps = list[Row]()
    tried = list[Row]()
    by_cap = list[pd.DataFrame]()
    drawn: dict[str, Callable[[], Figure]] = {}
    for population in [*populations, *held_out]:
        detail(population.name)
        is_held_out = population in held_out
        errors, chosen = _study_of(population, is_held_out)
        description = _described(population, is_held_out)
        about.append(description)
        rows = []
        for (setting, quantity), table in errors.items():
            row = _caps(population, setting, quantity, table, chosen)
            rows.append(row)
            names = {name: row[name] for name in _KEYS}
            by_cap.append(table.map(rounded).assign(**names))
        caps += rows
        for choice in chosen:
            kind = "held_out" if is_held_out else "chosen"
            if choice["setting"].active:
                kind += "_active"
            tried.append({**choice, "kind": kind})
        if not is_held_out:
            slug = re.sub("[^a-z0-9.]+", "-", population.name.lower().replace(",", ""))
            drawn[f"errors-{slug}.png"] = partial(errors_by_cap, description, errors, rows, QUANTITIES)
            drawn[f"curves-{slug}.png"] = partial(errors_by_cap, description, errors, rows, CURVE_QUANTITIES)
    ordered = sorted(tried, key=lambda row: (ALL_QUANTITIES.index(row["quantity"]), row["aim"], row["share"]))
    regrets = pd.DataFrame(ordered).astype({"share": str})
    by_share = (regrets["kind"] == "chosen") & regrets["quantity"].isin(QUANTITIES)
    with_several_aims = [quantity for quantity, aims in TRIED.items() if len(aims) > 1]
    by_aim = (
        regrets["quantity"].isin(with_several_aims)
        & (regrets["mechanism"] == PI_CAP)
        & (regrets["share"] == str(CAP_SHARE))
    )
    numbers: dict[str, Any] = {
        "populations": about,
        "choices": caps,
        "shares": _regrets(regrets[by_share], ["quantity", "aim", "share"], "mechanism"),
        "targets": _regrets(regrets[by_aim], ["quantity", "aim"], "kind"),
        "claims": claims(),
    }
    epsilons = ", ".join(f"{float(epsilon):g}" for epsilon in EPSILONS)
    drawn[TARGETS] = partial(targets, numbers["targets"])
    drawn[PRICE] = partial(shares, numbers["shares"], len(populations), epsilons)
    columns = [*_KEYS, "cap", "noise", "bias", "total"]
    return StudyResult(
        {
            "seed": SEED,
            "epsilons": [str(epsilon) for epsilon in EPSILONS],
            "drawn_per_cap": {"choices_of_records": CHOICES, "noises": NOISES, "curves": DRAWS},
            "thresholds": BINS,
        },
        numbers,
        view(numbers),
        tables={ERRORS: pd.concat(by_cap).rename_axis("cap").reset_index()[columns]},
        result=RESULT,
        figures=drawn,
        dpi=90,
    )


_KEYS = ("population", "epsilon", "models", "quantity")  # columns that name what a row is of


def _described(population: CountedClients, held_out: bool) -> Row:
    sizes = population.sizes
    return {
        "name": population.name,
        "held_out": held_out,
        "clients": len(sizes),
        "records": int(sizes.sum()),
        "median": float(np.median(sizes)),
        "largest": int(sizes.max()),
        "table": population.table.tolist(),
    }


def _study_of(population: CountedClients, held_out: bool) -> tuple[Errors, list[Row]]:
    """Return a population's expected errors with all of epsilon, and the caps that are chosen."""
    seed = [SEED, *population.table.ravel()]  # independent of other populations
    rng = np.random.default_rng(seed)
    expected = ExpectedErrors(population, CAPS, rng)
    chooser = Chooser(population, CAPS, rng)
    curves = ExpectedCurveErrors(population, CAPS, np.random.default_rng([*seed, 1]))
    errors = Errors()
    chosen = list[Row]()
    for setting in SETTINGS:
        epsilon = float(setting.left(Fraction(0)))
        least = expected.at(epsilon) | curves.at(epsilon)
        for quantity, table in least.items():
            errors[setting, quantity] = table
        shares_tried = list(SHARES)
        if held_out or setting.active:
            shares_tried = [CAP_SHARE]
        for share in shares_tried:
            epsilon = float(setting.left(share))
            left = expected.at(epsilon)
            if share == CAP_SHARE:  # curves take longer
                left |= curves.at(epsilon, noise_alone=False)
            chosen += chooser.choices(setting, share, left, least)
    return errors, chosen


def _caps(
    population: CountedClients, setting: Setting, quantity: str, errors: pd.DataFrame, chosen: Sequence[Row]
) -> Row:
    """Return the best cap, the cap by the paper's rule, and those by each mechanism, with their errors."""
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
    as_in_the_command = {"quantity": quantity, "setting": setting, "share": CAP_SHARE, "aim": AIMS[quantity]}
    for choice in chosen:
        if as_in_the_command.items() <= choice.items():
            mechanism = choice["mechanism"]
            for percentile in ("5", "50", "95"):
                row[f"{mechanism}_{percentile}"] = choice[percentile]
            row[f"{mechanism}_regret"] = rounded(choice["regret"])
    return row


def _regrets(regrets: pd.DataFrame, by: list[str], across: str) -> list[Any]:
    """Return the regrets' geometric mean and worst.

    Args:
        regrets: A row for each choice.
        by: Columns; each of their values gives a row.
        across: A column; each of its values gives two fields of a row: the mean, by the value's name, and
            the worst, by that name and `_worst`.
    """
    means = regrets.groupby([*by, across], sort=False)["regret"].agg([gmean, "max"])
    table = pd.DataFrame(means.map(rounded).unstack(across, sort=False))
    statistics = table.columns.get_level_values(0)
    values = table.columns.get_level_values(1)
    table.columns = [
        f"{value}_worst" if statistic == "max" else value
        for statistic, value in zip(statistics, values, strict=True)
    ]
    return table.reset_index().to_dict("records")


def view(numbers: Mapping[str, Any]) -> Iterator[Part]:
    """View caps, prices and the paper's statements."""
    yield grouped(
        (
            "",
            "of",
            "best cap",
            "error",
            "rule: cap",
            "regret",
            "π_CAP: 5, 50, 95 %",
            "regret",
            "histogram: regret",
        ),
        [
            _line_of_choice(row)
            for row in numbers["choices"]
            if row["epsilon"] == _SHOWN and row["models"] == "passive"
        ],
        alignment="llrrrrrrr",
        title=f"Caps at ε = {_SHOWN}",
    )
    yield grouped(
        ("of", "clients above", "share", "π_CAP: regret", "worst", "histogram: regret", "worst"),
        [_line_of_share(row) for row in numbers["shares"] if row["aim"] in (1, AIMS[row["quantity"]])],
        2,
        title="The price of choosing the cap, over all populations and ε",
    )
    heads = {"chosen": "chosen by", "chosen_active": "active, ε = 1"}
    if "held_out" in numbers["targets"][0]:
        heads |= {"held_out": "held out", "held_out_active": "active, ε = 1"}
    yield grouped(
        ["of", "clients above", *heads.values()],
        [_line_of_target(row, list(heads)) for row in numbers["targets"]],
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


def _line_of_choice(row: Row) -> list[str]:
    if row["least_error"] < 1000:
        least_error = f"{row['least_error']:,.3g}"
    else:
        least_error = f"{row['least_error']:,.0f}"
    return [
        row["population"],
        row["quantity"],
        f"{row['best_cap']:,}",
        least_error,
        f"{row['rule_cap']:,}",
        f"{row['rule_regret']:.2f}",
        f"{row['pi_cap_5']:,}, {row['pi_cap_50']:,}, {row['pi_cap_95']:,}",
        f"{row['pi_cap_regret']:.2f}",
        f"{row['histogram_regret']:.2f}",
    ]


def _line_of_share(row: Row) -> list[str]:
    clients_above = "B/ε"
    if row["aim"] != 1:
        clients_above = f"{row['aim']} B/ε"
    return [
        row["quantity"],
        clients_above,
        row["share"],
        f"{row['pi_cap']:.2f}",
        f"{row['pi_cap_worst']:.2f}",
        f"{row['histogram']:.2f}",
        f"{row['histogram_worst']:.2f}",
    ]


def _line_of_target(row: Row, kinds: Sequence[str]) -> list[str]:
    aim = str(row["aim"])
    if row["aim"] == AIMS[row["quantity"]]:
        aim += " *"
    regrets = [f"{row[kind]:.2f} ({row[f'{kind}_worst']:.1f})" for kind in kinds]
    return [row["quantity"], aim, *regrets]


def errors_by_cap(about: Row, errors: Errors, rows: Sequence[Row], quantities: Sequence[str]) -> Figure:
    """Draw the error of quantities by the cap, in passive models.

    Args:
        about: The population.
        errors: The expected errors of the quantity.
        rows: The caps, in the order of `errors`.
        quantities: A row of panels for each.
    """
    panels = {}
    for (key, table), row in zip(errors.items(), rows, strict=True):
        setting, _ = key
        if not setting.active:
            panels[key] = _error_panel(table, row)
    passive = [setting for setting in SETTINGS if not setting.active]
    grid = []
    for quantity in quantities:
        grid.append([panels[setting, quantity] for setting in passive])
    return draw(
        grid,
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
