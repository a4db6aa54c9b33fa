"""Thresholds chosen again on curves that an earlier run released: post-processing, which spends no ε."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import FairSharesError, ResultFileError, named
from harness.inputs.contribution_bounds import cap_from_json
from harness.pipeline.manifest import SCHEMA, environment
from harness.postprocessing.curves import GroupCurves
from harness.privacy.statement import read_statement
from harness.releases.score_curves import (
    NoisyCurves,
    ThresholdChoice,
    Thresholds,
    curve_noise,
    noise_from_json,
    thresholds_on,
)
from harness.system.result_files import read_result

TASK = "thresholds"
MANIFEST, CURVES = "manifest.json", "curves.json"
OPENED_NOTHING = (
    "nothing: these thresholds were chosen on curves that another run revealed; its ε and δ are stated "
    "here, and none were spent for this choice"
)
_CLOSE = 1e-9  # relative, for sums that another processor may round differently


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
        found: dict[str, Any] = self.manifest["privacy"]
        return found


def read_curves(directory: Path) -> ReleasedCurves:
    """Read what a run of `thresholds` wrote, or a choice on its curves.

    Edge cases: of a choice on curves, the run is still the one that opened them.
    Raises: ResultFileError: the directory holds no such result, or its files are damaged, do not go
    together, or are of another version. Counts that were changed alike in all places go unnoticed.
    """
    return as_curves(
        read_result(directory / MANIFEST, MANIFEST), read_result(directory / CURVES, CURVES), directory
    )


def as_curves(manifest: dict[str, Any], fields: Mapping[str, Any], directory: Path) -> ReleasedCurves:
    """Return the curves that a run's files hold. Args: manifest, fields: of `CURVES`. Raises: as above."""
    if manifest.get("task") != TASK:
        raise ResultFileError(
            f"{directory} is the result of {manifest.get('task')!r}; {named('curves')} takes that of "
            f"{TASK!r}."
        )
    try:
        run, manifest = _origin(manifest, str(directory))
        privacy = manifest["privacy"]
        curves = _curves(fields, privacy)
        intact = _as_written(curves, fields, privacy) and read_statement(manifest).to_json() == privacy
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
    found = thresholds_on(released.curves.for_positive(positive), choice)
    if found.problem is not None:
        raise found.problem
    privacy = released.privacy
    files = {name: {"schema": SCHEMA, **fields, "privacy": privacy} for name, fields in found.files().items()}
    manifest = {
        "schema": SCHEMA,
        "task": TASK,
        "opened": OPENED_NOTHING,
        "curves_of": {"run": released.run, "manifest": released.manifest},
        "privacy": privacy,
        "ledger": None,
        "wall_s": time.monotonic() - started,
        "environment": environment(),
    }
    return found, {**files, MANIFEST: manifest}


def _origin(manifest: dict[str, Any], directory: str) -> tuple[str, dict[str, Any]]:
    """Return the run that opened the curves, and its manifest."""
    if "curves_of" not in manifest:
        return directory, manifest
    of = manifest["curves_of"]
    if manifest["privacy"] != of["manifest"]["privacy"]:
        raise ValueError("a choice states the privacy of its curves")
    return of["run"], of["manifest"]


def _curves(fields: Mapping[str, Any], privacy: Mapping[str, Any]) -> NoisyCurves:
    """Return the curves of a file. Raises: what parsing raises, whatever it holds instead."""
    names = ("thresholds", "true_positives", "false_positives", "positives", "negatives")
    grid, tp, fp, positives, negatives = (np.array(fields[name], dtype=float) for name in names)
    blocks = tuple(fields["blocks"])
    node = noise_from_json(fields)
    cap = cap_from_json(privacy["cap"], MANIFEST) if "cap" in privacy else None
    noise = curve_noise(len(grid), blocks, cap, node)
    curves = GroupCurves(tuple(fields["groups"]), grid, tp, fp, positives, negatives, noise)
    return NoisyCurves(fields["positive_label"], fields["negative_label"], blocks, node, curves)


def _as_written(found: NoisyCurves, fields: Mapping[str, Any], privacy: dict[str, Any]) -> bool:
    """Return whether a run would write these very fields, and whether they go together."""
    curves, labels = found.curves, (found.positive, found.negative)
    written = {"schema": SCHEMA, **found.to_json(), "privacy": privacy}
    errors = written["standard_error"]
    names = all(isinstance(name, str) for name in (*curves.groups, *labels)) and len(set(labels)) == 2
    counts = (
        np.concatenate([curves.tp, curves.fp])[:, 0],
        np.concatenate([curves.positives, curves.negatives]),
    )
    return (
        names
        and {**fields, "standard_error": errors} == written
        and np.allclose(fields["standard_error"], errors, rtol=_CLOSE, atol=0)
        and (not found.blocks or np.allclose(*counts, rtol=_CLOSE, atol=_CLOSE))
    )
