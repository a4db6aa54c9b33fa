"""`train --hosts` and `train --vectors`: a training whose clients are elsewhere."""

import json
from pathlib import Path

from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.commands.releases import show_noise
from fairshares.harness.cli.options import TrainOptions
from fairshares.harness.cli.report import present
from fairshares.harness.errors import OptionError, named
from fairshares.harness.hosts.reveals import RevealsAtHosts, SumsCall
from fairshares.harness.hosts.training import AwaitedRound, ReleasedWeights, TrainedAtHosts, TrainingAtHosts
from fairshares.harness.pipeline.preprocessing import MadeNoise
from fairshares.harness.training.declared_training import DeclaredTraining
from fairshares.harness.training.features import read_features
from fairshares.harness.training.logistic import MODEL_FILE
from fairshares.harness.uploads.files import check_place, write_file
from fairshares.harness.uploads.task import Task, read_task
from fairshares.harness.views import run_summary as run_view, training as view
from fairshares.harness.views.ledger import charge
from fairshares.harness.views.parts import Part

# All else says how records are read, or what is released beside the model, on one machine.
_USED = {
    "features",
    "rounds",
    "clip",
    "largest_weight",
    "learning_rate",
    "momentum",
    "with_",
    "fairness",
    "positive_label",
    "domain",
    "groups",
    "labels",
    "privacy_unit",
    "epsilon",
    "delta",
    "noise",
    "offline",
    "population",
    "budget",
    "ledger",
    "security",
    "out",
    "timeout",
}


def train_at_hosts(options: TrainOptions) -> None:
    """Go on with a training over hosts, make its noise ahead, or declare the vectors of its task."""
    request = options.training
    over = options.over
    for name in request.declared:
        if name not in _USED and not request.is_usual(name):
            raise OptionError(
                f"{named(name)} is for a training on one machine; leave it out where hosts reveal the sums."
            )
    if request.parts:
        raise OptionError(
            f"Over hosts, {request.parts[0]} are a release of their own: run it by {named('hosts')}, for the "
            f"same population, and leave out {named('with_', request.parts[0])}. A training takes weights by "
            f"{named('weights')}."
        )
    is_weighed = over.weights is not None
    declared = DeclaredTraining.of(
        request,
        read_features(request.features),
        is_weighed=is_weighed,
        participations=over.participations,
    )
    if over.vectors is not None:
        _declare(declared, over.vectors)
        return
    if over.hosts is None or over.task is None:
        raise OptionError(f"{named('hosts')} needs the task of vectors: name it by {named('task')}.")
    task = read_task(over.task)
    declared.check_task(task)
    reveals = RevealsAtHosts.asked(over.hosts, task, _call(options, task), cli.announce)
    if options.preprocess is not None:
        with cli.steps(view.STEPS_AT_HOSTS) as begin:
            pieces = reveals.preprocess(options.preprocess, begin)
        show_noise(MadeNoise("each host's directory", pieces))
        return
    if over.clients is None or request.where.out is None:
        raise OptionError(
            f"{named('hosts')} needs {named('clients', 1000)}, by which sums are divided, and "
            f"{named('out')}, the directory in which each command goes on."
        )
    released = None
    if over.weights is not None:
        released = ReleasedWeights.read(over.weights, declared, reveals.account.population or "")
    training = TrainingAtHosts(declared, reveals, over.clients, released, cli.announce)
    with reveals.hosts, cli.steps(view.STEPS_AT_HOSTS) as begin:
        found = training.go_on(begin, over.wait)
    if isinstance(found, AwaitedRound):
        cli.say(
            f"Round {found.reveal} of {declared.descent.rounds}: give clients {found.file}, for `share "
            "--round`, and repeat this command once they have sent."
        )
        return
    _present(options, found, reveals.out)


def _declare(declared: DeclaredTraining, file: Path) -> None:
    """Write what a task declares for a training."""
    if file.exists():
        raise OptionError(f"{file} is there; name another file by {named('vectors')}.")
    check_place(file)
    write_file(file, (json.dumps(declared.declaration(), indent=2) + "\n").encode())
    bounds = declared.bounds
    some = ""
    if declared.participations is not None:
        some = f", of which a client takes part in {declared.participations} at most"
    cli.say(
        f"{file} declares {bounds.coordinates} coordinates, the norm {bounds.norm:g} and "
        f"{declared.descent.rounds} reveals{some}: make the task by `task --domain {file} --for-tasks sums "
        "--privacy-unit client`."
    )


def _call(options: TrainOptions, task: Task) -> SumsCall:
    """Return the request for each reveal; OptionError for another model than the task's model."""
    request = options.training
    model = task.model
    if request.security is not None and request.security != model:
        raise OptionError(f"The task is for {model.title}; leave out {named('security')}.")
    return SumsCall(
        security=model,
        epsilon=request.protect.epsilon,
        delta=request.protect.delta,
        noise=request.randomness.noise,
        offline=request.randomness.offline,
        population=request.population,
        budget=request.account.budget,
        ledger=request.account.ledger,
        timeout=request.where.timeout,
        out=request.where.out,
        upload_task=task.name,
        reveal="1",
    )


def _present(options: TrainOptions, trained: TrainedAtHosts, target: Path) -> None:
    """Show the model of a training that is over."""
    manifest = trained.manifest
    at_hosts = run_view.on_hosts(False)
    after: list[Part] = [at_hosts]
    if trained.charging is not None:
        after.append(charge(trained.charging, False))
    present(
        options.plot,
        manifest,
        target,
        "Training",
        answer=list(view.training(trained.model, manifest, trained.weights, None)),
        short=["", run_view.in_short(manifest), *after],
        full=[*run_view.statement(manifest, "the model"), *after],
        file=MODEL_FILE,
    )
