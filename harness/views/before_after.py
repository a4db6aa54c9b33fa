"""What mitigations changed: each model's figures over the splits, in a table, drawn, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.views.parts import Figure, Part, Sentences, Table

if TYPE_CHECKING:  # its libraries take a second to load
    from harness.evaluation.before_after import Evaluation

METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "selection_rate": "selection rate (approved)",
    "demographic_parity_difference": "demographic parity difference",
    "equal_opportunity_difference": "equal opportunity difference",
    "equalized_odds_difference": "equalized odds difference",
}
TOLD = ("balanced_accuracy", "demographic_parity_difference", "equalized_odds_difference")

HOW_TO_READ = (
    "Differences are between the groups' rates (of approval; of approval among those who were approved; "
    "the larger of that and the same among those who were denied), best at 0. A model that approves almost "
    "everybody has small ones, and finds few denials: read them beside balanced accuracy."
)


def models(evaluation: Evaluation) -> list[str]:
    """Return the models' names, unmitigated first."""
    return list(dict.fromkeys(evaluation.runs["model"]))


def before_after(evaluation: Evaluation, splits: int) -> Iterator[Part]:
    """View each model's mean and standard deviation over the splits, and how often they changed."""
    from harness.views.rendering.plots import before_after_figure  # matplotlib is slow to load

    names = models(evaluation)
    yield Figure(
        "before_after",
        before_after_figure(evaluation, names, {metric: METRICS[metric] for metric in TOLD}),
        "balanced accuracy and differences between the groups, of each model",
        f"Mean and standard deviation over {splits} splits.",
    )
    summary = evaluation.summary().set_index(["metric", "model"])
    rows = [
        [name, *(_spread(summary.loc[(metric, model)]) for model in names)]
        for metric, name in METRICS.items()
    ]
    yield Table(["", *names], rows, caption=HOW_TO_READ)
    found = evaluation.changes().set_index(["model", "metric"])
    yield Sentences(
        [
            f"{model}: {', '.join(_moved(METRICS[metric], found.loc[(model, metric)]) for metric in TOLD)}."
            for model in names[1:]
        ]
    )


def _spread(figure: Any) -> str:
    return f"{figure['mean']:.3f} ± {figure['std']:.3f}".replace(" ", "\N{NO-BREAK SPACE}")


def _moved(name: str, change: Any) -> str:
    rose, fell = int(change["higher"]), int(change["lower"])
    verb, often = ("rose", rose) if rose >= fell else ("fell", fell)
    return f"{name} {verb} in {often} of {int(change['splits'])} splits ({change['mean']:+.3f} on average)"
