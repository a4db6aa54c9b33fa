"""The quickstart's private runs, and its evaluation in the clear."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.evaluation.before_after import UNMITIGATED, changes, summary
from harness.privacy.statement import bounds_shown, read_statement
from harness.releases.score_curves import Thresholds
from harness.releases.weights import Weights
from harness.views import run
from harness.views.parts import Findings, Heading, Paragraph, Part, Sentences, Table
from harness.views.releases import thresholds, weights
from harness.views.rendering.plots import intervals
from protocols.accounting.rounding import exact_text

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
TOLD = {  # metrics in pictures: how to read them, and the value of the line to compare with
    "demographic_parity_difference": _DIFFERENCE,
    "equalized_odds_difference": _DIFFERENCE,
    "balanced_accuracy": ("higher is better, 0.5 is guessing", 0.5),
}


@dataclass(frozen=True)
class Quickstart:
    """The releases and the evaluation; `fallbacks` counts splits without thresholds."""

    weights: Weights
    thresholds: Thresholds
    manifest: dict[str, Any]
    evaluation: pd.DataFrame
    clients: int
    test_rows: int
    splits: int
    fallbacks: int

    @property
    def subtitle(self) -> str:
        """Whose records were released, and how."""
        return (
            f"{self.clients:,} mortgage applicants, each a client with one record; model "
            f"{self.manifest['security']}, {self.manifest['engine_version']}"
        )


def in_short(study: Quickstart) -> Iterator[Part]:
    """Show the answer, its releases, and their price."""
    yield Paragraph(verdict := verdict_on(study.evaluation), strong=verdict)
    yield from answer(study, TOLD)
    yield Heading("What the parties revealed", f" of {study.clients:,} applicants, as noisy counts")
    yield next(part for part in weights.weights(study.weights.weights) if isinstance(part, Table))
    yield next(part for part in thresholds.thresholds(study.thresholds) if isinstance(part, Table))
    yield run.in_short(study.manifest, here=True)
    yield f"Cost: {run.seconds_and_traffic(study.manifest)}. The report has all details, and pictures."


def quickstart(study: Quickstart) -> Iterator[Part]:
    """Show the answer, and the releases with loss and costs."""
    yield Findings([verdict_on(study.evaluation)])
    yield from answer(study)
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
    yield from run.privacy(study.manifest)
    yield Paragraph(
        "That guarantee is for the applicant's own record, given the scores: models that others' records "
        "trained gave them, in the clear.",
        note=True,
    )
    yield from _parts(study.manifest)


def answer(study: Quickstart, metrics: Iterable[str] = METRICS) -> Iterator[Part]:
    """Show models' gain in fairness, and its cost."""
    yield Heading(
        "Before and after", ": evaluation in the clear, on public data and without a privacy guarantee"
    )
    yield (
        f"Logistic regression without the group, on the {study.test_rows:,} applicants held out, in "
        f"{study.splits} splits: unmitigated; refitted with weights; with thresholds for each group, for "
        "equalized odds. "
        "`balanced` gives every group and label the same weight, and `kamiran-calders` makes group and label "
        "independent."
    )
    yield from before_after(study.evaluation, study.splits, metrics)
    if study.fallbacks:
        yield (
            f"In {study.fallbacks} splits the noisy curves allowed no thresholds, and the unmitigated "
            "model's predictions were taken: a larger ε helps."
        )


def verdict_on(evaluation: pd.DataFrame) -> str:
    """Name the fairest mitigation, its improvement and cost."""
    gap, figures = "demographic_parity_difference", summary(evaluation).set_index(["metric", "model"])["mean"]
    best = str(figures[gap].drop(UNMITIGATED).idxmin())
    changed: Any = changes(evaluation).set_index(["model", "metric"])
    cost, moved = changed.loc[(best, "balanced_accuracy"), "mean"], changed.loc[(best, gap)]
    return (
        f"Fairest: {best}. The {METRICS[gap]} went from {figures[gap, UNMITIGATED]:.3f} to "
        f"{figures[gap, best]:.3f} on average, and fell in {moved['lower']:.0f} of {moved['splits']:.0f} "
        f"splits. Balanced accuracy changed by {cost:+.3f}."
    )


def _parts(manifest: dict[str, Any]) -> Iterator[Part]:
    parts = manifest["parts"].items()
    yield Table(
        ["release", "ε requested", "ε", "δ"],
        [
            [name, exact_text(stated.epsilon_requested), *bounds_shown(stated.exact)]
            for name, stated in ((name, read_statement(part)) for name, part in parts)
        ],
        caption="They add up to the total above (basic composition).",
    )
    yield Heading("Cost")
    yield Table(
        ["release", "in the computation", "rounds", "sent by all parties", "from sharing to result"],
        [
            [
                name,
                f"{part['mpc_s']:.3f} s",
                "–" if part["rounds"] is None else str(part["rounds"]),
                run.sent(part),
                f"{part['wall_s']:.2f} s",
            ]
            for name, part in parts
        ],
        caption=run.one_machine(saw_records=True),
    )


def before_after(evaluation: pd.DataFrame, splits: int, metrics: Iterable[str] = METRICS) -> Iterator[Part]:
    """Show each model's metrics over the splits, maybe also changes."""
    names = list(evaluation["model"].unique())  # unmitigated first
    figures = summary(evaluation).set_index(["metric", "model"])
    for metric, (phrase, at) in TOLD.items():
        mean, spread = figures.loc[metric].loc[names, ["mean", "std"]].to_numpy().T
        yield intervals(
            metric,
            names,
            {"": np.column_stack([mean, mean - spread, mean + spread])},
            f"{METRICS[metric]}, {phrase}",
            f"Mean and standard deviation over {splits} splits.",
            at=at,
        )
    yield Table(
        ["", *names],
        [
            [METRICS[metric], *(_spread(figures.loc[(metric, model)]) for model in names)]
            for metric in metrics
        ],
        caption="Mean ± standard deviation. Differences are between the groups' rates, best at 0. A model "
        "that approves almost everybody has small differences and finds few denials, so read them beside "
        "balanced accuracy.",
    )
    changed = changes(evaluation).set_index(["model", "metric"])
    yield Sentences(
        [
            f"{model}: {', '.join(_moved(METRICS[metric], changed.loc[(model, metric)]) for metric in TOLD)}."
            for model in names[1:]
            if metrics is METRICS
        ]
    )


def _spread(figure: Any) -> str:
    return f"{figure['mean']:.3f} ±\N{NO-BREAK SPACE}{figure['std']:.3f}"


def _moved(name: str, change: Any) -> str:
    rose, fell = int(change["higher"]), int(change["lower"])
    verb, often = ("rose", rose) if rose >= fell else ("fell", fell)
    return f"{name} {verb} in {often} of {int(change['splits'])} splits ({change['mean']:+.3f} on average)"
