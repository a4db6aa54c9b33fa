"""Results of earlier runs, read back from their files; and thresholds chosen again on released curves.

Both are post-processing, which spends no ε.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import FairSharesError, ResultFileError, named
from harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid, cap_from_json, scale_of
from harness.pipeline.run import MANIFEST, environment, result_files
from harness.postprocessing.curves import GroupCurves
from harness.postprocessing.noisy_counts import NoisyCounts
from harness.postprocessing.reweighing.formulas import GroupWeights
from harness.postprocessing.thresholds.choose import RATES, GroupThresholds
from harness.postprocessing.thresholds.rules import rule_from_json
from harness.privacy.statement import read_statement
from harness.releases.confusion import Confusion, positive_in
from harness.releases.contribution_cap import ChosenCap
from harness.releases.counts import GroupCounts
from harness.releases.gaps import Gaps, Interval
from harness.releases.score_curves import (
    NoisyCurves,
    ThresholdChoice,
    Thresholds,
    curve_noise,
    noise_from_json,
    thresholds_on,
)
from harness.system.result_files import SCHEMA, read_result
from protocols.arrays import Floats
from protocols.mechanisms.shifted_log import ErrorTarget

CURVES = "curves.json"
OPENED_NOTHING = (
    "nothing: these thresholds were chosen on curves that another run revealed; its ε and δ are stated "
    "here, and none were spent for this choice"
)
_CLOSE = 1e-9  # relative, for sums that another processor may round differently

Fields = Mapping[str, Any]
Files = Mapping[str, dict[str, Any]]
"""A run's result files by name, the manifest among them."""


@dataclass(frozen=True)
class ReleasedCurves:
    """Curves of an earlier run.

    Attributes: run: its directory, as it was named; manifest: of the run that opened them.
    """

    curves: NoisyCurves
    run: str
    manifest: dict[str, Any]

    @property
    def privacy(self) -> dict[str, Any]:
        """The privacy part of the manifest: what was spent when the curves were revealed."""
        stated: dict[str, Any] = self.manifest["privacy"]
        return stated


def read_curves(directory: Path) -> ReleasedCurves:
    """Read what a run of `thresholds` wrote, or a choice on its curves. Raises: as `as_curves`."""
    return as_curves({name: read_result(directory / name, name) for name in (MANIFEST, CURVES)}, directory)


def as_curves(files: Files, directory: Path) -> ReleasedCurves:
    """Return the curves that a run's files hold.

    Edge cases: of a choice on curves, the run is still the one that opened them.
    Raises: ResultFileError: they are not the files of such a run, or are damaged, do not go together, or are
    of another version. Counts that were changed alike in all places go unnoticed.
    """
    manifest = files[MANIFEST]
    if manifest.get("task") != "thresholds":
        raise ResultFileError(
            f"{directory} is the result of {manifest.get('task')!r}; {named('curves')} takes that of "
            "'thresholds'."
        )
    try:
        fields, stated = files[CURVES], manifest["privacy"]
        opened_by = manifest.get("curves_of", {"run": str(directory), "manifest": manifest})
        run, manifest = opened_by["run"], opened_by["manifest"]
        privacy = manifest["privacy"]
        curves = _curves(fields, privacy)
        intact = stated == privacy == read_statement(manifest).to_json() and _as_written(
            curves, fields, privacy
        )
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        intact = False
    if not intact:
        raise ResultFileError(
            f"{directory / CURVES} and {MANIFEST} beside it are not as this version writes them: they were "
            "changed, or another version wrote them; name the directory of a run as it left it."
        )
    return ReleasedCurves(curves, run, manifest)


def choose_again(
    released: ReleasedCurves, choice: ThresholdChoice, positive: str
) -> tuple[Thresholds, dict[str, dict[str, Any]]]:
    """Choose thresholds on released curves; return them, and their files with the curves and a manifest.

    Guarantees: the same options give the thresholds of the run itself, to the last bit on one machine.
    [test: tests/harness/pipeline/test_earlier_curves.py]
    Args: positive: the label that counts as positive; as in the run if empty.
    Raises: RecordDomainError: there is no such label; UndefinedRateError, TooNoisyError, InfeasibleError: the
    curves do not allow this choice.
    """
    started = time.monotonic()
    chosen = thresholds_on(released.curves.for_positive(positive), choice)
    if chosen.problem is not None:
        raise chosen.problem
    privacy = released.privacy
    files = result_files(chosen.files(), privacy)
    manifest = {
        "schema": SCHEMA,
        "task": "thresholds",
        "opened": OPENED_NOTHING,
        "curves_of": {"run": released.run, "manifest": released.manifest},
        "privacy": privacy,
        "ledger": None,
        "wall_s": time.monotonic() - started,
        "environment": environment(),
    }
    return chosen, {**files, MANIFEST: manifest}


def _curves(fields: Fields, privacy: Fields) -> NoisyCurves:
    """Return the curves of a file. Raises: what parsing raises, whatever it holds instead."""
    names = ("true_positives", "false_positives", "positives", "negatives")
    grid = np.array(fields["thresholds"], dtype=float)
    blocks = tuple(fields["blocks"])
    node = noise_from_json(fields)
    cap = cap_from_json(privacy["cap"], MANIFEST) if "cap" in privacy else None
    noise = curve_noise(len(grid), blocks, cap, node)

    def of(counts: Fields) -> GroupCurves:
        tp, fp, positives, negatives = (np.array(counts[name], dtype=float) for name in names)
        return GroupCurves(tuple(fields["groups"]), grid, tp, fp, positives, negatives, noise)

    others = {label: of(counts) for label, counts in fields.get("others", {}).items()}
    labels = (fields["positive_label"], fields["negative_label"])
    return NoisyCurves(*labels, blocks, node, of(fields), others)


def _as_written(read_curves: NoisyCurves, fields: Fields, privacy: dict[str, Any]) -> bool:
    """Return whether a run would write these very fields, and whether they go together."""
    curves, labels = read_curves.curves, (read_curves.positive, read_curves.negative)
    written = {"schema": SCHEMA, **read_curves.to_json(), "privacy": privacy}
    errors = written["standard_error"]
    names = all(isinstance(name, str) for name in (*curves.groups, *labels)) and len(set(labels)) == 2
    sets = (curves, *read_curves.others.values())
    counts = (
        np.concatenate([counts_at for of in sets for counts_at in (of.tp, of.fp)])[:, 0],
        np.concatenate([totals for of in sets for totals in (of.positives, of.negatives)]),
    )
    return (
        names
        and {**fields, "standard_error": errors} == written
        and np.allclose(fields["standard_error"], errors, rtol=_CLOSE, atol=0)
        and np.allclose(*counts, rtol=_CLOSE, atol=_CLOSE)
    )


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


def domain_of(fields: Fields, kind: RecordKind = RecordKind.NONE) -> RecordDomain:
    """Return the domain that a result file is of, but for the most records of a client."""
    cap = fields["privacy"].get("cap")
    stated_cap = None if cap is None else cap_from_json(cap, MANIFEST)
    return RecordDomain(tuple(fields["groups"]), tuple(fields["labels"]), kind=kind, cap=stated_cap)


def _weights(files: Files, _: Path) -> GroupWeights:
    fields = files["weights.json"]
    domain = domain_of(fields)
    return GroupWeights(
        domain=domain,
        noisy_counts=np.array(fields["noisy_counts"]) * scale_of(domain.cap),
        floored=np.array(fields["floored"]),
        weights=np.array(fields["weights"]),
        interval=np.array(fields["weights_interval"]),
        reweighing=fields["reweighing"],
    )


def _confusion(files: Files, _: Path) -> Confusion:
    fields = files["confusion.json"]
    domain = domain_of(fields, RecordKind.PREDICTION)
    counts = NoisyCounts(domain, np.array(fields["noisy_counts"]) * scale_of(domain.cap), ())
    cells = [fields["rates"][group][label] for group in domain.groups for label in domain.labels]
    rates = _rates(cells, (len(domain.groups), len(domain.labels)))
    return Confusion(counts, *rates, positive_in(domain, fields["positive_label"] or ""))


def _thresholds(files: Files, directory: Path) -> Thresholds:
    curves = as_curves(files, directory).curves
    if "thresholds.json" not in files:
        return Thresholds(curves, None)
    fields = files["thresholds.json"]
    others = {label: of and _chosen(of) for label, of in fields.get("others", {}).items()}
    return Thresholds(curves.for_positive(fields["positive_label"]), _chosen(fields), others=others)


def _chosen(fields: Fields) -> GroupThresholds:
    rates, intervals = _rates(list(fields["rates"].values()), (len(fields["rates"]),))
    return GroupThresholds(
        **{name: fields[name] for name in ("constraint", "objective", "tolerance", "deterministic")},
        rules={group: rule_from_json(rule, group) for group, rule in fields["thresholds"].items()},
        rates=rates,
        intervals=intervals,
        objective_value=fields["objective_value"],
        gap=fields["gap"],
        gap_interval=tuple(fields["gap_interval"]),
        least_tolerance=fields["tolerance_is_the_least"],
    )


def _rates(cells: Sequence[Fields], shape: tuple[int, ...]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the cells' estimates and intervals, by the rates' names. Args: shape: of the estimates."""
    estimates = {name: _floats([cell[name]["estimate"] for cell in cells]).reshape(shape) for name in RATES}
    ends = {name: _floats([cell[name]["interval"] for cell in cells]).reshape(*shape, 2) for name in RATES}
    return estimates, ends


def _gap(files: Files, _: Path) -> Gaps:
    fields = files["gap.json"]
    groups, values = fields["groups"], ValueGrid(**fields["values"])
    return Gaps(
        domain=RecordDomain(tuple(groups), (), 1, kind=RecordKind.VALUE, values=values),
        sizes=_floats(fields["noisy_sizes"]),
        near_zero=tuple(fields["near_zero"]),
        means=tuple(_interval(fields["means"][group]) for group in groups),
        gaps={tuple(map(groups.index, gap["groups"])): _interval(gap) for gap in fields["gaps"]},
        useful=fields["clients_per_group_for_a_tenth_of_the_range"],
    )


def _interval(fields: Fields) -> Interval:
    low, high = fields["interval"]
    return Interval(float(_floats(fields["estimate"])), low, high, fields["says_something"])


def _count(files: Files, _: Path) -> GroupCounts:
    fields = files["count.json"]
    target = ErrorTarget(*(fields[name] for name in ("relative_error", "error_from", "error_to")))
    counts, intervals = _floats(fields["counts"]), _floats(fields["counts_interval"])
    return GroupCounts(
        domain_of(fields), counts, intervals, fields["offset"], target, fields["privacy_by_size"]
    )


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
