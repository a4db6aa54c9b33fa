"""Post-processing of earlier results, for no ε."""

from pathlib import Path
from typing import Any

from fairshares.harness.cli.commands.choices import read_fingerprints
from fairshares.harness.cli.report import present
from fairshares.harness.pipeline.earlier_results import add_up, choose_again, read_curves
from fairshares.harness.privacy.manifest import (
    FILE as MANIFEST,
    ChoiceManifest,
    SumManifest,
    opened_by,
)
from fairshares.harness.releases.files import files_to_json
from fairshares.harness.releases.thresholds.statistic import ThresholdsStatistic
from fairshares.harness.releases.thresholds.view import chosen_again
from fairshares.harness.releases.weights.view import chain, signed_by
from fairshares.harness.request.commands import ReleaseOptions
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import default_out, write_files
from fairshares.harness.views.run import in_short, privacy, view_of


def again(options: ReleaseOptions) -> None:
    """Add up a chain's counts, or choose thresholds again."""
    found: Any
    own: SumManifest | ChoiceManifest
    request = options.call.request
    earlier = options.earlier
    task = request.task
    target = options.call.where.out or default_out(task)
    if earlier.add:
        from fairshares.harness.hosts.signed_results import signers_of  # slow to load

        known = read_fingerprints(earlier.fingerprints) if earlier.fingerprints else None
        total = add_up([Path(directory) for directory in earlier.add], signers_of, known)
        found = total.weights
        own = total.manifest
        files = total.files
        notes = [*chain(own), *signed_by(signed=total.signed, compared=total.compared)]
    else:
        assert earlier.curves is not None
        curves = read_curves(earlier.curves)
        asked = ThresholdsStatistic.of(request)
        found, own, files = choose_again(curves, asked.choice, asked.curves.positive)
        notes = [chosen_again(curves.run)]
    write_files(target, {**files_to_json(files), MANIFEST: as_json(own)})
    manifest = opened_by(own)
    present(
        options.plot,
        manifest,
        target,
        task.capitalize(),
        answer=list(view_of(task).show(found, manifest)),
        short=[*notes, in_short(manifest)],
        full=[*notes, *privacy(manifest)],
    )
