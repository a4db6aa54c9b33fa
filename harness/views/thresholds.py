"""Shows people score curves, thresholds and confusion matrices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.terminal import out, plain, say
from harness.inputs.contribution_bounds import scale_of
from harness.postprocessing.thresholds.rules import in_words
from harness.releases.confusion import CONFIDENCE, RATES, Confusion
from harness.views.weights import WEIGHT_STEPS, of_what, privacy, statement, table_of
from protocols.accounting.rounding import interval_shown

if TYPE_CHECKING:  # its libraries take a second to load, and these functions get it loaded
    from harness.pipeline.run import Run
    from harness.pipeline.thresholds_again import ReleasedCurves
    from harness.postprocessing.thresholds.choose import GroupThresholds
    from harness.releases.score_curves import Thresholds

STEPS = {
    **WEIGHT_STEPS,
    "share": "clients: split counts per score bin into shares",
    "run": "parties: run π_ROC",
    "read": "derive curves and thresholds from the noisy counts",
}
CONFUSION_STEPS = {
    **WEIGHT_STEPS,
    "run": "parties: run π_CF",
    "read": "derive rates from the noisy counts",
}


def confusion(run: Run[Confusion]) -> None:
    """Print a finished run's confusion matrices, its privacy statement and its cost."""
    found = run.found
    domain = found.counts.domain
    table = table_of("group", "label")
    for label in domain.labels:
        table.add_column(f"predicted {plain(label)}", justify="right", overflow="fold")
    for name in RATES:
        table.add_column(name.replace("_", " "), justify="right")
    for s, group in enumerate(domain.groups):
        for y, label in enumerate(domain.labels):
            counts = [f"{count:,.1f}" for count in found.table[s, y]]
            ranges = [(found.rates[name][s, y], *found.intervals[name][s, y]) for name in RATES]
            table.add_row(plain(group), plain(label), *counts, *map(_rate, ranges))
    out.print(table)
    of_clients = "" if (unit := scale_of(domain.cap)) == 1 else f" of clients, in steps of 1/{unit}"
    say(
        f"Noisy counts{of_clients}, and the rates of each label against the rest, with intervals that hold "
        f"the rates of the true counts{of_what(domain)} all at once with {float(CONFIDENCE):.0%} probability "
        "over the noise."
    )
    statement(run.manifest, "confusion matrices")


def thresholds(run: Run[Thresholds]) -> None:
    """Print a finished run's thresholds, its privacy statement and its cost."""
    _thresholds(run.found)
    statement(run.manifest, "thresholds")


def chosen_again(found: Thresholds, released: ReleasedCurves) -> None:
    """Print thresholds that were chosen on an earlier run's curves, and that run's privacy statement."""
    _thresholds(found)
    say(
        f"The curves are those that {plain(released.run)} opened. Nothing was computed or opened for this "
        "choice: it spent no ε, and no ledger is charged. What was opened then is stated here again."
    )
    privacy(released.manifest)


def another_choice(directory: Path) -> None:
    """Print that these curves allow other thresholds, too. Args: directory: of the run's files."""
    say(
        "Another --constraint, --objective, --tolerance or --positive-label, or --deterministic, costs no ε: "
        f"./inv thresholds --curves {plain(str(directory))} chooses again on these curves."
    )


def _thresholds(found: Thresholds) -> None:
    curves = found.curves.curves
    table = table_of("group")
    for heading in ("positives", "negatives"):
        table.add_column(heading, justify="right")
    for group, positives, negatives in zip(curves.groups, curves.positives, curves.negatives, strict=True):
        table.add_row(plain(group), f"{positives:,.1f}", f"{negatives:,.1f}")
    if found.thresholds is None:
        out.print(table)
    else:
        _rules(found.thresholds)
    assert curves.noise is not None
    worst = float(curves.noise.standard_errors().max())
    say(
        f"Positive is the label {plain(found.curves.positive)}. "
        f"The curves' counts, at {len(curves.thresholds):,} thresholds per group and label, have a standard "
        f"error of at most {worst:,.1f} records from the noise. The scores have to be of records that the "
        "model was not trained on: on those it looks better than it is, and the thresholds come out wrong."
    )
    if not found.curves.blocks:
        say(
            "As published, each opened count has the noise that ε would take if it were the only one. "
            "What all of them protect together is the guarantee below."
        )


def _rules(found: GroupThresholds) -> None:
    table = table_of("group", f"positive if score ≥ ({in_words(found.constraint)})")
    for name in RATES:
        table.add_column(name.replace("_", " "), justify="right")
    for i, (group, rule) in enumerate(found.rules.items()):
        ranges = [(found.rates[name][i], *found.intervals[name][i]) for name in RATES]
        table.add_row(plain(group), rule.described(), *map(_rate, ranges))
    out.print(table)
    gap = f"{found.gap:.3f} ({interval_shown(*found.gap_interval, 3)})"
    say(
        f"Estimates, and intervals that hold all at once with {float(found.confidence):.0%} probability over "
        f"the noise and the sample. Largest difference between groups in what {in_words(found.constraint)} "
        f"compares: {gap}. {in_words(found.objective).capitalize()}: "
        f"{found.objective_value:.3f}."
    )


def _rate(found: tuple[float, float, float]) -> str:
    """Write an estimate and its interval; an estimate that is not a number has none."""
    estimate, low, high = found
    return f"{estimate:.3f} ({interval_shown(low, high, 3)})"
