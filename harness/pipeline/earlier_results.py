"""Reads earlier results, and chooses thresholds again, without spending ε."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.errors import FairSharesError, ResultFileError, named
from harness.pipeline.run import MANIFEST, SIGNATURES, environment, result_files
from harness.postprocessing.noisy_counts import NoisyCounts
from harness.privacy.statement import read_exact, read_statement
from harness.releases.base import Files, domain_of, statistic_class, statistic_of
from harness.releases.score_curves import (
    CURVES,
    NoisyCurves,
    ThresholdChoice,
    Thresholds,
    curves_from_json,
    thresholds_on,
)
from harness.releases.weights import Weights, WeightsStatistic
from harness.request.releases import REQUESTS, request_from_json
from harness.reweighing.formulas import REWEIGHINGS
from harness.system.result_files import SCHEMA, read_result
from protocols.noise.added import Several, Single

OPENED_NOTHING = (
    "nothing: these thresholds were chosen on curves that another run revealed; its ε and δ are stated "
    "here, and none were spent for this choice"
)
_MOST_FILES = 16  # of JSON, in a run's directory
_SHOWN = 200  # characters of a reason
_CLOSE = 1e-9  # relative, for sums that another processor may round differently

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class ReleasedCurves:
    """Curves of an earlier run, its directory, and its manifest."""

    curves: NoisyCurves
    run: str
    manifest: dict[str, Any]

    @property
    def privacy(self) -> dict[str, Any]:
        """The manifest's privacy statement."""
        return dict(self.manifest["privacy"])


def read_curves(directory: Path) -> ReleasedCurves:
    """Read the curves of a run or a later choice. Raises as `as_curves`."""
    return as_curves({name: read_result(directory / name, name) for name in (MANIFEST, CURVES)}, directory)


def as_curves(files: Files, directory: Path) -> ReleasedCurves:
    """Return the curves in a run's files; those of a later choice name the run that revealed them.

    Raises ResultFileError for another task or version, or damage. Consistent changes of all counts go
    unnoticed.
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
        curves = curves_from_json(fields, privacy)
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
    """Choose thresholds on released curves; return them and their files.

    An empty `positive` keeps the run's label.
    Guarantees: the same options give the run's own thresholds, to the last bit on one machine.
    [test: tests/harness/pipeline/test_earlier_curves.py]

    Raises RecordDomainError for an unknown label, or UndefinedRateError, TooNoisyError or InfeasibleError.
    """
    started = time.monotonic()
    chosen = thresholds_on(released.curves.for_positive(positive), choice)
    if chosen.problem is not None:
        raise chosen.problem
    privacy = released.privacy
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
    return chosen, {**result_files(chosen.files(), privacy), MANIFEST: manifest}


def _as_written(read_curves: NoisyCurves, fields: Fields, privacy: dict[str, Any]) -> bool:
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
    """Return a run's files; ResultFileError if there is no run."""
    names = [MANIFEST, *sorted(path.name for path in directory.glob("*.json") if path.name != MANIFEST)]
    if len(names) > _MOST_FILES:
        raise ResultFileError(
            f"{directory} has {len(names)} files of JSON, and no run writes more than {_MOST_FILES}; name "
            "the directory of a run as it left it."
        )
    files = {name: read_result(directory / name, name) for name in names}
    if files[MANIFEST].get("task") not in REQUESTS:
        raise ResultFileError(
            f"{directory} is the result of {files[MANIFEST].get('task')!r}; what can be read is that of "
            f"{', '.join(REQUESTS)}."
        )
    _check_statement(files[MANIFEST], directory / MANIFEST)
    return files


def _check_statement(manifest: Mapping[str, Any], path: Path) -> None:
    """Raise ResultFileError for a manifest that states no guarantee in numbers of their ranges."""
    try:
        opened_by = manifest.get("curves_of", {"manifest": manifest})["manifest"]
        if read_statement(opened_by).exact != read_exact(manifest):
            raise ValueError("it is another than that of the run which revealed the curves")
        exact, stated = read_exact(manifest), manifest["privacy"]
        for name in ("epsilon", "delta"):
            if type(stated[name]) not in (int, float) or stated[name] < getattr(exact, name):
                raise ValueError(f"its {name} is no number, or less than the exact one")
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ResultFileError(
            f"{path} states no guarantee as a run does: {reason[:_SHOWN]}; name the directory of a run as it "
            "left it."
        ) from None


def found_in(files: Files, directory: Path) -> Any:
    """Return the result in a run's files; ResultFileError if they hold none.

    Guarantees: it equals the run's own result to the last bit.  [test: tests/fairshares/test_results.py]
    """
    task = files[MANIFEST]["task"]
    try:
        if CURVES in files:
            as_curves(files, directory)  # gives a precise error
        return statistic_class(task).read_files(files)
    except ResultFileError:
        raise
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ResultFileError(
            f"{directory} does not hold the files of a run of {task}, as it wrote them."
        ) from None


class _Run(NamedTuple):
    manifest: dict[str, Any]
    terms: tuple[Any, ...]  # the same for all runs of the chain
    uploads: str  # a hash of the counted ones
    counts: NoisyCounts
    noise: Single
    reweighing: str


def add_up(directories: Sequence[Path], verify: Callable[[Path], object]) -> tuple[Weights, Files]:
    """Add up the counts of a chain's runs; return the weights that follow, and their files.

    `verify` checks results that hosts signed.
    Computes: the sum of the counts, with the sum of the runs' independent noises. It protects what each run
    protects (theorem 16).  [test: tests/harness/pipeline/test_chains.py]

    Raises ResultFileError if a directory holds no run of the chain, or one that another holds; or as
    `verify`.
    """
    started, runs = time.monotonic(), [_run_in(directory, verify) for directory in directories]
    first = runs[0]
    for directory, run in zip(directories, runs, strict=True):
        if run.terms != first.terms:
            raise ResultFileError(
                f"{directory} is of another chain than {directories[0]}, or states another guarantee; add up "
                "runs of one chain."
            )
    if len({run.uploads for run in runs}) < len(runs):
        raise ResultFileError("Two of these directories hold the same run; name each run once.")
    table = np.sum([run.counts.table for run in runs], axis=0)
    counts = NoisyCounts(first.counts.domain, table, Several(tuple(run.noise for run in runs)))
    weights = Weights(counts, REWEIGHINGS[first.reweighing](counts))
    manifest = {
        **{
            name: first.manifest[name]
            for name in (
                "schema",
                "task",
                "security",
                "engine",
                "engine_version",
                "request",
                "privacy",
                "ledger",
            )
        },
        "added_up": list(map(str, directories)),
        "inputs": {
            name: sum(run.manifest["inputs"][name] for run in runs) for name in ("clients", "uploads")
        },
        "wall_s": time.monotonic() - started,
        "environment": environment(),
    }
    files = result_files(WeightsStatistic().files(weights), manifest["privacy"])
    return weights, {**files, MANIFEST: manifest}


def _run_in(directory: Path, verify: Callable[[Path], object]) -> _Run:
    if (directory / SIGNATURES).exists():
        verify(directory)
    files = read_files(directory)
    manifest, fields = files[MANIFEST], files.get("weights.json", {})
    try:
        request: Any = request_from_json(manifest["request"])
        ledger, privacy = manifest["ledger"], fields["privacy"]
        domain = replace(domain_of(fields), max_count=manifest["inputs"]["max_count"])
        plan = statistic_of(request).prepare(request, domain).plan
        counts = NoisyCounts(domain, np.array(fields["noisy_counts"], dtype=np.float64), plan.noise)
        run = _Run(
            manifest,
            (ledger["path"], ledger["charge"], request.population, request.inputs.chain, privacy, domain),
            manifest["inputs"]["uploads_sha256"],
            counts,
            plan.noise,
            request.reweighing,
        )
        intact = privacy == manifest["privacy"] and read_statement(manifest).exact == plan.exact
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        intact = False
    if not (intact and run.terms[3]):
        raise ResultFileError(
            f"{directory} is not the result of a run of a chain, as the run left it; name directories that "
            f"runs of weights with {named('chain')} wrote."
        )
    return run
