"""What mitigations changed: each model's figures over the splits, in a table, drawn, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.views.parts import Part, Sentences, Table
from harness.views.rendering.plots import intervals

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
_DIFFERENCE = ("0 is best", 0.0)
TOLD = {  # and how to read it, and where a picture has a line to compare it with
    "balanced_accuracy": ("higher is better, 0.5 is guessing", 0.5),
    "demographic_parity_difference": _DIFFERENCE,
    "equalized_odds_difference": _DIFFERENCE,
}

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
    names, summary = models(evaluation), evaluation.summary().set_index(["metric", "model"])
    for metric, best in TOLD.items():
        mean, spread = summary.loc[metric].loc[names, ["mean", "std"]].to_numpy().T
        yield intervals(
            metric,
            names,
            {"": np.column_stack([mean, mean - spread, mean + spread])},
            f"{METRICS[metric]}, {best[0]}",
            f"Mean and standard deviation over {splits} splits.",
            at=best[1],
        )
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
