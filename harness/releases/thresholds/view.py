"""Score curves and thresholds."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fairshares.harness.errors import FairSharesError, named, named_call
from fairshares.harness.postprocessing.thresholds.choose import GroupThresholds, constant_prediction
from fairshares.harness.postprocessing.thresholds.constraints import FOUR_FIFTHS
from fairshares.harness.postprocessing.thresholds.rules import in_words
from fairshares.harness.releases.base import Answer
from fairshares.harness.releases.confusion.view import rates_of, rates_shown
from fairshares.harness.releases.thresholds.statistic import Thresholds
from fairshares.harness.views import run_summary
from fairshares.harness.views.parts import (
    Findings,
    Paragraph,
    Part,
    Table,
    difference_unknown,
    rates_unknown,
)
from fairshares.harness.views.rendering.plots import intervals, roc
from fairshares.protocols.accounting.rounding import interval_shown

STEPS = {
    **run_summary.STEPS,
    "share": "clients: split counts per score bin into shares",
    "run": "parties: run π_ROC",
    "read": "derive curves and thresholds from the noisy counts",
}


def thresholds(result: Thresholds) -> Iterator[Part]:
    """Show each group's rule, or else its size, and curves."""
    curves = result.curves.curves
    yield Findings([f"Warning: {caution}" for caution in result.cautions])
    yield roc(curves, result.thresholds)
    if result.thresholds is None:
        yield Findings([f"No thresholds follow from these curves. {result.problem or ''}"])
        sizes = []
        for group, positives, negatives in zip(
            curves.groups, curves.positives, curves.negatives, strict=True
        ):
            sizes.append([group, f"{positives:,.1f}", f"{negatives:,.1f}"])
        yield Table(["group", "positives", "negatives"], sizes)
    else:
        yield from rules(result.thresholds, constant_prediction(curves, result.thresholds.objective))
        if result.thresholds.least_tolerance:
            yield (
                "With one threshold per group the least difference that can be reached is about "
                f"{result.thresholds.tolerance:.3f}, and was taken as the tolerance."
            )
        for caution in result.cautions:
            yield Paragraph(f"Warning: {caution}", strong="Warning:")
    if result.others:
        rows = []
        without_rule = []
        for label, chosen in result.others.items():
            if chosen is None:
                without_rule.append([label, "–", "no rule follows", "–"])
                continue
            for group, rule in chosen.rules.items():
                rows.append([label, group, rule.described(), f"{chosen.gap:.3f}"])
        rows += without_rule
        yield Table(
            ["label", "group", "positive if its score ≥", "difference"],
            rows,
            "llll",
            caption="The other labels, each against the rest by its own scores. All labels share ε.",
        )
    assert curves.noise is not None
    worst = float(curves.noise.standard_errors().max())
    yield (
        f"Positive is the label {result.curves.positive}. The curves' counts, at {len(curves.thresholds):,} "
        f"thresholds per group and label, have a standard error of at most {worst:,.1f} records from the "
        "noise. Scores have to come from records that the model was not trained on: on training records it "
        "looks better than it is, and the thresholds come out wrong."
    )


def chosen_again(earlier: str) -> str:
    """Say that an earlier run's curves were used."""
    return (
        f"The curves are those of {earlier}. This choice revealed nothing new and spent no ε, so no ledger "
        "is charged. The earlier run's guarantee is repeated here."
    )


def another_choice(directory: Path) -> str:
    """Say how to choose again."""
    return (
        f"Another {named('constraint')}, {named('objective')}, {named('tolerance')} or "
        f"{named('positive_label')}, or {named('deterministic')}, costs no ε: "
        f"{named_call('thresholds', curves=directory)} chooses again on these curves."
    )


def rules(chosen: GroupThresholds, constant: float) -> Iterator[Part]:
    """Show each group's rule and rates."""
    constraint = in_words(chosen.constraint)
    objective = in_words(chosen.objective)
    difference = f"{chosen.gap:.3f} ({interval_shown(*chosen.gap_interval, 3)})"
    compared = f"the largest difference between groups is {difference}"
    in_caption = f"Largest difference between groups in what {constraint} compares: {difference}."
    if chosen.constraint == FOUR_FIFTHS:
        share = f"{difference} of it"
        compared = f"the smallest selection rate falls short of the largest by {share}"
        in_caption = f"The smallest selection rate falls short of the largest by {share}."
    value = f"{chosen.objective_value:.3f}; of predicting one label for everybody: {constant:.3f}."
    unknown = difference_unknown(*chosen.gap_interval)
    yield Findings(
        [
            f"Under {constraint} {compared}.",
            *unknown,
            f"{objective.capitalize()} is {value}",
        ]
    )
    yield from unknown
    rates = {group: rates_of(chosen, i) for i, group in enumerate(chosen.rules)}
    columns = [name.replace("_", " ") for name in chosen.rates]
    yield intervals(
        "rates",
        columns,
        rates,
        f"rate, under {constraint}",
        "What the chosen thresholds do: estimates, and intervals for the noise and the sample.",
    )
    yield Table(
        ["group", "positive if score ≥"],
        [[group, rule.described()] for group, rule in chosen.rules.items()],
        "ll",
        caption=f"{in_caption} {objective.capitalize()}: {value}",
    )
    yield Table(
        ["group", *columns],
        [[group, *rates_shown(shown)] for group, shown in rates.items()],
        caption=f"Estimates, and intervals that hold all at once with {float(chosen.confidence):.0%} "
        "probability over the noise and the sample.",
    )
    every = np.array([*rates.values()])
    yield from rates_unknown(every[..., 1], every[..., 2])


def problem(found: Answer) -> FairSharesError | None:
    """Return why curves allow no thresholds, or None."""
    assert isinstance(found, Thresholds)
    return found.problem


VIEW = run_summary.ReleaseView(
    STEPS,
    "thresholds",
    lambda result, _: thresholds(result),
    lambda _, __, done: [another_choice(done.out)],
    problem=problem,
)
