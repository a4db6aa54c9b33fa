"""`weights`: DP sample weights per group and label."""

from __future__ import annotations

from typing import Any

from harness.cli.commands.release import ReleaseOptions
from harness.cli.options import parse_choice
from harness.cli.terminal import command
from harness.pipeline.run import Run
from harness.postprocessing.reweighing.formulas import REWEIGHINGS
from harness.releases.weights import WeightsOnlyStatistic, WeightsStatistic
from harness.views import weights as show
from protocols.spec import PI_RW, PI_RW_SLOTS, PI_RW_WEIGHTS


@command
def weights(options: ReleaseOptions, reweighing: str, reveal: str) -> None:
    """Run π_RW on a records file or on shares, all parties on this machine."""
    revealed = parse_choice("--reveal", reveal, ["counts", "weights"])
    spec = PI_RW_WEIGHTS if revealed == "weights" else PI_RW_SLOTS if options.by_slots else PI_RW
    settings = options.settings(spec)
    scheme = parse_choice("--reweighing", reweighing, list(REWEIGHINGS))
    run: Run[Any]
    if revealed == "counts":
        run, target = options.run(WeightsStatistic(scheme, spec), settings, show.WEIGHT_STEPS)
        show.weights(run)
    else:
        run, target = options.run(WeightsOnlyStatistic(scheme), settings, show.WEIGHTS_ONLY_STEPS)
        show.opened_weights(run)
    options.conclude(run, target)
