"""Results of earlier runs, read back from their files into what the run itself had found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import FairSharesError, ResultFileError
from harness.inputs.contribution_bounds import cap_from_json, scale_of
from harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from harness.pipeline.earlier_curves import CURVES, MANIFEST, as_curves
from harness.postprocessing.noisy_counts import NoisyCounts
from harness.postprocessing.reweighing.formulas import GroupWeights
from harness.postprocessing.thresholds.choose import RATES, GroupThresholds
from harness.postprocessing.thresholds.rules import rule_from_json
from harness.releases.confusion import Confusion, positive_in
from harness.releases.contribution_cap import ChosenCap
from harness.releases.counts import GroupCounts
from harness.releases.expected_errors import Floats
from harness.releases.gaps import Gaps, Interval
from harness.releases.score_curves import Thresholds
from harness.system.result_files import read_result
from protocols.mechanisms.shifted_log import ErrorTarget

Fields = Mapping[str, Any]
Files = Mapping[str, dict[str, Any]]
"""A run's result files by name, the manifest among them."""


def read_files(directory: Path) -> Files:
    """Return a run's files. Raises: ResultFileError: it is not the directory of a run that can be read."""
    names = [MANIFEST, *sorted(path.name for path in directory.glob("*.json") if path.name != MANIFEST)]
    files = {name: read_result(directory / name, name) for name in names}
    if files[MANIFEST].get("task") not in _READERS:
        raise ResultFileError(
            f"{directory} is the result of {files[MANIFEST].get('task')!r}; what can be read is that of "
            f"{', '.join(_READERS)}."
        )
    return files


def found_in(files: Files, directory: Path) -> Any:
    """Return what a run found, as its statistic gives it.

    Guarantees: what the run itself had, to the last bit. [test: tests/fairshares/test_results.py]
    Args: directory: for what an error says. Raises: ResultFileError: a file is missing or damaged.
    """
    task = files[MANIFEST]["task"]
    try:
        return _READERS[task](files, directory)
    except ResultFileError:
        raise
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ResultFileError(
            f"{directory} does not hold the files of a run of {task}, as it wrote them."
        ) from None


def _domain(fields: Fields, kind: RecordKind = RecordKind.NONE) -> RecordDomain:
    cap = fields["privacy"].get("cap")
    held = None if cap is None else cap_from_json(cap, MANIFEST)
    return RecordDomain(tuple(fields["groups"]), tuple(fields["labels"]), kind=kind, cap=held)


def _weights(files: Files, _: Path) -> GroupWeights:
    fields = files["weights.json"]
    domain, weights, reweighing = _domain(fields), np.array(fields["weights"]), fields["reweighing"]
    interval = np.array(fields["weights_interval"])
    counts = np.array(fields["noisy_counts"]) * scale_of(domain.cap)
    return GroupWeights(domain, counts, np.array(fields["floored"]), weights, interval, reweighing)


def _confusion(files: Files, _: Path) -> Confusion:
    fields = files["confusion.json"]
    domain = _domain(fields, RecordKind.PREDICTION)
    table = np.array(fields["noisy_counts"]) * scale_of(domain.cap)
    each = [[fields["rates"][group][label] for label in domain.labels] for group in domain.groups]
    found = {name: [[label[name] for label in group] for group in each] for name in each[0][0]}
    rates = {
        name: _floats([[each["estimate"] for each in row] for row in rows]) for name, rows in found.items()
    }
    intervals = {
        name: _floats([[each["interval"] for each in row] for row in rows]) for name, rows in found.items()
    }
    positive = positive_in(domain, fields["positive_label"] or "")
    return Confusion(NoisyCounts(domain, table, ()), rates, intervals, positive)


def _thresholds(files: Files, directory: Path) -> Thresholds:
    curves = as_curves(files[MANIFEST], files[CURVES], directory).curves
    if "thresholds.json" not in files:
        return Thresholds(curves, None)
    fields = files["thresholds.json"]
    rules = {group: rule_from_json(rule, group) for group, rule in fields["thresholds"].items()}
    each = list(fields["rates"].values())
    chosen = GroupThresholds(
        **{name: fields[name] for name in ("constraint", "objective", "tolerance", "deterministic")},
        rules=rules,
        rates={name: _floats([rates[name]["estimate"] for rates in each]) for name in RATES},
        intervals={name: _floats([rates[name]["interval"] for rates in each]) for name in RATES},
        objective_value=fields["objective_value"],
        gap=fields["gap"],
        gap_interval=tuple(fields["gap_interval"]),
        least_tolerance=fields["tolerance_is_the_least"],
    )
    return Thresholds(curves.for_positive(fields["positive_label"]), chosen)


def _gap(files: Files, _: Path) -> Gaps:
    fields = files["gap.json"]
    groups, grid = fields["groups"], ValueGrid(**fields["values"])
    domain = RecordDomain(tuple(groups), (), 1, kind=RecordKind.VALUE, values=grid)
    pairs = {tuple(map(groups.index, each["groups"])): _interval(each) for each in fields["gaps"]}
    means = tuple(_interval(fields["means"][group]) for group in groups)
    useful = fields["clients_per_group_for_a_tenth_of_the_range"]
    return Gaps(domain, _floats(fields["noisy_sizes"]), tuple(fields["near_zero"]), means, pairs, useful)


def _interval(fields: Fields) -> Interval:
    estimate = math.nan if fields["estimate"] is None else fields["estimate"]
    low, high = fields["interval"]
    return Interval(estimate, low, high, fields["says_something"])


def _count(files: Files, _: Path) -> GroupCounts:
    fields = files["count.json"]
    target = ErrorTarget(*(fields[name] for name in ("relative_error", "error_from", "error_to")))
    counts, intervals = _floats(fields["counts"]), _floats(fields["counts_interval"])
    offset, by_size = fields["offset"], fields["privacy_by_size"]
    return GroupCounts(_domain(fields), counts, intervals, offset, target, by_size)


def _cap(files: Files, _: Path) -> ChosenCap:
    fields = files["cap.json"]
    caps = tuple(fields["caps"])
    return ChosenCap(caps, caps.index(fields["cap"]), fields["allowed_above"], fields["noise"])


def _floats(values: Any) -> Floats:
    """Return an array, NaN where JSON has null."""
    return np.array(values, dtype=np.float64)


_READERS: dict[str, Callable[[Files, Path], Any]] = {
    "weights": _weights,
    "confusion": _confusion,
    "thresholds": _thresholds,
    "gap": _gap,
    "count": _count,
    "cap": _cap,
}
