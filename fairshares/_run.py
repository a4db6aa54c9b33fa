"""From a call's arguments, by way of a command's options, to a result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from fairshares import _results
from fairshares._arguments import as_a_call, options_of
from harness.cli.commands import ledger, plan, train
from harness.cli.commands.choices import chosen_spec, score_cut
from harness.cli.commands.releases import run_on_records, settings_of
from harness.cli.commands.weights import arrived
from harness.cli.options import LedgerOptions
from harness.cli.release_options import RELEASES, WeightsOptions
from harness.cli.task_options import PlanOptions
from harness.cli.train_options import TrainOptions
from harness.errors import RecordsError
from harness.inputs.tables import TABLE, table_of
from harness.pipeline.earlier_results import read_files
from harness.privacy.ledger.charge import UNCHARGED
from harness.training.features import features_from_json, read_features
from harness.training.run import TASK
from harness.views import ledger as ledger_view
from harness.views.releases import weights as weights_view
from harness.views.releases.confusion import direction
from harness.views.run import one_machine
from protocols.accounting.calibration import PrivacyUnit

COLUMNS = ("client_id", "group", "label", "score", "prediction", "value")


def released(task: str, records: Any, **given: Any) -> Any:
    """Run a release on a table, a file or columns, and return its result.

    Args: task: of `RELEASES`; given: by name, the columns and the command's options. Raises: FairSharesError.
    """
    columns = {name: given.pop(name) for name in COLUMNS if name in given}
    with as_a_call():
        source = _source(records, columns)
        if given.get("arrivals") or given.get("horizon"):
            uploads = options_of(WeightsOptions, given)
            return _arrived(uploads if records is None else uploads.but(records=Path(TABLE)))
        options = options_of(RELEASES[task], given).but(records=Path(TABLE))  # what it is, is said beside it
        if task == "cap":
            options = options.but(privacy_unit=PrivacyUnit.CLIENT)
        spec = chosen_spec(options)
        settings = settings_of(options, spec)
        with TemporaryDirectory(prefix="fairshares-") as scratch:
            out = options.out or Path(scratch) / task
            cut = score_cut(options) if task == "confusion" else None
            run = run_on_records(options, options.statistic(spec), source, settings, out, lambda _: None, cut)
            notes = [direction(cut, run.found.counts.domain)] if cut else []
            notes += [one_machine(True), ledger_view.charge(run.charging, options.population == UNCHARGED)]
            return _results.result_of(read_files(out), out, notes, getattr(run.found, "problem", None))


def _arrived(options: WeightsOptions) -> Any:
    """Run one epoch of a series of weights, and return its result."""
    with TemporaryDirectory(prefix="fairshares-") as scratch:
        out = options.out or Path(scratch) / options.task
        options, run = arrived(options, out, lambda _: None)
        charged = ledger_view.charge(run.charging, options.population == UNCHARGED)
        notes = [weights_view.arrivals(run.manifest), one_machine(False), charged]
        return _results.result_of(read_files(out), out, notes)


def trained(**given: Any) -> _results.TrainResult:
    """Train a model. Args: given: the records, and options of `train`. Raises: FairSharesError."""
    records, declared = given.pop("records"), given.pop("features")
    with as_a_call(), TemporaryDirectory(prefix="fairshares-") as scratch:
        source = _source(records, {})
        paths = isinstance(declared, str | Path)
        features = read_features(Path(declared)) if paths else features_from_json(declared, "features")
        options = options_of(TrainOptions, {**given, "records": TABLE, "features": TABLE})
        out = options.out or Path(scratch) / TASK
        found = train.trained(options, source, features, out, lambda _: None)
        notes = [one_machine(True), ledger_view.charge(found.charging, options.population == UNCHARGED)]
        problem = found.thresholds.found.problem if found.thresholds else None
        return _results.training_in(out, notes, problem)


def planned(**given: Any) -> _results.Plan:
    """Plan a release. Args: given: options of `plan`. Raises: TypeError: there is no such option."""
    source = given.pop("from_records")
    with as_a_call():
        options = options_of(PlanOptions, {**given, "from_records": None if source is None else TABLE})
        if source is not None:
            options = options.but(from_records=_source(source, {}))
        shown, fields = plan.planned(options)
    return _results.Plan(fields, shown)


def spent(**given: Any) -> _results.Spent:
    """Return what is in a ledger. Args: given: options of `ledger`."""
    with as_a_call():
        options = options_of(LedgerOptions, given)
        path, populations = ledger.populations_of(options)
    shown = list(ledger_view.ledger(path, populations))
    return _results.Spent(ledger_view.to_json(path, populations), shown)


def _source(records: Any, columns: Mapping[str, Any]) -> Path | pd.DataFrame:
    """Return the records' file, or a table of their columns.

    Args: columns: None for the table's column of that name, the name of another of its columns, or values.
    Raises: RecordsError: they do not belong to the same rows, or the table has no such column.
    """
    if isinstance(records, str | Path):
        return Path(records)
    table = pd.DataFrame() if records is None else pd.DataFrame(records)
    for name, column in columns.items():
        if isinstance(column, str) and column not in table:
            raise RecordsError(
                f"The table has no column {column}, the value of {name}= (found: "
                f"{', '.join(map(str, table.columns))})."
            )
    named = {name: name if column is None else column for name, column in columns.items()}
    found = {
        name: table[column] if isinstance(column, str) else column
        for name, column in named.items()
        if not isinstance(column, str) or column in table
    }
    return table_of(found) if found else table
