"""`thresholds`: DP score curves per group, and the thresholds that treat groups alike."""

from __future__ import annotations

from pathlib import Path

from harness.cli.commands.releases import conclude, release, settings_of
from harness.cli.options import ThresholdsOptions
from harness.cli.terminal import show
from harness.pipeline.thresholds_again import choose_again, read_curves
from harness.releases.score_curves import (
    CurvesStatistic,
    ThresholdChoice,
    ThresholdsStatistic,
)
from harness.system.result_files import default_out
from harness.views.releases import thresholds as view
from harness.views.run import results, statement

VARIANTS = CurvesStatistic.specs


def thresholds(options: ThresholdsOptions) -> None:
    """Run π_ROC on a records file or on shares; or choose on its curves again."""
    choice = ThresholdChoice(options.constraint, options.objective, options.tolerance, options.deterministic)
    positive = options.positive_label or ""
    if options.curves:
        _choose_again(options.curves, choice, positive, options)
        return
    spec = VARIANTS[options.variant]
    settings = settings_of(options, spec)
    curves = CurvesStatistic(options.blocks == "flat", positive, spec)
    run, target = release(options, ThresholdsStatistic(curves, choice), settings, view.STEPS)
    shown = (*view.thresholds(run.found), *statement(run.manifest, "thresholds"))
    show(*shown, view.another_choice(target))
    conclude(options, run, target, run.found.problem)


def _choose_again(
    directory: Path, choice: ThresholdChoice, positive: str, options: ThresholdsOptions
) -> None:
    target = options.out or default_out("thresholds")
    released = read_curves(directory)
    found = choose_again(released, choice, positive, target)
    show(*view.chosen_again(found, released.run, released.manifest), results(target))
    if options.json:
        print((target / "thresholds.json").read_text(encoding="utf-8"), end="")
