"""`thresholds`: score curves per group, and thresholds that treat groups alike."""

from pathlib import Path
from typing import Any

from harness.cli.commands.releases import present, release
from harness.pipeline.earlier_results import choose_again, read_curves
from harness.releases.score_curves import choice_of
from harness.system.result_files import default_out, write_files
from harness.views.releases import thresholds as view
from harness.views.run import in_short, privacy


def thresholds(options: Any) -> None:
    """Run π_ROC, or choose on its curves again."""
    if options.curves:
        _choose_again(options.curves, options)
    else:
        release(options)


def _choose_again(directory: Path, options: Any) -> None:
    target = options.out or default_out("thresholds")
    curves = read_curves(directory)
    choice, files = choose_again(curves, choice_of(options), options.positive_label or "")
    write_files(target, files)
    again, manifest = view.chosen_again(curves.run), curves.manifest
    short, full = in_short(manifest), privacy(manifest)
    shown = list(view.thresholds(choice))
    present(options, manifest, target, "Thresholds", shown, [again, short], [again, *full])
