"""The quickstart's private runs and, apart from them, its evaluation in the clear."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from fairshares.harness.evaluation.before_after import UNMITIGATED, changes, summary
from fairshares.harness.privacy.manifest import Manifest, given
from fairshares.harness.privacy.statement import bounds_shown
from fairshares.harness.releases.thresholds import view as thresholds
from fairshares.harness.releases.thresholds.statistic import Thresholds
from fairshares.harness.releases.weights import view as weights
from fairshares.harness.releases.weights.statistic import Weights
from fairshares.harness.security_models import title_of
from fairshares.harness.views import run_summary
from fairshares.harness.views.parts import (
    Findings,
    Heading,
    Paragraph,
    Part,
    Sentences,
    Table,
    View,
    difference_unknown,
)
from fairshares.harness.views.rendering.plots import intervals
from fairshares.protocols.accounting.rounding import exact_text, interval_shown

STEPS = {
    **weights.STEPS,
    "records": "read the mortgage applications",
    "score": "clients: score themselves with models fitted without them",
    **{f"second {step}": name for step, name in thresholds.STEPS.items()},
    "evaluate": "fit and assess models on 20 splits",
    "report": "write the report",
}
TITLE = "Fair weights and thresholds from secret shares"


METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "selection_rate": "selection rate (approved)",
    "demographic_parity_difference": "demographic parity difference",
    "equal_opportunity_difference": "equal opportunity difference",
    "equalized_odds_difference": "equalized odds difference",
}
_DIFFERENCE = ("0 is best", 0.0)
_GAPS = tuple(metric for metric in METRICS if metric.endswith("_difference"))
TOLD = {  # metrics in pictures: how to read each, and where the line is to compare it with
    "demographic_parity_difference": _DIFFERENCE,
    "equalized_odds_difference": _DIFFERENCE,
    "balanced_accuracy": ("higher is better, 0.5 is guessing", 0.5),
}
_READ = (  # columns of a table
    "Mean ± standard deviation. A difference of 0 is best. It is also small if almost everybody is approved, "
    "but then balanced accuracy is near 0.5, as by guessing."
)


@dataclass(frozen=True)
class Quickstart:
    """The quickstart's private releases, and the evaluation in the clear.

    `fallbacks` counts splits without thresholds, where the model's own predictions stood in.
    """

    weights: Weights
    thresholds: Thresholds
    manifest: Manifest
    evaluation: pd.DataFrame
    clients: int
    test_rows: int
    splits: int
    fallbacks: int

    @cached_property
    def figures(self) -> pd.DataFrame:
        """Mean and deviation by metric and model."""
        return summary(self.evaluation).set_index(["metric", "model"])

    @property
    def subtitle(self) -> str:
        """Say whose records were released, and how."""
        model = title_of(self.manifest.security, given(self.manifest.parties))
        return (
            f"{self.clients:,} mortgage applicants, each a client with one record; model {model}, "
            f"{self.manifest.engine_version}"
        )


def in_short(study: Quickstart) -> Iterator[Part]:
    """Show the answer, the releases behind it, and their price."""
    for sentence in answer(study):
        yield Paragraph(sentence, strong=sentence.partition(":")[0] + ":")
    yield from _setting(study)
    yield _compared(study)
    yield Heading("What the parties revealed", f" of {study.clients:,} applicants, as noisy counts")
    of_counts = ""
    if (study.weights.weights.noisy_counts % 1).any():
        of_counts = "Counts end in .5, as the noise's mean is −½. "
    yield replace(
        _first_table(weights.weights(study.weights.weights)),
        caption=f"{of_counts}The weight by the true counts is in its "
        f"interval with a probability of {float(study.weights.weights.confidence):.0%}.",
    )
    rules = _first_table(thresholds.thresholds(study.thresholds))
    chosen = study.thresholds.thresholds
    if chosen is None:
        rules = replace(rules, caption=f"No thresholds follow from these curves: {study.thresholds.problem}")
    else:
        rules = replace(
            rules,
            columns=["group", "approved if score ≥"],
            caption="Of two thresholds, one is drawn for each applicant. On the noisy curves, the groups' "
            f"error rates then differ by {chosen.gap:.3f}, and in truth by "
            f"{interval_shown(*chosen.gap_interval, 3)}, with a probability of "
            f"{float(chosen.confidence):.0%} over noise and sample.",
        )
    yield rules
    if chosen is not None:
        yield from difference_unknown(*chosen.gap_interval)
    yield ""
    yield run_summary.in_short(study.manifest, here=True)
    cost = run_summary.seconds_and_traffic(study.manifest)
    yield f"Cost: {cost}. The report has all details, and pictures."


def quickstart(study: Quickstart) -> Iterator[Part]:
    """Show the answer, then the private releases with loss and costs."""
    yield Findings(answer(study))
    yield from _setting(study)
    yield from before_after(study.evaluation, study.splits)
    yield Heading("DP sample weights", f" of {study.clients:,} applicants")
    yield (
        "Every applicant splits a record (group, whether the loan was approved, the score of a model that "
        "was fitted without it) into shares, one for each computing party. The parties count on shares, "
        "add noise that none of them knows, and reveal noisy counts only. Sample weights and thresholds "
        "follow from these."
    )
    yield from weights.weights(study.weights.weights)
    yield Heading("DP score curves and thresholds", " for each group of the same applicants")
    yield from thresholds.thresholds(study.thresholds)
    if study.thresholds.problem is not None:
        yield Paragraph(f"No thresholds follow from these curves: {study.thresholds.problem}", note=True)
    yield from run_summary.privacy(study.manifest)
    yield Paragraph(
        "That guarantee is for the applicant's own record, given the scores: models that others' records "
        "trained gave them, in the clear.",
        note=True,
    )
    yield from _parts(study.manifest)


def answer(study: Quickstart) -> list[str]:
    """Name the mitigation with the smallest gap, what it improves, which gaps methods widened, and costs."""
    gap = "demographic_parity_difference"
    means = study.figures["mean"]
    changed = changes(study.evaluation)
    best = str(means[gap].drop(UNMITIGATED).idxmin())
    moved = _change(changed, best, gap)

    def change(metric: str) -> str:
        return f"from {means[metric, UNMITIGATED]:.3f} to {means[metric, best]:.3f}"

    epsilon, _ = bounds_shown(study.manifest.privacy.exact)
    fairest = _called(best)
    if moved["mean"] >= 0:
        fairest = f"the unmitigated model. Of the methods, {fairest}"
    return [
        f"Fairest: {fairest}. The groups' approval rates differ by {means[gap, best]:.3f} on average, "
        f"and by {means[gap, UNMITIGATED]:.3f} unmitigated. They came closer in {moved['lower']:.0f} of "
        f"{moved['splits']:.0f} splits.",
        *_widened(study, changed),
        f"Accuracy: {change('accuracy')}, and balanced accuracy {change('balanced_accuracy')}.",
        f"Privacy: ε = {epsilon}, for the weights and thresholds together.",
    ]


def _widened(study: Quickstart, changed: pd.DataFrame) -> list[str]:
    """Say which methods widened which gaps: on average, and in more than half of the splits.

    The splits are of the same people, so this says what happened to them, and is no test.
    """
    means = study.figures["mean"]
    sentences = []
    for model in study.evaluation["model"].unique()[1:]:  # the first is unmitigated
        wider = []
        for metric in _GAPS:
            moved = _change(changed, model, metric)
            if moved["mean"] > 0 and moved["higher"] > moved["splits"] / 2:
                wider.append(
                    f"{METRICS[metric]} from {means[metric, UNMITIGATED]:.3f} to {means[metric, model]:.3f} "
                    f"({moved['higher']:.0f} of {moved['splits']:.0f} splits)"
                )
        if wider:
            sentences.append(f"Wider with {_called(model)}: {', '.join(wider)}.")
    return sentences


def _setting(study: Quickstart) -> Iterator[Part]:
    yield Heading("Before and after", ": in the clear, on public data, without a privacy guarantee")
    yield (
        f"A logistic regression that does not see the group is trained on {study.clients:,} applicants and "
        f"tested on {study.test_rows:,} others, in {study.splits} splits. Weights change its training: "
        "balanced weights give every group and label the same total, and kamiran-calders weights make group "
        "and label independent. Thresholds for each group, chosen for equalized odds, change its decisions. "
        "One split uses the results below, and the others simulate them."
    )
    if study.fallbacks:
        yield (
            f"In {study.fallbacks} splits the noisy curves allowed no thresholds, and the unmitigated "
            "model's predictions were taken: a larger ε helps."
        )


def _compared(study: Quickstart) -> Table:
    """Show the main metrics with a row for each model, which fits a narrow terminal."""
    columns = [""] + [METRICS[metric] for metric in TOLD]
    rows = []
    for model in study.evaluation["model"].unique():  # unmitigated first
        spreads = [_spread(study.figures.loc[(metric, model)]) for metric in TOLD]
        rows.append([_called(model), *spreads])
    return Table(columns, rows, caption=_READ)


def _called(model: str) -> str:
    return model if model in (UNMITIGATED, "thresholds") else f"{model} weights"


def _first_table(view: View) -> Table:
    return next(part for part in view if isinstance(part, Table))


def _parts(manifest: Manifest) -> Iterator[Part]:
    """Show each release's privacy loss and costs."""
    parts = manifest.releases.items()
    losses = []
    for name, part in parts:
        epsilon, delta = bounds_shown(part.privacy.exact)
        losses.append([name, exact_text(part.privacy.epsilon_requested), epsilon, delta])
    yield Table(
        ["release", "ε requested", "ε", "δ"],
        losses,
        caption="They add up to the total above (basic composition).",
    )
    yield Heading("Cost")
    yield Table(
        ["release", "in the computation", "rounds", "sent by all parties", "from sharing to result"],
        [
            [
                name,
                f"{part.mpc_s or 0:.3f} s",
                "–" if part.rounds is None else str(part.rounds),
                run_summary.sent(part),
                f"{part.wall_s or 0:.2f} s",
            ]
            for name, part in parts
        ],
        caption=run_summary.one_machine(saw_records=True),
    )


def before_after(evaluation: pd.DataFrame, splits: int) -> Iterator[Part]:
    """Show each model's mean and standard deviation over the splits, and their changes."""
    names = list(evaluation["model"].unique())  # unmitigated first
    figures = summary(evaluation).set_index(["metric", "model"])
    for metric, (how_to_read, at) in TOLD.items():
        mean, spread = figures.loc[metric].loc[names, ["mean", "std"]].to_numpy().T
        yield intervals(
            metric,
            names,
            {"": np.column_stack([mean, mean - spread, mean + spread])},
            f"{METRICS[metric]}, {how_to_read}",
            f"Mean and standard deviation over {splits} splits.",
            at=at,
        )
    rows = []
    for metric, phrase in METRICS.items():
        spreads = [_spread(figures.loc[(metric, model)]) for model in names]
        rows.append([phrase, *spreads])
    yield Table(["", *names], rows, caption=_READ)
    changed = changes(evaluation)
    sentences = []
    for model in names[1:]:
        moved = [_moved(METRICS[metric], _change(changed, model, metric)) for metric in TOLD]
        sentences.append(f"{model}: {', '.join(moved)}.")
    yield Sentences(sentences)


def _change(changed: pd.DataFrame, model: str, metric: str) -> "pd.Series[float]":
    """Return the row of `changes` that is of a model and a metric."""
    by_model = changed.set_index(["model", "metric"])
    row: pd.Series[float] = by_model.T[(model, metric)]
    return row


def _spread(figure: "pd.Series[float]") -> str:
    return f"{figure['mean']:.3f} ±\N{NO-BREAK SPACE}{figure['std']:.3f}"


def _moved(name: str, change: "pd.Series[float]") -> str:
    """Say whether a metric rose or fell, whichever it did more often, in how many splits, and how far."""
    rose = int(change["higher"])
    fell = int(change["lower"])
    verb = "rose" if rose >= fell else "fell"
    often = max(rose, fell)
    return f"{name} {verb} in {often} of {int(change['splits'])} splits ({change['mean']:+.3f} on average)"
