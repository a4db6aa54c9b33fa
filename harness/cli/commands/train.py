"""`train`."""

from functools import partial

from harness.cli import terminal as cli
from harness.cli.commands.releases import Made, make_noise
from harness.cli.options import TrainOptions
from harness.cli.report import present
from harness.engines.base import Progress
from harness.privacy.ledger.charge import UNCHARGED
from harness.system.result_files import default_out
from harness.training.features import read_features
from harness.training.logistic import FILE
from harness.training.request import TrainRequest
from harness.training.run import TASK, preprocessed, trained
from harness.views import run as run_view, training as view
from harness.views.ledger import charge
from harness.views.parts import Part


def train(options: TrainOptions) -> None:
    """Train a model, or make its noise ahead."""
    if options.preprocess is not None:
        make_noise(options, view.STEPS, partial(_made_for_rounds, options.training, options.preprocess))
        return
    request = options.training
    target = request.where.out or default_out(TASK)
    with cli.steps(view.STEPS) as begin:
        trained_model = trained(
            request, request.source.records, read_features(request.features), target, begin, say=cli.announce
        )
    manifest = trained_model.manifest
    after = [charge(trained_model.charging, request.population == UNCHARGED)]
    short: list[Part] = ["", run_view.in_short(manifest, here=True), *after]
    full = [*run_view.statement(manifest, "the model"), run_view.one_machine(True), *after]
    thresholds = trained_model.thresholds.found if trained_model.thresholds else None
    weights = trained_model.weights.found.weights if trained_model.weights else None
    present(
        options.plot,
        manifest,
        target,
        "Training",
        answer=list(view.training(trained_model.model, manifest, weights, thresholds)),
        short=short,
        full=full,
        problem=thresholds.problem if thresholds else None,
        file=FILE,
    )


def _made_for_rounds(request: TrainRequest, runs: int, begin: Progress) -> Made:
    return preprocessed(request, read_features(request.features), runs, begin)
