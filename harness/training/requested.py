"""From what a training is asked for to its run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.engines.base import Progress
from harness.engines.registry import choose_model
from harness.inputs.record_schema import DEFAULT_MAX_COUNT, even_grid
from harness.inputs.records import records_from_frame
from harness.inputs.tables import TABLE, read_table
from harness.pipeline.release import declared_domain, settings_of, with_cap
from harness.privacy.ledger.charge import Say, chosen_account, nothing_said
from harness.releases.registry import statistic_of
from harness.system.result_files import check_new
from harness.training.features import RESERVED, Features
from harness.training.logistic import Descent
from harness.training.request import TrainRequest
from harness.training.run import Planned, Trained, Training, train as run_training

if TYPE_CHECKING:
    import pandas as pd


def trained(
    request: TrainRequest,
    source: Path | pd.DataFrame,
    features: Features,
    target: Path,
    begin: Progress,
    say: Say = nothing_said,
) -> Trained:
    """Train on the records of a file or a table. Args: target: a new directory for the files."""
    check_new(target)
    model, domain = request.model or choose_model(None), declared_domain(request)
    account = chosen_account(request.population, request.budget, request.ledger, say)

    def planned(task: str) -> Planned[Any]:
        settings = settings_of(request.of_release(task, model))
        return Planned(statistic_of(settings.release), settings)

    parts = {task: planned(task) for task in request.parts}
    chosen = Training(
        model=model,
        unit=request.privacy_unit,
        guarantee=request.of_model,
        how=Descent(
            request.rounds,
            request.clip,
            request.largest_weight or (2.0 if "weights" in parts else 1.25 if request.sought else 1.0),
            request.learning_rate,
            request.momentum,
        ),
        noise=request.noise,
        account=account,
        timeout_s=request.timeout,
        grid=(domain and domain.thresholds) or even_grid(),
        **parts,
        fairness=request.sought,
        positive=request.positive_label or "",
    )
    begin("records")
    table, rows = read_table(source, [*RESERVED, *features.by_name])  # once: it may be a pipe
    where = str(source) if isinstance(source, Path) else TABLE
    records = records_from_frame(table, domain, request.max_count or DEFAULT_MAX_COUNT, where, rows)
    records = replace(records, domain=with_cap(records.domain, request.cap, request.privacy_unit))
    return run_training(records, features, features.encode(table), chosen, target, begin)
