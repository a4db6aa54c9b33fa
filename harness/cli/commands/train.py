"""`train`."""

from fairshares.harness.charged import UNCHARGED
from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.commands.releases import show_noise
from fairshares.harness.cli.options import TrainOptions
from fairshares.harness.cli.report import present
from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.commands import refuse_beside_noise
from fairshares.harness.system.result_files import default_out
from fairshares.harness.training.features import read_features
from fairshares.harness.training.logistic import MODEL_FILE
from fairshares.harness.training.training_run import TRAIN, make_noise_ahead, train_on_source
from fairshares.harness.views import run_summary as run_view, training as view
from fairshares.harness.views.ledger import charge
from fairshares.harness.views.parts import Part


def refuse_without_hosts(options: TrainOptions) -> None:
    """Raise OptionError for options of a training over hosts without hosts."""
    others = options.stated("task", "clients", "wait", "weights", "participations")
    if others:
        raise OptionError(f"{named(others[0])} is for {named('hosts')}; give both, or neither.")


def train(options: TrainOptions) -> None:
    """Train a model, here or over hosts, or make its noise ahead."""
    if options.over.hosts is not None or options.over.vectors is not None:
        from fairshares.harness.cli.commands.train_at_hosts import train_at_hosts  # slow to load

        train_at_hosts(options)
        return
    refuse_without_hosts(options)
    if options.preprocess is not None:
        refuse_beside_noise(options)
        with cli.steps({**run_view.HOST_STEPS, **view.STEPS}) as begin:
            made = make_noise_ahead(
                options.training, read_features(options.training.features), options.preprocess, begin
            )
        show_noise(made)
        return
    request = options.training
    if request.source.records is None:
        raise OptionError(
            f"{named('records')} is missing; give it a value, for example {named('records', 'my.csv')}, or "
            f"train over {named('hosts', 'hosts.toml')}."
        )
    target = request.where.out or default_out(TRAIN)
    with cli.steps(view.STEPS) as begin:
        trained_model = train_on_source(
            request,
            request.source.tabular(),
            read_features(request.features),
            target,
            begin,
            say=cli.announce,
        )
    manifest = trained_model.manifest
    charged = charge(trained_model.charging, request.population == UNCHARGED)
    short: list[Part] = ["", run_view.in_short(manifest, here=True), charged]
    full = list(run_view.statement(manifest, "the model"))
    full.extend((run_view.one_machine(True), charged))
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
        file=MODEL_FILE,
    )
