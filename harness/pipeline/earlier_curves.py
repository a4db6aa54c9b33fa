"""Chooses thresholds again on the curves of an earlier run, without spending ε."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairshares.harness.errors import ResultFileError, named
from fairshares.harness.pipeline.earlier_results import EarlierFiles, revealed_by
from fairshares.harness.pipeline.manifest_of_run import environment
from fairshares.harness.privacy.manifest import ChoiceManifest, CurvesOf, Manifest, read_manifest
from fairshares.harness.releases.files import ResultFile, needed_file, read_file
from fairshares.harness.releases.registry import offering
from fairshares.harness.releases.thresholds.statistic import (
    CURVES,
    CurvesFile,
    NoisyCurves,
    ThresholdChoice,
    Thresholds,
    curves_in,
    thresholds_on,
)

OPENED_NOTHING = (
    "nothing: these thresholds were chosen on curves that another run revealed; its ε and δ are stated "
    "here, and none were spent for this choice"
)


@dataclass(frozen=True)
class ReleasedCurves:
    """Curves of an earlier run.

    Attributes:
        curves: The curves.
        run: The directory of the run that revealed them.
        manifest: The run's manifest.
    """

    curves: NoisyCurves
    run: str
    manifest: Manifest


def read_curves(directory: Path) -> ReleasedCurves:
    """Read the curves of a run or a later choice. Raises as `as_curves`."""
    manifest = read_manifest(directory)
    return as_curves(EarlierFiles(manifest, [read_file(directory / CURVES, CurvesFile)]), directory)


def as_curves(earlier: EarlierFiles, directory: Path) -> ReleasedCurves:
    """Return the curves in a run's files; files of a later choice name the run that revealed them.

    Raises ResultFileError for another task, or as `revealed_by`.
    """
    manifest = earlier.manifest
    tasks = offering("curves")
    if manifest.task not in tasks:
        raise ResultFileError(
            f"{directory} is the result of {manifest.task!r}; {named('curves')} takes that of "
            f"{' or '.join(map(repr, tasks))}."
        )
    revealed = revealed_by(earlier, directory)
    run = manifest.curves_of.run if isinstance(manifest, ChoiceManifest) else str(directory)
    return ReleasedCurves(curves_in(needed_file(earlier.files, CurvesFile)), run, revealed)


def choose_again(
    released: ReleasedCurves, choice: ThresholdChoice, positive: str | None
) -> tuple[Thresholds, ChoiceManifest, Sequence[ResultFile]]:
    """Choose thresholds on released curves; return them, their manifest, and their other files.

    None as `positive` keeps the run's label.
    Guarantees: the same options give the run's own thresholds, to the last bit on one machine.
    [test: tests/harness/pipeline/test_earlier_curves.py]

    Raises RecordDomainError for an unknown label, or UndefinedRateError, TooNoisyError or InfeasibleError.
    """
    started = time.monotonic()
    chosen = thresholds_on(released.curves.for_positive(positive), choice)
    if chosen.problem is not None:
        raise chosen.problem
    privacy = released.manifest.privacy
    manifest = ChoiceManifest(
        task=released.manifest.task,
        opened=OPENED_NOTHING,
        curves_of=CurvesOf(run=released.run, manifest=released.manifest),
        privacy=privacy,
        ledger=None,
        wall_s=time.monotonic() - started,
        environment=environment(),
    )
    return chosen, manifest, chosen.files(privacy)
