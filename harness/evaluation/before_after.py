"""Words and numbers for what a mitigation changed: the same on a terminal and in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # its libraries take a second to load
    from harness.evaluation.splits import Evaluation

METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "selection_rate": "selection rate (approved)",
    "demographic_parity_difference": "demographic parity difference",
    "equal_opportunity_difference": "equal opportunity difference",
    "equalized_odds_difference": "equalized odds difference",
}
TOLD = ("balanced_accuracy", "demographic_parity_difference", "equalized_odds_difference")

NO_GUARANTEE = "evaluation in the clear on public data: no privacy guarantee; model training is not DP"
GIVEN_SCORES = (
    "That guarantee is for the applicant's own record, given the scores: models that others' records trained "
    "gave them, in the clear."
)
HOW_TO_READ = (
    "Differences are between the groups' rates (of approval; of approval among those who were approved; "
    "the larger of that and the same among those who were denied), best at 0. A model that approves almost "
    "everybody has small ones, and finds few denials: read them beside balanced accuracy."
)


def models(evaluation: Evaluation) -> list[str]:
    """Return the models' names, unmitigated first."""
    return list(dict.fromkeys(evaluation.runs["model"]))


def table(evaluation: Evaluation) -> list[list[str]]:
    """Return a row per metric: its name, then each model's mean and standard deviation over the splits."""
    summary = evaluation.summary()
    rows = []
    for metric, name in METRICS.items():
        of_metric = summary[summary["metric"] == metric].set_index("model")
        figures = [of_metric.loc[model] for model in models(evaluation)]
        rows.append([name, *(_spread(figure) for figure in figures)])
    return rows


def _spread(figure: Any) -> str:
    return f"{figure['mean']:.3f} ± {figure['std']:.3f}".replace(" ", "\N{NO-BREAK SPACE}")


def changes(evaluation: Evaluation) -> list[str]:
    """Say for each mitigation in how many splits what is told rose or fell, and by how much on average."""
    found = evaluation.changes().set_index(["model", "metric"])
    return [
        f"{model}: {', '.join(_moved(METRICS[metric], found.loc[(model, metric)]) for metric in TOLD)}."
        for model in models(evaluation)[1:]
    ]


def _moved(name: str, change: Any) -> str:
    rose, fell = int(change["higher"]), int(change["lower"])
    verb, often = ("rose", rose) if rose >= fell else ("fell", fell)
    return f"{name} {verb} in {often} of {int(change['splits'])} splits ({change['mean']:+.3f} on average)"
