"""What the study of caps shows: its tables, for people and as files, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.table import Column, Table

from benchmarks.studies.capping import plots
from benchmarks.studies.capping.choices import AIMS
from benchmarks.studies.capping.curves import BINS, CURVE_QUANTITIES, DRAWS
from benchmarks.studies.capping.errors import CHOICES, NOISES, QUANTITIES
from benchmarks.studies.capping.population import Population
from benchmarks.studies.capping.study import EPSILONS, RUNS, SEED, Study
from benchmarks.studies.outcome import Outcome
from harness.cli.terminal import out, say
from harness.releases.contribution_cap import CAP_SHARE, CURVE_RATIOS, RATIOS

RESULT, ERRORS = "capping.json", "errors.csv"
BOUNDS, PRICE, TARGETS = "bounds.png", "shares.png", "targets.png"
_SHOWN = "1"  # epsilon of the table that is printed
_MARKS = {True: "[green]holds[/]", False: "[yellow]no[/]", None: ""}


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
        name: partial(plots.errors, found, quantities)
        for found in study.found
        if not found.held_out
        for name, quantities in figures_of(found.population).items()
    }
    of_all = {TARGETS: plots.targets, PRICE: plots.shares, BOUNDS: plots.bounds}
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
