"""From a call's arguments to a request, and to a result."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set, ValuesView
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, overload

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from fairshares import _calls, _results, _shown
from fairshares._progress import steps
from fairshares.harness.charged import UNCHARGED
from fairshares.harness.engines.execution import Progress
from fairshares.harness.errors import PYTHON, OptionError, RecordsError, named, naming
from fairshares.harness.forecast.requested import class_of_sizes, of_domain, planned as plan_of
from fairshares.harness.inputs.columns import (
    COLUMN_ROLES,
    TABLE,
    ColumnValues,
    as_names,
    one_column,
    values_alone,
)
from fairshares.harness.inputs.tables import Named, frame_of, table_of, with_names
from fairshares.harness.pipeline.chains import add_up
from fairshares.harness.pipeline.earlier_results import EarlierFiles
from fairshares.harness.pipeline.release import make_noise_ahead, run_on_records, settings_of
from fairshares.harness.pipeline.run import run_release
from fairshares.harness.pipeline.sources import SharesSource
from fairshares.harness.privacy.ledger.charge import account_read, populations_of
from fairshares.harness.releases.base import kind_of, statistic_of
from fairshares.harness.releases.registry import CALLS, RELEASES
from fairshares.harness.releases.weights import view as weights_view
from fairshares.harness.request.fields import as_text, refuse_unknown
from fairshares.harness.request.readers import parse_choice, parse_unit
from fairshares.harness.request.request import AccountOptions, Where, parse_pieces
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import as_path
from fairshares.harness.training.features import Features, features_from_json, read_features
from fairshares.harness.training.request import TrainRequest
from fairshares.harness.views import ledger as ledger_view, plan as plan_view
from fairshares.harness.views.run_summary import CAP_STEPS, STEPS, one_machine, view_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from fairshares._arguments import Argument, Records
    from fairshares.harness.pipeline.preprocessing import MadePiece

    _NoiseMaker = Callable[[str, int, dict[str, Argument], Progress], list[MadePiece]]

_OF_MOST = ("cap", "neighboring_relation", "privacy_unit")  # arguments of `plan` that not all tasks have
_PLANNED = {name for options in RELEASES.values() for name in options.expected.declared}
_OF_BOTH = {"thresholds", "steps", "max_count"}  # arguments of a call that a plan has, too
_OF_RUNS = {*Where.declared, *AccountOptions.declared, "shares"}  # arguments of a call that a plan has not
_OF_DOMAIN = ("groups", "labels", "max_count", "thresholds")  # the keys that a dict as `domain` may have


@overload
def released(task: Literal["weights"], records: Records, **given: Argument) -> _results.WeightsResult: ...
@overload
def released(
    task: Literal["thresholds"], records: Records, **given: Argument
) -> _results.ThresholdsResult: ...
@overload
def released(task: Literal["confusion"], records: Records, **given: Argument) -> _results.ConfusionResult: ...
@overload
def released(task: Literal["gap"], records: Records, **given: Argument) -> _results.GapResult: ...
@overload
def released(task: Literal["count"], records: Records, **given: Argument) -> _results.CountResult: ...
@overload
def released(task: Literal["cap"], records: Records, **given: Argument) -> _results.CapResult: ...


def released(task: str, records: Records, **given: Argument) -> _results.Released:
    """Run a release on records, and return its result.

    Args:
        task: The release, a name in `CALLS`.
        records: The records, as the call takes them; None if all columns are given, or uploads are counted.
        given: The call's other arguments by name.
    Returns:
        The result, in the class of the release.
    Raises:
        FairSharesError: A subclass for each mistake, whose message says what to do.
    """
    columns = _columns_of(given)
    with naming(PYTHON), TemporaryDirectory(prefix="fairshares-") as scratch:
        given = _read(given, CALLS[task].declared)
        takes_uploads = bool(given.get("shares")) and records is None
        call = CALLS[task](**given, records=None if takes_uploads else TABLE)  # the source goes beside it
        call.check_columns({name for name, column in columns.items() if column is not None})
        source = _source(records, columns)
        out = call.where.out or Path(scratch) / task
        settings = settings_of(call)
        said: list[str] = []
        with steps({**CAP_STEPS, **view_of(task).steps}) as begin:
            if call.source.shares:
                statistic = statistic_of(settings.release)
                run = run_release(statistic, SharesSource(call.source.shares), settings, out, begin)
                notes = [*view_of(task).chain(run.manifest), one_machine(saw_records=False)]
            else:
                run = run_on_records(call, source, settings, out, begin, say=said.append)
                notes = [one_machine(saw_records=True)]
        notes = [*said, *view_of(task).records(call, run.found), *notes]
        notes.append(ledger_view.charge(run.charging, call.request.population == UNCHARGED))
        return _results.result_of(EarlierFiles(run.manifest, run.files), run.found, notes)


def added_up(*directories: Path, fingerprints: Path | None) -> _results.Released:
    """Return the sum of a chain's runs.

    Args:
        directories: The directories of the runs.
        fingerprints: The file with the SHA-256 of each host's certificate; None without one.
    Returns:
        The weights of all counts together.
    Raises:
        ResultFileError: A directory holds no run of the chain, or one that another holds.
        SignatureError: Hosts signed some of the runs only, or other hosts than those.
        OptionError: The file of fingerprints holds none.
    """
    from fairshares.harness.hosts.signed_results import signers_of  # loads cryptography
    from fairshares.harness.uploads.signatures import read_fingerprints

    known = None if fingerprints is None else read_fingerprints(fingerprints)
    total = add_up(directories, signers_of(directories), known)
    signed_by = weights_view.signed_by(signed=total.signed, compared=total.compared)
    notes = [*weights_view.chain(total.manifest), *signed_by]
    return _results.result_of(EarlierFiles(total.manifest, total.files), total.weights, notes)


def _columns_of(given: dict[str, Argument]) -> dict[str, Argument]:
    """Take the arguments that are columns out of a call's, and return them."""
    return {name: given.pop(name) for name in COLUMN_ROLES if name in given}


def _columns_of_task(task: str, given: dict[str, Argument]) -> dict[str, Argument]:
    """Return the columns among the arguments of a call that stands for others, and take them out.

    Raises TypeError for a column that the task's own call lacks. A task without a call may have any.
    """
    columns = _columns_of(given)
    call = getattr(_calls, task, None)
    refuse_unknown(columns, COLUMN_ROLES if call is None else inspect.signature(call).parameters)
    return columns


def trained(records: Records, features: Argument, **given: Argument) -> _results.TrainResult:
    """Train a model on records.

    Args:
        records: The records, as the call takes them.
        features: The declared features, or the path of a file of them.
        given: Fields of `TrainRequest` by name, and columns.
    Returns:
        The model, with weights and thresholds if there are any.
    Raises:
        FairSharesError: A subclass for each mistake, whose message says what to do.
    """
    from fairshares.harness.training.training_run import (  # scikit-learn takes a second to load
        TRAIN,
        train_on_source,
    )
    from fairshares.harness.views.training import STEPS

    columns = _columns_of(given)
    with naming(PYTHON), TemporaryDirectory(prefix="fairshares-") as scratch:
        given = _read(given, TrainRequest.declared)
        source = _source(records, columns)
        declared = _features_of(features)
        request = TrainRequest(**given, records=TABLE, features=TABLE)
        out = request.where.out or Path(scratch) / TRAIN
        said: list[str] = []
        with steps(STEPS) as begin:
            training = train_on_source(request, source, declared, out, begin, say=said.append)
        notes = [
            *said,
            one_machine(saw_records=True),
            ledger_view.charge(training.charging, request.population == UNCHARGED),
        ]
        weights = None
        if training.weights is not None:
            run = training.weights
            weights = _results.WeightsResult(EarlierFiles(run.manifest, run.files), run.found)
        thresholds = None
        if training.thresholds is not None:
            curves = training.thresholds
            files = EarlierFiles(curves.manifest, curves.files)
            thresholds = _results.ThresholdsResult(files, curves.found)
        return _results.TrainResult(
            EarlierFiles(training.manifest, training.files),
            training.model,
            notes,
            weights,
            thresholds,
        )


def _features_of(declared: Argument) -> Features:
    """Return the features that a call declares by a file or by a dict."""
    if isinstance(declared, str | Path):
        return read_features(as_path(declared, "features"))
    if not isinstance(declared, Mapping):
        raise OptionError(
            f"{named('features')} says the range or the categories of each column, as "
            "{'age': {'low': 18, 'high': 99}}, since none are read off the records; "
            f"got {declared!r}."
        )
    return features_from_json(json.loads(json.dumps(declared, default=_plain)), named("features"))


def planned(task: str, from_records: Records, **given: Argument) -> _shown.Plan:
    """Plan a release.

    Args:
        task: The release, a name in `CALLS`.
        from_records: The records for the plan; None without any.
        given: The other arguments of `plan`, and the call's own arguments.
    Returns:
        The plan.
    Raises:
        TypeError: An argument is unknown.
        FairSharesError: There is no such release.
    """
    with naming(PYTHON), steps(STEPS) as begin:
        kind = CALLS[parse_choice("task", task, list(CALLS))]
        columns = _columns_of_task(task, given)
        ledger = AccountOptions(ledger=given.pop("ledger", None)).ledger
        parse_unit(str(given["privacy_unit"]))
        for name in _OF_MOST:
            if name not in kind.declared and (given[name] is None or name == "privacy_unit"):
                del given[name]  # nobody gave it; a task without a choice of the unit has one
        refuse_unknown(given, {*_PLANNED, *kind.declared} - _OF_RUNS)
        source = None if from_records is None else _source(from_records, columns, "from_records")
        given = _read(given, kind.declared)
        of_plan_alone = _PLANNED - _OF_BOTH
        of_call = kind.declared.keys() - of_plan_alone
        call = kind(**{name: value for name, value in given.items() if name in of_call})
        given |= {name: size for name, size in call.planned_sizes().items() if size}
        if call.declares.domain and source is None:
            declared = call.declares.of_kind(kind_of(task))
            assert declared is not None  # a file declares it
            given |= of_domain(declared, task)
        of_plan = {name: value for name, value in given.items() if name in _PLANNED and value is not None}
        of_this_plan = class_of_sizes(task, of_plan)
        expected = of_this_plan(**of_plan, from_records=None if source is None else TABLE)
        begin("plan" if source is None else "records")
        account = account_read(call.request.population, ledger)
        plan = plan_of(call.request, expected, source, account=account)
        return _shown.Plan(plan_view.to_json(plan), list(plan_view.plan(plan)))


def preprocessed(task: str, pieces_wanted: Argument, **given: Argument) -> pd.DataFrame:
    """Make noise for later calls of a task.

    Columns are arguments of these calls, and noise depends on none.

    Args:
        task: The release, a name in `CALLS`, or "train".
        pieces_wanted: How many calls the noise is for, from 1 to 1000.
        given: The call's other arguments by name.
    Returns:
        A row for each piece, from 1 on.
    Raises:
        TypeError: An argument is unknown.
        OptionError: Records are given, or the release takes no such noise.
    """
    with naming(PYTHON), steps({}) as begin:
        makers: dict[str, _NoiseMaker] = {
            name: _noise_of_release for name, kind in CALLS.items() if "offline" in kind.declared
        }
        makers["train"] = _noise_of_training
        make = makers[parse_choice("task", task, list(makers))]
        runs = parse_pieces(as_text(pieces_wanted), "runs")
        _columns_of_task(task, given)
        if given.get("records") is not None:
            raise OptionError(f"Noise is made without records; leave out {named('records')}.")
        pieces = [as_json(piece) for piece in make(task, runs, given, begin)]
        return pd.DataFrame(pieces, index=pd.RangeIndex(1, runs + 1, name="piece"))


def _noise_of_release(task: str, runs: int, given: dict[str, Argument], begin: Progress) -> list[MadePiece]:
    """Make the noise of so many runs of a release, and return the pieces."""
    kind = CALLS[task]
    call = kind(**_read(given, kind.declared))
    return make_noise_ahead(call, runs, begin).pieces


def _noise_of_training(_task: str, runs: int, given: dict[str, Argument], begin: Progress) -> list[MadePiece]:
    """Make the noise of so many trainings, and return the pieces."""
    from fairshares.harness.training.training_run import make_noise_ahead  # slow to load, as in `trained`

    features = _features_of(given.pop("features", {}))
    request = TrainRequest(**_read(given, TrainRequest.declared), records=TABLE, features=TABLE)
    return make_noise_ahead(request, features, runs, begin).pieces


def spent(population: str | None, retire: str | None, **given: Argument) -> _shown.Spent:
    """Return the contents of a ledger.

    Args:
        population: The population to show; None for all.
        retire: The population to retire; None for none.
        given: The budget and the ledger's file, as fields of `AccountOptions`.
    Returns:
        The populations with their charges.
    Raises:
        PopulationError: There is no such population.
        LedgerError: The ledger cannot be used.
    """
    with naming(PYTHON):
        account = AccountOptions(**given)
        path, populations = populations_of(population, account.budget, account.ledger, retire)
        return _shown.Spent(
            ledger_view.to_json(path, populations), list(ledger_view.ledger(path, populations))
        )


def _read(given: Mapping[str, Argument], declared: Collection[str]) -> dict[str, Argument]:
    """Return the arguments: arrays as lists, names as in records, a domain's dict spread over others.

    `declared` are the call's fields. Thresholds in the dict are for those calls that have them, as in a file.
    """
    domain = given.get("domain")
    if isinstance(domain, Mapping):
        offered = [name for name in _OF_DOMAIN if name in declared]
        if "labels" in declared and "thresholds" not in declared:
            offered.append("thresholds")
        for name in domain:
            if name not in offered or given.get(name) is not None:
                raise OptionError(
                    f"{named('domain')} has {name!r}; it may have {', '.join(offered)}, which are not "
                    "given beside it."
                )
        spread = {name: value for name, value in domain.items() if name in declared}
        given = {**given, **spread, "domain": None}
    read = {name: _plain(value) for name, value in given.items()}
    for name, value in read.items():
        if isinstance(value, str | Sequence) and not value:
            raise OptionError(f"{named(name)} is empty; leave it out, or give it a value.")
        if name in ("groups", "labels") and isinstance(value, str):
            raise OptionError(f"{named(name)} is a list of names, as {value.split(',')}; got {value!r}.")
        if name in ("groups", "labels") and isinstance(value, list | tuple):
            read[name] = as_names(pd.Series(list(value))).tolist()
    positive = read.get("positive_label")
    if positive not in (None, ""):
        read["positive_label"] = as_names(pd.Series([positive]))[0]
    return read


def _plain(value: Argument) -> Argument:
    """Return arrays, sets, views of dicts and iterators as lists, and all else as it is."""
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, Set | ValuesView | Iterator | range):
        return list(value)
    return value


def _source(records: Records, columns: Mapping[str, Argument], field: str = "records") -> Named:
    """Return the records with columns under our names, as `table_at` takes them.

    A column is None, the name of another one, also as the only item of a list, or values of shape (n,) or
    (n, 1). The group may be several of these. `field` is what the caller calls the records.
    """
    if isinstance(records, Mapping):
        records = table_of(records)
    elif isinstance(records, str | Path):
        records = as_path(records, field)
    names: dict[str, str | list[str]] = {}
    arrays: dict[str, ColumnValues] = {}
    for role, column in columns.items():
        several = _names_of_columns(column, records)
        if isinstance(column, str):
            names[role] = column
        elif len(several) == 1:
            names[role] = several[0]
        elif role == "group" and several:
            names[role] = several
        elif column is not None:
            arrays[role] = one_column(column, role) if role == "group" else values_alone(column)
    if arrays:
        records = _with_columns(records, arrays)
    return with_names(records, names)


def _with_columns(records: IntoFrame | Path | None, arrays: Mapping[str, ColumnValues]) -> pd.DataFrame:
    """Return a frame in memory with values as further columns, or these alone as a table."""
    if records is None:
        return table_of(arrays)
    frame = None if isinstance(records, Path) else frame_of(records)
    if not isinstance(frame, nw.DataFrame):
        raise RecordsError(
            f"Rows of a file or a lazy frame have no order: name the column that is {min(arrays)}."
        )
    table = frame.to_pandas()
    rows = table_of({TABLE.lower(): table.index.to_series(), **arrays})
    return table.assign(**{role: rows[role] for role in arrays})


def _names_of_columns(given: Argument, records: IntoFrame | Path | None) -> list[str]:
    """Return the names of columns of the records, or [] if these are the values of a column.

    A list of texts has names if the records are no frame in memory, if it has another length than the frame,
    or if all of its texts are columns of the frame.
    """
    if records is None or not isinstance(given, list | tuple):
        return []
    names = [name for name in given if isinstance(name, str)]
    if not names or len(names) != len(given):
        return []
    frame = None if isinstance(records, Path) else frame_of(records)
    if isinstance(frame, nw.DataFrame) and len(frame) == len(names) and not {*names} <= {*frame.columns}:
        return []
    return names
