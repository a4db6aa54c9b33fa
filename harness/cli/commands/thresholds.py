"""`thresholds`: DP score curves per group, and the thresholds that treat groups alike."""

from __future__ import annotations

from pathlib import Path

from harness.cli.commands.releases import conclude, present, released
from harness.cli.release_options import ThresholdsOptions
from harness.pipeline.earlier_curves import choose_again, read_curves
from harness.system.result_files import default_out
from harness.views.releases import thresholds as view
from harness.views.run import in_short, privacy


def thresholds(options: ThresholdsOptions) -> None:
    """Run π_ROC on a records file or on shares; or choose on its curves again."""
    if options.curves:
        _choose_again(options.curves, options)
        return
    run, target = released(options, view.STEPS)
    hints, shown = [view.another_choice(target)], view.thresholds(run.found)
    conclude(options, run, target, shown, "thresholds", hints, run.found.problem)


def _choose_again(directory: Path, options: ThresholdsOptions) -> None:
    target = options.out or default_out("thresholds")
    curves = read_curves(directory)
    found = choose_again(curves, options.choice, options.positive_label or "", target)
    again, manifest = view.chosen_again(curves.run), curves.manifest
    short, full = in_short(manifest), privacy(manifest)
    shown = list(view.thresholds(found))
    present(options, manifest, target, "Thresholds", shown, [again, short], [again, *full])
