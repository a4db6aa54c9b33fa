"""Post-processing of earlier results, for no ε."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path

from fairshares.harness.cli.report import present
from fairshares.harness.pipeline.chains import add_up
from fairshares.harness.pipeline.earlier_curves import choose_again, read_curves
from fairshares.harness.privacy.manifest import (
    MANIFEST,
    ChoiceManifest,
    SumManifest,
    opened_by,
)
from fairshares.harness.releases.base import Answer
from fairshares.harness.releases.files import ResultFile, files_to_json
from fairshares.harness.releases.thresholds.request import EarlierCurves
from fairshares.harness.releases.thresholds.statistic import ThresholdsStatistic
from fairshares.harness.releases.thresholds.view import chosen_again
from fairshares.harness.releases.weights.request import RunsOfAChain
from fairshares.harness.releases.weights.view import chain, signed_by
from fairshares.harness.request.commands import Earlier, ReleaseOptions
from fairshares.harness.request.request import Request
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import default_out, write_files
from fairshares.harness.uploads.signatures import read_fingerprints
from fairshares.harness.views.run_summary import in_short, privacy, view_of


@dataclass(frozen=True)
class Again:
    """A result that follows from earlier ones.

    Attributes:
        found: The result.
        manifest: The part's own manifest, which holds the manifest of the run that revealed it.
        files: The other files.
        notes: Sentences on the earlier results.
    """

    found: Answer
    manifest: SumManifest | ChoiceManifest
    files: Sequence[ResultFile]
    notes: Sequence[str]


def again(options: ReleaseOptions) -> None:
    """Go on with earlier results, and show what follows from them."""
    task = options.task()
    target = options.call.where.out or default_out(task)
    result = going_on(options.earlier, options.call.request)
    write_files(target, {**files_to_json(result.files), MANIFEST: as_json(result.manifest)})
    manifest = opened_by(result.manifest)
    present(
        options.plot,
        manifest,
        target,
        task.capitalize(),
        answer=list(view_of(task).show(result.found, manifest)),
        short=[*result.notes, in_short(manifest)],
        full=[*result.notes, *privacy(manifest)],
    )


@singledispatch
def going_on(earlier: Earlier, _request: Request) -> Again:
    """Return the results that follow from earlier ones, by a function below for each kind of these."""
    raise NotImplementedError(f"No command goes on with {type(earlier).__name__}.")


@going_on.register
def _(earlier: RunsOfAChain, _request: Request) -> Again:
    """Add up the counts of a chain's runs."""
    from fairshares.harness.hosts.signed_results import signers_of  # slow to load

    known = read_fingerprints(earlier.fingerprints) if earlier.fingerprints else None
    directories = [Path(directory) for directory in earlier.add or ()]
    total = add_up(directories, signers_of(directories), known)
    notes = [*chain(total.manifest), *signed_by(signed=total.signed, compared=total.compared)]
    return Again(total.weights, total.manifest, total.files, notes)


@going_on.register
def _(earlier: EarlierCurves, request: Request) -> Again:
    """Choose thresholds again on the curves of a run."""
    assert earlier.curves is not None  # else nothing is gone on with
    curves = read_curves(earlier.curves)
    asked = ThresholdsStatistic.for_request(request)
    found, manifest, files = choose_again(curves, asked.choice, asked.curves.positive)
    return Again(found, manifest, files, [chosen_again(curves.run)])
