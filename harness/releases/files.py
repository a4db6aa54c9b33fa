"""The result files of releases: their common parts, and how they are read and written.

Each statistic's module has a struct for each of its files. `docs/reference/files.md` says what the fields
mean. Fields that later versions add are ignored.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
from msgspec import UNSET, Struct, UnsetType

from fairshares.harness.bounds import Names, Share
from fairshares.harness.errors import ResultFileError
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, cap_from_json
from fairshares.harness.postprocessing.thresholds.constraints import RATES
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.harness.system.documents import as_json, as_type, read_json
from fairshares.harness.system.result_files import SCHEMA, not_result, result_path
from fairshares.protocols.arrays import Floats
from fairshares.protocols.json_values import JsonValue

INTERVAL_FIELDS = frozenset(
    {"weights_interval", "counts_interval", "gap_interval", "interval", "says_something"}
)
"""The fields of files that state how far off an estimate may be."""


class ResultFile(Protocol):
    """A struct for a file beside a manifest."""

    file_name: ClassVar[str]
    __struct_fields__: ClassVar[tuple[str, ...]]

    @property
    def privacy(self) -> StatedPrivacy:
        """The guarantee of the release, as in the manifest."""


F = TypeVar("F", bound=ResultFile)

Nested: TypeAlias = "float | Sequence[Nested] | None"
"""A number of a table, or a row, or rows of rows; None is NaN."""


class EstimatedRate(Struct, frozen=True, kw_only=True):
    """A rate and its interval; without an estimate the rate is 0/0."""

    estimate: Share | None
    interval: tuple[Share, Share]


class EstimatedRates(Struct, frozen=True, kw_only=True):
    """The three rates of a group, or of a group and a label, and a further one that a constraint compares."""

    true_positive_rate: EstimatedRate
    false_positive_rate: EstimatedRate
    selection_rate: EstimatedRate
    accuracy: EstimatedRate | UnsetType = UNSET
    positive_predictive_value: EstimatedRate | UnsetType = UNSET

    @property
    def by_name(self) -> dict[str, EstimatedRate]:
        """The rates by their names; the rates in `RATES` come first."""
        rates = {}
        for field in self.__struct_fields__:
            rate: EstimatedRate | UnsetType = getattr(self, field)
            if not isinstance(rate, UnsetType):
                rates[field] = rate
        return rates


def state_rates(rates: Mapping[str, Floats], intervals: Mapping[str, Floats]) -> EstimatedRates:
    """Return the rates of one group, or of one group and label.

    Args:
        rates: Arrays without axes by the names in `RATES`, and perhaps by the name of another rate of
            `EstimatedRates`; NaN is 0/0.
        intervals: Arrays of shape (2,) by the same names.
    """
    stated = {}
    for name in rates:
        estimate: float | None = float(rates[name])
        if np.isnan(rates[name]):
            estimate = None
        low, high = intervals[name].tolist()
        stated[name] = EstimatedRate(estimate=estimate, interval=(low, high))
    further = [name for name in stated if name not in RATES]
    return EstimatedRates(
        true_positive_rate=stated["true_positive_rate"],
        false_positive_rate=stated["false_positive_rate"],
        selection_rate=stated["selection_rate"],
        **{name: stated[name] for name in further},
    )


def rates_in(
    cells: Sequence[EstimatedRates], shape: tuple[int, ...]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the cells' estimates, of this shape, and their intervals, of shape (*shape, 2), by rate.

    Raises:
        ValueError: There are more or fewer cells, or some have a rate that others lack.
    """
    estimates = {}
    intervals = {}
    names = list(cells[0].by_name) if cells else list(RATES)
    if any(list(cell.by_name) != names for cell in cells):
        raise ValueError("cells of a result have the same rates")
    for name in names:
        rates = [cell.by_name[name] for cell in cells]
        estimates[name] = table_in([rate.estimate for rate in rates], (len(cells),)).reshape(shape)
        intervals[name] = table_in([rate.interval for rate in rates], (len(cells), 2)).reshape(*shape, 2)
    return estimates, intervals


def table_in(values: Nested, shape: tuple[int, ...]) -> Floats:
    """Return a file's lists as an array, with NaN for null.

    Raises:
        ValueError: They are not of this shape.
    """
    table = np.array(values, dtype=np.float64)
    if table.shape != shape:
        raise ValueError(f"a table of a result has the shape {shape}, not {table.shape}")
    return table


def domain_in(
    groups: Names, labels: Names, privacy: StatedPrivacy, kind: RecordKind = RecordKind.NONE
) -> RecordDomain:
    """Return a result file's domain, without the maximum count, which no file has.

    Raises:
        RecordDomainError: They make no domain.
    """
    cap = None
    if isinstance(privacy.cap, int | str):
        cap = cap_from_json(privacy.cap, "manifest.json")
    return RecordDomain(tuple(groups), tuple(labels), kind=kind, cap=cap)


def file_in(files: Iterable[ResultFile], kind: type[F]) -> F | None:
    """Return the file of this kind, None if there is none."""
    for file in files:
        if isinstance(file, kind):
            return file
    return None


def needed_file(files: Iterable[ResultFile], kind: type[F]) -> F:
    """Return the file of this kind, or raise ResultFileError."""
    file = file_in(files, kind)
    if file is None:
        raise ResultFileError(f"{kind.file_name} is missing; name the directory of a run as it left it.")
    return file


def file_to_json(file: ResultFile) -> dict[str, JsonValue]:
    """Return a file's content, with its privacy last."""
    fields = as_json(file)
    privacy = fields.pop("privacy")
    return {"schema": fields.pop("schema"), **fields, "privacy": privacy}


def without_intervals(value: JsonValue) -> JsonValue:
    """Return a file's content, or a part of it, without intervals' ends, which versions compute anew."""
    if isinstance(value, dict):
        kept = {name: part for name, part in value.items() if name not in INTERVAL_FIELDS}
        return {name: without_intervals(part) for name, part in kept.items()}
    if isinstance(value, list):
        return [without_intervals(part) for part in value]
    return value


def files_to_json(files: Iterable[ResultFile]) -> dict[str, dict[str, JsonValue]]:
    """Return the contents of files by name."""
    return {file.file_name: file_to_json(file) for file in files}


def read_file(path: Path, kind: type[F]) -> F:
    """Return a result file, given its path or its directory.

    Raises:
        ResultFileError: The file cannot be read, is of another schema, lacks a field, or has one beyond its
            bounds.
    """
    path = result_path(path, kind.file_name)
    refusal = not_result(path, kind.file_name)
    return as_type(kind, read_json(path, refusal, SCHEMA), refusal, more=True)
