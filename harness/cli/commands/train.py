"""`train`: a model under differential privacy, with weights and thresholds on the same budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli import terminal as cli
from harness.cli.commands.choices import (
    chosen_account,
    chosen_model,
    chosen_spec,
    declared_domain,
    with_cap,
)
from harness.cli.commands.releases import present, settings_of
from harness.cli.train_options import TrainOptions
from harness.engines.base import Progress
from harness.inputs.record_schema import DEFAULT_MAX_COUNT, even_grid
from harness.inputs.records import records_from_frame
from harness.inputs.tables import TABLE, read_table
from harness.privacy.ledger.charge import UNCHARGED
from harness.system.result_files import check_new, default_out
from harness.training.features import RESERVED, Features, read_features
from harness.training.logistic import Descent
from harness.training.predictor import FILE
from harness.training.run import TASK, Planned, Trained, Training, train as run_training
from harness.views import run as run_view, training as view
from harness.views.ledger import charge
from harness.views.parts import Part

if TYPE_CHECKING:
    import pandas as pd


def train(options: TrainOptions) -> None:
    """Train on a records file, and show the model and what it cost."""
    target = options.out or default_out(TASK)
    with cli.steps(view.STEPS) as begin:
        found = trained(options, options.records, read_features(options.features), target, begin)
    typed, manifest = options.given("epsilon")["epsilon"], found.manifest
    after = [charge(found.charging, options.population == UNCHARGED)]
    short: list[Part] = ["", run_view.in_short(manifest, typed, here=True), *after]
    full = [*run_view.statement(manifest, "the model", typed), run_view.one_machine(True), *after]
    thresholds = found.thresholds.found if found.thresholds else None
    weights = found.weights.found.weights if found.weights else None
    shown = list(view.training(found.model, manifest, weights, thresholds))
    problem = thresholds.problem if thresholds else None
    present(options, manifest, target, "Training", shown, short, full, problem, FILE)


def trained(
    options: TrainOptions, source: Path | pd.DataFrame, features: Features, target: Path, begin: Progress
) -> Trained:
    """Train on the records of a file or a table. Args: target: a new directory for the files."""
    check_new(target)
    model, domain = chosen_model(options.model), declared_domain(options)
    account = chosen_account(options.population, options.budget, options.ledger)

    def planned(task: str) -> Planned[Any]:
        of_release = options.of_release(task, model.name)
        spec = chosen_spec(of_release)
        return Planned(of_release.statistic(spec), settings_of(of_release, spec))

    parts = {task: planned(task) for task in options.parts}
    chosen = Training(
        model=model,
        unit=options.privacy_unit,
        guarantee=options.of_model,
        how=Descent(
            options.rounds,
            options.clip,
            options.largest_weight or (2.0 if "weights" in parts else 1.25 if options.sought else 1.0),
            options.learning_rate,
            options.momentum,
        ),
        noise=options.noise,
        account=account,
        timeout_s=options.timeout,
        grid=(domain and domain.thresholds) or even_grid(),
        **parts,
        fairness=options.sought,
        positive=options.positive_label or "",
    )
    begin("records")
    table, rows = read_table(source, [*RESERVED, *features.by_name])  # once: it may be a pipe
    where = str(source) if isinstance(source, Path) else TABLE
    records = records_from_frame(table, domain, options.max_count or DEFAULT_MAX_COUNT, where, rows)
    records = replace(records, domain=with_cap(records.domain, options.cap, options.privacy_unit))
    return run_training(records, features, features.encode(table), chosen, target, begin)
