"""Results of earlier runs, read back from their files; and thresholds chosen again on released curves.

Both are post-processing, which spends no ε.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import FairSharesError, ResultFileError, named
from harness.pipeline.run import MANIFEST, environment, result_files
from harness.privacy.statement import read_statement
from harness.releases.base import Files
from harness.releases.registry import STATISTICS
from harness.releases.score_curves import (
    CURVES,
    NoisyCurves,
    ThresholdChoice,
    Thresholds,
    curves_from_json,
    thresholds_on,
)
from harness.system.result_files import SCHEMA, read_result

OPENED_NOTHING = (
    "nothing: these thresholds were chosen on curves that another run revealed; its ε and δ are stated "
    "here, and none were spent for this choice"
)
_CLOSE = 1e-9  # relative, for sums that another processor may round differently

Fields = Mapping[str, Any]


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
    if files[MANIFEST].get("task") not in STATISTICS:
        raise ResultFileError(
            f"{directory} is the result of {files[MANIFEST].get('task')!r}; what can be read is that of "
            f"{', '.join(STATISTICS)}."
        )
    return files


def found_in(files: Files, directory: Path) -> Any:
    """Return what a run found, as its statistic gives it.

    Guarantees: what the run itself had, to the last bit. [test: tests/fairshares/test_results.py]
    Args: directory: for what an error says. Raises: ResultFileError: a file is missing or damaged.
    """
    task = files[MANIFEST]["task"]
    try:
        if CURVES in files:
            as_curves(files, directory)  # which says what is wrong with them
        return STATISTICS[task].read_files(files)
    except ResultFileError:
        raise
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ResultFileError(
            f"{directory} does not hold the files of a run of {task}, as it wrote them."
        ) from None
