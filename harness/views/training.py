"""Trained models: parameters, weights and thresholds."""

from collections.abc import Iterator

from fairshares.harness.privacy.manifest import Manifest, given
from fairshares.harness.releases.thresholds import view as thresholds_view
from fairshares.harness.releases.thresholds.statistic import Thresholds
from fairshares.harness.releases.weights import view as weights_view
from fairshares.harness.reweighing.formulas import GroupWeights
from fairshares.harness.training.logistic import LogisticModel
from fairshares.harness.views import run_summary
from fairshares.harness.views.parts import Findings, Heading, Part, Table

STEPS = {
    **run_summary.STEPS,
    **{f"weights {key}": name for key, name in weights_view.STEPS.items()},
    "train": "rounds of training: clients send updates, parties reveal noisy sums",
    **{f"thresholds {key}": name for key, name in thresholds_view.STEPS.items()},
    "write": "write the model",
}
STEPS_AT_HOSTS = {
    **run_summary.STEPS,
    **run_summary.HOST_STEPS,
    "wait": "clients: seal and send their updates",
    "run": "parties: run π_ROUNDS",
    "read": "read the noisy sum",
}


def training(
    model: LogisticModel,
    manifest: Manifest,
    weights: GroupWeights | None,
    thresholds: Thresholds | None,
) -> Iterator[Part]:
    """Show a model, which follows from noisy values alone."""
    settings = given(manifest.training)
    inputs = manifest.inputs
    in_training = given(inputs.in_training)
    assert settings is not None and in_training is not None, "of a training"
    summary = (
        f"Logistic regression of {len(model.labels)} labels by {settings.rounds} noisy sums of updates of "
        f"{in_training:,} clients."
    )
    yield Findings([summary])
    yield summary
    fairness = given(settings.fairness)
    if fairness:
        yield (
            f"Groups and labels were weighed for {fairness}, by noisy counts of what each "
            "round's model got right."
        )
    columns = ["feature"] + [str(label) for label in model.labels[1:]]
    rows = []
    for i, name in enumerate([*model.features.named, "intercept"]):
        parameters = [f"{row[i]:,.3f}" for row in model.parameters]
        rows.append([name, *parameters])
    yield Table(
        columns,
        rows,
        caption=f"What adds to a label's log odds against {model.labels[0]}: of a range, from its middle to "
        "its high end; of a category, where it holds. Parameters are noisy: a small one may be noise alone.",
    )
    if weights is not None:
        yield Heading("Weights")
        most = settings.largest_weight
        if weights.weights.max() > most:
            yield f"In training a weight above {most:g}, the largest that was declared, counted as {most:g}."
        yield from weights_view.weights(weights)
    if thresholds is not None:
        yield Heading("Thresholds")
        yield (
            f"Of {inputs.clients - in_training:,} clients that training did not see, chosen by a random draw."
        )
        yield from thresholds_view.thresholds(thresholds)
