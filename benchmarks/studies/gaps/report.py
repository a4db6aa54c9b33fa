"""What the reproduction shows: each published number beside ours, for people and as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial

from rich.table import Table

from benchmarks.papers import gaps
from benchmarks.studies.gaps.figures import Claim
from benchmarks.studies.gaps.plots import FIGURES
from benchmarks.studies.gaps.rates import NAMES, SYNTHETIC
from benchmarks.studies.gaps.study import SEED, Extent, Reproduction, Stated
from benchmarks.studies.gaps.tables import Errors, Table1Cell, Table2Cell
from benchmarks.studies.outcome import Outcome
from harness.cli.terminal import out, say
from protocols.accounting.rounding import digits_up

RESULT = "gaps.json"
_SAME, _OTHER = "[green]✓[/]", "[red]✗[/]"
_RARE = 0.01  # two-sided, of the paper's figures among as many runs of ours


def outcome(found: Reproduction, extent: Extent) -> Outcome:
    """Return every number beside the published one, and the four figures."""
    about = {
        "population": found.rates.about,
        "seed": SEED,
        "extent": asdict(extent),
        "paper": gaps()["paper"],
    }
    figures = {f"{name}.png": partial(draw, found.figure4) for name, draw in FIGURES.items()}
    return Outcome(about, found.to_json(), lambda: show(found), result=RESULT, figures=figures)


def show(found: Reproduction) -> None:
    """Print all tables, each published number beside ours."""
    say(f"Population of Table 2: {NAMES[found.rates.source]}.")
    if found.activity:
        out.print(_activity(found.activity))
    out.print(_table1(found.table1))
    out.print(_table2(found.table2, synthetic=found.rates.source == SYNTHETIC))
    say(
        "Errors: mean (deviation) of one run; P is how often as many runs as the paper's have a mean as far "
        "out as the published one, twice. α: Chebyshev's bound at 99 %, worst values, two groups of "
        "5,000,000, gap of rates from 0 to 1, which is what the published code computes; the text's "
        "groups and scale give the α in brackets. As coded: the published code exchanges the two scales of "
        "M_L's noise; that fault is emulated here."
    )
    out.print(_figures(found))
    say(summary(found))


def _figures(found: Reproduction) -> Table:
    claims = Table("figure", "what", "published", "reproduced", "", "what holds", title="What figures show")
    for claim in found.claims:
        same = _mark(agrees=claim.agrees)
        claims.add_row(str(claim.figure), claim.what, claim.published, claim.reproduced, same, claim.true)
    printed = gaps()["figure4"]
    for curve in found.figure4:
        ours = f"{curve.empirical[-1]:.3f} over {curve.runs[-1]:,} runs; Eq. 20: {curve.theory:.3f}"
        theirs = f"{printed['runs']['100000']}; Eq. 20: {printed['theory']}"
        claims.add_row(
            "4",
            f"MSE of a group's mean by M_R, {curve.name}",
            theirs if curve is found.figure4[0] else "",
            ours,
            "",
            f"true ε {_epsilon(curve.epsilon)}",
        )
    return claims


def summary(found: Reproduction) -> str:
    """Say in a few sentences what is reproduced and what is not."""
    cells, bounds, claims = found.table1, found.table2, found.claims
    errors = [cell.coded or cell.errors for cell in bounds]
    fit = sum((each.fits_mean or 0) >= _RARE for each in errors)
    spread = sum((each.fits_deviation or 0) >= _RARE for each in errors)
    return (
        f"Table 1: {_count(cells)} cells as published. Table 2: {_count(bounds)} α as published, by the "
        f"reading of the published code; {fit} of {len(errors)} mean errors and {spread} of {len(errors)} "
        f"deviations are such as the mechanism in that code has (P ≥ {_RARE:g}). Figures: {_count(claims)} "
        "statements hold. The ε that is published is not the ε of these settings, but for M_L with k = 2: "
        "see the true ε."
    )


def _count(judged: Sequence[Table1Cell] | Sequence[Table2Cell] | Sequence[Claim]) -> str:
    return f"{sum(each.agrees for each in judged)} of {len(judged)}"


def _activity(rows: Sequence[Stated]) -> Table:
    table = Table("activity data and model", "published", "found", "over splits", "", title="Appendix D")
    for row in rows:
        spread = "" if row.deviation is None else f"± {row.deviation:.2f}"
        what = row.what.replace("_", " ")
        table.add_row(what, row.published, f"{row.found:.2f}", spread, _mark(agrees=row.agrees))
    return table


def _table1(cells: Sequence[Table1Cell]) -> Table:
    table = Table(title="Table 1: least ε for an error α of the gap, with probability 0.99")
    for name in ("", "clients", "α", "published", "reproduced", "", "true ε of that"):
        table.add_column(name, justify="left" if not name else "right")
    for name in ("repaired: α at that ε", "repaired: ε for α", "the same, Chernoff"):
        table.add_column(name, justify="right")
    for i, cell in enumerate(cells):
        if i % 15 == 0:
            table.add_section()
        exact = "-" if cell.reproduced is None else _epsilon(cell.true_epsilon)
        table.add_row(
            cell.mechanism if i % 3 == 0 else "",
            f"10^{len(str(cell.clients)) - 1}" if i % 3 == 0 else "",
            f"{cell.alpha:g}",
            cell.published or "-",
            _number(cell.reproduced),
            _mark(agrees=cell.agrees),
            exact,
            _number(cell.repaired_alpha),
            _number(cell.repaired),
            _number(cell.tight),
        )
    return table


def _table2(cells: Sequence[Table2Cell], *, synthetic: bool) -> Table:
    label = " — SYNTHETIC POPULATION" if synthetic else ""
    table = Table(title=f"Table 2: error of the gap, 10^7 clients{label}")
    for name in ("", "ε", "α published", "reproduced", "", "true ε", "α repaired", "error published"):
        table.add_column(name, justify="left" if not name else "right")
    for name in ("as printed", "as coded", "repaired"):
        table.add_column(name, justify="right")
    for i, cell in enumerate(cells):
        printed = cell.published
        exact = _epsilon(cell.true_epsilon)
        if cell.coded is not None:
            exact += f"\n[dim]as coded: {_epsilon(cell.coded_epsilon)}[/]"
        table.add_row(
            cell.mechanism if i % 4 == 0 else "",
            cell.epsilon,
            printed["alpha"],
            f"{cell.alpha:.4f}\n[dim]({cell.alpha_of_the_text:.4f})[/]",
            _mark(agrees=cell.agrees),
            exact,
            f"{cell.repaired_alpha:.4f}",
            f"{printed['error']}\n({printed['deviation']})",
            _errors(cell.errors),
            _errors(cell.coded) if cell.coded else "",
            _errors(cell.repaired),
        )
    return table


def _errors(errors: Errors) -> str:
    shown = f"{errors.mean:.2g} ({errors.deviation:.2g})"
    return shown if errors.fits_mean is None else f"{shown}\n[dim]P = {errors.fits_mean:.2g}[/]"


def _epsilon(epsilon: Fraction | None) -> str:
    return "none" if epsilon is None else digits_up(epsilon, 4)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _mark(*, agrees: bool) -> str:
    return _SAME if agrees else _OTHER
