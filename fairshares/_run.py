"""From a call's arguments to a request, and from its run to a result."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd

from fairshares import _results, _shown
from fairshares._progress import steps
from harness.errors import OptionError, RecordsError, as_keyword, named, naming
from harness.forecast.requested import planned as plan_of
from harness.inputs.column_values import as_names, values_of
from harness.inputs.tables import TABLE, table_at, table_of
from harness.pipeline.chains import add_up
from harness.pipeline.preprocessing import joint_noise_of, preprocess
from harness.pipeline.release import (
    of_noise,
    policy_of,
    run_on_records,
    score_cut,
    settings_of,
    stock_of,
)
from harness.pipeline.run import MANIFEST, Run, run_release
from harness.pipeline.sources import SharesSource
from harness.privacy.ledger.charge import UNCHARGED, populations_of
from harness.releases.registry import statistic_of
from harness.request.calls import CALLS, Account
from harness.request.plans import Expected
from harness.request.readers import parse_choice
from harness.request.releases import REQUESTS
from harness.system.result_files import write_json
from harness.training.features import features_from_json, read_features
from harness.training.request import TrainRequest
from harness.training.run import TASK, trained as train_on
from harness.views import ledger as ledger_view, plan as plan_view, training as training_view
from harness.views.releases import (
    cap as cap_view,
    confusion as confusion_view,
    counts as counts_view,
    gaps as gaps_view,
    thresholds as thresholds_view,
    weights as weights_view,
)
from harness.views.run import CAP_STEPS, one_machine

_OF_MOST = ("cap", "neighboring_relation", "privacy_unit")  # which `plan` names, and not all have
_STEPS = {
    "weights": CAP_STEPS | weights_view.STEPS,
    "confusion": CAP_STEPS | confusion_view.STEPS,
    "thresholds": CAP_STEPS | thresholds_view.STEPS,
    "gap": gaps_view.STEPS,
    "count": counts_view.STEPS,
    "cap": cap_view.STEPS,
}
_OF_DOMAIN = ("groups", "labels", "max_count", "thresholds")  # as a dict
COLUMNS = ("client_id", "group", "label", "score", "prediction", "value")
_EACH_ROW = (
    "Without client_id each row is a client of its own: the number of rows is public, and whoever has "
    "several is protected in each, not as a person."
)


def released(task: str, records: Any, **given: Any) -> Any:
    """Run a release on a table, a file or columns, and return its result.

    Args: task: of `CALLS`; given: by name, the columns and the call's fields. Raises: FairSharesError.
    """
    columns = {name: given.pop(name) for name in COLUMNS if name in given}
    with naming(as_keyword), TemporaryDirectory(prefix="fairshares-") as scratch:
        given, source = _with_domain(given), _source(records, columns)
        each_row = not isinstance(source, Path) and _without_clients(records, columns)
        if not isinstance(source, Path) and each_row:
            source = _of_clients_alone(source, given)
        values = _values_in(source, given)
        place = None if given.get("shares") and records is None else TABLE
        call = CALLS[task](**_as_in_columns(given), records=place)  # what it is, is said beside it
        out = call.out or Path(scratch) / task
        settings = settings_of(call)
        with steps(_STEPS[task]) as begin:
            if call.shares:
                shares = SharesSource(call.shares, policy_of(call))
                run = run_release(statistic_of(settings.release), shares, settings, out, begin)
                said = [*weights_view.chain(run.manifest), one_machine(False)]
                return _result(run, call.population, said)
            run = run_on_records(call, source, settings, out, begin)
        cut = score_cut(call) if task == "confusion" else None
        notes = [confusion_view.direction(cut, run.found.counts.domain)] if cut else []
        notes += [_EACH_ROW] if each_row else []
        result = _result(run, call.population, [*notes, one_machine(True)], values)
        if call.out:
            write_json(out / MANIFEST, result.manifest)  # with the values that names stand for
        return result


def added_up(*directories: Path) -> Any:
    """Return the result of a chain's runs added up. Raises: ResultFileError; SignatureError."""
    from harness.hosts.signed_results import verify  # it loads what signs

    found, files = add_up(directories, verify)
    return _results.result_of(files, found, weights_view.chain(files[MANIFEST]))


def _result(
    run: Run[Any], population: str | None, notes: list[Any], values: _results.Values = _results.NAMES
) -> Any:
    notes = [*notes, ledger_view.charge(run.charging, population == UNCHARGED)]
    return _results.result_of(run.files, run.found, notes, values)


def _without_clients(records: Any, columns: Mapping[str, Any]) -> bool:
    """Return whether nothing says whose rows are whose, and no column may be meant to."""
    return columns.get("client_id") is None and not any(
        name.strip().lower() == "client_id" for name in _names_in(records)
    )


def _names_in(records: Any) -> list[str]:
    """Return which columns a frame has, or a mapping, or None."""
    frame = nw.from_native(records, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        return frame.collect_schema().names()
    return [] if records is None else [str(name) for name in getattr(frame, "columns", records)]


def _of_clients_alone(table: Any, given: Mapping[str, Any]) -> Any:
    """Return a table in which each row is a client's. Raises: OptionError: clients' rows count together."""
    if given.get("privacy_unit") == "client" or given.get("cap"):
        raise OptionError(
            "Without client_id each row is a client of its own, so none has several to be protected "
            "together; name the column of clients by client_id=, or leave out privacy_unit= and cap=."
        )
    if isinstance(table, pd.DataFrame):
        return table.assign(client_id=range(len(table)))
    return nw.from_native(table).lazy().with_row_index("client_id", order_by=_names_in(table)[:1]).to_native()


def _values_in(source: Any, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what names of groups and labels stand for, in a table or as they are declared."""
    columns = [pd.Series(given.get(f"{name}s") or [], dtype=object, name=name) for name in ("group", "label")]
    if not isinstance(source, Path):
        for name in {"group", "label"} & {*_names_in(source)}:
            pandas = isinstance(source, pd.DataFrame)
            values = source[name] if pandas else table_at(source, [name]).counted([name]).values[name]
            columns.append(pd.Series(values, name=name))
    return {str(column.name): values_of(column) for column in columns}


def trained(**given: Any) -> _results.TrainResult:
    """Train a model. Args: given: the records, and fields of `TrainRequest`. Raises: FairSharesError."""
    records, declared = given.pop("records"), given.pop("features")
    with naming(as_keyword), TemporaryDirectory(prefix="fairshares-") as scratch:
        given, source = _with_domain(given), _source(records, {})
        if not isinstance(source, Path | pd.DataFrame):
            source = nw.from_native(source).lazy().collect(backend="pandas").to_native()
        paths = isinstance(declared, str | Path)
        features = read_features(Path(declared)) if paths else features_from_json(declared, "features")
        request = TrainRequest(**_as_in_columns(given), records=TABLE, features=TABLE)
        out = request.out or Path(scratch) / TASK
        with steps(training_view.STEPS) as begin:
            model = train_on(request, source, features, out, begin)
        notes = [one_machine(True), ledger_view.charge(model.charging, request.population == UNCHARGED)]
        return _results.training_of(model, notes, _values_in(source, given))


def planned(**given: Any) -> _shown.Plan:
    """Plan a release. Args: given: of whom, and fields of its request. Raises: TypeError: an unknown one."""
    table, task = given.pop("from_records"), given.pop("task")
    with naming(as_keyword):
        kind = REQUESTS[parse_choice("task", task, list(REQUESTS))]
        if unknown := set(given) - {*Expected.declared, *kind.declared, *_OF_MOST}:
            raise TypeError(f"There is no argument {min(unknown)!r} here.")
        source = None if table is None else _source(table, {})
        request = kind(**_as_in_columns(given))
        expected = Expected(**given, from_records=None if table is None else TABLE)
        plan = plan_of(request, expected, source)
        return _shown.Plan(plan_view.to_json(plan), list(plan_view.plan(plan)))


def preprocessed(task: str, runs: int, **given: Any) -> pd.DataFrame:
    """Make noise for later calls. Args: given: fields of the task's call. Raises: FairSharesError."""
    with naming(as_keyword):
        call = CALLS[parse_choice("task", task, list(CALLS))](**_as_in_columns(_with_domain(given)))
        with steps({}) as begin:
            made = preprocess(joint_noise_of(of_noise(call)), stock_of(call), runs, call.timeout, begin)
        return pd.DataFrame(made, index=pd.RangeIndex(1, runs + 1, name="piece"))


def spent(**given: Any) -> _shown.Spent:
    """Return what is in a ledger. Args: given: a population, its budget, the ledger's file."""
    with naming(as_keyword):
        population, retire, account = given.pop("population"), given.pop("retire"), Account(**given)
        path, populations = populations_of(population, account.budget, account.ledger, retire)
        shown = list(ledger_view.ledger(path, populations))
        return _shown.Spent(ledger_view.to_json(path, populations), shown)


def _with_domain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, arrays as lists; a domain that is a dict has its parts in their own.

    Raises: OptionError: it has others, or they are given twice.
    """
    given = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in given.items()}
    if not isinstance(domain := given.get("domain"), Mapping):
        return given
    for name in domain:
        if name not in _OF_DOMAIN or given.get(name) is not None:
            raise OptionError(
                f"{named('domain')} has {name!r}; it may have {', '.join(_OF_DOMAIN)}, which are not given "
                "beside it."
            )
    return {**given, **domain, "domain": None}


def _as_in_columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, with groups and labels as a column of records has them."""
    for name, value in given.items():
        if isinstance(value, str | Sequence) and not value:
            raise OptionError(f"{named(name)} is empty; leave it out, or give it a value.")
    names = {
        name: as_names(pd.Series(list(given[name]))).tolist()
        for name in ("groups", "labels")
        if isinstance(given.get(name), list | tuple)
    }
    if (positive := given.get("positive_label")) not in (None, ""):
        names["positive_label"] = as_names(pd.Series([positive]))[0]
    return {**given, **names}


def _source(records: Any, columns: Mapping[str, Any]) -> Any:
    """Return the records' file, or a table of their columns, lazy if the frame is.

    Args: columns: None for the table's column of that name, the name of another of its columns, or values.
    Raises: RecordsError: they do not belong to the same rows, or the table has no such column.
    """
    if isinstance(records, str | Path):
        return Path(records)
    names, frame = _names_in(records), nw.from_native(records, pass_through=True)
    for name, column in columns.items():
        if isinstance(column, str) and column not in names:
            raise RecordsError(
                f"The table has no column {column}, the value of {name}= (found: {', '.join(names)})."
            )
    chosen = {name: name if column is None else column for name, column in columns.items()}
    chosen = {name: of for name, of in chosen.items() if not isinstance(of, str) or of in names}
    if columns:  # of more than two labels, a score for each
        chosen |= {name: name for name in names if name.startswith("score_")}
    if isinstance(frame, nw.DataFrame | nw.LazyFrame) and not isinstance(records, pd.DataFrame):
        if not chosen:
            return records
        beside = [name for name, of in chosen.items() if not isinstance(of, str)]
        if not beside:
            return frame.select(**{name: nw.col(of) for name, of in chosen.items()}).to_native()
        if isinstance(frame, nw.LazyFrame):
            raise RecordsError(f"A lazy frame's rows have no order: name the column that is {beside[0]}.")
        records = frame.to_pandas()
    table = pd.DataFrame() if records is None else pd.DataFrame(records)
    arrays = {name: table[of] if isinstance(of, str) else of for name, of in chosen.items()}
    return table_of(arrays) if arrays else table
